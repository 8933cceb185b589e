//! The control thread of the router: its state, and waiting for answers of the supervisor.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use howdah_config::{Address, Defaults};
use howdah_dns::{self as names, Names};
use howdah_php_pool::thread::ControlRequest;
use howdah_pipeline::metrics::MetricsRequest;
use howdah_pipeline::probes::ReadinessRequest;
use howdah_pipeline::thread::Shared;
use howdah_questions::{ConfigurationStatus, obstacle};
use howdah_tls::stored::Certificates;
use howdah_wire::messages::FromSupervisor;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::closed_listeners::ClosedListeners;
use super::http3::Http3Process;
use super::jobs::JobQuestions;
use super::link::{Link, Message};
use super::out::{Found, OutPart, OutParts, PartKind};
use super::out_parts;
use super::pools::Pools;
use super::programs::Programs;
use super::question::Question;
use super::sandbox::RouterSandbox;
use super::server_status::http_date;
use super::site_logs::SiteLogFiles;
use super::threads::Threads;
use super::timer_runs;
use super::trigger::{CHANGE_TIMEOUT, LOOK_TIMEOUT, START_TIMEOUT};
use super::usage::UsageReports;

/// State of the control thread. Other files of this folder add its functions.
pub(super) struct ControlThread {
    /// Socket to the supervisor.
    pub(super) link: Rc<Link>,
    pub(super) shared: Arc<Shared>,
    pub(super) threads: Threads,
    pub(super) sandbox: Arc<RouterSandbox>,
    pub(super) pools: Pools,
    /// The certificate store. A bundle that a listener names stays until none does.
    pub(super) certificates: Certificates,
    pub(super) programs: Programs,
    /// Logs of sites.
    pub(super) site_logs: SiteLogFiles,
    /// What sites have used.
    pub(super) usage: Rc<UsageReports>,
    pub(super) jobs: Rc<JobQuestions>,
    /// Requests for metrics, until the event loop takes them.
    pub(super) metrics_requests: Option<UnboundedReceiver<MetricsRequest>>,
    /// Readiness probes, until the event loop takes them.
    pub(super) readiness_requests: Option<UnboundedReceiver<ReadinessRequest>>,
    /// The socket of the telemetry process for metrics, until the event loop takes it.
    pub(super) metrics_socket: Option<OwnedFd>,
    /// The time at which the current configuration came into use.
    pub(super) applied_at: Option<SystemTime>,
    /// Time since 1970 in seconds since which the document at its source is refused; 0 if it is
    /// not.
    pub(super) refused_since: Rc<Cell<u64>>,
    /// Addresses of servers that are configured by name.
    pub(super) names: Names,
    /// Requests of the router threads.
    pub(super) thread_requests: UnboundedReceiver<ControlRequest>,
    /// Questions about the state, which are answered at any time, and their sender.
    pub(super) questions: (UnboundedSender<Question>, UnboundedReceiver<Question>),
    /// Defaults of documents.
    pub(super) defaults: Defaults,
    /// Address of the dashboard process, while the configuration has its action.
    pub(super) dashboard: Address,
    /// Another change waits for the one that is being made.
    pub(super) is_hurried: bool,
    /// The server is about to end.
    pub(super) is_leaving: bool,
    /// A document of which a part cannot run is refused, also when it is read again.
    pub(super) is_strict: bool,
    /// Parts of the configuration that are out.
    pub(super) out: OutParts,
    /// The state directory, or the log, if the supervisor cannot write to them.
    pub(super) problems_of_supervisor: Vec<Found>,
    /// Listeners and upstreams that keep their TLS because files of it, other than certificates,
    /// cannot be used.
    pub(super) stale_tls: Vec<Found>,
    /// Listeners whose addresses could not be listened on.
    pub(super) closed: ClosedListeners,
    /// Its part of HTTP/3.
    pub(super) http3: Http3Process,
    /// Files of databases that could not be read, with the problems.
    pub(super) unread: BTreeMap<PathBuf, String>,
}

