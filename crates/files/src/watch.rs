//! Directories whose changes the kernel reports (inotify). Facts about them hold until a change is
//! reported: one system call for each request asks for reports, in place of one for each directory
//! and file.
//!
//! 1. [`Watched::below`] takes all reports and forgets the facts that they concern. A report is
//!    there before the call that made the change returns, so the remaining facts are the state of
//!    the disk.
//! 2. The path of the root is watched (`follow`), with the links on it; then each directory on a
//!    path that is looked up, from the root downwards (`known`). A directory is watched before
//!    anything in it is looked at.
//! 3. [`WatchedView::look_up`] and [`WatchedView::value`] answer from the stored facts.
//!
//! A path that cannot be watched is [`WatchedEntry::Unknown`], and the caller asks the disk each
//! time: paths with links below the root, directories that the server may enter but not read, file
//! systems that do not report all changes (`filesystems`), and everything if there are no more
//! watches. A few changes are not reported: those through a shared mapping of a file, and a file
//! system that is mounted over a directory. All facts are therefore compared with the disk after
//! [`REVALIDATION_INTERVAL`](crate::REVALIDATION_INTERVAL). The module opens no file for reading.

mod filesystems;
mod follow;
mod kernel;
mod known;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Instant;

use rustix::fs::inotify::WatchFlags;
use rustix::fs::{AtFlags, CWD, Stat};
use rustix::io::Errno;

use self::filesystems::FileSystems;
use self::follow::{ENTRIES, Way};
use self::kernel::{Change, Changes, Kernel, Role, User};
use self::known::{Directory, Known, is_fresh, is_plain};
use crate::inspect::{FileKind, Inspected};
use crate::resolve::is_settled;
use crate::share::{FileLocation, Share};
use crate::{Files, RequestTime};

/// The watched directories of a thread, with a value for each that is made from a file in it, and
/// an answer for a path that depends on values and entries on its way only.
#[derive(Debug)]
pub struct Watched<T, A> {
    kernel: RefCell<Kernel>,
    file_systems: RefCell<FileSystems>,
    roots: RefCell<Roots<T, A>>,
    /// Number of entries that have been stored since all were forgotten.
    stored: Cell<usize>,
}

/// The directories below a root, as one request sees them.
#[derive(Debug)]
pub struct WatchedView<'a, T, A> {
    watched: &'a Watched<T, A>,
    root: Rc<Root<T, A>>,
    /// Number of changes below the root until now.
    changes: u64,
    now: RequestTime,
}

/// Result of a look-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchedEntry {
    /// The answer needs a look at the disk.
    Unknown,
    /// There is no file.
    Missing,
    /// There is this. A link has not been followed.
    Entry(Inspected),
}

#[derive(Debug)]
struct Roots<T, A> {
    all: Vec<Rc<Root<T, A>>>,
    /// Indexes by path.
    by_path: HashMap<Box<[u8]>, Vec<usize>>,
}

/// A root of a share.
#[derive(Debug)]
struct Root<T, A> {
    index: usize,
    share: u64,
    path: Box<[u8]>,
    /// Name of the file that values are made from.
    file: Box<[u8]>,
    state: RefCell<State<T, A>>,
}

#[derive(Debug)]
struct State<T, A> {
    /// The directory at the path of the root; `None` while the root cannot be watched.
    found: Option<Inspected>,
    /// Time at which it was last looked at.
    checked: Option<Instant>,
    /// Watches on the way to the root.
    way: Vec<(i32, User)>,
    known: Known<T, A>,
    /// Number of changes below the root.
    changes: u64,
}

impl<T, A> Default for Watched<T, A> {
    fn default() -> Self {
        Watched {
            kernel: RefCell::default(),
            file_systems: RefCell::default(),
            roots: RefCell::new(Roots { all: Vec::new(), by_path: HashMap::new() }),
            stored: Cell::default(),
        }
    }
}

impl<T, A> Default for State<T, A> {
    fn default() -> Self {
        State { found: None, checked: None, way: Vec::new(), known: Known::default(), changes: 0 }
    }
}

