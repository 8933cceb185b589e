//! The files that the router can open in its sandbox.
//!
//! Reading: what its first document names; the places where sites usually are, for documents that come
//! later; and a few files of the system. Writing: unnamed files in the directories for temporary ones.
//!
//! The kernel compares files, not names, so a file that may be replaced by another one of the same name
//! comes with its directory, and a link with the directory that it is in.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use howdah_config::{Config, Served};
use howdah_sys::sandbox::landlock::{Access, Grant};
use howdah_sys::sandbox::paths::{self, resolve};

/// Files of the system that the router reads itself.
const SYSTEM: &[(&str, Access)] = &[
    // Names of servers; see `names::files` for what happens when they are replaced.
    ("/etc/hosts", Access::Open),
    ("/etc/resolv.conf", Access::Open),
    // Where resolv.conf leads to on most systems; it is replaced there.
    ("/run/systemd/resolve", Access::Open),
    ("/run/resolvconf", Access::Open),
    ("/run/NetworkManager", Access::Open),
    // Whom authorities of certificates are trusted by.
    ("/etc/ssl/certs", Access::Open),
    ("/etc/ssl/ca-bundle.pem", Access::Open),
    ("/etc/ssl/cert.pem", Access::Open),
    ("/etc/pki/tls/certs", Access::Open),
    ("/etc/pki/ca-trust/extracted", Access::Open),
    ("/var/lib/ca-certificates", Access::Open),
    // Time in the log.
    ("/etc/localtime", Access::Open),
    // Memory and processors of the machine, its load, its control groups; what workers cost. The
    // kernel guards what is about single processes.
    ("/proc", Access::Open),
    ("/sys/fs/cgroup", Access::Open),
    ("/sys/devices/system/cpu", Access::Open),
    // Standard streams when the log is opened anew; randomness where the system call is missing.
    ("/dev/null", Access::Use),
    ("/dev/urandom", Access::Open),
    // Names of functions in a report of a panic.
    ("/proc/self/exe", Access::Open),
];

/// Places in directories of the system where sites are: packages of distributions put theirs into
/// `share`, and what is tried out is in `tmp`.
const OTHERS: &[&str] = &["/usr/local", "/usr/share", "/tmp", "/var/tmp"];

/// Directories of `/var` where no sites are; `lib` is looked into.
const NOT_IN_VAR: &[&str] = &[
    "backups", "cache", "crash", "games", "lib", "lock", "log", "mail", "metrics", "run", "snap",
    "spool", "tmp",
];

/// Directories of `/var/lib` with what no visitor may see: sessions of PHP, the server's own state.
const NOT_IN_VAR_LIB: &[&str] = &["howdah", "unit"];

/// What the router can open.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Reach {
    /// Directories and files below which it can read, without links.
    readable: BTreeSet<PathBuf>,
    /// Directories in which it can make temporary files, without links.
    temporary: BTreeSet<PathBuf>,
    /// What the first document names, as it is written.
    first: BTreeSet<PathBuf>,
    /// Keys of the first document that name what there is not, and where it would be.
    pub(super) missing: Vec<(String, PathBuf)>,
}

impl Reach {
    /// What this document and later ones take, and the grants for it.
    pub(super) fn of(config: &Config, tmp: &Path) -> (Reach, Vec<Grant>) {
        Reach::with(config, tmp, &usual_places())
    }

    fn with(config: &Config, tmp: &Path, usual: &[PathBuf]) -> (Reach, Vec<Grant>) {
        let mut reach = Reach::default();
        for named in config.reads() {
            reach.add_named(&named);
        }
        usual.iter().for_each(|place| reach.add(place));
        let own = config.settings.http.body_temp_path.as_deref();
        reach.first.extend(own.map(Path::to_owned));
        for directory in [tmp].into_iter().chain(own) {
            if let Ok(directory) = fs::canonicalize(directory) {
                reach.temporary.insert(directory.clone());
                reach.readable.insert(directory);
            }
        }
        let read = reach.readable.iter().map(|path| Grant::open(path, Access::Read));
        let write = reach.temporary.iter().map(|path| Grant::open(path, Access::Use));
        let system = SYSTEM.iter().map(|(path, access)| Grant::open(path, *access));
        let grants = read.chain(write).chain(system).filter_map(Result::ok).collect();
        (reach, grants)
    }

