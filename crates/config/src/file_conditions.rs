//! `file`, `directory`, `exists` and `executable` of a match: conditions on files (nginx's `-f`,
//! `-d`, `-e` and `-x`).

use howdah_template::{Part, Template};

use crate::error::Error;
use crate::key::{Key, Kind};
use crate::node::{Node, Object};
use crate::templates;

/// Keys of a match about files.
pub(crate) const KEYS: &[Key] = &[
    Key::new(
        "file",
        Kind::Texts,
        "Names of files, one of which must be a regular file; with `!` in front, none",
    )
    .details("Names have [variables](variables.md), see below"),
    Key::new(
        "directory",
        Kind::Texts,
        "Names of files, one of which must be a directory; with `!` in front, none",
    ),
    Key::new(
        "exists",
        Kind::Texts,
        "Names of files, one of which must exist; with `!` in front, none",
    ),
    Key::new(
        "executable",
        Kind::Texts,
        "Names of files, one of which its owner must be allowed to execute; with `!` in front, \
         none",
    ),
];

/// A condition on files: like [`Patterns`](crate::Patterns), with names of files in place of
/// patterns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileCondition {
    /// The required kind of file.
    pub test: FileTest,
    excluding: Vec<Template>,
    including: Vec<Template>,
}

/// The required kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileTest {
    /// `directory`: a directory.
    Directory,
    /// `executable`: a file or a directory that its owner may execute.
    Executable,
    /// `exists`: anything.
    Exists,
    /// `file`: a regular file.
    Regular,
}

const TESTS: [(&str, FileTest); 4] = [
    ("file", FileTest::Regular),
    ("directory", FileTest::Directory),
    ("exists", FileTest::Exists),
    ("executable", FileTest::Executable),
];

impl FileCondition {
    /// Reads the conditions on files of a match.
    pub(crate) fn read_all(object: &Object<'_>) -> Result<Vec<FileCondition>, Error> {
        let mut conditions = Vec::new();
        for (key, test) in TESTS {
            conditions.extend(object.read(key, |node| FileCondition::read(node, test))?);
        }
        Ok(conditions)
    }

    fn read(node: &Node<'_>, test: FileTest) -> Result<FileCondition, Error> {
        let (mut excluding, mut including) = (Vec::new(), Vec::new());
        for name in node.strings()? {
            let text = name.text()?;
            match text.strip_prefix('!') {
                Some(text) => excluding.push(read_name(&name, text)?),
                None => including.push(read_name(&name, text)?),
            }
        }
        if excluding.is_empty() && including.is_empty() {
            Err(node.invalid(
                "must have at least \
            one element",
            ))
        } else {
            Ok(FileCondition { test, excluding, including })
        }
    }

    /// Returns true if no name with `!` passes the test and, if there are other names, one of them
    /// does.
    pub fn holds(&self, mut passes: impl FnMut(&Template) -> bool) -> bool {
        !self.excluding.iter().any(&mut passes)
            && (self.including.is_empty() || self.including.iter().any(passes))
    }
}

/// Reads the name of a file. A request must not choose the whole of it.
fn read_name(node: &Node<'_>, text: &str) -> Result<Template, Error> {
    let name = templates::read_text(node, text)?;
    match name.parts().first() {
        Some(Part::Literal(start)) if start.starts_with('/') => Ok(name),
        _ => {
            let error = node.invalid("must be the name of a file that starts with \"/\"");
            Err(error.with_hint("write the directory in front, as in \"/www$uri\""))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Config;

    fn read(conditions: Value) -> Result<Vec<FileCondition>, Error> {
        let step = json!({"match": conditions, "action": {"return": 200}});
        let config = Config::from_value(json!({"routes": [step]}))?;
        Ok(config.routes[0].steps[0].conditions.files.clone())
    }

    #[test]
    fn each_key_is_a_test_of_names() {
        let conditions = read(json!({
            "file": "/www$uri", "directory": ["!/www$uri"], "exists": ["/a", "/b"],
            "executable": "/bin/sh",
        }));
        let conditions = conditions.expect("valid");
        let tests: Vec<_> = conditions.iter().map(|condition| condition.test).collect();
        let all = [FileTest::Regular, FileTest::Directory, FileTest::Exists, FileTest::Executable];
        assert_eq!(tests, all);
        assert!(read(json!({})).expect("valid").is_empty());
    }

    #[test]
    fn names_are_alternatives_and_those_with_a_mark_exclude() {
        let holds = |names: Value, existing: &[&str]| {
            let conditions = read(json!({"file": names})).expect("valid");
            let exists = |name: &Template| existing.contains(&name.constant().expect("constant"));
            conditions[0].holds(exists)
        };
        assert!(holds(json!(["/a", "/b"]), &["/b"]) && !holds(json!(["/a", "/b"]), &[]));
        assert!(holds(json!("!/a"), &[]) && !holds(json!("!/a"), &["/a"]));
        assert!(
            holds(json!(["!/a", "/b"]), &["/b"]) && !holds(json!(["!/a", "/b"]), &["/a", "/b"])
        );
    }

    #[test]
    fn a_request_does_not_choose_the_whole_name() {
        for (conditions, path, message) in [
            (json!({"file": "$arg_name"}), "/routes/0/match/file", "starts with \"/\""),
            (json!({"exists": ["/a", "!b"]}), "/routes/0/match/exists/1", "starts with \"/\""),
            (json!({"directory": []}), "/routes/0/match/directory", "at least one element"),
            (json!({"executable": "/$no"}), "/routes/0/match/executable", "Unknown variable"),
            (json!({"file": ""}), "/routes/0/match/file", "must not be empty"),
            (json!({"file": 1}), "/routes/0/match/file", "a string or an array of strings"),
        ] {
            let error = read(conditions).expect_err(message);
            assert_eq!(error.path(), path);
            assert!(error.to_string().contains(message), "{error}");
        }
    }
}