impl ControlThread {
    /// Handles a message that needs no state of the event loop.
    pub(super) fn on_message(
        &mut self,
        message: FromSupervisor,
        descriptors: Vec<OwnedFd>,
    ) -> io::Result<()> {
        match message {
            FromSupervisor::Ping { number, refused_since } => {
                self.answer_ping(number, refused_since);
                Ok(())
            }
            FromSupervisor::Reopened {} => self.reopen_logs(descriptors.into_iter().next()),
            FromSupervisor::Bound { address } => self.on_bound(&address, descriptors),
            FromSupervisor::BindFailed { address, message, .. } => {
                self.closed.failed(&address, message, Instant::now());
                Ok(())
            }
            FromSupervisor::LogOpened { path, error } => {
                self.on_log_opened(&path, &error, descriptors.into_iter().next());
                Ok(())
            }
            FromSupervisor::CacheOpened { path, error } => {
                self.on_cache_opened(&path, &error, descriptors.into_iter().next());
                Ok(())
            }
            FromSupervisor::Unwritable { state, log, former_log } => {
                let found = |kind, parts: Vec<(String, String)>| {
                    parts.into_iter().map(move |(name, why)| Found::out(kind, name, why))
                };
                let former = former_log.iter().map(|(name, why)| out_parts::former_log(name, why));
                let found = found(PartKind::State, state).chain(found(PartKind::Log, log));
                self.problems_of_supervisor = found.chain(former).collect();
                Ok(())
            }
            FromSupervisor::Leaving { milliseconds } => {
                self.leave(Duration::from_millis(milliseconds));
                Ok(())
            }
            FromSupervisor::NameFiles {} => {
                names::files::FILES.take(descriptors);
                Ok(())
            }
            FromSupervisor::Usage { number, error } => {
                self.usage.answered(number, error, descriptors.into_iter().next());
                Ok(())
            }
            FromSupervisor::Jobs { number, error } => {
                self.jobs.answered(number, error, descriptors.into_iter().next());
                Ok(())
            }
            FromSupervisor::ClaimRun { .. }
            | FromSupervisor::HoldRun { .. }
            | FromSupervisor::EndRun { .. } => {
                timer_runs::on_message(message, &self.shared.cluster, &self.link);
                Ok(())
            }
            message => self.pools.on_message(message, descriptors),
        }
    }

    /// Answers a question. Its sender may have gone meanwhile.
    pub(super) fn answer(&mut self, question: Question) {
        match question {
            Question::Report { processes, done } => {
                self.update_out_parts();
                let mut status = self.pools.status(&processes);
                status.configuration = Some(ConfigurationStatus {
                    generation: self.pools.generation,
                    applied: self.applied_at.and_then(http_date),
                });
                let list = self.out.list();
                let (warnings, out) = list.iter().partition(|part| part.extent.is_warning());
                let parts = |list: Vec<&OutPart>| list.into_iter().map(OutPart::status).collect();
                status.is_leaving = self.is_leaving;
                (status.warnings, status.out) = (parts(warnings), parts(out));
                drop(done.send(status));
            }
            Question::Readiness { done } => drop(done.send(self.obstacle())),
            Question::Tune { name, done } => drop(done.send(self.pools.tuning(&name))),
            Question::SlowScripts { name, applications, done } => {
                let kept = &self.pools.traces.kept;
                drop(done.send(kept.of(name.as_deref(), applications.as_deref())));
            }
            Question::Restart { name, done } => {
                // Without the supervisor, the server ends.
                let _ = self.pools.ask_for_restart(&name, done, Instant::now(), CHANGE_TIMEOUT);
            }
        }
    }

    /// Returns the reason why visitors cannot be served, if there is one.
    fn obstacle(&self) -> Option<String> {
        let config = &self.shared.snapshot.load().config;
        let [metrics, probes] = [&config.settings.metrics, &config.settings.probes];
        let own = metrics.listeners.len() + probes.listeners.len();
        let problems: Vec<_> = self.pools.problems().collect();
        let named = problems.iter().map(|(name, problem)| (*name, problem.as_str()));
        obstacle(config.listeners.len() > own, self.is_leaving, named)
    }

    /// Waits for the message that `pick` takes; `pick` hands back all others. Error: the reason why
    /// none will come.
    pub(super) async fn receive_answer<T>(
        &mut self,
        mut pick: impl FnMut(Message) -> Result<T, Box<Message>>,
    ) -> Result<T, String> {
        loop {
            let message = self.receive_until(None).await?;
            let message = message.ok_or("the supervisor does not answer")?;
            match pick(message) {
                Ok(answer) => return Ok(answer),
                Err(unrelated) => {
                    let (other, descriptors) = *unrelated;
                    self.on_unrelated(other, descriptors)?;
                }
            }
        }
    }

