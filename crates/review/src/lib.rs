//! Review of the `.htaccess` files of a site, for `serve` and `check`, and `howdah htaccess
//! explain`.
//!
//! The files belong to the owner of the site. They are read with the rights of the user that serves
//! them, and the number of directories and the size of files that are looked at have limits.
#![forbid(unsafe_code)]

mod effects;
mod explain;
mod findings;
mod search;
mod site_file;

use std::path::{Path, PathBuf};

pub use self::explain::{Explain, run as explain};
use howdah_config::{Config, Htaccess};
use howdah_sys::credentials::{Credentials, run_as};

/// Findings about files that are read, a line each.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of files.
    pub files: usize,
    /// Errors: requests below the directory of the file get 500.
    pub errors: Vec<String>,
    /// Files and directives that are not read or ignored.
    pub notes: Vec<String>,
}

/// Returns the number of files below a directory that the user can see; at least 1 if the search
/// has ended before it was complete.
pub fn count(root: &Path, user: Option<&Credentials>) -> Result<usize, String> {
    let count = || {
        let found = search::search(root, &Htaccess::default().file);
        found.files.len().max(usize::from(!found.is_complete)).to_string()
    };
    let text = run_as(user, count).map_err(|error| error.to_string())?;
    text.parse().map_err(|_| format!("{}: .htaccess files cannot be counted", root.display()))
}

/// Reviews the files below directories, as the user.
pub fn report(
    roots: &[(PathBuf, &Htaccess)],
    user: Option<&Credentials>,
) -> Result<Report, String> {
    let of_root = |(root, settings): &(PathBuf, &Htaccess)| findings::findings(root, settings);
    let review = || roots.iter().map(of_root).collect::<Vec<_>>().join("\n");
    let text = run_as(user, review).map_err(|error| error.to_string())?;
    let mut report = Report::default();
    for line in text.lines() {
        match line.split_at_checked(1) {
            Some((findings::FILE, _)) => report.files += 1,
            Some((findings::ERROR, line)) => report.errors.push(line.to_owned()),
            Some((findings::NOTE, line)) => report.notes.push(line.to_owned()),
            _ => {}
        }
    }
    Ok(report)
}

/// Returns warnings about files that are not read and deny access, and notes about those that send
/// requests to other files, as the user.
pub fn unread(config: &Config, user: Option<&Credentials>) -> (Vec<String>, Vec<String>) {
    let find = || findings::unread(config);
    let failed = |error| format!("{}.htaccess files: {error}", findings::WARNING);
    let text = run_as(user, find).unwrap_or_else(failed);
    let of = |kind: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix(kind));
        lines.map(str::to_owned).collect()
    };
    (of(findings::WARNING), of(findings::NOTE))
}
