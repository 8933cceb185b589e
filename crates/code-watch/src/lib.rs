//! Files of a project whose changes restart a resident application, or reload its pages in browsers,
//! for development.
//!
//! Directories are watched with all directories below them that are there and that are created
//! later. The process must have the rights of the application's user, who can put links anywhere.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

/// Time without a change after which changes are reported: editors and version control change
/// several files at once.
const QUIET: Duration = Duration::from_millis(100);

/// Maximum number of directories.
const MAX_DIRECTORIES: usize = 8192;

/// Maximum number of links of a path.
const MAX_LINKS: usize = 40;

/// Files and directories that are watched.
pub struct Watch {
    inotify: OwnedFd,
    directories: HashMap<i32, Directory>,
    /// The last change and its time, if it has not been reported.
    changed: Option<(PathBuf, Instant)>,
    /// The paths to watch, to begin again when a directory is replaced.
    paths: Vec<PathBuf>,
    filter: Filter,
}

/// The files in watched directories that count, beside those of editors, which never do.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filter {
    /// Endings of names, in lower case and without the dot; empty for all files.
    pub endings: &'static [&'static str],
    /// Names of directories that are not watched.
    pub skipped: &'static [&'static str],
}

impl Filter {
    fn has_file(&self, name: &OsStr) -> bool {
        let ending = Path::new(name).extension().and_then(OsStr::to_str).unwrap_or_default();
        let is_meant = |known: &&str| ending.eq_ignore_ascii_case(known);
        !is_temporary(name) && (self.endings.is_empty() || self.endings.iter().any(is_meant))
    }

    fn has_directory(&self, name: &OsStr) -> bool {
        !is_temporary(name) && !self.skipped.iter().any(|skipped| name == *skipped)
    }
}

struct Directory {
    path: PathBuf,
    /// Names of the files that count; empty for all, and for directories below.
    files: Vec<Box<OsStr>>,
}

impl Watch {
    /// Watches files and directories, and symbolic links, of which only the links themselves count.
    /// Error: the path that cannot be watched, and why.
    pub fn new(paths: &[String], links: &[PathBuf], filter: Filter) -> Result<Self, String> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
            .map_err(|error| format!("changes of files cannot be noticed: {error}"))?;
        // PHP's paths have no "..": the parent of "/a/b/.." would be "/a/b".
        let paths: Vec<_> = paths.iter().map(|path| normal(Path::new(path))).collect();
        let directories = HashMap::new();
        let mut watch = Watch { inotify, directories, changed: None, paths, filter };
        for path in watch.paths.clone() {
            let added = match fs::metadata(&path) {
                // The name in the directory above leads to another directory after a deployment.
                Ok(found) if found.is_dir() => {
                    watch.add_file(&path).and_then(|()| watch.add_tree(&path))
                }
                Ok(_) => watch.add_file(&path),
                Err(error) => Err(error),
            };
            added.map_err(|error| format!("{}: {error}", path.display()))?;
        }
        for link in links {
            let added = watch.add_file(link);
            added.map_err(|error| format!("{}: {error}", link.display()))?;
        }
        Ok(watch)
    }

    /// Returns the descriptor, to poll.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }

    /// Returns the time at which changes are to be reported.
    pub fn due(&self) -> Option<Instant> {
        self.changed.as_ref().map(|(_, at)| *at + QUIET)
    }

    /// Returns a changed file if there has been no further change for a while.
    pub fn take_changed(&mut self, now: Instant) -> Option<PathBuf> {
        self.due().filter(|due| *due <= now)?;
        self.changed.take().map(|(path, _)| path)
    }

    /// Reads the changes that have been noticed.
    pub fn receive(&mut self, now: Instant) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut found = Vec::new();
        let mut reader = inotify::Reader::new(&self.inotify, &mut buffer);
        while let Ok(event) = reader.next() {
            let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()).to_owned());
            found.push((event.wd(), event.events(), name));
        }
        for (number, events, name) in found {
            self.on_event(number, events, name.as_deref(), now);
        }
    }

    fn on_event(&mut self, number: i32, events: ReadFlags, name: Option<&OsStr>, now: Instant) {
        if events.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.changed = Some((PathBuf::from("a file"), now));
            return;
        }
        if events.contains(ReadFlags::IGNORED) {
            self.directories.remove(&number);
            return;
        }
        let (Some(directory), Some(name)) = (self.directories.get(&number), name) else { return };
        let is_directory = events.contains(ReadFlags::ISDIR);
        let is_meant = match directory.files.as_slice() {
            [] if is_directory => self.filter.has_directory(name),
            [] => self.filter.has_file(name),
            files => files.iter().any(|file| **file == *name),
        };
        if !is_meant {
            return;
        }
        let path = directory.path.join(name);
        let is_watched = directory.files.is_empty() || self.paths.contains(&path);
        if is_directory && is_watched {
            // The directory may have files already. One that is gone or cannot be read has none.
            let _ = self.add_tree(&path);
        }
        self.changed = Some((path, now));
    }

    fn add_tree(&mut self, directory: &Path) -> io::Result<()> {
        self.add(directory, None)?;
        for entry in fs::read_dir(directory)?.flatten() {
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_directory && self.filter.has_directory(&entry.file_name()) {
                match self.add_tree(&entry.path()) {
                    // Removed meanwhile, or not the user's: not watched.
                    Err(error) if is_of_one_directory(&error) => {}
                    other => other?,
                }
            }
        }
        Ok(())
    }

    fn add_file(&mut self, path: &Path) -> io::Result<()> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        let (parent, name) = path.parent().zip(path.file_name()).ok_or_else(invalid)?;
        self.add(parent, Some(name))
    }

    /// Watches a directory: one file of it, or all.
    fn add(&mut self, path: &Path, file: Option<&OsStr>) -> io::Result<()> {
        if self.directories.len() >= MAX_DIRECTORIES {
            return Err(io::Error::other(format!(
                "there are more than {MAX_DIRECTORIES} directories"
            )));
        }
        let flags = WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ONLYDIR;
        let number = inotify::add_watch(&self.inotify, path, flags)?;
        match self.directories.get_mut(&number) {
            Some(known) => match file {
                Some(file) if !known.files.is_empty() => known.files.push(file.into()),
                Some(_) => {}
                None => known.files.clear(),
            },
            None => {
                let files = file.map(Box::from).into_iter().collect();
                self.directories.insert(number, Directory { path: path.to_owned(), files });
            }
        }
        Ok(())
    }
}

