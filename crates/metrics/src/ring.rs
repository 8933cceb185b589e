//! The last requests of one thread, in memory of a bounded size.
//!
//! Requests are [encoded](encoded) one after the other in blocks. A block is used again, with its
//! memory, so a request allocates nothing once the ring is full, and touches a few bytes next to
//! those of the former request: the memory of a whole ring is in no cache of the processor.
//! Texts are cut: nobody can make the ring larger than its number of requests says.

mod encoded;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use howdah_http::exchange::SendOutcome;
use howdah_http::handling::ScriptFacts;
use howdah_http::trace_context::TraceId;

use crate::finished::{FinishedRequest, Parts};
use encoded::Block;

/// Maximum lengths of the texts of a request in bytes.
const MAX_NAME: usize = 128;
const MAX_METHOD: usize = 16;
const MAX_TARGET: usize = 512;
const MAX_UPSTREAMS: usize = 128;

/// Number of requests in a block.
const BLOCK_REQUESTS: usize = 64;

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
    requests: RefCell<Requests>,
}

#[derive(Debug)]
struct Requests {
    /// The oldest block first. The last one is being filled.
    blocks: VecDeque<Block>,
    /// Number of the next request.
    next: u64,
    /// Maximum number of requests that are listed.
    capacity: usize,
}

impl Ring {
    /// Creates an empty ring. `first` is the number of the first request: higher than those of a
    /// former process, so that somebody who has seen its requests does not miss the new ones.
    pub fn new(first: u64) -> Self {
        Ring {
            requests: RefCell::new(Requests { blocks: VecDeque::new(), next: first, capacity: 0 }),
        }
    }

    /// Keeps a request that ends at `now` (since 1970), as one of the last `capacity` requests.
    pub fn keep(&self, request: &FinishedRequest<'_>, now: Duration, capacity: usize) {
        let requests = &mut *self.requests.borrow_mut();
        requests.capacity = capacity;
        if capacity == 0 {
            requests.blocks = VecDeque::new();
            return;
        }
        if requests.blocks.back().is_none_or(|block| block.len() == BLOCK_REQUESTS) {
            let block = requests.next_block();
            requests.blocks.push_back(block);
        }
        if let Some(block) = requests.blocks.back_mut() {
            block.add(now, request);
            requests.next += 1;
        }
    }

    /// Returns the last requests of a filter, the oldest first, and the number of the last request
    /// of all. `thread` is the number of this thread.
    pub fn list(&self, filter: &Filter, thread: usize) -> (Vec<KeptRequest>, u64) {
        let requests = self.requests.borrow();
        let last = requests.next.saturating_sub(1);
        let oldest = requests.next.saturating_sub(requests.capacity as u64);
        let after = filter.after.get(thread).copied().unwrap_or(0);
        let mut found = VecDeque::new();
        for block in requests.blocks.iter().rev() {
            let wanted = |request: &KeptRequest| request.number > after && request.number >= oldest;
            let mut of_block: Vec<_> =
                block.decode().filter(wanted).filter(|request| filter.matches(request)).collect();
            while let Some(request) = of_block.pop()
                && found.len() < filter.max
            {
                found.push_front(request);
            }
            if block.first() <= after.max(oldest) || found.len() >= filter.max {
                break;
            }
        }
        (found.into(), last)
    }
}

impl Requests {
    /// Returns an empty block: the oldest one if the others have enough requests.
    fn next_block(&mut self) -> Block {
        // The block that is being filled does not count.
        let needed = self.capacity.div_ceil(BLOCK_REQUESTS);
        let mut oldest = None;
        while self.blocks.len() > needed {
            oldest = self.blocks.pop_front();
        }
        let mut block = oldest.unwrap_or_default();
        block.clear(self.next);
        block
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
