//! What the control API asks of the router; one thing after the other, on the control thread.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use howdah_config::Config;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::apply::{ApplyError, Parts};
use super::link::Link;
use super::pools::Pools;
use crate::shard::{self, Shared};

/// What the front of the control API is started with.
#[derive(Debug)]
pub struct Control {
    /// The listening socket.
    pub listener: OwnedFd,
    /// Its address.
    pub address: String,
    /// The document that runs.
    pub document: Value,
    /// To carry commands out.
    pub commands: Commands,
}

/// Carries commands out. Every command waits for those before it.
#[derive(Debug, Clone)]
pub struct Commands {
    jobs: UnboundedSender<Job>,
    shards: Arc<[shard::Handle]>,
    php: Arc<[(String, String)]>,
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
}

/// A command and where its outcome goes.
#[derive(Debug)]
pub(super) enum Job {
    Apply { config: Box<Config>, text: Vec<u8>, done: oneshot::Sender<Result<(), ApplyError>> },
    Report { done: oneshot::Sender<Vec<ApplicationReport>> },
    Restart { name: String, done: oneshot::Sender<Result<(), String>> },
}

/// Both ends of the line to the control thread.
pub(super) fn channel(
    shards: Arc<[shard::Handle]>,
    php: Vec<(String, String)>,
) -> (Commands, UnboundedReceiver<Job>) {
    let (jobs, receiver) = unbounded_channel();
    (Commands { jobs, shards, php: php.into() }, receiver)
}

const GONE: &str = "the server is being stopped";

impl Commands {
    /// Makes a configuration the running one, and stores its text.
    pub async fn apply(&self, config: Config, text: Vec<u8>) -> Result<(), ApplyError> {
        let (done, outcome) = oneshot::channel();
        let _ = self.jobs.send(Job::Apply { config: Box::new(config), text, done });
        outcome.await.unwrap_or_else(|_| Err(ApplyError::NotApplied(GONE.to_owned())))
    }

    /// Replaces all workers of an application. `Err` says why there are no new ones; then the old
    /// ones go on.
    pub async fn restart(&self, name: String) -> Result<(), String> {
        let (done, outcome) = oneshot::channel();
        let _ = self.jobs.send(Job::Restart { name, done });
        outcome.await.unwrap_or_else(|_| Err(GONE.to_owned()))
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
        report
    }
}

impl Job {
    /// Carries the command out. Whoever asked may have gone meanwhile.
    pub(super) async fn run(
        self,
        link: &Link,
        shared: &Arc<Shared>,
        shards: &Arc<[shard::Handle]>,
        pools: &mut Pools,
    ) {
        let parts = Parts { link, shared, shards, pools };
        match self {
            Job::Apply { config, text, done } => {
                let _ = done.send(parts.apply(*config, Some(&text), false).await);
            }
            Job::Report { done } => {
                let _ = done.send(parts.pools.report());
            }
            Job::Restart { name, done } => {
                let _ = done.send(parts.restart(&name).await);
            }
        }
    }
}
