//! A stored response.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use howdah_http::body::Body;
use howdah_http::body::in_kernel::{InKernel, MIN_SENT};
use howdah_http::message::{Encoding, FieldBlock};

use crate::freshness::Source;
use crate::place::Place;
use crate::space::content::DiskContent;
use crate::vary::Selection;

/// Bytes that an entry takes beside its content: the structures, and the allocator's overhead.
const OVERHEAD: usize = 768;

/// The conditions under which a stored response may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// Age at its arrival in seconds (RFC 9111, 4.2.3).
    pub initial_age: u64,
    /// Arrival in seconds since 1970.
    pub received: u64,
    /// Lifetime in seconds.
    pub lifetime: u64,
    /// The source of the lifetime; `None` if there is none.
    pub source: Option<Source>,
    /// Must be validated before each use.
    pub no_cache: bool,
    /// Seconds for which it may be used stale while it is refreshed.
    pub stale_while_revalidate: u64,
    /// Seconds for which it may be used stale if it cannot be refreshed.
    pub stale_if_error: u64,
    /// The response may be used stale if a request asks for that (`max-stale`).
    pub may_be_stale: bool,
}

/// A stored response. Only its counters ever change.
#[derive(Debug)]
pub struct Entry {
    /// Status.
    pub status: u16,
    /// Reason phrase, if it is not the registered one.
    pub reason: Option<Bytes>,
    /// Fields for clients, with `Date`, without `Age` and those that must not be stored.
    pub fields: FieldBlock,
    /// Content.
    pub body: Content,
    /// Conditions of its use.
    pub terms: Terms,
    /// Entity tag as received.
    pub etag: Option<Bytes>,
    /// `Last-Modified` as received.
    pub last_modified: Option<Bytes>,
    /// Request fields that select it.
    pub selection: Selection,
    /// The URL, host and tags by which it can be purged.
    pub place: Place,
    /// Number of purges before the request that it answers.
    pub epoch: u64,
    /// Number of purges that did not concern it.
    pub checked: AtomicU64,
    /// Number of times that it was sent.
    pub uses: AtomicU64,
    /// The content in other encodings.
    pub copies: Copies,
    /// The memory that a store counts for it.
    pub charge: Charge,
}

/// The content of a response.
#[derive(Debug, Clone)]
pub enum Content {
    /// In memory.
    Memory(Bytes),
    /// In the file of the store.
    Disk(DiskContent),
}

impl Default for Content {
    fn default() -> Self {
        Content::Memory(Bytes::new())
    }
}

impl From<Bytes> for Content {
    fn from(bytes: Bytes) -> Self {
        Content::Memory(bytes)
    }
}

impl Content {
    /// Returns its length.
    pub fn len(&self) -> u64 {
        match self {
            Content::Memory(bytes) => bytes.len() as u64,
            Content::Disk(content) => content.len(),
        }
    }

    /// Returns true if it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns it if it is in memory.
    pub fn memory(&self) -> Option<&Bytes> {
        match self {
            Content::Memory(bytes) => Some(bytes),
            Content::Disk(_) => None,
        }
    }

    /// Returns a part of it as a body, from its beginning if `start` is 0; both are limited by its
    /// length.
    pub fn body(&self, start: u64, end: u64) -> Body {
        match self {
            Content::Memory(bytes) => {
                let at = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
                bytes.slice(at(start).min(at(end))..at(end)).into()
            }
            Content::Disk(content) => Body::Stream(Box::new(content.stream(start, end))),
        }
    }

    /// Returns the whole of it as a body.
    pub fn whole(&self) -> Body {
        match self {
            Content::Memory(bytes) => bytes.clone().into(),
            Content::Disk(content) => Body::Stream(Box::new(content.stream(0, content.len()))),
        }
    }
}

/// The content in the encodings that clients have asked for.
#[derive(Debug, Default)]
pub struct Copies {
    known: [OnceLock<Bytes>; 4],
    /// A bit for each that a response is being compressed for.
    claims: AtomicU8,
    /// Number of times that the content was sent to plain TCP, up to [`MIN_SENT`].
    sent: AtomicU8,
    /// A copy of the content that the kernel sends.
    in_kernel: OnceLock<Option<Arc<InKernel>>>,
}

impl Clone for Copies {
    fn clone(&self) -> Self {
        let (known, in_kernel) = (self.known.clone(), self.in_kernel.clone());
        let sent = AtomicU8::new(self.sent.load(Relaxed));
        Copies { known, claims: AtomicU8::new(0), sent, in_kernel }
    }
}

