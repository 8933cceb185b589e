//! The last requests of one thread, in memory of a fixed size.
//!
//! A place is used again, with its memory, so a request allocates nothing once the ring is full.
//! Texts are cut: nobody can make the ring larger than its number of places says.

use std::cell::{Cell, RefCell};
use std::hint;
use std::time::Duration;

use howdah_http::exchange::SendOutcome;
use howdah_http::handling::{Handling, ScriptFacts};
use howdah_http::trace_context::TraceId;

use crate::finished::{FinishedRequest, Parts, micros};

/// Maximum lengths of the texts of a request in bytes.
const MAX_NAME: usize = 128;
const MAX_METHOD: usize = 16;
const MAX_TARGET: usize = 512;
const MAX_UPSTREAMS: usize = 128;

/// A request of a ring.
#[derive(Debug, Clone)]
pub struct KeptRequest {
    /// Number of the request on its thread; later ones have higher numbers.
    pub number: u64,
    /// End of the request, since 1970.
    pub at: Duration,
    /// Id of the request; `None` if its head was refused.
    pub id: Option<u64>,
    /// Id of its trace; `None` without telemetry.
    pub trace: Option<TraceId>,
    /// Status of the response.
    pub status: u16,
    /// Bytes of the request.
    pub received: u64,
    /// Bytes of the response.
    pub sent: u64,
    /// Time of the whole request in microseconds.
    pub whole: u64,
    /// Parts of that time.
    pub parts: Parts,
    /// Facts about its script.
    pub script: Option<ScriptFacts>,
    /// nginx's word for the result of the cache.
    pub cache_status: Option<&'static str>,
    /// Result of sending the response.
    pub outcome: SendOutcome,
    /// Reason why its program has died, in a short line.
    pub failure: Option<Box<str>>,
    /// Site, listener, method, target and upstream servers, one after the other.
    text: Vec<u8>,
    ends: [u16; 4],
    /// The target was cut.
    pub is_cut: bool,
}

/// The texts of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Texts<'a> {
    /// Site.
    pub site: &'a [u8],
    /// Listener.
    pub listener: &'a [u8],
    /// Method.
    pub method: &'a [u8],
    /// Target, not masked.
    pub target: &'a [u8],
    /// Addresses of upstream servers, separated by spaces.
    pub upstreams: &'a [u8],
}

impl KeptRequest {
    /// Returns the texts.
    pub fn texts(&self) -> Texts<'_> {
        let mut begin = 0;
        let mut next = |end: usize| {
            let text = self.text.get(begin..end).unwrap_or_default();
            begin = end;
            text
        };
        let [site, listener, method, target] = self.ends.map(|end| next(end.into()));
        Texts { site, listener, method, target, upstreams: next(self.text.len()) }
    }

    fn set<'r>(&mut self, number: u64, at: Duration, request: &FinishedRequest<'r>) {
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        let cut = |part: &'r [u8], max: usize| part.get(..max).unwrap_or(part);
        let parts = [
            cut(request.site.as_bytes(), MAX_NAME),
            cut(request.listener.as_bytes(), MAX_NAME),
            cut(request.method, MAX_METHOD),
            cut(request.target, MAX_TARGET),
        ];
        // Once for all, and no more than it takes: a place keeps its memory.
        text.reserve_exact(parts.iter().map(|part| part.len()).sum());
        let ends = parts.map(|part| {
            text.extend_from_slice(part);
            text.len() as u16
        });
        let mut room = MAX_UPSTREAMS;
        request.for_each_upstream(|address| {
            if address.len() < room {
                room -= address.len() + 1;
                text.reserve_exact(address.len() + 1);
                text.extend_from_slice(address.as_bytes());
                text.push(b' ');
            }
        });
        *self = KeptRequest {
            number,
            at,
            id: request.id,
            trace: request.trace.map(|trace| trace.id),
            status: request.status,
            received: request.received,
            sent: request.sent,
            whole: micros(request.whole),
            parts: request.parts,
            script: request.script,
            cache_status: request.cache_status,
            outcome: request.outcome,
            failure: request.handling.and_then(Handling::failure),
            text,
            ends,
            is_cut: request.target.len() > MAX_TARGET,
        };
    }

    fn unused() -> Self {
        KeptRequest {
            number: 0,
            at: Duration::ZERO,
            id: None,
            trace: None,
            status: 0,
            received: 0,
            sent: 0,
            whole: 0,
            parts: Parts::default(),
            script: None,
            cache_status: None,
            outcome: SendOutcome::Complete,
            failure: None,
            text: Vec::new(),
            ends: [0; 4],
            is_cut: false,
        }
    }
}

