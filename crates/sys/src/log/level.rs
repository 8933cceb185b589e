//! Severities of records.

/// Severity of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The administrator must act.
    Alert,
    /// Something failed.
    Error,
    /// Something may fail.
    Warn,
    /// Normal and important.
    Notice,
    /// Normal.
    Info,
    /// For debugging only.
    Debug,
}

impl Level {
    /// All levels, the most severe first.
    pub const ALL: [Level; 6] =
        [Level::Alert, Level::Error, Level::Warn, Level::Notice, Level::Info, Level::Debug];

    /// Returns the level with this name; `None` if there is none.
    pub fn named(name: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.as_str() == name)
    }

    /// Returns the name of the level.
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Alert => "alert",
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Notice => "notice",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }

    /// Returns the level of a syslog severity, 0 (emergency) to 7 (debug). Emergencies and alerts
    /// of a script are errors to the server.
    pub fn from_syslog(severity: u8) -> Self {
        match severity {
            0..=3 => Level::Error,
            4 => Level::Warn,
            5 => Level::Notice,
            6 => Level::Info,
            _ => Level::Debug,
        }
    }
}
