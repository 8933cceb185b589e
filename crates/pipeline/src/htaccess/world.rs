//! The file system and the passwords of a site, as its directives see them.
//!
//! No look-up leaves the root of the site: links are followed under the rules of the file server,
//! and a path that does not begin with the root names no file.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use howdah_dns::turns::Asker;
use howdah_files::{FileLocation, Inspected, NotServedReason, WatchedEntry, WatchedView};
use howdah_htaccess::query::{Found, Query};
use howdah_htaccess::record::{FileInfo, FileKind};
use howdah_htaccess::world::{self, Broken, FileRule, Later, Reading, World};
use howdah_http::message::Request;
use howdah_routing::htaccess_state::compiled::{Compiled, Directives, KnownDirectives, Stamp};
use howdah_routing::htaccess_state::head::{self, Head};
use howdah_routing::htaccess_state::site::Site;
use howdah_sys::log::Level;

use super::compiling;
use super::lookups::{Answer, Lookups, Opener, Wanted};
use crate::context::Context;

/// Most times that a request waits for a file that is being written. A file that never settles must
/// not block its site.
const MAX_ROUNDS: u32 = 3;
/// The same for a file that is empty.
const MAX_ROUNDS_OF_EMPTY: u32 = 60;

/// The facts about a site that need no system call.
pub type Known<'a> = WatchedView<'a, KnownDirectives, Head>;

/// A path, and the state of its file with links followed.
type Looked = (Box<[u8]>, Option<FileInfo>);

/// A directory, and its directives.
type Seen = (Box<[u8]>, Directives);

/// The site of a request.
pub(super) struct SiteWorld<'a, 's> {
    pub context: &'a Context<'s>,
    pub site: &'a Site,
    /// Root directory, without a slash at its end.
    pub root: &'a [u8],
    pub request: &'a Request,
    /// The facts that need no system call; `None` if changes on the disk are not reported.
    known: Option<Known<'a>>,
    /// The last path that was looked at with links followed.
    last: RefCell<Option<Looked>>,
    /// Files of directories that the request has met: it has the same rules from its beginning to
    /// its end.
    seen: RefCell<Vec<Seen>>,
    /// Passwords and groups.
    pub lookups: Rc<Lookups>,
    /// Number of times that the request may wait for a file that may be half written; 0 without
    /// one.
    settling_rounds: Cell<u32>,
}

impl<'a, 's> SiteWorld<'a, 's> {
    /// Returns the site as a request sees it.
    pub fn new(
        context: &'a Context<'s>,
        site: &'a Site,
        root: &'a [u8],
        request: &'a Request,
        lookups: Rc<Lookups>,
        known: Option<Known<'a>>,
    ) -> SiteWorld<'a, 's> {
        SiteWorld {
            context,
            site,
            root,
            request,
            lookups,
            known,
            last: RefCell::default(),
            seen: RefCell::default(),
            settling_rounds: Cell::new(0),
        }
    }

    /// Drops the results of the last run, so that they take no memory while the request waits.
    pub fn forget(&mut self) {
        self.known = None;
        self.last.take();
        self.seen.take();
    }

    /// Returns how often the request may wait for files to settle: 0 if none of those that were
    /// read has changed a moment ago. Programs write a file in several steps, so it may have been
    /// read between two of them.
    pub fn settling_rounds(&self) -> u32 {
        self.settling_rounds.get()
    }
}

/// Takes the changes on the disk that have been reported, and returns the facts about a site after
/// them; `None` if its changes are not reported.
pub fn known<'a>(context: &Context<'a>, site: &Site, root: &[u8]) -> Option<Known<'a>> {
    let thread = context.thread;
    thread.directories.below(&thread.files, &site.files, root, &site.file, context.routing.now)
}

