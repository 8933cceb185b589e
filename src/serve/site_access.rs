//! Checks at the start that the server's user can read a site, and that symbolic links on the path
//! to it are followed. Otherwise every request would be answered with 403.

use std::path::Path;

use howdah_config::Config;
use howdah_sys::credentials::Credentials;
use howdah_sys::permission::{Obstacle, Wanted};

/// Checks that `user` can read `directory` and enter all directories above it. The error names the
/// directory without permission and the remedy.
pub fn check(directory: &Path, user: &Credentials) -> Result<(), String> {
    let directory_name = directory.display();
    let cannot =
        |problem: &dyn std::fmt::Display| format!("cannot serve {directory_name}: {problem}");
    if user.uid != 0
        && let Err(error) = std::fs::metadata(directory)
    {
        return Err(cannot(&error));
    }
    // Links on the way to it are the administrator's own.
    let path = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    match Obstacle::find(&path, user, Wanted::Read) {
        None => Ok(()),
        Some(obstacle) => Err(cannot(&format_args!(
            "{obstacle}, move the site, or choose another user with --user"
        ))),
    }
}

/// Returns a line for each front file of a site (its front controller, and index files) that `user`
/// may not read: requests for it would be answered with 403.
pub fn unreadable_front(config: &Config, user: &Credentials) -> Vec<String> {
    let scripts = config.applications.iter().flat_map(|application| &application.targets);
    let scripts = scripts.map(|target| match &target.script {
        Some(script) => target.root.join(script.trim_start_matches('/')),
        None => target.root.join(&target.index),
    });
    let shares = config.action_paths().into_iter().filter(|served| served.is_directory);
    let pages = shares.map(|served| served.file.join("index.html"));
    let mut lines = Vec::new();
    for file in scripts.chain(pages) {
        let Some(obstacle) = Obstacle::find(&file, user, Wanted::Read) else { continue };
        let line = format!("requests for {} get 403: {obstacle}", file.display());
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// Checks that the server follows all symbolic links on the path to a site's document root. The
/// error names the link and the remedy.
pub fn check_links(directory: &Path, config: &Config) -> Result<(), String> {
    let served = config.action_paths();
    let link = served.iter().find_map(|s| howdah_sys::links::refused_link(&s.file, s.is_directory));
    link.map_or(Ok(()), |link| {
        let directory = directory.display();
        Err(format!("cannot serve {directory}: {link}; name the directory itself"))
    })
}
