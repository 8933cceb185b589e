//! The files that the router can open in its sandbox.
//!
//! Reading: the files that its first document names; the usual directories of sites, for later
//! documents; and a few files of the system. Writing: unnamed files in the directories for
//! temporary ones.
//!
//! The kernel compares files, not names, so a file that may be replaced by another one of the same
//! name comes with its directory, and a link with the directory that it is in.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use howdah_config::{Config, RouterPath};
use howdah_sys::sandbox::landlock::{Access, Grant};
use howdah_sys::sandbox::paths::{self, resolve};

use crate::disk_progress::DiskProgress;

/// Files of the system that the router opens itself.
const SYSTEM_FILES: &[(&str, Access)] = &[
    // Names of servers; see `names::files` for replaced files.
    ("/etc/hosts", Access::Open),
    ("/etc/resolv.conf", Access::Open),
    // Target of the link resolv.conf on most systems; it is replaced there.
    ("/run/systemd/resolve", Access::Open),
    ("/run/resolvconf", Access::Open),
    ("/run/NetworkManager", Access::Open),
    // Trusted certificate authorities.
    ("/etc/ssl/certs", Access::Open),
    ("/etc/ssl/ca-bundle.pem", Access::Open),
    ("/etc/ssl/cert.pem", Access::Open),
    ("/etc/pki/tls/certs", Access::Open),
    ("/etc/pki/ca-trust/extracted", Access::Open),
    ("/var/lib/ca-certificates", Access::Open),
    // Time in the log.
    ("/etc/localtime", Access::Open),
    // Memory, processors, load and control groups of the machine; usage of workers. The kernel
    // guards the files of single processes.
    ("/proc", Access::Open),
    ("/sys/fs/cgroup", Access::Open),
    ("/sys/devices/system/cpu", Access::Open),
    // Standard streams when the log is reopened; randomness where the system call is missing.
    ("/dev/null", Access::Use),
    ("/dev/urandom", Access::Open),
    // Names of functions in a report of a panic.
    ("/proc/self/exe", Access::Open),
];

/// Directories of the system where sites may be: packages of distributions put theirs into `share`,
/// and experiments are in `tmp`.
const OTHER_PLACES: &[&str] = &["/usr/local", "/usr/share", "/tmp", "/var/tmp"];

/// Directories of `/var` without sites. `lib` is searched separately.
const EXCLUDED_IN_VAR: &[&str] = &[
    "backups", "cache", "crash", "games", "lib", "lock", "log", "mail", "metrics", "run", "snap",
    "spool", "tmp",
];

/// Directories of `/var/lib` with the state of servers, which no visitor may see.
const EXCLUDED_IN_VAR_LIB: &[&str] = &["howdah", "unit"];

/// Files that the router can open.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct AllowedFiles {
    /// Directories and files below which it can read, without links.
    readable: BTreeSet<PathBuf>,
    /// Directories in which it can make temporary files, without links.
    temporary: BTreeSet<PathBuf>,
    /// Paths in the first document, as they are written.
    in_first_document: BTreeSet<PathBuf>,
    /// Keys of the first document whose file does not exist, each with the path.
    pub(super) missing: Vec<(String, PathBuf)>,
}

impl AllowedFiles {
    /// Returns the files for this document and later ones, and the grants for them.
    pub(super) fn of(config: &Config, tmp: &Path) -> (AllowedFiles, Vec<Grant>) {
        AllowedFiles::with(config, tmp, &usual_places())
    }

    fn with(config: &Config, tmp: &Path, usual: &[PathBuf]) -> (AllowedFiles, Vec<Grant>) {
        let mut files = AllowedFiles::default();
        for named in config.router_paths() {
            files.add_named(&named);
        }
        usual.iter().for_each(|place| files.add(place));
        for (root, settings) in config.htaccess_roots() {
            files.add_linked(&root.join(&settings.file));
        }
        let own = config.settings.http.body_temp_path.as_deref();
        files.in_first_document.extend(own.map(Path::to_owned));
        for directory in [tmp].into_iter().chain(own) {
            if let Ok(directory) = fs::canonicalize(directory) {
                files.temporary.insert(directory.clone());
                files.readable.insert(directory);
            }
        }
        let read = files.readable.iter().map(|path| Grant::open(path, Access::Read));
        let write = files.temporary.iter().map(|path| Grant::open(path, Access::Use));
        let system = SYSTEM_FILES.iter().map(|(path, access)| Grant::open(path, *access));
        let grants = read.chain(write).chain(system).filter_map(Result::ok).collect();
        (files, grants)
    }

    /// Adds the target of a `.htaccess` that is a link of root: packages of distributions keep
    /// theirs in `/etc`. A file that is replaced comes with its directory, unless that has
    /// everything of the system.
    fn add_linked(&mut self, link: &Path) {
        let is_roots = |found: fs::Metadata| found.is_symlink() && found.uid() == 0;
        let is_link = fs::symlink_metadata(link).is_ok_and(is_roots);
        let Some(target) = fs::canonicalize(link).ok().filter(|target| is_link && target.is_file())
        else {
            return;
        };
        let directory = target.parent().filter(|directory| directory.components().count() > 2);
        self.add(directory.unwrap_or(&target));
    }