impl SiteWorld<'_, '_> {
    /// Remembers the head of an answer that depends on a file and the directives on its way only.
    pub fn remember(&self, head: Head) {
        let (Some(known), Some(path)) = (&self.known, head::path_of(self.request)) else { return };
        let is_file = matches!(
            known.look_up(path),
            WatchedEntry::Entry(found)
                if !found.is_link && found.kind == howdah_files::FileKind::File
        );
        let is_known = |(directory, _): &Seen| {
            self.location(directory)
                .is_some_and(|place| place.root == self.root && known.value(place.path).is_some())
        };
        if is_file && self.seen.borrow().iter().all(is_known) {
            let bytes = head.bytes();
            known.store_answer(path, head, bytes);
        }
    }

    /// Returns the DNS servers of the configuration; empty for those of the machine.
    fn resolver(&self) -> &[SocketAddr] {
        &self.context.routing.snapshot.config.settings.resolver
    }

    /// Returns for whom names are looked up.
    fn asker(&self) -> Asker {
        Asker::Htaccess(self.site.id)
    }

    /// Returns the location of an absolute path; `None` outside of the root.
    fn location<'p>(&'p self, path: &'p [u8]) -> Option<FileLocation<'p>> {
        let (root, path) = self.site.divided(path, self.root)?;
        Some(FileLocation { root, path, url_offset: 0, chroot: b"" })
    }

    /// Looks a path up among the known facts.
    fn known(&self, path: &[u8]) -> WatchedEntry {
        match (&self.known, self.location(path)) {
            (Some(known), Some(place)) if place.root == self.root => known.look_up(place.path),
            _ => WatchedEntry::Unknown,
        }
    }

