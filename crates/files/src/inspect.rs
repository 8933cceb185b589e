//! What a path names, without sending it: for rules that depend on files.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use super::Files;
use super::outcome::NotServedReason;
use super::resolve::{Access, Kind};
use super::share::{FileLocation, Share};

/// What a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A socket, a device or a named pipe.
    Other,
}

/// State of what a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inspected {
    /// Its kind.
    pub kind: FileKind,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last change of the content, in seconds since 1970.
    pub modified: i64,
    /// Time of the last access, in seconds since 1970.
    pub accessed: i64,
    /// Permission bits.
    pub mode: u32,
    /// User id of the owner.
    pub user: u32,
    /// Id of the group.
    pub group: u32,
}

impl Files {
    /// Opens a regular file for reading. Links are followed under the share's rules.
    ///
    /// # Errors
    ///
    /// There is no such file, it is no regular file, or it cannot be opened.
    pub fn open_at(&self, share: &Share, place: FileLocation<'_>) -> io::Result<File> {
        if !place.is_sound() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let opened = self.opener.open(share, &place, &[], Access::Read).map_err(|reason| {
            let kind = match reason {
                NotServedReason::NotFound => io::ErrorKind::NotFound,
                _ => io::ErrorKind::PermissionDenied,
            };
            io::Error::from(kind)
        })?;
        match opened.kind {
            Kind::Regular => Ok(opened.file),
            Kind::Directory => Err(io::ErrorKind::IsADirectory.into()),
            Kind::Other => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Returns what a path names. Links are followed under the share's rules; what these rules refuse
    /// is an error, as is a path that names nothing.
    pub fn inspect_at(
        &self,
        share: &Share,
        place: FileLocation<'_>,
    ) -> Result<Inspected, NotServedReason> {
        if !place.is_sound() {
            return Err(NotServedReason::NotFound);
        }
        let opened = self.opener.open(share, &place, &[], Access::Inspect)?;
        let metadata = opened.file.metadata().map_err(|_| NotServedReason::Forbidden)?;
        Ok(Inspected {
            kind: match opened.kind {
                Kind::Regular => FileKind::File,
                Kind::Directory => FileKind::Directory,
                Kind::Other => FileKind::Other,
            },
            size: metadata.size(),
            modified: metadata.mtime(),
            accessed: metadata.atime(),
            mode: metadata.mode(),
            user: metadata.uid(),
            group: metadata.gid(),
        })
    }
}
