//! The text of a document: values that fit on a line stand on one.

use serde_json::Value;

/// Longest line with a whole object or array, in characters.
const MAX_LINE_CHARS: usize = 120;

/// Number of blanks for each level.
const INDENT: usize = 4;

/// Writes a document, with a line feed at its end.
pub fn text(document: &Value) -> String {
    let mut text = String::new();
    write(document, 0, 0, &mut text);
    text.push('\n');
    text
}

/// Writes a value on a line that has `used` characters before and behind it.
fn write(value: &Value, level: usize, used: usize, text: &mut String) {
    let line = on_a_line(value);
    // Each section of a document begins a line.
    if level > 0 && used + line.chars().count() <= MAX_LINE_CHARS {
        text.push_str(&line);
        return;
    }
    let blanks = " ".repeat((level + 1) * INDENT);
    let mut parts: Vec<String> = Vec::new();
    let (open, close) = match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                let name = Value::from(name.as_str()).to_string();
                let mut part = format!("{blanks}{name}: ");
                // With the comma behind it.
                let before = part.chars().count() + 1;
                write(member, level + 1, before, &mut part);
                parts.push(part);
            }
            ('{', '}')
        }
        Value::Array(elements) if !elements.is_empty() => {
            for element in elements {
                let mut part = blanks.clone();
                write(element, level + 1, blanks.len() + 1, &mut part);
                parts.push(part);
            }
            ('[', ']')
        }
        _ => {
            text.push_str(&line);
            return;
        }
    };
    text.push(open);
    text.push('\n');
    text.push_str(&parts.join(",\n"));
    text.push('\n');
    text.push_str(&" ".repeat(level * INDENT));
    text.push(close);
}

/// Returns a value as text without line feeds.
fn on_a_line(value: &Value) -> String {
    match value {
        Value::Object(members) if !members.is_empty() => {
            let member = |(name, member): (&String, &Value)| {
                format!("{}: {}", Value::from(name.as_str()), on_a_line(member))
            };
            let members: Vec<String> = members.iter().map(member).collect();
            format!("{{ {} }}", members.join(", "))
        }
        Value::Array(elements) => {
            let elements: Vec<String> = elements.iter().map(on_a_line).collect();
            format!("[{}]", elements.join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn values_that_fit_stand_on_a_line() {
        let names: Vec<String> = (0..12).map(|number| format!("host-{number}.example")).collect();
        let document = json!({
            "listeners": {"*:80": {"pass": "routes"}},
            "routes": [{"match": {"host": names}, "action": {"return": 404}}, {}],
        });
        let text = text(&document);
        assert!(
            text.starts_with(
                "{\n    \"listeners\": { \"*:80\": { \"pass\": \"routes\" } },\n    \"routes\": [\n"
            ),
            "{text}"
        );
        assert!(text.contains("            \"action\": { \"return\": 404 }\n"), "{text}");
        assert!(text.ends_with("        {}\n    ]\n}\n"), "{text}");
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<i64>().prop_map(Value::from),
            "[a-zä\"\\\\\n ]{0,60}".prop_map(Value::from),
            Just(Value::Null),
            Just(Value::from(true)),
        ];
        leaf.prop_recursive(5, 60, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec(("[a-z\"]{0,9}", inner), 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_text_is_that_of_the_document(value in any_value()) {
            let text = text(&value);
            prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value.clone());
            // A whole object or array is no longer than a line.
            let is_whole = |line: &str| {
                let line = line.trim_end_matches(',');
                line.ends_with(" }") && line.chars().count() > MAX_LINE_CHARS
            };
            let too_long = text.lines().any(is_whole);
            prop_assert!(!too_long || value.is_string(), "{}", text);
        }
    }
}