    /// Returns a path without `..`, which the file server does not open; `None` if the path leads
    /// out of the root, or through a file that is no directory.
    fn without_dots<'p>(&self, path: &'p [u8]) -> Option<Cow<'p, [u8]>> {
        if memchr::memmem::find(path, b"/..").is_none() {
            return Some(Cow::Borrowed(path));
        }
        let place = self.location(path)?;
        let mut kept = place.root.to_vec();
        for part in place.path.split(|&byte| byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => {
                    let is_below = kept.len() > place.root.len();
                    // Behind a link, the kernel continues at its target.
                    let found = self.lstat(&kept).filter(|_| is_below)?;
                    if found.kind != FileKind::Directory || found.is_link {
                        return None;
                    }
                    kept.truncate(memchr::memrchr(b'/', &kept)?);
                }
                part => {
                    kept.push(b'/');
                    kept.extend_from_slice(part);
                }
            }
        }
        Some(Cow::Owned(kept))
    }

    fn inspect(&self, path: &[u8]) -> Result<Inspected, NotServedReason> {
        match self.known(path) {
            WatchedEntry::Entry(found) if !found.is_link => return Ok(found),
            WatchedEntry::Missing => return Err(NotServedReason::NotFound),
            WatchedEntry::Entry(_) | WatchedEntry::Unknown => {}
        }
        let place = self.location(path).ok_or(NotServedReason::NotFound)?;
        self.context.thread.files.inspect_at(&self.site.files, place, Some(self.request))
    }

    fn open(&self, path: &[u8]) -> io::Result<std::fs::File> {
        let place = self.location(path).ok_or(io::ErrorKind::NotFound)?;
        self.context.thread.files.open_at(&self.site.files, place, self.request)
    }

    /// Computes the results that the request needed at once. Returns false if there were none;
    /// otherwise the request can be run again.
    pub async fn catch_up(&self) -> bool {
        let directories = self.lookups.take_wanted_directories();
        let compile = async {
            for directory in &directories {
                self.compile(directory).await;
            }
        };
        if !directories.is_empty() {
            self.lookups.elsewhere(self.site, compile).await;
        }
        self.lookups.catch_up(self.site, self).await || !directories.is_empty()
    }

    async fn look_up(&self, wanted: &Wanted) -> Answer {
        self.lookups.get(wanted, self.site, self).await
    }

    /// Returns the compiled file of a directory, as it is now.
    fn current_directives(&self, directory: &[u8]) -> Directives {
        let Some(place) = self.location(directory) else { return Ok(None) };
        let known = self.known.as_ref().filter(|_| place.root == self.root);
        let Some(known) = known else { return self.read_directives(directory).0 };
        match known.value(place.path) {
            Some(None) => return Ok(None),
            Some(Some(directives)) => {
                if let Some(directives) = directives.upgrade() {
                    return Ok(Some(directives));
                }
            }
            None => {}
        }
        let is_watched = known.watch_file(place.path);
        let (directives, is_final) = self.read_directives(directory);
        if is_watched
            && is_final
            && let Ok(directives) = &directives
        {
            known.store(place.path, directives.as_ref().map(Arc::downgrade));
        }
        directives
    }

    /// Asks the disk for the file of a directory. Also returns true if only a change of the file
    /// can change the result.
    fn read_directives(&self, directory: &[u8]) -> (Directives, bool) {
        let path = [directory, &*self.site.file].concat();
        let stamp = match self.stamp(&path) {
            Ok(Some(stamp)) => stamp,
            Ok(None) => return (Ok(None), true),
            Err(broken) => return (Err(broken), false),
        };
        let depends_on_others = |compiled: &Compiled| {
            compiled.as_ref().is_ok_and(|compiled| !compiled.probes.is_empty())
        };
        if let Some(compiled) = self.site.compiled.get(directory, &stamp) {
            let exists = |path: &[u8]| self.inspect(path).is_ok();
            let is_outdated = compiled.as_ref().is_ok_and(|compiled| compiled.is_outdated(&exists));
            if !is_outdated {
                let is_final = !depends_on_others(&compiled);
                return (compiled.map(Some), is_final);
            }
        }
        let Some(compiled) = self.lookups.compiled(directory, &stamp) else {
            self.lookups.want_directives(directory);
            return (Err(Broken::pending()), false);
        };
        let is_settled = stamp.is_settled(SystemTime::now());
        if !is_settled {
            let rounds = if stamp.size == 0 { MAX_ROUNDS_OF_EMPTY } else { MAX_ROUNDS };
            self.settling_rounds.set(self.settling_rounds.get().max(rounds));
        }
        let is_final = is_settled && !depends_on_others(&compiled);
        (compiled.map(Some), is_final)
    }

    /// Compiles the file of a directory for this request, and keeps it for others.
    async fn compile(&self, directory: &[u8]) {
        // The semaphore is never closed.
        let turn = Arc::clone(&self.site.compiling).acquire_owned().await.ok();
        let path = [directory, &*self.site.file].concat();
        let Ok(Some(stamp)) = self.stamp(&path) else { return };
        let exists = |path: &[u8]| self.inspect(path).is_ok();
        if let Some(compiled) = self.site.compiled.get(directory, &stamp) {
            let is_outdated = compiled.as_ref().is_ok_and(|compiled| compiled.is_outdated(&exists));
            if !is_outdated {
                return self.lookups.keep_compiled(directory, stamp, compiled);
            }
        }
        let refusals = self.site.memory.refusals();
        let compiled = match self.open(&path) {
            Ok(file) => compiling::compile(self.site, turn, file, &path, directory, &exists).await,
            Err(error) => Err(cannot_be_seen(&path, &error)),
        };
        self.site.compiled.record_change();
        // A denied access is logged again after some time.
        let is_logged = compiled.as_ref().is_err_and(|broken| broken.is_logged);
        let is_other_mistake = is_logged || self.site.memory.refusals() != refusals;
        let is_file_at_fault = compiled.is_ok() || !is_other_mistake;
        if is_file_at_fault && stamp.is_settled(SystemTime::now()) {
            self.site.compiled.put(directory, stamp, compiled.clone());
        }
        self.lookups.keep_compiled(directory, stamp, compiled);
    }

    /// Returns the state of a file; `None` if there is none.
    ///
    /// A link is followed under the rules of the file server: whether its target exists must not
    /// show outside of the root.
    ///
    /// # Errors
    ///
    /// It is unknown whether the file exists: directives of a file that may exist must not be left
    /// out.
    fn stamp(&self, path: &[u8]) -> Result<Option<Stamp>, Broken> {
        match std::fs::symlink_metadata(OsStr::from_bytes(path)) {
            Ok(found) if !found.is_symlink() => Ok(Some(stamp_of(&found))),
            Ok(_) if leads_nowhere(path) => Ok(None),
            Ok(_) => match self.open(path).and_then(|file| file.metadata()) {
                Ok(found) => Ok(Some(stamp_of(&found))),
                Err(error) => Err(cannot_be_seen(path, &error)),
            },
            Err(error) if is_missing(&error) => Ok(None),
            // Fails likewise, with a line in the log.
            Err(error) => Err(cannot_be_seen(path, &self.open(path).err().unwrap_or(error))),
        }
    }
}

