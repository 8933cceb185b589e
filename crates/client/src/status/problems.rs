//! Problems that need attention, in a response of `/status`: a refused document, parts that are
//! out, and warnings.

use howdah_questions::{PartStatus, Refused, Status};
use serde_json::{Map, Value, json};

use crate::output::{one_line, printable};

/// Returns the problems that need attention, a line each below a line with the numbers; an empty
/// text if there are none.
pub(crate) fn lines(status: &Status) -> String {
    let (document, out, warnings) =
        (refused(status), out(status), parts(&status.warnings, "WARNING"));
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

/// Returns the same as a value; an empty object if there are none.
pub(crate) fn value(status: &Status) -> Value {
    let mut value = Map::new();
    if let Some(document) = &status.document {
        value.insert("document".to_owned(), json!(document));
    }
    for (name, parts) in [("out", &status.out), ("warnings", &status.warnings)] {
        if !parts.is_empty() {
            value.insert(name.to_owned(), json!(parts));
        }
    }
    Value::Object(value)
}

/// Returns the parts that are out, a line each.
pub(crate) fn out(status: &Status) -> Vec<String> {
    parts(&status.out, "OUT")
}

fn parts(parts: &[PartStatus], word: &str) -> Vec<String> {
    let line = |part: &PartStatus| {
        let (kind, name) = (printable(&part.kind), printable(&part.name));
        let since = part.since.as_deref().map(printable);
        let since = since.map(|since| format!(" since {since}")).unwrap_or_default();
        // The reason may name it.
        let file = part.file.as_deref().filter(|file| !part.reason.contains(*file));
        let file = file.map(|file| format!(" ({})", printable(file))).unwrap_or_default();
        format!("{word}{since}: {kind} \"{name}\"{file}: {}", one_line(&part.reason))
    };
    parts.iter().map(line).collect()
}

/// Returns a line about the document if it is refused.
fn refused(status: &Status) -> Option<String> {
    let Refused { since, reason } = &status.document.as_ref()?.refused;
    let (since, reason) = (printable(since), one_line(reason));
    Some(format!("document on disk refused since {since}, another one is served: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_document_is_told_first() {
        let read = |value: Value| serde_json::from_value::<Status>(value).unwrap();
        assert_eq!(lines(&Status::default()), "");
        let part = json!({"kind": "log", "name": "/l", "reason": "full"});
        let status = read(json!({
            "requests": {"total": 1},
            "document": {"refused": {"since": "S", "reason": "why\nnot"}},
            "out": [part, part, {"kind": "site", "name": "s", "file": "/s.json", "reason": "r"}],
        }));
        let expected = "the document on disk is refused, 3 parts are out\n\
                        document on disk refused since S, another one is served: why; not\n\
                        OUT: log \"/l\": full\nOUT: log \"/l\": full\n\
                        OUT: site \"s\" (/s.json): r\n";
        assert_eq!(lines(&status), expected);
        assert_eq!(value(&status).as_object().map(Map::len), Some(2));
        assert_eq!(value(&Status::default()), json!({}));
    }
}