impl<T: Clone, A: Clone> Watched<T, A> {
    /// Takes the changes that have been reported, and returns the facts below a root after them;
    /// `None` if the root cannot be watched. `file` is the name of the files that values are made
    /// from.
    pub fn below(
        &self,
        files: &Files,
        share: &Share,
        root: &[u8],
        file: &[u8],
        now: RequestTime,
    ) -> Option<WatchedView<'_, T, A>> {
        self.take_changes();
        if !root.starts_with(b"/") || !share.options().traverse_mounts {
            return None;
        }
        let root = match self.known_root(share, root, file) {
            Some(root) => root,
            // Clients may choose names of roots.
            None => {
                look(files, share, root)?;
                self.add_root(share, root, file)
            }
        };
        let checked = root.state.borrow().checked;
        if !checked.is_some_and(|at| is_fresh(at, now.monotonic)) {
            self.check(&root, files, share, now.monotonic);
        }
        let state = root.state.borrow();
        let (is_watched, changes) = (state.found.is_some(), state.changes);
        drop(state);
        is_watched.then_some(WatchedView { watched: self, root, changes, now })
    }

    fn known_root(&self, share: &Share, path: &[u8], file: &[u8]) -> Option<Rc<Root<T, A>>> {
        let roots = self.roots.borrow();
        let mut known = roots.by_path.get(path)?.iter().filter_map(|index| roots.all.get(*index));
        known.find(|root| root.share == share.id() && *root.file == *file).map(Rc::clone)
    }

    fn add_root(&self, share: &Share, path: &[u8], file: &[u8]) -> Rc<Root<T, A>> {
        let mut roots = self.roots.borrow_mut();
        let index = roots.all.len();
        let root = Rc::new(Root {
            index,
            share: share.id(),
            path: path.into(),
            file: file.into(),
            state: RefCell::default(),
        });
        roots.all.push(Rc::clone(&root));
        roots.by_path.entry(path.into()).or_default().push(index);
        root
    }

    /// Forgets the facts that reported changes concern.
    fn take_changes(&self) {
        let mut kernel = self.kernel.borrow_mut();
        let changes = kernel.changes();
        let has_room = self.roots.borrow().all.len() < MAX_ROOTS;
        match changes {
            Changes::None if has_room => {}
            Changes::Some(changes) if has_room => {
                for change in changes {
                    self.apply(change, &mut kernel);
                }
            }
            _ => self.forget_all(&mut kernel),
        }
        if kernel.is_full() {
            self.forget_largest(&mut kernel);
        }
    }

    /// Forgets the root with the most directories, so that it takes no watches of others. If it had
    /// few, the room is used up by many roots, and all are forgotten: a search for the largest at
    /// each request would cost time.
    fn forget_largest(&self, kernel: &mut Kernel) {
        let size = |root: &&Rc<Root<T, A>>| root.state.borrow().directories_bytes();
        let largest = self.roots.borrow().all.iter().max_by_key(size).map(Rc::clone);
        if let Some(root) = largest {
            let mut state = root.state.borrow_mut();
            state.changes += 1;
            state.forget(&root, kernel);
        }
        if !kernel.has_room() {
            self.forget_all(kernel);
        }
    }

    fn apply(&self, Change { user, name }: Change, kernel: &mut Kernel) {
        let Some(root) = self.roots.borrow().all.get(user.root).map(Rc::clone) else { return };
        let mut state = root.state.borrow_mut();
        state.changes += 1;
        match (&user.role, name) {
            (Role::Above(None), Some(_)) => {}
            (Role::Above(Some(known)), Some(name)) if *known != name => {}
            (Role::Above(_), _) => state.forget(&root, kernel),
            (Role::Directory(directory), None) => state.drop_below(&root, directory, kernel),
            (Role::Directory(directory), Some(name)) => {
                if name == root.file {
                    state.drop_value(&root, directory, kernel);
                }
                let mut path = [directory, &*name, b"/"].concat();
                if state.known.directories.contains_key(path.as_slice()) {
                    state.drop_below(&root, &path, kernel);
                }
                path.pop();
                state.known.forget_entry(&path);
            }
            (Role::File(directory), _) => {
                state.drop_value(&root, directory, kernel);
                state.known.forget_entry(&[directory, &*root.file].concat());
            }
        }
    }

    /// Returns the approximate memory of entries and answers, in bytes.
    fn bytes(&self) -> usize {
        self.roots.borrow().all.iter().map(|root| root.state.borrow().known.bytes()).sum()
    }

    /// Forgets everything, also for requests in progress.
    fn forget_all(&self, kernel: &mut Kernel) {
        let mut roots = self.roots.borrow_mut();
        for root in roots.all.drain(..) {
            let mut state = root.state.borrow_mut();
            *state = State { changes: state.changes + 1, ..State::default() };
        }
        roots.by_path.clear();
        kernel.clear();
    }

    /// Compares a root with the directory at its path, and watches that directory if it is another
    /// one.
    fn check(&self, root: &Rc<Root<T, A>>, files: &Files, share: &Share, now: Instant) {
        let mut state = root.state.borrow_mut();
        let id = |found: Inspected| (found.device, found.inode);
        state.checked = Some(now);
        if let Some(known) = state.found {
            let found = look(files, share, &root.path);
            if found.map(id) == Some(id(known)) {
                state.found = found;
                return;
            }
        }
        let mut kernel = self.kernel.borrow_mut();
        state.forget(root, &mut kernel);
        state.checked = Some(now);
        let mut way = Way {
            kernel: &mut kernel,
            file_systems: &mut self.file_systems.borrow_mut(),
            root: root.index,
            watches: Vec::new(),
        };
        let followed = way.follow(&root.path);
        state.way = way.watches;
        let watched = followed.and_then(|resolved| {
            let found = look(files, share, &root.path).ok_or(Errno::NOENT)?;
            let resolved = if resolved.is_empty() { b"/".to_vec() } else { resolved };
            let same = lstat(&resolved).map(|stat| (stat.st_dev, stat.st_ino));
            if same != Ok(id(found)) {
                return Err(Errno::AGAIN);
            }
            let user = User { root: root.index, role: Role::Directory(Box::from(&b"/"[..])) };
            let watch = kernel.add(&resolved, ENTRIES | WatchFlags::ONLYDIR, user)?;
            Ok((watch, found))
        });
        let Ok((watch, found)) = watched else { return state.release_way(&mut kernel) };
        state.found = Some(found);
        let directory = Directory {
            watch: Some(watch),
            file_watch: None,
            id: id(found),
            checked: now,
            value: None,
        };
        state.known.directories.insert(b"/"[..].into(), directory);
    }
}