impl Opener for SiteWorld<'_, '_> {
    fn file(&self, path: &[u8]) -> io::Result<File> {
        self.open(path)
    }

    fn directory(&self, path: &[u8]) -> io::Result<OwnedFd> {
        let place = self.location(path).ok_or(io::ErrorKind::NotFound)?;
        self.context.thread.files.open_directory_at(&self.site.files, place, self.request)
    }
}

impl World for SiteWorld<'_, '_> {
    fn lstat(&self, path: &[u8]) -> Option<FileInfo> {
        let path = &*self.without_dots(path)?;
        let path = path.strip_suffix(b"/").unwrap_or(path);
        match self.known(path) {
            WatchedEntry::Entry(found) => return Some(file_info(found)),
            WatchedEntry::Missing => return None,
            WatchedEntry::Unknown => {}
        }
        if self.location(path).is_some_and(|place| place.path == b"/") {
            return self.inspect(path).ok().map(file_info);
        }
        let slash = memchr::memrchr(b'/', path)?;
        let (directory, name) = (path.get(..slash)?, path.get(slash + 1..)?);
        let place = self.location(directory)?;
        let files = &self.context.thread.files;
        files.inspect_entry_at(&self.site.files, place, name, self.request).ok().map(file_info)
    }

    fn stat(&self, path: &[u8]) -> Option<FileInfo> {
        let path = &*self.without_dots(path)?;
        if let Some((known, info)) = &*self.last.borrow()
            && **known == *path
        {
            return *info;
        }
        let info = self.inspect(path).ok().map(file_info);
        self.last.replace(Some((path.into(), info)));
        info
    }

    fn directives(&self, directory: &[u8]) -> Directives {
        let seen = |(known, _): &&Seen| **known == *directory;
        if let Some((_, known)) = self.seen.borrow().iter().find(seen) {
            return known.clone();
        }
        let found = self.current_directives(directory);
        if !found.as_ref().is_err_and(|broken| broken.is_pending) {
            self.seen.borrow_mut().push((directory.into(), found.clone()));
        }
        found
    }

    fn list<'a>(&'a self, directory: &'a [u8]) -> Later<'a, io::Result<Vec<Vec<u8>>>> {
        let wanted = Wanted::List { path: directory.to_vec() };
        Box::pin(async move {
            match self.look_up(&wanted).await {
                Answer::Names(names) => names.map(Arc::unwrap_or_clone).map_err(io::Error::from),
                _ => Err(io::ErrorKind::NotFound.into()),
            }
        })
    }

