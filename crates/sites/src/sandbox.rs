//! The sandbox of a site: PHP may use only the files of the site and of the system.
//!
//! The files of the site are those of the project that contains the directory, and targets of
//! symbolic links in it. If the project cannot be determined, there is no sandbox. A site that
//! needs other files uses a configuration, or `--no-sandbox`.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use howdah_advice::detect::Site;
use howdah_sys::credentials::Credentials;
use howdah_sys::sandbox::{landlock, paths};
use serde_json::{Value, json};

/// Files and directories in the top directory of a project, and seldom elsewhere.
const PROJECT_FILES: &[&str] = &[
    "composer.json",
    "vendor/autoload.php",
    ".git",
    ".hg",
    ".svn",
    ".env",
    "artisan",
    "package.json",
    "wp-config.php",
];

/// Names of directories that are the public part of a project.
const PUBLIC: &[&str] = &[
    "docroot",
    "htdocs",
    "html",
    "httpdocs",
    "pub",
    "public",
    "public_html",
    "web",
    "webroot",
    "www",
];

/// The directory of sites of Debian and other distributions.
const SITES: &str = "/var/www";

/// Top-level directories that usually contain files of different owners.
const SHARED_DIRECTORIES: &[&str] = &["home", "media", "mnt", "opt", "srv"];

/// Maximum number of directories above the site that are examined.
const MAX_ABOVE: usize = 4;

/// Maximum depth and number of directory entries of the search for links. Composer's packages and
/// WordPress's plugins are at this depth.
const MAX_DEPTH: usize = 4;
const MAX_ENTRIES: usize = 20_000;

/// Directories with very many files and no links out of the project.
const SKIPPED: &[&str] = &[".git", ".hg", ".svn", "node_modules", "cache"];

/// Cache of the directories that have one of [`PROJECT_FILES`]. Sites often share their parent
/// directories.
#[derive(Debug, Default)]
pub struct ProjectMarks(RefCell<HashMap<PathBuf, bool>>);

impl ProjectMarks {
    fn is_marked(&self, directory: &Path) -> bool {
        if let Some(is_marked) = self.0.borrow().get(directory) {
            return *is_marked;
        }
        let is_marked = PROJECT_FILES.iter().any(|mark| directory.join(mark).exists());
        self.0.borrow_mut().insert(directory.to_owned(), is_marked);
        is_marked
    }
}

/// Returns `isolation.sandbox` of the application of a site, if it can be restricted, and a line for
/// the terminal. `user` is the server's user; `None` is the user of this process. The volumes of a
/// container belong to a site that `is_alone`.
pub fn of(
    site: &Site,
    user: Option<&Credentials>,
    is_alone: bool,
    marks: &ProjectMarks,
) -> (Option<Value>, String) {
    let (owners, home) = match user {
        Some(user) => {
            (LinkOwners { scripts: user.uid, are_trusted: false }, PathBuf::from(&user.home))
        }
        None => {
            let own = Credentials::current();
            (LinkOwners { scripts: own.uid, are_trusted: true }, PathBuf::from(own.home))
        }
    };
    let root = fs::canonicalize(&site.root).unwrap_or_else(|_| site.root.clone());
    let Some(project) = project(&root, &home, marks) else {
        let reason = "sandbox: none, as other things than the site are in its directory";
        return (None, reason.to_owned());
    };
    let mut write = vec![project.clone(), PathBuf::from("/var/tmp")];
    write.extend(linked(&project, owners, &home));
    if is_alone && is_container() {
        write.extend(container_volumes());
    }
    // The kernel allows moving a file only between directories with the same rights; otherwise it
    // is copied.
    let execute = [project, PathBuf::from("/tmp"), PathBuf::from("/var/tmp")];
    let texts = |paths: &[PathBuf]| -> Vec<String> {
        paths.iter().filter_map(|path| path.to_str()).map(str::to_owned).collect()
    };
    let shown = texts(&write).join(", ");
    let sandbox = json!({
        "write": texts(&write), "execute": texts(&execute), "required": false,
    });
    let line = match landlock::version() {
        landlock::FILES.. => format!("sandbox: PHP uses the system's files and {shown}"),
        _ => "sandbox: none, as this kernel cannot restrict files".to_owned(),
    };
    (Some(sandbox), line)
}

