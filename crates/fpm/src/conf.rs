//! `php-fpm.conf` and its pools, as php-fpm reads them, with its messages.
//!
//! 1. [`reader`] reads the files, follows includes and checks each value.
//! 2. [`checks`] completes paths and defaults, and checks what belongs together.
//! 3. [`dump`] prints the result (`-tt`).
//!
//! Which directives there are, and how their values are read, say the tables of `howdah-import`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::command_line::Arguments;
use crate::log::{Level, Log};

mod checks;
mod dump;
mod reader;

pub(crate) use checks::{DEFAULT_SYSTEMD_INTERVAL, is_id, is_path};

/// The prefix of Debian's PHP: relative paths begin there.
pub const PREFIX: &str = "/usr";

/// The directory of `error_log` and `pid` if they are relative, of Debian's PHP.
const STATE_PREFIX: &str = "/var";

/// The configuration.
#[derive(Debug, Default)]
pub struct Conf {
    /// The file with `[global]`.
    pub file: PathBuf,
    /// `[global]`
    pub global: Section,
    /// The pools, in their order.
    pub pools: Vec<Section>,
}

/// The configuration has a mistake, which is logged.
#[derive(Debug, PartialEq, Eq)]
pub struct Invalid;

/// A section.
#[derive(Debug, Default, Clone)]
pub struct Section {
    /// The name of the pool.
    pub name: String,
    /// The file in which the section begins.
    pub file: PathBuf,
    values: BTreeMap<&'static str, Value>,
    /// Directives with brackets, in their order.
    pub elements: Vec<Element>,
}

/// The value of a directive.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Value {
    text: String,
    number: i64,
}

/// A directive with brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// The name without the brackets.
    pub name: &'static str,
    /// The text between the brackets.
    pub key: String,
    /// The value; of a flag `1` or `0`.
    pub value: String,
}

impl Section {
    /// Returns a text, unless it is not set or empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|value| value.text.as_str()).filter(|text| !text.is_empty())
    }

    /// Returns true if the directive is set, perhaps to an empty value.
    pub fn is_set(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Returns a number, the seconds of a time, or 1 for a flag; `otherwise` if it is not set.
    pub fn number(&self, name: &str, otherwise: i64) -> i64 {
        self.values.get(name).map_or(otherwise, |value| value.number)
    }

    /// All directives without brackets, with their values.
    pub fn values(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.values.iter().map(|(name, value)| (*name, value.text.as_str()))
    }

    fn set_text(&mut self, name: &'static str, text: String) {
        self.values.entry(name).or_default().text = text;
    }

    fn set_number(&mut self, name: &'static str, number: i64) {
        self.values.insert(name, Value { text: number.to_string(), number });
    }
}

impl Conf {
    /// Reads and checks the configuration; the log gets its level and its target. `file` is that of
    /// the command line, or the usual one.
    pub fn load(file: &Path, arguments: &Arguments, log: &mut Log) -> Result<Conf, Invalid> {
        if let Some(prefix) = &arguments.prefix
            && !prefix.is_dir()
        {
            let prefix = prefix.display();
            let message =
                format!("the global prefix '{prefix}' does not exist or is not a directory");
            log.write(Level::Error, message);
            return Err(Invalid);
        }
        let prefix = arguments.prefix.clone().unwrap_or_else(|| PREFIX.into());
        let mut conf = match reader::read(file, &prefix, log) {
            Ok(conf) => conf,
            Err(Invalid) => {
                let file = file.display();
                log.write(Level::Error, format!("failed to load configuration file '{file}'"));
                return Err(Invalid);
            }
        };
        if checks::check(&mut conf, arguments, &prefix, log).is_err() {
            log.write(Level::Error, "failed to post process the configuration");
            return Err(Invalid);
        }
        Ok(conf)
    }

    /// Checks the users and groups of the pools, and prints the result of `-t` or `-tt`.
    pub fn test(&self, arguments: &Arguments, log: &Log) -> Result<(), Invalid> {
        self.pools.iter().try_for_each(|pool| checks::check_users(pool, log))?;
        if arguments.tests > 1 {
            dump::dump(self, log);
        }
        let file = self.file.display();
        log.write(Level::Notice, format!("configuration file {file} test is successful"));
        Ok(())
    }
}

/// Returns an error of the system as php-fpm writes it: `: No such file or directory (2)`.
pub(crate) fn system(error: &std::io::Error) -> String {
    let number = error.raw_os_error().unwrap_or(0);
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    format!(": {text} ({number})")
}

#[cfg(test)]
mod tests;
