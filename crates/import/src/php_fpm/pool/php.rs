//! The PHP of a pool, and its `php.ini`.

use std::path::Path;

use crate::Source;

/// The PHP of a pool.
pub(super) struct Php {
    /// The type of the application, with the version if it is known.
    pub(super) kind: String,
    /// The `php.ini` of PHP-FPM where it is not the one of all programs, as in Debian.
    pub(super) ini: Option<String>,
}

impl Php {
    /// Finds the PHP of a pool by its file, such as `/etc/php/8.2/fpm/pool.d/www.conf`, or its
    /// address, such as `/run/php/php8.2-fpm.sock`. Without a version in these, the settings are
    /// those of the newest.
    pub(super) fn of(file: &Path, listen: &str, source: &Source) -> Self {
        let version = of_file(file).or(of_socket(listen));
        let exists = |version: &str| {
            let path = format!("/etc/php/{version}/fpm/php.ini");
            source.exists(&source.locate(Path::new(&path), Path::new("/"))).then_some(path)
        };
        let ini = match version {
            Some(version) => exists(version),
            None => newest(source).and_then(|version| exists(&version)),
        };
        let kind = version.map_or("php".to_owned(), |version| format!("php {version}"));
        Self { kind, ini }
    }
}

fn of_file(file: &Path) -> Option<&str> {
    let parts: Vec<&str> = file.iter().filter_map(|part| part.to_str()).collect();
    parts.windows(3).find_map(|parts| match parts {
        ["php", version, "fpm"] if number(version).is_some() => Some(*version),
        _ => None,
    })
}

fn of_socket(listen: &str) -> Option<&str> {
    let (_, name) = listen.rsplit_once("/php")?;
    let (version, _) = name.split_once("-fpm")?;
    number(version).map(|_| version)
}

/// Returns the newest version of which the machine of the configuration has PHP-FPM.
fn newest(source: &Source) -> Option<String> {
    let found = source.glob("/etc/php/*/fpm/php.ini", Path::new("/"));
    let versions = found.iter().filter_map(|file| of_file(file));
    versions.max_by_key(|version| number(version)).map(str::to_owned)
}

/// Returns the numbers of a version such as `8.2`.
fn number(version: &str) -> Option<(u32, u32)> {
    let (major, minor) = version.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
