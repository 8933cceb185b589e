//! Variables of `${NAME}`: those of `Define`, and those of Debian's `envvars`.

use std::collections::BTreeMap;
use std::path::Path;

use crate::Source;

/// Variables that Debian's `envvars` exports.
const DEBIAN: [(&str, &str); 6] = [
    ("APACHE_RUN_USER", "www-data"),
    ("APACHE_RUN_GROUP", "www-data"),
    ("APACHE_PID_FILE", "/var/run/apache2/apache2.pid"),
    ("APACHE_RUN_DIR", "/var/run/apache2"),
    ("APACHE_LOCK_DIR", "/var/lock/apache2"),
    ("APACHE_LOG_DIR", "/var/log/apache2"),
];

/// The variables of a configuration.
#[derive(Debug)]
pub struct Environment {
    exported: BTreeMap<String, String>,
    /// Names of `Define`, with a value or without.
    defined: BTreeMap<String, Option<String>>,
}

impl Environment {
    /// Reads `/etc/apache2/envvars` below the root, if it is there.
    pub fn new(source: &mut Source) -> Environment {
        let mut exported: BTreeMap<String, String> =
            DEBIAN.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let path = source.locate(Path::new("/etc/apache2/envvars"), Path::new("/"));
        if let Ok(text) = source.read(&path) {
            for line in text.lines() {
                exported.extend(assignment(line, &exported));
            }
        }
        Environment { exported, defined: BTreeMap::new() }
    }

    /// Adds a name.
    pub fn define(&mut self, name: &str, value: Option<String>) {
        self.defined.insert(name.to_owned(), value);
    }

    /// Removes a name.
    pub fn undefine(&mut self, name: &str) {
        self.defined.remove(name);
    }

    /// Returns true if there is a name, for `<IfDefine>`.
    pub fn is_defined(&self, name: &str) -> bool {
        self.defined.contains_key(name)
    }

    /// Returns the value of a variable.
    pub fn value(&self, name: &str) -> Option<&str> {
        match self.defined.get(name) {
            Some(Some(value)) => Some(value),
            _ => self.exported.get(name).map(String::as_str),
        }
    }

    /// Replaces the variables of a line. Unknown ones stay as they are, as in Apache.
    pub fn resolved(&self, line: &str) -> String {
        let mut resolved = String::new();
        let mut rest = line;
        while let Some(start) = rest.find("${") {
            resolved.push_str(&rest[..start]);
            rest = &rest[start..];
            let end = rest.find('}');
            match end.and_then(|end| Some((end, self.value(&rest[2..end])?))) {
                Some((end, value)) => {
                    resolved.push_str(value);
                    rest = &rest[end + 1..];
                }
                None => {
                    resolved.push_str("${");
                    rest = &rest[2..];
                }
            }
            if resolved.len() > MAX_LINE_BYTES {
                break;
            }
        }
        resolved.push_str(rest);
        resolved
    }
}

/// Longest line with variables, in bytes: values of variables may have further ones.
const MAX_LINE_BYTES: usize = 1 << 16;

/// Reads `export NAME=VALUE` and `: ${NAME:=VALUE}`. A value with a command, or with variables that
/// are not known, is not read.
fn assignment(line: &str, known: &BTreeMap<String, String>) -> Option<(String, String)> {
    let line = line.trim();
    let (name, value) = match line.strip_prefix("export ") {
        Some(rest) => rest.split_once('=')?,
        None => line.strip_prefix(": ${")?.strip_suffix('}')?.split_once(":=")?,
    };
    let value = value.trim().trim_matches(['"', '\'']);
    let mut value = value.replace("${SUFFIX}", "").replace("$SUFFIX", "");
    for (name, known) in known {
        value = value.replace(&format!("${{{name}}}"), known).replace(&format!("${name}"), known);
    }
    (!value.contains(['$', '`'])).then(|| (name.trim().to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_envvars_and_of_define_are_replaced() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("etc/apache2")).unwrap();
        let text = "unset HOME\n: ${APACHE_RUN_USER:=web}\nexport APACHE_RUN_USER\n\
                    export APACHE_LOG_DIR=/logs$SUFFIX\nexport X=`date`\nexport Y=\"$APACHE_LOG_DIR/y\"\n";
        std::fs::write(root.path().join("etc/apache2/envvars"), text).unwrap();
        let mut environment = Environment::new(&mut Source::new(Some(root.path().to_owned())));
        environment.define("A", Some("1".into()));
        environment.define("B", None);
        assert_eq!(
            environment.resolved("${APACHE_LOG_DIR}/a${A}${B}${X} ${"),
            "/logs/a1${B}${X} ${"
        );
        assert_eq!(environment.value("APACHE_RUN_USER"), Some("web"));
        assert!(environment.is_defined("B") && !environment.is_defined("C"));
        environment.undefine("A");
        assert_eq!(environment.resolved("${A}"), "${A}");
    }
}
