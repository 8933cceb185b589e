//! `mod_authz_groupfile`: `AuthGroupFile`.

use crate::config::DirConfig;
use crate::directive::{Arguments, Directive, Override, Place};
use crate::modules::authn_file::{MAX_FILE_BYTES, absolute};
use crate::modules::support::{config_lines, lossy, trimmed, until, words};
use crate::record::Record;
use crate::world::{Level, World};

/// Path of the file of groups.
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
    name: "AuthGroupFile",
    arguments: Arguments::One,
    class: Override::AUTH_CONFIG,
    usage: "text file containing group names and member user IDs",
    apply: group_file,
}];

/// Returns the groups of a user; `None` without a file or if it cannot be read.
pub(crate) fn groups(record: &Record, world: &dyn World, user: &[u8]) -> Option<Vec<Vec<u8>>> {
    let Some(file) = &record.config.authz_groupfile.file else {
        world.log(Level::Error, "No group file was specified in the configuration");
        return None;
    };
    let Ok(content) = world.read(file, MAX_FILE_BYTES) else {
        world.log(Level::Error, &format!("Could not open group file: {}", lossy(file)));
        return None;
    };
    let mut groups = Vec::new();
    for line in config_lines(&content) {
        if line.is_empty() || line.first() == Some(&b'#') {
            continue;
        }
        let mut rest = line.as_slice();
        let name = until(&mut rest, b':');
        if words(rest).iter().any(|word| word == user) {
            groups.push(trimmed(name).to_vec());
        }
    }
    Some(groups)
}

fn group_file(config: &mut DirConfig, _: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    config.authz_groupfile.file = arguments.first().map(|path| absolute(path));
    Ok(())
}
