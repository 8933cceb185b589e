//! The report: what became of each directive of the input.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// What became of a directive. The order is that of [`Report::mark`]: of several statuses for one
/// directive, the last in this list remains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Howdah does the same without a key, or the directive has no effect.
    NotNeeded,
    /// The document says the same.
    Converted,
    /// The document says it with a difference that the reason names.
    Changed,
    /// The document does not say it. Where the directive refuses requests, the place is closed.
    NotConverted,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotNeeded => "not needed",
            Self::Converted => "converted",
            Self::Changed => "changed",
            Self::NotConverted => "not converted",
        })
    }
}

/// A directive of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The file as it was read.
    pub file: PathBuf,
    /// The line on which the directive begins, from 1.
    pub line: u32,
    /// The directive, with its name first: `listen 80`, `<Directory /srv>`, `env[A]`.
    pub directive: String,
    /// What became of it. `None` until an importer has looked at it.
    status: Option<Status>,
    /// Why the status is not "converted"; empty for [`Status::Converted`].
    reason: String,
}

impl Entry {
    /// What became of the directive. A directive at which no importer has looked is not converted.
    pub fn status(&self) -> Status {
        self.status.unwrap_or(Status::NotConverted)
    }

    /// Returns true if no importer has looked at the directive.
    pub fn is_open(&self) -> bool {
        self.status.is_none()
    }

    /// Why the status is not "converted"; `None` for [`Status::Converted`].
    pub fn reason(&self) -> Option<&str> {
        match self.status {
            None => Some("Howdah does not know this directive"),
            Some(Status::Converted) => None,
            Some(_) => Some(&self.reason),
        }
    }
}

/// A directive of a [`Report`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(usize);

/// What became of each directive of the input, in the order in which they were read.
#[derive(Debug, Default)]
pub struct Report {
    entries: Vec<Entry>,
}

impl Report {
    /// Adds a directive. A file that is included several times is read once, so its directives are
    /// added once.
    pub fn add(&mut self, file: &Path, line: u32, directive: impl Into<String>) -> Id {
        let entry = Entry {
            file: file.to_owned(),
            line,
            directive: directive.into(),
            status: None,
            reason: String::new(),
        };
        self.entries.push(entry);
        Id(self.entries.len() - 1)
    }

    /// The document says the same as the directive.
    pub fn converted(&mut self, id: Id) {
        self.mark(id, Status::Converted, "");
    }

    /// Gives a directive a status. The reason is a sentence without a full stop, and empty for
    /// [`Status::Converted`]. Of several statuses, for example of an inherited directive, the worst
    /// remains, with its first reason.
    pub fn mark(&mut self, id: Id, status: Status, reason: impl Into<String>) {
        let entry = &mut self.entries[id.0];
        if entry.status.is_none_or(|former| former < status) {
            entry.status = Some(status);
            entry.reason = reason.into();
        }
    }

    /// Gives a directive another status, whatever it was: for one that was marked before it was
    /// known whether it is used.
    pub fn replace(&mut self, id: Id, status: Status, reason: impl Into<String>) {
        let entry = &mut self.entries[id.0];
        entry.status = Some(status);
        entry.reason = reason.into();
    }

    /// Returns true if a directive has a status.
    pub fn is_marked(&self, id: Id) -> bool {
        self.entries[id.0].status.is_some()
    }

    /// Returns true if no importer has looked at a directive yet.
    pub fn is_open(&self, id: Id) -> bool {
        self.entries[id.0].status.is_none()
    }

    /// All directives, in the order in which they were read.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The directive of an id.
    pub fn entry(&self, id: Id) -> &Entry {
        &self.entries[id.0]
    }

    /// The directives with a status.
    pub fn with_status(&self, status: Status) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.status() == status)
    }

    /// The report as a list of `{"file", "line", "directive", "status", "reason"}`; a converted
    /// directive has no reason.
    pub fn to_json(&self) -> Value {
        let entry = |entry: &Entry| {
            let mut value = json!({
                "file": entry.file.to_string_lossy(),
                "line": entry.line,
                "directive": entry.directive,
                "status": entry.status().to_string(),
            });
            if let Some(reason) = entry.reason() {
                value["reason"] = reason.into();
            }
            value
        };
        self.entries.iter().map(entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directive_at_which_nobody_has_looked_is_not_converted() {
        let mut report = Report::default();
        report.add(Path::new("/etc/a.conf"), 3, "brotli on");
        assert_eq!(
            report.to_json(),
            json!([{
                "file": "/etc/a.conf",
                "line": 3,
                "directive": "brotli on",
                "status": "not converted",
                "reason": "Howdah does not know this directive",
            }])
        );
    }

    #[test]
    fn the_worst_of_several_statuses_remains_with_its_first_reason() {
        let mut report = Report::default();
        let id = report.add(Path::new("a"), 1, "add_header X y");
        report.mark(id, Status::Changed, "first");
        report.mark(id, Status::Changed, "second");
        report.converted(id);
        assert_eq!(report.entry(id).status(), Status::Changed);
        assert_eq!(report.entry(id).reason(), Some("first"));
        report.mark(id, Status::NotConverted, "third");
        assert_eq!(report.entry(id).reason(), Some("third"));
    }
}
