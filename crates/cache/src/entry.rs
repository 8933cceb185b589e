//! A stored response.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use howdah_http::message::FieldBlock;

use crate::freshness::Source;
use crate::place::Place;
use crate::vary::Selection;

/// Bytes that an entry takes beside its content: the structures, and the allocator's overhead.
const OVERHEAD: usize = 512;

/// The conditions under which a stored response may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// Age at its arrival in seconds (RFC 9111, 4.2.3).
    pub initial_age: u64,
    /// Arrival in seconds since 1970.
    pub received: u64,
    /// Lifetime in seconds.
    pub lifetime: u64,
    /// What states the lifetime; `None` if nothing does.
    pub source: Option<Source>,
    /// Must be validated before each use.
    pub no_cache: bool,
    /// Seconds for which it may be used stale while it is refreshed.
    pub stale_while_revalidate: u64,
    /// Seconds for which it may be used stale if it cannot be refreshed.
    pub stale_if_error: u64,
    /// It may be used stale if a request asks for that (`max-stale`).
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
    pub body: Bytes,
    /// Conditions of its use.
    pub terms: Terms,
    /// Entity tag as received.
    pub etag: Option<Bytes>,
    /// `Last-Modified` as received.
    pub last_modified: Option<Bytes>,
    /// Request fields that select it.
    pub selection: Selection,
    /// What it can be purged by.
    pub place: Place,
    /// Number of purges before the request that it answers.
    pub epoch: u64,
    /// Number of purges that did not concern it.
    pub checked: AtomicU64,
    /// Number of times that it was sent.
    pub uses: AtomicU64,
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

    /// Returns the memory of the entry in bytes.
    pub fn weight(&self) -> usize {
        let selection = self.selection.iter().map(|(name, value)| {
            name.len() + value.as_ref().map_or(0, |value| value.len()) + size_of_val(name) * 2
        });
        OVERHEAD
            + self.body.len()
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
