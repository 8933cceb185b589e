//! `--env`: environment variables of the applications of a directory.

use std::path::Path;

use howdah_sys::environment::{self, LIBRARY_VARIABLES};
use howdah_sys::regular_file;
use serde_json::{Map, Value, json};

/// First part of the names of variables that set php.ini settings.
const INI_PREFIX: &str = "HOWDAH_PHP_INI_";

/// Last part of the names of variables that name a file with the value of another one, as images for
/// containers use them for secrets.
const FILE_SUFFIX: &str = "_FILE";

/// Maximum length of the file of `--env @FILE`, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// What the options `--env` say.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Variables {
    /// Names, which may end with `*`.
    names: Vec<String>,
    /// Names and values.
    values: Vec<(String, String)>,
}

impl Variables {
    /// Reads the options. Error: what is wrong with one of them; it never has a value.
    pub fn read(options: &[String]) -> Result<Variables, String> {
        let mut all = Variables::default();
        for option in options {
            if let Some(file) = option.strip_prefix('@') {
                let failed = |problem: String| format!("--env: {file}: {problem}");
                let text = regular_file::read(Path::new(file), MAX_FILE)
                    .map_err(|error| failed(error.to_string()))?;
                let text = String::from_utf8(text).map_err(|_| failed("is not UTF-8".into()))?;
                for (index, line) in text.lines().enumerate() {
                    let is_comment = line.trim_start().starts_with('#');
                    if !is_comment && !line.trim().is_empty() {
                        all.add(line).map_err(|problem| {
                            format!("--env: {file}, line {}: {problem}", index + 1)
                        })?;
                    }
                }
            } else {
                all.add(option).map_err(|problem| format!("--env: {problem}"))?;
            }
        }
        Ok(all)
    }

