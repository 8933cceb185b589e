//! Opens the file of a location under the share's rules for links and mounts.
//!
//! The path has no `..`, so its text cannot leave the root. The rule for symbolic links depends on
//! the share:
//!
//! - **By default** links are followed inside the root, and out of it if they belong to root or to
//!   the owner of their target (`links`).
//! - **`follow_symlinks` on**: all links are followed, as in nginx and Apache (FollowSymLinks). A
//!   user that can create links in the root can publish every file that the router may read.
//! - **`follow_symlinks` off**: no link anywhere in `root` and `path`. As in Unit this includes the
//!   root's own directories, whose owner could otherwise redirect it.
//! - **`traverse_mounts` off**: no mount is crossed, counted from `/`.
//! - **chroot**: the lookup happens within that directory and cannot leave it; links are resolved
//!   as if it were `/`, and the last two restrictions count from it. By default links are followed
//!   within that directory, independent of their owners, and links in its own path are checked like
//!   those in the path of a document root.
//!
//! The kernel enforces the last three within one `openat2` call, so there is no race between check
//! and use. Without `openat2` (before Linux 5.6, or filtered) shares with one of them are refused,
//! not emulated.
//!
//! A path without links is found with one call that refuses links. Otherwise the path is walked
//! name by name (`links`), the resolved names are checked like those of a request (`hidden`), and
//! the kernel opens the file by its path. The file is used only if both results are the same file.
//! Links of procfs to open descriptors (`/proc/self/fd/…`) are never followed, because they name
//! the router's own.
//!
//! Files are opened without blocking and without becoming a controlling terminal, and only regular
//! files are read: a FIFO or a device cannot block the router.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use howdah_config::Symlinks;
use howdah_sys::links::{self, RefusedLink, Route, WalkError, open_resolved};
use howdah_sys::permission::Wanted;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::denial::{Denial, Problem};
use super::hidden;
use super::reason::NotServedReason;
use super::share::{FileLocation, Options, Share};

/// Opens files under the rules of their shares.
#[derive(Debug)]
pub struct Opener {
    openat2: bool,
    /// Last link that was not followed because of its owner.
    refused: RefCell<Option<RefusedLink>>,
    /// Last path that the system did not let the server open.
    denied: RefCell<Option<Denial>>,
}

/// Use of an opened file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Reading.
    Read,
    /// Checking its kind; needs no read permission. Scripts are often readable to the user of their
    /// application only.
    Inspect,
}

/// An open file, its kind and its state.
#[derive(Debug)]
pub(super) struct Opened {
    pub file: File,
    pub kind: Kind,
    pub meta: Meta,
}

/// Kinds of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Regular,
    Directory,
    Other,
}

/// State of a file; a change of the file changes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Meta {
    pub device: u64,
    pub inode: u64,
    pub size: u64,
    pub modified: i64,
    pub modified_nanos: i64,
    changed: i64,
    changed_nanos: i64,
}

impl Opener {
    /// Probes whether the kernel has `openat2`.
    pub fn new() -> Self {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let probe =
            rustix::fs::openat2(CWD, "/", flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS);
        // Container runtimes that filter an unknown call return EPERM.
        let openat2 = !matches!(probe, Err(Errno::NOSYS | Errno::PERM));
        Opener { openat2, refused: RefCell::default(), denied: RefCell::default() }
    }

    /// Acts as on a kernel without `openat2`.
    #[cfg(test)]
    pub fn without_openat2() -> Self {
        Opener { openat2: false, ..Opener::new() }
    }

    /// Returns true if shares can restrict links and mounts or have a chroot on this kernel.
    pub fn can_restrict(&self) -> bool {
        self.openat2
    }

    /// Takes the last link that was not followed because of its owner.
    pub(super) fn take_refused(&self) -> Option<RefusedLink> {
        self.refused.take()
    }

    /// Takes the last path that the system did not let the server open.
    pub(super) fn take_denied(&self) -> Option<Denial> {
        self.denied.take()
    }

