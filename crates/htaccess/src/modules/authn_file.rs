//! `mod_authn_file`: `AuthUserFile`.

use crate::config::DirConfig;
use crate::directive::{Arguments, Directive, Override, Place};
use crate::modules::auth_file::lines;
use crate::modules::support::until;
use crate::record::Record;
use crate::world::{Level, World};

/// Path of the file of passwords.
pub use crate::modules::auth_file::AuthFile as Config;

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
    let Some(file) = record.config.authn_file.path() else {
        world.log(Level::Error, "AuthUserFile not specified in the configuration");
        return Err(Answer::Error);
    };
    for line in lines(file, "password", world).ok_or(Answer::Error)? {
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

fn user_file(config: &mut DirConfig, _: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    config.authn_file.set(arguments.first().unwrap_or(&b"".as_slice()));
    Ok(())
}
