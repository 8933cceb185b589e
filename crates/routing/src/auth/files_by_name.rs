//! Users' files whose names depend on the request, such as `/etc/htpasswd/$host`.
//!
//! 1. The name stays in its directory: a variable's value that is empty or has a slash, and a part
//!    `.` or `..`, name no file ([`path`]).
//! 2. Files that exist are kept, at most [`MAX_FILES`]; the one that was not used for longest
//!    leaves. Names of files that do not exist take no memory.
//! 3. Files that are not kept are opened one after the other, a client's in its turn, so that
//!    invented names keep no threads busy. At most one problem a minute is logged.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use howdah_config::{Part, Template};
use howdah_http::error_status::RequestError;
use howdah_http::variables::VariableSource;
use howdah_sys::log::{Level, Log};

use super::turns::Permits;
use super::users::{Content, Users, UsersFile};

/// Files of one action.
#[derive(Debug)]
pub struct FilesByName {
    name: Template,
    kept: Mutex<Kept>,
    openings: Permits,
}

#[derive(Debug, Default)]
struct Kept {
    files: HashMap<PathBuf, (Arc<UsersFile>, Instant)>,
    reported: Option<Instant>,
}

/// Maximum number of files that are kept.
const MAX_FILES: usize = 256;

/// Minimum time between two problems that are logged.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

impl FilesByName {
    /// Creates the files of a name with variables.
    pub fn new(name: Template) -> FilesByName {
        FilesByName { name, kept: Mutex::default(), openings: Permits::for_files() }
    }

    /// Returns the file for a request, and its content. Error: there is none, or it cannot be read.
    pub async fn users(
        &self,
        source: &VariableSource<'_>,
        now: Instant,
        log: &Log,
    ) -> Result<(Arc<UsersFile>, Arc<Users>), RequestError> {
        let path = path(&self.name, source).ok_or(RequestError::Forbidden)?;
        let client = source.request.and_then(|request| request.connection.peer);
        let (kept, _turn) = match self.kept_file(&path, now) {
            Some(file) => (file, None),
            None => {
                let turn = self.openings.next(client.map(|peer| peer.ip())).await;
                let turn = turn.ok_or(RequestError::TooManyPasswords)?;
                // Another request may have opened the file while this one waited.
                let file = self.kept_file(&path, now);
                let file = file.unwrap_or_else(|| UsersFile::unreported(&path, Content::Users));
                (file, Some(turn))
            }
        };
        match kept.users(now, log).await {
            Some(users) => {
                self.keep(path, &kept, now);
                Ok((kept, users))
            }
            None => {
                let mut state = self.state();
                state.files.remove(&path);
                let is_due = |at: Instant| now.saturating_duration_since(at) >= REPORT_INTERVAL;
                if state.reported.is_none_or(is_due) {
                    state.reported = Some(now);
                    drop(state);
                    let problem = kept.problem();
                    let problem = problem.as_deref().unwrap_or("cannot read the users' file");
                    log.write(Level::Error, format_args!("{problem}; the request gets 403"));
                }
                Err(RequestError::Forbidden)
            }
        }
    }

    fn kept_file(&self, path: &Path, now: Instant) -> Option<Arc<UsersFile>> {
        let mut state = self.state();
        let (file, used) = state.files.get_mut(path)?;
        *used = now;
        Some(Arc::clone(file))
    }

    fn keep(&self, path: PathBuf, file: &Arc<UsersFile>, now: Instant) {
        let mut state = self.state();
        if !state.files.contains_key(&path) && state.files.len() >= MAX_FILES {
            let oldest = state.files.iter().min_by_key(|(_, (_, used))| *used);
            let oldest = oldest.map(|(path, _)| path.clone());
            oldest.and_then(|path| state.files.remove(&path));
        }
        state.files.insert(path, (Arc::clone(file), now));
    }

