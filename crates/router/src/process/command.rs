//! Commands to the control thread, from certificate renewal. It carries them out one after the
//! other. A [`Question`] of the control API does not wait for them.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use howdah_acme::{self as acme, AcmeReports};
use howdah_php_pool::status_page::Pool;
use howdah_pipeline::thread::Shared;
use howdah_questions::Tuning;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::control_thread::ControlThread;
use super::jobs::JobQuestions;
use super::process_lists::ProcessLists;
use super::profile::RunningProfiles;
use super::question::Question;
use super::sandbox::RouterSandbox;
use super::threads::Threads;
use super::usage::UsageReports;

/// Sends commands and questions to the control thread. Every command waits for those before it.
#[derive(Debug, Clone)]
pub(super) struct Commands {
    renewal: UnboundedSender<acme::Command>,
    pub(super) questions: UnboundedSender<Question>,
    pub(super) shared: Arc<Shared>,
    pub(super) threads: Threads,
    pub(super) sandbox: Arc<RouterSandbox>,
    pub(super) php: Arc<[(String, String)]>,
    pub(super) certificates: AcmeReports,
    pub(super) usage: Rc<UsageReports>,
    pub(super) jobs: Rc<JobQuestions>,
    pub(super) processes: Rc<ProcessLists>,
    pub(super) refused_since: Rc<Cell<u64>>,
    pub(super) profiles: RunningProfiles,
    /// The start of the router, for the status.
    pub(super) started: (SystemTime, Instant),
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
            usage: Rc::clone(&control.usage),
            jobs: Rc::clone(&control.jobs),
            processes: Rc::default(),
            refused_since: Rc::clone(&control.refused_since),
            profiles: RunningProfiles::default(),
            started: (SystemTime::now(), Instant::now()),
        };
        (commands, receiver)
    }

    /// Replaces all workers of an application. Error: the reason why there are no new ones; then
    /// the old workers continue.
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

    /// Returns the state that router threads share.
    pub(super) fn shared(&self) -> &Shared {
        &self.shared
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
