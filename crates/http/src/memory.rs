//! Memory that requests and responses take while they wait: limited for each client, for each site
//! and in total.
//!
//! Each kind of memory has a [`Budget`]. A [`Charge`] is the share of one request or response in
//! it; a short one is free. Content that several responses send at the same time, such as a page in
//! the cache, counts once.
//!
//! If no memory is left, a body goes to a file, a connection reads and sends in smaller parts, and
//! a page is not put together. A proxy, or a program on the same machine, sends the requests of
//! many clients: the limit for a client does not apply to it.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::client::network;

/// Size in bytes up to which a request or a response is free.
pub const FREE_BYTES: usize = 16 << 10;

/// Memory in bytes that each site has, even if other sites have used up the rest.
const SITE_BYTES: usize = 1 << 20;

/// Unit in which memory is counted, in bytes; smaller changes are not counted.
const STEP: usize = 16 << 10;

/// Time between two lines of the log about a budget.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Responses that clients do not read.
pub static RESPONSES: Budget = Budget::new("responses that clients do not read", 1);

/// Heads and bodies of requests that have not arrived as a whole, or wait.
pub static REQUESTS: Budget = Budget::new("requests that have not arrived or wait", 1);

/// Responses while they are collected for a cache.
pub static COLLECTED: Budget =
    Budget::new("responses that are collected for a cache, before their end,", 1);

/// Pages while they are put together from parts.
pub static PAGES: Budget = Budget::new("pages while they are put together", 2);

/// Requests of HTTP/2 and HTTP/3 that are being answered, without the memory that another budget
/// counts.
pub static STREAMS: Budget =
    Budget::new("requests of HTTP/2 and HTTP/3 that are being answered", 2);

/// The first requests of each connection of HTTP/2 or HTTP/3, which count for the client only. A
/// site has a limit for clients that are not known.
pub static FIRST_STREAMS: Budget =
    Budget::new("first requests of HTTP/2 and HTTP/3 connections that are being answered", 2)
        .without_total();

/// Temporary files with responses that clients do not read ([`Budget::set_total`]).
pub static FILES: Budget =
    Budget::new("temporary files of responses that clients do not read", 64).of_disk();

/// All budgets.
static BUDGETS: [&Budget; 7] =
    [&RESPONSES, &REQUESTS, &COLLECTED, &PAGES, &STREAMS, &FIRST_STREAMS, &FILES];

/// The owner of memory: a client, a site, or both.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Owner {
    /// The client, if it is known and its requests are not those of many.
    client: Option<IpAddr>,
    /// Name of the application, share or upstream, or else of the listener.
    site: Option<Arc<str>>,
}

impl Owner {
    /// Returns the owner of memory for a client (`None` if it is not known) and a site.
    pub fn new(client: Option<IpAddr>, site: Option<Arc<str>>) -> Owner {
        let address = client.map(|address| address.to_canonical());
        Owner { client: address.filter(|address| !address.is_loopback()).map(network), site }
    }

    /// Returns the client alone, if it is known.
    #[must_use]
    pub fn client_first(self) -> Owner {
        match self.client {
            Some(_) => Owner { site: None, ..self },
            None => self,
        }
    }

    /// Returns the same owner on a listener, without the client if it is a proxy.
    #[must_use]
    pub fn on(self, listener: &Arc<str>, is_proxy: bool) -> Owner {
        Owner {
            client: self.client.filter(|_| !is_proxy),
            site: Some(self.site.unwrap_or_else(|| Arc::clone(listener))),
        }
    }
}

/// Memory of one kind, or space on a disk.
#[derive(Debug)]
pub struct Budget {
    /// The content of the memory, for the log.
    what: &'static str,
    /// True for space on a disk.
    is_disk: bool,
    /// Maximum memory of all, of a site and of a client in bytes.
    max: AtomicUsize,
    max_of_site: AtomicUsize,
    max_of_client: AtomicUsize,
    used: Mutex<Option<Used>>,
    has_report: AtomicBool,
}

#[derive(Debug, Default)]
struct Used {
    bytes: usize,
    clients: HashMap<IpAddr, usize>,
    sites: HashMap<Option<Arc<str>>, usize>,
    /// Contents: the number of charges with one, and its bytes.
    contents: HashMap<usize, (usize, usize)>,
    report: Option<Report>,
    reported_at: Option<Instant>,
}

