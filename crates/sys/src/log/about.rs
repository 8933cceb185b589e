//! Records about a site: in its own log if it has one, with its name as a field where the format has
//! fields.

use std::fmt;
use std::sync::Arc;

use super::level::Level;
use super::{Log, LogRate, Plain};

/// The site, application and request that a record is about.
pub trait Subject {
    /// Returns the name of the site, as `$site`.
    fn site(&self) -> &str;

    /// Returns the name of the application; `None` if the record is about none.
    fn application(&self) -> Option<&str> {
        None
    }

    /// Returns the public id of the request; `None` if the record is about none.
    fn request_id(&self) -> Option<String> {
        None
    }
}

/// The name of a site.
#[derive(Debug, Clone, Copy)]
pub struct OfSite<'a>(pub &'a str);

impl Subject for OfSite<'_> {
    fn site(&self) -> &str {
        self.0
    }
}

/// The name of an application, which is that of its site.
#[derive(Debug, Clone, Copy)]
pub struct OfApplication<'a>(pub &'a str);

impl Subject for OfApplication<'_> {
    fn site(&self) -> &str {
        self.0
    }

    fn application(&self) -> Option<&str> {
        Some(self.0)
    }
}

/// The log for records about a subject.
pub struct About<'a> {
    main: &'a Log,
    /// The log of the site.
    own: Option<Arc<Log>>,
    subject: &'a dyn Subject,
}

impl<'a> About<'a> {
    pub(super) fn new(main: &'a Log, own: Option<Arc<Log>>, subject: &'a dyn Subject) -> Self {
        About { main, own, subject }
    }

    /// Returns true if the site has a log of its own.
    pub fn has_own(&self) -> bool {
        self.own.is_some()
    }

    fn log(&self) -> &Log {
        self.own.as_deref().unwrap_or(self.main)
    }

    /// Writes a record.
    pub fn write(&self, level: Level, message: impl fmt::Display) {
        self.log().write_counted(level, &message, Some(self.subject));
    }

    /// Writes a record to the log of the site, if it has one, and to the server's.
    pub fn write_to_both(&self, level: Level, message: impl fmt::Display) {
        self.main.write_counted(level, &message, Some(self.subject));
        if let Some(own) = &self.own {
            own.write_counted(level, &message, Some(self.subject));
        }
    }

    /// Writes a record in the name of another process.
    pub fn write_as(&self, pid: u32, level: Level, message: impl fmt::Display) {
        self.log().record(level, pid, pid, &Plain(message), Some(self.subject));
    }

    /// Writes a record in the name of another process, unchanged, and counts it against `rate`, or
    /// leaves it out. `source`: the origin of the record, for the line that says how many were left
    /// out.
    pub fn write_limited(
        &self,
        rate: &LogRate,
        source: &dyn fmt::Display,
        pid: u32,
        level: Level,
        message: impl fmt::Display,
    ) {
        self.log().limited(rate, source, pid, level, &message, Some(self.subject));
    }

    /// Writes a record about a request, shortened, and counts it against `rate`, or leaves it out:
    /// clients can cause these records at any rate.
    pub fn write_shortened(&self, rate: &LogRate, level: Level, message: impl fmt::Display) {
        self.log().shortened(rate, self.subject, level, &message);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fs::{self, File};

    use super::*;

    #[test]
    fn records_about_a_site_are_in_its_log_and_those_about_others_in_the_main_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let file = |name: &str| File::create(path(name)).unwrap().into();
        let main = Log::new(file("main"));
        let own = Arc::new(main.of_site(file("own"), "/own"));
        main.set_sites(HashMap::from([("blog".to_owned(), own)]));
        main.about(&OfSite("blog")).write(Level::Error, "first");
        main.about(&OfApplication("blog")).write_to_both(Level::Error, "second");
        let rate = LogRate::default();
        main.about(&OfSite("shop")).write_shortened(&rate, Level::Error, "third");
        main.about(&OfSite("blog")).write_limited(&rate, &"blog", 7, Level::Error, "fourth");
        let text = |name: &str| fs::read_to_string(path(name)).unwrap();
        let messages = |name: &str| {
            let text = text(name);
            text.lines().map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(messages("own"), ["first", "second", "fourth"]);
        assert_eq!(messages("main"), ["second", "third"]);
    }
}
