//! PHP's settings in an application: version, document roots, options.

use std::path::PathBuf;

use serde_json::Value;

use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::{Node, Object, path};
use crate::prefix::Prefix;

/// The row of `root`.
pub(crate) const ROOT: Key = Key::new("root", Kind::Text, "Document root").unit();

/// Keys of applications and targets about their scripts.
pub(crate) const SCRIPT_KEYS: &[Key] = &[
    Key::new("script", Kind::Text, "Script that handles all requests, relative to `root`")
        .default("none")
        .details("Without it, the path of the request names the script")
        .unit(),
    Key::new("index", Kind::Text, "Index script of directories").default("\"index.php\"").unit(),
    Key::new(
        "prefix",
        Kind::Text,
        "Path in front of the paths of scripts that is not a part of their file names",
    )
    .default("none")
    .details(
        "As [`prefix`](share.md#share) of a share. Requests outside of it get 404, unless there \
         is a `script`. Not with `htaccess`",
    ),
];

/// A member of `targets`.
pub(crate) static TARGET: Shape =
    Shape { name: "target", parts: &[&[ROOT.required()], SCRIPT_KEYS] };

/// `options` of an application.
pub(crate) static OPTIONS: Shape = Shape {
    name: "options",
    parts: &[&[
        Key::new("file", Kind::Text, "The `php.ini`")
            .default("the system's")
            .details("If the file does not exist, the system's is used and the log has a line")
            .unit(),
        Key::new("admin", Kind::Named(&Kind::Text), "Settings of PHP that scripts cannot change")
            .default("{}")
            .unit(),
        Key::new("user", Kind::Named(&Kind::Text), "Settings of PHP that scripts can change")
            .default("{}")
            .unit(),
        EXTENSIONS,
    ]],
};

/// `extensions` of `options`, and of `php` of a site.
pub(crate) const EXTENSIONS: Key = Key::new(
    "extensions",
    Kind::Texts,
    "Installed extensions of PHP that are loaded beside those of `php.ini`",
)
.default("none")
.details(
    "By their names: `[\"imagick\", \"xdebug\"]`. PHP is then started for the application alone",
);

/// A version of PHP. Parts that the document omits are `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PhpVersion {
    /// The 8 of 8.2.1; any if `None`.
    pub major: Option<u32>,
    /// The 2 of 8.2.1; any if `None`.
    pub minor: Option<u32>,
    /// The 1 of 8.2.1; any if `None`.
    pub release: Option<u32>,
}

/// A document root and its scripts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhpTarget {
    /// The name in `targets`; `None` if the application has none.
    pub name: Option<String>,
    /// The document root.
    pub root: PathBuf,
    /// The script that answers all requests, relative to the root; if `None`, the path of the
    /// request names the script.
    pub script: Option<String>,
    /// The index script of directories.
    pub index: String,
    /// The part of the path of requests that is not looked up below the root.
    pub prefix: Option<Prefix>,
}

/// Directories that scripts may run from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScriptDirectories {
    /// Scripts must be below one of these directories; anywhere if empty. Absolute, without `..`.
    pub allowed: Vec<PathBuf>,
    /// Scripts must not be below one of these directories. Absolute, without `..`.
    pub forbidden: Vec<PathBuf>,
}

/// Settings of PHP.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PhpOptions {
    /// The `php.ini` to use in place of the system's.
    pub file: Option<PathBuf>,
    /// Settings that scripts cannot change, in document order.
    pub admin: Vec<(String, String)>,
    /// Settings that scripts can change, in document order.
    pub user: Vec<(String, String)>,
    /// Names of extensions that are loaded beside those of the `php.ini`.
    pub extensions: Vec<String>,
}

impl PhpVersion {
    /// Reads an empty string, `8`, `8.2` or `8.2.1`.
    pub fn parse(text: &str) -> Option<PhpVersion> {
        let mut version = PhpVersion::default();
        if text.is_empty() {
            return Some(version);
        }
        let mut numbers = text.split('.').map(|number| {
            if number.bytes().all(|b| b.is_ascii_digit()) { number.parse().ok() } else { None }
        });
        version.major = Some(numbers.next()??);
        version.minor = numbers.next().map_or(Some(None), |minor| minor.map(Some))?;
        version.release = numbers.next().map_or(Some(None), |release| release.map(Some))?;
        numbers.next().is_none().then_some(version)
    }

    /// Returns true if an installed version matches.
    pub fn accepts(self, major: u32, minor: u32, release: u32) -> bool {
        let is = |wanted: Option<u32>, have| wanted.is_none_or(|wanted| wanted == have);
        is(self.major, major) && is(self.minor, minor) && is(self.release, release)
    }
}

impl std::fmt::Display for PhpVersion {
    /// Formats the version as in the document: `8.2`, or an empty string for any version.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let numbers = [self.major, self.minor, self.release];
        for (index, number) in numbers.iter().map_while(|number| *number).enumerate() {
            let dot = if index > 0 { "." } else { "" };
            write!(f, "{dot}{number}")?;
        }
        Ok(())
    }
}

impl PhpTarget {
    /// Reads the targets of an application: its `targets`, or the one described by its own keys.
    pub(crate) fn read_all(application: &Object<'_>) -> Result<Vec<PhpTarget>, Error> {
        /// Unit's limit: its messages have the number of a target in a byte.
        const MAX_TARGETS: usize = 254;
        let Some(node) = application.optional("targets") else {
            return Ok(vec![PhpTarget::read(None, application)?]);
        };
        for key in ["root", "script", "index", "prefix"] {
            if let Some(own) = application.optional(key) {
                return Err(
                    own.invalid("must not stand beside \"targets\"; write it in each target")
                );
            }
        }
        let mut targets = Vec::new();
        for (name, target) in node.members()? {
            if name.is_empty() || name.contains('\0') {
                return Err(
                    target.invalid("must have a name that is not empty, without null characters")
                );
            }
            let object = target.object(&TARGET)?;
            targets.push(PhpTarget::read(Some(name), &object)?);
            object.end()?;
        }
        match targets.len() {
            0 => Err(node.invalid("must have at least one member")),
            1..=MAX_TARGETS => Ok(targets),
            _ => Err(node.invalid("must not have more than 254 members")),
        }
    }

