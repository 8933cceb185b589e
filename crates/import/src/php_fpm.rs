//! PHP-FPM: `php-fpm.conf` and files of pools → applications of type `php`.
//!
//! 1. [`ini`] reads a line as PHP's scanner does.
//! 2. [`files`] follows includes and collects the sections.
//! 3. [`settings`] checks values, with units and words.
//! 4. [`pool`] makes an application of a pool, and gives each directive its status.

use std::path::PathBuf;

use crate::{Error, Report, Source};

mod files;
mod global;
mod import;
mod ini;
mod pool;
mod settings;

pub use import::import;
pub use pool::Pool;

/// Reads the pools of files and directories, for a web server that passes requests to them. The
/// report gets each of their directives, with its status for a pool that is used: for one that is
/// not, call [`Pool::report_unused`].
pub fn read(
    paths: &[PathBuf],
    source: &mut Source,
    report: &mut Report,
) -> Result<Vec<Pool>, Error> {
    let (pools, global) = read_all(paths, pool::Front::Imported, source, report)?;
    global.report_without_settings(report);
    Ok(pools)
}

fn read_all(
    paths: &[PathBuf],
    front: pool::Front,
    source: &mut Source,
    report: &mut Report,
) -> Result<(Vec<Pool>, global::Global), Error> {
    let sections = files::read_files(paths, source, report)?;
    let global = settings::Settings::of_global(&sections.global, report);
    let pools = sections.pools.iter().map(|pool| Pool::new(pool, &global, front, source, report));
    let pools = pools.collect::<Result<Vec<Pool>, Error>>()?;
    Ok((pools, global::Global::new(&global, report)))
}

#[cfg(test)]
mod tests;
