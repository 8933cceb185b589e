//! JSON text as Unit prints it: a tab for each level, lines that end with CR and LF, an empty line
//! after a member that took several lines.
//!
//! The answer of a router is printed while it is read: a tree of its values could take a hundred
//! times the memory of its text.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};

use crate::path::{Path, index};

/// Maximum length in bytes of what is printed of another text.
const MAX_PRINTED: usize = 32 << 20;

/// Returns the text of a value, with a line end.
pub fn print(value: &Value) -> String {
    let mut printer = Printer::new(&[], usize::MAX);
    // Only a limit and the text of a value can be the reason of an error.
    let _ = printer.deserialize(value);
    printer.finish()
}

/// Returns the text of a part of a JSON text, with a line end; `None` if the text has no such part.
///
/// # Errors
///
/// The text is not JSON, or becomes longer than 32 MiB.
pub(crate) fn print_part(text: &[u8], part: &Path) -> Result<Option<String>, serde_json::Error> {
    let mut printer = Printer::new(part.steps(), MAX_PRINTED);
    let mut reader = serde_json::Deserializer::from_slice(text);
    printer.deserialize(&mut reader)?;
    reader.end()?;
    Ok(Some(printer).filter(|printer| !printer.text.is_empty()).map(Printer::finish))
}

/// Adds members, whose values are JSON, to the text of an object. Another text stays what it is: its
/// reader refuses it.
pub(crate) fn with_members<'n>(
    mut object: Vec<u8>,
    members: impl IntoIterator<Item = (&'n str, String)>,
) -> Vec<u8> {
    for (name, value) in members {
        if object.pop_if(|last| *last == b'}').is_some() {
            let comma = if object.ends_with(b"{") { "" } else { "," };
            object.extend_from_slice(format!(r#"{comma}"{name}":{value}}}"#).as_bytes());
        }
    }
    object
}

struct Printer<'p> {
    text: String,
    level: usize,
    /// True if the last value took several lines.
    after_block: bool,
    /// Path from the value that is read next to the one that is printed.
    path: &'p [String],
    /// Maximum length of the text in bytes.
    max: usize,
}

impl<'p> Printer<'p> {
    fn new(path: &'p [String], max: usize) -> Self {
        Printer { text: String::new(), level: 0, after_block: false, path, max }
    }

    fn finish(mut self) -> String {
        self.text.push_str("\r\n");
        self.text
    }

    /// Prints a value that has no others.
    fn word<E: Error>(&mut self, word: &str) -> Result<(), E> {
        if self.path.is_empty() {
            self.text.push_str(word);
        }
        Ok(())
    }

    /// Returns true if a step leads to the value to print, which is not printed yet. A text may
    /// have a name twice.
    fn leads(&self, is_step: impl FnOnce(&str) -> bool) -> bool {
        self.text.is_empty() && self.path.first().is_some_and(|step| is_step(step))
    }

    /// Ends an array or an object.
    fn end(&mut self, bracket: char, is_empty: bool) {
        self.level -= 1;
        if !is_empty {
            self.line();
            self.after_block = true;
        }
        self.text.push(bracket);
    }

    fn line(&mut self) {
        self.text.push_str("\r\n");
        self.text.extend(std::iter::repeat_n('\t', self.level));
    }

    fn string(&mut self, string: &str) {
        self.text.push('"');
        for character in string.chars() {
            match character {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\n' => self.text.push_str("\\n"),
                '\r' => self.text.push_str("\\r"),
                '\t' => self.text.push_str("\\t"),
                '\u{8}' => self.text.push_str("\\b"),
                '\u{c}' => self.text.push_str("\\f"),
                control if control < ' ' => {
                    self.text.push_str(&format!("\\u{:04X}", u32::from(control)));
                }
                other => self.text.push(other),
            }
        }
        self.text.push('"');
    }
}

impl<'de> DeserializeSeed<'de> for &mut Printer<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        if self.text.len() > self.max {
            let problem = format!("it is longer than {} bytes when it is printed", self.max);
            return Err(D::Error::custom(problem));
        }
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Printer<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.word("null")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.word(if value { "true" } else { "false" })
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.word(&value.to_string())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.word(&value.to_string())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        let number = Number::from_f64(value).map_or(Value::Null, Value::Number);
        self.word(&number.to_string())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        if self.path.is_empty() {
            self.string(value);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        if let Some((_, rest)) = self.path.split_first() {
            let whole = self.path;
            for number in 0_usize.. {
                let is_read = if self.leads(|step| index(step) == Some(number)) {
                    self.path = rest;
                    let read = elements.next_element_seed(&mut *self)?;
                    self.path = whole;
                    read.is_some()
                } else {
                    elements.next_element::<IgnoredAny>()?.is_some()
                };
                if !is_read {
                    break;
                }
            }
            return Ok(());
        }
        self.text.push('[');
        self.level += 1;
        let mut is_first = true;
        while elements.next_element_seed(Element { printer: self, is_first })?.is_some() {
            is_first = false;
        }
        self.end(']', is_first);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        if let Some((_, rest)) = self.path.split_first() {
            let whole = self.path;
            while let Some(name) = members.next_key::<String>()? {
                if self.leads(|step| step == name) {
                    self.path = rest;
                    members.next_value_seed(&mut *self)?;
                    self.path = whole;
                } else {
                    members.next_value::<IgnoredAny>()?;
                }
            }
            return Ok(());
        }
        self.text.push('{');
        self.level += 1;
        let mut is_first = true;
        while let Some(name) = members.next_key::<String>()? {
            if !is_first {
                self.text.push(',');
                if std::mem::take(&mut self.after_block) {
                    self.text.push_str("\r\n");
                }
            }
            is_first = false;
            self.line();
            self.string(&name);
            self.text.push_str(": ");
            members.next_value_seed(&mut *self)?;
        }
        self.end('}', is_first);
        Ok(())
    }
}

