//! Paths of values in a tree.

use howdah_text::percent;
use serde_json::Value;

use crate::refusal::Refusal;

/// Names of members and indexes of elements, from the root of a tree to a value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Path(Vec<String>);

impl Path {
    /// Reads the path of a request target, as Unit does: repeated and trailing slashes are ignored,
    /// `.` and `..` are resolved even if they are encoded, and then each step is percent-decoded,
    /// so that `%2F` is a slash inside a name. Query and fragment are ignored.
    pub fn read(target: &[u8]) -> Result<Path, Refusal> {
        let end = target.iter().position(|byte| matches!(byte, b'?' | b'#'));
        let path = target.get(..end.unwrap_or(target.len())).unwrap_or(target);
        let path = path.strip_prefix(b"/").ok_or(Refusal::InvalidPath)?;
        let mut steps = Vec::new();
        for step in path.split(|&byte| byte == b'/').filter(|step| !step.is_empty()) {
            match decode(step).ok_or(Refusal::InvalidPath)?.as_str() {
                "." => {}
                ".." => drop(steps.pop().ok_or(Refusal::InvalidPath)?),
                step => steps.push(step.to_owned()),
            }
        }
        Ok(Path(steps))
    }

    /// Returns the steps.
    pub fn steps(&self) -> &[String] {
        &self.0
    }

    /// Returns true if the path is that of the root.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the value at the path.
    pub fn find<'a>(&self, root: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(root, |value, step| match value {
            Value::Object(members) => members.get(step),
            Value::Array(elements) => elements.get(index(step)?),
            _ => None,
        })
    }
}

impl From<&[String]> for Path {
    fn from(steps: &[String]) -> Path {
        Path(steps.to_vec())
    }
}

/// Reads a step as the index of an array.
pub(crate) fn index(step: &str) -> Option<usize> {
    // `parse` accepts a sign.
    step.bytes().all(|byte| byte.is_ascii_digit()).then(|| step.parse().ok())?
}

/// Decodes a step; `None` if it is not UTF-8, holds a NUL or a percent sign without two digits.
fn decode(step: &[u8]) -> Option<String> {
    let decoded = percent::decode(step).filter(|decoded| !decoded.contains(&0))?;
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn steps(target: &str) -> Vec<String> {
        Path::read(target.as_bytes()).unwrap().0
    }

    #[test]
    fn slashes_and_dots_are_resolved_before_the_tree_is_looked_at() {
        for same in [
            "/config/routes/0",
            "/config/routes/0/",
            "//config///routes//0//",
            "/config/./routes/x/../0",
            "/config/routes/x/%2e%2E/0",
            "/config/routes/0?a=/b#c",
            "/config/routes/0#/1",
            "/%63onfig/routes/%30",
        ] {
            assert_eq!(steps(same), ["config", "routes", "0"], "{same}");
        }
        assert_eq!(steps("/"), [""; 0]);
        assert_eq!(steps("/?/config"), [""; 0]);
    }

    #[test]
    fn an_encoded_slash_or_percent_sign_is_part_of_a_name() {
        assert_eq!(steps("/a/text%2Fx-code"), ["a", "text/x-code"]);
        assert_eq!(steps("/a/50%25"), ["a", "50%"]);
        assert_eq!(steps("/a/b%252Fc"), ["a", "b%2Fc"]);
        assert_eq!(steps("/a/%3F%23"), ["a", "?#"]);
        assert_eq!(steps("/listeners/*:80/%D0%BF"), ["listeners", "*:80", "п"]);
    }

    #[test]
    fn what_is_no_path_is_refused() {
        let targets: [&[u8]; 10] = [
            b"",
            b"*",
            b"config",
            b"?/config",
            b"/..",
            b"/config/../..",
            b"/config/%",
            b"/config/%4",
            b"/config/%zz",
            b"/config/\xff",
        ];
        for target in targets {
            assert_eq!(Path::read(target), Err(Refusal::InvalidPath), "{target:?}");
        }
        assert_eq!(Path::read(b"/config/%00"), Err(Refusal::InvalidPath));
        assert_eq!(Path::read(b"/config/%FF"), Err(Refusal::InvalidPath));
    }

    #[test]
    fn steps_are_names_in_objects_and_indexes_in_arrays() {
        let tree = json!({"a": [1, {"b": null}], "0": "zero"});
        let found = |target: &str| Path::read(target.as_bytes()).unwrap().find(&tree).cloned();
        assert_eq!(found("/"), Some(tree.clone()));
        assert_eq!(found("/0"), Some(json!("zero")));
        assert_eq!(found("/a/0"), Some(json!(1)));
        assert_eq!(found("/a/001/b"), Some(json!(null)));
        for missing in
            ["/b", "/a/2", "/a/-1", "/a/+1", "/a/b", "/a/0/0", "/0/0", "/a/99999999999999999999"]
        {
            assert_eq!(found(missing), None, "{missing}");
        }
    }
}