impl<T, A: Clone> State<T, A> {
    /// Returns the approximate memory of the directories below the root, in bytes.
    fn directories_bytes(&self) -> usize {
        let paths = self.known.directories.iter();
        paths.map(|(path, known)| Role::bytes(path.len(), known.file_watch.is_some())).sum()
    }

    /// Forgets everything.
    fn forget(&mut self, root: &Root<T, A>, kernel: &mut Kernel) {
        self.drop_below(root, b"/", kernel);
        self.release_way(kernel);
        self.found = None;
        self.checked = None;
    }

    fn release_way(&mut self, kernel: &mut Kernel) {
        for (watch, user) in self.way.drain(..) {
            kernel.remove(watch, &user);
        }
    }

    /// Forgets a directory and everything below it. Without its root, no fact is known.
    fn drop_below(&mut self, root: &Root<T, A>, directory: &[u8], kernel: &mut Kernel) {
        for (path, known) in self.known.take(directory) {
            let user = |role| User { root: root.index, role };
            if let Some(watch) = known.file_watch {
                kernel.remove(watch, &user(Role::File(path.clone())));
            }
            match known.watch {
                Some(watch) => kernel.remove(watch, &user(Role::Directory(path))),
                None => kernel.remove_unwatched(&user(Role::Directory(path))),
            }
        }
        if directory == b"/" {
            self.found = None;
            self.checked = None;
        }
    }

    /// Forgets the value of a directory. Its file may have become another one.
    fn drop_value(&mut self, root: &Root<T, A>, directory: &[u8], kernel: &mut Kernel) {
        self.known.forget_answers();
        let Some(known) = self.known.directories.get_mut(directory) else { return };
        known.value = None;
        if let Some(watch) = known.file_watch.take() {
            let role = Role::File(directory.into());
            kernel.remove(watch, &User { root: root.index, role });
        }
    }
}

