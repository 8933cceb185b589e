//! A users' file: its current content, and the passwords that have been verified; or a file of
//! groups.
//!
//! The file is opened and read on another thread, by one task at a time and without a lock;
//! requests wait for that without blocking their router thread. The owner of the file is not
//! trusted: the open does not block, and the type is checked afterwards ([`regular_file`]).

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use howdah_sys::log::{Level, Log};
use howdah_sys::regular_file;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::htgroup;
use super::htpasswd::{self, Hash};
use super::turns::{Permits, Turn};

/// Interval at which a file is checked for changes.
const RECHECK: Duration = Duration::from_secs(1);

/// Maximum time for which requests wait for the file.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Maximum size of a file in bytes. Files are kept in memory.
const LARGEST: u64 = 8 << 20;

/// Files in use. All actions that name a file share its content and its permits.
static FILES: Mutex<Option<HashMap<FileKey, Weak<UsersFile>>>> = Mutex::new(None);

/// The path of a file, its kind, and true if its problems are logged.
type FileKey = (PathBuf, Content, bool);

/// What a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Content {
    /// Groups and their members.
    Groups,
    /// Users and their passwords.
    Users,
}

/// A users' file and its state.
#[derive(Debug)]
pub struct UsersFile {
    path: PathBuf,
    content: Content,
    is_reported: bool,
    state: Mutex<State>,
    /// Notified at the end of each read.
    ended: Notify,
    turns: Permits,
}

#[derive(Debug, Default)]
struct State {
    looked: Option<Instant>,
    /// Time at which the read in progress began.
    reading: Option<Instant>,
    users: Option<Arc<Users>>,
    /// Problem to log, and the last one that was logged.
    notes: Vec<(Level, String)>,
    problem: Option<String>,
}

/// Content of a file.
#[derive(Debug)]
pub struct Users {
    stamp: Stamp,
    hashes: HashMap<Vec<u8>, Hash>,
    /// Groups in lower case, by user.
    groups: HashMap<Vec<u8>, Vec<Vec<u8>>>,
    keys: [RandomState; 2],
    /// Keyed hashes of verified passwords, by user.
    known: Mutex<HashMap<Vec<u8>, CredentialHash>>,
}

/// A keyed hash of a name and a password.
pub type CredentialHash = [u64; 2];

/// Attributes of a file that change with its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// Result of a look-up of a name and a password.
pub enum PasswordLookup {
    /// The password was verified before, with the same content of the file.
    Verified,
    /// There are no users, or the name cannot be one.
    Refused,
    /// Compare with this hash: the user's if `real`, otherwise another one that takes the same
    /// time.
    Compare { hash: Hash, real: bool, known: CredentialHash },
}

/// A read in progress. If it never gets a thread, its drop notifies the waiting requests.
struct Reading {
    file: Arc<UsersFile>,
    started: Instant,
    is_told: bool,
}

impl UsersFile {
    /// Returns the file at a path, shared by all actions that name it. Does not read it.
    pub fn at(path: &Path, content: Content) -> Arc<UsersFile> {
        Self::shared((path.to_owned(), content, true))
    }

    /// Returns the file at a path as [`UsersFile::at`] does, for a caller that logs its problems.
    pub fn unreported(path: &Path, content: Content) -> Arc<UsersFile> {
        Self::shared((path.to_owned(), content, false))
    }

    fn shared(key: FileKey) -> Arc<UsersFile> {
        let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
        let files = files.get_or_insert_default();
        if let Some(file) = files.get(&key).and_then(Weak::upgrade) {
            return file;
        }
        files.retain(|_, file| file.strong_count() > 0);
        let (path, content, is_reported) = key.clone();
        let file = Arc::new(UsersFile {
            path,
            content,
            is_reported,
            state: Mutex::default(),
            ended: Notify::new(),
            turns: Permits::default(),
        });
        files.insert(key, Arc::downgrade(&file));
        file
    }

    /// Returns the content of the file, at most [`RECHECK`] old at `now`; `None` if the file cannot
    /// be read, which is logged. If a network drive does not answer, the last content stays in use.
    pub async fn users(self: &Arc<Self>, mut now: Instant, log: &Log) -> Option<Arc<Users>> {
        loop {
            let mut ended = pin!(self.ended.notified());
            let start = {
                let mut state = self.state();
                let is_fresh = |at: Instant| now.saturating_duration_since(at) < RECHECK;
                let is_hung = |begun: Instant| now.saturating_duration_since(begun) >= MAX_WAIT;
                let is_hung = state.reading.is_some_and(is_hung);
                if is_hung {
                    let (path, seconds) = (self.path.display(), MAX_WAIT.as_secs());
                    let meanwhile = match state.users {
                        Some(_) => "; its last content stays in use",
                        None => "",
                    };
                    state.report(format!(
                        "cannot read the users' file {path}: its file system has not answered for \
                         {seconds} s{meanwhile}"
                    ));
                }
                if is_hung || state.looked.is_some_and(is_fresh) {
                    let mut notes = std::mem::take(&mut state.notes);
                    if !self.is_reported {
                        notes.retain(|(level, _)| *level != Level::Error);
                    }
                    let users = state.users.clone();
                    drop(state);
                    for (level, note) in notes {
                        log.write(level, format_args!("{note}"));
                    }
                    return users;
                }
                ended.as_mut().enable();
                let is_first = state.reading.is_none();
                let begun = *state.reading.get_or_insert(now);
                (begun, is_first.then(|| state.users.clone()))
            };
            let (begun, start) = start;
            if let Some(known) = start {
                let reading = Reading { file: Arc::clone(self), started: now, is_told: false };
                tokio::task::spawn_blocking(move || reading.run(known));
            }
            let left = MAX_WAIT.saturating_sub(now.saturating_duration_since(begun));
            if timeout(left, ended).await.is_err() {
                now = now.max(begun + MAX_WAIT);
            }
        }
    }

