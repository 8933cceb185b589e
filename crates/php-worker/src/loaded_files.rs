//! Files that PHP was started from: programs, libraries, files of settings, and scripts that are
//! run before the first request.
//!
//! A prototype that is executed reads all of them anew. One that is forked has the files as they
//! were read before, so the zygote must notice that a package was upgraded or a setting changed. A
//! prototype is asked for changes when the configuration is read again: only then is the
//! application restarted.

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZeroU8;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::ffi::IniFiles;

/// Identifies a content of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl Stamp {
    /// Returns the stamp of a file; `None` if it does not exist or cannot be reached.
    fn of(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        let (device, inode, size) = (found.dev(), found.ino(), found.size());
        Some(Stamp { device, inode, size, changed: (found.ctime(), found.ctime_nsec()) })
    }
}

/// The files, with their stamps.
#[derive(Debug)]
pub struct LoadedFiles(Vec<(PathBuf, Option<Stamp>)>);

impl LoadedFiles {
    /// Returns the files that this process has mapped, and those of PHP's settings.
    pub fn of(ini: &IniFiles) -> Self {
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let mut paths: BTreeSet<_> = mapped(&maps).map(PathBuf::from).collect();
        paths.insert(ini.main.clone());
        paths.extend(ini.directories.iter().cloned());
        paths.extend(ini.scanned.iter().cloned());
        LoadedFiles::at(paths)
    }

    fn at(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let stamped = |path: PathBuf| {
            let stamp = Stamp::of(&path);
            (path, stamp)
        };
        LoadedFiles(paths.into_iter().map(stamped).collect())
    }

    /// Returns the paths of the files.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().filter(|(_, stamp)| stamp.is_some()).map(|(path, _)| path.as_path())
    }

    /// Adds a file as it is now. One that is in the list keeps its stamp.
    pub fn add(&mut self, path: PathBuf) {
        if !self.0.iter().any(|(known, _)| *known == path) {
            let stamp = Stamp::of(&path);
            self.0.push((path, stamp));
        }
    }

    /// Returns true if one of the files has been changed, replaced, removed or created.
    pub fn have_changed(&self) -> bool {
        self.changed().is_some()
    }

    /// Returns the number of a file that has been changed, for [`LoadedFiles::name`]: a process can
    /// return it as its exit status.
    pub fn changed(&self) -> Option<NonZeroU8> {
        let index = self.0.iter().position(|(path, stamp)| Stamp::of(path) != *stamp)?;
        NonZeroU8::new(u8::try_from(index + 1).unwrap_or(u8::MAX))
    }

    /// Returns the name of a file.
    pub fn name(&self, number: NonZeroU8) -> String {
        match self.0.get(usize::from(number.get()) - 1) {
            Some((path, _)) if number < NonZeroU8::MAX => path.to_string_lossy().into_owned(),
            _ => "a file of PHP".to_owned(),
        }
    }
}

/// Returns the paths of mapped files that have a name.
fn mapped(maps: &str) -> impl Iterator<Item = &str> {
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    paths.filter(|path| !path.ends_with(" (deleted)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_changed_replaced_removed_or_created_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let write = |name: &str, text: &str| fs::write(at(name), text).unwrap();
        let steps: [&dyn Fn(); 4] = [
            &|| write("php.ini", "b=1"),
            &|| fs::rename(at("new"), at("php.ini")).unwrap(),
            &|| fs::remove_file(at("php.ini")).unwrap(),
            &|| write("missing", ""),
        ];
        for step in steps {
            write("php.ini", "a=10");
            write("new", "a=10");
            let _ = fs::remove_file(at("missing"));
            let loaded = LoadedFiles::at([at("php.ini"), at("missing")]);
            assert!(!loaded.have_changed());
            step();
            assert!(loaded.have_changed());
        }
    }

    #[test]
    fn a_file_that_is_added_to_a_directory_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let loaded = LoadedFiles::at([directory.path().to_owned()]);
        fs::write(directory.path().join("20-new.ini"), "").unwrap();
        assert!(loaded.have_changed());
    }

    #[test]
    fn the_changed_file_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: usize| directory.path().join(name.to_string());
        let mut loaded = LoadedFiles::at([]);
        (0..400).for_each(|name| loaded.add(at(name)));
        assert_eq!(loaded.changed(), None);
        fs::write(at(399), "").unwrap();
        assert_eq!(loaded.changed().map(|number| loaded.name(number)).unwrap(), "a file of PHP");
        fs::write(at(7), "").unwrap();
        let named = loaded.changed().map(|number| loaded.name(number)).unwrap();
        assert_eq!(named, at(7).to_string_lossy());
        loaded.add(at(7));
        assert!(loaded.have_changed(), "the first stamp counts");
    }

    #[test]
    fn mapped_files_are_those_with_a_path() {
        let maps = "7f00-7f01 r-xp 00000000 fe:00 77   /usr/lib/libphp8.2.so\n\
                    7f01-7f02 rw-p 00000000 00:00 0\n\
                    7f02-7f03 rw-p 00000000 00:00 0    [heap]\n\
                    7f03-7f04 rw-s 00000000 00:01 9    /dev/zero (deleted)\n";
        assert_eq!(mapped(maps).collect::<Vec<_>>(), ["/usr/lib/libphp8.2.so"]);
    }
}
