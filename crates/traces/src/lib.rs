//! Traces: decides which finished requests are sent, and writes their spans.
//!
//! 1. [`is_wanted`]: the caller's decision or the ratio, which all parties know from the start, and
//!    the rules for slow and failed requests, which only the end of a request can tell.
//! 2. [`write`]: spans for the request, the cache, the queue or the start of PHP, the script, and
//!    each attempt at another server, in the form of [`howdah_wire::spans`], for the telemetry
//!    process.
//!
//! The ids come from [`howdah_http::trace`]: scripts and servers have got them long before.
//!
//! This crate does no I/O and reads no clock.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::time::{Duration, Instant};

use howdah_config::Telemetry;
use howdah_http::exchange::{RequestRecord, SendOutcome};
use howdah_http::handling::{Fact, Facts, Handling, ScriptFacts};
use howdah_http::mask::mask_query;
use howdah_http::message::{Request, ShownAddress, ShownRequestId, Version};
use howdah_http::trace::{Child, Trace};
use howdah_http::trace_context::SpanId;
use howdah_metrics::FinishedRequest;
use howdah_template::{UpstreamVariable, Variable};
use howdah_wire::spans::{Attribute, Span, SpanKind, SpanWriter};

/// Methods that have names in the semantic conventions.
const METHODS: [&str; 9] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// The end of a request on all clocks that times are measured with.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// Time since 1970.
    pub wall: Duration,
    /// Time of the process's clock.
    pub instant: Instant,
    /// Time of the monotonic clock in microseconds, which workers use.
    pub monotonic_us: u64,
}

/// Returns true if the spans of a finished request are sent.
pub fn is_wanted(settings: &Telemetry, trace: &Trace, record: &RequestRecord<'_>) -> bool {
    trace.is_sampled
        || settings.slow.is_some_and(|slow| record.elapsed >= slow)
        || (settings.failed && has_failed(record))
}

/// Returns true if the server has failed to answer a request.
fn has_failed(record: &RequestRecord<'_>) -> bool {
    record.status >= 500 || record.outcome == SendOutcome::BodyFailed
}

/// Appends the spans of a request that has ended at `now`. `secrets` are names of query arguments
/// whose values are hidden. Returns the number of spans.
pub fn write(
    finished: &FinishedRequest<'_>,
    record: &RequestRecord<'_>,
    trace: &Trace,
    now: Moment,
    secrets: &[String],
    out: &mut Vec<u8>,
) -> u64 {
    let Some(request) = record.request else { return 0 };
    let state = trace.parent.and_then(|_| howdah_http::trace::state(request)).unwrap_or_default();
    let mut writer = Writer {
        trace,
        // ASCII, as was checked.
        state: String::from_utf8(state).unwrap_or_default(),
        now,
        whole: record.elapsed,
        out,
        written: 0,
    };
    writer.request(finished, request, record, secrets);
    let handling = &request.handling;
    let first_child = writer.script(handling);
    let first_child = writer.attempts(handling, request, first_child);
    writer.cache(handling, first_child);
    writer.written
}

/// Writes the spans of one request. Times are counted from its first byte.
struct Writer<'a> {
    trace: &'a Trace,
    state: String,
    now: Moment,
    whole: Duration,
    out: &'a mut Vec<u8>,
    written: u64,
}

/// A span below that of the request.
struct Part<'a> {
    id: SpanId,
    kind: SpanKind,
    name: &'a str,
    from: Duration,
    to: Duration,
    has_failed: bool,
}

