//! Document roots with their symbolic links resolved, as nginx's `$realpath_root`.
//!
//! A deployment that replaces a link (`current` → `releases/7`) takes effect between two requests
//! and never within one. PHP, which caches resolved paths for minutes, gets paths without links.
//!
//! An application that loads code once, from a preload or worker script, stays in the release that it
//! was started from until it is restarted: its roots are [pinned](Pins).
//!
//! A root without links costs no system call; one with links costs one `stat`, which detects a new
//! target. Each root is resolved again once a second, in case directories were renamed.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::rc::Rc;

/// Maximum number of cached roots. A configuration with variables can have any number of roots.
const MAX_ROOTS: usize = 64;
/// Time for which a root is cached, in microseconds.
const MAX_AGE_US: u64 = 1_000_000;

/// Paths that keep the target that their symbolic links have had once.
#[derive(Debug, Clone, Default)]
pub struct Pins(Vec<Pin>);

#[derive(Debug, Clone)]
struct Pin {
    path: Box<[u8]>,
    /// The path without links.
    real: Rc<[u8]>,
}

impl Pins {
    /// Pins paths as they lead now. A path without links needs no pin.
    pub fn new<'p>(paths: impl IntoIterator<Item = &'p str>) -> Pins {
        let resolved = paths.into_iter().filter_map(|path| {
            let real = resolve(path.as_bytes(), 0)?.real?;
            Some(Pin { path: path.as_bytes().into(), real })
        });
        Pins(resolved.collect())
    }

    /// Returns the target of a path, unless it is not pinned, or was deleted.
    pub fn target(&self, path: &[u8]) -> Option<&Rc<[u8]>> {
        let Pin { real, .. } = self.0.iter().find(|pin| *pin.path == *path)?;
        identity(real).map(|_| real)
    }
}

/// Cache of resolved document roots.
#[derive(Debug, Default)]
pub struct Roots {
    pins: Pins,
    resolved: RefCell<HashMap<Box<[u8]>, Resolution>>,
}

#[derive(Debug)]
struct Resolution {
    /// The path without links; `None` if the root has none.
    real: Option<Rc<[u8]>>,
    /// Device and inode of the directory.
    identity: (u64, u64),
    at_us: u64,
}

impl Roots {
    /// Creates a cache with pinned roots.
    pub fn pinned(pins: Pins) -> Roots {
        Roots { pins, resolved: RefCell::default() }
    }

    /// Returns the root without links; `None` if it has none or does not exist. `now_us` is
    /// monotonic time in microseconds.
    pub fn real(&self, root: &[u8], now_us: u64) -> Option<Rc<[u8]>> {
        if let Some(real) = self.pins.target(root) {
            return Some(Rc::clone(real));
        }
        if let Some(known) = self.resolved.borrow().get(root)
            && now_us.saturating_sub(known.at_us) < MAX_AGE_US
        {
            match &known.real {
                None => return None,
                Some(real) if identity(root) == Some(known.identity) => {
                    return Some(Rc::clone(real));
                }
                Some(_) => {}
            }
        }
        let known = resolve(root, now_us);
        let real = known.as_ref().and_then(|known| known.real.clone());
        let mut roots = self.resolved.borrow_mut();
        if roots.len() >= MAX_ROOTS {
            roots.clear();
        }
        match known {
            Some(known) => roots.insert(root.into(), known),
            None => roots.remove(root),
        };
        real
    }
}

fn resolve(root: &[u8], at_us: u64) -> Option<Resolution> {
    let real = fs::canonicalize(OsStr::from_bytes(root)).ok()?;
    let real = real.as_os_str().as_bytes();
    // Identity of the resolved path: the link may have been replaced meanwhile.
    let identity = identity(real)?;
    // The path may have redundant slashes, which are not links.
    let is_plain = Path::new(OsStr::from_bytes(root))
        .components()
        .eq(Path::new(OsStr::from_bytes(real)).components());
    Some(Resolution { real: (!is_plain).then(|| real.into()), identity, at_us })
}

fn identity(path: &[u8]) -> Option<(u64, u64)> {
    let metadata = fs::metadata(OsStr::from_bytes(path)).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_counts_as_it_is_when_the_request_begins() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        let path = |name: &str| base.join(name);
        for release in ["1", "2"] {
            fs::create_dir_all(path(release).join("public")).unwrap();
        }
        symlink("1", path("current")).unwrap();
        let roots = Roots::default();
        let text = |path: &Path| path.as_os_str().as_bytes().to_vec();
        let root = text(&path("current/public"));
        let real = |now_us| roots.real(&root, now_us).map(|real| real.to_vec());
        assert_eq!(real(0), Some(text(&path("1/public"))));
        symlink("2", path("new")).unwrap();
        fs::rename(path("new"), path("current")).unwrap();
        assert_eq!(real(1), Some(text(&path("2/public"))));
        // The same directory under another name is detected within a second.
        fs::rename(path("2"), path("3")).unwrap();
        fs::remove_file(path("current")).unwrap();
        symlink("3", path("current")).unwrap();
        assert_eq!(real(MAX_AGE_US + 1), Some(text(&path("3/public"))));
        fs::remove_file(path("current")).unwrap();
        assert_eq!(real(MAX_AGE_US + 2), None);
    }

    #[test]
    fn a_pinned_root_keeps_its_release_until_that_is_deleted() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        let path = |name: &str| base.join(name);
        let swap = |release: &str| {
            symlink(release, path("new")).unwrap();
            fs::rename(path("new"), path("current")).unwrap();
        };
        for release in ["1", "2"] {
            fs::create_dir_all(path(release).join("public")).unwrap();
        }
        swap("1");
        let root = path("current/public");
        let root = root.to_str().unwrap();
        let roots = Roots::pinned(Pins::new([root, base.to_str().unwrap()]));
        let real = |now_us| {
            let real = roots.real(root.as_bytes(), now_us);
            real.map(|real| String::from_utf8(real.to_vec()).unwrap())
        };
        let expected = |name: &str| Some(path(name).to_str().unwrap().to_owned());
        swap("2");
        assert_eq!(real(5 * MAX_AGE_US), expected("1/public"));
        assert_eq!(roots.real(base.to_str().unwrap().as_bytes(), 0), None, "it has no link");
        fs::remove_dir_all(path("1")).unwrap();
        assert_eq!(real(6 * MAX_AGE_US), expected("2/public"));
    }

    #[test]
    fn a_root_without_links_stays_as_it_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        let base = base.to_str().unwrap();
        let roots = Roots::default();
        for written in [base.to_owned(), format!("{base}/"), base.replace('/', "//")] {
            assert_eq!(roots.real(written.as_bytes(), 0), None, "{written}");
        }
        assert_eq!(roots.real(b"/no/such/directory", 0), None);
    }

    #[test]
    fn no_more_roots_are_remembered_than_there_is_room_for() {
        let directory = tempfile::tempdir().unwrap();
        let roots = Roots::default();
        for number in 0..3 * MAX_ROOTS {
            let path = directory.path().join(number.to_string());
            fs::create_dir(&path).unwrap();
            roots.real(path.as_os_str().as_bytes(), 0);
            assert!(roots.resolved.borrow().len() <= MAX_ROOTS);
        }
    }
}
