//! The content of `/status` that the router does not know.

use std::time::Duration;

use howdah_questions::{DocumentStatus, Refused, Replaced, Status};
use howdah_text::date::rfc3339;

use super::Api;

impl Api {
    /// Returns the content of `/status`: that of the router, whether the document at its source is
    /// refused, and which process of the server was replaced last.
    pub(super) async fn status(&self) -> Result<Status, String> {
        let mut status = self.router.status().await?;
        status.document = self.refused.borrow().as_ref().map(|(since, reason)| {
            let refused = Refused { since: date(*since), reason: reason.clone() };
            DocumentStatus { refused }
        });
        let replaced = self.replaced.borrow();
        let replaced = replaced.as_ref();
        status.replaced =
            replaced.map(|(at, reason)| Replaced { at: date(*at), reason: reason.clone() });
        Ok(status)
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
