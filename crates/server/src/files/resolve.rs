//! From a place to an open file, without leaving where the share allows it to go.
//!
//! The path holds no `..`, so by its text it cannot leave the root. What a symbolic link may do
//! depends on the share:
//!
//! - **By default** links are followed wherever they lead, as nginx and Apache (FollowSymLinks)
//!   do: release directories and shared uploads rely on it. Whoever can make links in the root
//!   can show every file that the router may read. Links of procfs that lead to open descriptors
//!   (`/proc/self/fd/…`) are refused all the same, because they name the router's own.
//! - **`follow_symlinks` off**: no link anywhere in `root` and `path`. As in Unit this includes
//!   the root's own directories, whose owner could otherwise point it elsewhere.
//! - **`traverse_mounts` off**: no mount is crossed, counted from `/`.
//! - **chroot**: the lookup happens within that directory and cannot leave it; links are resolved
//!   as if it were `/`, and the two restrictions count from it.
//!
//! The kernel enforces the last three within one `openat2` call, so there is no moment between
//! check and use. Without `openat2` (before Linux 5.6, or filtered) they are refused rather than
//! imitated.
//!
//! Files are opened without blocking and without becoming a controlling terminal, and only
//! regular files are read from: a FIFO or a device cannot hold the router up.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::outcome::Reason;
use super::share::{Place, Share};

/// Opens files under the rules of their shares.
#[derive(Debug, Clone, Copy)]
pub struct Opener {
    openat2: bool,
}

/// What an opened file is to be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// To read from it.
    Read,
    /// To learn what it is; needs no right to read it. Scripts often give that right only to
    /// their application's user.
    Inspect,
}

/// An open file and what it is.
#[derive(Debug)]
pub(super) struct Opened {
    pub file: File,
    pub kind: Kind,
    pub meta: Meta,
}

/// Kinds of files that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Regular,
    Directory,
    Other,
}

/// What tells one state of a file from another.
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
    /// Asks the kernel once whether it can restrict a lookup.
    pub fn new() -> Self {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let probe =
            rustix::fs::openat2(CWD, "/", flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS);
        // Container runtimes that filter a call they do not know say EPERM.
        Opener { openat2: !matches!(probe, Err(Errno::NOSYS | Errno::PERM)) }
    }

    /// Whether shares can restrict links and mounts or have a chroot on this kernel.
    pub fn can_restrict(&self) -> bool {
        self.openat2
    }

    /// Opens the place with `suffix` appended to its path, and looks at what it is.
    pub(super) fn open(
        &self,
        share: &Share,
        place: &Place<'_>,
        suffix: &[&[u8]],
        access: Access,
    ) -> Result<Opened, Reason> {
        let mut name = Vec::with_capacity(place.root.len() + place.path.len() + 32);
        name.extend_from_slice(place.root);
        name.extend_from_slice(place.path);
        suffix.iter().for_each(|part| name.extend_from_slice(part));
        let flags = match access {
            Access::Read => OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY,
            Access::Inspect => OFlags::PATH,
        } | OFlags::CLOEXEC;
        let file = self.open_name(share, place, &name, flags)?;
        let metadata = file.metadata().map_err(|error| reason_of(&error))?;
        let kind = match metadata.file_type() {
            kind if kind.is_file() => Kind::Regular,
            kind if kind.is_dir() => Kind::Directory,
            _ => Kind::Other,
        };
        Ok(Opened { file, kind, meta: Meta::of(&metadata) })
    }

    fn open_name(
        &self,
        share: &Share,
        place: &Place<'_>,
        name: &[u8],
        flags: OFlags,
    ) -> Result<File, Reason> {
        let restricted = share.is_restricted() || !place.chroot.is_empty();
        if !self.openat2 {
            return match restricted {
                true => Err(Reason::Failed(Errno::NOSYS)),
                false => rustix::fs::openat(CWD, name, flags, Mode::empty())
                    .map(File::from)
                    .map_err(Reason::from),
            };
        }
        let mut resolve = ResolveFlags::NO_MAGICLINKS;
        resolve.set(ResolveFlags::NO_SYMLINKS, !share.options().follow_symlinks);
        resolve.set(ResolveFlags::NO_XDEV, !share.options().traverse_mounts);
        if place.chroot.is_empty() {
            return open_resolved(CWD, name, flags, resolve);
        }
        let within = within(place.chroot, name).ok_or(Reason::Forbidden)?;
        let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let chroot = rustix::fs::openat(CWD, place.chroot, directory, Mode::empty())?;
        open_resolved(chroot, &within, flags, resolve | ResolveFlags::IN_ROOT)
    }
}

