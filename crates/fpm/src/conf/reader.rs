//! Files → sections with values.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use howdah_import::Source;
use howdah_import::php_fpm::ini::{Statement, read_line_with};
use howdah_import::php_fpm::{ARRAYS, GLOBAL, Kind, POOL, find};

use super::checks::whole;
use super::{Conf, Element, Invalid, Section, Value, system};
use crate::log::{Level, Log};

/// Maximum number of files that include each other.
const MAX_DEPTH: usize = 5;

/// Maximum size of a file, in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// Reads a file and those that it includes.
pub(super) fn read(file: &Path, prefix: &Path, log: &Log) -> Result<Conf, Invalid> {
    let conf = Conf { file: file.to_owned(), ..Conf::default() };
    let mut reader = Reader { conf, current: None, depth: 0, prefix, log };
    reader.file(file)?;
    Ok(reader.conf)
}

struct Reader<'a> {
    conf: Conf,
    /// The pool whose section is open; `None` for `[global]`.
    current: Option<usize>,
    depth: usize,
    prefix: &'a Path,
    log: &'a Log,
}

impl Reader<'_> {
    fn error<T>(&self, message: impl std::fmt::Display) -> Result<T, Invalid> {
        self.log.write(Level::Error, message);
        Err(Invalid)
    }

    fn file(&mut self, file: &Path) -> Result<(), Invalid> {
        let name = file.display();
        let text = match read_file(file) {
            Ok(text) => text,
            Err(error) => {
                let error = system(&error);
                return self.error(format!("failed to open configuration file '{name}'{error}"));
            }
        };
        if self.depth >= MAX_DEPTH {
            return self.error("failed to include more than 5 files recursively");
        }
        self.depth += 1;
        for (number, line) in (1..).zip(text.split('\n')) {
            self.line(file, number, line)?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn line(&mut self, file: &Path, number: u32, line: &str) -> Result<(), Invalid> {
        let place = format!("[{}:{number}]", file.display());
        let variables = |name: &str| Some(std::env::var(name).unwrap_or_default());
        let statements = match read_line_with(line, &variables) {
            Ok(statements) => statements,
            Err(message) => return self.error(format!("{place} {message}")),
        };
        let mut include = None;
        for statement in statements {
            match statement {
                Statement::Section(name) => self.open_section(&name, file),
                Statement::Entry { name, key: None, value: None } => {
                    let message = format!(
                        "{place} value is NULL for a ZEND_INI_PARSER_ENTRY: '{name}' has no value"
                    );
                    return self.error(message);
                }
                Statement::Entry { name, key: None, value: Some(value) } if name == "include" => {
                    if include.replace(value.text).is_some() {
                        return self.error(format!("{place} two includes at the same time !"));
                    }
                }
                Statement::Entry { name, key: None, value: Some(value) } => {
                    self.entry(&name, &value.text, &place)?;
                }
                Statement::Entry { name, key: Some(key), value } => {
                    self.array(&name, &key, &value.unwrap_or_default().text, &place)?;
                }
            }
        }
        include.map_or(Ok(()), |pattern| self.include(&pattern, file, number))
    }

    fn open_section(&mut self, name: &str, file: &Path) {
        if name.eq_ignore_ascii_case("global") {
            self.current = None;
            return;
        }
        let pools = &mut self.conf.pools;
        let known = pools.iter().position(|pool| pool.name.eq_ignore_ascii_case(name));
        self.current = Some(known.unwrap_or_else(|| {
            let (name, file) = (name.to_owned(), file.to_owned());
            pools.push(Section { name, file, ..Section::default() });
            pools.len() - 1
        }));
    }

    fn entry(&mut self, name: &str, text: &str, place: &str) -> Result<(), Invalid> {
        let table = if self.current.is_some() { POOL } else { GLOBAL };
        let Some((known, kind)) = find(table, name) else {
            return self.error(format!("{place} unknown entry '{name}'"));
        };
        let pool = self.current.map(|pool| self.conf.pools[pool].name.clone());
        let read = match (kind, &pool) {
            (Kind::Text, None) if text.contains("$pool") => {
                Err("Can't use '$pool' when the pool is not defined")
            }
            _ => kind.value(text).ok_or_else(|| refusal(known, kind, text)),
        };
        let (mut text, number) = match read {
            Ok(read) => read,
            Err(reason) => {
                let message =
                    format!("{place} unable to parse value for entry '{known}': {reason}");
                return self.error(message);
            }
        };
        if let (Kind::Text, Some(pool)) = (kind, &pool) {
            text = text.replace("$pool", pool);
        }
        let section = match self.current {
            Some(pool) => &mut self.conf.pools[pool],
            None => &mut self.conf.global,
        };
        section.values.insert(known, Value { text, number });
        Ok(())
    }

    fn array(&mut self, name: &str, key: &str, value: &str, place: &str) -> Result<(), Invalid> {
        if name == "access.suppress_path" {
            let mut result = Ok(());
            if !key.is_empty() {
                let text = "Keys provided to field 'access.suppress_path' are ignored";
                result = self.error(format!("{place} {text}"));
            }
            if !value.starts_with('/') {
                let text = "Values provided to field 'access.suppress_path' must begin with '/'";
                result = self.error(format!("{place} {text}"));
            }
            result?;
        } else if key.is_empty() {
            return self.error(format!("{place} You must provide a key for field '{name}'"));
        }
        let Some(pool) = self.current else {
            return self.error(format!("{place} Array are not allowed in the global section"));
        };
        let Some((known, is_flag)) = ARRAYS.iter().find(|(known, _)| *known == name) else {
            return self.error(format!("{place} unknown directive '{name}'"));
        };
        if name == "env" && value.is_empty() {
            return self.error(format!("{place} empty value"));
        }
        let pool = &mut self.conf.pools[pool];
        let value = if *is_flag {
            let is_on = Kind::Flag.value(value).is_some_and(|(_, number)| number == 1);
            String::from(if is_on { "1" } else { "0" })
        } else {
            value.replace("$pool", &pool.name)
        };
        pool.elements.push(Element { name: known, key: key.to_owned(), value });
        Ok(())
    }

    fn include(&mut self, pattern: &str, file: &Path, number: u32) -> Result<(), Invalid> {
        let place = format!("from {} at line {number}", file.display());
        let pattern = whole(pattern, self.prefix);
        let found = matches(&pattern);
        if found.is_empty() {
            let message = format!("Nothing matches the include pattern '{pattern}' {place}.");
            self.log.write(Level::Warning, message);
        }
        for path in found {
            if self.file(&path).is_err() {
                return self.error(format!("Unable to include {} {place}", path.display()));
            }
        }
        Ok(())
    }
}

/// Returns the files that a pattern names, in their order.
fn matches(pattern: &str) -> Vec<PathBuf> {
    let mut found = Source::default().glob(pattern, Path::new("/"));
    found.retain(|path| !path.is_dir());
    found
}

fn read_file(file: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    // The size of a device is 0, and it may have no end.
    File::open(file)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(rustix::io::Errno::FBIG.into());
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// Returns why a value is refused, in php-fpm's words.
fn refusal(name: &str, kind: Kind, text: &str) -> &'static str {
    match kind {
        Kind::Text => "internal error: NULL value",
        Kind::Integer => "is not a valid number (greater or equal than zero)",
        Kind::Time if text.is_empty() => "invalid time value",
        Kind::Time => "unknown suffix used in time value",
        Kind::Flag => "invalid boolean value",
        Kind::Core => "must be greater than zero or 'unlimited'",
        Kind::Word(_) if name == "pm" => "invalid process manager (static, dynamic or ondemand)",
        Kind::Word(_) => "invalid value for 'log_level'",
    }
}
