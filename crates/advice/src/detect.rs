//! Zero configuration: recognises the kind of site in a directory.
//!
//! 1. `public/index.php` (or `web`, `webroot`): a framework's project; only its public directory is
//!    served.
//! 2. `wp-includes/version.php` or `wp-load.php`: WordPress.
//! 3. `index.php`: a front controller in the directory itself.
//! 4. `www/index.php` (or `htdocs`, `pub`, …) in a project of a framework or of Composer: only that
//!    directory is served.
//! 5. Any `*.php` file: scripts that are requested by their names.
//! 6. Otherwise: static files.
//!
//! A project of Laravel or Composer without a public `index.php` is refused: its sources, databases
//! and packages would be served. [`ClosedPaths`] has the parts of a site that are not served.
//!
//! Only file names, `composer.json` and WordPress's version file are read, and at most a fixed
//! number of directory entries. [`Site::document`] creates the configuration document.

mod closed_paths;
mod error;
mod files;
mod framework;
mod kind;
mod site;
mod worker;

use std::path::Path;

use files::Directory;

pub use closed_paths::ClosedPaths;
pub use error::DetectError;
pub use files::read_start;
pub use framework::{Evidence, Framework};
pub use kind::Kind;
pub use site::{Served, Site};
pub use worker::WorkerScript;

/// Recognises the site in a directory.
pub fn detect(directory: &Path) -> Result<Site, DetectError> {
    // Not canonicalized: a root that is a symbolic link must stay one, so that a deployment that
    // replaces the link takes effect.
    let directory = std::path::absolute(directory)
        .map_err(|error| DetectError::unreadable(directory, error))?;
    if directory.to_str().is_none() {
        return Err(DetectError::NotUtf8(directory));
    }
    let listed = Directory::list(&directory)?;
    let kind = kind::recognise(&listed)?;
    closed_paths::check_project(&listed, &kind)?;
    let public = match kind {
        Kind::PublicFrontController { public, .. } => {
            Some(Directory::list(&directory.join(public))?)
        }
        _ => None,
    };
    let root = public.as_ref().unwrap_or(&listed);
    let closed = ClosedPaths::find(root, &kind)?;
    let worker_script = match public {
        Some(_) => worker::worker_script(&listed, root)?,
        None => None,
    };
    Ok(Site {
        root: root.path().to_owned(),
        directory,
        kind,
        closed_paths: closed,
        worker_script,
        is_resident: false,
        obeys_htaccess: false,
        front_controller: None,
    })
}

/// Recognises the site in the public directory of a project, which is named relative to the
/// project.
pub fn detect_public(directory: &Path, public: &Path) -> Result<Site, DetectError> {
    let root = directory.join(public);
    if root.to_str().is_none() {
        return Err(DetectError::NotUtf8(root));
    }
    let (listed, public) = (Directory::unlisted(directory), Directory::list(&root)?);
    let kind = match kind::recognise(&public)? {
        Kind::FrontController { framework: None } => {
            Kind::FrontController { framework: framework::framework(&listed)? }
        }
        Kind::PublicFrontController { framework, .. } => Kind::FrontController { framework },
        kind => kind,
    };
    Ok(Site {
        closed_paths: ClosedPaths::find(&public, &kind)?,
        worker_script: worker::worker_script(&listed, &public)?,
        directory: directory.to_owned(),
        root,
        kind,
        is_resident: false,
        obeys_htaccess: false,
        front_controller: None,
    })
}

#[cfg(test)]
mod tests;
