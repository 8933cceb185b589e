//! The content of `/status` that the router does not know.

use std::time::Duration;

use howdah_text::date::rfc3339;
use serde_json::{Value, json};

use super::Api;

impl Api {
    /// Returns the content of `/status`: that of the router, whether the document at its source is refused, and which
    /// process of the server was replaced last.
    pub(super) async fn status(&self) -> Result<Value, String> {
        let mut status = self.router.status().await?;
        let Some(members) = status.as_object_mut() else { return Ok(status) };
        if let Some((since, reason)) = &*self.refused.borrow() {
            let refused = json!({"since": date(*since), "reason": reason});
            members.insert("document".to_owned(), json!({"refused": refused}));
        }
        if let Some((at, reason)) = &*self.replaced.borrow() {
            members.insert("replaced".to_owned(), json!({"at": date(*at), "reason": reason}));
        }
        Ok(status)
    }

    /// Records the process of the server that was replaced last: when, in seconds since 1970, and why.
    pub fn process_replaced(&self, at: u64, reason: String) {
        self.replaced.replace(Some((at, reason)));
    }
}

fn date(seconds: u64) -> String {
    let mut date = String::new();
    rfc3339(Duration::from_secs(seconds), &mut date);
    date
}
