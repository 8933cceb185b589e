//! JSON text as Unit prints it: a tab for each level, lines that end with CR and LF, an empty line
//! after a member that took several lines.

use serde_json::Value;

/// Returns the text of a value, with a line end.
pub fn print(value: &Value) -> String {
    let mut printer = Printer { text: String::new(), level: 0, after_block: false };
    printer.value(value);
    printer.text.push_str("\r\n");
    printer.text
}

struct Printer {
    text: String,
    level: usize,
    /// True if the last value took several lines.
    after_block: bool,
}

impl Printer {
    fn value(&mut self, value: &Value) {
        match value {
            Value::Array(elements) if !elements.is_empty() => self.array(elements),
            Value::Object(members) if !members.is_empty() => self.object(members),
            Value::Array(_) => self.text.push_str("[]"),
            Value::Object(_) => self.text.push_str("{}"),
            Value::String(string) => self.string(string),
            Value::Number(number) => self.text.push_str(&number.to_string()),
            Value::Bool(true) => self.text.push_str("true"),
            Value::Bool(false) => self.text.push_str("false"),
            Value::Null => self.text.push_str("null"),
        }
    }

    fn array(&mut self, elements: &[Value]) {
        self.text.push('[');
        self.level += 1;
        for (index, element) in elements.iter().enumerate() {
            if index > 0 {
                self.text.push(',');
                self.after_block = false;
            }
            self.line();
            self.value(element);
        }
        self.close(']');
    }

    fn object(&mut self, members: &serde_json::Map<String, Value>) {
        self.text.push('{');
        self.level += 1;
        for (index, (name, value)) in members.iter().enumerate() {
            if index > 0 {
                self.text.push(',');
                if std::mem::take(&mut self.after_block) {
                    self.text.push_str("\r\n");
                }
            }
            self.line();
            self.string(name);
            self.text.push_str(": ");
            self.value(value);
        }
        self.close('}');
    }

    fn close(&mut self, bracket: char) {
        self.level -= 1;
        self.line();
        self.text.push(bracket);
        self.after_block = true;
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
}