impl<T: Clone, A: Clone> WatchedView<'_, T, A> {
    /// Looks up a path below the root. It begins with a slash; with one at its end it names a
    /// directory.
    pub fn look_up(&self, path: &[u8]) -> WatchedEntry {
        let name = path.strip_suffix(b"/").unwrap_or(path);
        if name.is_empty() {
            return self
                .root
                .state
                .borrow()
                .found
                .map_or(WatchedEntry::Unknown, WatchedEntry::Entry);
        }
        match self.entry(name) {
            WatchedEntry::Entry(found)
                if name.len() < path.len()
                    && !found.is_link
                    && found.kind != FileKind::Directory =>
            {
                WatchedEntry::Missing
            }
            found => found,
        }
    }

    /// Returns the value of a directory, if it has one that holds. The path has a slash at its end.
    pub fn value(&self, directory: &[u8]) -> Option<T> {
        let state = self.root.state.borrow();
        let known = state.known.directories.get(directory)?;
        is_fresh(known.checked, self.now.monotonic).then(|| known.value.clone())?
    }

    /// Watches the file of a directory. Returns true if all changes of it will be noticed: a value
    /// that is made from it after this can be stored with [`WatchedView::store`].
    pub fn watch_file(&self, directory: &[u8]) -> bool {
        if self.directory(directory) != Watching::Yes {
            return false;
        }
        let file = [directory, &*self.root.file].concat();
        match self.entry(&file) {
            WatchedEntry::Missing => return true,
            WatchedEntry::Entry(found) if found.kind == FileKind::File && !found.is_link => {}
            WatchedEntry::Entry(_) | WatchedEntry::Unknown => return false,
        }
        let mut state = self.root.state.borrow_mut();
        let Some(known) = state.known.directories.get_mut(directory) else { return false };
        if known.file_watch.is_none() {
            let events = WatchFlags::MODIFY
                | WatchFlags::CLOSE_WRITE
                | WatchFlags::ATTRIB
                | WatchFlags::DELETE_SELF
                | WatchFlags::MOVE_SELF;
            let user = User { root: self.root.index, role: Role::File(directory.into()) };
            let path = [&*self.root.path, &file].concat();
            known.file_watch = self.watched.kernel.borrow_mut().add(&path, events, user).ok();
        }
        known.file_watch.is_some()
    }

    /// Stores the value of a directory whose file is watched and has not been written to for a
    /// while.
    pub fn store(&self, directory: &[u8], value: T) {
        if let Some(known) = self.root.state.borrow_mut().known.directories.get_mut(directory) {
            known.value = Some(value);
        }
    }

    /// Returns the answer for a path, if it has one that holds.
    pub fn answer(&self, path: &[u8]) -> Option<A> {
        self.root.state.borrow().known.answer(path, self.now.monotonic)
    }

    /// Stores an answer for a path unless anything below the root has changed since the request
    /// began, or it is large. `bytes` is its memory.
    pub fn store_answer(&self, path: &[u8], answer: A, bytes: usize) {
        if bytes > MAX_ANSWER_BYTES {
            return;
        }
        self.make_room(path.len() + bytes);
        let mut state = self.root.state.borrow_mut();
        if state.changes == self.changes && state.found.is_some() {
            state.known.put_answer(path, answer, bytes, self.now.monotonic);
        }
    }

    fn entry(&self, path: &[u8]) -> WatchedEntry {
        if let Some(found) = self.root.state.borrow().known.entry(path, self.now.monotonic) {
            return found.map_or(WatchedEntry::Missing, WatchedEntry::Entry);
        }
        if !is_plain(path) {
            return WatchedEntry::Unknown;
        }
        let slash = memchr::memrchr(b'/', path).unwrap_or(0);
        let (directory, _) = path.split_at(slash + 1);
        match self.directory(directory) {
            Watching::Yes => {}
            Watching::No => return WatchedEntry::Unknown,
            Watching::Missing => return WatchedEntry::Missing,
        }
        let (found, is_settled) = match lstat(&[&*self.root.path, path].concat()) {
            Ok(stat) => (Some(Inspected::of(&stat)), is_settled(stat.st_ctime, self.now.wall)),
            Err(Errno::NOENT | Errno::NOTDIR) => (None, true),
            Err(_) => return WatchedEntry::Unknown,
        };
        // The size of a file that is being written changes without a report.
        if is_settled || found.is_some_and(|found| found.kind == FileKind::Directory) {
            self.store_entry(path, found);
        }
        found.map_or(WatchedEntry::Missing, WatchedEntry::Entry)
    }

    fn store_entry(&self, path: &[u8], found: Option<Inspected>) {
        self.make_room(path.len());
        self.root.state.borrow_mut().known.put_entry(path, found, self.now.monotonic);
    }

    /// Forgets entries and answers if there are too many for another one of this size: those of the
    /// root, which has a part of the memory, or those of all roots.
    fn make_room(&self, bytes: usize) {
        if self.root.state.borrow().known.bytes() + bytes > MAX_ROOT_BYTES {
            self.root.state.borrow_mut().known.forget_entries();
        }
        let stored = &self.watched.stored;
        stored.set(stored.get() + 1);
        // The sum is taken now and then only: a root cannot have grown by more than these
        // meanwhile.
        let is_due = stored.get().is_multiple_of(SUM_INTERVAL) || bytes > MAX_ANSWER_BYTES / 4;
        if stored.get() > MAX_ENTRIES || (is_due && self.watched.bytes() > MAX_BYTES) {
            stored.set(1);
            for root in &self.watched.roots.borrow().all {
                root.state.borrow_mut().known.forget_entries();
            }
        }
    }

    /// Watches a directory, and those above it, unless they are watched.
    fn directory(&self, path: &[u8]) -> Watching {
        let mut known = None;
        if let Some(directory) = self.root.state.borrow().known.directories.get(path) {
            if is_fresh(directory.checked, self.now.monotonic) {
                return if directory.watch.is_some() { Watching::Yes } else { Watching::No };
            }
            known = Some(directory.id).filter(|_| directory.watch.is_some());
        }
        let Some(name) = path.strip_suffix(b"/").filter(|name| !name.is_empty()) else {
            return self.check_root();
        };
        let found = match self.entry(name) {
            WatchedEntry::Entry(found) if !found.is_link => found,
            WatchedEntry::Missing => return Watching::Missing,
            WatchedEntry::Entry(_) | WatchedEntry::Unknown => return Watching::No,
        };
        if found.kind != FileKind::Directory {
            return Watching::Missing;
        }
        let id = (found.device, found.inode);
        let mut state = self.root.state.borrow_mut();
        let mut kernel = self.watched.kernel.borrow_mut();
        if known == Some(id)
            && let Some(directory) = state.known.directories.get_mut(path)
        {
            directory.checked = self.now.monotonic;
            directory.value = None;
            return Watching::Yes;
        }
        if state.known.directories.contains_key(path) {
            state.drop_below(&self.root, path, &mut kernel);
        }
        let full = [&*self.root.path, path].concat();
        let reports = self.watched.file_systems.borrow_mut().report_changes(found.device, &full);
        let user = User { root: self.root.index, role: Role::Directory(path.into()) };
        let watch = if reports {
            kernel.add(&full, ENTRIES | WatchFlags::ONLYDIR, user.clone()).ok()
        } else {
            None
        };
        if watch.is_none() {
            kernel.add_unwatched(&user);
        }
        let checked = self.now.monotonic;
        let directory = Directory { watch, file_watch: None, id, checked, value: None };
        state.known.directories.insert(path.into(), directory);
        if watch.is_some() { Watching::Yes } else { Watching::No }
    }

    /// The root has been looked at when the request began.
    fn check_root(&self) -> Watching {
        let mut state = self.root.state.borrow_mut();
        let now = self.now.monotonic;
        match state.known.directories.get_mut(b"/".as_slice()) {
            Some(directory) => {
                directory.checked = now;
                directory.value = None;
                Watching::Yes
            }
            None => Watching::No,
        }
    }
}