impl Copies {
    /// Returns the content in an encoding, if it is known: empty if it is not shorter than the
    /// content itself.
    pub fn get(&self, encoding: Encoding) -> Option<Bytes> {
        self.slot(encoding)?.get().cloned()
    }

    /// Keeps the content in an encoding. Returns false if it is known.
    pub fn set(&self, encoding: Encoding, content: Bytes) -> bool {
        self.slot(encoding).is_some_and(|slot| slot.set(content).is_ok())
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        let encoded = self.known.iter().filter_map(OnceLock::get).map(Bytes::len);
        let in_kernel = self.in_kernel.get().and_then(Option::as_ref).map(|copy| copy.len());
        encoded.chain(in_kernel).sum()
    }

    /// Returns true if there are no copies.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the copy of the content in memory of the kernel, and whether it was made for this:
    /// content that was sent a few times gets one.
    pub fn in_kernel(&self, content: &[u8]) -> (Option<Arc<InKernel>>, bool) {
        if let Some(copy) = self.in_kernel.get() {
            return (copy.clone(), false);
        }
        if self.sent.fetch_add(1, Relaxed) < MIN_SENT {
            return (None, false);
        }
        let mut is_new = false;
        let copy = self.in_kernel.get_or_init(|| {
            is_new = true;
            InKernel::new(content).map(Arc::new)
        });
        (copy.clone(), is_new && copy.is_some())
    }

    /// Claims the right to make the copy in an encoding. False if another response has it, or the
    /// copy is known.
    pub fn claim(&self, encoding: Encoding) -> bool {
        let bit = 1 << Copies::index(encoding);
        self.get(encoding).is_none() && self.claims.fetch_or(bit, Relaxed) & bit == 0
    }

    /// Gives the right up.
    pub fn release(&self, encoding: Encoding) {
        self.claims.fetch_and(!(1 << Copies::index(encoding)), Relaxed);
    }

    fn slot(&self, encoding: Encoding) -> Option<&OnceLock<Bytes>> {
        self.known.get(Copies::index(encoding))
    }

    fn index(encoding: Encoding) -> usize {
        match encoding {
            Encoding::Brotli => 0,
            Encoding::Deflate => 1,
            Encoding::Gzip => 2,
            Encoding::Zstandard => 3,
        }
    }
}

/// The memory that a store counts for an entry; 0 if it is not stored.
#[derive(Debug, Default)]
pub struct Charge(AtomicU64);

impl Charge {
    /// Begins to count. Returns the bytes, unless they are counted already.
    pub fn begin(&self, bytes: u64) -> Option<u64> {
        self.0.compare_exchange(0, bytes, Relaxed, Relaxed).is_ok().then_some(bytes)
    }

    /// Counts more. Returns false if the entry is no longer stored.
    pub fn grow(&self, bytes: u64) -> bool {
        let more = |counted: u64| (counted > 0).then(|| counted.saturating_add(bytes));
        self.0.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    /// Ends counting. Returns the bytes that were counted.
    pub fn end(&self) -> Option<u64> {
        Some(self.0.swap(0, Relaxed)).filter(|bytes| *bytes > 0)
    }
}

impl Terms {
    /// Returns true if the response itself states its lifetime.
    pub fn is_explicit(&self) -> bool {
        self.source.is_some_and(Source::is_response)
    }
}

impl Entry {
    /// Returns the age at a time, in seconds since 1970.
    pub fn age(&self, now: u64) -> u64 {
        self.terms.initial_age.saturating_add(now.saturating_sub(self.terms.received))
    }

    /// Returns the memory of the entry in bytes. Content in a file counts, too: the entry keeps its
    /// chunks from being used again, and an owner must not hold more of them than its share.
    pub fn weight(&self) -> usize {
        let selection = self.selection.iter().map(|(name, value)| {
            name.len() + value.as_ref().map_or(0, |value| value.len()) + size_of_val(name) * 2
        });
        OVERHEAD
            + usize::try_from(self.body.len()).unwrap_or(usize::MAX)
            + self.copies.len()
            + self.fields.as_bytes().len()
            + self.place.weight()
            + selection.sum::<usize>()
    }

    /// Returns true if an upstream server can be asked whether the response is still current.
    pub fn has_validator(&self) -> bool {
        self.etag.is_some() || self.last_modified.is_some()
    }

    /// Counts a use.
    pub fn count_use(&self) {
        self.uses.fetch_add(1, Relaxed);
    }
}