    /// Returns the path of one of the target's keys, relative to the application.
    pub fn key(&self, key: &str) -> String {
        match &self.name {
            Some(name) => format!("targets{}/{key}", path([name])),
            None => key.to_owned(),
        }
    }

    fn read(name: Option<&str>, object: &Object<'_>) -> Result<PhpTarget, Error> {
        Ok(PhpTarget {
            name: name.map(str::to_owned),
            root: object.required("root")?.file()?,
            script: object.text("script")?,
            index: object.text("index")?.unwrap_or_else(|| "index.php".to_owned()),
            prefix: object.read("prefix", Prefix::read)?,
        })
    }
}

impl ScriptDirectories {
    pub(crate) fn read(node: &Node<'_>) -> Result<ScriptDirectories, Error> {
        let mut directories = ScriptDirectories::default();
        for directory in node.strings()? {
            let text = directory.text()?;
            match text.strip_prefix('!') {
                None => directories.allowed.push(directory.directory(text)?),
                Some(text) => directories.forbidden.push(directory.directory(text)?),
            }
        }
        Ok(directories)
    }
}

impl PhpOptions {
    pub(crate) fn read(node: &Node<'_>) -> Result<PhpOptions, Error> {
        let object = node.object(&OPTIONS)?;
        let options = PhpOptions {
            file: object.file("file")?,
            admin: object.read("admin", read_settings)?.unwrap_or_default(),
            user: object.read("user", read_settings)?.unwrap_or_default(),
            extensions: object.read("extensions", read_extensions)?.unwrap_or_default(),
        };
        object.end()?;
        Ok(options)
    }
}

/// Reads names of extensions. They are no paths: code of other directories is not loaded.
pub(crate) fn read_extensions(node: &Node<'_>) -> Result<Vec<String>, Error> {
    let mut names: Vec<String> = Vec::new();
    for name in node.strings()? {
        let text = name.text()?;
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if text.is_empty() || !text.bytes().all(is_part) {
            return Err(name.invalid("must be the name of an extension, such as \"imagick\""));
        }
        if !names.iter().any(|known| known == text) {
            names.push(text.to_owned());
        }
    }
    Ok(names)
}

pub(crate) fn read_settings(node: &Node<'_>) -> Result<Vec<(String, String)>, Error> {
    let mut settings = Vec::new();
    for (name, setting) in node.members()? {
        if name.is_empty() || name.contains('\0') {
            return Err(
                setting.invalid("must have a name that is not empty, without null characters")
            );
        }
        let value = setting.value.as_str().ok_or_else(|| {
            let allowed = "a string, also where PHP takes a number or a switch (\"On\")";
            let error = setting.wrong_type(allowed);
            match as_text(name, setting.value) {
                Some(text) => error.with_hint(format!("write \"{text}\"")),
                None => error,
            }
        })?;
        if value.contains('\0') {
            return Err(setting.invalid("must not contain a null character"));
        }
        settings.push((name.to_owned(), value.to_owned()));
    }
    Ok(settings)
}

/// Returns a number or switch as the text that PHP reads. Few bytes are more likely to be
/// megabytes.
fn as_text(name: &str, value: &Value) -> Option<String> {
    const SIZES: [&str; 3] = ["memory_limit", "post_max_size", "upload_max_filesize"];
    match value {
        Value::Bool(true) => Some("On".to_owned()),
        Value::Bool(false) => Some("Off".to_owned()),
        Value::Number(number) => {
            let is_size = SIZES.contains(&name);
            let is_small = number.as_u64().is_some_and(|bytes| (1..1 << 16).contains(&bytes));
            Some(format!("{number}{}", if is_size && is_small { "M" } else { "" }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_or_switch_is_told_as_the_text_that_php_reads() {
        let text = |name, value| as_text(name, &value);
        assert_eq!(text("memory_limit", 128.into()).as_deref(), Some("128M"));
        assert_eq!(text("memory_limit", (-1).into()).as_deref(), Some("-1"));
        assert_eq!(text("memory_limit", 134_217_728.into()).as_deref(), Some("134217728"));
        assert_eq!(text("max_input_vars", 5000.into()).as_deref(), Some("5000"));
        assert_eq!(text("display_errors", true.into()).as_deref(), Some("On"));
        assert_eq!(text("memory_limit", Value::Null), None);
    }

    #[test]
    fn a_version_is_as_exact_as_it_is_written() {
        let php = |text| PhpVersion::parse(text).expect("a version");
        assert!(php("").accepts(7, 4, 33));
        assert!(php("8").accepts(8, 2, 1) && !php("8").accepts(7, 2, 1));
        assert!(php("8.2").accepts(8, 2, 32) && !php("8.2").accepts(8, 20, 0));
        assert!(php("8.2.1").accepts(8, 2, 1) && !php("8.2.1").accepts(8, 2, 10));
    }

    #[test]
    fn other_text_is_no_version() {
        for text in [" ", "8.", ".8", "8.2.1.0", "8.x", "+8", "-8", "99999999999", "8 2"] {
            assert_eq!(PhpVersion::parse(text), None, "{text}");
        }
    }
}
