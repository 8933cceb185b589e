//! Symbolic links of sites: resolves a path name by name and checks each link.
//!
//! The kernel follows links within one call and returns neither their owners nor their targets. A
//! path with links is therefore walked here: each name is opened relative to its directory, never
//! through a link, and the checks apply to the opened file. Renames during the walk have no effect
//! on the result.
//!
//! The rule, unless all links are followed:
//!
//! 1. A link to a target inside the document root is followed, independent of its owner.
//! 2. A link of root that leads out of the document root is followed: only the administrator can
//!    have created it.
//! 3. Another link that leads out of the document root is followed to files of the owner of the
//!    link, and to files in a directory of that owner that all users may read. The owner could
//!    publish those in other ways; any other file may be readable to the server only. A link to
//!    procfs is refused.
//! 4. Each link of a chain is checked against the end of the chain. Links in the path of the
//!    document root itself are checked like those that lead out of it.
//!
//! The directories in the text of a link may belong to any user. The result has the names on the
//! resolved path that come from links, as some names are never sent.
//!
//! The module opens no file for reading: all descriptors are `O_PATH`.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags};
use rustix::io::Errno;

/// A path to walk, and the rule for its links.
pub struct Route<'a> {
    /// Every link is followed, whatever its owner.
    pub follows_all: bool,
    /// Directory that acts as `/` and cannot be left; `None` for the root directory (absolute path)
    /// or the working directory (relative path).
    pub chroot: Option<&'a File>,
    /// The path is absolute.
    pub is_absolute: bool,
    /// Path of the document root; may be empty.
    pub root: &'a [u8],
    /// Path below the document root.
    pub path: &'a [u8],
}

/// Result of a walk. Its files are opened with `O_PATH`; while they are, no other file can get the
/// inode number of the last one.
pub struct Resolved(Walk);

/// Reason why a walk fails.
pub enum WalkError {
    /// A call fails.
    System(Errno),
    /// The system denies access behind a link out of the root; that is not told to clients.
    Denied,
    /// There is no such file behind a link out of the root; that is not told to clients.
    Absent,
    /// A link is not followed.
    Link(RefusedLink),
    /// There are too many links.
    Loop,
}

/// A symbolic link that is not followed: it leads out of the document root to a file that its owner
/// may not publish.
#[derive(Debug)]
pub struct RefusedLink {
    path: PathBuf,
    owner: u32,
    target_owner: u32,
}

impl Resolved {
    /// Returns true if the walk ended at the file with this device and inode number.
    pub fn is_file(&self, device: u64, inode: u64) -> bool {
        self.0.current().id == Id { device, inode }
    }

    /// Returns true if the file is a regular one.
    pub fn is_regular(&self) -> bool {
        self.0.current().mode & S_IFMT == S_IFREG
    }

    /// Returns the last name of the resolved path.
    pub fn name(&self) -> &[u8] {
        &self.0.current().name
    }

    /// Returns the names on the resolved path below the document root that come from links. If the
    /// path leaves the root, they are below the last directory that both paths have in common.
    pub fn names_of_links(&self) -> impl Iterator<Item = &[u8]> {
        let known = self.0.ids().enumerate().filter(|(_, id)| self.0.root.contains(id));
        let first = known.last().map_or(0, |(index, _)| index);
        let new = self.0.nodes.iter().skip(first).filter(|node| node.is_from_link);
        new.map(|node| &*node.name)
    }

    /// Returns the `O_PATH` descriptor of the file.
    pub fn into_file(self) -> File {
        let Walk { start, mut nodes, .. } = self.0;
        nodes.pop().unwrap_or(start).file
    }
}

impl RefusedLink {
    /// Returns the message for an administrator who can change the configuration.
    pub fn with_advice(&self) -> String {
        format!(
            "{self}; remove it, or if it is meant, give both the same owner, or make the link \
             root's (chown -h root), or set \"follow_symlinks\": true in the share"
        )
    }

    /// Returns the message for a link in the path of an upstream's socket.
    pub fn socket_error(&self) -> String {
        let RefusedLink { path, owner, target_owner } = self;
        format!(
            "the symbolic link {} of user {owner} leads to a target of user {target_owner}, and is \
             not followed; give both the same owner, or make the link root's (chown -h root)",
            path.display()
        )
    }
}

impl fmt::Display for RefusedLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RefusedLink { path, owner, target_owner } = self;
        write!(
            f,
            "the symbolic link {} of user {owner} leads out of the share to a target of user \
             {target_owner}, and is not followed",
            path.display()
        )
    }
}

