//! Parts of a site that zero configuration closes: directories in which no script runs, and files
//! that are not sent.
//!
//! Applications ship rules of this kind in `.htaccess` files, which may be missing or not read. The
//! same parts are closed here: directories for uploads, and data and sources with ordinary names.
//! Only the applications of [`APPLICATIONS`] are recognised.

use serde_json::{Value, json};

use super::error::DetectError;
use super::files::Directory;
use super::framework::framework;
use super::kind::{COMPOSER_FILES, Kind, OTHER_PUBLIC, PUBLIC};

/// Parts of a site that are closed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClosedPaths {
    /// Directories below the document root in which no script runs; `*` is one name.
    pub without_scripts: Vec<&'static str>,
    /// Directories below the document root of which no file is sent; `*` is one name.
    pub directories: Vec<&'static str>,
    /// Regular expressions of paths that are answered with 403.
    pub paths: Vec<&'static str>,
}

/// An application that is recognised by a file.
struct Application {
    /// Files in the document root; the application has at least one of them. `../` is the project
    /// of a public directory.
    evidence: &'static [&'static str],
    without_scripts: &'static [&'static str],
    directories: &'static [&'static str],
    paths: &'static [&'static str],
}

const APPLICATIONS: [Application; 7] = [
    // WordPress; the second directory is that of old networks of sites.
    Application {
        evidence: &["wp-load.php", "wp-includes/version.php"],
        without_scripts: &["wp-content/uploads", "wp-content/blogs.dir"],
        directories: &[],
        paths: &[],
    },
    // WordPress as a package of Composer (Bedrock).
    Application {
        evidence: &["wp/wp-load.php"],
        without_scripts: &["app/uploads"],
        directories: &[],
        paths: &[],
    },
    // Drupal 8 and later, and 7.
    Application {
        evidence: &["core/lib/Drupal.php", "modules/system/system.module"],
        without_scripts: &["sites/*/files"],
        directories: &["sites/*/private"],
        paths: &[concat!(
            r"(?i)\.(engine|inc|install|make|module|profile|po|sh|[^/]*sql|theme|twig|tpl|xtmpl|yml)",
            r"(~|\.sw[op]|\.bak|\.orig|\.save)?$"
        )],
    },
    // Joomla.
    Application {
        evidence: &["administrator/manifests/files/joomla.xml"],
        without_scripts: &["images", "media", "tmp", "cache", "administrator/cache"],
        directories: &["administrator/logs"],
        paths: &[],
    },
    // MediaWiki.
    Application {
        evidence: &["includes/WebStart.php"],
        without_scripts: &["images"],
        directories: &["cache", "includes", "languages", "maintenance", "images/deleted"],
        paths: &[],
    },
    // TYPO3; with Composer, versions from 12 on have their sources outside of the document root.
    Application {
        evidence: &[
            "typo3/sysext/core/composer.json",
            "typo3conf/LocalConfiguration.php",
            "../vendor/typo3/cms-core/composer.json",
        ],
        without_scripts: &["fileadmin", "typo3temp", "uploads"],
        directories: &["typo3temp/var", "fileadmin/_recycler_"],
        paths: &[],
    },
    // DokuWiki, by its own page about security.
    Application {
        evidence: &["inc/DokuWiki.php", "doku.php"],
        without_scripts: &[],
        directories: &["bin", "conf", "data", "inc", "vendor"],
        paths: &[],
    },
];

/// Databases of SQLite, with the files beside them.
const DATABASES: &str = r"(?i)\.(sqlite3?|db3)(-(journal|wal|shm))?$";

/// Composer's files: versions of packages help attackers, and `auth.json` has passwords.
const COMPOSER: &str = r"(?i)^/(composer\.(json|lock)|auth\.json|vendor/composer/.*)$";

/// Names of directories for uploads in the public directories of frameworks.
const PUBLIC_UPLOADS: [&str; 2] = ["storage", "uploads"];

impl ClosedPaths {
    /// Finds the parts of a document root that must be closed.
    pub(super) fn find(root: &Directory, kind: &Kind) -> Result<ClosedPaths, DetectError> {
        if matches!(kind, Kind::Static | Kind::Empty) {
            return Ok(ClosedPaths::default());
        }
        let mut closed = ClosedPaths { paths: vec![DATABASES], ..ClosedPaths::default() };
        for application in &APPLICATIONS {
            let mut is_there = false;
            let is_public = matches!(kind, Kind::PublicFrontController { .. });
            let is_known = |file: &&&str| is_public || !file.starts_with("../");
            for file in application.evidence.iter().filter(is_known) {
                is_there |= root.has_file(file)?;
            }
            if is_there {
                closed.without_scripts.extend(application.without_scripts);
                closed.directories.extend(application.directories);
                closed.paths.extend(application.paths);
            }
        }
        if matches!(kind, Kind::PublicFrontController { .. }) {
            closed.without_scripts.extend(PUBLIC_UPLOADS);
        }
        if root.has_file("composer.json")? || root.has_file("vendor/autoload.php")? {
            closed.without_scripts.push("vendor");
            closed.paths.push(COMPOSER);
        }
        Ok(closed)
    }