    fn add(&mut self, text: &str) -> Result<(), String> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let plain = name.strip_suffix('*').filter(|_| value.is_none()).unwrap_or(name);
        if name.is_empty() || plain.contains('*') || name.contains(char::is_whitespace) {
            return Err("is not NAME, NAME=VALUE, PREFIX* or @FILE".to_owned());
        }
        if value.is_some_and(|value| value.contains('\0')) || name.contains('\0') {
            return Err(format!("the value of {name} contains a null character"));
        }
        match value {
            Some(value) => {
                self.values.retain(|(other, _)| other != name);
                self.values.push((name.to_owned(), value.to_owned()));
            }
            None => self.names.push(name.to_owned()),
        }
        Ok(())
    }

    /// Makes the values known to the applications of this process, whatever document names them.
    pub fn keep_values(&self) {
        environment::add_for_applications(self.values.clone());
    }

    /// Returns the first name without a value: only a document without the option can take it.
    pub fn name(&self) -> Option<&str> {
        self.names.first().map(String::as_str)
    }

    /// Adds the variables to the applications of a document, by their names: no value becomes a part
    /// of it. `server` is the environment of the server.
    pub fn add_to(&self, document: &mut Value, server: &[(String, String)]) {
        let mut environment = Map::new();
        let names = self.names.iter().chain(self.values.iter().map(|(name, _)| name));
        for name in names {
            environment.insert(name.clone(), json!({ "env": true }));
        }
        for (name, file) in self.files(server) {
            environment.entry(name).or_insert(json!({ "file": file }));
        }
        let ini: Vec<_> = server
            .iter()
            .filter_map(|(name, value)| Some((name.strip_prefix(INI_PREFIX)?, value)))
            .collect();
        let applications = document.get_mut("applications").and_then(Value::as_object_mut);
        for application in applications.into_iter().flat_map(|all| all.values_mut()) {
            for (name, source) in &environment {
                application["environment"][name] = source.clone();
            }
            for (name, value) in &ini {
                application["options"]["user"][*name] = json!(value);
            }
        }
    }

    /// Returns the variables whose values are in the files that variables of the server name:
    /// `NAME_FILE` for `NAME`, if a pattern stands for both. Files that are no values are left out:
    /// `LOG_FILE` may be one that is written to.
    fn files<'a>(&self, server: &'a [(String, String)]) -> Vec<(String, &'a str)> {
        let patterns: Vec<_> =
            self.names.iter().filter_map(|name| name.strip_suffix('*')).collect();
        let found = server.iter().filter_map(|(variable, file)| {
            let name = variable.strip_suffix(FILE_SUFFIX).filter(|name| !name.is_empty())?;
            let is_meant = patterns.iter().any(|first| name.starts_with(first));
            let is_known = server.iter().any(|(other, _)| other == name);
            let is_other = environment::is_private(variable)
                || LIBRARY_VARIABLES.iter().any(|first| variable.starts_with(first));
            if !is_meant || is_known || is_other || !file.starts_with('/') {
                return None;
            }
            environment::read_value(Path::new(file)).ok()?;
            Some((name.to_owned(), file.as_str()))
        });
        found.collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read(options: &[&str]) -> Result<Variables, String> {
        let options: Vec<_> = options.iter().map(|option| (*option).to_owned()).collect();
        Variables::read(&options)
    }

    fn document(options: &[&str], server: &[(&str, &str)]) -> Value {
        let server: Vec<_> =
            server.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let mut document = json!({"applications": {"site": {"type": "php"}}});
        read(options).unwrap().add_to(&mut document, &server);
        document["applications"]["site"].take()
    }

    #[test]
    fn a_document_has_the_names_of_variables_and_no_value() {
        let found = document(&["A", "B=s3cret", "APP_*", "B=s3cret2"], &[("A", "s3cret")]);
        let (named, mut expected) = (json!({"env": true}), json!({"type": "php"}));
        expected["environment"] = json!({"A": named, "APP_*": named, "B": named});
        assert_eq!(found, expected);
        assert_eq!(document(&[], &[("A", "1")]), json!({"type": "php"}));
    }

    #[test]
    fn a_file_has_a_variable_in_each_line() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("env");
        fs::write(&file, "# a comment\n\nA=b = c \nNAME\n").unwrap();
        let option = format!("@{}", file.display());
        let expected = Variables {
            names: vec!["NAME".to_owned()],
            values: vec![("A".to_owned(), "b = c ".to_owned())],
        };
        assert_eq!(read(&[&option]), Ok(expected));
        fs::write(&file, "A=b\n=s3cret\n").unwrap();
        let problem = read(&[&option]).unwrap_err();
        assert!(problem.contains(", line 2: is not NAME") && !problem.contains("s3cret"));
        assert!(read(&["@/nowhere"]).unwrap_err().starts_with("--env: /nowhere: No such file"));
    }

    #[test]
    fn what_is_no_variable_is_an_error_without_the_value() {
        for option in ["", "=s3cret", "A B=s3cret", "A*B", "*A=s3cret", "A*=s3cret"] {
            let problem = read(&[option]).unwrap_err();
            assert!(problem.starts_with("--env: ") && !problem.contains("s3cret"), "{problem}");
        }
    }

    #[test]
    fn a_variable_may_name_the_file_with_the_value_of_another_one() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("secret");
        fs::write(&file, "s3cret").unwrap();
        let file = file.to_str().unwrap();
        let server = [
            ("DB_PASSWORD_FILE", file),
            ("LOG_FILE", "/var/log/nothing-is-here.log"),
            ("OUT_FILE", "/dev/null"),
            ("SSL_CERT_FILE", file),
            ("HOWDAH_CONTROL_TOKEN_FILE", file),
            ("BOTH", "1"),
            ("BOTH_FILE", file),
        ];
        let found = document(&["*"], &server);
        let expected = json!({"*": {"env": true}, "DB_PASSWORD": {"file": file}});
        assert_eq!(found["environment"], expected);
        assert_eq!(document(&["APP_*"], &server)["environment"], json!({"APP_*": {"env": true}}));
    }

    #[test]
    fn variables_set_settings_of_php() {
        let server =
            [("HOWDAH_PHP_INI_memory_limit", "64M"), ("HOWDAH_PHP_INI_opcache.jit", "off")];
        let expected = json!({"user": {"memory_limit": "64M", "opcache.jit": "off"}});
        assert_eq!(document(&[], &server)["options"], expected);
    }
}
