//! `mod_authn_file`: `AuthUserFile`.

use crate::config::DirConfig;
use crate::directive::{Arguments, Directive, Override, Place};
use crate::modules::support::{config_lines, lossy, until};
use crate::record::Record;
use crate::world::{Level, World};

/// Directory that relative paths start at: Debian's `ServerRoot`.
const SERVER_ROOT: &[u8] = b"/etc/apache2/";

/// Largest file of passwords or groups in bytes.
pub(crate) const MAX_FILE_BYTES: usize = 16 << 20;

/// Path of the file of passwords.
#[derive(Debug, Clone, Default)]
pub struct Config {
    file: Option<Vec<u8>>,
}

impl Config {
    /// Returns the child's file if it has one.
    pub fn merged(&self, child: &Config) -> Config {
        Config { file: child.file.clone().or_else(|| self.file.clone()) }
    }
}

/// Directives of this module.
pub const DIRECTIVES: &[Directive] = &[Directive {
    name: "AuthUserFile",
    arguments: Arguments::One,
    class: Override::AUTH_CONFIG,
    usage: "text file containing user IDs and passwords",
    apply: user_file,
}];

/// Answer of a provider of passwords.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The password is right.
    Granted,
    /// It is wrong.
    Denied,
    /// The file does not have the user.
    UserNotFound,
    /// The answer is 500.
    Error,
}

/// Checks a password.
pub async fn check(record: &Record, world: &dyn World, user: &[u8], password: &[u8]) -> Answer {
    match stored(record, world, user, None) {
        Ok(Some(stored)) if world.verify(password, &stored).await => Answer::Granted,
        Ok(Some(_)) => Answer::Denied,
        Ok(None) => Answer::UserNotFound,
        Err(answer) => answer,
    }
}

/// Returns the stored form of a user's password; with a realm, that of a file of `htdigest`.
pub fn stored(
    record: &Record,
    world: &dyn World,
    user: &[u8],
    realm: Option<&[u8]>,
) -> Result<Option<Vec<u8>>, Answer> {
    let Some(file) = &record.config.authn_file.file else {
        world.log(Level::Error, "AuthUserFile not specified in the configuration");
        return Err(Answer::Error);
    };
    let Ok(content) = world.read(file, MAX_FILE_BYTES) else {
        world.log(Level::Error, &format!("Could not open password file: {}", lossy(file)));
        return Err(Answer::Error);
    };
    for line in config_lines(&content) {
        if line.is_empty() || line.first() == Some(&b'#') {
            continue;
        }
        let mut rest = line.as_slice();
        if until(&mut rest, b':') != user {
            continue;
        }
        if realm.is_some_and(|realm| until(&mut rest, b':') != realm) {
            continue;
        }
        return Ok(Some(until(&mut rest, b':').to_vec()));
    }
    Ok(None)
}

/// Returns the absolute path of a file that a directive names.
pub(crate) fn absolute(path: &[u8]) -> Vec<u8> {
    match path.first() {
        Some(b'/') => path.to_vec(),
        _ => [SERVER_ROOT, path].concat(),
    }
}

fn user_file(config: &mut DirConfig, _: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    config.authn_file.file = arguments.first().map(|path| absolute(path));
    Ok(())
}
