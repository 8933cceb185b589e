//! The parts of the configuration that are out: they cannot run, alone, and the rest is served.
//!
//! [`OutParts`] compares the parts that are out now with those that were out before. It is pure:
//! the time is an argument.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};

use howdah_questions::PartStatus;

use super::server_status::http_date;

/// The kind of a part of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartKind {
    /// A listener: its address cannot be listened on.
    Listener,
    /// A certificate of a listener: its names get none.
    Certificate,
    /// An application: its requests get 503.
    Application,
    /// Servers of an upstream: their name has no address, or their TLS cannot be used.
    Upstream,
    /// A log: the server's own, an access log or a slow log.
    Log,
    /// The file of a cache: responses are kept in memory only.
    Cache,
    /// A database of addresses.
    Table,
    /// A file of the document: its definitions are out, or as they were before.
    Include,
    /// A site: its file cannot be used.
    Site,
    /// The state directory: changes cannot be stored.
    State,
    /// A directory for temporary files: requests and responses that do not fit in memory fail.
    Temporary,
}

impl PartKind {
    /// Returns its word in the log and in the control API.
    pub fn word(self) -> &'static str {
        match self {
            PartKind::Listener => "listener",
            PartKind::Certificate => "certificate",
            PartKind::Application => "application",
            PartKind::Upstream => "upstream",
            PartKind::Log => "log",
            PartKind::Cache => "cache",
            PartKind::Table => "table",
            PartKind::Include => "include",
            PartKind::Site => "site",
            PartKind::State => "state directory",
            PartKind::Temporary => "temporary directory",
        }
    }
}

/// State of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The whole part is out.
    Out,
    /// The part works with its former content since a file broke, or is a certificate that has
    /// expired.
    Stale,
    /// The whole part works, but not for long or not as configured: a certificate before its end,
    /// an application whose worker script another script stands in for.
    Limited,
    /// The part works, but all of its processes have been busy for long, while requests wait.
    Busy,
}

impl Extent {
    /// Returns true if the part is not out: there is only a warning.
    pub fn is_warning(self) -> bool {
        matches!(self, Extent::Limited | Extent::Busy)
    }
}

/// A part that is out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutPart {
    /// Its kind.
    pub kind: PartKind,
    /// Its name in the configuration.
    pub name: String,
    /// The file of a site, or of the site that an application is of.
    pub file: Option<String>,
    /// State of the part.
    pub extent: Extent,
    /// Reason why it is out, and the remedy.
    pub reason: String,
    /// Since when.
    pub since: SystemTime,
}

impl OutPart {
    /// Returns the part as the control API shows it.
    pub(super) fn status(&self) -> PartStatus {
        PartStatus {
            kind: self.kind.word().into(),
            name: self.name.clone(),
            file: self.file.clone(),
            reason: self.reason.clone(),
            since: http_date(self.since),
        }
    }
}

impl fmt::Display for OutPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} \"{}\"", self.kind.word(), self.name)?;
        match self.file.as_ref().filter(|file| !self.reason.contains(*file)) {
            Some(file) => write!(f, " ({file})"),
            None => Ok(()),
        }
    }
}

/// A part that was found to be out, as of [`OutPart`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) kind: PartKind,
    pub(super) name: String,
    /// The file of a site, or of the site that an application is of.
    pub(super) file: Option<String>,
    pub(super) extent: Extent,
    pub(super) reason: String,
}

impl Found {
    /// A part that does not work at all.
    pub(super) fn out(kind: PartKind, name: impl Into<String>, reason: impl Into<String>) -> Found {
        let (name, reason) = (name.into(), reason.into());
        Found { kind, name, file: None, extent: Extent::Out, reason }
    }
}

/// The parts that are out.
#[derive(Debug, Default)]
pub(super) struct OutParts {
    out: BTreeMap<(PartKind, String, Option<String>), OutPart>,
}

/// The differences to the time before.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Differences {
    /// Parts that are out now and were not, or have another reason.
    pub(super) begun: Vec<OutPart>,
    /// Parts that are in use again, with the time for which they were out.
    pub(super) ended: Vec<(OutPart, Duration)>,
}

