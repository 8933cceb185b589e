//! Paths of a pool.

use std::borrow::Cow;

use super::super::settings::Settings;

/// Where relative paths begin without `prefix`: the directory for which Debian's PHP is built.
const USUAL_PREFIX: &str = "/usr";

/// Returns an absolute path as it is, a relative one below the prefix of the pool.
pub(super) fn whole<'a>(path: &'a str, settings: &Settings) -> Cow<'a, str> {
    if path.starts_with('/') { Cow::Borrowed(path) } else { below(path, settings).into() }
}

/// Returns the path of `chroot` or `chdir`, which may begin with `$prefix`.
pub(super) fn expanded<'a>(path: &'a str, settings: &Settings) -> Cow<'a, str> {
    match path.strip_prefix("$prefix") {
        Some("") => prefix(settings).into(),
        Some(rest) => below(rest, settings).into(),
        None => whole(path, settings),
    }
}

/// Returns true if a path begins at a directory that depends on how PHP was built.
pub(super) fn is_uncertain(path: &str, settings: &Settings) -> bool {
    let own = settings.text("prefix").is_some_and(|prefix| prefix.starts_with('/'));
    !path.starts_with('/') && !own
}

fn below(path: &str, settings: &Settings) -> String {
    format!("{}/{}", prefix(settings).trim_end_matches('/'), path.trim_start_matches('/'))
}

fn prefix(settings: &Settings) -> String {
    match settings.text("prefix") {
        Some(prefix) if prefix.starts_with('/') => prefix.to_owned(),
        Some(prefix) => format!("{USUAL_PREFIX}/{prefix}"),
        None => USUAL_PREFIX.to_owned(),
    }
}