/// Returns the top directory of the project that contains `root`, a path without links; `None` if
/// files of others may be in it.
fn project(root: &Path, home: &Path, marks: &ProjectMarks) -> Option<PathBuf> {
    let is_own = |directory: &Path| {
        !paths::is_shared(directory) && !is_home(directory, home) && !has_sites(directory)
    };
    let mut found = root;
    let above = root.ancestors().skip(1).take(MAX_ABOVE);
    for directory in above.take_while(|directory| is_own(directory)) {
        if marks.is_marked(directory) {
            found = directory;
        }
    }
    let name = root.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_public = PUBLIC.contains(&name) && !has_sites(root);
    if found == root && is_public && !root.parent().is_some_and(has_sites) {
        // Included files are often in the parent of a public directory.
        found = root.parent().filter(|above| above.parent().is_some())?;
        if is_home(found, home) {
            return None;
        }
    }
    (is_own(found) || found.starts_with(SITES) || (has_sites(found) && !is_home(found, home)))
        .then(|| found.to_owned())
}

/// Returns true if a directory usually contains sites or files of different owners.
fn has_sites(directory: &Path) -> bool {
    directory == Path::new(SITES)
        || SHARED_DIRECTORIES.iter().any(|name| directory == Path::new("/").join(name))
}

/// Returns true if a directory is a home, or contains homes.
fn is_home(directory: &Path, home: &Path) -> bool {
    let above = directory.parent();
    directory == Path::new("/home")
        || directory == Path::new("/root")
        || above == Some(Path::new("/home"))
        || (home == directory && !directory.starts_with(SITES) && !directory.starts_with("/srv"))
}

/// The owners of links that are followed.
#[derive(Debug, Clone, Copy)]
struct LinkOwners {
    /// The user that PHP runs as. A script may have made its links, so they are not followed.
    scripts: u32,
    /// True if links of that user are followed all the same, because it has started the server and
    /// created the site. They do not open hidden files, homes or files of the system.
    are_trusted: bool,
}

/// Returns the targets of links that lead out of the project, unless a script may have made them.
fn linked(project: &Path, owners: LinkOwners, home: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut left = MAX_ENTRIES;
    let mut directories = vec![project.to_owned()];
    for _ in 0..MAX_DEPTH {
        let mut below = Vec::new();
        for entry in
            directories.iter().filter_map(|path| fs::read_dir(path).ok()).flatten().flatten()
        {
            let Some(fewer) = left.checked_sub(1) else { return found };
            left = fewer;
            let Ok(kind) = entry.file_type() else { continue };
            let name = entry.file_name();
            if kind.is_dir() && !SKIPPED.iter().any(|other| name == *other) {
                below.push(entry.path());
            }
            if !kind.is_symlink() {
                continue;
            }
            let Ok(target) = fs::canonicalize(entry.path()) else { continue };
            let is_scripts = entry.metadata().is_ok_and(|link| link.uid() == owners.scripts);
            let is_closed = !owners.are_trusted || is_hidden(&target) || is_in_system(&target);
            let is_refused = paths::is_shared(&target)
                || is_home(&target, home)
                || project.starts_with(&target)
                || (is_scripts && is_closed);
            if !target.starts_with(project) && !is_refused {
                found.insert(target);
            }
        }
        directories = below;
    }
    found
}

fn is_hidden(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str().as_encoded_bytes().starts_with(b"."))
}

fn is_in_system(path: &Path) -> bool {
    let top = path.components().nth(1).and_then(|part| part.as_os_str().to_str());
    top.is_none_or(paths::is_system_directory) && !path.starts_with(SITES)
}

/// Returns true if this process runs in a container.
fn is_container() -> bool {
    ["/.dockerenv", "/run/.containerenv"].iter().any(|mark| Path::new(mark).exists())
        || std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
}

