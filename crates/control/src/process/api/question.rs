//! Questions to the router.

use std::time::Duration;

use howdah_http::exchange::Exchange;
use howdah_questions::{JobOrdered, Question, Subject};

use super::super::router::ANSWER_TIMEOUT;
use super::Api;
use crate::command::Command;
use crate::path::Path;
use crate::refusal::Refusal;
use crate::reply::{Done, Reply};

impl Api {
    /// Carries out a command of a client. A profile ends if the client leaves, as the processes of the
    /// site work for it.
    pub(super) async fn carry_out_for(&self, client: &Exchange<'_>, command: Command) -> Reply {
        let is_profile = matches!(command, Command::Ask { question: Question::Profile(_), .. });
        let work = self.carry_out(command);
        if !is_profile {
            return work.await;
        }
        client.unless_gone(work).await.unwrap_or_else(|| {
            let detail = "the client has left, so its profile has ended".to_owned();
            Refusal::NoAnswer { detail }.into() // for the log only
        })
    }

    /// Asks the router, and returns a part of the answer.
    pub(super) async fn ask(&self, question: Question, part: &Path) -> Reply {
        let answer = match &question {
            Question::Status => self.status().await.map(Some),
            Question::Restart { application } => return self.restart(application.clone()).await,
            Question::Profile(order) => {
                let duration = Duration::from_secs(order.seconds.into());
                self.user_profiles.make_way().await;
                self.router.ask_within(&question, duration + ANSWER_TIMEOUT).await
            }
            _ => self.router.ask(&question).await,
        };
        let found = match answer {
            Ok(Some(_)) if matches!(question, Question::PurgeCaches { .. }) => {
                return Done::Purged.into();
            }
            Ok(Some(answer)) if matches!(question, Question::OrderJob { .. }) => {
                return ordered(&answer);
            }
            Ok(Some(answer)) => Reply::part(&answer, part).map_err(unreadable),
            Ok(None) => return absent(question.subject()).into(),
            Err(detail) => Err(detail),
        };
        match (&question, found) {
            (_, Ok(Some(reply))) => reply,
            (_, Err(detail)) => Refusal::NoAnswer { detail }.into(),
            (Question::Status, Ok(None)) => Refusal::NoSuchPath.into(),
            (Question::Pools { application: Some(name) }, Ok(None))
                if !self.store.borrow().has_application(name) =>
            {
                Refusal::NoSuchApplication { name: name.clone() }.into()
            }
            (_, Ok(None)) => Refusal::NoSuchValue.into(),
        }
    }
}

/// Returns the problem of an answer of the router.
pub(super) fn unreadable(error: serde_json::Error) -> String {
    format!("the router's answer cannot be read: {error}")
}

/// Returns the response to an order to a job.
pub(super) fn ordered(answer: &[u8]) -> Reply {
    match serde_json::from_slice(answer) {
        Ok(JobOrdered { problem: None }) => Done::Ordered.into(),
        Ok(JobOrdered { problem: Some(detail) }) => Refusal::NotOrdered { detail }.into(),
        Err(error) => Refusal::NoAnswer { detail: unreadable(error) }.into(),
    }
}

/// Returns the refusal of a question whose subject does not exist.
fn absent(subject: Subject<'_>) -> Refusal {
    match subject {
        Subject::Application(name) => Refusal::NoSuchApplication { name: name.to_owned() },
        Subject::Cache(name) => Refusal::NoSuchCache { name: name.map(str::to_owned) },
        Subject::Job(application, job) => {
            Refusal::NoSuchJob { application: application.to_owned(), job: job.to_owned() }
        }
        Subject::Server => Refusal::StatusUnavailable,
    }
}
