//! Questions to the router.

use howdah_questions::{Question, Subject};
use serde_json::Value;

use super::Api;
use crate::path::Path;
use crate::refusal::Refusal;
use crate::reply::{Done, Reply};
use crate::status_part::status_part;

impl Api {
    /// Asks the router, and returns a part of the answer.
    pub(super) async fn ask(&self, question: Question, part: &Path) -> Reply {
        let answer = match &question {
            Question::Status => {
                return match self.status().await {
                    Ok(status) => status_part(&status, part),
                    Err(detail) => Refusal::NoAnswer { detail }.into(),
                };
            }
            Question::Restart { application } => return self.restart(application.clone()).await,
            _ => self.router.ask::<Value>(&question).await,
        };
        let answer = match answer {
            Ok(Some(answer)) => answer,
            Ok(None) => return absent(question.subject()).into(),
            Err(detail) => return Refusal::NoAnswer { detail }.into(),
        };
        match (&question, part.find(&answer)) {
            (Question::PurgeCaches { .. }, _) => Done::Purged.into(),
            (_, Some(value)) => Reply::value(value.clone()),
            (Question::Pools { application: Some(name) }, None)
                if !self.store.borrow().has_application(name) =>
            {
                Refusal::NoSuchApplication { name: name.clone() }.into()
            }
            (_, None) => Refusal::NoSuchValue.into(),
        }
    }
}

/// Returns the refusal of a question whose subject does not exist.
fn absent(subject: Subject<'_>) -> Refusal {
    match subject {
        Subject::Application(name) => Refusal::NoSuchApplication { name: name.to_owned() },
        Subject::Cache(name) => Refusal::NoSuchCache { name: name.map(str::to_owned) },
        Subject::Server => Refusal::StatusUnavailable,
    }
}
