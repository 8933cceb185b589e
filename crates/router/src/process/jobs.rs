//! Questions and orders about jobs, which the supervisor runs.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use howdah_questions::{JobOrder, Jobs};
use howdah_sys::packets::from_memory;
use howdah_wire::messages::{self, ToSupervisor};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::link::Link;

/// Maximum time that the status waits for the jobs.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// The supervisor's answer as JSON; `None` if there is no such job. Error: the reason why there is
/// no answer.
type Answer = Result<Option<Vec<u8>>, String>;

/// Asks the supervisor about jobs.
#[derive(Debug)]
pub(super) struct JobQuestions {
    link: Rc<Link>,
    /// Number of the last question.
    last: Cell<u32>,
    waiting: RefCell<HashMap<u32, oneshot::Sender<Answer>>>,
}

impl JobQuestions {
    /// Creates the questions.
    pub(super) fn new(link: Rc<Link>) -> Rc<Self> {
        Rc::new(JobQuestions { link, last: Cell::default(), waiting: RefCell::default() })
    }

    /// Returns the jobs of applications, or of all.
    pub(super) async fn all(&self, applications: Option<Vec<String>>) -> Answer {
        self.ask(|number| ToSupervisor::ReadJobs { number, applications }).await
    }

    /// Returns the jobs for the status; none if the supervisor does not answer soon.
    pub(super) async fn for_status(&self) -> Jobs {
        let answer = timeout(MAX_WAIT, self.all(None)).await;
        let text = answer.ok().and_then(Result::ok).flatten();
        text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    /// Returns the last lines of a job.
    pub(super) async fn log(&self, application: String, job: String) -> Answer {
        self.ask(|number| ToSupervisor::ReadJobLog { number, application, job }).await
    }

    /// Gives an order to a job.
    pub(super) async fn order(&self, application: String, job: String, order: JobOrder) -> Answer {
        let order = match order {
            JobOrder::Run => messages::JobOrder::Run,
            JobOrder::Pause => messages::JobOrder::Pause,
            JobOrder::Resume => messages::JobOrder::Resume,
        };
        self.ask(|number| ToSupervisor::OrderJob { number, application, job, order }).await
    }

    async fn ask(&self, question: impl FnOnce(u32) -> ToSupervisor) -> Answer {
        let (number, answer) = self.begin();
        self.link.send(&question(number)).map_err(|error| error.to_string())?;
        answer.await.unwrap_or_else(|_| Err("the server is being stopped".to_owned()))
    }

    /// Begins to wait for an answer. Returns the number of the question.
    fn begin(&self) -> (u32, oneshot::Receiver<Answer>) {
        let number = self.last.get().wrapping_add(1);
        self.last.set(number);
        let (done, answer) = oneshot::channel();
        let mut waiting = self.waiting.borrow_mut();
        waiting.retain(|_, done| !done.is_closed());
        waiting.insert(number, done);
        (number, answer)
    }

    /// Takes the supervisor's answer.
    pub(super) fn answered(&self, number: u32, error: String, text: Option<OwnedFd>) {
        let Some(done) = self.waiting.borrow_mut().remove(&number) else { return };
        let read = |text| from_memory(Some(text), u64::MAX).map_err(|error| error.to_string());
        let answer = if error.is_empty() { text.map(read).transpose() } else { Err(error) };
        let _ = done.send(answer);
    }
}