impl Default for Opener {
    fn default() -> Self {
        Self::new()
    }
}

impl Meta {
    /// The state of an open file.
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

    /// Whether a change that follows this state would show in it. Time stamps have the grain of
    /// the kernel's tick (of a second on some file systems), so a state that is younger than
    /// that may hide a write. The change time counts, since no program can set it.
    pub fn is_settled(&self, wall: SystemTime) -> bool {
        wall_seconds(wall).saturating_sub(self.changed).unsigned_abs() > SETTLED_SECONDS
    }
}

/// Seconds since 1970 of a clock that should be past it.
pub(super) fn wall_seconds(wall: SystemTime) -> i64 {
    let age = wall.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(age.as_secs()).unwrap_or(i64::MAX)
}

/// The kernel gives up with EAGAIN when names change during a lookup that must not escape;
/// someone who renames in a loop gets this many attempts and then an error.
const ATTEMPTS: usize = 64;

/// A file that changed within this time may change again without it showing.
const SETTLED_SECONDS: u64 = 2;

fn open_resolved(
    directory: impl std::os::fd::AsFd,
    name: &[u8],
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<File, Reason> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        match rustix::fs::openat2(&directory, name, flags, Mode::empty(), resolve) {
            Ok(file) => return Ok(File::from(file)),
            Err(Errno::AGAIN | Errno::INTR) if attempt < ATTEMPTS => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// What remains of `name` within the directory `chroot`, compared segment by segment.
fn within(chroot: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    if chroot.starts_with(b"/") != name.starts_with(b"/") {
        return None;
    }
    let directory = name.ends_with(b"/");
    let mut rest = name.split(|byte| *byte == b'/').filter(|segment| !segment.is_empty());
    for segment in chroot.split(|byte| *byte == b'/').filter(|segment| !segment.is_empty()) {
        if rest.next() != Some(segment) {
            return None;
        }
    }
    let mut within = rest.collect::<Vec<_>>().join(&b'/');
    if within.is_empty() {
        return None;
    }
    if directory {
        within.push(b'/');
    }
    Some(within)
}

impl From<Errno> for Reason {
    /// As Unit sorts them; names that a file system cannot hold are not found either.
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::NXIO | Errno::NODEV => {
                Reason::NotFound
            }
            Errno::INVAL | Errno::ILSEQ => Reason::NotFound,
            Errno::ACCESS | Errno::PERM | Errno::LOOP | Errno::XDEV => Reason::Forbidden,
            other => Reason::Failed(other),
        }
    }
}

/// The reason for an error of the standard library's calls.
fn reason_of(error: &io::Error) -> Reason {
    Errno::from_io_error(error).unwrap_or(Errno::IO).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Options;

    #[test]
    fn without_openat2_only_unrestricted_lookups_are_made() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("f"), "x").unwrap();
        let opener = Opener { openat2: false };
        let open = |options: Options, chroot: &[u8]| {
            let share = Share::new(root.path(), options);
            let place = Place { chroot, ..share.place(b"/f") };
            opener.open(&share, &place, &[], Access::Read).map(|opened| opened.kind)
        };
        let refused = Err(Reason::Failed(Errno::NOSYS));
        assert_eq!(open(Options::default(), b""), Ok(Kind::Regular));
        assert_eq!(open(Options::default(), b"/"), refused);
        assert_eq!(open(Options { follow_symlinks: false, ..Options::default() }, b""), refused);
        assert_eq!(open(Options { traverse_mounts: false, ..Options::default() }, b""), refused);
    }

    #[test]
    fn a_chroot_is_matched_by_whole_segments() {
        let rest = |chroot: &str, name: &str| {
            within(chroot.as_bytes(), name.as_bytes()).map(|rest| String::from_utf8(rest).unwrap())
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
}
