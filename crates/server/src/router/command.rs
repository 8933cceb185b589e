//! What the control process and the certificates ask of the router; one thing after the other, on the control thread.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use howdah_acme::{self as acme, AcmeReport, Board};
use howdah_config::Processes;
use howdah_php_pool::sizing::{Decision, Measured};
use howdah_php_pool::status_page::Pool;
use howdah_tls::InUse;
use howdah_upstream::upstream::ServerReport;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::apply::Parts;
use super::sandbox::{Protected, Protection};
use crate::thread;
use crate::thread::Shared;

/// What answers the control process is started with this.
#[derive(Debug)]
pub struct Queries {
    /// Has the router's end of a socket for each control process that is started.
    pub links: UnboundedReceiver<OwnedFd>,
    /// To carry commands out.
    pub commands: Commands,
}

/// Carries commands out. Every command waits for those before it.
#[derive(Debug, Clone)]
pub struct Commands {
    jobs: UnboundedSender<Job>,
    shared: Arc<Shared>,
    shards: Arc<[thread::Handle]>,
    php: Arc<[(String, String)]>,
    board: Board,
}

/// What the server does at this moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Versions of PHP, and the programs that run them.
    pub php: Vec<(String, String)>,
    /// Connections accepted since the start.
    pub accepted: u64,
    /// Open connections with a request that is being answered.
    pub active: u64,
    /// Open connections without one.
    pub idle: u64,
    /// Connections closed since the start.
    pub closed: u64,
    /// Requests since the start.
    pub requests: u64,
    /// Applications, by name.
    pub applications: Vec<ApplicationReport>,
    /// Upstreams with their servers, by name.
    pub upstreams: Vec<(String, Vec<ServerReport>)>,
    /// Certificates that the server gets by itself.
    pub acme: Vec<AcmeReport>,
    /// Listeners that speak TLS, by name.
    pub tls: Vec<TlsReport>,
    /// What protects the processes from each other.
    pub protection: Protection,
    /// What protects others from each application, by name.
    pub protected: Vec<(String, Protected)>,
}

/// How a listener speaks TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsReport {
    /// The listener's name.
    pub name: String,
    /// Handshakes since the start.
    pub handshakes: u64,
    /// Those that have taken a session up again.
    pub resumed: u64,
    /// Handshakes that have failed.
    pub failed: u64,
    /// Its configured certificates.
    pub certificates: Vec<InUse>,
}

/// What an application does at this moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApplicationReport {
    /// Its name.
    pub name: String,
    /// Workers that run.
    pub running: u64,
    /// Workers that are being started.
    pub starting: u64,
    /// Workers without a request.
    pub idle: u64,
    /// Requests that wait or run.
    pub active: u64,
    /// Why it does not run, or why its workers end.
    pub problem: Option<String>,
}

/// How the number of an application's workers came about.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuning {
    /// What is configured.
    pub processes: Processes,
    /// Why it does not run, or why its workers end.
    pub problem: Option<String>,
    /// Workers that run.
    pub running: u32,
    /// What was measured.
    pub measured: Measured,
    /// What automatic sizing makes of it.
    pub decision: Decision,
    /// Bytes that the prototype takes, shared pages in proportion.
    pub prototype: u64,
    /// Bytes that the workers take together, likewise.
    pub workers: u64,
}

/// A command and where its outcome goes.
#[derive(Debug)]
pub(super) enum Job {
    Report { done: oneshot::Sender<Vec<ApplicationReport>> },
    Restart { name: String, done: oneshot::Sender<Result<(), String>> },
    Tune { name: String, done: oneshot::Sender<Option<Tuning>> },
    Certificates(acme::Command),
}

/// Both ends of the line to the control thread.
pub(super) fn channel(
    shared: Arc<Shared>,
    shards: Arc<[thread::Handle]>,
    php: Vec<(String, String)>,
    board: Board,
) -> (Commands, UnboundedReceiver<Job>) {
    let (jobs, receiver) = unbounded_channel();
    (Commands { jobs, shared, shards, php: php.into(), board }, receiver)
}

const GONE: &str = "the server is being stopped";

impl Commands {
    /// Replaces all workers of an application. `Err` says why there are no new ones; then the old
    /// ones go on.
    pub async fn restart(&self, name: String) -> Result<(), String> {
        let (done, outcome) = oneshot::channel();
        let _ = self.jobs.send(Job::Restart { name, done });
        outcome.await.unwrap_or_else(|_| Err(GONE.to_owned()))
    }

    /// Says how the number of an application's workers came about; `None` if there is no such
    /// application.
    pub async fn tune(&self, name: String) -> Option<Tuning> {
        let (done, tuning) = oneshot::channel();
        let _ = self.jobs.send(Job::Tune { name, done });
        tuning.await.ok().flatten()
    }

    /// The part of the commands that certificate renewal uses.
    pub(super) fn for_renewal(&self) -> acme::Commands {
        let jobs = self.jobs.clone();
        acme::Commands::new(move |command| drop(jobs.send(Job::Certificates(command))))
    }

    /// Looks at the applications, or at the one of this name, with all workers. Waits for nothing.
    pub fn pools(&self, name: Option<&str>) -> Vec<Pool> {
        let snapshot = self.shared.snapshot.load();
        let applications = snapshot.config.applications.iter();
        let named = applications.filter(|found| name.is_none_or(|name| found.name == name));
        let found = named.filter_map(|found| snapshot.applications.get(&found.name));
        found.map(|application| Pool::of(application, true)).collect()
    }

    /// How the listeners speak TLS.
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

    /// Says what the server does at this moment.
    pub async fn report(&self) -> Report {
        let (done, applications) = oneshot::channel();
        let _ = self.jobs.send(Job::Report { done });
        let applications = applications.await.unwrap_or_default();
        let mut report = Report { php: self.php.to_vec(), applications, ..Report::default() };
        for shard in self.shards.iter() {
            let counters = shard.counters();
            let active = counters.active.load(Relaxed);
            report.accepted += counters.accepted.load(Relaxed);
            report.closed += counters.closed.load(Relaxed);
            report.active += active;
            report.idle += counters.open().saturating_sub(active);
            report.requests += counters.requests.load(Relaxed);
        }
        let snapshot = self.shared.snapshot.load();
        report.protection = self.shared.bounds.protection().clone();
        report.protected = { snapshot.config.applications.iter() }
            .map(|one| (one.name.clone(), report.protection.of(one)))
            .collect();
        report.acme = self.board.all();
        report.tls = self.tls();
        report.upstreams = { snapshot.config.upstreams.iter() }
            .filter_map(|config| snapshot.upstreams.get_key_value(&config.name))
            .map(|(name, upstream)| (name.clone(), upstream.report()))
            .collect();
        report
    }
}

impl Job {
    /// Carries the command out. Whoever asked may have gone meanwhile.
    pub(super) async fn run(self, parts: Parts<'_>) {
        match self {
            Job::Report { done } => {
                let _ = done.send(parts.pools.report());
            }
            Job::Restart { name, done } => {
                let _ = done.send(parts.restart(&name).await);
            }
            Job::Tune { name, done } => {
                let _ = done.send(parts.pools.tuning(&name));
            }
            Job::Certificates(command) => parts.carry_out(command).await,
        }
    }
}

impl Parts<'_> {
    /// Carries out a command of certificate renewal.
    async fn carry_out(mut self, command: acme::Command) {
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
            acme::Command::Run { run, done } => self.programs.run(self.link, run, done),
        }
    }
}
