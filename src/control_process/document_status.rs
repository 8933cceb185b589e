//! What is out of order in the document, for `/status`.

use std::time::Duration;

use howdah_sys::clock::utc_time;
use serde_json::{Map, Value, json};

/// Returns `document` of the status: since when the document at its source is refused (in seconds since
/// 1970) and why, and the files without which the running one was read. `None` if all is in order.
pub fn document_status(refused: Option<&(u64, String)>, document: &Value) -> Option<Value> {
    let mut status = Map::new();
    if let Some((since, reason)) = refused {
        status.insert("refused".to_owned(), json!({"since": date(*since), "reason": reason}));
    }
    let left_out = document.get("left_out").and_then(Value::as_object);
    let files = left_out.into_iter().flatten().map(|(file, about)| {
        let since = about.get("since").and_then(Value::as_u64).unwrap_or_default();
        let (reason, former) = (&about["reason"], &about["former"]);
        (file.clone(), json!({"since": date(since), "reason": reason, "former": former}))
    });
    let files: Map<_, _> = files.collect();
    if !files.is_empty() {
        status.insert("left_out".to_owned(), Value::Object(files));
    }
    (!status.is_empty()).then_some(Value::Object(status))
}

fn date(seconds: u64) -> String {
    let mut date = String::new();
    utc_time(Duration::from_secs(seconds), &mut date);
    date
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_out_of_order_is_told() {
        assert_eq!(document_status(None, &json!({"routes": []})), None);
        let about = json!({"reason": "r", "since": 0, "former": true});
        let document = json!({"left_out": {"/a.json": about}});
        let status = document_status(Some(&(0, "why".to_owned())), &document).unwrap();
        assert_eq!(status["refused"]["reason"], "why");
        assert!(status["refused"]["since"].as_str().unwrap().starts_with("1970-01-01T00:00:00"));
        assert_eq!(status["left_out"]["/a.json"]["former"], true);
    }
}