    /// Returns the steps of a route that precede the site's own. `share` is the path of the site's
    /// files; `fallback` is the action for other requests, if there is one.
    ///
    /// With `has_htaccess`, the share has the settings of [`ClosedPaths::add_to_htaccess`].
    pub(super) fn steps(
        &self,
        share: &str,
        fallback: Option<&Value>,
        has_htaccess: bool,
    ) -> Vec<Value> {
        let mut steps = Vec::new();
        let expressions = self.paths.iter().map(|path| format!("~{path}"));
        let mut refused: Vec<_> = expressions.collect();
        // Some file systems ignore case.
        refused.extend(below(&self.directories).map(|below| format!("~(?i){below}")));
        // The settings for `.htaccess` files say the same about the paths that their rules lead to.
        // Apache's pattern has more names of scripts.
        let names = if has_htaccess { "ph(p|ar|tml)" } else { "php" };
        refused.extend(below(&self.without_scripts).map(|b| format!(r"~(?is){b}.*\.{names}(/|$)")));
        if !refused.is_empty() {
            steps.push(json!({"match": {"uri": refused}, "action": {"return": 403}}));
        }
        if let Some(below) = below(&self.without_scripts).filter(|_| !has_htaccess) {
            let mut action = json!({"share": share, "index": ["index.html"]});
            if let Some(fallback) = fallback {
                action["fallback"] = fallback.clone();
            }
            let uri = format!("~(?i){below}");
            steps.push(json!({"match": {"uri": uri}, "action": action}));
        }
        steps
    }

    /// Adds the same refusals to the settings for `.htaccess` files: they hold for the files that
    /// rules lead to, and an uploaded file cannot make PHP run pictures.
    pub(super) fn add_to_htaccess(&self, settings: &mut Value) {
        let mut closed: Vec<_> = self.paths.iter().map(|path| format!("~{path}")).collect();
        closed.extend(below(&self.directories).map(|below| format!("~(?i){below}")));
        if !closed.is_empty() {
            settings["closed"] = json!(closed);
        }
        if let Some(below) = below(&self.without_scripts) {
            settings["without_scripts"] = json!(format!("~(?i){below}"));
        }
    }

    /// Returns a line for the terminal, if a directory is closed.
    pub(super) fn explain(&self) -> Option<String> {
        let list = |names: &[&str]| names.join(", ");
        let scripts = Some(&self.without_scripts).filter(|names| !names.is_empty());
        let scripts = scripts.map(|names| format!("no PHP is run in {}", list(names)));
        let files = Some(&self.directories).filter(|names| !names.is_empty());
        let files = files.map(|names| format!("nothing is sent of {}", list(names)));
        let parts: Vec<_> = scripts.into_iter().chain(files).collect();
        (!parts.is_empty()).then(|| format!("closed: {}", parts.join("; ")))
    }
}

/// Returns a regular expression for all paths below any of the directories; `None` if there are
/// none.
fn below(directories: &[&str]) -> Option<String> {
    let expressions: Vec<_> =
        directories.iter().map(|name| name.replace('.', r"\.").replace('*', "[^/]+")).collect();
    (!expressions.is_empty()).then(|| format!("^/({})/", expressions.join("|")))
}

/// Fails if a directory is a project whose root must not be served. `kind` is its recognised kind.
pub(super) fn check_project(directory: &Directory, kind: &Kind) -> Result<(), DetectError> {
    let framework = match kind {
        Kind::PublicFrontController { .. } | Kind::WordPress { .. } => return Ok(()),
        // Many applications have an index.php beside composer.json, but not Laravel.
        Kind::FrontController { framework: Some(found) } if found.name == "Laravel" => Some(*found),
        Kind::FrontController { .. } => return Ok(()),
        Kind::PhpFiles | Kind::Static | Kind::Empty => framework(directory)?,
    };
    let mut project = framework.map(|framework| framework.name);
    for file in COMPOSER_FILES {
        if project.is_none() && directory.has_file(file)? {
            project = Some("Composer");
        }
    }
    let Some(project) = project else { return Ok(()) };
    let directory = directory.path();
    let public = PUBLIC.iter().chain(&OTHER_PUBLIC).find(|name| directory.join(name).is_dir());
    Err(DetectError::Project {
        path: directory.to_owned(),
        project,
        public: public.map(|name| directory.join(name)),
    })
}
