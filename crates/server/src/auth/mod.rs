//! `basic_auth`: names and passwords (RFC 7617).
//!
//! 1. The users' file is read when it is first needed, and again when it has changed; it is looked
//!    at once a second at most.
//! 2. A password that was right is known again by a keyed hash, so that only the first request
//!    pays for bcrypt. What is known is forgotten when the file changes.
//! 3. Slow hashes are computed beside the thread that serves connections, a bounded number at a
//!    time; requests beyond it are answered with 503.
//!
//! A name that does not exist takes as long as one that does, and nothing tells them apart.

mod htpasswd;

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use howdah_sys::log::{Level, Log};
use tokio::sync::Semaphore;

use self::htpasswd::Hash;
use crate::message::{Request, Response};
use crate::respond;

/// How long a file is used without looking whether it has changed.
const RECHECK: Duration = Duration::from_secs(1);

/// A larger file is refused: it is kept in memory.
const LARGEST: u64 = 8 << 20;

/// A longer password is wrong. bcrypt uses 72 bytes of it.
const LONGEST: usize = 1024;

/// Slow hashes that are computed or wait to be, in all threads.
static SLOW: Semaphore = Semaphore::const_new(32);

/// Who is let in.
#[derive(Debug)]
pub struct BasicAuth {
    challenge: String,
    path: PathBuf,
    users: Mutex<Users>,
}

/// What is known from the file.
#[derive(Debug, Default)]
struct Users {
    looked: Option<Instant>,
    stamp: Option<Stamp>,
    hashes: HashMap<Vec<u8>, Hash>,
    /// Keyed hashes of passwords that were right.
    known: HashMap<Vec<u8>, Known>,
    keys: [RandomState; 2],
    /// How often the file was read.
    reads: u64,
}

type Known = [u64; 2];

/// By what a changed file is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// What follows from a name and a password.
enum Step {
    Welcome,
    Refused,
    /// Compare with the hash; a real user's, or one that only takes as long.
    Compare {
        hash: Hash,
        real: bool,
        known: Known,
        reads: u64,
    },
}

impl BasicAuth {
    /// Nothing is read yet.
    pub fn new(config: &howdah_config::BasicAuth) -> BasicAuth {
        BasicAuth {
            challenge: format!("Basic realm=\"{}\", charset=\"UTF-8\"", config.realm),
            path: config.users_file.clone(),
            users: Mutex::default(),
        }
    }

    /// The name of the user whose password the request has, or the response that asks for one.
    pub async fn check(
        &self,
        request: &Request,
        now: Instant,
        log: &Log,
    ) -> Result<Bytes, Response> {
        let Some((name, password)) = credentials(request) else { return Err(self.ask()) };
        match self.step(&name, &password, now, log)? {
            Step::Welcome => Ok(name.into()),
            Step::Refused => Err(self.ask()),
            Step::Compare { hash, real, known, reads } => {
                if !compare(hash, password).await? || !real {
                    return Err(self.ask());
                }
                let mut users = self.users();
                if users.reads == reads {
                    users.known.insert(name.clone(), known);
                }
                Ok(name.into())
            }
        }
    }

    fn step(
        &self,
        name: &[u8],
        password: &[u8],
        now: Instant,
        log: &Log,
    ) -> Result<Step, Response> {
        let mut users = self.users();
        if let Err(error) = users.refresh(&self.path, now, log) {
            let path = self.path.display();
            log.write(Level::Error, format_args!("cannot read the users' file {path}: {error}"));
            return Err(respond::error(500));
        }
        let known = users.keys.each_ref().map(|key| key.hash_one((name, password)));
        if users.known.get(name) == Some(&known) {
            return Ok(Step::Welcome);
        }
        let found = users.hashes.get(name);
        // Without any user there is nobody whose existence could be told.
        let Some(hash) = found.or_else(|| users.hashes.values().next()) else {
            return Ok(Step::Refused);
        };
        let (hash, real) = (hash.clone(), found.is_some());
        Ok(Step::Compare { hash, real, known, reads: users.reads })
    }

    fn ask(&self) -> Response {
        respond::error(401).with("WWW-Authenticate", &self.challenge)
    }

    fn users(&self) -> MutexGuard<'_, Users> {
        // Nothing that holds the lock leaves users half read.
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Users {
    fn refresh(&mut self, path: &std::path::Path, now: Instant, log: &Log) -> io::Result<()> {
        let fresh = |at: Instant| now.saturating_duration_since(at) < RECHECK;
        if self.stamp.is_some() && self.looked.is_some_and(fresh) {
            return Ok(());
        }
        let result = self.read(path, log);
        match result {
            Ok(()) => self.looked = Some(now),
            // Nobody is let in by a file that is gone.
            Err(_) => *self = Users { reads: self.reads + 1, ..Users::default() },
        }
        result
    }

    fn read(&mut self, path: &std::path::Path, log: &Log) -> io::Result<()> {
        let metadata = std::fs::metadata(path)?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        if self.stamp == Some(Stamp::of(&metadata)) {
            return Ok(());
        }
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.len() > LARGEST {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 8 MiB"));
        }
        let mut text = Vec::new();
        file.take(LARGEST).read_to_end(&mut text)?;
        let (hashes, useless) = htpasswd::parse(&text);
        if useless > 0 {
            let path = path.display();
            log.write(
                Level::Warn,
                format_args!("{path}: {useless} lines are not used; bcrypt, apr1 and {{SHA}} are"),
            );
        }
        let (stamp, reads) = (Some(Stamp::of(&metadata)), self.reads + 1);
        *self = Users { stamp, hashes, reads, ..Users::default() };
        Ok(())
    }
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

/// Name and password of a request. Several fields say nothing.
fn credentials(request: &Request) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut fields = request.fields.get_all("authorization");
    let (field, None) = (fields.next()?, fields.next()) else { return None };
    let (scheme, rest) = field.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let mut name = howdah_config::base64::decode(rest.trim_ascii())?;
    let colon = memchr::memchr(b':', &name)?;
    let password = name.split_off(colon + 1);
    name.truncate(colon);
    // Control characters are not allowed in either (RFC 7617, 2).
    let sound = |text: &[u8]| !text.iter().any(u8::is_ascii_control);
    (sound(&name) && sound(&password) && password.len() <= LONGEST).then_some((name, password))
}

async fn compare(hash: Hash, password: Vec<u8>) -> Result<bool, Response> {
    if !hash.is_slow() {
        return Ok(hash.accepts(&password));
    }
    let Ok(permit) = SLOW.try_acquire() else { return Err(respond::error(503)) };
    let result = tokio::task::spawn_blocking(move || {
        let accepted = hash.accepts(&password);
        drop(permit);
        accepted
    });
    result.await.map_err(|_| respond::error(500))
}

#[cfg(test)]
mod tests;