    fn pause(&self) -> Later<'_, ()> {
        if self.lookups.is_immediate() {
            Box::pin(async {})
        } else {
            Box::pin(self.lookups.elsewhere(self.site, tokio::task::yield_now()))
        }
    }

    fn read<'a>(&'a self, path: &'a [u8], reading: Reading) -> Later<'a, io::Result<Arc<[u8]>>> {
        let wanted = Wanted::Read { path: path.to_vec(), reading };
        Box::pin(async move {
            match self.look_up(&wanted).await {
                Answer::Content(content) => content.map_err(io::Error::from),
                _ => Err(io::ErrorKind::NotFound.into()),
            }
        })
    }

    fn is_source(&self, path: &[u8]) -> bool {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        self.site.files.options().is_source(name)
    }

    fn rule(&self, path: &[u8]) -> FileRule {
        match self.site.divided(path, self.root) {
            Some((_, below)) => self.site.rule(below),
            // The file server refuses it.
            None => FileRule::Open,
        }
    }

    fn search<'a>(&'a self, path: &'a [u8], query: &'a Query) -> Later<'a, io::Result<Found>> {
        let wanted = Wanted::Search { path: path.to_vec(), query: query.clone() };
        Box::pin(async move {
            match self.look_up(&wanted).await {
                Answer::Found(found) => found.map_err(io::Error::from),
                _ => Err(io::ErrorKind::NotFound.into()),
            }
        })
    }

    fn verify<'a>(&'a self, password: &'a [u8], stored: &'a [u8]) -> Later<'a, Option<bool>> {
        let wanted = Wanted::Check { password: password.to_vec(), stored: stored.to_vec() };
        Box::pin(async move {
            match self.look_up(&wanted).await {
                Answer::Checked(result) => result,
                _ => Some(false),
            }
        })
    }

    fn set_immediate(&self, is_immediate: bool) -> bool {
        self.lookups.set_immediate(is_immediate)
    }

    fn host_names<'a>(&'a self, address: &'a [u8]) -> Later<'a, Vec<Vec<u8>>> {
        Box::pin(async {
            let address: Option<IpAddr> =
                std::str::from_utf8(address).ok().and_then(|text| text.parse().ok());
            let Some(address) = address else { return Vec::new() };
            let names = &self.context.thread.shared.client_names;
            let name = names.name(self.asker(), address.to_canonical(), self.resolver()).await;
            name.map(String::into_bytes).into_iter().collect()
        })
    }

    fn addresses<'a>(&'a self, name: &'a [u8]) -> Later<'a, Vec<IpAddr>> {
        Box::pin(async {
            let Ok(name) = std::str::from_utf8(name) else { return Vec::new() };
            let names = &self.context.thread.shared.client_names;
            names.addresses(self.asker(), name, self.resolver()).await.to_vec()
        })
    }

    fn log(&self, level: world::Level, message: &str) {
        let level = match level {
            world::Level::Error => Level::Error,
            world::Level::Warn => Level::Warn,
            world::Level::Notice => Level::Notice,
            world::Level::Info => Level::Info,
        };
        if !self.lookups.is_new_line(message) {
            return;
        }
        self.context.log_client(level, self.request, format_args!("{message}"));
    }
}

/// Returns the state of a file or directory, for directives.
fn file_info(found: Inspected) -> FileInfo {
    FileInfo {
        kind: match found.kind {
            howdah_files::FileKind::File => FileKind::File,
            howdah_files::FileKind::Directory => FileKind::Directory,
            howdah_files::FileKind::Other => FileKind::Other,
        },
        is_link: found.is_link,
        size: found.size,
        modified: found.modified,
        accessed: found.accessed,
        mode: found.mode,
        user: found.user,
        group: found.group,
    }
}

/// Returns the state of a file.
fn stamp_of(metadata: &std::fs::Metadata) -> Stamp {
    Stamp {
        device: metadata.dev(),
        inode: metadata.ino(),
        size: metadata.size(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    }
}

/// Returns the result of a file that cannot be opened. A denied access has its line in the log
/// already.
fn cannot_be_seen(path: &[u8], problem: &io::Error) -> Broken {
    let path = String::from_utf8_lossy(path);
    let is_logged = problem.kind() == io::ErrorKind::PermissionDenied;
    Broken { is_logged, ..Broken::unreadable(format!("{path}: cannot be opened: {problem}")) }
}

/// Returns true for a link to a name in its own directory that does not exist.
fn leads_nowhere(link: &[u8]) -> bool {
    let link = std::path::Path::new(OsStr::from_bytes(link));
    let Ok(target) = std::fs::read_link(link) else { return false };
    let is_name = target.components().count() == 1 && !target.is_absolute();
    is_name && link.with_file_name(target).symlink_metadata().is_err_and(|error| is_missing(&error))
}

fn is_missing(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | InvalidFilename)
}
