//! Zero configuration: looks at a directory and says what kind of site it holds.
//!
//! 1. `public/index.php` (or `web`, `webroot`): a framework's project, whose public directory alone
//!    is served.
//! 2. `wp-includes/version.php` or `wp-load.php`: WordPress.
//! 3. `index.php`: a front controller in the directory itself.
//! 4. Any `*.php` file: scripts that are requested by their names.
//! 5. Nothing of that: files.
//!
//! A project of Laravel or Composer without an entrance for visitors is refused, as its sources, databases
//! and packages would be served. [`Closed`] says which parts of a site are closed.
//!
//! Only names, `composer.json` and WordPress's version file are looked at, and no more than a fixed
//! number of entries. [`Site::document`] writes the decision down as a configuration document.

mod closed;
mod document;
mod error;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

pub use closed::Closed;
pub use error::DetectError;

use crate::json;

/// A directory and what was recognised in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// The directory that was looked at, absolute.
    pub directory: PathBuf,
    /// The document root: the directory itself or its public part. Valid UTF-8.
    pub root: PathBuf,
    /// What was recognised.
    pub kind: Kind,
    /// Parts that are closed.
    pub closed: Closed,
}

/// What a directory holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A project with a public directory, and in it the `index.php` that answers all requests.
    PublicFrontController {
        /// The public directory's name.
        public: &'static str,
        /// The framework, if it was recognised.
        framework: Option<Framework>,
    },
    /// WordPress.
    WordPress {
        /// The version, if it could be read.
        version: Option<String>,
    },
    /// An `index.php` in the directory itself that answers all requests.
    FrontController {
        /// The framework, if it was recognised.
        framework: Option<Framework>,
    },
    /// Scripts that are requested by their names, and no `index.php`.
    PhpFiles,
    /// No PHP.
    Static,
}

/// A framework and how it was recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framework {
    /// Its name.
    pub name: &'static str,
    /// The file or the package that gives it away.
    pub evidence: Evidence,
}

/// What gives a framework away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// `composer.json` requires a package that starts like this.
    Package(&'static str),
    /// There is a file of this name.
    File(&'static str),
}

/// Names of public directories. The second and third are also names of ordinary parts of sites, so
/// they count only in a project that Composer manages or that has no other entrance.
const PUBLIC: [&str; 3] = ["public", "web", "webroot"];

/// Packages, or the start of their names, that give a framework away. Laravel builds on Symfony and
/// Drupal on both, so the more special comes first.
const PACKAGES: [(&str, &str); 9] = [
    ("drupal/core", "Drupal"),
    ("laravel/framework", "Laravel"),
    ("cakephp/cakephp", "CakePHP"),
    ("codeigniter4/framework", "CodeIgniter"),
    ("yiisoft/yii", "Yii"),
    ("slim/slim", "Slim"),
    ("laminas/laminas-mvc", "Laminas"),
    ("roots/wordpress", "WordPress"),
    ("symfony/", "Symfony"),
];

/// Files that give a framework away.
const FILES: [(&str, &str); 3] =
    [("artisan", "Laravel"), ("bin/console", "Symfony"), ("bin/cake", "CakePHP")];

/// Looks at a directory.
pub fn detect(directory: &Path) -> Result<Site, DetectError> {
    // Not canonical: a root that is a symbolic link must stay one, so that a deployment that
    // replaces the link takes effect.
    let directory = std::path::absolute(directory)
        .map_err(|error| DetectError::unreadable(directory, error))?;
    if directory.to_str().is_none() {
        return Err(DetectError::NotUtf8(directory));
    }
    check_directory(&directory)?;
    let kind = recognise(&directory)?;
    let root = match kind {
        Kind::PublicFrontController { public, .. } => directory.join(public),
        _ => directory.clone(),
    };
    closed::check_project(&directory, &kind)?;
    let closed = Closed::find(&root, &kind)?;
    Ok(Site { directory, root, kind, closed })
}

/// Fails unless the directory can be listed.
fn check_directory(directory: &Path) -> Result<(), DetectError> {
    let metadata = fs::metadata(directory).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => DetectError::Missing(directory.to_owned()),
        io::ErrorKind::NotADirectory => DetectError::NotDirectory(directory.to_owned()),
        _ => DetectError::unreadable(directory, error),
    })?;
    if !metadata.is_dir() {
        return Err(DetectError::NotDirectory(directory.to_owned()));
    }
    match fs::read_dir(directory) {
        Ok(_) => Ok(()),
        Err(error) => Err(DetectError::unreadable(directory, error)),
    }
}

