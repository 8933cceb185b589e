//! Listings of directories without an index file.
//!
//! A request finds the directory ([`Listing`]); [`Listing::render`] reads and formats it. That
//! takes a while for many files, so the caller does it on a helper thread.
//!
//! A name is listed if a request for it could be served: no hidden names, no PHP source, no types
//! that the share refuses, no links that it does not follow.

mod entry;
mod json;
mod order;
mod page;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;
use howdah_config::ListingFormat;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use self::entry::Entry;
use super::hidden;
use super::reason::NotServedReason;
use super::resolve::{Access, Kind, Opener};
use super::share::{FileLocation, Options, Share};

pub use self::order::{Order, SortBy};

/// Maximum number of names that are read from a directory.
const MAX_NAMES: usize = 200_000;

/// A directory to list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Listing {
    share: ShareRef,
    root: Box<[u8]>,
    path: Box<[u8]>,
    url_offset: usize,
    chroot: Box<[u8]>,
    format: ListingFormat,
}

/// A share, compared by its id.
#[derive(Debug, Clone)]
struct ShareRef(Arc<Share>);

/// A formatted listing.
#[derive(Debug, Clone)]
pub struct Rendered {
    /// The value of `Content-Type`.
    pub content_type: &'static str,
    /// The listing.
    pub body: Bytes,
}

impl Listing {
    pub(super) fn new(share: &Share, place: &FileLocation<'_>, format: ListingFormat) -> Listing {
        Listing {
            share: ShareRef(Arc::new(share.clone())),
            root: place.root.into(),
            path: place.path.into(),
            url_offset: place.url_offset,
            chroot: place.chroot.into(),
            format,
        }
    }

    /// Returns the format.
    pub fn format(&self) -> ListingFormat {
        self.format
    }

    /// Reads the directory and formats it. `shown` is the decoded path of the request.
    ///
    /// # Errors
    ///
    /// The directory is gone, or cannot be read.
    pub fn render(&self, shown: &[u8], order: Order) -> Result<Rendered, NotServedReason> {
        let (mut entries, is_complete) = self.read(&Opener::new())?;
        entries.sort_by(|a, b| order.compare(a, b));
        Ok(match self.format {
            ListingFormat::Html => Rendered {
                content_type: "text/html; charset=utf-8",
                body: page::format(shown, order, &entries, is_complete).into(),
            },
            ListingFormat::Json => {
                Rendered { content_type: "application/json", body: json::format(&entries).into() }
            }
        })
    }

    /// Reads the entries. Also returns false if there are more than [`MAX_NAMES`].
    fn read(&self, opener: &Opener) -> Result<(Vec<Entry>, bool), NotServedReason> {
        let share = &*self.share.0;
        let (root, path, chroot) = (&*self.root, &*self.path, &*self.chroot);
        let place = FileLocation { root, path, url_offset: self.url_offset, chroot };
        let opened = opener.open(share, &place, &[], Access::Read)?;
        if opened.kind != Kind::Directory {
            return Err(NotServedReason::NotFound);
        }
        let directory = OwnedFd::from(opened.file);
        let (names, is_complete) = names(&directory)?;
        let mut entries = Vec::with_capacity(names.len());
        for name in names {
            let found = rustix::fs::statat(&directory, &*name, AtFlags::SYMLINK_NOFOLLOW);
            // A file may be deleted meanwhile.
            let Ok(found) = found else { continue };
            let size = u64::try_from(found.st_size).unwrap_or_default();
            let entry = match FileType::from_raw_mode(found.st_mode) {
                FileType::RegularFile => Entry::file(name, size, found.st_mtime),
                FileType::Directory => {
                    let is_other_mount = found.st_dev != opened.meta.device;
                    if is_other_mount && !share.options().traverse_mounts {
                        continue;
                    }
                    Entry::directory(name, found.st_mtime)
                }
                FileType::Symlink => {
                    let target = opener.open(share, &place, &[&name], Access::Read);
                    opener.take_refused();
                    match target {
                        Ok(target) if target.kind == Kind::Directory => {
                            Entry::directory(name, target.meta.modified)
                        }
                        Ok(target) if target.kind == Kind::Regular => {
                            Entry::file(name, target.meta.size, target.meta.modified)
                        }
                        _ => continue,
                    }
                }
                _ => continue,
            };
            if is_listed(&entry, share.options()) {
                entries.push(entry);
            }
        }
        Ok((entries, is_complete))
    }
}

impl PartialEq for ShareRef {
    fn eq(&self, other: &Self) -> bool {
        self.0.id() == other.0.id()
    }
}

impl Eq for ShareRef {}

impl std::hash::Hash for ShareRef {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.id().hash(state);
    }
}

/// Reads the names that are not hidden.
fn names(directory: &OwnedFd) -> Result<(Vec<Vec<u8>>, bool), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let readable = rustix::fs::openat(directory, ".", flags, Mode::empty())?;
    let mut names = Vec::new();
    for (number, entry) in Dir::new(readable)?.enumerate() {
        if number >= MAX_NAMES {
            return Ok((names, false));
        }
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        // `.well-known` is for programs, which know its names.
        if !hidden::is_hidden_segment(name) && !name.starts_with(b".") {
            names.push(name.to_vec());
        }
    }
    Ok((names, true))
}

/// Returns true if the rules of the share let an entry be served.
fn is_listed(entry: &Entry, options: &Options) -> bool {
    if entry.is_directory {
        return true;
    }
    let name = entry.name.as_slice();
    let is_script = options.is_script(name);
    let is_refused = options.is_source(name) && !is_script;
    let types = options.types.as_ref().filter(|_| !is_script);
    !is_refused && types.is_none_or(|types| types.matches(&options.mime.of(name)))
}

#[cfg(test)]
mod tests;
