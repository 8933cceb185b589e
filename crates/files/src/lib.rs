//! Static files: finds the file, directory or script of a request, or the reason why there is none,
//! and makes the response with a file.
//!
//! Steps of [`Files::look_up`]:
//!
//! 1. A method other than GET and HEAD is refused, unless the share has scripts.
//! 2. A cached result younger than [`REVALIDATION_INTERVAL`] is used without a system call
//!    (`cache`).
//! 3. Otherwise the location is classified (`classify`): a script (byte-exact `.php`, also in front
//!    of more path segments), then the media types allowed (`mime`), then names that are never sent
//!    (`hidden`), then the file or the directory's index (`resolve`; `howdah_sys::links` if
//!    the path has symbolic links).
//! 4. A regular file becomes a resource with its precompressed siblings, their response fields and
//!    small bodies (`load`); unchanged parts of the last load are reused.
//!
//! [`Files::file_response`] makes the response: conditions, then ranges select the part to send
//! (`conditional`, `reply`).
//!
//! A directory without an index may be listed (`listing`), by the caller on a helper thread.
//!
//! The crate never waits for the network and never writes to the disk, except for log lines about
//! links that are not followed and files that may not be opened. A file whose name starts with a
//! dot or is that of PHP source is never sent, independent of the configuration and the links on
//! its path. The caller provides the time.
#![forbid(unsafe_code)]

mod cache;
mod classify;
pub mod conditional;
mod denial;
mod etag;
pub mod hidden;
mod inspect;
pub mod listing;
mod load;
pub mod mime;
mod outcome;
mod reason;
mod reply;
mod resolve;
mod share;
mod watch;

use std::cell::{Cell, RefCell};
use std::hash::RandomState;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use howdah_http::encoding::AcceptEncoding;
use howdah_http::message::Request;
use howdah_sys::log::Level;
use rustix::io::Errno;

use self::cache::{Cache, Key};
use self::classify::{Classifier, Target};
use self::listing::Listing;
use self::load::{Loader, Resource};

pub use self::denial::DenialLog;
pub use self::inspect::{FileKind, Inspected};
pub use self::outcome::{FoundFile, ScriptPath, ServeOutcome};
pub use self::reason::NotServedReason;
pub use self::reply::redirect_to_directory;
pub use self::resolve::Opener;
pub use self::share::{FileLocation, Options, Share};
pub use self::watch::{Watched, WatchedEntry, WatchedView};

/// Time for which a cached result is used without a system call.
pub const REVALIDATION_INTERVAL: Duration = Duration::from_secs(1);

/// Shortest time between two log lines of a thread about links that are not followed.
const REFUSAL_INTERVAL: Duration = Duration::from_secs(10);

/// File server of one thread.
#[derive(Debug)]
pub struct Files {
    opener: Opener,
    /// Settings for paths outside of shares.
    outside: Share,
    limits: Limits,
    hasher: RandomState,
    boundaries: Cell<u64>,
    resources: RefCell<Cache<Recent<Rc<Resource>>>>,
    findings: RefCell<Cache<Recent<Finding>>>,
    log: Option<Arc<DenialLog>>,
    /// Time of the last log line about a link.
    last_logged: Cell<Option<Instant>>,
}

/// Limits of a thread's cache.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Memory of the cache in bytes; an eighth of it is for negative results (missing, directory,
    /// script).
    pub bytes: usize,
    /// Maximum number of cached files, and separately of cached negative results.
    pub entries: usize,
    /// Files of up to this many bytes are kept in memory; larger ones are kept open.
    pub body: u64,
    /// Maximum number of files kept open.
    pub open: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { bytes: 32 << 20, entries: 8192, body: 256 << 10, open: 448 }
    }
}

impl Limits {
    /// Returns the part of `bytes` that is for files.
    fn resource_bytes(&self) -> usize {
        self.bytes - self.bytes / 8
    }
}

/// Time of a request on both clocks.
#[derive(Debug, Clone, Copy)]
pub struct RequestTime {
    /// For the age of cached results.
    pub monotonic: Instant,
    /// For HTTP dates.
    pub wall: SystemTime,
}

/// Cached value with the time of its lookup.
#[derive(Debug, Clone)]
struct Recent<T> {
    at: Instant,
    value: T,
}

/// Class of a location without a file to send.
#[derive(Debug, Clone)]
enum Finding {
    Directory,
    Listing,
    Script(ScriptPath),
    Missing(NotServedReason),
}

/// Result of a lookup.
enum Found {
    File(Rc<Resource>),
    Other(Finding),
}

impl Files {
    /// Creates a file server with an empty cache.
    pub fn new(limits: Limits) -> Self {
        Files {
            opener: Opener::new(),
            outside: Share::new("", Options::default()),
            limits,
            hasher: RandomState::new(),
            boundaries: Cell::new(0),
            resources: RefCell::new(Cache::new(limits.resource_bytes(), limits.entries)),
            findings: RefCell::new(Cache::new(limits.bytes / 8, limits.entries)),
            log: None,
            last_logged: Cell::default(),
        }
    }

    /// Sets the log for links that are not followed because of their owner, and for paths to which
    /// the system denies access.
    pub fn with_log(self, log: Arc<DenialLog>) -> Self {
        Files { log: Some(log), ..self }
    }