    /// Refuses a document that names something else, if it is there: what is not cannot be served
    /// either way. A name that begins with a variable can stand for anything; of that, what is in
    /// reach is served.
    pub(super) fn check(&self, config: &Config) -> Result<(), String> {
        for named in config.reads() {
            let directory = directory_of(&named);
            let found = resolve(&directory);
            let is_left = directory == Path::new("/") || !found.exists;
            let is_known = is_left || self.first.contains(&directory);
            if !is_known && !self.readable.iter().any(|path| found.path.starts_with(path)) {
                return Err(format!(
                    "{}: {} is outside of what the router can read since it was started; restart the \
                     server with this configuration, put the files below /srv, /home or /var/www, or \
                     start the server with --no-sandbox",
                    named.path,
                    named.file.display()
                ));
            }
        }
        if let Some(directory) = &config.settings.http.body_temp_path {
            let found = resolve(directory).path;
            let is_known = self.first.contains(directory);
            if !is_known && !self.temporary.iter().any(|usable| found.starts_with(usable)) {
                return Err(format!(
                    "/settings/http/body_temp_path: {} is outside of where the router can write since \
                     it was started; restart the server with this configuration, or start it with \
                     --no-sandbox",
                    directory.display()
                ));
            }
        }
        Ok(())
    }

    /// Adds what a document names.
    fn add_named(&mut self, named: &Served) {
        let directory = directory_of(named);
        if directory == Path::new("/") {
            return;
        }
        let found = resolve(&directory);
        // Of what is yet to come, the directory where it will be: but not if that is everything.
        match found.exists || !paths::is_shared(&found.path) {
            true => drop(self.readable.insert(found.path)),
            false => self.missing.push((named.path.clone(), directory.clone())),
        }
        self.first.insert(directory);
        // Whoever puts a new release in place replaces a link: it leads elsewhere in its directory.
        let links = found.links.into_iter().map(|link| link.directory);
        self.readable.extend(links.filter(|directory| !paths::is_shared(directory)));
    }

    fn add(&mut self, directory: &Path) {
        if let Ok(directory) = fs::canonicalize(directory) {
            self.readable.insert(directory);
        }
    }
}

/// The directory that a file is in, or the directory itself.
fn directory_of(named: &Served) -> PathBuf {
    let absolute = std::path::absolute(&named.file).unwrap_or_else(|_| named.file.clone());
    match (named.is_directory, absolute.parent()) {
        (false, Some(parent)) => parent.to_owned(),
        _ => absolute,
    }
}

/// Directories where sites usually are.
fn usual_places() -> Vec<PathBuf> {
    let mut places = Vec::new();
    for directory in directories(Path::new("/"), |name| !paths::is_systems(name)) {
        let homes = directories(&directory, |_| directory.ends_with("home"));
        // All of others' homes, as far as their owners permit, but of one's own nothing hidden.
        match homes.iter().any(|home| is_own(home)) {
            false => places.push(directory),
            true => places.extend(homes.into_iter().flat_map(|home| match is_own(&home) {
                true => directories(&home, |name| !name.starts_with('.')),
                false => vec![home],
            })),
        }
    }
    places.extend(OTHERS.iter().map(PathBuf::from));
    places.extend(directories(Path::new("/var"), |name| !NOT_IN_VAR.contains(&name)));
    places.extend(directories(Path::new("/var/lib"), |name| {
        !NOT_IN_VAR_LIB.contains(&name) && !name.starts_with("php")
    }));
    places
}

fn is_own(home: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    fs::metadata(home).is_ok_and(|found| found.uid() == own)
}