    /// Opens the location with `suffix` appended to its path.
    pub(super) fn open(
        &self,
        share: &Share,
        place: &FileLocation<'_>,
        suffix: &[&[u8]],
        access: Access,
    ) -> Result<Opened, NotServedReason> {
        let mut name = Vec::with_capacity(place.root.len() + place.path.len() + 32);
        name.extend_from_slice(place.root);
        name.extend_from_slice(place.path);
        suffix.iter().for_each(|part| name.extend_from_slice(part));
        match self.open_name(share, place, &name, access) {
            Ok(opened) => Ok(opened),
            Err(OpenError::NotServed(reason)) => Err(reason),
            Err(denied) => {
                let problem = match (&denied, access) {
                    (OpenError::Loop, _) => Problem::LinkLoop,
                    (_, Access::Read) => Problem::Permission(Wanted::Read),
                    (_, Access::Inspect) => Problem::Permission(Wanted::Look),
                };
                self.denied.replace(Some(Denial { path: name, problem }));
                Err(match denied {
                    OpenError::Concealed | OpenError::Loop => NotServedReason::Forbidden,
                    _ => NotServedReason::Denied,
                })
            }
        }
    }

    fn open_name(
        &self,
        share: &Share,
        place: &FileLocation<'_>,
        name: &[u8],
        access: Access,
    ) -> Result<Opened, OpenError> {
        if !self.openat2 && (share.is_restricted() || !place.chroot.is_empty()) {
            return Err(NotServedReason::Failed(Errno::NOSYS).into());
        }
        let options = share.options();
        let mut resolve = ResolveFlags::NO_MAGICLINKS;
        resolve.set(ResolveFlags::NO_XDEV, !options.traverse_mounts);
        let root_len = (place.root.len() + place.url_offset).min(name.len());
        let lookup = Lookup {
            chroot: None,
            name,
            root_len,
            symlinks: options.symlinks,
            resolve,
            access,
            options: Some(options),
        };
        if place.chroot.is_empty() {
            return self.open_lookup(&lookup);
        }
        let (within, root_len) =
            within(place.chroot, name, root_len).ok_or(NotServedReason::Forbidden)?;
        let chroot = self.open_chroot(place.chroot, options.symlinks)?;
        let symlinks = match options.symlinks {
            Symlinks::None => Symlinks::None,
            Symlinks::OwnerMatch | Symlinks::All => Symlinks::All,
        };
        let lookup = Lookup { chroot: Some(&chroot), name: &within, root_len, symlinks, ..lookup };
        self.open_lookup(&Lookup { resolve: resolve | ResolveFlags::IN_ROOT, ..lookup })
    }

    fn open_chroot(&self, name: &[u8], symlinks: Symlinks) -> Result<File, OpenError> {
        if symlinks == Symlinks::OwnerMatch {
            let (root_len, resolve) = (name.len(), ResolveFlags::NO_MAGICLINKS);
            let access = Access::Inspect;
            let options = None;
            let lookup =
                Lookup { chroot: None, name, root_len, symlinks, resolve, access, options };
            return self.open_lookup(&lookup).map(|opened| opened.file);
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(CWD, name, flags, Mode::empty())?.into())
    }

    fn open_lookup(&self, lookup: &Lookup<'_>) -> Result<Opened, OpenError> {
        if self.openat2 {
            let without_links = lookup.resolve | ResolveFlags::NO_SYMLINKS;
            match open_resolved(lookup.directory(), lookup.name, lookup.flags(), without_links) {
                Err(Errno::LOOP) if lookup.symlinks != Symlinks::None => {}
                file => return Ok(Opened::new(file?)?),
            }
        }
        for _ in 0..MAX_WALK_ATTEMPTS {
            let resolved = links::walk(&lookup.route()).map_err(|stop| match stop {
                WalkError::System(error) => OpenError::from(error),
                WalkError::Absent => NotServedReason::Forbidden.into(),
                WalkError::Denied => OpenError::Concealed,
                WalkError::Loop => OpenError::Loop,
                WalkError::Link(link) => {
                    self.refused.replace(Some(link));
                    NotServedReason::Forbidden.into()
                }
            })?;
            let is_read = lookup.access == Access::Read && resolved.is_regular();
            let is_hidden = resolved.names_of_links().any(hidden::is_hidden_segment);
            if is_hidden || is_read && lookup.is_source(resolved.name()) {
                return Err(NotServedReason::NotFound.into());
            }
            let (directory, name, flags) = (lookup.directory(), lookup.name, lookup.flags());
            let file = if self.openat2 {
                open_resolved(directory, name, flags, lookup.resolve)
            } else {
                rustix::fs::openat(directory, name, flags, Mode::empty()).map(File::from)
            };
            let opened = Opened::new(file?)?;
            if resolved.is_file(opened.meta.device, opened.meta.inode) {
                return Ok(opened);
            }
        }
        Err(NotServedReason::Failed(Errno::AGAIN).into())
    }
}