    /// Finds the outcome of a request for a location: from a fresh cached result, or else on the
    /// disk.
    pub fn look_up(
        &self,
        share: &Share,
        place: FileLocation<'_>,
        request: &Request,
        now: RequestTime,
    ) -> ServeOutcome {
        let is_read = matches!(&*request.method, b"GET" | b"HEAD") || share.options().is_decided;
        if !is_read && !share.options().scripts {
            return ServeOutcome::NotServed(NotServedReason::MethodNotAllowed);
        }
        let key = Key::new(share.id(), place, &self.hasher);
        let accept = || AcceptEncoding::of(&request.fields);
        let found = self.cached(&key, accept, now.monotonic).unwrap_or_else(|previous| {
            let found = self.inspect(share, &place, accept(), previous.as_deref(), now.wall);
            self.cache_result(&key, &found, now.monotonic);
            if !matches!(found, Found::Other(Finding::Missing(_))) {
                // A copy that is compressed, a directory that cannot be read: the request is
                // served.
                let _ = self.opener.take_denied();
            }
            self.log_refusals(Some(request), now.monotonic);
            found
        });
        match found {
            Found::Other(Finding::Missing(reason)) => ServeOutcome::NotServed(reason),
            Found::Other(Finding::Script(script)) => ServeOutcome::Script(script),
            Found::File(_) | Found::Other(Finding::Directory | Finding::Listing) if !is_read => {
                ServeOutcome::NotServed(NotServedReason::MethodNotAllowed)
            }
            Found::Other(Finding::Directory) => ServeOutcome::Directory,
            Found::Other(Finding::Listing) => match share.options().listing {
                Some(format) => {
                    ServeOutcome::Listing(Box::new(Listing::new(share, &place, format)))
                }
                None => ServeOutcome::NotServed(NotServedReason::NotFound),
            },
            Found::File(resource) => match resource.choose(accept) {
                Some(variant) => ServeOutcome::File(FoundFile(Rc::clone(variant))),
                None => ServeOutcome::NotServed(NotServedReason::Failed(Errno::IO)),
            },
        }
    }

    /// Returns a fresh cached result. Error: the resource of an earlier one, if any.
    fn cached(
        &self,
        key: &Key<'_>,
        accept: impl FnOnce() -> AcceptEncoding,
        now: Instant,
    ) -> Result<Found, Option<Rc<Resource>>> {
        let is_fresh = |at: Instant| now.saturating_duration_since(at) < REVALIDATION_INTERVAL;
        if let Some(recent) = self.resources.borrow_mut().get(key) {
            let resource = Rc::clone(&recent.value);
            let is_usable = is_fresh(recent.at) && resource.choose(accept).is_some();
            return if is_usable { Ok(Found::File(resource)) } else { Err(Some(resource)) };
        }
        match self.findings.borrow_mut().get(key) {
            Some(recent) if is_fresh(recent.at) => Ok(Found::Other(recent.value.clone())),
            _ => Err(None),
        }
    }

    /// Logs the path that the last inspection was not permitted to open, and the link that it did
    /// not follow.
    fn log_refusals(&self, request: Option<&Request>, now: Instant) {
        if let (Some(denial), Some(log)) = (self.opener.take_denied(), &self.log) {
            log.write(&denial, request, now);
        }
        let Some(link) = self.opener.take_refused() else { return };
        let is_recent = |at: Instant| now.saturating_duration_since(at) < REFUSAL_INTERVAL;
        if let Some(log) = &self.log
            && !self.last_logged.get().is_some_and(is_recent)
        {
            self.last_logged.set(Some(now));
            log.write_line(Level::Warn, request, format_args!("{}", link.with_advice()));
        }
    }

    fn cache_result(&self, key: &Key<'_>, found: &Found, at: Instant) {
        let mut resources = self.resources.borrow_mut();
        let mut findings = self.findings.borrow_mut();
        match found {
            Found::File(resource) if resource.is_settled => {
                findings.remove(key);
                // An open file weighs its part of the cache: the limit in bytes bounds open files
                // too.
                let open = self.limits.resource_bytes().div_ceil(self.limits.open.max(1));
                let weight = resource.weight(if self.limits.open > 0 { open } else { usize::MAX });
                resources.insert(key, Recent { at, value: Rc::clone(resource) }, weight);
            }
            // A recently written file is inspected for each request until it has settled.
            Found::File(_) | Found::Other(Finding::Missing(NotServedReason::Failed(_))) => {
                findings.remove(key);
                resources.remove(key);
            }
            Found::Other(finding) => {
                resources.remove(key);
                let weight = match finding {
                    Finding::Script(_) => 3 * key.place.path.len() + key.place.root.len(),
                    Finding::Directory | Finding::Listing | Finding::Missing(_) => 0,
                };
                findings.insert(key, Recent { at, value: finding.clone() }, weight);
            }
        }
    }

    /// Classifies the location and loads its file.
    fn inspect(
        &self,
        share: &Share,
        place: &FileLocation<'_>,
        accept: AcceptEncoding,
        previous: Option<&Resource>,
        wall: SystemTime,
    ) -> Found {
        let opener = &self.opener;
        let (index, opened) = match (Classifier { opener, share, place }).classify() {
            Ok(Target::File { index, opened }) => (index, opened),
            Ok(Target::Directory) => return Found::Other(Finding::Directory),
            Ok(Target::Listing) => return Found::Other(Finding::Listing),
            Ok(Target::Script(script)) => return Found::Other(Finding::Script(script)),
            Err(reason) => return Found::Other(Finding::Missing(reason)),
        };
        let max_body = self.limits.body;
        let loader = Loader { opener, share, place, index, accept, previous, max_body, wall };
        Found::File(Rc::new(loader.load(opened)))
    }
}

#[cfg(test)]
mod tests;
