//! Requests of a ring as bytes.
//!
//! A number is written in groups of seven bits, the lowest first; the eighth bit says that another
//! group follows. A text is its length and its bytes.

use std::time::Duration;

use howdah_http::exchange::SendOutcome;
use howdah_http::handling::{Handling, ScriptFacts};
use howdah_http::trace_context::TraceId;

use super::{KeptRequest, MAX_METHOD, MAX_NAME, MAX_TARGET, MAX_UPSTREAMS};
use crate::finished::{FinishedRequest, Parts, micros};

/// Bits that say which members of a request follow.
const ID: u64 = 1;
const TRACE: u64 = 1 << 1;
const SCRIPT: u64 = 1 << 2;
const STARTED_PHP: u64 = 1 << 3;
const CACHE_STATUS: u64 = 1 << 4;
const FAILURE: u64 = 1 << 5;
const CUT: u64 = 1 << 6;
const CLIENT_GONE: u64 = 1 << 7;
const BODY_FAILED: u64 = 1 << 8;
/// The first of the five bits for the [parts](Parts::named) of the time.
const PARTS: u64 = 1 << 9;

/// Requests with consecutive numbers.
#[derive(Debug, Default)]
pub struct Block {
    /// Number of the first request.
    first: u64,
    len: usize,
    bytes: Vec<u8>,
    /// Words for the results of the cache, of which requests have the index.
    cache_words: Vec<&'static str>,
}

impl Block {
    /// Removes all requests. `first` is the number of the next one.
    pub fn clear(&mut self, first: u64) {
        // Long targets of a time shall not keep their memory for ever.
        self.bytes.shrink_to(self.bytes.len().saturating_mul(2));
        self.bytes.clear();
        self.first = first;
        self.len = 0;
    }

    /// The number of requests.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The number of the first request.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The memory of the block in bytes.
    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Adds a request that ends at `at` (since 1970).
    pub fn add(&mut self, at: Duration, request: &FinishedRequest<'_>) {
        let failure = request.handling.and_then(Handling::failure);
        let parts = request.parts.named();
        let bits = [
            (ID, request.id.is_some()),
            (TRACE, request.trace.is_some()),
            (SCRIPT, request.script.is_some()),
            (STARTED_PHP, request.script.is_some_and(|script| script.has_started_php)),
            (CACHE_STATUS, request.cache_status.is_some()),
            (FAILURE, failure.is_some()),
            (CUT, request.target.len() > MAX_TARGET),
            (CLIENT_GONE, request.outcome == SendOutcome::ClientGone),
            (BODY_FAILED, request.outcome == SendOutcome::BodyFailed),
        ];
        let mut flags =
            bits.iter().filter(|(_, is_set)| *is_set).fold(0, |flags, (bit, _)| flags | bit);
        for (index, (_, time)) in parts.iter().enumerate() {
            flags |= u64::from(time.is_some()) * (PARTS << index);
        }
        let cache_word = request.cache_status.map(|word| self.cache_word(word));

        let out = &mut self.bytes;
        number(out, flags);
        number(out, micros(at));
        number(out, request.status.into());
        number(out, request.received);
        number(out, request.sent);
        number(out, micros(request.whole));
        parts.iter().filter_map(|(_, time)| *time).for_each(|time| number(out, time));
        if let Some(id) = request.id {
            number(out, id);
        }
        if let Some(trace) = request.trace {
            out.extend_from_slice(&trace.id.bytes());
        }
        if let Some(script) = request.script {
            number(out, script.queued_at_us);
            number(out, script.waited_us);
            number(out, script.ran_us);
            number(out, script.cpu_us);
            number(out, script.peak_memory);
        }
        if let Some(word) = cache_word {
            number(out, word);
        }
        if let Some(failure) = failure {
            text(out, failure.as_bytes());
        }
        text(out, cut(request.site.as_bytes(), MAX_NAME));
        text(out, cut(request.listener.as_bytes(), MAX_NAME));
        text(out, cut(request.method, MAX_METHOD));
        text(out, cut(request.target, MAX_TARGET));
        let mut room = MAX_UPSTREAMS;
        request.for_each_upstream(|address| {
            if !address.is_empty() && address.len() < room {
                room -= address.len() + 1;
                text(out, address.as_bytes());
            }
        });
        text(out, b"");
        self.len += 1;
    }

    /// Returns the requests, the oldest first.
    pub fn decode(&self) -> impl Iterator<Item = KeptRequest> {
        let mut reader = Reader { bytes: &self.bytes };
        (self.first..).map_while(move |number| reader.request(number, &self.cache_words))
    }

    fn cache_word(&mut self, word: &'static str) -> u64 {
        let known = self.cache_words.iter().position(|known| *known == word);
        let index = known.unwrap_or_else(|| {
            self.cache_words.push(word);
            self.cache_words.len() - 1
        });
        index as u64
    }
}

fn cut(text: &[u8], max: usize) -> &[u8] {
    text.get(..max).unwrap_or(text)
}

fn number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn text(out: &mut Vec<u8>, text: &[u8]) {
    number(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// Reads what [`Block::add`] has written.
struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn request(&mut self, number: u64, cache_words: &[&'static str]) -> Option<KeptRequest> {
        let flags = self.number()?;
        let has = |bit: u64| flags & bit != 0;
        let at = Duration::from_micros(self.number()?);
        let status = self.number()? as u16;
        let received = self.number()?;
        let sent = self.number()?;
        let whole = self.number()?;
        let mut times = [None; 5];
        for (index, time) in times.iter_mut().enumerate() {
            if has(PARTS << index) {
                *time = Some(self.number()?);
            }
        }
        let [queue, start, script, upstream, sending] = times;
        let parts = Parts { queue, start, script, upstream, sending };
        let id = if has(ID) { Some(self.number()?) } else { None };
        let trace =
            if has(TRACE) { Some(TraceId::new(*self.take(16)?.first_chunk()?)?) } else { None };
        let script = if has(SCRIPT) {
            Some(ScriptFacts {
                queued_at_us: self.number()?,
                waited_us: self.number()?,
                has_started_php: has(STARTED_PHP),
                ran_us: self.number()?,
                cpu_us: self.number()?,
                peak_memory: self.number()?,
            })
        } else {
            None
        };
        let cache_status = if has(CACHE_STATUS) {
            cache_words.get(self.number()? as usize).copied()
        } else {
            None
        };
        let failure = if has(FAILURE) {
            Some(String::from_utf8_lossy(self.text()?).into_owned().into())
        } else {
            None
        };
        let mut texts = Vec::new();
        let mut ends = [0; 4];
        for end in &mut ends {
            texts.extend_from_slice(self.text()?);
            *end = texts.len() as u16;
        }
        loop {
            match self.text()? {
                b"" => break,
                address => {
                    texts.extend_from_slice(address);
                    texts.push(b' ');
                }
            }
        }
        let outcome = match () {
            () if has(CLIENT_GONE) => SendOutcome::ClientGone,
            () if has(BODY_FAILED) => SendOutcome::BodyFailed,
            () => SendOutcome::Complete,
        };
        Some(KeptRequest {
            number,
            at,
            id,
            trace,
            status,
            received,
            sent,
            whole,
            parts,
            script,
            cache_status,
            outcome,
            failure,
            text: texts,
            ends,
            is_cut: has(CUT),
        })
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.bytes.split_at_checked(length)?;
        self.bytes = left;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.take(1)?.first()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        self.take(length)
    }
}
