//! Watches the path of a root: each directory and each link that leads to it.

use rustix::fs::inotify::WatchFlags;
use rustix::fs::{AtFlags, CWD};
use rustix::io::Errno;

use super::filesystems::FileSystems;
use super::kernel::{Kernel, Role, User};

/// Most links in the path of a root (Linux: 40).
const MAX_LINKS: usize = 40;

/// Most names in the path of a root, with those in the texts of its links.
const MAX_NAMES: usize = 256;

/// The reported events of a directory or link: it is renamed, replaced or removed, or its
/// permissions change.
const SELF: WatchFlags =
    WatchFlags::MOVE_SELF.union(WatchFlags::DELETE_SELF).union(WatchFlags::ATTRIB);

/// The reported events of the entries of a directory.
pub(super) const ENTRIES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(SELF);

/// A path on the way to a root.
pub(super) struct Way<'k> {
    pub kernel: &'k mut Kernel,
    pub file_systems: &'k mut FileSystems,
    /// Index of the root.
    pub root: usize,
    /// Watches so far.
    pub watches: Vec<(i32, User)>,
}

impl Way<'_> {
    /// Watches everything that leads to a path and returns the path without links. Each name is
    /// watched before it is looked at: the result holds until a change is reported.
    ///
    /// # Errors
    ///
    /// Some of it cannot be watched.
    pub fn follow(&mut self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        let mut rest = names(path);
        let mut resolved = Vec::new();
        let (mut links, mut count) = (0, 0);
        while let Some(name) = rest.pop() {
            count += 1;
            if count > MAX_NAMES {
                return Err(Errno::LOOP);
            }
            let parent = resolved.len();
            if name == b".." {
                resolved.truncate(memchr::memrchr(b'/', &resolved).unwrap_or(0));
                continue;
            }
            resolved.push(b'/');
            resolved.extend_from_slice(&name);
            self.watch(&resolved, parent, name)?;
            match rustix::fs::readlink(resolved.as_slice(), Vec::new()) {
                Ok(text) => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Errno::LOOP);
                    }
                    let text = text.into_bytes();
                    resolved.truncate(if text.starts_with(b"/") { 0 } else { parent });
                    rest.append(&mut names(&text));
                }
                Err(Errno::INVAL) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(resolved)
    }

    /// Watches a path whose directory has the first `parent` bytes of it. A path that cannot be
    /// read cannot be watched; its directory is watched in its place.
    fn watch(&mut self, path: &[u8], parent: usize, name: Vec<u8>) -> Result<(), Errno> {
        let found = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?;
        if !self.file_systems.report_changes(found.st_dev, path) {
            return Err(Errno::OPNOTSUPP);
        }
        let own = User { root: self.root, role: Role::Above(None) };
        let (watch, user) = match self.kernel.add(path, SELF, own.clone()) {
            Ok(watch) => (watch, own),
            Err(Errno::ACCESS) => {
                let directory = if parent == 0 { b"/".as_slice() } else { &path[..parent] };
                let user = User { root: self.root, role: Role::Above(Some(name.into())) };
                (self.kernel.add(directory, ENTRIES, user.clone())?, user)
            }
            Err(error) => return Err(error),
        };
        self.watches.push((watch, user));
        Ok(())
    }
}

/// Returns the names of a path, the last one first.
fn names(path: &[u8]) -> Vec<Vec<u8>> {
    let names = path.split(|byte| *byte == b'/').rev();
    names.filter(|name| !matches!(*name, b"" | b".")).map(<[u8]>::to_vec).collect()
}
