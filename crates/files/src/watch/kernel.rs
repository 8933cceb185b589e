//! The kernel's side: watches, and who wants to know of each.

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

/// What a watch is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Role {
    /// A directory or link on the way to a root; with a name, a directory whose entry of this name is on the way
    /// and cannot be watched itself.
    Above(Option<Box<[u8]>>),
    /// A directory of a root: its path below the root, with a slash at its end.
    Directory(Box<[u8]>),
    /// The file of a directory.
    File(Box<[u8]>),
}

/// Somebody who wants to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct User {
    /// Index of the root.
    pub root: usize,
    pub role: Role,
}

/// A change, for one user of a watch.
pub(super) struct Change {
    pub user: User,
    /// Name of the entry that has changed; `None` for what is watched itself.
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
}

impl Kernel {
    /// Watches what a path names. Links in its last segment are not followed. A watch that exists gets the events
    /// in addition.
    pub fn add(&mut self, path: &[u8], events: WatchFlags, user: User) -> Result<i32, Errno> {
        if self.descriptor.is_none() {
            self.descriptor = Some(inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?);
        }
        let descriptor = self.descriptor.as_ref().ok_or(Errno::BADF)?;
        let flags = events | WatchFlags::DONT_FOLLOW | WatchFlags::MASK_ADD;
        let watch = inotify::add_watch(descriptor, path, flags)?;
        let users = self.users.entry(watch).or_default();
        if !users.contains(&user) {
            users.push(user);
            self.count += 1;
        }
        Ok(watch)
    }

    /// Ends a watch for one user.
    pub fn remove(&mut self, watch: i32, user: &User) {
        let Some(users) = self.users.get_mut(&watch) else { return };
        let before = users.len();
        users.retain(|other| other != user);
        self.count -= before - users.len();
        if users.is_empty() {
            self.users.remove(&watch);
            self.end(watch);
        }
    }

    /// Ends all watches.
    pub fn clear(&mut self) {
        for watch in std::mem::take(&mut self.users).into_keys() {
            self.end(watch);
        }
        self.count = 0;
    }

    /// Returns the number of watches, counted for each user.
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
            let users = match is_over {
                true => self.users.remove(&watch).inspect(|users| self.count -= users.len()),
                false => self.users.get(&watch).cloned(),
            };
            for user in users.unwrap_or_default() {
                changes.push(Change { user, name: name.clone() });
            }
        }
        Changes::Unknown
    }

    fn end(&self, watch: i32) {
        if let Some(descriptor) = &self.descriptor {
            // It fails if what was watched is gone.
            let _ = inotify::remove_watch(descriptor, watch);
        }
    }
}

/// Size of the buffer for events. Each has at most 272 bytes.
const BUFFER_BYTES: usize = 4096;

/// Most events that are taken one by one. The kernel's queue has 16384 by default.
const MAX_EVENTS: usize = 4096;
