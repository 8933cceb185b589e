//! Files of media types: `/etc/mime.types` of the system, and nginx's `mime.types`.
//!
//! A line has a type and its extensions; `#` begins a comment. nginx has the lines in `types { }`,
//! each with `;` at its end.

use serde_json::{Map, Value};

/// Returns an object of types with their extensions, as in `mime_types`. Of several types with one
/// extension, the last counts, as in Apache. Types without an extension are left out.
pub(crate) fn parse(text: &str) -> Value {
    let mut types: Vec<(&str, Vec<String>)> = Vec::new();
    let mut taken = std::collections::HashMap::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split(|c: char| c.is_whitespace() || "{};".contains(c));
        let mut words = words.by_ref().filter(|word| !word.is_empty());
        let Some(name) = words.next() else { continue };
        let is_type = name.contains('/') && name.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_type {
            continue;
        }
        let index = types.len();
        types.push((name, Vec::new()));
        for extension in words.filter(|word| !word.contains('\0')) {
            taken.insert(format!(".{}", extension.to_ascii_lowercase()), index);
        }
    }
    let mut taken: Vec<_> = taken.into_iter().collect();
    taken.sort();
    for (extension, index) in taken {
        if let Some((_, extensions)) = types.get_mut(index) {
            extensions.push(extension);
        }
    }
    let mut all = Map::new();
    for (name, extensions) in types.into_iter().filter(|(_, extensions)| !extensions.is_empty()) {
        let there = all.entry(name).or_insert_with(|| Value::Array(Vec::new()));
        if let Some(there) = there.as_array_mut() {
            there.extend(extensions.into_iter().map(Value::String));
        }
    }
    Value::Object(all)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::Config;

    #[test]
    fn both_forms_are_read() {
        let system = "# comment\ntext/html\t\thtml HTM # page\nx/none\nimage/png png\nx/other \
                      htm\nplain a\n";
        let expected = json!({"text/html": [".html"], "image/png": [".png"], "x/other": [".htm"]});
        assert_eq!(parse(system), expected);
        let nginx =
            "types {\n    text/html  html shtml;\n    image/png\n png;\n image/gif gif;\n}\n";
        assert_eq!(parse(nginx), json!({"text/html": [".html", ".shtml"], "image/gif": [".gif"]}));
    }

    #[test]
    fn the_list_of_the_system_is_valid() {
        let Ok(text) = std::fs::read_to_string("/etc/mime.types") else { return };
        let types = parse(&text);
        assert!(types.as_object().unwrap().len() > 100);
        let http = json!({"static": {"mime_types": types}});
        Config::from_value(json!({"settings": {"http": http}})).unwrap();
    }

    proptest! {
        #[test]
        fn every_text_makes_valid_types(text in "([a-c/#{}; .\t\n\\PC]{0,5}|[a-c]/[a-c] \
                                                 [a-c.]{1,3}\n){0,20}") {
            let http = json!({"static": {"mime_types": parse(&text)}});
            let read = Config::from_value(json!({"settings": {"http": http}}));
            prop_assert!(read.is_ok(), "{:?}", read.err());
        }
    }
}
