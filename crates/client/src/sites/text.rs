//! Changes of the text of a document, which keep its comments and its layout.

use howdah_config::json;

/// Sets a member of the object at a path. The member is added, or is replaced if it is a word such
/// as `true`. `None` if there is no such object, or the member is another value.
pub(super) fn set(text: &[u8], path: &[&str], name: &str, value: &str) -> Option<Vec<u8>> {
    let owned = |steps: &[&str]| steps.iter().map(|step| (*step).to_owned()).collect::<Vec<_>>();
    json::parse(text).ok()?;
    let object = json::find(text, &owned(path))?.offset;
    if text.get(object) != Some(&b'{') {
        return None;
    }
    if let Some(found) = json::find(text, &owned(&[path, &[name]].concat())) {
        let rest = text.get(found.offset..)?;
        let length = rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let (before, after) = (text.get(..found.offset)?, rest.get(length..)?);
        return (length > 0).then(|| [before, value.as_bytes(), after].concat());
    }
    let (before, after) = text.split_at_checked(object + 1)?;
    let space = after.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let (space, rest) = after.split_at_checked(space)?;
    let comma = if rest.starts_with(b"}") { "" } else { "," };
    let space = String::from_utf8_lossy(space);
    // On a line of its own, if the members are.
    let gap = match (space.rsplit_once('\n'), comma) {
        (Some((_, indent)), ",") => format!("\n{indent}"),
        (Some((_, indent)), _) => format!("\n{indent}    "),
        (None, _) => " ".to_owned(),
    };
    let after = if space.is_empty() { " ".to_owned() } else { space.into_owned() };
    let member = format!("{gap}\"{name}\": {value}{comma}{after}");
    Some([before, member.as_bytes(), rest].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(text: &str, path: &[&str], name: &str, value: &str) -> Option<String> {
        let text = set(text.as_bytes(), path, name, value)?;
        assert!(json::parse(&text).is_ok(), "{}", String::from_utf8_lossy(&text));
        String::from_utf8(text).ok()
    }

    #[test]
    fn a_member_is_set_and_all_else_stays() {
        for (text, expected) in [
            ("{}", "{ \"a\": true }"),
            ("{ \"b\": 1 }", "{ \"a\": true, \"b\": 1 }"),
            (
                "// one\n{\n    \"b\": 1, // two\n}\n",
                "// one\n{\n    \"a\": true,\n    \"b\": 1, // two\n}\n",
            ),
            ("{\n}", "{\n    \"a\": true\n}"),
            ("{\"a\": false, \"b\": 1}", "{\"a\": true, \"b\": 1}"),
            ("{/* x */\"b\": 1}", "{ \"a\": true, /* x */\"b\": 1}"),
        ] {
            assert_eq!(after(text, &[], "a", "true").as_deref(), Some(expected));
        }
    }

    #[test]
    fn what_is_no_object_or_no_word_is_left_alone() {
        assert_eq!(after("[]", &[], "a", "true"), None);
        assert_eq!(after("{\"a\": [1]}", &[], "a", "true"), None);
        assert_eq!(after("{\"x\": 1}", &["x"], "a", "true"), None);
        assert_eq!(after("{", &[], "a", "true"), None);
        let nested = after("{\"d\": {\"e\": 1}}", &["d"], "a", "{\"m\": \"x\"}");
        assert_eq!(nested.as_deref(), Some("{\"d\": { \"a\": {\"m\": \"x\"}, \"e\": 1}}"));
    }
}