fn directories(above: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(above) else { return Vec::new() };
    { entries.flatten() }
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

    /// A directory that is in none of the usual places, and what is made in it.
    fn directory(names: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(directory.path()).unwrap();
        names.iter().for_each(|name| fs::create_dir_all(path.join(name)).unwrap());
        (directory, path)
    }

    fn reach_of(config: &Config, tmp: &Path) -> (Reach, Vec<Grant>) {
        Reach::with(config, tmp, &[])
    }

    #[test]
    fn sites_are_not_where_the_system_keeps_secrets() {
        let reach = reach_of(&Config::from_value(json!({})).unwrap(), Path::new("/nonexistent")).0;
        assert_eq!(reach.readable, BTreeSet::new());
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
        let (reach, grants) = Reach::with(&config(&path.join("site")), &path.join("tmp"), &usual);
        assert!(!grants.is_empty());
        assert!(reach.readable.contains(&path.join("site")));
        assert_eq!(reach.temporary, BTreeSet::from([path.join("tmp")]));
        assert_eq!(reach.check(&config(&path.join("site/below"))), Ok(()));
        assert_eq!(reach.check(&config(&path.join("site/yet/to/come"))), Ok(()));
        let problem = reach.check(&config(&path.join("other"))).unwrap_err();
        assert!(problem.starts_with("/routes/0/action/share: "), "{problem}");
        assert!(problem.contains("--no-sandbox"), "{problem}");
        assert_eq!(reach.check(&config(&path.join("usual/site"))), Ok(()));
        assert_eq!(reach.check(&config(Path::new("/no/such/directory"))), Ok(()));
        assert_eq!(reach.check(&config(Path::new(""))), Ok(()), "it names nothing");
        for system in ["/etc", "/root", "/var/log", "/proc/self"] {
            assert!(reach.check(&config(Path::new(system))).is_err(), "{system}");
        }
    }

    #[test]
    fn a_link_that_is_replaced_leads_to_a_place_in_reach() {
        let (_directory, path) = directory(&["site/releases/1/public", "site/releases/2/public"]);
        symlink("releases/1", path.join("site/current")).unwrap();
        let document = config(&path.join("site/current/public"));
        let (reach, _) = reach_of(&document, Path::new("/nonexistent"));
        fs::remove_file(path.join("site/current")).unwrap();
        symlink("releases/2", path.join("site/current")).unwrap();
        assert_eq!(reach.check(&document), Ok(()));
        assert!(reach.readable.contains(&path.join("site")));
        assert!(!reach.readable.contains(Path::new("/")));
    }

    #[test]
    fn a_name_that_begins_with_a_variable_does_not_open_everything() {
        let (reach, _) = reach_of(&config(Path::new("")), Path::new("/nonexistent"));
        assert_eq!(reach.readable, BTreeSet::new());
        assert_eq!(reach.missing, []);
    }

    #[test]
    fn what_is_not_there_yet_does_not_open_everything() {
        let missing = Path::new("/nonexistent-directory/www");
        let (reach, _) = reach_of(&config(missing), Path::new("/nonexistent"));
        assert!(!reach.readable.contains(Path::new("/")));
        assert_eq!(reach.missing, [("/routes/0/action/share".to_owned(), missing.to_owned())]);
        assert_eq!(reach.check(&config(missing)), Ok(()), "it is served as it was");
        let (_directory, path) = directory(&["site"]);
        let (reach, _) = reach_of(&config(&path.join("site/later")), Path::new("/nonexistent"));
        assert!(reach.readable.contains(&path.join("site")));
    }

    #[test]
    fn temporary_files_stay_where_they_were_at_the_start() {
        let (_directory, path) = directory(&["tmp", "other"]);
        let (reach, _) = reach_of(&Config::from_value(json!({})).unwrap(), &path.join("tmp"));
        let check = |directory: &str| {
            let http = json!({"body_temp_path": path.join(directory)});
            reach.check(&Config::from_value(json!({"settings": {"http": http}})).unwrap())
        };
        assert_eq!(check("tmp"), Ok(()));
        assert!(check("other").unwrap_err().starts_with("/settings/http/body_temp_path: "));
    }
}
