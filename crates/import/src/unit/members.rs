//! The members of a JSON text with their lines.

/// A member of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    /// Names of members and indices of elements that lead to it, its own name last.
    pub(super) path: Vec<String>,
    /// The line of the name, from 1.
    pub(super) line: u32,
}

/// Returns all members of all objects, in their order. The text must be one that the reader of
/// documents accepts; of another one, members after the mistake may be missing.
pub(super) fn members(text: &str) -> Vec<Member> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader { bytes: text.as_bytes(), at: 0, line: 1, found: Vec::new() };
    reader.value(&mut Vec::new());
    reader.found
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u32,
    found: Vec<Member>,
}

/// Maximum nesting, above that of documents.
const MAX_DEPTH: usize = 200;

impl Reader<'_> {
    /// Reads a value; false at a mistake.
    fn value(&mut self, path: &mut Vec<String>) -> bool {
        if path.len() > MAX_DEPTH {
            return false;
        }
        match self.peek() {
            Some(b'{') => self.elements(b'}', path),
            Some(b'[') => self.elements(b']', path),
            Some(b'"') => self.string().is_some(),
            Some(_) => {
                while self.bytes.get(self.at).is_some_and(|byte| !b",]} \t\r\n/".contains(byte)) {
                    self.at += 1;
                }
                true
            }
            None => false,
        }
    }

    /// Reads the members or elements of an object or array, with its brackets.
    fn elements(&mut self, end: u8, path: &mut Vec<String>) -> bool {
        self.at += 1;
        for index in 0_usize.. {
            match self.peek() {
                Some(byte) if byte == end => break,
                None => return false,
                Some(_) => {}
            }
            if end == b'}' {
                let line = self.line;
                let Some(name) = self.string() else { return false };
                path.push(name);
                self.found.push(Member { path: path.clone(), line });
                if self.peek() != Some(b':') {
                    return false;
                }
                self.at += 1;
            } else {
                path.push(index.to_string());
            }
            let is_read = self.value(path);
            path.pop();
            match self.peek() {
                Some(b',') if is_read => self.at += 1,
                Some(byte) if is_read && byte == end => break,
                _ => return false,
            }
        }
        self.at += 1;
        true
    }

    /// Reads a string in quotation marks; `None` at a mistake.
    fn string(&mut self) -> Option<String> {
        let start = self.at;
        if self.bytes.get(start) != Some(&b'"') {
            return None;
        }
        self.at += 1;
        while *self.bytes.get(self.at)? != b'"' {
            self.at += if self.bytes[self.at] == b'\\' { 2 } else { 1 };
        }
        self.at += 1;
        serde_json::from_slice(self.bytes.get(start..self.at)?).ok()
    }

    /// Skips white space and comments, and returns the next byte.
    fn peek(&mut self) -> Option<u8> {
        loop {
            match *self.bytes.get(self.at)? {
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'\n' => {
                    self.at += 1;
                    self.line = self.line.saturating_add(1);
                }
                b'/' => self.comment()?,
                byte => return Some(byte),
            }
        }
    }

    fn comment(&mut self) -> Option<()> {
        let rest = &self.bytes[self.at..];
        let end: &[u8] = if rest.starts_with(b"//") { b"\n" } else { b"*/" };
        let length = rest[1..].windows(end.len()).position(|window| window == end)? + 1 + end.len();
        // The line feed of a line comment belongs to what follows.
        let length = if end == b"\n" { length - 1 } else { length };
        let lines = rest[..length].iter().filter(|byte| **byte == b'\n').count();
        self.line = self.line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
        self.at += length;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(text: &str) -> Vec<(String, u32)> {
        members(text).into_iter().map(|member| (member.path.join("/"), member.line)).collect()
    }

    #[test]
    fn each_member_has_its_path_and_the_line_of_its_name() {
        let text = "\u{feff}{ // a \"comment\": {\n\"a\": [1, {\"b\\\"c\": null}, [{\"d\": true}],],\n\
                    /* \n \"no\": 1 */ \"e\":\n {\"f\"\n: \"}\",},\n\"g\": -1.5e3 }\n";
        let expected = [("a", 2), ("a/1/b\"c", 2), ("a/2/0/d", 2), ("e", 4), ("e/f", 5), ("g", 7)];
        assert_eq!(told(text), expected.map(|(path, line)| (path.to_owned(), line)));
        assert_eq!(told("[]"), []);
    }

    proptest! {
        #[test]
        fn any_text_has_an_end(text in "[{}\\[\\]\":,/*a1\\\\ \n\u{feff}]{0,60}") {
            members(&text);
        }

        #[test]
        fn members_are_those_of_the_reader_of_documents(text in "[{}\\[\\]\":,a1 \n]{0,16}") {
            if let Ok(value) = howdah_config::json::parse(text.as_bytes()) {
                prop_assert_eq!(members(&text).len(), count(&value));
            }
        }
    }

    fn count(value: &serde_json::Value) -> usize {
        match value {
            serde_json::Value::Object(object) => {
                object.values().map(|value| 1 + count(value)).sum()
            }
            serde_json::Value::Array(array) => array.iter().map(count).sum(),
            _ => 0,
        }
    }
}