impl From<Errno> for WalkError {
    fn from(error: Errno) -> Self {
        WalkError::System(error)
    }
}

/// Returns true for errors of names that lead to no file; also names that a file system cannot
/// store.
pub fn is_absent(error: Errno) -> bool {
    matches!(
        error,
        Errno::NOENT
            | Errno::NOTDIR
            | Errno::NAMETOOLONG
            | Errno::NXIO
            | Errno::NODEV
            | Errno::INVAL
            | Errno::ILSEQ
    )
}

/// Returns true for errors of missing permissions.
pub fn is_denied(error: Errno) -> bool {
    matches!(error, Errno::ACCESS | Errno::PERM)
}

/// Opens a name under the kernel's path resolution restrictions.
pub fn open_resolved(
    directory: BorrowedFd<'_>,
    name: &[u8],
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<File, Errno> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        match rustix::fs::openat2(directory, name, flags, Mode::empty(), resolve) {
            Ok(file) => return Ok(File::from(file)),
            Err(Errno::AGAIN | Errno::INTR) if attempt < MAX_OPEN_ATTEMPTS => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns the first link in the path of a document root, or of a file in one, that is not followed
/// by default; `None` for any other problem with the path.
pub fn refused_link(file: &Path, is_directory: bool) -> Option<RefusedLink> {
    let file = file.as_os_str().as_bytes();
    let directory = file.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    let root_len = if is_directory { file.len() } else { directory };
    let (root, path) = file.split_at(root_len);
    let is_absolute = file.starts_with(b"/");
    match walk(&Route { follows_all: false, chroot: None, is_absolute, root, path }) {
        Err(WalkError::Link(link)) => Some(link),
        _ => None,
    }
}

/// Walks a route to its end.
pub fn walk(route: &Route<'_>) -> Result<Resolved, WalkError> {
    let start = match route.chroot {
        Some(chroot) => chroot.try_clone().map_err(|error| {
            WalkError::System(Errno::from_io_error(&error).unwrap_or(Errno::IO))
        })?,
        None => open(CWD, if route.is_absolute { b"/" } else { b"." }, OFlags::DIRECTORY)?,
    };
    let mut walk = Walk {
        follows_all: route.follows_all,
        start: Node::new(start, Vec::new())?,
        is_top: route.chroot.is_some() || route.is_absolute,
        nodes: Vec::new(),
        steps: Vec::new(),
        root: Vec::new(),
        limit: None,
        links: 0,
        names: 0,
        unfinished_links: 0,
    };
    walk.push_steps(route.path);
    walk.steps.push(Step::Root);
    walk.push_steps(route.root);
    walk.finish()
}

/// Maximum number of `openat2` calls for a lookup. The kernel returns EAGAIN if names change during
/// a restricted lookup.
const MAX_OPEN_ATTEMPTS: usize = 64;

/// Maximum number of symbolic links in a path (Linux: 40).
const MAX_LINKS: usize = 40;

/// Maximum depth of a resolved path. The walk holds one descriptor for each directory on it.
const MAX_DEPTH: usize = 256;

/// Maximum number of names in a path, including those in the texts of its links. Without this
/// limit, 40 texts of 4 KiB would make a thread resolve 80,000 names.
const MAX_NAMES: usize = 1000;

/// User id that the kernel reports for owners that a user namespace or a file system cannot map.
/// Two owners with this id may be different users.
const OVERFLOW_UID: u32 = 65_534;

struct Walk {
    follows_all: bool,
    start: Node,
    /// Absolute links lead to the start and `..` does not leave it.
    is_top: bool,
    /// Files that were opened between the start and the current position.
    nodes: Vec<Node>,
    /// Remaining steps, the next one last.
    steps: Vec<Step>,
    /// All directories from the start to the document root; empty until the root is reached.
    root: Vec<Id>,
    limit: Option<OwnerLimit>,
    /// Number of links followed.
    links: usize,
    /// Number of names resolved.
    names: usize,
    /// Number of links whose texts are being walked.
    unfinished_links: usize,
}

/// A directory or file that was opened under its name.
struct Node {
    file: File,
    name: Vec<u8>,
    /// The name is from the text of a link.
    is_from_link: bool,
    id: Id,
    owner: u32,
    mode: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Id {
    device: u64,
    inode: u64,
}

enum Step {
    Name(Vec<u8>),
    Up,
    /// The names of the document root end here.
    Root,
    /// The text of a link ends here.
    EndOfLink(Link),
}

struct Link {
    path: PathBuf,
    owner: u32,
}

/// Limit after a link out of the document root: only files of the owner of the link and files that
/// are open to all users are reachable.
struct OwnerLimit {
    link: Link,
    /// Number of nodes up to the target of the link. Nodes beyond it are below the target.
    depth: usize,
}

impl Walk {
    /// Takes all steps.
    fn finish(mut self) -> Result<Resolved, WalkError> {
        while let Some(step) = self.steps.pop() {
            self.names += usize::from(matches!(step, Step::Name(_) | Step::Up));
            if self.names > MAX_NAMES {
                return Err(WalkError::Loop);
            }
            match step {
                Step::Name(name) => self.enter(name)?,
                Step::Up => self.go_up()?,
                Step::Root => {
                    self.root = self.ids().collect();
                    self.limit = None;
                }
                Step::EndOfLink(link) => self.judge(link)?,
            }
        }
        Ok(Resolved(self))
    }

    /// Returns the current position.
    fn current(&self) -> &Node {
        self.nodes.last().unwrap_or(&self.start)
    }

    fn ids(&self) -> impl Iterator<Item = Id> {
        [&self.start].into_iter().chain(&self.nodes).map(|node| node.id)
    }

    fn is_inside(&self) -> bool {
        let root = self.root.last().copied();
        root.is_some_and(|root| self.ids().any(|id| id == root))
    }

    /// Adds the names of a path in front of the remaining steps.
    fn push_steps(&mut self, path: &[u8]) {
        let names = path.split(|byte| *byte == b'/').rev();
        self.steps.extend(names.filter(|name| !matches!(*name, b"" | b".")).map(
            |name| match name {
                b".." => Step::Up,
                name => Step::Name(name.to_vec()),
            },
        ));
    }

    fn enter(&mut self, name: Vec<u8>) -> Result<(), WalkError> {
        let node = self.open_node(name).map_err(|error| self.conceal(error))?;
        if node.mode & S_IFMT == S_IFLNK {
            return self.follow(node);
        }
        if self.nodes.len() >= MAX_DEPTH {
            return Err(Errno::LOOP.into());
        }
        self.nodes.push(node);
        let is_below = |limit: &OwnerLimit| self.nodes.len() > limit.depth;
        if self.unfinished_links == 0 || self.limit.as_ref().is_some_and(is_below) {
            self.check_limit()?;
        }
        Ok(())
    }

    fn open_node(&self, name: Vec<u8>) -> Result<Node, Errno> {
        let directory = &self.current().file;
        let is_on_the_way = self.steps.iter().any(|step| matches!(step, Step::Name(_) | Step::Up));
        // Autofs mounts a file system only if its path is opened as a directory.
        let file = if is_on_the_way {
            match open(directory, &name, OFlags::DIRECTORY) {
                Err(Errno::NOTDIR | Errno::LOOP) => open(directory, &name, OFlags::empty()),
                file => file,
            }
        } else {
            open(directory, &name, OFlags::empty())
        };
        let is_from_link = self.unfinished_links > 0;
        Ok(Node { is_from_link, ..Node::new(file?, name)? })
    }

    /// Returns to the parent directory on the walked path.
    fn go_up(&mut self) -> Result<(), WalkError> {
        if self.current().mode & S_IFMT != S_IFDIR {
            return Err(self.conceal(Errno::NOTDIR));
        }
        if let Some(limit) = &mut self.limit
            && self.nodes.len() <= limit.depth
        {
            limit.depth = usize::MAX;
        }
        if self.nodes.pop().is_none() && !self.is_top {
            let above = open(&self.start.file, b"..", OFlags::DIRECTORY)?;
            self.start = Node::new(above, Vec::new())?;
        }
        if self.unfinished_links == 0 { self.check_limit() } else { Ok(()) }
    }

    fn follow(&mut self, link: Node) -> Result<(), WalkError> {
        let text = rustix::fs::readlinkat(&link.file, "", Vec::new())?.into_bytes();
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(WalkError::Loop);
        }
        if is_magic(&link, &text)? {
            return Err(Errno::LOOP.into());
        }
        let names = self.nodes.iter().map(|node| &node.name).chain([&link.name]);
        let mut path = PathBuf::from(if self.is_top { "/" } else { "" });
        path.extend(names.map(|name| OsStr::from_bytes(name)));
        self.steps.push(Step::EndOfLink(Link { path, owner: link.owner }));
        self.unfinished_links += 1;
        self.push_steps(&text);
        if text.starts_with(b"/") {
            self.go_to_top()?;
        }
        Ok(())
    }

    fn go_to_top(&mut self) -> Result<(), WalkError> {
        if !self.is_top {
            self.start = Node::new(open(CWD, b"/", OFlags::DIRECTORY)?, Vec::new())?;
            self.is_top = true;
        }
        self.nodes.clear();
        if let Some(limit) = &mut self.limit {
            limit.depth = usize::MAX;
        }
        Ok(())
    }

    /// Checks a link against its target, which is the current position.
    fn judge(&mut self, link: Link) -> Result<(), WalkError> {
        self.unfinished_links = self.unfinished_links.saturating_sub(1);
        if self.follows_all {
            return Ok(());
        }
        if self.is_inside() {
            self.limit = None;
            return Ok(());
        }
        let depth = self.nodes.len();
        if link.owner == 0 {
            if let Some(limit) = &mut self.limit {
                limit.depth = depth;
            }
            return self.check_limit();
        }
        let target = self.current();
        let is_others = self.limit.as_ref().is_some_and(|limit| limit.link.owner != link.owner);
        if link.owner == OVERFLOW_UID
            || is_others
            || !self.is_within_reach_of(link.owner)
            || is_on_procfs(target)?
        {
            return Err(link.refuse(target.owner));
        }
        self.limit = Some(OwnerLimit { link, depth });
        Ok(())
    }

    /// Returns true if the current position belongs to the user, or lies in a directory of the user
    /// and everything from there on is open to all users.
    fn is_within_reach_of(&self, owner: u32) -> bool {
        let mut nodes = self.nodes.iter().rev().chain([&self.start]);
        let decisive = nodes.find(|node| node.owner == owner || !node.is_open_to_all());
        decisive.is_some_and(|node| node.owner == owner)
    }

    /// Fails if there is a limit and the current position is beyond it.
    fn check_limit(&self) -> Result<(), WalkError> {
        let Some(OwnerLimit { link, .. }) = &self.limit else { return Ok(()) };
        let node = self.current();
        if node.owner == link.owner || node.is_open_to_all() {
            Ok(())
        } else {
            Err(link.refuse(node.owner))
        }
    }

    /// Replaces "not found" and "denied" behind a link out of the root by "forbidden", the result
    /// for existing files: the owner of the link must not learn which files other users have.
    fn conceal(&self, error: Errno) -> WalkError {
        let is_owned = |step: &Step| matches!(step, Step::EndOfLink(link) if link.owner != 0);
        let conceals = !self.follows_all && self.steps.iter().any(is_owned) && !self.is_inside();
        match error {
            error if conceals && is_denied(error) => WalkError::Denied,
            error if conceals && is_absent(error) => WalkError::Absent,
            error => WalkError::System(error),
        }
    }
}

impl Link {
    fn refuse(&self, target_owner: u32) -> WalkError {
        WalkError::Link(RefusedLink { path: self.path.clone(), owner: self.owner, target_owner })
    }
}

impl Node {
    fn new(file: File, name: Vec<u8>) -> Result<Node, Errno> {
        let metadata =
            file.metadata().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let id = Id { device: metadata.dev(), inode: metadata.ino() };
        let (owner, mode) = (metadata.uid(), metadata.mode());
        Ok(Node { file, name, is_from_link: false, id, owner, mode })
    }

    /// Returns true if all users may read the file, enter the directory or connect to the socket.
    /// The group must be permitted as well, since a mode can exclude a group that the user is in.
    fn is_open_to_all(&self) -> bool {
        let needed = match self.mode & S_IFMT {
            S_IFDIR => 0o011,
            S_IFSOCK => 0o022,
            _ => 0o044,
        };
        self.mode & needed == needed
    }
}

/// Returns true for links of procfs to files that a process has open: the kernel ignores their
/// text. Other links there, such as `/proc/self`, have relative texts without a colon.
fn is_magic(link: &Node, text: &[u8]) -> Result<bool, Errno> {
    Ok((text.starts_with(b"/") || text.contains(&b':')) && is_on_procfs(link)?)
}

fn is_on_procfs(node: &Node) -> Result<bool, Errno> {
    Ok(rustix::fs::fstatfs(&node.file)?.f_type == PROC_SUPER_MAGIC)
}

const S_IFMT: u32 = 0o170_000;
const S_IFDIR: u32 = 0o040_000;
const S_IFREG: u32 = 0o100_000;
const S_IFLNK: u32 = 0o120_000;
const S_IFSOCK: u32 = 0o140_000;

fn open(directory: impl std::os::fd::AsFd, name: &[u8], more: OFlags) -> Result<File, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC | more;
    rustix::fs::openat(directory, name, flags, Mode::empty()).map(File::from)
}