impl Writer<'_> {
    /// Returns a time in nanoseconds since 1970.
    fn nanoseconds(&self, at: Duration) -> u64 {
        let start = self.now.wall.saturating_sub(self.whole);
        u64::try_from((start + at.min(self.whole)).as_nanos()).unwrap_or(u64::MAX)
    }

    fn request(
        &mut self,
        finished: &FinishedRequest<'_>,
        request: &Request,
        record: &RequestRecord<'_>,
        secrets: &[String],
    ) {
        let Trace { id, parent, span, is_sampled, .. } = *self.trace;
        let method = known_method(&request.method);
        let times = (self.nanoseconds(Duration::ZERO), self.nanoseconds(self.whole));
        let has_failed = has_failed(record);
        let span = Span {
            trace: id.bytes(),
            id: span.bytes(),
            parent: parent.map(SpanId::bytes).unwrap_or_default(),
            has_remote_parent: parent.is_some(),
            is_sampled,
            has_failed,
            kind: SpanKind::Server,
            times,
            name: method.unwrap_or("HTTP"),
            state: &self.state,
        };
        self.written += 1;
        let mut writer = SpanWriter::new(self.out, &span);
        write_method(&mut writer, method, &request.method);
        write_target(&mut writer, request, secrets);
        write_addresses(&mut writer, request, record);
        writer.text(
            Attribute::ProtocolVersion,
            match request.version {
                Version::Http10 => "1.0",
                Version::Http11 => "1.1",
                Version::Http2 => "2",
                Version::Http3 => "3",
                Version::Session(name) => name,
            },
        );
        if let Some(agent) = request.fields.get("user-agent") {
            writer.text(Attribute::UserAgent, &String::from_utf8_lossy(agent));
        }
        writer.number(Attribute::Status, record.status.into());
        writer.number(Attribute::RequestSize, record.received);
        writer.number(Attribute::ResponseSize, record.sent);
        match record.outcome {
            SendOutcome::BodyFailed => {
                writer.text(Attribute::ErrorType, "cut_response");
            }
            SendOutcome::ClientGone => {
                writer.text(Attribute::ErrorType, "client_gone");
            }
            SendOutcome::Complete if has_failed => write_error(&mut writer, record.status.into()),
            SendOutcome::Complete => {}
        }
        writer.text(Attribute::Site, finished.site);
        writer.text(Attribute::Listener, finished.listener);
        writer.text(Attribute::RequestId, &ShownRequestId(request.id).to_string());
        if let Some(result) = finished.cache_status {
            writer.text(Attribute::CacheResult, result);
        }
    }

    /// Writes the spans of the queue and the script. Returns the begin of the first one.
    fn script(&mut self, handling: &Handling) -> Option<Duration> {
        let Some(facts) = handling.script_facts() else {
            // Its response may be complete while the script still runs.
            if handling.runner().is_some() && handling.steps() == 0 {
                let id = self.trace.child(Child::Script);
                self.part(&script_part(id, Duration::ZERO, self.whole));
            }
            return None;
        };
        let ScriptFacts { queued_at_us, waited_us, ran_us, .. } = facts;
        let micros = Duration::from_micros;
        let ago = micros(self.now.monotonic_us.saturating_sub(queued_at_us));
        let queued = self.whole.saturating_sub(ago);
        let started = queued + micros(waited_us);
        self.part(&Part {
            id: self.trace.child(Child::Queue),
            kind: SpanKind::Internal,
            name: if facts.has_started_php { "php start" } else { "php queue" },
            from: queued,
            to: started,
            has_failed: false,
        });
        let id = self.trace.child(Child::Script);
        let mut writer = self.part(&script_part(id, started, started + micros(ran_us)));
        writer.number(Attribute::ScriptCpu, facts.cpu_us);
        writer.number(Attribute::ScriptMemory, facts.peak_memory);
        Some(queued)
    }

    /// Writes the span of each attempt at another server. Returns the begin of the first span.
    fn attempts(
        &mut self,
        handling: &Handling,
        request: &Request,
        mut first: Option<Duration>,
    ) -> Option<Duration> {
        let mut number = 0;
        handling.for_each_step(|step| {
            let began = self.attempt(step, number, request);
            first = [first, began].into_iter().flatten().min();
            number += 1;
        });
        first
    }

    fn attempt(&mut self, step: &dyn Facts, number: usize, request: &Request) -> Option<Duration> {
        let began = step.began()?;
        let from = self.whole.saturating_sub(self.now.instant.saturating_duration_since(began));
        let value = |variable| step.value(&Variable::Upstream(variable));
        let to = match value(UpstreamVariable::ResponseTime) {
            Some(Fact::Time(time)) => from + time,
            _ => self.whole,
        };
        let status = match value(UpstreamVariable::Status) {
            Some(Fact::Number(status)) => Some(status),
            _ => None,
        };
        let method = known_method(&request.method);
        let has_failed = status.is_none_or(|status| status >= 400);
        let mut writer = self.part(&Part {
            id: self.trace.child(Child::Attempt(number)),
            kind: SpanKind::Client,
            name: method.unwrap_or("HTTP"),
            from,
            to,
            has_failed,
        });
        write_method(&mut writer, method, &request.method);
        if let Some(Fact::Text(address)) = value(UpstreamVariable::Address) {
            let (host, port) = split_address(address);
            writer.text(Attribute::ServerAddress, host);
            if let Some(port) = port {
                writer.number(Attribute::ServerPort, port.into());
            }
        }
        if let Some(status) = status {
            writer.number(Attribute::Status, status);
        }
        if has_failed {
            write_error(&mut writer, status.unwrap_or_default());
        }
        if number > 0 {
            writer.number(Attribute::ResendCount, number as u64);
        }
        Some(from)
    }

    /// Writes the span of the cache, which ends when another party gets the request.
    fn cache(&mut self, handling: &Handling, first_child: Option<Duration>) {
        let Some((from, to)) = handling.looked_up() else { return };
        let mut writer = self.part(&Part {
            id: self.trace.child(Child::Cache),
            kind: SpanKind::Internal,
            name: "cache",
            from,
            to: first_child.map_or(to, |first| first.min(to)).max(from),
            has_failed: false,
        });
        if let Some(result) = handling.cache_status() {
            writer.text(Attribute::CacheResult, result);
        }
    }

    fn part(&mut self, part: &Part<'_>) -> SpanWriter<'_> {
        let span = Span {
            trace: self.trace.id.bytes(),
            id: part.id.bytes(),
            parent: self.trace.span.bytes(),
            has_remote_parent: false,
            is_sampled: self.trace.is_sampled,
            has_failed: part.has_failed,
            kind: part.kind,
            times: (self.nanoseconds(part.from), self.nanoseconds(part.to.max(part.from))),
            name: part.name,
            state: &self.state,
        };
        self.written += 1;
        SpanWriter::new(self.out, &span)
    }
}

