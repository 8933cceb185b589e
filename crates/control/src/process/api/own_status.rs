//! The content of `/status` that the router does not know.

use std::time::Duration;

use howdah_questions::{DocumentStatus, FileStatus, Question, Refused, Replaced};
use howdah_text::date::rfc3339;
use serde_json::json;

use super::Api;
use super::question::unreadable;
use crate::path::Path;
use crate::print::{print_part, with_members};

impl Api {
    /// Returns the content of `/status`, as JSON: that of the router, the files of the server,
    /// whether the document at its source is refused, and which process was replaced last.
    pub(super) async fn status(&self) -> Result<Vec<u8>, String> {
        let status = self.router.ask(&Question::Status).await?.unwrap_or_default();
        let document = self.is_undone_by_reload.then(|| self.origin.to_string());
        let log = self.log.name().to_owned();
        let files = ("files", json!(FileStatus { document, log }).to_string());
        let document = self.refused.borrow().as_ref().map(|(since, reason)| {
            let refused = Refused { since: date(*since), reason: reason.clone() };
            ("document", json!(DocumentStatus { refused }).to_string())
        });
        let replaced = self.replaced.borrow().as_ref().map(|(at, reason)| {
            let replaced = Replaced { at: date(*at), reason: reason.clone() };
            ("replaced", json!(replaced).to_string())
        });
        Ok(with_members(status, [files].into_iter().chain(document).chain(replaced)))
    }

    /// Returns a part of the router's status as text, if it is there.
    pub(super) async fn router_status(&self, part: &[&str]) -> Result<Option<String>, String> {
        let status = self.router.ask(&Question::Status).await?.unwrap_or_default();
        let steps: Vec<_> = part.iter().map(|step| (*step).to_owned()).collect();
        print_part(&status, &Path::from(steps.as_slice())).map_err(unreadable)
    }

    /// Records the process of the server that was replaced last: when, in seconds since 1970, and
    /// why.
    pub fn process_replaced(&self, at: u64, reason: String) {
        self.replaced.replace(Some((at, reason)));
    }
}

fn date(seconds: u64) -> String {
    let mut date = String::new();
    rfc3339(Duration::from_secs(seconds), &mut date);
    date
}
