//! The trace that a request belongs to: W3C Trace Context, from the client and to scripts and
//! servers.
//!
//! A request has a trace only while the document has `settings/telemetry`. Then its
//! [`Handling`](crate::handling::Handling) has the [`Tracing`](crate::trace_context::Tracing)
//! rules, and all else follows from the request: its `traceparent`, or its own id where it has none
//! or a malformed one. So a request that nobody asks for its trace costs only the rules, and all
//! that ask get the same ids.

use howdah_text::hex;

use crate::message::{Request, keyed_hash};
use crate::trace_context::{Parent, SAMPLED, SpanId, TRACEPARENT, TRACESTATE, TraceId, join_state};

/// Length of a `traceparent` of version 0 in bytes.
const TRACE_PARENT_LENGTH: usize = 55;

/// The trace of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trace {
    /// Id of the trace.
    pub id: TraceId,
    /// The client's span; `None` if the trace begins here.
    pub parent: Option<SpanId>,
    /// The span of the request.
    pub span: SpanId,
    /// The spans of the trace are sent.
    pub is_sampled: bool,
    flags: u8,
    is_part: bool,
}

/// A span below that of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Child {
    /// The script.
    Script,
    /// Waiting for a process, or for the start of PHP.
    Queue,
    /// Looking for a stored response.
    Cache,
    /// The attempt of this number to pass the request to a server, from 0.
    Attempt(usize),
}

/// The fields for the party that a request is passed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceFields {
    /// Value of `traceparent`.
    pub parent: String,
    /// Value of `tracestate`; `None` without the field.
    pub state: Option<Vec<u8>>,
}

impl Trace {
    /// Returns the trace of a request; `None` without telemetry.
    pub fn of(request: &Request) -> Option<Trace> {
        let tracing = request.handling.tracing()?;
        let span = SpanId::from_number(keyed_hash(request.id, 2));
        let is_part = tracing.is_part;
        let parent = if tracing.has_parents { parent(request) } else { None };
        Some(match parent {
            Some(Parent { id, span: parent, flags }) => Trace {
                id,
                parent: Some(parent),
                span,
                is_sampled: flags & SAMPLED != 0,
                flags,
                is_part,
            },
            None => {
                // The same digits as of the request's id: a log with one leads to the other.
                let id = TraceId::from_numbers([0, 1].map(|half| keyed_hash(request.id, half)));
                let is_sampled = tracing.takes(id);
                let flags = if is_sampled { SAMPLED } else { 0 };
                Trace { id, parent: None, span, is_sampled, flags, is_part }
            }
        })
    }

    /// Returns the id of a span below that of the request.
    pub fn child(&self, child: Child) -> SpanId {
        let number = match child {
            Child::Script => 1,
            Child::Queue => 2,
            Child::Cache => 3,
            Child::Attempt(number) => 16 + number as u64,
        };
        SpanId::from_number(mix(u64::from_be_bytes(self.span.bytes()), number))
    }

    /// Returns the fields for the script, or for the server of the last attempt.
    fn fields(&self, request: &Request, child: Child) -> TraceFields {
        // The spans of parts are not sent, so that their servers would have unknown parents.
        let span = if self.is_part { self.span } else { self.child(child) };
        let state = self.parent.and_then(|_| state(request));
        TraceFields { parent: trace_parent(self.id, span, self.flags), state }
    }
}

impl TraceFields {
    /// Returns the fields for the script of a request; `None` without telemetry, where those of the
    /// client stay.
    pub fn for_script(request: &Request) -> Option<TraceFields> {
        Some(Trace::of(request)?.fields(request, Child::Script))
    }

    /// Returns the same for the server that is about to get the request, as its last attempt.
    pub fn for_attempt(request: &Request) -> Option<TraceFields> {
        let trace = Trace::of(request)?;
        let number = request.handling.steps().saturating_sub(1);
        Some(trace.fields(request, Child::Attempt(number)))
    }

    /// Returns names and values.
    pub fn pairs(&self) -> impl Iterator<Item = (&'static str, &[u8])> {
        let parent = (TRACEPARENT, self.parent.as_bytes());
        [parent].into_iter().chain(self.state.as_deref().map(|state| (TRACESTATE, state)))
    }

    /// Returns true for the name of a field that these replace.
    pub fn replace(name: &[u8]) -> bool {
        name.eq_ignore_ascii_case(TRACEPARENT.as_bytes())
            || name.eq_ignore_ascii_case(TRACESTATE.as_bytes())
    }
}

/// Returns a value of `traceparent`. Each request of a script has one, and `format!` takes 0.2 µs.
fn trace_parent(id: TraceId, span: SpanId, flags: u8) -> String {
    let mut value = String::with_capacity(TRACE_PARENT_LENGTH);
    value.push_str("00-");
    hex::append(&mut value, &id.bytes());
    value.push('-');
    hex::append(&mut value, &span.bytes());
    value.push('-');
    hex::append(&mut value, &[flags]);
    value
}

/// Returns the parent that a request names, in just one field.
fn parent(request: &Request) -> Option<Parent> {
    let mut values = request.fields.get_all(TRACEPARENT);
    let first = values.next()?;
    if values.next().is_some() {
        return None;
    }
    Parent::parse(first)
}

/// Returns the `tracestate` of a request as one value; `None` if there is none, or a malformed one.
pub fn state(request: &Request) -> Option<Vec<u8>> {
    join_state(request.fields.get_all(TRACESTATE))
}

/// Returns another number for each `step`, and for each start (the finaliser of SplitMix64, which
/// maps no two numbers to one).
fn mix(start: u64, step: u64) -> u64 {
    let mut number = start.wrapping_add(step.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

#[cfg(test)]
mod tests;