fn recognise(directory: &Path) -> Result<Kind, DetectError> {
    let has_index = is_file(&directory.join("index.php"))?;
    let is_project = is_file(&directory.join("composer.json"))?;
    for public in PUBLIC {
        let counts = public == "public" || is_project || !has_index;
        if counts && is_file(&directory.join(public).join("index.php"))? {
            check_directory(&directory.join(public))?;
            return Ok(Kind::PublicFrontController { public, framework: framework(directory)? });
        }
    }
    let version = directory.join("wp-includes/version.php");
    if is_file(&version)? || is_file(&directory.join("wp-load.php"))? {
        return Ok(Kind::WordPress { version: wordpress_version(&version) });
    }
    if has_index {
        return Ok(Kind::FrontController { framework: framework(directory)? });
    }
    match has_scripts(directory) {
        true => Ok(Kind::PhpFiles),
        false => Ok(Kind::Static),
    }
}

/// Whether there is such a file; symbolic links count as what they lead to.
fn is_file(path: &Path) -> Result<bool, DetectError> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.is_file()),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(false),
            _ => Err(DetectError::unreadable(path.parent().unwrap_or(path), error)),
        },
    }
}

fn framework(directory: &Path) -> Result<Option<Framework>, DetectError> {
    let packages = required_packages(&directory.join("composer.json"));
    for (package, name) in PACKAGES {
        if packages.iter().any(|required| required.starts_with(package)) {
            return Ok(Some(Framework { name, evidence: Evidence::Package(package) }));
        }
    }
    for (file, name) in FILES {
        if is_file(&directory.join(file))? {
            return Ok(Some(Framework { name, evidence: Evidence::File(file) }));
        }
    }
    Ok(None)
}

/// The packages that a `composer.json` requires; none if it cannot be read, as nothing but the name
/// in a message depends on it.
fn required_packages(path: &Path) -> Vec<String> {
    let document = read_start(path, json::MAX_SIZE).and_then(|text| json::parse(&text).ok());
    let required = document.as_ref().and_then(|document| document.get("require")?.as_object());
    required.map(|packages| packages.keys().cloned().collect()).unwrap_or_default()
}

/// The version in WordPress's `$wp_version = '6.1.1';`.
fn wordpress_version(path: &Path) -> Option<String> {
    let text = read_start(path, 16 << 10)?;
    let text = String::from_utf8_lossy(&text);
    let (_, value) = text.split_once("$wp_version = '")?;
    let (version, _) = value.split_once('\'')?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-';
    let is_version = (1..=32).contains(&version.len()) && version.bytes().all(plain);
    is_version.then(|| version.to_owned())
}

/// The start of a regular file; opening anything else might wait for ever.
fn read_start(path: &Path, most: usize) -> Option<Vec<u8>> {
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut text = Vec::new();
    File::open(path).ok()?.take(most as u64).read_to_end(&mut text).ok()?;
    Some(text)
}

/// Whether there is a script in the directory or not far below it. What cannot be listed has none
/// that could be served.
fn has_scripts(directory: &Path) -> bool {
    const DEEPEST: usize = 3;
    const MOST_ENTRIES: usize = 10_000;
    let mut entries_left = MOST_ENTRIES;
    let mut directories = vec![directory.to_owned()];
    for _ in 0..=DEEPEST {
        let mut below = Vec::new();
        for entry in
            directories.iter().filter_map(|directory| fs::read_dir(directory).ok()).flatten()
        {
            let Some(left) = entries_left.checked_sub(1) else { return false };
            entries_left = left;
            let Ok(entry) = entry else { continue };
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            // A link is not followed, or a circle of them would use up the entries.
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && !is_hidden => below.push(entry.path()),
                Ok(kind) if kind.is_dir() => {}
                _ if is_hidden => {}
                _ if entry.path().extension() == Some(OsStr::new("php")) => return true,
                _ => {}
            }
        }
        directories = below;
    }
    false
}

#[cfg(test)]
mod tests;
