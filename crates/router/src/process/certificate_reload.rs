//! Renews certificates of the current configuration: those of the store when they change there, and
//! files when a check every [`CHECK_INTERVAL`] finds new ones.

use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_config::{Acme, Certificate, Listener, Tls, UpstreamTls};
use howdah_pipeline::thread::Shared;
use howdah_routing::snapshot::Snapshot;
use howdah_sys::log::Level;
use howdah_tls::{Source, TlsClient, TlsListener, client_sources, sources};

use super::control_thread::ControlThread;
use super::out::{Extent, Found, PartKind};
use super::trigger::Trigger;

/// Interval between two checks of certificate files.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// State of the checks of certificate files.
pub(super) struct CertificateWatch {
    due: Instant,
    /// Reason why the last check could not use the changed files; it is logged once.
    reported: Option<String>,
}

impl CertificateWatch {
    /// Starts with the first check after one interval.
    pub(super) fn new() -> Self {
        CertificateWatch { due: Instant::now() + CHECK_INTERVAL, reported: None }
    }

    /// Waits until the next check; forever if the current configuration names no files.
    pub(super) async fn wait(&mut self, shared: &Shared) {
        if !has_files(&shared.snapshot.load()) {
            return std::future::pending().await;
        }
        tokio::time::sleep_until(self.due.into()).await;
        self.due = Instant::now() + CHECK_INTERVAL;
    }
}

/// Result of a check.
#[derive(Default)]
struct Findings {
    /// Listeners or clients must be created again.
    is_outdated: bool,
    /// Listeners and upstreams that stay as they are.
    stale: Vec<Found>,
}

impl ControlThread {
    /// Gives a certificate that has changed in the store to the listeners that use it.
    pub(super) async fn renew_stored(&mut self, name: &str) {
        let shared = Arc::clone(&self.shared);
        let snapshot = shared.snapshot.load_full();
        for listener in &snapshot.config.listeners {
            let running = snapshot.listeners.get(&listener.name);
            let running = running.and_then(|running| running.tls.as_ref());
            let (Some(running), Some(settings)) = (running, &listener.tls) else { continue };
            let is_used = sources(settings).contains(&Source::Stored(name.to_owned()));
            let on_demand = settings.acme.iter().any(|acme| acme.on_demand.is_some());
            let renewed = match self.certificates.get(name).cloned() {
                _ if is_used => {
                    let problems = running.renew(&self.material(sources(settings)).await).1;
                    let mut problems = problems.into_iter();
                    let own = problems.find(|unusable| unusable.name() == name);
                    // A certificate that stays in use is reported as a part that is out.
                    own.filter(|own| !own.has_earlier).map_or(Ok(()), |own| Err(own.problem))
                }
                Some(pem) if on_demand && name.starts_with(Acme::PREFIX) => running.add(&pem),
                _ => Ok(()),
            };
            if let Err(problem) = renewed {
                shared.log.write(
                    Level::Alert,
                    format_args!(
                        "listener {}: {problem}; the old certificates stay in use",
                        listener.name
                    ),
                );
            }
        }
    }

    /// Uses new certificates from files. Files that cannot be read or do not match each other leave
    /// the old certificates in use, and are told as parts that are out.
    pub(super) async fn renew_from_files(&mut self, watch: &mut CertificateWatch) {
        let snapshot = self.shared.snapshot.load_full();
        let mut findings = Findings::default();
        self.check_listeners(&snapshot, &mut findings).await;
        self.check_clients(&snapshot, &mut findings).await;
        let Findings { is_outdated, stale } = findings;
        self.stale_tls = stale;
        let mut problem = None;
        if is_outdated {
            let applied = self.apply(snapshot.config.clone(), Trigger::CertificateFiles).await;
            problem = applied.err().map(|problem| problem.to_string());
        }
        if let Some(problem) = problem.as_ref().filter(|_| problem != watch.reported) {
            let line = format_args!(
                "new certificates cannot be used: {problem}; the old ones stay in use"
            );
            self.shared.log.write(Level::Alert, line);
        }
        watch.reported = problem;
    }

    async fn check_listeners(&mut self, snapshot: &Snapshot, findings: &mut Findings) {
        for listener in &snapshot.config.listeners {
            let running = snapshot.listeners.get(&listener.name);
            let running = running.and_then(|running| running.tls.as_ref());
            let (Some(running), Some(settings)) = (running, &listener.tls) else { continue };
            if !names_files(settings) {
                continue;
            }
            let material = self.material(sources(settings)).await;
            let name = &listener.name;
            if !running.has_settings(settings, &material) {
                // A listener with other client authorities is another listener.
                match TlsListener::without_unusable(settings, &material) {
                    Ok(_) => findings.is_outdated = true,
                    // A closed listener has been reported.
                    Err(_) if running.closed_because().is_some() => {}
                    Err(problem) => {
                        findings.stale.push(stale(PartKind::Listener, name, &problem));
                    }
                }
                continue;
            }
            // A certificate that cannot be used must not delay the renewal of others.
            let (is_new, _) = running.renew(&material);
            if is_new {
                let line = format_args!("listener {name}: new certificates are in use");
                self.shared.log.write(Level::Notice, line);
            }
        }
    }

    async fn check_clients(&mut self, snapshot: &Snapshot, findings: &mut Findings) {
        for (settings, running) in &snapshot.tls_clients {
            if watched(settings).next().is_none() && running.problem().is_none() {
                continue;
            }
            let material = self.material(client_sources(settings)).await;
            if running.is_of(settings, &material) {
                continue;
            }
            match TlsClient::new(settings, &material) {
                Ok(_) => findings.is_outdated = true,
                Err(_) if running.problem().is_some() => {} // it has been reported
                Err(problem) => {
                    let upstreams = snapshot.config.upstream_tls().into_iter();
                    let places = upstreams.filter(|(_, other)| other == settings);
                    let stale =
                        |(place, _): (String, _)| stale(PartKind::Upstream, &place, &problem);
                    findings.stale.extend(places.map(stale));
                }
            }
        }
    }
}

/// Returns a listener or upstream that keeps its TLS, as new files cannot be used.
pub(super) fn stale(kind: PartKind, name: &str, problem: &str) -> Found {
    let reason = format!("{problem}; the old files stay in use");
    Found { extent: Extent::Stale, ..Found::out(kind, name, reason) }
}

/// Returns true if the snapshot has certificate files to check.
fn has_files(snapshot: &Snapshot) -> bool {
    let of_listener = |listener: &Listener| listener.tls.as_ref().is_some_and(names_files);
    let of_client = |(settings, client): (&UpstreamTls, &Arc<TlsClient>)| {
        watched(settings).next().is_some() || client.problem().is_some()
    };
    snapshot.tls_clients.iter().any(of_client) || snapshot.config.listeners.iter().any(of_listener)
}

fn names_files(settings: &Tls) -> bool {
    sources(settings).iter().any(|source| matches!(source, Source::File(_)))
}

/// Returns the files of a TLS client that are watched. Authorities that the system trusts change
/// with its packages, and count from the next change of the configuration.
fn watched(settings: &UpstreamTls) -> impl Iterator<Item = Source> {
    let own = settings.authorities.is_some();
    let own = own || matches!(settings.certificate, Some(Certificate::Files { .. }));
    client_sources(settings).into_iter().filter(move |_| own)
}