/// Reason why a file could not be opened.
enum OpenError {
    NotServed(NotServedReason),
    /// The system denies access.
    Denied,
    /// The system denies access behind a link out of the root; clients get the response for an
    /// existing file.
    Concealed,
    /// There are too many links.
    Loop,
}

impl From<NotServedReason> for OpenError {
    fn from(reason: NotServedReason) -> Self {
        match reason {
            NotServedReason::Denied => OpenError::Denied,
            reason => OpenError::NotServed(reason),
        }
    }
}

impl From<Errno> for OpenError {
    fn from(error: Errno) -> Self {
        NotServedReason::from(error).into()
    }
}

/// A name to look up.
struct Lookup<'a> {
    /// Directory that the name is relative to and that the lookup cannot leave.
    chroot: Option<&'a File>,
    name: &'a [u8],
    /// Length in bytes of the document root's path at the start of the name.
    root_len: usize,
    symlinks: Symlinks,
    /// Further restrictions, which the kernel enforces.
    resolve: ResolveFlags,
    access: Access,
    /// The share; `None` for a directory of the configuration.
    options: Option<&'a Options>,
}

impl Lookup<'_> {
    /// Returns true if a file with this name is never sent.
    fn is_source(&self, name: &[u8]) -> bool {
        match self.options {
            Some(options) => options.is_source(name),
            None => hidden::is_php_source(name),
        }
    }

    fn directory(&self) -> BorrowedFd<'_> {
        self.chroot.map_or(CWD, |chroot| chroot.as_fd())
    }

    fn flags(&self) -> OFlags {
        OFlags::CLOEXEC
            | match self.access {
                Access::Read => OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY,
                Access::Inspect => OFlags::PATH,
            }
    }

    fn route(&self) -> Route<'_> {
        let (root, path) = self.name.split_at_checked(self.root_len).unwrap_or((self.name, b""));
        let is_absolute = self.name.starts_with(b"/");
        let (follows_all, chroot) = (self.symlinks == Symlinks::All, self.chroot);
        Route { follows_all, chroot, is_absolute, root, path }
    }
}

impl Opened {
    fn new(file: File) -> Result<Self, NotServedReason> {
        let metadata = file.metadata().map_err(|error| reason_of(&error))?;
        let kind = match metadata.file_type() {
            kind if kind.is_file() => Kind::Regular,
            kind if kind.is_dir() => Kind::Directory,
            _ => Kind::Other,
        };
        Ok(Opened { file, kind, meta: Meta::of(&metadata) })
    }
}

impl Default for Opener {
    fn default() -> Self {
        Self::new()
    }
}

impl Meta {
    /// Returns the state of an open file.
    pub fn of(metadata: &std::fs::Metadata) -> Self {
        Meta {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: metadata.mtime(),
            modified_nanos: metadata.mtime_nsec(),
            changed: metadata.ctime(),
            changed_nanos: metadata.ctime_nsec(),
        }
    }

    /// Returns true if a later change would be visible in the state. Time stamps have the
    /// resolution of the kernel's tick (a second on some file systems), so a younger state may hide
    /// a write. The change time (ctime) is used, since no program can set it.
    pub fn is_settled(&self, wall: SystemTime) -> bool {
        is_settled(self.changed, wall)
    }
}

/// Returns true if a change after this one, in seconds since 1970, would be visible in the state of
/// a file.
pub(super) fn is_settled(changed: i64, wall: SystemTime) -> bool {
    wall_seconds(wall).saturating_sub(changed).unsigned_abs() > SETTLING_SECONDS
}

/// Returns the seconds since 1970; 0 if the clock is before that.
pub(super) fn wall_seconds(wall: SystemTime) -> i64 {
    let age = wall.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(age.as_secs()).unwrap_or(i64::MAX)
}

/// Maximum number of walks for a lookup. A walk is repeated if the kernel then opens another file
/// because links were changed in between.
const MAX_WALK_ATTEMPTS: usize = 16;

/// Time in seconds after a change within which another change may not be visible in the file's
/// state.
const SETTLING_SECONDS: u64 = 2;

