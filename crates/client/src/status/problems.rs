//! What needs attention, in a response of `/status`: a refused document, parts that are out, and warnings.

use serde_json::{Map, Value};

use crate::output::{one_line, printable};

/// Returns what needs attention, a line each below a line with the numbers; an empty text if there is nothing.
pub(crate) fn lines(status: &Value) -> String {
    let (document, out, warnings) =
        (refused(status), out(status), parts(status, "warnings", "WARNING"));
    let count = |count: usize, one: &str, several: &str| match count {
        0 => None,
        1 => Some(one.to_owned()),
        count => Some(several.replace("{}", &count.to_string())),
    };
    let numbers = [
        document.as_ref().map(|_| "the document on disk is refused".to_owned()),
        count(out.len(), "1 part is out", "{} parts are out"),
        count(warnings.len(), "1 warning", "{} warnings"),
    ];
    let numbers: Vec<_> = numbers.into_iter().flatten().collect();
    if numbers.is_empty() {
        return String::new();
    }
    let lines = document.into_iter().chain(out).chain(warnings);
    let lines: String = lines.map(|line| format!("{line}\n")).collect();
    format!("{}\n{lines}", numbers.join(", "))
}

/// Returns the same as a value; an empty object if there is nothing.
pub(crate) fn value(status: &Value) -> Value {
    let member = |name: &str| Some((name.to_owned(), status.get(name)?.clone()));
    Value::Object(
        ["document", "out", "warnings"].into_iter().filter_map(member).collect::<Map<_, _>>(),
    )
}

/// Returns the parts that are out, a line each.
pub(crate) fn out(status: &Value) -> Vec<String> {
    parts(status, "out", "OUT")
}

fn parts(status: &Value, member: &str, word: &str) -> Vec<String> {
    let parts = status.get(member).and_then(Value::as_array);
    let line = |part: &Value| {
        let text = |key: &str| part.get(key).and_then(Value::as_str).map(printable);
        let [kind, name] = ["kind", "name"].map(|key| text(key).unwrap_or_default());
        let reason = one_line(part.get("reason").and_then(Value::as_str).unwrap_or_default());
        let since = text("since").map(|since| format!(" since {since}")).unwrap_or_default();
        format!("{word}{since}: {kind} \"{name}\": {reason}")
    };
    parts.into_iter().flatten().map(line).collect()
}

/// Returns a line about the document if it is refused.
fn refused(status: &Value) -> Option<String> {
    let refused = status.pointer("/document/refused")?;
    let member = |name: &str| refused.get(name).and_then(Value::as_str).unwrap_or_default();
    let (since, reason) = (member("since"), one_line(member("reason")));
    Some(format!("document on disk refused since {since}, another one is served: {reason}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refused_document_is_told_first() {
        assert_eq!(lines(&json!({"connections": {}})), "");
        let part = json!({"kind": "log", "name": "/l", "reason": "full"});
        let status = json!({
            "requests": 1,
            "document": {"refused": {"since": "S", "reason": "why\nnot"}},
            "out": [part, part],
        });
        let expected = "the document on disk is refused, 2 parts are out\n\
                        document on disk refused since S, another one is served: why; not\n\
                        OUT: log \"/l\": full\nOUT: log \"/l\": full\n";
        assert_eq!(lines(&status), expected);
        assert_eq!(value(&status).as_object().map(Map::len), Some(2));
        assert_eq!(value(&json!({"requests": 1})), json!({}));
    }
}