    /// Refuses a document whose directory for temporary files the router cannot use.
    pub(super) fn check(
        &self,
        temporary: Option<&Path>,
        progress: &DiskProgress,
    ) -> Result<(), String> {
        if let Some(directory) = temporary {
            progress.begins(format!("/settings/http/body_temp_path: {}", directory.display()));
            let found = resolve(directory).path;
            let is_known = self.in_first_document.contains(directory);
            if !is_known && !self.temporary.iter().any(|usable| found.starts_with(usable)) {
                return Err(format!(
                    "/settings/http/body_temp_path: {} is not among the directories that the \
                     router was permitted to write to at its start; restart the server with this \
                     configuration, or start it with --no-sandbox",
                    directory.display()
                ));
            }
        }
        Ok(())
    }

    /// Returns true if it is not known that the router may read a path.
    pub(super) fn may_be_out_of_reach(&self, named: &RouterPath) -> bool {
        let directory = directory_of(named);
        let is_missing = self.missing.iter().any(|(_, missing)| *missing == directory);
        directory != Path::new("/") && (is_missing || !self.in_first_document.contains(&directory))
    }

    /// Returns true if the router may not read a path as it is written. Links may lead elsewhere.
    pub(super) fn is_out_of_reach_by_name(&self, named: &RouterPath) -> bool {
        let directory = directory_of(named);
        !self.readable.iter().any(|path| directory.starts_with(path))
    }

    /// Returns the first of these paths that exists although the router may not read it, with its
    /// key in the document.
    pub(super) fn appeared(&self, paths: &[RouterPath]) -> Option<String> {
        paths.iter().find_map(|named| {
            let found = resolve(&directory_of(named));
            let is_new =
                found.exists && !self.readable.iter().any(|path| found.path.starts_with(path));
            is_new.then(|| {
                format!(
                    "{}: {} has appeared, which it may not read",
                    named.path,
                    named.file.display()
                )
            })
        })
    }

    /// Adds a file or directory that a document names.
    fn add_named(&mut self, named: &RouterPath) {
        let directory = directory_of(named);
        if directory == Path::new("/") {
            return;
        }
        let found = resolve(&directory);
        // For a file that does not exist yet, the directory where it will be, unless that is
        // shared.
        if found.exists || !paths::is_shared(&found.path) {
            self.readable.insert(found.path);
        } else {
            self.missing.push((named.path.clone(), directory.clone()));
        }
        self.in_first_document.insert(directory);
        // A deployment replaces a link: the new one leads elsewhere in its directory.
        let links = found.links.into_iter().map(|link| link.directory);
        self.readable.extend(links.filter(|directory| !paths::is_shared(directory)));
    }

    fn add(&mut self, directory: &Path) {
        if let Ok(directory) = fs::canonicalize(directory) {
            self.readable.insert(directory);
        }
    }
}

/// Returns the directory of a file, or the directory itself.
fn directory_of(named: &RouterPath) -> PathBuf {
    let absolute = std::path::absolute(&named.file).unwrap_or_else(|_| named.file.clone());
    match (named.is_directory, absolute.parent()) {
        (false, Some(parent)) => parent.to_owned(),
        _ => absolute,
    }
}

/// Returns the directories where sites usually are.
fn usual_places() -> Vec<PathBuf> {
    let mut places = Vec::new();
    for directory in directories(Path::new("/"), |name| !paths::is_system_directory(name)) {
        let homes = directories(&directory, |_| directory.ends_with("home"));
        // Other users' home directories: everything that file modes permit. The server user's own
        // home: no hidden files.
        if homes.iter().any(|home| is_own(home)) {
            places.extend(homes.into_iter().flat_map(|home| {
                if is_own(&home) {
                    directories(&home, |name| !name.starts_with('.'))
                } else {
                    vec![home]
                }
            }))
        } else {
            places.push(directory)
        }
    }
    places.extend(OTHER_PLACES.iter().map(PathBuf::from));
    places.extend(directories(Path::new("/var"), |name| !EXCLUDED_IN_VAR.contains(&name)));
    places.extend(directories(Path::new("/var/lib"), |name| {
        !EXCLUDED_IN_VAR_LIB.contains(&name) && !name.starts_with("php")
    }));
    places
}

fn is_own(home: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    fs::metadata(home).is_ok_and(|found| found.uid() == own)
}