/// Returns the rest of `name` below the directory `chroot`, compared segment by segment, and the
/// number of bytes of it that belong to the first `root_len` bytes of the name. `None` if the name
/// is not below `chroot`.
fn within(chroot: &[u8], name: &[u8], root_len: usize) -> Option<(Vec<u8>, usize)> {
    if chroot.starts_with(b"/") != name.starts_with(b"/") {
        return None;
    }
    let segments = |path: &[u8]| path.split(|byte| *byte == b'/').filter(|s| !s.is_empty()).count();
    let directory = name.ends_with(b"/");
    let mut rest = name.split(|byte| *byte == b'/').filter(|segment| !segment.is_empty());
    for segment in chroot.split(|byte| *byte == b'/').filter(|segment| !segment.is_empty()) {
        if rest.next() != Some(segment) {
            return None;
        }
    }
    let of_root = segments(name.get(..root_len)?).saturating_sub(segments(chroot));
    let rest = rest.collect::<Vec<_>>();
    let root_len = rest.get(..of_root)?.join(&b'/').len();
    let mut within = rest.join(&b'/');
    if within.is_empty() {
        return None;
    }
    if directory {
        within.push(b'/');
    }
    Some((within, root_len))
}

impl From<Errno> for NotServedReason {
    /// Maps errors as Unit does.
    fn from(error: Errno) -> Self {
        match error {
            error if links::is_absent(error) => NotServedReason::NotFound,
            error if links::is_denied(error) => NotServedReason::Denied,
            Errno::LOOP | Errno::XDEV => NotServedReason::Forbidden,
            other => NotServedReason::Failed(other),
        }
    }
}

/// Maps an error of the standard library.
fn reason_of(error: &io::Error) -> NotServedReason {
    Errno::from_io_error(error).unwrap_or(Errno::IO).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

    #[test]
    fn without_openat2_only_unrestricted_lookups_are_made() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("f"), "x").unwrap();
        let opener = Opener::without_openat2();
        let open = |options: Options, chroot: &[u8]| {
            let share = Share::new(root.path(), options);
            let place = FileLocation { chroot, ..share.place(b"/f") };
            opener.open(&share, &place, &[], Access::Read).map(|opened| opened.kind)
        };
        let refused = Err(NotServedReason::Failed(Errno::NOSYS));
        assert_eq!(open(Options::default(), b""), Ok(Kind::Regular));
        assert_eq!(open(Options::default(), b"/"), refused);
        assert_eq!(
            open(Options { symlinks: Symlinks::All, ..Options::default() }, b""),
            Ok(Kind::Regular)
        );
        assert_eq!(open(Options { symlinks: Symlinks::None, ..Options::default() }, b""), refused);
        assert_eq!(open(Options { traverse_mounts: false, ..Options::default() }, b""), refused);
    }

    #[test]
    fn a_chroot_is_matched_by_whole_segments() {
        let rest = |chroot: &str, name: &str| {
            within(chroot.as_bytes(), name.as_bytes(), 0)
                .map(|(rest, _)| String::from_utf8(rest).unwrap())
        };
        assert_eq!(rest("/a/b", "/a/b/c").as_deref(), Some("c"));
        assert_eq!(rest("/a/b/", "/a/b/c/").as_deref(), Some("c/"));
        assert_eq!(rest("/a//b///", "///a/////b/c/d").as_deref(), Some("c/d"));
        assert_eq!(rest("/", "/a").as_deref(), Some("a"));
        assert_eq!(rest(".", "./a/b").as_deref(), Some("a/b"));
        assert_eq!(rest("/a/b", "/a/bxc"), None);
        assert_eq!(rest("/a/b", "/a/b"), None);
        assert_eq!(rest("/a/b", "/a"), None);
        assert_eq!(rest(".", "/a"), None);
    }

    #[test]
    fn the_path_of_the_root_is_told_from_the_rest_within_a_chroot() {
        let parts = |chroot: &str, root: &str, path: &str| {
            let name = format!("{root}{path}");
            let (rest, root_len) = within(chroot.as_bytes(), name.as_bytes(), root.len()).unwrap();
            let (root, path) = rest.split_at(root_len);
            [root, path].map(|part| String::from_utf8(part.to_vec()).unwrap())
        };
        assert_eq!(parts("/a", "/a/b/c", "/d/e"), ["b/c", "/d/e"]);
        assert_eq!(parts("//a/", "/a//b/", "/d/"), ["b", "/d/"]);
        assert_eq!(parts("/a/b", "/a", "/b/c"), ["", "c"]);
        assert_eq!(parts("/a/b", "/a/b", "/c"), ["", "c"]);
        assert_eq!(parts("/", "", "/c"), ["", "c"]);
        assert_eq!(parts(".", "./a", "/c"), ["a", "/c"]);
    }
}
