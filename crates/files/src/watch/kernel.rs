//! The watches in the kernel, and the subscribers of each.

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

/// The purpose of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Role {
    /// A directory or link on the way to a root; with a name, a directory whose entry of this name
    /// is on the way and cannot be watched itself.
    Above(Option<Box<[u8]>>),
    /// A directory of a root: its path below the root, with a slash at its end.
    Directory(Box<[u8]>),
    /// The file of a directory.
    File(Box<[u8]>),
}

/// A subscriber of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct User {
    /// Index of the root.
    pub root: usize,
    pub role: Role,
}

/// A change, for one user of a watch.
pub(super) struct Change {
    pub user: User,
    /// Name of the entry that has changed; `None` for the watched directory or file itself.
    pub name: Option<Box<[u8]>>,
}

/// Changes since the last look.
pub(super) enum Changes {
    None,
    Some(Vec<Change>),
    /// Too many: anything may have changed.
    Unknown,
}

/// An inotify instance, opened when it is needed first.
#[derive(Debug, Default)]
pub(super) struct Kernel {
    descriptor: Option<OwnedFd>,
    users: HashMap<i32, Vec<User>>,
    count: usize,
    /// Approximate memory of all users, in bytes.
    bytes: usize,
}

impl Role {
    /// Returns the approximate memory in bytes of a directory with a path of this length, and of
    /// its file.
    pub fn bytes(path: usize, has_file: bool) -> usize {
        // The path is the key of the directory, too.
        OVERHEAD + 2 * path + if has_file { OVERHEAD + path } else { 0 }
    }
}

impl User {
    /// Returns the approximate memory of the user and of the facts for it, in bytes.
    fn bytes(&self) -> usize {
        OVERHEAD
            + match &self.role {
                Role::Above(name) => name.as_ref().map_or(0, |name| name.len()),
                Role::Directory(path) => 2 * path.len(),
                Role::File(path) => path.len(),
            }
    }
}

impl Kernel {
    /// Watches the file or directory at a path. A link in its last segment is not followed. A watch
    /// that exists gets the events in addition.
    pub fn add(&mut self, path: &[u8], events: WatchFlags, user: User) -> Result<i32, Errno> {
        if self.descriptor.is_none() {
            self.descriptor = Some(inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?);
        }
        let descriptor = self.descriptor.as_ref().ok_or(Errno::BADF)?;
        let flags = events | WatchFlags::DONT_FOLLOW | WatchFlags::MASK_ADD;
        let watch = inotify::add_watch(descriptor, path, flags)?;
        let users = self.users.entry(watch).or_default();
        if !users.contains(&user) {
            self.count += 1;
            self.bytes += user.bytes();
            users.push(user);
        }
        Ok(watch)
    }

    /// Counts a subscriber of a path that cannot be watched.
    pub fn add_unwatched(&mut self, user: &User) {
        self.count += 1;
        self.bytes += user.bytes();
    }

    /// Undoes [`Kernel::add_unwatched`].
    pub fn remove_unwatched(&mut self, user: &User) {
        self.discount(user);
    }

    fn discount(&mut self, user: &User) {
        self.count -= 1;
        self.bytes -= user.bytes();
    }

    /// Ends a watch for one user.
    pub fn remove(&mut self, watch: i32, user: &User) {
        let Some(users) = self.users.get_mut(&watch) else { return };
        let before = users.len();
        users.retain(|other| other != user);
        let (is_known, is_last) = (users.len() < before, users.is_empty());
        if is_known {
            self.discount(user);
        }
        if is_last {
            self.users.remove(&watch);
            self.end(watch);
        }
    }

    /// Ends all watches.
    pub fn clear(&mut self) {
        for watch in std::mem::take(&mut self.users).into_keys() {
            self.end(watch);
        }
        (self.count, self.bytes) = (0, 0);
    }

    /// Returns true if there is no room for further users.
    pub fn is_full(&self) -> bool {
        self.count >= MAX_WATCHES || self.bytes >= MAX_BYTES
    }

    /// Returns true if there is room for many further users.
    pub fn has_room(&self) -> bool {
        self.count < MAX_WATCHES / 4 * 3 && self.bytes < MAX_BYTES / 4 * 3
    }

    /// Returns the number of users.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the changes since the last call, with one system call if there are none.
    pub fn changes(&mut self) -> Changes {
        let Some(descriptor) = self.descriptor.as_ref().filter(|_| !self.users.is_empty()) else {
            return Changes::None;
        };
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        let mut reader = Reader::new(descriptor, &mut buffer);
        let mut changes = Vec::new();
        for _ in 0..MAX_EVENTS {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) if changes.is_empty() => return Changes::None,
                Err(Errno::AGAIN) => return Changes::Some(changes),
                Err(Errno::INTR) => continue,
                Err(_) => return Changes::Unknown,
            };
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                return Changes::Unknown;
            }
            let watch = event.wd();
            let name = event.file_name().map(|name| Box::from(name.to_bytes()));
            let is_over = event.events().contains(ReadFlags::IGNORED);
            let users =
                if is_over { self.users.remove(&watch) } else { self.users.get(&watch).cloned() };
            for user in users.unwrap_or_default() {
                if is_over {
                    self.count -= 1;
                    self.bytes -= user.bytes();
                }
                changes.push(Change { user, name: name.clone() });
            }
            // An event has a change for each user, which may be many.
            if changes.len() > MAX_CHANGES {
                return Changes::Unknown;
            }
        }
        Changes::Unknown
    }

    fn end(&self, watch: i32) {
        if let Some(descriptor) = &self.descriptor {
            // The call fails if the watched file is gone.
            let _ = inotify::remove_watch(descriptor, watch);
        }
    }
}

/// Size of the buffer for events. Each has at most 272 bytes.
const BUFFER_BYTES: usize = 4096;

/// Most events that are taken one by one. The kernel's queue has 16384 by default.
const MAX_EVENTS: usize = 4096;

/// Most changes that are applied one by one.
const MAX_CHANGES: usize = 16_384;

/// Most users of watches in a thread, and of directories that cannot be watched.
pub(super) const MAX_WATCHES: usize = 4096;

/// Maximum of their approximate memory, in bytes.
const MAX_BYTES: usize = 4 << 20;

/// Approximate memory in bytes of a user and of the facts for it, beside paths.
const OVERHEAD: usize = 256;
