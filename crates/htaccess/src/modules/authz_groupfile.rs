//! `mod_authz_groupfile`: `AuthGroupFile`.

use crate::config::DirConfig;
use crate::directive::{Arguments, Directive, Override, Place};
use crate::modules::auth_file::{TooManyWait, search};
use crate::query::{Found, Query};
use crate::record::Record;
use crate::world::{Level, World};

/// Path of the file of groups.
pub use crate::modules::auth_file::AuthFile as Config;

/// Directives of this module.
pub const DIRECTIVES: &[Directive] = &[Directive {
    name: "AuthGroupFile",
    arguments: Arguments::One,
    class: Override::AUTH_CONFIG,
    usage: "text file containing group names and member user IDs",
    apply: group_file,
}];

/// Returns the groups of a user in lower case; `None` without a file or if it cannot be read.
///
/// # Errors
///
/// Too many searches wait.
pub(crate) async fn groups(
    record: &Record,
    world: &dyn World,
    user: &[u8],
) -> Result<Option<Found>, TooManyWait> {
    let Some(file) = record.config.authz_groupfile.path() else {
        world.log(Level::Error, "No group file was specified in the configuration");
        return Ok(None);
    };
    search(file, "group", &Query::Groups { user: user.to_vec() }, world).await
}

fn group_file(config: &mut DirConfig, _: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    config.authz_groupfile.set(arguments.first().unwrap_or(&b"".as_slice()));
    Ok(())
}
