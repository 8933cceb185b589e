//! `basic_auth`: names and passwords (RFC 7617).
//!
//! 1. The users' file is read when it is first needed, and again when it has changed; it is checked
//!    at most once a second (`users`).
//! 2. A verified password is cached as a keyed hash, so that only the first request pays for
//!    bcrypt. The cache is cleared when the file changes.
//! 3. A name of a file with variables leads to one of several files (`files_by_name`).
//! 4. Slow hashes are computed on other threads, a bounded number at a time; each users' file has
//!    its own share of that number, and each client one place among the waiting checks (`turns`).
//! 5. Of the users with the right password, only those that `users` and `groups` name may enter.
//!
//! Responses to unknown and to known names are the same and take the same time. The owner of a
//! users' file is not trusted: the file can block neither a router thread nor the users of another
//! file.

mod des;
mod files_by_name;
mod htgroup;
mod htpasswd;
mod passwords;
mod turns;
mod users;

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use howdah_config::{Condition, Template};
use howdah_http::error_status::RequestError;
use howdah_http::message::Request;
use howdah_http::variables::VariableSource;
use howdah_sys::log::Log;

use self::files_by_name::FilesByName;
use self::htpasswd::Hash;
use self::users::{Content, PasswordLookup, UsersFile};

pub use self::passwords::{Passwords, verify};
pub use self::turns::Permits;

/// Maximum length of a password in bytes. bcrypt uses 72.
const MAX_PASSWORD_BYTES: usize = 1024;

/// Password check of an action.
#[derive(Debug)]
pub struct BasicAuth {
    realm: Template,
    condition: Option<Condition>,
    files: Files,
    members: Option<Members>,
}

/// The users' file.
#[derive(Debug)]
enum Files {
    /// Depends on the request.
    ByName(FilesByName),
    /// The same for all requests.
    One(Arc<UsersFile>),
}

/// Users that may enter.
#[derive(Debug)]
struct Members {
    users: Vec<String>,
    groups: Option<(Arc<UsersFile>, Vec<String>)>,
}

impl BasicAuth {
    /// Compiles the settings. The files are read with the first request.
    pub fn new(config: &howdah_config::BasicAuth) -> BasicAuth {
        let members = config.members.as_ref().map(|members| Members {
            users: members.users.clone(),
            groups: { members.groups_file.as_ref() }
                .map(|file| (UsersFile::at(file, Content::Groups), members.groups.clone())),
        });
        let files = match config.users_file.constant() {
            Some(file) => Files::One(UsersFile::at(file.as_ref(), Content::Users)),
            None => Files::ByName(FilesByName::new(config.users_file.clone())),
        };
        let (realm, condition) = (config.realm.clone(), config.condition.clone());
        BasicAuth { realm, condition, files, members }
    }

    /// Returns true if a request needs a password.
    pub fn is_needed(&self, source: &VariableSource<'_>) -> bool {
        self.condition.as_ref().is_none_or(|condition| {
            condition.holds(&mut Vec::new(), |variable, out| {
                source.write(variable, out);
            })
        })
    }

    /// Returns the name of the user whose password the request has.
    pub async fn check(
        &self,
        source: &VariableSource<'_>,
        now: Instant,
        log: &Log,
    ) -> Result<Bytes, RequestError> {
        let name = self.authenticate(source, now, log).await?;
        match &self.members {
            Some(members) if !members.have(&name, now, log).await? => {
                Err(RequestError::Unauthenticated)
            }
            _ => Ok(name),
        }
    }

    async fn authenticate(
        &self,
        source: &VariableSource<'_>,
        now: Instant,
        log: &Log,
    ) -> Result<Bytes, RequestError> {
        let request = source.request.ok_or(RequestError::Internal)?;
        let Some((name, password)) = credentials(request) else {
            return Err(RequestError::Unauthenticated);
        };
        let (file, users) = match &self.files {
            Files::ByName(files) => files.users(source, now, log).await?,
            Files::One(file) => {
                let users = file.users(now, log).await.ok_or(RequestError::Internal)?;
                (Arc::clone(file), users)
            }
        };
        match users.step(&name, &password) {
            PasswordLookup::Verified => Ok(name.into()),
            PasswordLookup::Refused => Err(RequestError::Unauthenticated),
            PasswordLookup::Compare { hash, real, known } => {
                let client = request.connection.peer.map(|peer| peer.ip());
                let turn = if hash.is_slow() {
                    Some(file.turn(client).await.ok_or(RequestError::TooManyPasswords)?)
                } else {
                    None
                };
                // Another request may have verified the same password while this one waited.
                if users.is_verified(&name, &known) {
                    return Ok(name.into());
                }
                if !compare(hash, password, turn).await? || !real {
                    return Err(RequestError::Unauthenticated);
                }
                users.remember(&name, known);
                Ok(name.into())
            }
        }
    }

    /// Returns the value of `WWW-Authenticate`, which asks for a password.
    pub fn challenge(&self, source: &VariableSource<'_>) -> Vec<u8> {
        let mut realm = Vec::new();
        self.realm.expand(&mut realm, |variable, out| {
            source.write(variable, out);
        });
        let mut challenge = b"Basic realm=\"".to_vec();
        for byte in realm.into_iter().filter(|byte| !byte.is_ascii_control()) {
            if matches!(byte, b'"' | b'\\') {
                challenge.push(b'\\');
            }
            challenge.push(byte);
        }
        challenge.extend_from_slice(b"\", charset=\"UTF-8\"");
        challenge
    }
}

impl Members {
    /// Returns true if a user may enter.
    async fn have(&self, name: &[u8], now: Instant, log: &Log) -> Result<bool, RequestError> {
        if self.users.iter().any(|user| user.as_bytes() == name) {
            return Ok(true);
        }
        let Some((file, groups)) = &self.groups else { return Ok(false) };
        let found = file.users(now, log).await.ok_or(RequestError::Internal)?;
        Ok(found.is_in(name, groups))
    }
}

/// Returns name and password of a request; `None` without exactly one valid field.
fn credentials(request: &Request) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut fields = request.fields.get_all("authorization");
    let (field, None) = (fields.next()?, fields.next()) else { return None };
    let (scheme, rest) = field.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let mut name = howdah_text::base64::decode(rest.trim_ascii())?;
    let colon = memchr::memchr(b':', &name)?;
    let password = name.split_off(colon + 1);
    name.truncate(colon);
    // Control characters are not allowed in either (RFC 7617, 2).
    let sound = |text: &[u8]| !text.iter().any(u8::is_ascii_control);
    (sound(&name) && sound(&password) && password.len() <= MAX_PASSWORD_BYTES)
        .then_some((name, password))
}

/// Returns true if the hash accepts the password. With a permit, computes on another thread;
/// without one, here.
async fn compare(
    hash: Hash,
    password: Vec<u8>,
    turn: Option<turns::Turn>,
) -> Result<bool, RequestError> {
    let Some(turn) = turn else { return Ok(hash.accepts(&password)) };
    let result = tokio::task::spawn_blocking(move || {
        let accepted = hash.accepts(&password);
        drop(turn);
        accepted
    });
    result.await.map_err(|_| RequestError::Internal)
}

#[cfg(test)]
mod tests;
