//! PHP-FPM: `php-fpm.conf` and files of pools → applications of type `php`.
//!
//! 1. [`ini`] reads a line as PHP's scanner does.
//! 2. [`files`] follows includes and collects the sections.
//! 3. [`settings`] checks values, with units and words.
//! 4. [`pool`] makes an application of a pool, and gives each directive its status.

use std::path::{Path, PathBuf};

use crate::{Error, Report, Source};

mod files;
mod global;
mod import;
pub mod ini;
mod pool;
mod settings;

pub use import::import;
pub use pool::Pool;
pub use settings::{ARRAYS, GLOBAL, Kind, POOL, find};

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

/// A directive: its name, the text between its brackets if it has these, and its value.
pub type Line = (String, Option<String>, String);

/// Makes an application of a pool whose directives are read and checked already, with those of
/// `[global]`. `file` is where its section begins.
pub fn pool(name: &str, file: &Path, lines: &[Line], global: &[Line]) -> Result<Pool, Error> {
    let mut report = Report::default();
    let mut directives = |lines: &[Line]| -> Vec<files::Directive> {
        let one = |(name, key, value): &Line| {
            let value = ini::Value { text: value.clone(), has_variable: false };
            let id = report.add(file, 1, name.clone());
            files::Directive { id, name: name.clone(), key: key.clone(), value: Some(value) }
        };
        lines.iter().map(one).collect()
    };
    let (own, global) = (directives(lines), directives(global));
    let section =
        files::Section { name: name.to_owned(), file: file.to_owned(), line: 1, directives: own };
    let global = settings::Settings::of_global(&global, &mut report);
    Pool::new(&section, &global, pool::Front::Unknown, &Source::default(), &mut report)
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