/// An element of an array. It may turn out not to be there.
struct Element<'a, 'p> {
    printer: &'a mut Printer<'p>,
    is_first: bool,
}

impl<'de> DeserializeSeed<'de> for Element<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        let Element { printer, is_first } = self;
        if !is_first {
            printer.text.push(',');
            printer.after_block = false;
        }
        printer.line();
        printer.deserialize(value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_layout_is_units() {
        let tree = json!({
            "listeners": {"*:80": {"pass": "routes"}, "*:81": {"pass": "routes"}},
            "routes": [{"action": {"return": 200}}, {"action": {}}],
            "numbers": [1, 2.5],
            "applications": {},
            "settings": null
        });
        let lines = [
            "{",
            "\t\"listeners\": {",
            "\t\t\"*:80\": {",
            "\t\t\t\"pass\": \"routes\"",
            "\t\t},",
            "",
            "\t\t\"*:81\": {",
            "\t\t\t\"pass\": \"routes\"",
            "\t\t}",
            "\t},",
            "",
            "\t\"routes\": [",
            "\t\t{",
            "\t\t\t\"action\": {",
            "\t\t\t\t\"return\": 200",
            "\t\t\t}",
            "\t\t},",
            "\t\t{",
            "\t\t\t\"action\": {}",
            "\t\t}",
            "\t],",
            "",
            "\t\"numbers\": [",
            "\t\t1,",
            "\t\t2.5",
            "\t],",
            "",
            "\t\"applications\": {},",
            "\t\"settings\": null",
            "}",
            "",
        ];
        assert_eq!(print(&tree), lines.join("\r\n"));
        assert_eq!(print(&json!(30)), "30\r\n");
    }

    #[test]
    fn strings_are_escaped_where_json_demands_it() {
        let text = print(&json!("\"\\\n\r\t\u{8}\u{c}\u{1f}\u{0}/\u{7f}пример"));
        assert_eq!(text, "\"\\\"\\\\\\n\\r\\t\\b\\f\\u001F\\u0000/\u{7f}пример\"\r\n");
    }

    #[test]
    fn what_is_printed_is_read_as_the_same_value() {
        let tree = json!({"a": [[], {}, [1, {"\u{1}\"": [true, null]}]], "b": -0.5, "": ""});
        assert_eq!(howdah_config::json::parse(print(&tree).as_bytes()).unwrap(), tree);
    }

    fn part(text: &str, path: &str) -> Result<Option<String>, String> {
        let path = Path::read(path.as_bytes()).unwrap();
        print_part(text.as_bytes(), &path).map_err(|error| error.to_string())
    }

    #[test]
    fn a_part_of_a_text_is_printed_as_the_value_would_be() {
        let tree = json!({
            "a": [[], {}, [1, -2, {"\u{1}\"": [true, null]}], "x"], "b": {"a": 1e300, "c": 0.25},
            "": "", "0": {"1": {}},
        });
        for path in [
            "/",
            "/a",
            "/a/0",
            "/a/1",
            "/a/2",
            "/a/2/2",
            "/a/3",
            "/a/4",
            "/a/01",
            "/a/x",
            "/a/3/0",
            "/b",
            "/b/a",
            "/b/c",
            "/b/a/0",
            "/0/1",
            "/c",
            "/a/2/2/%01%22/1",
        ] {
            let found = Path::read(path.as_bytes()).unwrap().find(&tree).map(print);
            assert_eq!(part(&tree.to_string(), path), Ok(found), "{path}");
        }
        assert_eq!(part("{\"a\":1,\"a\":2}", "/a"), Ok(Some("1\r\n".to_owned())));
        assert!(part("{\"a\":1,", "/a").is_err() && part("1 2", "/").is_err());
    }

    #[test]
    fn members_are_added_to_an_object() {
        let add = |text: &str| {
            let members = [("a", r#"{"b":1}"#), ("c", r#""}""#)];
            let members = members.map(|(name, value)| (name, value.to_owned()));
            String::from_utf8(with_members(text.into(), members)).unwrap()
        };
        assert_eq!(add("{}"), r#"{"a":{"b":1},"c":"}"}"#);
        assert_eq!(add(r#"{"x":0}"#), r#"{"x":0,"a":{"b":1},"c":"}"}"#);
        for other in ["", "[]", "1", "null"] {
            assert_eq!(add(other), other);
        }
    }

    #[test]
    fn a_text_that_grows_too_long_or_is_nested_too_deeply_is_refused() {
        let deep = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(part(&deep(100), "/").is_ok() && part(&deep(1_000_000), "/").is_err());
        let deep = format!("{}{}", "[".repeat(100), "[".repeat(100_000));
        assert!(part(&deep, "/x").is_err());
        // Each zero takes a line with a hundred tabs.
        let zeros = vec!["0"; 1_000_000].join(",");
        let wide = format!("{}{zeros}{}", "[".repeat(100), "]".repeat(100));
        assert!(part(&wide, "/").unwrap_err().contains("when it is printed"));
        assert_eq!(part(&wide, "/x"), Ok(None));
    }
}
