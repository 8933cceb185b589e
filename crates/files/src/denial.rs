//! Lines of the log about paths that the system did not let the server open: the directory or file,
//! the user, and the command that grants access.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use howdah_http::message::{Request, ShownRequest};
use howdah_sys::credentials::Credentials;
use howdah_sys::log::{Level, Log};
use howdah_sys::permission::{Obstacle, Wanted};

/// Time until there is another line about the same directory or file.
const PAUSE: Duration = Duration::from_secs(60);

/// Maximum number of denials that are looked into in an [`INTERVAL`], by all threads together.
const MAX_DENIALS: u32 = 20;

const INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of directories and files that are remembered; there is no line about more.
const MAX_KNOWN: usize = 256;

/// A path that the system did not let the server open.
#[derive(Debug)]
pub(super) struct Denial {
    pub path: Vec<u8>,
    pub problem: Problem,
}

/// Reason why a path could not be opened.
#[derive(Debug, Clone, Copy)]
pub(super) enum Problem {
    /// Permissions are missing for the wanted access.
    Permission(Wanted),
    /// Its links lead to each other, or are too many.
    LinkLoop,
}

impl Problem {
    /// Describes the problem with links.
    pub const LINK_LOOP: &str =
        "its symbolic links lead to each other, or are more than 40; let the link name the file";
}

/// Writes the lines, one for each directory or file in a minute. All threads share it.
#[derive(Debug)]
pub struct DenialLog {
    log: Arc<Log>,
    /// The user whose rights to files the server has.
    user: Credentials,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Time of the last line about a directory or file.
    known: HashMap<PathBuf, Instant>,
    interval_start: Option<Instant>,
    denials: u32,
}

impl DenialLog {
    /// Creates the writer for a server that reads files with the rights of `user`.
    pub fn new(log: Arc<Log>, user: Credentials) -> Self {
        DenialLog { log, user, state: Mutex::default() }
    }

    /// Writes a line about the reason why a path could not be opened, unless there was one shortly
    /// before. The line names the request, if there is one.
    pub(super) fn write(&self, denial: &Denial, request: Option<&Request>, now: Instant) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.may_look(now) {
            return;
        }
        let path = Path::new(OsStr::from_bytes(&denial.path));
        let (place, problem) = match denial.problem {
            Problem::Permission(wanted) => {
                let obstacle = Obstacle::explain(path, &self.user, wanted);
                (obstacle.path.clone(), obstacle.to_string())
            }
            Problem::LinkLoop => (path.to_owned(), Problem::LINK_LOOP.to_owned()),
        };
        if state.is_new(&place, now) {
            drop(state);
            let path = path.display();
            self.write_line(
                Level::Error,
                request,
                format_args!("{path} cannot be opened: {problem}"),
            );
        }
    }

    /// Writes a line about a request.
    pub(super) fn write_line(
        &self,
        level: Level,
        request: Option<&Request>,
        text: fmt::Arguments<'_>,
    ) {
        match request {
            Some(request) => {
                self.log.write(level, format_args!("{}: {text}", ShownRequest(request)))
            }
            None => self.log.write(level, text),
        }
    }
}

impl State {
    fn may_look(&mut self, now: Instant) -> bool {
        let is_over = |start: Instant| now.saturating_duration_since(start) >= INTERVAL;
        if self.interval_start.is_none_or(is_over) {
            (self.interval_start, self.denials) = (Some(now), 0);
        }
        self.denials += 1;
        self.denials <= MAX_DENIALS
    }

    fn is_new(&mut self, path: &Path, now: Instant) -> bool {
        let is_recent = |at: &Instant| now.saturating_duration_since(*at) < PAUSE;
        if self.known.get(path).is_some_and(is_recent) {
            return false;
        }
        if self.known.len() >= MAX_KNOWN {
            self.known.retain(|_, at| is_recent(at));
        }
        let has_room = self.known.len() < MAX_KNOWN;
        if has_room {
            self.known.insert(path.to_owned(), now);
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_line_about_a_directory_in_a_minute_and_few_about_many() {
        let (mut state, start) = (State::default(), Instant::now());
        let path = |number: usize| PathBuf::from(number.to_string());
        assert!(state.is_new(&path(0), start) && !state.is_new(&path(0), start));
        assert!(state.is_new(&path(0), start + PAUSE));
        let later = start + PAUSE * 3;
        let told = (0..1000).filter(|number| state.is_new(&path(*number), later)).count();
        assert_eq!((told, state.known.len()), (MAX_KNOWN, MAX_KNOWN));
        assert!(state.is_new(&path(2000), later + PAUSE));
        let looked = (0..1000).filter(|_| state.may_look(later)).count();
        assert_eq!(looked, MAX_DENIALS as usize);
        assert!(state.may_look(later + INTERVAL));
    }
}
