//! The file system and the passwords of a site, as its directives see them.
//!
//! No look-up leaves the root of the site, whatever a directive names: links are followed under the rules of
//! the file server, and a path that does not begin with the root is as if there were nothing.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use howdah_files::{FileLocation, Inspected, NotServedReason};
use howdah_htaccess::config::DirConfig;
use howdah_htaccess::engine;
use howdah_htaccess::record::{FileInfo, FileKind};
use howdah_htaccess::world::{self, Broken, Later, World};
use howdah_http::message::Request;
use howdah_sys::log::Level;

use super::compiled::Stamp;
use super::site::Site;
use crate::auth;
use crate::pipeline::Context;

/// Largest `.htaccess` that is read, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Largest number of names that a listing has.
const MAX_LISTED_NAMES: usize = 200_000;

/// A path, and what it names with links followed.
type Looked = (Box<[u8]>, Option<FileInfo>);

/// The site of a request.
pub(super) struct SiteWorld<'a, 's> {
    pub context: &'a Context<'s>,
    pub site: &'a Site,
    /// Root directory, without a slash at its end.
    pub root: &'a [u8],
    pub request: &'a Request,
    /// The last path that was looked at with links followed.
    pub last: RefCell<Option<Looked>>,
}

impl SiteWorld<'_, '_> {
    /// Returns the DNS servers of the configuration; empty for those of the machine.
    fn resolver(&self) -> &[SocketAddr] {
        &self.context.routing.snapshot.config.settings.resolver
    }

    /// Returns the location of an absolute path; `None` outside of the root.
    fn location<'p>(&'p self, path: &'p [u8]) -> Option<FileLocation<'p>> {
        let below = path.strip_prefix(self.root)?;
        let below = if below.is_empty() { &b"/"[..] } else { below };
        below.starts_with(b"/").then_some(FileLocation {
            root: self.root,
            path: below,
            url_offset: 0,
            chroot: b"",
        })
    }

    fn inspect(&self, path: &[u8]) -> Result<Inspected, NotServedReason> {
        let place = self.location(path).ok_or(NotServedReason::NotFound)?;
        self.context.thread.files.inspect_at(&self.site.files, place)
    }

    fn open(&self, path: &[u8]) -> io::Result<std::fs::File> {
        let place = self.location(path).ok_or(io::ErrorKind::NotFound)?;
        self.context.thread.files.open_at(&self.site.files, place)
    }

    /// Reads and compiles the file of a directory.
    fn compile(&self, directory: &[u8], path: &[u8]) -> Result<Arc<DirConfig>, Broken> {
        let text = |problem: &dyn std::fmt::Display| {
            format!("{}: {problem}", String::from_utf8_lossy(path))
        };
        let broken = |problem: &dyn std::fmt::Display| Broken::unreadable(text(problem));
        let mut file = self.open(path).map_err(|error| broken(&error))?;
        let mut bytes = Vec::new();
        file.by_ref()
            .take(MAX_FILE_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| broken(&error))?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(broken(&format_args!("has more than {MAX_FILE_BYTES} bytes")));
        }
        let exists = |path: &[u8]| self.inspect(path).is_ok();
        let base = self.site.base.as_ref().map_err(Clone::clone)?;
        engine::compile(&bytes, path, directory, base, &exists).map(Arc::new)
    }
}

impl World for SiteWorld<'_, '_> {
    fn lstat(&self, path: &[u8]) -> Option<FileInfo> {
        self.location(path)?;
        let metadata = std::fs::symlink_metadata(OsStr::from_bytes(path)).ok()?;
        let kind = metadata.file_type();
        Some(FileInfo {
            kind: match kind {
                kind if kind.is_file() => FileKind::File,
                kind if kind.is_dir() => FileKind::Directory,
                _ => FileKind::Other,
            },
            is_link: kind.is_symlink(),
            size: metadata.size(),
            modified: metadata.mtime(),
            accessed: metadata.atime(),
            mode: metadata.mode(),
            user: metadata.uid(),
            group: metadata.gid(),
        })
    }