/// Which requests of a ring are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// The sites; any if `None`.
    pub sites: Option<Vec<String>>,
    /// The first and the last status; any if `None`.
    pub status: Option<(u16, u16)>,
    /// Minimum time of the whole request in microseconds.
    pub min_time: u64,
    /// Numbers on each thread, after which requests are wanted.
    pub after: Vec<u64>,
    /// Maximum number of requests: the last ones.
    pub max: usize,
}

impl Filter {
    fn matches(&self, request: &KeptRequest) -> bool {
        request.whole >= self.min_time
            && self.status.is_none_or(|(first, last)| (first..=last).contains(&request.status))
            && self.sites.as_ref().is_none_or(|sites| {
                let kept = request.texts().site;
                let is_kept = |site: &[u8]| kept == site.get(..MAX_NAME).unwrap_or(site);
                sites.iter().any(|site| is_kept(site.as_bytes()))
            })
    }
}

/// The last requests of one thread.
#[derive(Debug)]
pub struct Ring {
    places: RefCell<Vec<KeptRequest>>,
    /// Number of the next request.
    next: Cell<u64>,
    /// Index of the place of the next request.
    at: Cell<usize>,
}

impl Ring {
    /// Creates an empty ring. `first` is the number of the first request: higher than those of a
    /// former process, so that somebody who has seen its requests does not miss the new ones.
    pub fn new(first: u64) -> Self {
        Ring { places: RefCell::default(), next: Cell::new(first), at: Cell::default() }
    }

    /// Keeps a request that ends at `now` (since 1970) in one of `capacity` places.
    pub fn keep(&self, request: &FinishedRequest<'_>, now: Duration, capacity: usize) {
        let places = &mut *self.places.borrow_mut();
        if capacity < places.len() {
            // The configuration has changed: the oldest ones leave.
            let first = self.at.get().min(places.len());
            places.rotate_left(first);
            let surplus = places.len() - capacity;
            places.drain(..surplus);
            places.shrink_to_fit();
            self.at.set(0);
        }
        if capacity == 0 {
            return;
        }
        let mut at = self.at.get();
        if places.len() < capacity {
            // The oldest one is at the beginning, or a former size has made room.
            let first = at.min(places.len());
            places.rotate_left(first);
            at = places.len();
            places.push(KeptRequest::unused());
        }
        let number = self.next.get();
        self.next.set(number + 1);
        if let Some(place) = places.get_mut(at) {
            place.set(number, now, request);
        }
        let next = if at + 1 == capacity { 0 } else { at + 1 };
        // The ring is larger than the caches of a processor: its memory is read while the next
        // request is on its way, so that keeping that request does not wait for it.
        if let Some(place) = places.get(next) {
            hint::black_box((place.number, place.failure.is_some(), place.text.first().copied()));
        }
        self.at.set(next);
    }

    /// Returns the last requests of a filter, the oldest first, and the number of the last request
    /// of all. `thread` is the number of this thread.
    pub fn list(&self, filter: &Filter, thread: usize) -> (Vec<KeptRequest>, u64) {
        let places = self.places.borrow();
        let after = filter.after.get(thread).copied().unwrap_or(0);
        let (old, new) = places.split_at(self.at.get().min(places.len()));
        let latest_first = old.iter().rev().chain(new.iter().rev());
        let found = latest_first
            .take_while(|request| request.number > after)
            .filter(|request| filter.matches(request));
        let mut found: Vec<_> = found.take(filter.max).cloned().collect();
        found.reverse();
        (found, self.next.get().saturating_sub(1))
    }
}

/// What a thread answers to a question about the last requests.
#[derive(Debug)]
pub struct KeptRequests {
    /// Number of the thread.
    pub thread: u32,
    /// The requests, the oldest first.
    pub requests: Vec<KeptRequest>,
    /// Number of the last request of the thread.
    pub last: u64,
}

#[cfg(test)]
mod tests;
