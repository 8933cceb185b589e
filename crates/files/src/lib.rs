//! Static files: from a request to a file, a redirect, a script to run, or a reason why not.
//!
//! In the order of [`Files::serve_at`]:
//!
//! 1. A method other than GET and HEAD ends here, unless the share has scripts.
//! 2. What is known about the place from less than [`RECHECK`] ago is used as it is: no system
//!    call (`cache`).
//! 3. Otherwise the place is looked up (`look`): a script (byte-exact `.php`, also in front of
//!    more path segments), then the media type allowed (`mime`), then names that are never sent
//!    (`hidden`), then the file or the directory's index (`resolve`, and `links` where symbolic links
//!    are on the way).
//! 4. A regular file becomes a resource with its precompressed siblings, their heads and small
//!    bodies (`load`, `precompressed`); what the last look found is reused if it is unchanged.
//! 5. Conditions, then ranges decide what of it is sent (`conditional`, `range`, `reply`).
//!
//! Nothing here blocks on the network or writes to the disk, but for a line in the log about a link
//! that is not followed. No file is sent whose name says PHP source or starts with a dot, whatever
//! the configuration and the links on the way to it. The clock is the caller's.
#![forbid(unsafe_code)]

mod cache;
pub mod conditional;
pub mod hidden;
mod links;
mod load;
mod look;
pub mod mime;
mod outcome;
pub mod range;
pub mod regular_file;
mod reply;
mod resolve;
mod share;
mod socket;

use std::cell::{Cell, RefCell};
use std::hash::RandomState;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use howdah_http::encoding::AcceptEncoding;
use howdah_http::message::{Request, Response};
use howdah_sys::log::{Level, Log};
use rustix::io::Errno;

use self::cache::{Cache, Key};
use self::conditional::Conditions;
use self::load::{Load, Resource};
use self::look::{Look, Target};

pub use self::links::{RefusedLink, refused_link};
pub use self::outcome::{Outcome, Reason, ScriptPath};
pub use self::reply::directory as redirect_to_directory;
pub use self::resolve::Opener;
pub use self::share::{Options, Place, Share};
pub use self::socket::FoundSocket;

/// How long a finding is used without looking at the disk again.
pub const RECHECK: Duration = Duration::from_secs(1);

/// A thread tells the log of a link that is not followed at most this often.
const REFUSAL_INTERVAL: Duration = Duration::from_secs(10);

/// Serves files on one thread.
#[derive(Debug)]
pub struct Files {
    opener: Opener,
    limits: Limits,
    hasher: RandomState,
    boundaries: Cell<u64>,
    resources: RefCell<Cache<Recent<Rc<Resource>>>>,
    findings: RefCell<Cache<Recent<Finding>>>,
    log: Option<Arc<Log>>,
    /// When the log was told of a link.
    logged: Cell<Option<Instant>>,
}

/// What a thread may keep.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of everything kept, an eighth of it for findings that are no file.
    pub bytes: usize,
    /// Cached files, and as many findings that are no file.
    pub entries: usize,
    /// Files up to this many bytes are kept in memory, larger ones open.
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
    /// Bytes of files that are kept.
    fn resource_bytes(&self) -> usize {
        self.bytes - self.bytes / 8
    }
}

/// The time of a request on both clocks.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// For the age of findings.
    pub monotonic: Instant,
    /// For dates.
    pub wall: SystemTime,
}

/// A finding and when it was made.
#[derive(Debug, Clone)]
struct Recent<T> {
    at: Instant,
    what: T,
}

/// What is in a place, other than a file that can be sent.
#[derive(Debug, Clone)]
enum Finding {
    Directory,
    Script(ScriptPath),
    Missing(Reason),
}

/// What a lookup found.
enum Found {
    File(Rc<Resource>),
    Other(Finding),
}

impl Files {
    /// Nothing is cached yet.
    pub fn new(limits: Limits) -> Self {
        Files {
            opener: Opener::new(),
            limits,
            hasher: RandomState::new(),
            boundaries: Cell::new(0),
            resources: RefCell::new(Cache::new(limits.resource_bytes(), limits.entries)),
            findings: RefCell::new(Cache::new(limits.bytes / 8, limits.entries)),
            log: None,
            logged: Cell::default(),
        }
    }

    /// Tells the log of links that are not followed because of their owner.
    pub fn with_log(self, log: Arc<Log>) -> Self {
        Files { log: Some(log), ..self }
    }

    /// Serves the request's path under the share's root.
    pub fn serve(&self, share: &Share, request: &Request, now: Now) -> Outcome {
        self.serve_at(share, share.place(&request.path), request, now)
    }

    /// Serves a place that the caller worked out, for shares with variables and for chroots.
    pub fn serve_at(
        &self,
        share: &Share,
        place: Place<'_>,
        request: &Request,
        now: Now,
    ) -> Outcome {
        self.serve_or(share, place, request, now, redirect_to_directory)
    }

    /// As [`Files::serve_at`], but a directory is found only by a path with a slash at its end.
    pub fn serve_file_at(
        &self,
        share: &Share,
        place: Place<'_>,
        request: &Request,
        now: Now,
    ) -> Outcome {
        self.serve_or(share, place, request, now, |_| None)
    }

