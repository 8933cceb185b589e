//! The counts of one thread: a request costs a look-up by two addresses and a few additions.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use howdah_http::exchange::SendOutcome;
use howdah_http::usage::AddressHasher;

use crate::finished::{FinishedRequest, Parts, micros};
use crate::histogram::Histogram;

/// Methods with counts of their own.
pub(crate) const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Classes of statuses; the last one is for responses that were never sent.
pub(crate) const CLASSES: [&str; 6] = ["1xx", "2xx", "3xx", "4xx", "5xx", "none"];

/// Index of the class of server errors.
const SERVER_ERRORS: usize = 4;

/// Counts of the requests of a site to a listener.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Numbers of requests by method ([`METHODS`], then all others) and class ([`CLASSES`]).
    pub(crate) requests: [[u64; CLASSES.len()]; METHODS.len() + 1],
    /// Bytes of requests.
    pub received: u64,
    /// Bytes of responses.
    pub sent: u64,
    /// Responses that the client has not taken to their end.
    pub(crate) cut_by_client: u64,
    /// Responses that a script, a file or an upstream has not brought to their end.
    pub(crate) cut_by_server: u64,
    /// Whole times.
    pub(crate) whole: Histogram,
    /// Parts of these times, in the order of [`Parts::named`].
    pub(crate) parts: [Histogram; 5],
}

impl Counts {
    fn add(&mut self, request: &FinishedRequest<'_>) {
        let method = METHODS.iter().position(|method| method.as_bytes() == request.method);
        let class = match request.status / 100 {
            class @ 1..=5 => usize::from(class) - 1,
            _ => CLASSES.len() - 1,
        };
        let of_method = self.requests.get_mut(method.unwrap_or(METHODS.len()));
        if let Some(count) = of_method.and_then(|classes| classes.get_mut(class)) {
            *count += 1;
        }
        self.received = self.received.saturating_add(request.received);
        self.sent = self.sent.saturating_add(request.sent);
        match request.outcome {
            SendOutcome::Complete => {}
            SendOutcome::ClientGone => self.cut_by_client += 1,
            SendOutcome::BodyFailed => self.cut_by_server += 1,
        }
        self.whole.add(micros(request.whole));
        if request.parts != Parts::default() {
            for (histogram, (_, time)) in self.parts.iter_mut().zip(request.parts.named()) {
                time.into_iter().for_each(|time| histogram.add(time));
            }
        }
    }

    /// Adds other counts.
    pub fn merge(&mut self, other: &Counts) {
        let cells = self.requests.as_flattened_mut().iter_mut();
        cells.zip(other.requests.as_flattened()).for_each(|(count, more)| *count += more);
        self.received = self.received.saturating_add(other.received);
        self.sent = self.sent.saturating_add(other.sent);
        self.cut_by_client += other.cut_by_client;
        self.cut_by_server += other.cut_by_server;
        self.whole.merge(&other.whole);
        self.parts.iter_mut().zip(&other.parts).for_each(|(own, more)| own.merge(more));
    }

    /// Returns the number of requests with an error of the server (5xx).
    pub fn errors(&self) -> u64 {
        self.requests.iter().filter_map(|classes| classes.get(SERVER_ERRORS)).sum()
    }

    /// Returns the number of requests.
    pub fn requests(&self) -> u64 {
        self.requests.as_flattened().iter().sum()
    }
}

/// The counts of one thread since they were taken last.
///
/// Names are found by their addresses, of which a configuration has a few: comparing names would
/// take longer than counting. Names are kept, so no other ones get their addresses.
#[derive(Debug, Default)]
pub struct Tally {
    counts: RefCell<HashMap<(usize, usize), Series, BuildHasherDefault<AddressHasher>>>,
}

/// Counts of a site and a listener.
type Series = (Arc<str>, Arc<str>, Box<Counts>);

impl Tally {
    /// Counts a request.
    pub fn add(&self, request: &FinishedRequest<'_>) {
        self.with(request.site, request.listener, |counts| counts.add(request));
    }

    /// Takes the counts, which begin anew. A site and a listener may have several.
    pub fn take(&self) -> Vec<Series> {
        self.counts.borrow_mut().drain().map(|(_, series)| series).collect()
    }

    /// Adds counts that were taken, and reached nobody.
    pub fn add_again(&self, taken: &[Series]) {
        for (site, listener, counts) in taken {
            self.with(site, listener, |own| own.merge(counts));
        }
    }

    fn with(&self, site: &Arc<str>, listener: &Arc<str>, count: impl FnOnce(&mut Counts)) {
        let address = |name: &Arc<str>| Arc::as_ptr(name).cast::<u8>() as usize;
        let mut all = self.counts.borrow_mut();
        let new = || (Arc::clone(site), Arc::clone(listener), Box::default());
        count(&mut all.entry((address(site), address(listener))).or_insert_with(new).2);
    }
}

#[cfg(test)]
mod tests;