/// Returns the mount points of a container: volumes, in general.
fn container_volumes() -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir("/") else { return Vec::new() };
    let wanted =
        |name: &str| !paths::is_system_directory(name) && !SHARED_DIRECTORIES.contains(&name);
    let mut found: Vec<_> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter(|entry| entry.file_name().to_str().is_some_and(wanted))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Creates a directory with these files.
    fn tree(files: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(directory.path()).unwrap();
        for file in files {
            fs::create_dir_all(path.join(file).parent().unwrap()).unwrap();
            fs::write(path.join(file), "").unwrap();
        }
        (directory, path)
    }

    fn project_of(path: &Path, root: &str) -> Option<PathBuf> {
        project(&path.join(root), Path::new("/home/nobody"), &ProjectMarks::default())
    }

    #[test]
    fn a_project_is_found_from_its_public_directory() {
        let (_tree, path) = tree(&["shop/artisan", "shop/public/index.php", "blog/index.php"]);
        assert_eq!(project_of(&path, "shop/public"), Some(path.join("shop")));
        assert_eq!(project_of(&path, "shop"), Some(path.join("shop")));
        assert_eq!(project_of(&path, "blog"), Some(path.join("blog")));
    }

    #[test]
    fn what_is_beside_a_public_directory_belongs_to_the_site() {
        let (_tree, path) = tree(&["site/htdocs/index.php", "site/config.php"]);
        assert_eq!(project_of(&path, "site/htdocs"), Some(path.join("site")));
    }

    #[test]
    fn a_home_is_no_project() {
        let home = Path::new("/home/somebody");
        let project = |root: &Path, home: &Path| project(root, home, &ProjectMarks::default());
        assert_eq!(project(home, home), None);
        assert_eq!(project(&home.join("public_html"), home), None);
        assert_eq!(project(&home.join("shop"), home), Some(home.join("shop")));
        assert_eq!(project(Path::new("/"), home), None);
        assert_eq!(project(Path::new("/etc"), home), None);
        // Its siblings are other sites.
        assert_eq!(project(Path::new("/var/www/html"), home), Some("/var/www/html".into()));
        assert_eq!(project(Path::new("/var/www"), home), Some("/var/www".into()));
        assert_eq!(project(Path::new("/srv/html"), home), Some("/srv/html".into()));
        assert_eq!(project(Path::new("/app/public"), home), Some("/app".into()));
        assert_eq!(project(Path::new("/var/www/shop/html"), home), Some("/var/www/shop".into()));
        assert_eq!(project(Path::new("/var/www/blog"), home), Some("/var/www/blog".into()));
    }

    #[test]
    fn links_out_of_the_project_are_followed_unless_a_script_could_gain_by_them() {
        let (_tree, path) = tree(&["shop/composer.json", "packages/a/x", ".ssh/id", "shop/b/c/d"]);
        fs::create_dir_all(path.join("shop/vendor/acme")).unwrap();
        let link =
            |target: &Path, name: &str| symlink(target, path.join("shop").join(name)).unwrap();
        link(&path.join("packages/a"), "vendor/acme/a");
        link(&path.join(".ssh"), "keys");
        link(Path::new("/etc/ssl"), "system");
        link(Path::new("/"), "root");
        link(&path, "above");
        link(&path.join("shop/b"), "inside");
        let own = fs::metadata(&path).unwrap().uid();
        let home = Path::new("/home/nobody");
        let found = |scripts, are_trusted| {
            linked(&path.join("shop"), LinkOwners { scripts, are_trusted }, home)
        };
        // The test's directory is in /tmp, which belongs to the system.
        assert_eq!(found(own, true), BTreeSet::new());
        assert_eq!(found(own, false), BTreeSet::new());
        let found = found(own + 1, false);
        let expected = [path.join("packages/a"), path.join(".ssh"), "/etc/ssl".into()];
        assert_eq!(found, BTreeSet::from(expected));
    }
}
