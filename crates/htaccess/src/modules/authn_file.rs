//! `mod_authn_file`: `AuthUserFile`.

use crate::config::{DirConfig, ModuleConfig, Slot};
use crate::directive::{Arguments, Directive, Override, Place};
use crate::modules::auth_file::{AuthFile, search};
use crate::query::Query;
use crate::record::Record;
use crate::world::{Level, World};

/// Path of the file of passwords.
#[derive(Debug, Clone, Default)]
pub struct Config(AuthFile);

impl ModuleConfig for Config {
    const SLOT: Slot = Slot::AuthnFile;

    fn merged(&self, child: &Config) -> Config {
        Config(self.0.merged(&child.0))
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
    /// The password is wrong.
    Denied,
    /// The file does not have the user.
    UserNotFound,
    /// The answer is 500.
    Error,
    /// Too many passwords are being checked: the answer is 503.
    Busy,
}

/// Checks a password.
pub async fn check(record: &Record, world: &dyn World, user: &[u8], password: &[u8]) -> Answer {
    match stored(record, world, user, None).await {
        Ok(Some(stored)) => match world.verify(password, &stored).await {
            Some(true) => Answer::Granted,
            Some(false) => Answer::Denied,
            None => Answer::Busy,
        },
        Ok(None) => Answer::UserNotFound,
        Err(answer) => answer,
    }
}

/// Returns the stored form of a user's password; with a realm, that of a file of `htdigest`.
pub async fn stored(
    record: &Record,
    world: &dyn World,
    user: &[u8],
    realm: Option<&[u8]>,
) -> Result<Option<Vec<u8>>, Answer> {
    let Some(file) = record.config.of::<Config>().0.path() else {
        world.log(Level::Error, "AuthUserFile not specified in the configuration");
        return Err(Answer::Error);
    };
    let query = Query::Password { user: user.to_vec(), realm: realm.map(<[u8]>::to_vec) };
    let found = search(file, "password", &query, world).await.map_err(|_| Answer::Busy)?;
    Ok(found.ok_or(Answer::Error)?.iter().next().cloned())
}

fn user_file(config: &mut DirConfig, _: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    config.of_mut::<Config>().0.set(arguments.first().unwrap_or(&b"".as_slice()));
    Ok(())
}