    /// `redirect` answers for a directory that lacks its slash.
    fn serve_or(
        &self,
        share: &Share,
        place: Place<'_>,
        request: &Request,
        now: Now,
        redirect: fn(&Request) -> Option<Response>,
    ) -> Outcome {
        let reads = matches!(&*request.method, b"GET" | b"HEAD");
        if !reads && !share.options().scripts {
            return Outcome::Missing(Reason::MethodNotAllowed);
        }
        match self.find(share, &place, request, now) {
            Found::Other(Finding::Missing(reason)) => Outcome::Missing(reason),
            Found::Other(Finding::Script(script)) => Outcome::Script(script),
            Found::File(_) | Found::Other(Finding::Directory) if !reads => {
                Outcome::Missing(Reason::MethodNotAllowed)
            }
            Found::File(resource) => self.answer(&resource, request, now),
            Found::Other(Finding::Directory) => {
                redirect(request).map_or(Outcome::Missing(Reason::NotFound), Outcome::Response)
            }
        }
    }

    fn answer(&self, resource: &Resource, request: &Request, now: Now) -> Outcome {
        let variant = resource.choose(|| AcceptEncoding::of(&request.fields));
        let Some(variant) = variant.filter(|variant| variant.has_content()) else {
            return Outcome::Missing(Reason::Failed(Errno::IO));
        };
        let conditions = Conditions::of(&request.fields);
        let boundary = || {
            self.boundaries.set(self.boundaries.get().wrapping_add(1));
            reply::boundary(&self.hasher, self.boundaries.get())
        };
        Outcome::Response(reply::file(variant, request, &conditions, now.wall, boundary))
    }

    /// Uses what is known, or looks and remembers.
    fn find(&self, share: &Share, place: &Place<'_>, request: &Request, now: Now) -> Found {
        let key = Key::new(share.id(), *place, &self.hasher);
        let is_fresh = |at: Instant| now.monotonic.saturating_duration_since(at) < RECHECK;
        let accept = || AcceptEncoding::of(&request.fields);
        let mut previous = None;
        if let Some(recent) = self.resources.borrow_mut().get(&key) {
            let has_content = recent.what.choose(accept).is_some_and(|v| v.has_content());
            if is_fresh(recent.at) && has_content {
                return Found::File(Rc::clone(&recent.what));
            }
            previous = Some(Rc::clone(&recent.what));
        } else if let Some(recent) = self.findings.borrow_mut().get(&key)
            && is_fresh(recent.at)
        {
            return Found::Other(recent.what.clone());
        }
        let found = self.look(share, place, accept(), previous.as_deref(), now.wall);
        self.remember(&key, &found, now.monotonic);
        self.report(now.monotonic);
        found
    }

    /// Logs a link that the last look has not followed.
    fn report(&self, now: Instant) {
        let Some(link) = self.opener.take_refused() else { return };
        let is_recent = |at: Instant| now.saturating_duration_since(at) < REFUSAL_INTERVAL;
        if let Some(log) = &self.log
            && !self.logged.get().is_some_and(is_recent)
        {
            self.logged.set(Some(now));
            log.write(Level::Warn, link.with_advice());
        }
    }

    fn remember(&self, key: &Key<'_>, found: &Found, at: Instant) {
        let mut resources = self.resources.borrow_mut();
        let mut findings = self.findings.borrow_mut();
        match found {
            Found::File(resource) if resource.settled => {
                findings.remove(key);
                // An open file takes its share of the cache, so the limit in bytes bounds open files.
                let open = self.limits.resource_bytes().div_ceil(self.limits.open.max(1));
                let weight = resource.weight(if self.limits.open > 0 { open } else { usize::MAX });
                resources.insert(key, Recent { at, what: Rc::clone(resource) }, weight);
            }
            // A file that has just been written is looked at each time until it has settled.
            Found::File(_) | Found::Other(Finding::Missing(Reason::Failed(_))) => {
                findings.remove(key);
                resources.remove(key);
            }
            Found::Other(finding) => {
                resources.remove(key);
                let weight = match finding {
                    Finding::Script(_) => 3 * key.place.path.len() + key.place.root.len(),
                    Finding::Directory | Finding::Missing(_) => 0,
                };
                findings.insert(key, Recent { at, what: finding.clone() }, weight);
            }
        }
    }

    /// Looks at the disk.
    fn look(
        &self,
        share: &Share,
        place: &Place<'_>,
        accept: AcceptEncoding,
        previous: Option<&Resource>,
        wall: SystemTime,
    ) -> Found {
        let opener = &self.opener;
        let (index, opened) = match (Look { opener, share, place }).run() {
            Ok(Target::File { index, opened }) => (index, opened),
            Ok(Target::Directory) => return Found::Other(Finding::Directory),
            Ok(Target::Script(script)) => return Found::Other(Finding::Script(script)),
            Err(reason) => return Found::Other(Finding::Missing(reason)),
        };
        let max_body = self.limits.body;
        let load = Load { opener, share, place, index, accept, previous, max_body, wall };
        Found::File(Rc::new(load.run(opened)))
    }
}

#[cfg(test)]
mod hardening_tests;
#[cfg(test)]
mod links_tests;
#[cfg(test)]
mod tests;
