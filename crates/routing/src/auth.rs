//! `basic_auth`: names and passwords (RFC 7617).
//!
//! 1. The users' file is read when it is first needed, and again when it has changed; it is checked
//!    at most once a second (`users`).
//! 2. A verified password is cached as a keyed hash, so that only the first request pays for
//!    bcrypt. The cache is cleared when the file changes.
//! 3. Slow hashes are computed on other threads, a bounded number at a time; each users' file has
//!    its own share of that number, and each client one place among the waiting checks (`turns`).
//!
//! Responses to unknown and to known names are the same and take the same time. The owner of a
//! users' file is not trusted: the file can block neither a router thread nor the users of another
//! file.

mod des;
mod htpasswd;
mod passwords;
mod turns;
mod users;

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use howdah_http::error_status::RequestError;
use howdah_http::message::Request;
use howdah_sys::log::Log;

use self::htpasswd::Hash;
use self::users::{PasswordLookup, UsersFile};

pub use self::passwords::{Passwords, verify};
pub use self::turns::Permits;

/// Maximum length of a password in bytes. bcrypt uses 72.
const MAX_PASSWORD_BYTES: usize = 1024;

/// Password check of an action.
#[derive(Debug)]
pub struct BasicAuth {
    challenge: String,
    file: Arc<UsersFile>,
}

impl BasicAuth {
    /// Compiles the settings. The users' file is read with the first request.
    pub fn new(config: &howdah_config::BasicAuth) -> BasicAuth {
        BasicAuth {
            challenge: format!("Basic realm=\"{}\", charset=\"UTF-8\"", config.realm),
            file: UsersFile::at(&config.users_file),
        }
    }

    /// Returns the name of the user whose password the request has.
    pub async fn check(
        &self,
        request: &Request,
        now: Instant,
        log: &Log,
    ) -> Result<Bytes, RequestError> {
        let Some((name, password)) = credentials(request) else {
            return Err(RequestError::Unauthenticated);
        };
        let Some(users) = self.file.users(now, log).await else {
            return Err(RequestError::Internal);
        };
        match users.step(&name, &password) {
            PasswordLookup::Verified => Ok(name.into()),
            PasswordLookup::Refused => Err(RequestError::Unauthenticated),
            PasswordLookup::Compare { hash, real, known } => {
                let client = request.connection.peer.map(|peer| peer.ip());
                let turn = if hash.is_slow() {
                    Some(self.file.turn(client).await.ok_or(RequestError::TooManyPasswords)?)
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
    pub fn challenge(&self) -> &str {
        &self.challenge
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
