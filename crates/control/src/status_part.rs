//! `/status`: the state of the server.

use howdah_questions::Status;

use crate::path::Path;
use crate::refusal::Refusal;
use crate::reply::Reply;

/// Returns the response to a request for a part of the status.
pub fn status_part(status: &Status, path: &Path) -> Reply {
    let Ok(status) = serde_json::to_value(status) else { return Refusal::StatusUnavailable.into() };
    match path.find(&status) {
        Some(value) => Reply::value(value.clone()),
        None => Refusal::NoSuchPath.into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_part_can_be_asked_for() {
        let value = json!({
            "requests": {"total": 33},
            "applications": {"blog": {"processes": {"idle": 3}, "problem": "its root is gone"}},
        });
        let status = serde_json::from_value(value).unwrap();
        let get = |path: &str| status_part(&status, &Path::read(path.as_bytes()).unwrap());
        assert_eq!(get("/").body(), &serde_json::to_value(&status).unwrap());
        assert_eq!(get("/requests/total").body(), &json!(33));
        assert_eq!(get("/applications/blog/processes/idle").body(), &json!(3));
        assert_eq!(get("/applications/blog/problem").body(), &json!("its root is gone"));
        let missing = get("/applications/shop");
        assert_eq!((missing.status(), missing.body()), (404, &json!({"error": "Invalid path."})));
    }
}
