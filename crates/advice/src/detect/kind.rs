//! Kinds of sites and how they are recognised.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use super::error::DetectError;
use super::files::{Directory, read_start};
use super::framework::{Framework, framework};

/// Kinds of sites.
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
    /// No file at all.
    Empty,
}

/// Names of public directories. The second and third are also names of ordinary directories of
/// sites, so they count only in a project that Composer manages or without another entry script.
pub(super) const PUBLIC: [&str; 3] = ["public", "web", "webroot"];

/// Other names of public directories. Many sites have an ordinary directory of such a name, so they
/// count only in the project of a framework or of Composer that would not be served otherwise.
pub(super) const OTHER_PUBLIC: [&str; 6] =
    ["public_html", "htdocs", "docroot", "www", "pub", "html"];

/// Files in the top directory of a project of Composer.
pub(super) const COMPOSER_FILES: [&str; 3] =
    ["composer.json", "composer.lock", "vendor/autoload.php"];

/// Recognises the kind of site in a directory.
pub(super) fn recognise(directory: &Directory) -> Result<Kind, DetectError> {
    let has_index = directory.has_file("index.php")?;
    let is_project = directory.has_file("composer.json")?;
    for public in PUBLIC {
        let counts = public == "public" || is_project || !has_index;
        if counts && directory.has_file(&format!("{public}/index.php"))? {
            return Ok(Kind::PublicFrontController { public, framework: framework(directory)? });
        }
    }
    const VERSION: &str = "wp-includes/version.php";
    if directory.has_file(VERSION)? || directory.has_file("wp-load.php")? {
        let version = wordpress_version(&directory.path().join(VERSION));
        return Ok(Kind::WordPress { version });
    }
    if has_index {
        return Ok(Kind::FrontController { framework: framework(directory)? });
    }
    for public in OTHER_PUBLIC {
        if directory.has_file(&format!("{public}/index.php"))? {
            let framework = framework(directory)?;
            let mut is_project = framework.is_some();
            for file in COMPOSER_FILES {
                is_project = is_project || directory.has_file(file)?;
            }
            if is_project {
                return Ok(Kind::PublicFrontController { public, framework });
            }
        }
    }
    Ok(if has_scripts(directory.path()) {
        Kind::PhpFiles
    } else if is_empty(directory.path()) {
        Kind::Empty
    } else {
        Kind::Static
    })
}

/// Returns true if a directory is empty.
fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}

/// Returns the version in WordPress's `$wp_version = '6.1.1';`.
pub(super) fn wordpress_version(path: &Path) -> Option<String> {
    let text = read_start(path, 16 << 10)?;
    let text = String::from_utf8_lossy(&text);
    let (_, value) = text.split_once("$wp_version = '")?;
    let (version, _) = value.split_once('\'')?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-';
    let is_version = (1..=32).contains(&version.len()) && version.bytes().all(plain);
    is_version.then(|| version.to_owned())
}

/// Returns true if there is a script in the directory or at most `MAX_DEPTH` levels below it.
/// Directories that cannot be listed are skipped: their files cannot be served.
fn has_scripts(directory: &Path) -> bool {
    const MAX_DEPTH: usize = 3;
    const MAX_ENTRIES: usize = 10_000;
    let mut entries_left = MAX_ENTRIES;
    let mut directories = vec![directory.to_owned()];
    for _ in 0..=MAX_DEPTH {
        let mut below = Vec::new();
        for entry in
            directories.iter().filter_map(|directory| fs::read_dir(directory).ok()).flatten()
        {
            let Some(left) = entries_left.checked_sub(1) else { return false };
            entries_left = left;
            let Ok(entry) = entry else { continue };
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            // Links are not followed: a loop of links would use up the entries.
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