    /// Returns the problem because of which there are no users.
    pub fn problem(&self) -> Option<String> {
        self.state().problem.clone()
    }

    /// Waits for a permit to compute a slow hash of this file; `None` if too many checks wait
    /// already.
    pub async fn turn(&self, client: Option<IpAddr>) -> Option<Turn> {
        self.turns.next(client).await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code that can panic leaves the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Logs a problem once, not every second.
    fn report(&mut self, problem: String) {
        if self.problem.as_ref() != Some(&problem) {
            self.notes.push((Level::Error, problem.clone()));
            self.problem = Some(problem);
        }
    }
}

impl Users {
    /// Looks up a name and a password.
    pub fn step(&self, name: &[u8], password: &[u8]) -> PasswordLookup {
        let known = self.keys.each_ref().map(|key| key.hash_one((name, password)));
        if self.is_verified(name, &known) {
            return PasswordLookup::Verified;
        }
        let found = self.hashes.get(name);
        // With an empty file there is no hash to compare with, and the response time is the same
        // for all.
        let Some(hash) = found.or_else(|| self.hashes.values().next()) else {
            return PasswordLookup::Refused;
        };
        PasswordLookup::Compare { hash: hash.clone(), real: found.is_some(), known }
    }

    /// Returns true if a user is in one of these groups, whose names are in lower case.
    pub fn is_in(&self, name: &[u8], groups: &[String]) -> bool {
        let own = self.groups.get(name);
        own.is_some_and(|own| {
            groups.iter().any(|group| own.iter().any(|it| it == group.as_bytes()))
        })
    }

    /// Returns true if a password was right before.
    pub fn is_verified(&self, name: &[u8], known: &CredentialHash) -> bool {
        self.known().get(name) == Some(known)
    }

    /// Remembers that a user's password was right.
    pub fn remember(&self, name: &[u8], known: CredentialHash) {
        self.known().insert(name.to_vec(), known);
    }

    /// Locks the keyed hashes of verified passwords.
    pub(super) fn known(&self) -> MutexGuard<'_, HashMap<Vec<u8>, CredentialHash>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reading {
    fn run(mut self, known: Option<Arc<Users>>) {
        let result = read(&self.file.path, self.file.content, known.as_ref());
        self.tell(result);
    }

    fn tell(&mut self, result: io::Result<(Arc<Users>, Vec<String>)>) {
        self.is_told = true;
        let path = self.file.path.display();
        let mut state = self.file.state();
        state.reading = None;
        state.looked = state.looked.max(Some(self.started));
        match result {
            Ok((users, notes)) => {
                state.users = Some(users);
                state.problem = None;
                let notes = notes.into_iter().map(|note| (Level::Warn, format!("{path}: {note}")));
                state.notes.extend(notes);
            }
            Err(error) => {
                // A missing file authenticates no user. A file that is only leased by another
                // process has not changed: its last content stays in use.
                let is_held = error.kind() == io::ErrorKind::WouldBlock && state.users.is_some();
                let meanwhile = if is_held { "; its last content stays in use" } else { "" };
                let kind = match self.file.content {
                    Content::Groups => "file of groups",
                    Content::Users => "users' file",
                };
                let text = format!("cannot read the {kind} {path}: {error}{meanwhile}");
                if !is_held {
                    state.users = None;
                }
                state.report(text);
            }
        }
        drop(state);
        self.file.ended.notify_waiters();
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if !self.is_told {
            self.tell(Err(io::Error::other("the read was interrupted")));
        }
    }
}

/// Reads a file unless it is unchanged. Returns the users and a description of each bad line.
fn read(
    path: &Path,
    content: Content,
    known: Option<&Arc<Users>>,
) -> io::Result<(Arc<Users>, Vec<String>)> {
    let (file, metadata) = regular_file::open(path)?;
    let stamp = Stamp::of(&metadata);
    if let Some(known) = known
        && known.stamp == stamp
    {
        return Ok((Arc::clone(known), Vec::new()));
    }
    if metadata.len() > LARGEST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 8 MiB"));
    }
    let text = bytes(file)?;
    let (hashes, notes) = match content {
        Content::Groups => Default::default(),
        Content::Users => htpasswd::parse(&text),
    };
    let groups = match content {
        Content::Groups => htgroup::parse(&text),
        Content::Users => HashMap::new(),
    };
    let (keys, known) = Default::default();
    Ok((Arc::new(Users { stamp, hashes, groups, keys, known }), notes))
}

fn bytes(file: File) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.take(LARGEST).read_to_end(&mut text)?;
    Ok(text)
}

impl Stamp {
    fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            inode: (metadata.dev(), metadata.ino()),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}