fn directories(above: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(above) else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(&wanted))
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use serde_json::json;

    use super::*;

    fn config(share: &Path) -> Config {
        let share = format!("{}$uri", share.display());
        Config::from_value(json!({"routes": [{"action": {"share": share}}]})).unwrap()
    }

    /// Creates a directory outside of the usual places, with these directories in it.
    fn directory(names: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(directory.path()).unwrap();
        names.iter().for_each(|name| fs::create_dir_all(path.join(name)).unwrap());
        (directory, path)
    }

    fn check(files: &AllowedFiles, config: &Config) -> Result<(), String> {
        let temporary = config.settings.http.body_temp_path.as_deref();
        let paths: Vec<_> = config.router_paths();
        let paths: Vec<_> =
            paths.into_iter().filter(|named| files.may_be_out_of_reach(named)).collect();
        files.appeared(&paths).map_or(Ok(()), Err)?;
        files.check(temporary, &DiskProgress::default())
    }

    fn files_of(config: &Config, tmp: &Path) -> (AllowedFiles, Vec<Grant>) {
        AllowedFiles::with(config, tmp, &[])
    }

    #[test]
    fn sites_are_not_where_the_system_keeps_secrets() {
        let files = files_of(&Config::from_value(json!({})).unwrap(), Path::new("/nonexistent")).0;
        assert_eq!(files.readable, BTreeSet::new());
        let places = usual_places();
        for closed in ["/etc", "/root", "/var/log", "/var/lib/php", "/proc", "/run", "/usr/bin"] {
            assert!(!places.iter().any(|place| Path::new(closed).starts_with(place)), "{closed}");
        }
        for open in ["/srv", "/usr/share/phpmyadmin", "/var/www/blog", "/opt/site"] {
            let is_there = Path::new(open).ancestors().nth(1).is_some_and(Path::exists);
            let is_open = places.iter().any(|place| Path::new(open).starts_with(place));
            assert!(!is_there || is_open, "{open} {places:?}");
        }
    }

    #[test]
    fn what_the_first_document_names_is_in_reach_and_what_a_later_one_adds_is_not() {
        let (_directory, path) = directory(&["site/below", "other", "tmp", "usual/site"]);
        let usual = [path.join("usual")];
        let (files, grants) =
            AllowedFiles::with(&config(&path.join("site")), &path.join("tmp"), &usual);
        assert!(!grants.is_empty());
        assert!(files.readable.contains(&path.join("site")));
        assert_eq!(files.temporary, BTreeSet::from([path.join("tmp")]));
        assert_eq!(check(&files, &config(&path.join("site/below"))), Ok(()));
        assert_eq!(check(&files, &config(&path.join("site/yet/to/come"))), Ok(()));
        let problem = check(&files, &config(&path.join("other"))).unwrap_err();
        assert!(problem.starts_with("/routes/0/action/share: "), "{problem}");
        assert!(problem.contains("has appeared"), "{problem}");
        assert_eq!(check(&files, &config(&path.join("usual/site"))), Ok(()));
        assert_eq!(check(&files, &config(Path::new("/no/such/directory"))), Ok(()));
        assert_eq!(check(&files, &config(Path::new(""))), Ok(()), "it names nothing");
        for system in ["/etc", "/root", "/var/log", "/proc/self"] {
            assert!(check(&files, &config(Path::new(system))).is_err(), "{system}");
        }
    }

    #[test]
    fn a_link_that_is_replaced_leads_to_a_place_in_reach() {
        let (_directory, path) = directory(&["site/releases/1/public", "site/releases/2/public"]);
        symlink("releases/1", path.join("site/current")).unwrap();
        let document = config(&path.join("site/current/public"));
        let (files, _) = files_of(&document, Path::new("/nonexistent"));
        fs::remove_file(path.join("site/current")).unwrap();
        symlink("releases/2", path.join("site/current")).unwrap();
        assert_eq!(check(&files, &document), Ok(()));
        assert!(files.readable.contains(&path.join("site")));
        assert!(!files.readable.contains(Path::new("/")));
    }

    #[test]
    fn a_name_that_begins_with_a_variable_does_not_open_everything() {
        let (files, _) = files_of(&config(Path::new("")), Path::new("/nonexistent"));
        assert_eq!(files.readable, BTreeSet::new());
        assert_eq!(files.missing, []);
    }

    #[test]
    fn what_is_not_there_yet_does_not_open_everything() {
        let missing = Path::new("/nonexistent-directory/www");
        let (files, _) = files_of(&config(missing), Path::new("/nonexistent"));
        assert!(!files.readable.contains(Path::new("/")));
        assert_eq!(files.missing, [("/routes/0/action/share".to_owned(), missing.to_owned())]);
        assert_eq!(check(&files, &config(missing)), Ok(()), "it is not there");
        let (_directory, path) = directory(&["site"]);
        let (files, _) = files_of(&config(&path.join("site/later")), Path::new("/nonexistent"));
        assert!(files.readable.contains(&path.join("site")));
    }

    #[test]
    fn temporary_files_stay_where_they_were_at_the_start() {
        let (_directory, path) = directory(&["tmp", "other"]);
        let (files, _) = files_of(&Config::from_value(json!({})).unwrap(), &path.join("tmp"));
        let check_directory = |directory: &str| {
            let http = json!({"body_temp_path": path.join(directory)});
            check(&files, &Config::from_value(json!({"settings": {"http": http}})).unwrap())
        };
        assert_eq!(check_directory("tmp"), Ok(()));
        assert!(
            check_directory("other").unwrap_err().starts_with("/settings/http/body_temp_path: ")
        );
    }
}
