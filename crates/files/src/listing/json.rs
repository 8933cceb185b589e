//! A listing as JSON, in the form of nginx's `autoindex_format json`.

use std::fmt::Write;

use howdah_text::{date, json};

use super::entry::Entry;

/// Formats the entries. Names that are not UTF-8 have a replacement character.
pub(super) fn format(entries: &[Entry]) -> String {
    let mut text = String::with_capacity(32 + 96 * entries.len());
    text.push('[');
    for (index, entry) in entries.iter().enumerate() {
        text.push_str(if index == 0 { "\r\n" } else { ",\r\n" });
        text.push_str("{ \"name\":\"");
        json::escape(&String::from_utf8_lossy(&entry.name), &mut text);
        let kind = if entry.is_directory { "directory" } else { "file" };
        let date = date::http(entry.modified);
        // Writing to a string does not fail.
        let _ = write!(text, "\", \"type\":\"{kind}\", \"mtime\":\"{date}\"");
        if !entry.is_directory {
            let _ = write!(text, ", \"size\":{}", entry.size);
        }
        text.push_str(" }");
    }
    text.push_str("\r\n]\r\n");
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_form_is_that_of_nginx() {
        let entries = [
            Entry::directory(b"a".to_vec(), 0),
            Entry::file(b"b\".txt".to_vec(), 3, 1_000_000_000),
        ];
        let value: serde_json::Value = serde_json::from_str(&format(&entries)).unwrap();
        let expected = json!([
            {"name": "a", "type": "directory", "mtime": "Thu, 01 Jan 1970 00:00:00 GMT"},
            {"name": "b\".txt", "type": "file", "mtime": "Sun, 09 Sep 2001 01:46:40 GMT",
                "size": 3},
        ]);
        assert_eq!(value, expected);
        assert_eq!(format(&[]), "[\r\n]\r\n");
    }

    proptest! {
        #[test]
        fn any_name_makes_valid_json(name: Vec<u8>, size: u64, modified: i64) {
            let entries = [Entry::file(name.clone(), size, modified)];
            let value: serde_json::Value = serde_json::from_str(&format(&entries)).unwrap();
            prop_assert_eq!(value[0]["name"].as_str().unwrap(), String::from_utf8_lossy(&name));
        }
    }
}
