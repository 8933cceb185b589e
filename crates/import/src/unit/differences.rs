//! Members that mean something else than in Unit.

use serde_json::Value;

use super::Marks;
use crate::{Report, Status};

/// Reports the members of a document whose meaning differs.
pub(super) fn report(document: &Value, marks: &Marks, report: &mut Report) {
    walk(document, &mut Vec::new(), marks, report);
}

fn walk(value: &Value, path: &mut Vec<String>, marks: &Marks, report: &mut Report) {
    let mut each = |key: String, value: &Value| {
        path.push(key);
        if let Some(reason) = reason(path, value) {
            marks.mark_only(path, Status::Changed, reason, report);
        }
        walk(value, path, marks, report);
        path.pop();
    };
    match value {
        Value::Object(object) => object.iter().for_each(|(key, value)| each(key.clone(), value)),
        Value::Array(array) => {
            array.iter().enumerate().for_each(|(index, value)| each(index.to_string(), value));
        }
        _ => {}
    }
}

/// Returns in what a member differs from Unit.
fn reason(path: &[String], value: &Value) -> Option<&'static str> {
    let keys: Vec<&str> = path.iter().map(String::as_str).collect();
    match keys[..] {
        ["applications", _, "type"] => {
            Some("php_sapi_name() is \"fpm-fcgi\" (Unit: \"cli-server\")")
        }
        ["applications", _, "limits", "timeout"] => {
            Some("a request that runs longer gets 504 (Unit: 503)")
        }
        ["upstreams", _, "servers"] => Some(PROXY),
        ["settings", "telemetry", ..] => {
            Some("traceparent is not in responses; scripts and servers get this server's span")
        }
        ["routes", .., "return"] if *value == 444 => {
            Some("the connection is closed without a response")
        }
        ["routes", .., "share"] => Some(
            "hidden files and sources of PHP are never sent, and links out of the directory are \
             followed only to files of the same owner",
        ),
        ["routes", .., "fallback"] => {
            Some("a file that the server may not read gets 403, and not the fallback")
        }
        ["routes", .., "proxy"] => Some(PROXY),
        ["routes", .., "rewrite"] if value.as_str().is_some_and(|text| text.contains('$')) => {
            Some("values of variables are used literally (Unit decodes them once more)")
        }
        ["routes", .., "match", "cookies"] => {
            Some("text without \"=\" in a Cookie field is a cookie with an empty value, as in PHP")
        }
        _ => None,
    }
}

const PROXY: &str = "a redirect of the server to its own address leads to the address of Howdah, \
                     and responses are buffered";
