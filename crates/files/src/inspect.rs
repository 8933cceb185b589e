//! The file or directory at a path, without sending it: for rules that depend on files.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::time::Instant;

use howdah_http::message::Request;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};

use super::Files;
use super::reason::NotServedReason;
use super::resolve::{Access, Kind, Opened};
use super::share::{FileLocation, Share};

/// The kind of file at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A socket, a device or a named pipe.
    Other,
}

/// State of the file or directory at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inspected {
    /// Its kind.
    pub kind: FileKind,
    /// True for a symbolic link that was not followed.
    pub is_link: bool,
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
    /// Id of the file system.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
}

impl Inspected {
    /// Returns the state of a file from the result of stat(2).
    pub(super) fn of(found: &Stat) -> Inspected {
        let kind = FileType::from_raw_mode(found.st_mode);
        Inspected {
            kind: match kind {
                FileType::RegularFile => FileKind::File,
                FileType::Directory => FileKind::Directory,
                _ => FileKind::Other,
            },
            is_link: kind == FileType::Symlink,
            size: u64::try_from(found.st_size).unwrap_or_default(),
            modified: found.st_mtime,
            accessed: found.st_atime,
            mode: found.st_mode,
            user: found.st_uid,
            group: found.st_gid,
            device: found.st_dev,
            inode: found.st_ino,
        }
    }
}

impl Files {
    /// Opens a regular file for reading. Links are followed under the share's rules.
    ///
    /// # Errors
    ///
    /// There is no such file, it is no regular file, or it cannot be opened.
    pub fn open_at(
        &self,
        share: &Share,
        place: FileLocation<'_>,
        request: &Request,
    ) -> io::Result<File> {
        if !place.is_sound() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let opened =
            self.open_and_log(share, &place, Access::Read, Some(request)).map_err(|reason| {
                let kind = match reason {
                    NotServedReason::NotFound => io::ErrorKind::NotFound,
                    _ => io::ErrorKind::PermissionDenied,
                };
                io::Error::from(kind)
            })?;
        match opened.kind {
            Kind::Regular => Ok(opened.file),
            Kind::Directory => Err(io::ErrorKind::IsADirectory.into()),
            Kind::Other => Err(no_regular_file(&opened.file)),
        }
    }

    /// Returns the state of the file or directory at a path. Links are followed under the share's
    /// rules. A link that these rules refuse is an error, as is a path that does not exist.
    pub fn inspect_at(
        &self,
        share: &Share,
        place: FileLocation<'_>,
        request: Option<&Request>,
    ) -> Result<Inspected, NotServedReason> {
        if !place.is_sound() {
            return Err(NotServedReason::NotFound);
        }
        let opened = self.open_and_log(share, &place, Access::Inspect, request)?;
        let found = rustix::fs::fstat(&opened.file).map_err(|_| NotServedReason::Forbidden)?;
        Ok(Inspected::of(&found))
    }

    /// Returns the state of the file or directory at a path outside of shares. Links are followed
    /// under the default rules of shares.
    ///
    /// # Errors
    ///
    /// As [`Files::inspect_at`].
    pub fn inspect_name(
        &self,
        place: FileLocation<'_>,
        request: &Request,
    ) -> Result<Inspected, NotServedReason> {
        self.inspect_at(&self.outside, place, Some(request))
    }

    /// Returns the state of an entry of a directory, without following it if it is a link. Links on
    /// the way to the directory are followed under the share's rules. `place` is the directory.
    ///
    /// # Errors
    ///
    /// There is no such directory or name, or the directory is refused.
    pub fn inspect_entry_at(
        &self,
        share: &Share,
        place: FileLocation<'_>,
        name: &[u8],
        request: &Request,
    ) -> io::Result<Inspected> {
        if name.contains(&b'/') {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let directory = self.directory(share, &place, request)?;
        let found = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Inspected::of(&found))
    }

    /// Opens a directory to read its names. Links on the way to it are followed under the share's
    /// rules.
    ///
    /// # Errors
    ///
    /// There is no such directory, or it cannot be read.
    pub fn open_directory_at(
        &self,
        share: &Share,
        place: FileLocation<'_>,
        request: &Request,
    ) -> io::Result<OwnedFd> {
        let directory = self.directory(share, &place, request)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // The descriptor above is only a path; its directory cannot become another one meanwhile.
        Ok(rustix::fs::openat(&directory, ".", flags, Mode::empty())?)
    }

    fn open_and_log(
        &self,
        share: &Share,
        place: &FileLocation<'_>,
        access: Access,
        request: Option<&Request>,
    ) -> Result<Opened, NotServedReason> {
        let opened = self.opener.open(share, place, &[], access);
        if opened.is_err() {
            self.log_refusals(request, Instant::now());
        }
        opened
    }

    fn directory(
        &self,
        share: &Share,
        place: &FileLocation<'_>,
        request: &Request,
    ) -> io::Result<File> {
        if !place.is_sound() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let opened = self.open_and_log(share, place, Access::Inspect, Some(request));
        match opened.map_err(|_| io::ErrorKind::NotFound)? {
            opened if opened.kind == Kind::Directory => Ok(opened.file),
            _ => Err(io::ErrorKind::NotADirectory.into()),
        }
    }
}

/// Returns the error for an object that is neither a file nor a directory: names its kind and a
/// remedy.
fn no_regular_file(found: &File) -> io::Error {
    let kind = match found.metadata().map(|metadata| metadata.file_type()) {
        Ok(kind) if kind.is_fifo() => "a named pipe (FIFO)",
        Ok(kind) if kind.is_socket() => "a socket",
        Ok(_) => "a device",
        Err(error) => return error,
    };
    let text = format!("it is {kind} and no regular file: remove it, or put a file there");
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