impl OutParts {
    /// Takes the parts that are out at this time.
    pub(super) fn update(&mut self, found: Vec<Found>, now: SystemTime) -> Differences {
        let mut differences = Differences::default();
        let mut before = std::mem::take(&mut self.out);
        for Found { kind, name, file, extent, reason } in found {
            let key = (kind, name.clone(), file.clone());
            if self.out.contains_key(&key) {
                continue; // it is out for two reasons; the first is told
            }
            let known = before.remove(&key);
            let since = known.as_ref().map_or(now, |known| known.since);
            let part = OutPart { kind, name, file, extent, reason, since };
            if known.is_none_or(|known| known.reason != part.reason) {
                differences.begun.push(part.clone());
            }
            self.out.insert(key, part);
        }
        let time = |part: OutPart| {
            let time = now.duration_since(part.since).unwrap_or_default();
            (part, time)
        };
        differences.ended = before.into_values().map(time).collect();
        differences
    }

    /// Returns all parts that are out, sorted by kind and name.
    pub(super) fn list(&self) -> Vec<OutPart> {
        self.out.values().cloned().collect()
    }

    /// Returns the names in one line of at most about `limit` characters; empty if no part is out.
    /// Parts that still work are left out.
    pub(super) fn summary(&self, limit: usize) -> String {
        let mut text = String::new();
        let out: Vec<_> = self.out.values().filter(|part| !part.extent.is_warning()).collect();
        for (index, part) in out.iter().enumerate() {
            let part = part.to_string();
            if index > 0 && text.len() + part.len() > limit {
                return format!("{text} and {} more", out.len() - index);
            }
            text = if index == 0 { part } else { format!("{text}, {part}") };
        }
        text
    }

    /// Returns true if no part is out.
    pub(super) fn is_empty(&self) -> bool {
        self.out.is_empty()
    }
}

/// Pauses between the attempts to bring a part back, from a tenth of a second to [`MAX_PAUSE`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Attempts(u32);

/// Maximum pause: a repaired part is in use again within twice this time.
pub(super) const MAX_PAUSE: Duration = Duration::from_secs(5);

impl Attempts {
    /// Counts an attempt that has failed. Returns the pause before the next one.
    pub(super) fn failed(&mut self) -> Duration {
        let pause = Duration::from_millis(100).saturating_mul(1 << self.0.min(8)).min(MAX_PAUSE);
        self.0 += 1;
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn found(kind: PartKind, name: &str, reason: &str) -> Found {
        Found::out(kind, name, reason)
    }

    #[test]
    fn each_part_is_told_once_when_it_goes_and_once_when_it_comes_back() {
        let mut parts = OutParts::default();
        let blog = || found(PartKind::Application, "blog", "no user");
        let port = || found(PartKind::Listener, "*:80", "taken");
        let begun = parts.update(vec![blog(), port(), blog()], at(10)).begun;
        assert_eq!(
            begun.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["application \"blog\"", "listener \"*:80\""]
        );
        assert_eq!(parts.update(vec![blog(), port()], at(11)), Differences::default());
        let changed = found(PartKind::Application, "blog", "no root");
        let differences = parts.update(vec![changed], at(15));
        assert_eq!(differences.begun.len(), 1, "it has another reason");
        assert_eq!(differences.begun[0].since, at(10));
        let (back, time) = &differences.ended[0];
        assert_eq!((back.to_string(), time.as_secs()), ("listener \"*:80\"".to_owned(), 5));
        assert!(!parts.is_empty());
        assert_eq!(parts.update(Vec::new(), at(16)).ended.len(), 1);
        assert!(parts.is_empty());
    }

    #[test]
    fn the_line_about_many_parts_has_a_limit() {
        let mut parts = OutParts::default();
        assert_eq!(parts.summary(80), "");
        let all = (0..1000).map(|number| found(PartKind::Log, &format!("/l{number:03}"), "full"));
        parts.update(all.collect(), at(0));
        assert_eq!(parts.summary(30), "log \"/l000\", log \"/l001\" and 998 more");
        let long = found(PartKind::Log, &"x".repeat(50), "full");
        parts.update(vec![long], at(0));
        assert_eq!(parts.summary(30), format!("log \"{}\"", "x".repeat(50)));
        let soon =
            Found { extent: Extent::Limited, ..found(PartKind::Certificate, "c", "expires") };
        parts.update(vec![soon], at(0));
        assert_eq!((parts.summary(30), parts.list().len()), (String::new(), 1));
    }

    #[test]
    fn pauses_grow_to_five_seconds() {
        let mut attempts = Attempts::default();
        let pauses: Vec<_> = (0..8).map(|_| attempts.failed().as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
    }
}