    fn stat(&self, path: &[u8]) -> Option<FileInfo> {
        if let Some((known, info)) = &*self.last.borrow()
            && **known == *path
        {
            return *info;
        }
        let info = self.inspect(path).ok().map(|found| FileInfo {
            kind: match found.kind {
                howdah_files::FileKind::File => FileKind::File,
                howdah_files::FileKind::Directory => FileKind::Directory,
                howdah_files::FileKind::Other => FileKind::Other,
            },
            is_link: false,
            size: found.size,
            modified: found.modified,
            accessed: found.accessed,
            mode: found.mode,
            user: found.user,
            group: found.group,
        });
        self.last.replace(Some((path.into(), info)));
        info
    }

    fn directives(&self, directory: &[u8]) -> Result<Option<Arc<DirConfig>>, Broken> {
        if self.location(directory).is_none() {
            return Ok(None);
        }
        let path = [directory, &*self.site.file].concat();
        let Some(stamp) = stamp(&path)? else { return Ok(None) };
        if let Some(compiled) = self.site.compiled.get(directory, &stamp) {
            return compiled.map(Some);
        }
        let compiled = self.compile(directory, &path);
        self.site.compiled.put(directory, stamp, compiled.clone());
        compiled.map(Some)
    }

    fn list(&self, directory: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        self.inspect(directory).map_err(|_| io::ErrorKind::NotFound)?;
        let entries = std::fs::read_dir(Path::new(OsStr::from_bytes(directory)))?;
        let names = entries.take(MAX_LISTED_NAMES).map(|entry| Ok(entry?.file_name().into_vec()));
        names.collect()
    }

    fn read(&self, path: &[u8], limit: usize) -> io::Result<Arc<[u8]>> {
        let mut bytes = Vec::new();
        self.open(path)?.take(limit as u64 + 1).read_to_end(&mut bytes)?;
        match bytes.len() > limit {
            true => Err(io::ErrorKind::FileTooLarge.into()),
            false => Ok(bytes.into()),
        }
    }

    fn verify<'a>(&'a self, password: &'a [u8], stored: &'a [u8]) -> Later<'a, bool> {
        Box::pin(auth::verify(&self.site.permits, password, stored))
    }

    fn host_names<'a>(&'a self, address: &'a [u8]) -> Later<'a, Vec<Vec<u8>>> {
        Box::pin(async {
            let address: Option<IpAddr> =
                std::str::from_utf8(address).ok().and_then(|text| text.parse().ok());
            let Some(address) = address else { return Vec::new() };
            let names = &self.context.thread.shared.client_names;
            let name = names.name(address.to_canonical(), self.resolver()).await;
            name.map(String::into_bytes).into_iter().collect()
        })
    }

    fn addresses<'a>(&'a self, name: &'a [u8]) -> Later<'a, Vec<IpAddr>> {
        Box::pin(async {
            let Ok(name) = std::str::from_utf8(name) else { return Vec::new() };
            let names = &self.context.thread.shared.client_names;
            names.addresses(name, self.resolver()).await.to_vec()
        })
    }

    fn log(&self, level: world::Level, message: &str) {
        let level = match level {
            world::Level::Error => Level::Error,
            world::Level::Warn => Level::Warn,
            world::Level::Info => Level::Info,
        };
        self.context.log(level, self.request, format_args!("{message}"));
    }
}

/// Returns the state of a file; `None` if there is none.
///
/// # Errors
///
/// It cannot be known whether there is one: the directives of others must not be left out.
fn stamp(path: &[u8]) -> Result<Option<Stamp>, Broken> {
    match std::fs::metadata(OsStr::from_bytes(path)) {
        Ok(metadata) => Ok(Some(Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound
                    | io::ErrorKind::NotADirectory
                    | io::ErrorKind::InvalidFilename
            ) =>
        {
            Ok(None)
        }
        Err(error) => {
            let path = String::from_utf8_lossy(path);
            Err(Broken::unreadable(format!("{path}: cannot be looked at: {error}")))
        }
    }
}
