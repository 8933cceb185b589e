//! The content of `/status` that the router knows.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use howdah_questions::{
    CertificateStatus, Handshakes, ListenerStatus, Module, Named, ProgramStatus, Protection,
    Renewal, Status, TelemetryStatus,
};
use howdah_routing::snapshot::Snapshot;
use howdah_sys::clock;
use howdah_text::date;
use howdah_tls::Counters;
use tokio::sync::oneshot;

use super::command::Commands;
use super::question::Question;

impl Commands {
    /// Returns the state of the server.
    pub(super) async fn status(&self) -> Status {
        self.usage.refresh().await;
        let processes = self.processes.list().await;
        let (done, reported) = oneshot::channel();
        let _ = self.questions.send(Question::Report { processes, done });
        let mut status = reported.await.unwrap_or_default();
        let module = |(version, program): &(String, String)| Module {
            version: version.clone(),
            lib: program.clone(),
        };
        status.modules.php = self.php.iter().map(module).collect();
        for thread in self.threads.iter() {
            let counters = thread.counters();
            let active = counters.active.load(Relaxed);
            status.connections.accepted += counters.accepted.load(Relaxed);
            status.connections.closed += counters.closed.load(Relaxed);
            status.connections.active += active;
            status.connections.idle += counters.open().saturating_sub(active);
            status.requests.total += counters.requests.load(Relaxed);
        }
        let (started_at, start) = self.started;
        status.server = Some(ProgramStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime: start.elapsed().as_secs(),
            started: http_date(started_at),
        });
        let snapshot = self.shared.snapshot.load();
        let protection = self.sandbox.protection();
        status.protection = Protection {
            landlock: protection.landlock,
            router: protection.router.clone().status(),
            applications: { snapshot.config.applications.iter() }
                .map(|one| (one.name.clone(), protection.of(one).status()))
                .collect(),
        };
        status.upstreams = snapshot
            .config
            .upstreams
            .iter()
            .filter_map(|config| snapshot.upstreams.get_key_value(&config.name))
            .map(|(name, upstream)| (name.clone(), upstream.report()))
            .collect();
        status.listeners = listeners(&snapshot);
        status.certificates = self.certificates(&snapshot);
        let caches = self.stores(None).into_iter();
        status.caches = caches.map(|store| (store.config().name.clone(), store.report())).collect();
        let (zones, now) = (snapshot.zones.all(), clock::monotonic_us() * 1000);
        status.limits = zones.iter().map(|zone| (zone.name.clone(), zone.report(now))).collect();
        if snapshot.config.applications.iter().any(|application| !application.jobs.is_empty()) {
            status.jobs = self.jobs.for_status().await;
        }
        status.sites = self.usage.last_minute();
        status.cluster = self.shared.cluster.report();
        let has_telemetry = snapshot.config.settings.telemetry.is_some();
        status.telemetry =
            has_telemetry.then(|| TelemetryStatus { spans_lost: self.shared.spans.lost() });
        status
    }

    /// Returns the certificates that listeners use, and those that the server obtains itself.
    fn certificates(&self, snapshot: &Snapshot) -> Named<CertificateStatus> {
        let mut all = Named::<CertificateStatus>::default();
        let names = snapshot.config.listeners.iter().map(|listener| &listener.name);
        let tls = names.filter_map(|name| snapshot.listeners.get(name)?.tls.as_ref());
        for one in tls.flat_map(|tls| tls.in_use()) {
            let expires = http_date(UNIX_EPOCH + Duration::from_secs(one.validity.until));
            let status = CertificateStatus { names: one.names, expires, renewal: None };
            all.entry(one.name).or_insert(status);
        }
        for one in self.certificates.all() {
            let (next, failures, error) = (one.next.and_then(http_date), one.failures, one.error);
            let new = || CertificateStatus {
                names: one.domains,
                expires: one.expires.and_then(http_date),
                renewal: None,
            };
            let status = all.entry(one.name).or_insert_with(new);
            status.renewal = Some(Renewal { next, failures, error });
        }
        all
    }
}

fn listeners(snapshot: &Snapshot) -> Named<ListenerStatus> {
    let handshakes = |name: &str| {
        let counters = snapshot.listeners.get(name)?.tls.as_ref()?.counters();
        Some(Handshakes {
            handshakes: counters.handshakes.load(Relaxed),
            resumed: counters.resumed.load(Relaxed),
            failed: counters.failed.load(Relaxed),
            versions: versions(counters),
        })
    };
    let names = snapshot.config.listeners.iter().map(|listener| listener.name.clone());
    names.map(|name| (name.clone(), ListenerStatus { tls: handshakes(&name) })).collect()
}

/// Returns the numbers of handshakes by version, without those that nobody uses.
fn versions(counters: &Counters) -> Named<u64> {
    let tls12 = counters.tls12.load(Relaxed);
    let tls13 = counters.handshakes.load(Relaxed).saturating_sub(tls12);
    let all = [("TLSv1.2", tls12), ("TLSv1.3", tls13)].into_iter();
    all.filter(|(_, count)| *count > 0).map(|(name, count)| (name.to_owned(), count)).collect()
}

/// Formats an HTTP date; `None` after the year 9999.
pub(super) fn http_date(time: SystemTime) -> Option<String> {
    let seconds = time.duration_since(UNIX_EPOCH).ok()?.as_secs();
    (seconds < 253_402_300_800).then(|| date::http_of(time))
}
