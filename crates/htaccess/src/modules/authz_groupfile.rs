//! `mod_authz_groupfile`: `AuthGroupFile`.

use crate::config::{DirConfig, ModuleConfig, Slot};
use crate::directive::{Arguments, Directive, Override, Place};
use crate::modules::auth_file::{AuthFile, TooManyWait, search};
use crate::query::{Found, Query};
use crate::record::Record;
use crate::world::{Level, World};

/// Path of the file of groups.
#[derive(Debug, Clone, Default)]
pub struct Config(AuthFile);

impl ModuleConfig for Config {
    const SLOT: Slot = Slot::AuthzGroupfile;

    fn merged(&self, child: &Config) -> Config {
        Config(self.0.merged(&child.0))
    }
}

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
    let Some(file) = record.config.of::<Config>().0.path() else {
        world.log(Level::Error, "No group file was specified in the configuration");
        return Ok(None);
    };
    search(file, "group", &Query::Groups { user: user.to_vec() }, world).await
}

fn group_file(config: &mut DirConfig, _: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    config.of_mut::<Config>().0.set(arguments.first().unwrap_or(&b"".as_slice()));
    Ok(())
}