    fn state(&self) -> MutexGuard<'_, Kept> {
        // No code that can panic leaves the state half changed.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the name of a file; `None` if it would not stay in its directory.
fn path(name: &Template, source: &VariableSource<'_>) -> Option<PathBuf> {
    let mut path = Vec::new();
    for part in name.parts() {
        match part {
            Part::Literal(text) => path.extend_from_slice(text.as_bytes()),
            Part::Variable(variable) => {
                let mut value = Vec::new();
                source.write(variable, &mut value);
                if value.is_empty() || value.iter().any(|byte| matches!(byte, b'/' | 0)) {
                    return None;
                }
                path.extend_from_slice(&value);
            }
        }
    }
    let climbs = |part: &[u8]| matches!(part, b"." | b"..");
    if path.split(|byte| *byte == b'/').any(climbs) {
        return None;
    }
    Some(OsString::from_vec(path).into())
}

#[cfg(test)]
mod tests {
    use howdah_http::fixture::request;

    use super::*;

    fn path_for(name: &str, target: &str) -> Option<String> {
        let request = request(target, &[]);
        let source = VariableSource::of(&request, Instant::now());
        let path = path(&Template::parse(name).unwrap(), &source)?;
        Some(path.into_os_string().into_string().unwrap())
    }

    #[test]
    fn no_value_leaves_the_directory() {
        for (name, value, expected) in [
            ("/d/$arg_a", "b", Some("/d/b")),
            ("/d/of-$arg_a/users", "b.c", Some("/d/of-b.c/users")),
            ("/d/$arg_a", "..b", Some("/d/..b")),
            ("/d/$arg_a", "", None),
            ("/d/$arg_a", ".", None),
            ("/d/$arg_a", "..", None),
            ("/d/.$arg_a", ".", None),
            ("/d/$arg_a$arg_a", ".", None),
            ("/d/$arg_a", "..%2fetc", None),
            ("/d/x$arg_a", "%2f..%2f..%2fetc%2fpasswd", None),
            ("/d/$arg_a", "%2fetc%2fpasswd", None),
            ("/d/$arg_a", "b%00", None),
            ("/d$uri", "b", None),
        ] {
            let found = path_for(name, &format!("/x?a={value}"));
            assert_eq!(found.as_deref(), expected, "{name} {value}");
        }
    }

    #[test]
    fn the_number_of_kept_files_is_limited_and_missing_ones_are_not_kept() {
        let directory = tempfile::tempdir().unwrap();
        let name = format!("{}/$arg_a", directory.path().display());
        let files = FilesByName::new(Template::parse(&name).unwrap());
        let log = Log::new(tempfile::tempfile().unwrap().into());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let start = Instant::now();
        let mut now = start;
        let mut ask = |name: String| {
            now += Duration::from_millis(1);
            let request = request(&format!("/?a={name}"), &[]);
            let source = VariableSource::of(&request, start);
            runtime.block_on(files.users(&source, now, &log)).map(drop)
        };
        for number in 0..3 {
            assert_eq!(ask(format!("none-{number}")), Err(RequestError::Forbidden));
        }
        assert_eq!(files.state().files.len(), 0);
        for number in 0..MAX_FILES + 10 {
            std::fs::write(directory.path().join(number.to_string()), "a:{PLAIN}b\n").unwrap();
            assert_eq!(ask(number.to_string()), Ok(()));
            assert_eq!(ask("0".to_owned()), Ok(()), "it is in use");
        }
        let state = files.state();
        assert_eq!(state.files.len(), MAX_FILES);
        let kept =
            |number: usize| state.files.contains_key(&directory.path().join(number.to_string()));
        assert!(kept(0) && !kept(1) && !kept(10) && kept(12));
        let mut text = String::new();
        let mut written = std::fs::File::from(log.handle().unwrap());
        std::io::Seek::rewind(&mut written).unwrap();
        std::io::Read::read_to_string(&mut written, &mut text).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}