/// Returns the symbolic links that a path leads through, and those that their targets do.
pub fn links(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect_links(path, &mut found);
    found
}

fn collect_links(path: &Path, found: &mut Vec<PathBuf>) {
    let mut above = PathBuf::new();
    for part in normal(path).components() {
        above.push(part);
        let Ok(target) = fs::read_link(&above) else { continue };
        if found.len() >= MAX_LINKS || found.contains(&above) {
            return;
        }
        found.push(above.clone());
        let directory = above.parent().unwrap_or(Path::new("/"));
        collect_links(&directory.join(target), found);
    }
}

/// Returns true for errors that concern a single directory.
fn is_of_one_directory(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory
    )
}

/// Returns an absolute path without `.` and `..`.
pub fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

/// Returns true for files that editors and version control create beside those that are meant.
/// `.env` files are meant.
fn is_temporary(name: &OsStr) -> bool {
    let name = name.as_bytes();
    let is_hidden = name.starts_with(b".") && !name.starts_with(b".env");
    is_hidden || name.ends_with(b"~") || name.ends_with(b".swp") || name == b"4913"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the name of the file whose change is reported; `None` if there is no change.
    fn changed(watch: &mut Watch) -> Option<String> {
        let now = Instant::now();
        watch.receive(now);
        assert_eq!(watch.take_changed(now), None, "further changes are waited for");
        let path = watch.take_changed(now + QUIET)?;
        path.file_name().map(|name| name.to_string_lossy().into_owned())
    }

    #[test]
    fn changes_in_a_tree_are_noticed_and_temporary_files_are_not() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir_all(at("src/deep")).unwrap();
        fs::create_dir_all(at("src/.git")).unwrap();
        let mut watch =
            Watch::new(&[at("src").display().to_string()], &[], Filter::default()).unwrap();
        let write = |name: &str| fs::write(at(name), "a").unwrap();
        assert_eq!(changed(&mut watch), None);
        for name in ["a.php", ".env.local", "deep/b.twig"] {
            write(&format!("src/{name}"));
            assert_eq!(changed(&mut watch).as_deref(), name.split('/').next_back());
        }
        for name in [".a.php.swp", "a.php~", ".git/index", "4913"] {
            write(&format!("src/{name}"));
            assert_eq!(changed(&mut watch), None, "{name}");
        }
        fs::create_dir(at("src/new")).unwrap();
        assert_eq!(changed(&mut watch).as_deref(), Some("new"));
        write("src/new/c.php");
        assert_eq!(changed(&mut watch).as_deref(), Some("c.php"));
        fs::rename(at("src/new/c.php"), at("src/d.php")).unwrap();
        assert_eq!(changed(&mut watch).as_deref(), Some("d.php"));
        fs::remove_file(at("src/d.php")).unwrap();
        assert_eq!(changed(&mut watch).as_deref(), Some("d.php"));
        // A deployment replaces the whole directory.
        fs::rename(at("src"), at("old")).unwrap();
        fs::create_dir(at("src")).unwrap();
        assert_eq!(changed(&mut watch).as_deref(), Some("src"));
        for name in ["a.php", "b.php"] {
            write(&format!("src/{name}"));
            assert_eq!(changed(&mut watch).as_deref(), Some(name));
        }
        fs::remove_dir_all(at("src")).unwrap();
        assert!(changed(&mut watch).is_some());
    }

    #[test]
    fn a_filter_leaves_out_what_an_application_writes() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir_all(at("cache/deep")).unwrap();
        let filter = Filter { endings: &["php"], skipped: &["cache"] };
        let paths = [place.path().display().to_string()];
        let mut watch = Watch::new(&paths, &[], filter).unwrap();
        fs::create_dir_all(at("src/cache")).unwrap();
        assert_eq!(changed(&mut watch).as_deref(), Some("src"));
        for (name, counts) in [
            ("a.php", true),
            ("src/b.PHP", true),
            ("a.sqlite", false),
            ("php", false),
            ("cache/a.php", false),
            ("cache/deep/a.php", false),
            ("src/cache/a.php", false),
        ] {
            fs::write(at(name), "").unwrap();
            assert_eq!(changed(&mut watch).is_some(), counts, "{name}");
        }
    }

    #[test]
    fn of_the_directory_of_a_file_only_that_file_counts() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let paths = [at(".settings"), at("b.php")].map(|path| {
            fs::write(&path, "").unwrap();
            path.display().to_string()
        });
        let mut watch = Watch::new(&paths, &[], Filter::default()).unwrap();
        fs::write(at("other"), "").unwrap();
        assert_eq!(changed(&mut watch), None);
        // Editors replace files.
        fs::write(at("new"), "").unwrap();
        fs::rename(at("new"), at(".settings")).unwrap();
        assert_eq!(changed(&mut watch).as_deref(), Some(".settings"));
        fs::write(at("b.php"), "b").unwrap();
        assert_eq!(changed(&mut watch).as_deref(), Some("b.php"));
    }

    #[test]
    fn the_links_of_a_path_are_watched_without_the_directories_that_they_lead_to() {
        let place = tempfile::tempdir().unwrap();
        let base = place.path().canonicalize().unwrap();
        let at = |name: &str| base.join(name);
        fs::create_dir_all(at("releases/1/public")).unwrap();
        fs::create_dir_all(at("releases/2/public")).unwrap();
        let link = |target: &str, name: &str| {
            std::os::unix::fs::symlink(target, at("new")).unwrap();
            fs::rename(at("new"), at(name)).unwrap();
        };
        link("releases/1", "latest");
        link("latest", "current");
        let found = links(&at("current/public"));
        assert_eq!(found, [at("current"), at("latest")]);
        assert!(links(&at("releases/1/public")).is_empty());
        let mut watch = Watch::new(&[], &found, Filter::default()).unwrap();
        fs::write(at("releases/1/public/a.php"), "").unwrap();
        fs::write(at("other"), "").unwrap();
        assert_eq!(changed(&mut watch), None);
        for name in ["latest", "current"] {
            link("releases/2", name);
            assert_eq!(changed(&mut watch).as_deref(), Some(name));
        }
        // In two steps, as "ln -sfn" does it.
        fs::remove_file(at("current")).unwrap();
        std::os::unix::fs::symlink("releases/1", at("current")).unwrap();
        assert_eq!(changed(&mut watch).as_deref(), Some("current"));
        link("a", "b");
        link("b", "a");
        assert_eq!(links(&at("a/x")).len(), 2, "a circle");
    }

    #[test]
    fn a_path_that_does_not_exist_is_named() {
        let error =
            Watch::new(&["/nonexistent/a".to_owned()], &[], Filter::default()).err().unwrap();
        assert!(error.starts_with("/nonexistent/a: No such file"), "{error}");
    }
}