fn script_part(id: SpanId, from: Duration, to: Duration) -> Part<'static> {
    Part { id, kind: SpanKind::Internal, name: "php script", from, to, has_failed: false }
}

fn known_method(method: &[u8]) -> Option<&'static str> {
    METHODS.into_iter().find(|known| known.as_bytes() == method)
}

fn write_method(writer: &mut SpanWriter<'_>, known: Option<&str>, method: &[u8]) {
    writer.text(Attribute::Method, known.unwrap_or("_OTHER"));
    if known.is_none() {
        writer.text(Attribute::OriginalMethod, &String::from_utf8_lossy(method));
    }
}

fn write_error(writer: &mut SpanWriter<'_>, status: u64) {
    match status {
        0 => writer.text(Attribute::ErrorType, "_OTHER"),
        status => writer.text(Attribute::ErrorType, &status.to_string()),
    };
}

fn write_target(writer: &mut SpanWriter<'_>, request: &Request, secrets: &[String]) {
    let mut target = Cow::Borrowed(&request.target[..]);
    if target.contains(&b'?') {
        mask_query(target.to_mut(), 0, secrets);
    }
    let at = target.iter().position(|byte| *byte == b'?').unwrap_or(target.len());
    let (path, query) = target.split_at(at);
    writer.text(Attribute::Path, &String::from_utf8_lossy(path));
    if let Some(query) = query.get(1..).filter(|query| !query.is_empty()) {
        writer.text(Attribute::Query, &String::from_utf8_lossy(query));
    }
    writer.text(Attribute::Scheme, request.connection.scheme());
}

fn write_addresses(writer: &mut SpanWriter<'_>, request: &Request, record: &RequestRecord<'_>) {
    if !request.host.is_empty() {
        writer.text(Attribute::ServerAddress, &String::from_utf8_lossy(&request.host));
    }
    if let Some(port) = request.connection.server_port() {
        writer.number(Attribute::ServerPort, port.into());
    }
    let client = request.connection.peer.filter(|_| !request.handling.is_client_unknown());
    if let Some(client) = client {
        writer.text(Attribute::ClientAddress, &ShownAddress(Some(client.ip())).to_string());
    }
    if let Some(peer) = record.connection.peer {
        writer.text(Attribute::PeerAddress, &ShownAddress(Some(peer.ip())).to_string());
        writer.number(Attribute::PeerPort, peer.port().into());
    }
}

/// Splits the address of a server, such as `10.0.0.1:80`, `[::1]:80` or `unix:/run/a.sock`.
fn split_address(address: &str) -> (&str, Option<u16>) {
    let parts = address.rsplit_once(':');
    match parts.and_then(|(host, port)| Some((host, port.parse().ok()?))) {
        Some((host, port)) => (host.trim_matches(['[', ']']), Some(port)),
        None => (address.strip_prefix("unix:").unwrap_or(address), None),
    }
}

#[cfg(test)]
mod tests;