    /// Waits for other work. Meanwhile the supervisor gets answers, and the applications get
    /// workers.
    pub(super) async fn meanwhile<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<T, String> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Ok(done),
                message = self.receive_until(None) => {
                    if let Some((message, descriptors)) = message? {
                        self.on_unrelated(message, descriptors)?;
                    }
                }
            }
        }
    }

    /// Waits until the applications that were adopted early are ready or have failed, for
    /// [`START_TIMEOUT`] at most. All are served meanwhile: only the process that has begun the
    /// start or the reload waits.
    pub(super) async fn wait_for_starts(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + START_TIMEOUT;
        while self.pools.are_starting() && !self.is_hurried {
            match self.receive_until(Some(deadline)).await? {
                Some((message, descriptors)) => self.on_unrelated(message, descriptors)?,
                None => break,
            }
        }
        Ok(())
    }

    /// Waits until the supervisor has looked at the new, changed and troubled applications of this
    /// configuration, so that the outcome of a reload names those that could not start with their
    /// first request.
    pub(super) async fn wait_for_look(&mut self, generation: u32) -> Result<(), String> {
        let deadline = Instant::now() + LOOK_TIMEOUT;
        while self.pools.looked_at != Some(generation) && !self.is_hurried {
            match self.receive_until(Some(deadline)).await? {
                Some((message, descriptors)) => self.on_unrelated(message, descriptors)?,
                None => break,
            }
        }
        Ok(())
    }

    /// Waits for the next message of the supervisor; returns `None` at the deadline. Meanwhile the
    /// applications get the workers that they need, and scripts that run too long are ended.
    pub(super) async fn receive_until(
        &mut self,
        deadline: Option<Instant>,
    ) -> Result<Option<Message>, String> {
        loop {
            let due = self.pools.tick().map_err(text)?;
            self.advance_restarts().map_err(text)?;
            let due = due.into_iter().chain(self.pools.wanted_restart_due()).min();
            tokio::select! {
                message = self.link.receive_new() => {
                    let message = message.map_err(text)?.ok_or("the supervisor has ended")?;
                    if matches!(message.0, FromSupervisor::Quit { .. }) {
                        self.link.postpone(message.0, message.1);
                        return Err("the server is being stopped".to_owned());
                    }
                    return Ok(Some(message));
                }
                Some(request) = self.thread_requests.recv() => {
                    self.pools.on_thread_request(request).map_err(text)?;
                }
                Some(question) = self.questions.1.recv() => self.answer(question),
                () = sleep_until(due) => {}
                () = sleep_until(deadline) => return Ok(None),
            }
        }
    }

    /// Handles a message that is not the awaited one. Messages for the event loop are postponed
    /// until it runs again.
    pub(super) fn on_unrelated(
        &mut self,
        message: FromSupervisor,
        descriptors: Vec<OwnedFd>,
    ) -> Result<(), String> {
        if let FromSupervisor::Ping { number, refused_since } = message {
            self.answer_ping(number, refused_since);
            return Ok(());
        }
        if let FromSupervisor::Usage { number, error } = message {
            self.usage.answered(number, error, descriptors.into_iter().next());
            return Ok(());
        }
        if let FromSupervisor::Jobs { number, error } = message {
            self.jobs.answered(number, error, descriptors.into_iter().next());
            return Ok(());
        }
        if matches!(message, FromSupervisor::Hurry {}) {
            self.is_hurried = true;
            return Ok(());
        }
        if matches!(
            message,
            FromSupervisor::Reopened {}
                | FromSupervisor::Leaving { .. }
                | FromSupervisor::Bound { .. }
                | FromSupervisor::BindFailed { .. }
                | FromSupervisor::LogOpened { .. }
                | FromSupervisor::Unwritable { .. }
                | FromSupervisor::NameFiles {}
                | FromSupervisor::Ran { .. }
                | FromSupervisor::Control { .. }
                | FromSupervisor::Apply { .. }
                | FromSupervisor::Certificate { .. }
                | FromSupervisor::CertificateDeleted { .. }
                | FromSupervisor::HoldRenewals {}
                | FromSupervisor::ReleaseRenewals {}
        ) {
            self.link.postpone(message, descriptors);
            return Ok(());
        }
        self.pools.on_message(message, descriptors).map_err(text)
    }
}

/// Sleeps until this time; forever if there is none.
pub(super) async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

/// Returns an error as text.
pub(super) fn text(error: io::Error) -> String {
    error.to_string()
}
