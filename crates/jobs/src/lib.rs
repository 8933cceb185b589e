//! Jobs of applications: commands that run beside their pages.
//!
//! - [`Job`]: a job, as the document describes it.
//! - [`cron`], [`zone`]: times of timers, and time zones.
//! - [`state`]: which processes of a job to start, to stop and to kill at a time.
//! - [`php_command`]: the command-line PHP of the distribution.
//!
//! Time is an argument. Nothing here reads a clock, starts a process or does I/O.
#![forbid(unsafe_code)]

pub mod cron;
pub mod php_command;
pub mod state;
mod timer;
pub mod zone;

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use cron::Cron;

/// Maximum number of jobs of an application.
pub const MAX_JOBS: usize = 64;

/// Maximum number of processes of a job.
pub const MAX_PROCESSES: u32 = 64;

/// Maximum length of a job's name, in bytes.
pub const MAX_NAME_BYTES: usize = 64;

/// A job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The name in `jobs`: at most [`MAX_NAME_BYTES`] letters, digits, `.`, `_` and `-` of ASCII.
    pub name: String,
    /// The program and its arguments, at least one text, without null characters.
    pub command: Vec<String>,
    /// Environment variables in addition to those of the application.
    pub environment: Vec<(String, String)>,
    /// Number of processes that run the command at the same time, at most [`MAX_PROCESSES`].
    pub processes: u32,
    /// Ends after which the command is started again.
    pub restart: Restart,
    /// Private memory in bytes of a process and its descendants above which it is replaced.
    pub memory: Option<u64>,
    /// The signal that asks the command to end.
    pub stop_signal: StopSignal,
    /// Time from that signal until the command is killed.
    pub stop_timeout: Duration,
    /// The directory that the command starts in; that of the application if `None`.
    pub working_directory: Option<PathBuf>,
    /// The times at which a process runs the command; `None`: it runs all the time.
    pub timer: Option<Timer>,
}

/// The times at which a job runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timer {
    /// The times.
    pub schedule: Schedule,
    /// The time zone of cron's times, a name that [`zone::Zone::is_name`] accepts; that of the
    /// system if `None`.
    pub time_zone: Option<String>,
    /// Starts a run while others run, up to [`MAX_PROCESSES`]; otherwise the new one is left out.
    pub overlap: bool,
    /// Maximum delay of a run, by chance.
    pub jitter: Duration,
    /// Time after which a run is asked to end.
    pub timeout: Option<Duration>,
    /// At each time, one server of several that share a store runs it.
    pub shared: bool,
}

/// The times of a timer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Schedule {
    /// At full intervals since 1970, whatever the clock of the wall does after the first one; at
    /// least a second.
    Every(Duration),
    /// As cron.
    Cron(Cron),
}

/// A time, by both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// By a clock that nobody changes.
    pub monotonic: Instant,
    /// By the clock of the wall.
    pub wall: SystemTime,
}

/// A well-known application whose command and times the server knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// Nextcloud's background jobs.
    Nextcloud,
    /// WordPress's scheduled events.
    WordPress,
}

impl Preset {
    /// The words of the document.
    pub const WORDS: [&str; 2] = ["nextcloud", "wordpress"];

    /// Returns the value of a word of the document.
    pub fn of_word(word: &str) -> Option<Preset> {
        let all = [Preset::Nextcloud, Preset::WordPress];
        Preset::WORDS.into_iter().zip(all).find(|(known, _)| *known == word).map(|(_, one)| one)
    }

    /// Returns the command, for the directory of the application.
    pub fn command(self) -> [&'static str; 3] {
        match self {
            Preset::Nextcloud => ["php", "-f", "cron.php"],
            Preset::WordPress => ["php", "-f", "wp-cron.php"],
        }
    }

    /// Returns the time from start to start: Nextcloud's documentation asks for five minutes.
    pub fn interval(self) -> Duration {
        match self {
            Preset::Nextcloud => Duration::from_secs(300),
            Preset::WordPress => Duration::from_secs(60),
        }
    }
}

/// Ends after which a command is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// After each end.
    Always,
    /// After an end with another status than 0, and after a signal.
    OnFailure,
    /// After none.
    Never,
}

/// A signal that asks a command to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGHUP
    Hup,
    /// SIGINT
    Int,
    /// SIGKILL
    Kill,
    /// SIGQUIT
    Quit,
    /// SIGTERM
    Term,
    /// SIGUSR1
    Usr1,
    /// SIGUSR2
    Usr2,
}

impl Restart {
    /// The words of the document.
    pub const WORDS: [&str; 3] = ["always", "on-failure", "never"];

    /// Returns the value of a word of the document.
    pub fn of_word(word: &str) -> Option<Restart> {
        let all = [Restart::Always, Restart::OnFailure, Restart::Never];
        Restart::WORDS.into_iter().zip(all).find(|(known, _)| *known == word).map(|(_, one)| one)
    }
}

impl StopSignal {
    /// The words of the document.
    pub const WORDS: [&str; 7] = ["HUP", "INT", "KILL", "QUIT", "TERM", "USR1", "USR2"];

    /// Returns the value of a word of the document.
    pub fn of_word(word: &str) -> Option<StopSignal> {
        use StopSignal::{Hup, Int, Kill, Quit, Term, Usr1, Usr2};
        let all = [Hup, Int, Kill, Quit, Term, Usr1, Usr2];
        StopSignal::WORDS.into_iter().zip(all).find(|(known, _)| *known == word).map(|(_, one)| one)
    }
}

/// Returns true if a text can be the name of a job: it is a part of log lines, paths and labels.
pub fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !text.is_empty() && text.len() <= MAX_NAME_BYTES && text.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_document_have_their_values() {
        assert_eq!(Restart::of_word("on-failure"), Some(Restart::OnFailure));
        assert_eq!(Restart::of_word("Always"), None);
        assert_eq!(StopSignal::of_word("TERM"), Some(StopSignal::Term));
        assert_eq!(StopSignal::of_word("USR2"), Some(StopSignal::Usr2));
        assert_eq!(StopSignal::of_word("SIGTERM"), None);
    }

    #[test]
    fn a_name_is_short_and_has_no_character_with_a_meaning_elsewhere() {
        assert!(is_name("queue-1.high_priority") && is_name(&"x".repeat(MAX_NAME_BYTES)));
        for bad in ["", "a b", "a/b", "a\"", "ä", "a\n", &"x".repeat(MAX_NAME_BYTES + 1)] {
            assert!(!is_name(bad), "{bad:?}");
        }
    }
}
