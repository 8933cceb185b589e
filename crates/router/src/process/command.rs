//! Commands to the control thread, from certificate renewal. It carries them out one after the other.
//! A [`Question`] of the control API does not wait for them.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime};

use howdah_acme::{self as acme, AcmeReports};
use howdah_limits::ranking::Ranked;
use howdah_limits::zone::Zone;
use howdah_php_pool::status_page::Pool;
use howdah_pipeline::thread::Shared;
use howdah_sys::clock;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::control_thread::ControlThread;
use super::question::Question;
use super::report::{LimitReport, Report, TlsReport, Tuning};
use super::sandbox::RouterSandbox;
use super::threads::Threads;

/// Passed to the task that answers the control processes.
#[derive(Debug)]
pub struct Queries {
    /// The router's end of a socket for each control process that is started.
    pub links: UnboundedReceiver<OwnedFd>,
    /// Sends commands to the control thread.
    pub commands: Commands,
}

/// Sends commands and questions to the control thread. Every command waits for those before it.
#[derive(Debug, Clone)]
pub struct Commands {
    renewal: UnboundedSender<acme::Command>,
    questions: UnboundedSender<Question>,
    shared: Arc<Shared>,
    threads: Threads,
    sandbox: Arc<RouterSandbox>,
    php: Arc<[(String, String)]>,
    certificates: AcmeReports,
    /// The start of the router, for the status.
    started: (SystemTime, Instant),
}

const STOPPED: &str = "the server is being stopped";

impl Commands {
    /// Creates the sender and the receiver of commands. `php` has the versions of PHP with their
    /// programs, `certificates` the state of certificate renewal.
    pub(super) fn new(
        control: &ControlThread,
        php: Vec<(String, String)>,
        certificates: AcmeReports,
    ) -> (Self, UnboundedReceiver<acme::Command>) {
        let (renewal, receiver) = unbounded_channel();
        let commands = Commands {
            renewal,
            questions: control.questions.0.clone(),
            shared: Arc::clone(&control.shared),
            threads: control.threads.clone(),
            sandbox: Arc::clone(&control.sandbox),
            php: php.into(),
            certificates,
            started: (SystemTime::now(), Instant::now()),
        };
        (commands, receiver)
    }

    /// Replaces all workers of an application. Error: the reason why there are no new ones; then
    /// the old workers go on.
    pub async fn restart(&self, name: String) -> Result<(), String> {
        let (done, outcome) = oneshot::channel();
        let _ = self.questions.send(Question::Restart { name, done });
        outcome.await.unwrap_or_else(|_| Err(STOPPED.to_owned()))
    }

    /// Explains the number of an application's workers; `None` if the application does not exist.
    pub async fn tune(&self, name: String) -> Option<Tuning> {
        let (done, tuning) = oneshot::channel();
        let _ = self.questions.send(Question::Tune { name, done });
        tuning.await.ok().flatten()
    }

    /// Returns the commands that certificate renewal uses.
    pub(super) fn for_renewal(&self) -> acme::Commands {
        let renewal = self.renewal.clone();
        acme::Commands::new(move |command| drop(renewal.send(command)))
    }

    /// Returns the state of all applications, or of the application with this name, with all
    /// workers. Does not wait.
    pub fn pools(&self, name: Option<&str>) -> Vec<Pool> {
        let snapshot = self.shared.snapshot.load();
        let applications = snapshot.config.applications.iter();
        let named = applications.filter(|found| name.is_none_or(|name| found.name == name));
        let found = named.filter_map(|found| snapshot.applications.get(&found.name));
        found.map(|application| Pool::of(application, true)).collect()
    }

    /// Returns the state of the server.
    pub async fn report(&self) -> Report {
        let (done, reported) = oneshot::channel();
        let _ = self.questions.send(Question::Report { done });
        let (pools, out) = reported.await.unwrap_or_default();
        let mut report = Report { php: self.php.to_vec(), pools, out, ..Report::default() };
        for thread in self.threads.iter() {
            let counters = thread.counters();
            let active = counters.active.load(Relaxed);
            report.accepted += counters.accepted.load(Relaxed);
            report.closed += counters.closed.load(Relaxed);
            report.active += active;
            report.idle += counters.open().saturating_sub(active);
            report.requests += counters.requests.load(Relaxed);
        }
        let (started_at, start) = self.started;
        report.started_at = Some(started_at);
        report.uptime = start.elapsed();
        let snapshot = self.shared.snapshot.load();
        let names = snapshot.config.listeners.iter().map(|listener| listener.name.clone());
        report.listeners = names.collect();
        report.protection = self.sandbox.protection().clone();
        report.protected = { snapshot.config.applications.iter() }
            .map(|application| (application.name.clone(), report.protection.of(application)))
            .collect();
        report.acme = self.certificates.all();
        report.tls = self.tls();
        report.limits = self.limits();
        report.caches = { self.stores(None).into_iter() }
            .map(|store| (store.config().name.clone(), store.report()))
            .collect();
        report.cluster = self.shared.cluster.report();
        report.upstreams = { snapshot.config.upstreams.iter() }
            .filter_map(|config| snapshot.upstreams.get_key_value(&config.name))
            .map(|(name, upstream)| (name.clone(), upstream.report()))
            .collect();
        report
    }

    /// Returns what router threads share.
    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    fn limits(&self) -> Vec<LimitReport> {
        /// Number of refused keys of a zone that are reported.
        const MAX_KEYS: usize = 20;
        let (snapshot, now) = (self.shared.snapshot.load(), clock::monotonic_us() * 1000);
        let report = |zone: &Arc<Zone>| {
            let aged = |key: Ranked| {
                let age = Duration::from_nanos(now.saturating_sub(key.last));
                (key, age)
            };
            let top = zone.top(MAX_KEYS).into_iter().map(aged).collect();
            LimitReport { zone: zone.report(now), top }
        };
        snapshot.zones.all().into_iter().map(report).collect()
    }

    fn tls(&self) -> Vec<TlsReport> {
        let snapshot = self.shared.snapshot.load();
        let names = snapshot.config.listeners.iter().map(|listener| &listener.name);
        let found = names.filter_map(|name| {
            let tls = snapshot.listeners.get(name)?.tls.as_ref()?;
            let counters = tls.counters();
            Some(TlsReport {
                name: name.clone(),
                handshakes: counters.handshakes.load(Relaxed),
                resumed: counters.resumed.load(Relaxed),
                failed: counters.failed.load(Relaxed),
                certificates: tls.in_use(),
            })
        });
        found.collect()
    }
}

impl ControlThread {
    /// Carries a command of certificate renewal out. Its sender may have gone meanwhile.
    pub(super) async fn carry_out(&mut self, command: acme::Command) {
        match command {
            acme::Command::KeepCertificate { name, pem: acme::Secret(pem), done } => {
                let _ = done.send(self.keep_certificate(name, pem).await);
            }
            acme::Command::UseCertificate { name, done } => {
                self.renew_stored(&name).await;
                let _ = done.send(());
            }
            acme::Command::ReadFile { path, done } => {
                let _ = done.send(self.read_file(&path).await);
            }
            acme::Command::Run { run, done } => self.programs.run(&self.link, run, done),
        }
    }
}
