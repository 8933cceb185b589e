//! A finished request.

use std::sync::Arc;
use std::time::Duration;

use howdah_http::exchange::{RequestRecord, SendOutcome};
use howdah_http::handling::{Fact, Handling, ScriptFacts};
use howdah_http::trace::Trace;
use howdah_template::{UpstreamVariable, Variable};

/// A finished request, as metrics and lists of requests show it. Borrowed from the request: making
/// it allocates nothing.
#[derive(Debug, Clone, Copy)]
pub struct FinishedRequest<'a> {
    /// The site, application, share or upstream of the request; its listener if there is none.
    pub site: &'a Arc<str>,
    /// The listener.
    pub listener: &'a Arc<str>,
    /// Id of the request; `None` if its head was refused.
    pub id: Option<u64>,
    /// Trace of the request; `None` without telemetry.
    pub trace: Option<Trace>,
    /// Method; empty if the head was refused.
    pub method: &'a [u8],
    /// Target as sent; of a refused head the request line, as far as it arrived.
    pub target: &'a [u8],
    /// Status of the response.
    pub status: u16,
    /// Bytes of the request: head and body.
    pub received: u64,
    /// Bytes of the response: head, body and framing.
    pub sent: u64,
    /// Time from the first byte of the request to the last one of the response.
    pub whole: Duration,
    /// Parts of that time.
    pub parts: Parts,
    /// Facts about the PHP script, once it has ended.
    pub script: Option<ScriptFacts>,
    /// nginx's word for the result of the cache.
    pub cache_status: Option<&'static str>,
    /// Result of sending the response.
    pub outcome: SendOutcome,
    /// Facts that the handlers of the request have recorded.
    pub handling: Option<&'a Handling>,
}

/// Parts of the time of a request in microseconds; `None` for those that it did not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Parts {
    /// Waiting for a free PHP process.
    pub queue: Option<u64>,
    /// Waiting for PHP to be started.
    pub start: Option<u64>,
    /// Run time of the PHP script.
    pub script: Option<u64>,
    /// Time with upstream servers, all attempts together.
    pub upstream: Option<u64>,
    /// Time from the head of the response of a script or upstream to its last byte.
    pub sending: Option<u64>,
}

impl<'a> FinishedRequest<'a> {
    /// Calls `read` with the description of a request of a listener.
    pub fn of<T>(
        listener: &Arc<str>,
        record: &RequestRecord<'_>,
        read: impl FnOnce(FinishedRequest<'_>) -> T,
    ) -> T {
        let request = record.request;
        let handling = request.map(|request| &request.handling);
        let parts = handling.map(|handling| Parts::of(handling, record.elapsed));
        let describe = |site: &Arc<str>| {
            read(FinishedRequest {
                site,
                listener,
                id: request.map(|request| request.id),
                trace: request.and_then(Trace::of),
                method: request.map_or(b"", |request| &request.method),
                target: request.map_or(record.refused_line, |request| &request.target),
                status: record.status,
                received: record.received,
                sent: record.sent,
                whole: record.elapsed,
                parts: parts.unwrap_or_default(),
                script: handling.and_then(Handling::script_facts),
                cache_status: handling.and_then(Handling::cache_status),
                outcome: record.outcome,
                handling,
            })
        };
        match handling {
            Some(handling) => handling.with_site_or(listener, describe),
            None => describe(listener),
        }
    }

    /// Calls `read` with the address of each upstream server that got the request.
    pub fn for_each_upstream(&self, mut read: impl FnMut(&str)) {
        let Some(handling) = self.handling else { return };
        handling.for_each_step(|step| {
            if let Some(Fact::Text(address)) =
                step.value(&Variable::Upstream(UpstreamVariable::Address))
            {
                read(address);
            }
        });
    }
}

impl Parts {
    fn of(handling: &Handling, whole: Duration) -> Parts {
        // Files have none of them.
        let Some(answered) = handling.answered_after() else { return Parts::default() };
        let script = handling.script_facts();
        let waited = script.map(|script| script.waited_us);
        let (start, queue) = match script {
            Some(ScriptFacts { has_started_php: true, .. }) => (waited, None),
            _ => (None, waited),
        };
        Parts {
            queue,
            start,
            script: script.map(|script| script.ran_us),
            upstream: upstream_time(handling),
            sending: Some(micros(whole.saturating_sub(answered))),
        }
    }

    /// Returns all parts with their names.
    pub fn named(&self) -> [(&'static str, Option<u64>); 5] {
        let Parts { queue, start, script, upstream, sending } = *self;
        [
            ("queue", queue),
            ("php_start", start),
            ("script", script),
            ("upstream", upstream),
            ("sending", sending),
        ]
    }
}

fn upstream_time(handling: &Handling) -> Option<u64> {
    let mut sum = None;
    handling.for_each_step(|step| {
        if let Some(Fact::Time(time)) =
            step.value(&Variable::Upstream(UpstreamVariable::ResponseTime))
        {
            sum = Some(sum.unwrap_or(0) + micros(time));
        }
    });
    sum
}

/// Returns a time in microseconds.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
