//! W3C Trace Context: ids, and the values of `traceparent` and `tracestate`.
//!
//! Sections are those of the recommendation of 2021, level 1.

use std::fmt;

use howdah_text::hex;

/// Name of the field with the ids of the trace and of the caller's span.
pub const TRACEPARENT: &str = "traceparent";

/// Name of the field with the data of tracing systems.
pub const TRACESTATE: &str = "tracestate";

/// Length of a `traceparent` of version 00 in bytes.
const TRACEPARENT_BYTES: usize = 55;

/// Maximum length of a `tracestate` that is passed on, in bytes; its last members are left out
/// beyond it (3.3.1.5).
pub const MAX_STATE_BYTES: usize = 512;

/// Maximum number of members of a `tracestate` (3.3.1.1).
const MAX_STATE_MEMBERS: usize = 32;

/// Flag of a trace whose spans are sent (3.2.2.5.1).
pub const SAMPLED: u8 = 1;

/// Flag of a trace whose id is random (level 2, 3.2.2.5.2).
const RANDOM: u8 = 2;

/// Id of a trace. Never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

/// Id of a span. Never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId([u8; 8]);

/// The rules by which requests become parts of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tracing {
    /// Traces are sent whose ids are below this limit, of 2^63.
    limit: u64,
    /// `traceparent` of clients is obeyed.
    pub(crate) has_parents: bool,
    /// The request is a part of another one, such as a check, and has no spans of its own.
    pub(crate) is_part: bool,
}

impl Tracing {
    /// Returns the rules. `ratio` is the part of the traces that begin here which is sent, from 0
    /// to 1. Without `has_parents` each request begins a trace.
    pub fn new(ratio: f64, has_parents: bool) -> Tracing {
        // Other programs compare the same part of the id with the same limit (OpenTelemetry's
        // `TraceIdRatioBased`), so they take the same traces. The conversion saturates.
        let limit = if ratio >= 1.0 { u64::MAX } else { (ratio * (1u64 << 63) as f64) as u64 };
        Tracing { limit, has_parents, is_part: false }
    }

    /// Returns the rules for a part of a request.
    pub fn of_part(self) -> Tracing {
        Tracing { is_part: true, ..self }
    }

    /// Returns true if a trace that begins here is sent.
    pub(crate) fn takes(self, id: TraceId) -> bool {
        let [.., a, b, c, d, e, f, g, h] = id.0;
        u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 1 < self.limit
    }
}

/// What a `traceparent` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parent {
    /// Id of the trace.
    pub id: TraceId,
    /// Id of the caller's span.
    pub span: SpanId,
    /// The flags that have a meaning.
    pub flags: u8,
}

impl Parent {
    /// Reads a `traceparent` (3.2). `None` if it is malformed: then another trace begins (3.2.2).
    pub fn parse(text: &[u8]) -> Option<Parent> {
        let (known, rest) = text.split_at_checked(TRACEPARENT_BYTES)?;
        let [v0, v1, b'-', known @ ..] = known else { return None };
        let version = lower_hex(&[*v0, *v1])?;
        // Later versions may append parts; 255 is no version (3.2.2.1).
        if version == 255 || (version == 0 && !rest.is_empty()) {
            return None;
        }
        if !matches!(rest.first(), None | Some(b'-')) {
            return None;
        }
        let (id, known) = known.split_at_checked(32)?;
        let [b'-', known @ ..] = known else { return None };
        let (span, known) = known.split_at_checked(16)?;
        let [b'-', flags @ ..] = known else { return None };
        let (mut trace_bytes, mut span_bytes) = ([0; 16], [0; 8]);
        read_hex(id, &mut trace_bytes)?;
        read_hex(span, &mut span_bytes)?;
        let flags = lower_hex(flags)? & (SAMPLED | RANDOM);
        Some(Parent { id: TraceId::new(trace_bytes)?, span: SpanId::new(span_bytes)?, flags })
    }
}

/// Joins the values of `tracestate` (3.3.1). `None` if nothing is left, or they are malformed.
pub fn join_state<'a>(values: impl Iterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let members = values.flat_map(|value| value.split(|byte| *byte == b','));
    let mut keys: Vec<&[u8]> = Vec::new();
    let (mut joined, mut is_full) = (Vec::new(), false);
    for member in members {
        let start = member.iter().position(|byte| !is_blank(byte)).unwrap_or(member.len());
        let end = member.iter().rposition(|byte| !is_blank(byte)).map_or(start, |last| last + 1);
        let member = member.get(start..end).unwrap_or_default();
        if member.is_empty() {
            continue;
        }
        let key = state_key(member)?;
        if keys.contains(&key) || keys.len() == MAX_STATE_MEMBERS {
            return None;
        }
        keys.push(key);
        is_full |= joined.len() + usize::from(!joined.is_empty()) + member.len() > MAX_STATE_BYTES;
        if !is_full {
            if !joined.is_empty() {
                joined.push(b',');
            }
            joined.extend_from_slice(member);
        }
    }
    (!joined.is_empty()).then_some(joined)
}

/// Returns the key of a member of `tracestate`; `None` if the member is malformed.
fn state_key(member: &[u8]) -> Option<&[u8]> {
    let at = member.iter().position(|byte| *byte == b'=')?;
    let (key, value) = (member.get(..at)?, member.get(at + 1..)?);
    let is_start = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_key = |byte: &u8| is_start(byte) || matches!(byte, b'_' | b'-' | b'*' | b'/' | b'@');
    let is_value = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b',' | b'=');
    let is_well_formed = key.first().is_some_and(is_start)
        && key.len() <= 256
        && key.iter().all(is_key)
        && !value.is_empty()
        && value.len() <= 256
        && value.iter().all(is_value);
    is_well_formed.then_some(key)
}

impl TraceId {
    /// Makes an id; `None` of zeroes alone.
    pub fn new(bytes: [u8; 16]) -> Option<TraceId> {
        (bytes != [0; 16]).then_some(TraceId(bytes))
    }

    pub(crate) fn from_numbers([high, low]: [u64; 2]) -> TraceId {
        let number = u128::from(high) << 64 | u128::from(low);
        TraceId(number.max(1).to_be_bytes())
    }

    /// Returns the bytes.
    pub fn bytes(self) -> [u8; 16] {
        self.0
    }
}

impl SpanId {
    /// Makes an id; `None` of zeroes alone.
    pub fn new(bytes: [u8; 8]) -> Option<SpanId> {
        (bytes != [0; 8]).then_some(SpanId(bytes))
    }

    pub(crate) fn from_number(number: u64) -> SpanId {
        SpanId(number.max(1).to_be_bytes())
    }

    /// Returns the bytes.
    pub fn bytes(self) -> [u8; 8] {
        self.0
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

/// Reads two digits, of which letters must be lower case (3.2.1).
fn lower_hex(digits: &[u8]) -> Option<u8> {
    if digits.iter().any(u8::is_ascii_uppercase) { None } else { hex::byte(digits) }
}

fn read_hex(digits: &[u8], into: &mut [u8]) -> Option<()> {
    for (byte, pair) in into.iter_mut().zip(digits.chunks(2)) {
        *byte = lower_hex(pair)?;
    }
    Some(())
}

#[cfg(test)]
mod tests;
