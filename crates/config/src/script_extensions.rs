//! `limit_extensions` of an application: the endings of the names of files that run as scripts.

use crate::error::Error;
use crate::node::{Node, Object, Shown};
use crate::php::PhpTarget;

/// Endings of the names of files that run as scripts, as FPM's `security.limit_extensions`. Names
/// are compared byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptExtensions {
    endings: Vec<String>,
    is_configured: bool,
}

impl Default for ScriptExtensions {
    fn default() -> Self {
        ScriptExtensions { endings: vec![".php".to_owned()], is_configured: false }
    }
}

impl ScriptExtensions {
    /// Reads `limit_extensions` of an application with these targets, or returns the default.
    pub(crate) fn of_application(
        application: &Object<'_>,
        targets: &[PhpTarget],
    ) -> Result<ScriptExtensions, Error> {
        let Some(node) = application.optional("limit_extensions") else {
            return Ok(ScriptExtensions::default());
        };
        let extensions = ScriptExtensions::read(&node)?;
        for target in targets {
            let name = target.script.as_ref().unwrap_or(&target.index);
            if !extensions.is_script(name.as_bytes()) {
                let key = target.key(if target.script.is_some() { "script" } else { "index" });
                return Err(node.invalid(format_args!(
                    "must have the ending of \"{}\", the \"{key}\" of the application",
                    Shown(name)
                )));
            }
        }
        Ok(extensions)
    }

    fn read(node: &Node<'_>) -> Result<ScriptExtensions, Error> {
        /// Most endings of a list.
        const MAX_ENDINGS: usize = 32;
        let mut endings: Vec<String> = Vec::new();
        for ending in node.strings()? {
            let text = ending.text()?;
            if !is_ending(text) {
                let error = ending.invalid("must be a dot, then letters and digits");
                return Err(error.with_hint("write [\".php\", \".phtml\"]"));
            }
            endings.push(text.to_owned());
        }
        match endings.len() {
            0 => {
                let error = node.invalid("must have at least one ending");
                Err(error.with_hint("leave it out for [\".php\"]; files of any name never run"))
            }
            1..=MAX_ENDINGS => Ok(ScriptExtensions { endings, is_configured: true }),
            _ => Err(node.invalid("must not have more than 32 endings")),
        }
    }

    pub(crate) fn intersection(mut self, other: &ScriptExtensions) -> ScriptExtensions {
        self.endings.retain(|ending| other.endings.contains(ending));
        self
    }

    /// Returns the endings, each with its dot.
    pub fn endings(&self) -> &[String] {
        &self.endings
    }

    /// Returns true if the document has the key.
    pub fn is_configured(&self) -> bool {
        self.is_configured
    }

    /// Returns true if a path ends as the name of a script.
    pub fn is_script(&self, path: &[u8]) -> bool {
        self.endings.iter().any(|ending| path.ends_with(ending.as_bytes()))
    }

    /// Returns the lengths of the parts of a path before a slash that end as the name of a script,
    /// the shortest first.
    pub fn script_ends<'a>(&'a self, path: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        slashes.map(|(at, _)| at).filter(|at| path.get(..*at).is_some_and(|p| self.is_script(p)))
    }
}

fn is_ending(text: &str) -> bool {
    text.strip_prefix('.').is_some_and(|name| {
        (1..=16).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::Config;

    fn extensions(value: Value) -> Result<ScriptExtensions, Error> {
        let application = json!({"type": "php", "root": "/srv/site", "limit_extensions": value});
        let document = json!({"applications": {"site": application}});
        Ok(Config::from_value(document)?.applications[0].limit_extensions.clone())
    }

    #[test]
    fn names_are_compared_byte_for_byte() {
        let both = extensions(json!([".php", ".phtml"])).unwrap();
        for name in ["a.php", "/a.phtml", ".php"] {
            assert!(both.is_script(name.as_bytes()), "{name}");
        }
        for name in ["a.PHP", "a.phtml ", "a.php.bak", "php", "a.phar"] {
            assert!(!both.is_script(name.as_bytes()), "{name}");
        }
        assert!(!ScriptExtensions::default().is_script(b"a.phtml"));
        assert_eq!(both.script_ends(b"/a.phtml/b.php/c").collect::<Vec<_>>(), [8, 14]);
    }

    #[test]
    fn what_it_cannot_mean_is_refused() {
        for (value, problem) in [
            (json!([]), "at least one ending"),
            (json!(["php", ".php"]), "a dot, then letters"),
            (json!([".php", ""]), "must not be empty"),
            (json!([".tar.php"]), "a dot, then letters"),
            (json!(["./php"]), "a dot, then letters"),
            (json!([".phtml"]), "must have the ending of \"index.php\""),
            (json!(7), "string"),
        ] {
            let error = extensions(value.clone()).expect_err("refused").to_string();
            assert!(error.contains("/applications/site/limit_extensions"), "{error}");
            assert!(error.contains(problem), "{value}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_path_makes_the_search_fail(path in prop::collection::vec(any::<u8>(), 0..60)) {
            let extensions = ScriptExtensions::default();
            for end in extensions.script_ends(&path) {
                prop_assert!(path[..end].ends_with(b".php") && path[end] == b'/');
            }
        }
    }
}