/// A limit that was reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    what: &'static str,
    is_disk: bool,
    who: Reached,
    bytes: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Reached {
    Client(IpAddr),
    Site(Arc<str>),
    All,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, mib) = (self.what, self.bytes >> 20);
        match &self.who {
            Reached::Client(client) => write!(f, "client {client}: ")?,
            Reached::Site(site) => write!(f, "{site}: ")?,
            Reached::All => {}
        }
        let kind = if self.is_disk { "disk space" } else { "memory" };
        write!(f, "{what} take {mib} MiB of {kind}, which is the limit of ")?;
        f.write_str(match &self.who {
            Reached::Client(_) => "a client",
            Reached::Site(_) => "a site",
            Reached::All => "the server",
        })?;
        f.write_str(if self.is_disk {
            ": further responses are cut off (\"response_temp_size\" of \
                                       the settings of HTTP)"
        } else {
            ": bytes beyond it go to temporary files, or are refused (docs/security.md, \
                 \"Memory of the router\")"
        })
    }
}

/// Returns the report of a limit that was reached; at most one a minute for each budget.
pub fn report(now: Instant) -> Option<Report> {
    BUDGETS.iter().find_map(|budget| budget.report(now))
}

/// Content in memory that other responses may be sent, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Content {
    /// Address of its end, which stays while parts are taken from the beginning.
    end: usize,
    bytes: usize,
}

impl Budget {
    /// Creates a budget of `times` the usual one.
    const fn new(what: &'static str, times: usize) -> Budget {
        Budget {
            what,
            is_disk: false,
            max: AtomicUsize::new(times * (128 << 20)),
            max_of_site: AtomicUsize::new(times * (64 << 20)),
            max_of_client: AtomicUsize::new(times * (32 << 20)),
            used: Mutex::new(None),
            has_report: AtomicBool::new(false),
        }
    }

    /// Returns the budget without a limit for all.
    const fn without_total(mut self) -> Budget {
        self.max = AtomicUsize::new(usize::MAX);
        self
    }

    /// Returns the budget as one of space on a disk.
    const fn of_disk(mut self) -> Budget {
        self.is_disk = true;
        self
    }

    /// Sets the limit for all in bytes. A site may have a half of it, a client a quarter.
    pub fn set_total(&self, bytes: u64) {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.max.store(bytes, Relaxed);
        self.max_of_site.store(bytes / 2, Relaxed);
        self.max_of_client.store(bytes / 4, Relaxed);
    }

    fn with<T>(&self, change: impl FnOnce(&mut Used) -> T) -> T {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        change(used.get_or_insert_default())
    }

    /// Returns the number of bytes that count for a client.
    #[cfg(test)]
    pub(crate) fn used_by(&self, client: IpAddr) -> usize {
        self.with(|used| used.clients.get(&client).copied().unwrap_or_default())
    }

    fn report(&self, now: Instant) -> Option<Report> {
        if !self.has_report.load(Relaxed) {
            return None;
        }
        self.with(|used| {
            let is_due = used
                .reported_at
                .is_none_or(|at| now.saturating_duration_since(at) >= REPORT_INTERVAL);
            let report = used.report.take().filter(|_| is_due);
            if report.is_some() {
                used.reported_at = Some(now);
            }
            self.has_report.store(false, Relaxed);
            report
        })
    }

    /// Counts `new` in place of `old`. Returns false, and changes nothing, if there is not as much
    /// left.
    fn exchange(&self, owner: &Owner, old: &mut Share, new: (usize, Option<Content>)) -> bool {
        self.with(|used| {
            used.remove(owner, old);
            let (own, content) = new;
            // The size of a content is the number of bytes that was counted first.
            let unknown = content.filter(|content| !used.contents.contains_key(&content.end));
            let counted = own + unknown.map_or(0, |content| content.bytes);
            let reached = self.reached(used, owner, counted).filter(|_| counted > old.counted);
            let fits = reached.is_none();
            match reached {
                None => *old = Share { own, content, counted },
                Some((who, bytes)) => {
                    let (what, is_disk) = (self.what, self.is_disk);
                    used.report.get_or_insert(Report { what, is_disk, who, bytes });
                    self.has_report.store(true, Relaxed);
                }
            }
            used.add(owner, old);
            fits
        })
    }