/// State of the watch of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watching {
    Yes,
    No,
    /// The directory does not exist.
    Missing,
}

/// Most roots of a thread, with those of former configurations.
const MAX_ROOTS: usize = 1024;

/// Most entries and answers that a thread stores before it forgets all. A client chooses names that
/// are not there.
const MAX_ENTRIES: usize = 16_384;

/// Approximate memory of all entries and answers of a thread, in bytes; beyond it, all are
/// forgotten.
const MAX_BYTES: usize = 4 << 20;

/// The same for a root, whose own ones are forgotten then.
const MAX_ROOT_BYTES: usize = 2 << 20;

/// Maximum memory of an answer that is stored, in bytes.
const MAX_ANSWER_BYTES: usize = 32 << 10;

/// Number of entries after which the memory of all is added up.
const SUM_INTERVAL: usize = 16;

/// Looks at a root; `None` if it is no directory, or its links are not followed.
fn look(files: &Files, share: &Share, root: &[u8]) -> Option<Inspected> {
    let place = FileLocation { root, path: b"/", url_offset: 0, chroot: b"" };
    files.inspect_at(share, place, None).ok().filter(|found| found.kind == FileKind::Directory)
}

fn lstat(path: &[u8]) -> Result<Stat, Errno> {
    rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
}

#[cfg(test)]
mod tests;
