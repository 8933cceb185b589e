//! Whether the document that runs is the one at its source, for `/status`.

use std::time::Duration;

use howdah_sys::clock::utc_time;
use serde_json::{Value, json};

/// Returns `document` of the status: since when the document at its source is refused (in seconds since
/// 1970), and why.
pub fn document_status((since, reason): &(u64, String)) -> Value {
    let mut date = String::new();
    utc_time(Duration::from_secs(*since), &mut date);
    json!({"refused": {"since": date, "reason": reason}})
}