    /// Returns the limit that further bytes of an owner would exceed, in bytes.
    fn reached(&self, used: &Used, owner: &Owner, bytes: usize) -> Option<(Reached, usize)> {
        let [max, max_of_site, max_of_client] =
            [&self.max, &self.max_of_site, &self.max_of_client].map(|limit| limit.load(Relaxed));
        let of_site = used.sites.get(&owner.site).copied().unwrap_or(0) + bytes;
        if let Some(client) = owner.client
            && used.clients.get(&client).copied().unwrap_or(0) + bytes > max_of_client
        {
            return Some((Reached::Client(client), max_of_client));
        }
        match &owner.site {
            Some(site) if of_site > max_of_site => {
                Some((Reached::Site(Arc::clone(site)), max_of_site))
            }
            _ if used.bytes + bytes > max && of_site > SITE_BYTES => Some((Reached::All, max)),
            _ => None,
        }
    }
}

impl Used {
    fn add(&mut self, owner: &Owner, share: &Share) {
        self.bytes += share.own;
        if let Some(Content { end, bytes }) = share.content {
            let (shares, _) = self.contents.entry(end).or_insert((0, bytes));
            self.bytes += if *shares == 0 { bytes } else { 0 };
            *shares += 1;
        }
        if share.counted > 0 {
            *self.sites.entry(owner.site.clone()).or_default() += share.counted;
            if let Some(client) = owner.client {
                *self.clients.entry(client).or_default() += share.counted;
            }
        }
    }

    fn remove(&mut self, owner: &Owner, share: &Share) {
        self.bytes -= share.own;
        if let Some(Content { end, .. }) = share.content
            && let Some((shares, bytes)) = self.contents.get_mut(&end)
        {
            *shares -= 1;
            if *shares == 0 {
                self.bytes -= *bytes;
                self.contents.remove(&end);
            }
        }
        if share.counted > 0 {
            subtract(&mut self.sites, &owner.site, share.counted);
            if let Some(client) = owner.client {
                subtract(&mut self.clients, &client, share.counted);
            }
        }
    }
}

fn subtract<K: Hash + Eq>(table: &mut HashMap<K, usize>, key: &K, bytes: usize) {
    let Some(of_key) = table.get_mut(key) else { return };
    *of_key -= bytes;
    if *of_key == 0 {
        table.remove(key);
    }
}

/// A part of a budget.
#[derive(Debug, Default)]
struct Share {
    own: usize,
    content: Option<Content>,
    /// Bytes that count for the owner. A content counts only for the first response with it.
    counted: usize,
}

/// The share of one request or response in a budget, until dropped.
#[derive(Debug)]
pub struct Charge {
    budget: &'static Budget,
    owner: Owner,
    share: Share,
}

impl Charge {
    /// Creates a charge of 0 bytes.
    pub fn new(budget: &'static Budget, owner: Owner) -> Charge {
        Charge { budget, owner, share: Share::default() }
    }

    /// Returns the owner.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Counts `bytes` bytes in place of those counted before. Returns false, and changes nothing,
    /// if there are not as many left.
    pub fn hold(&mut self, bytes: usize) -> bool {
        self.hold_with(bytes, None, 0)
    }

    /// Counts `own` bytes and the memory of a content in place of those counted before. The content
    /// may be the rest of one of `whole` bytes, all of which are in memory until the rest is gone.
    /// Returns false, and changes nothing, if there is not as much left.
    pub fn hold_with(&mut self, own: usize, content: Option<&Bytes>, whole: usize) -> bool {
        let before = &mut self.share;
        let content = content.filter(|content| content.len() > FREE_BYTES).map(|content| {
            let end = content.as_ptr() as usize + content.len();
            Content { end, bytes: whole.max(content.len()) }
        });
        let own = if own <= FREE_BYTES { 0 } else { own.next_multiple_of(STEP) };
        // Not each small step is counted.
        let is_near = own <= before.own && own > before.own / 2;
        (content == before.content && (own == before.own || is_near))
            || self.budget.exchange(&self.owner, before, (own, content))
    }

    /// Gives back all that is counted.
    pub fn release(&mut self) {
        let share = std::mem::take(&mut self.share);
        if share.own > 0 || share.content.is_some() {
            self.budget.with(|used| used.remove(&self.owner, &share));
        }
    }

    /// Returns bytes that count until they are dropped.
    pub fn own(self, bytes: Vec<u8>) -> Bytes {
        match self.share.own {
            0 => bytes.into(),
            _ => Bytes::from_owner(Owned { bytes, _charge: self }),
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.release();
    }
}

/// Bytes with their charge.
struct Owned {
    bytes: Vec<u8>,
    _charge: Charge,
}

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests;
