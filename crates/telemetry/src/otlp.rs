//! The messages of OTLP (<https://opentelemetry.io/docs/specs/otlp/>).

use std::time::Duration;

use howdah_wire::spans::{Attribute, ReadSpan, SpanKind, Value};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value as ProtoValue;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind as ProtoKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message;

/// Flag of a span whose trace is sent by all its servers (W3C Trace Context).
const SAMPLED: u32 = 1;

/// Flag: it is known whether the parent is of another process.
const HAS_IS_REMOTE: u32 = 0x100;

/// Flag: the parent is of another process.
const IS_REMOTE: u32 = 0x200;

/// Maximum length of a server's text in the log, in bytes.
const MAX_SHOWN: usize = 200;

/// Encodes a message with these spans. Malformed spans are left out.
pub(crate) fn encode(attributes: &[(String, String)], spans: &[Box<[u8]>]) -> Vec<u8> {
    let text = |(name, value): &(String, String)| attribute(name, Value::Text(value));
    let resource =
        Resource { attributes: attributes.iter().map(text).collect(), ..Resource::default() };
    let scope = InstrumentationScope {
        name: "howdah".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let spans = spans.iter().filter_map(|bytes| Some(span(&ReadSpan::read(bytes).ok()?)));
    let scope_spans =
        ScopeSpans { scope: Some(scope), spans: spans.collect(), ..ScopeSpans::default() };
    let resource_spans = ResourceSpans {
        resource: Some(resource),
        scope_spans: vec![scope_spans],
        ..ResourceSpans::default()
    };
    ExportTraceServiceRequest { resource_spans: vec![resource_spans] }.encode_to_vec()
}

fn span(read: &ReadSpan<'_>) -> Span {
    let sent = &read.span;
    let remote = if sent.has_remote_parent { IS_REMOTE } else { 0 };
    let has_parent = sent.parent != [0; 8];
    Span {
        trace_id: sent.trace.to_vec(),
        span_id: sent.id.to_vec(),
        trace_state: sent.state.to_owned(),
        parent_span_id: if has_parent { sent.parent.to_vec() } else { Vec::new() },
        flags: if sent.is_sampled { SAMPLED } else { 0 } | HAS_IS_REMOTE | remote,
        name: sent.name.to_owned(),
        kind: match sent.kind {
            SpanKind::Internal => ProtoKind::Internal,
            SpanKind::Server => ProtoKind::Server,
            SpanKind::Client => ProtoKind::Client,
        } as i32,
        start_time_unix_nano: sent.times.0,
        end_time_unix_nano: sent.times.1.max(sent.times.0),
        attributes: { read.attributes.iter() }
            .map(|(name, value)| attribute(Attribute::name(*name), *value))
            .collect(),
        status: sent
            .has_failed
            .then(|| Status { code: StatusCode::Error as i32, ..Status::default() }),
        ..Span::default()
    }
}

fn attribute(name: &str, value: Value<'_>) -> KeyValue {
    let value = match value {
        Value::Text(text) => ProtoValue::StringValue(text.to_owned()),
        Value::Number(number) => ProtoValue::IntValue(i64::try_from(number).unwrap_or(i64::MAX)),
    };
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: name.to_owned(), value, ..KeyValue::default() }
}

/// Spans that a server has refused, though it has taken the message, with the reason.
pub(crate) fn refused(response: &[u8]) -> Option<(i64, String)> {
    let response = ExportTraceServiceResponse::decode(response).ok()?;
    let partial = response.partial_success?;
    let says_something = partial.rejected_spans != 0 || !partial.error_message.is_empty();
    says_something.then(|| (partial.rejected_spans, shown(&partial.error_message)))
}

/// Returns the start of a server's text.
pub(crate) fn shown(text: &str) -> String {
    let mut end = text.len().min(MAX_SHOWN);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}

/// `google.rpc.Status`, the details of an error of gRPC and the body of one over HTTP.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RpcStatus {
    /// Message for developers.
    #[prost(string, tag = "2")]
    pub(crate) message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Detail>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
struct Detail {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// `google.rpc.RetryInfo`.
#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<RetryDelay>,
}

/// `google.protobuf.Duration`.
#[derive(Clone, PartialEq, Message)]
struct RetryDelay {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

impl RpcStatus {
    /// Returns the pause that the server asks for, if it permits another attempt.
    pub(crate) fn retry_delay(&self) -> Option<Duration> {
        let is_retry = |detail: &&Detail| detail.type_url.ends_with("google.rpc.RetryInfo");
        let found = self.details.iter().find(is_retry)?;
        let delay = RetryInfo::decode(&found.value[..]).ok()?.retry_delay.unwrap_or_default();
        let seconds = u64::try_from(delay.seconds).unwrap_or(0);
        let nanos = u32::try_from(delay.nanos).unwrap_or(0).min(999_999_999);
        Some(Duration::new(seconds, nanos))
    }
}

#[cfg(test)]
mod tests {
    use howdah_wire::spans::{self, SpanWriter};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spans_become_those_of_opentelemetry() {
        let mut bytes = Vec::new();
        let sent = spans::Span {
            trace: [1; 16],
            id: [2; 8],
            parent: [3; 8],
            has_remote_parent: true,
            is_sampled: true,
            has_failed: true,
            kind: SpanKind::Server,
            times: (5, 4),
            name: "GET",
            state: "a=b",
        };
        SpanWriter::new(&mut bytes, &sent)
            .number(Attribute::Status, 500)
            .text(Attribute::Path, "/");
        let root =
            spans::Span { parent: [0; 8], has_remote_parent: false, has_failed: false, ..sent };
        SpanWriter::new(&mut bytes, &root);
        let mut all: Vec<Box<[u8]>> =
            spans::split(&bytes).unwrap().into_iter().map(Box::from).collect();
        all.push(Box::from(&b"malformed"[..]));
        let message = encode(&[("service.name".to_owned(), "x".to_owned())], &all);
        let request = ExportTraceServiceRequest::decode(&message[..]).unwrap();
        let resource = &request.resource_spans[0];
        let name = &resource.resource.as_ref().unwrap().attributes[0];
        assert_eq!(name.key, "service.name");
        let [first, second] = &resource.scope_spans[0].spans[..] else { panic!() };
        assert_eq!((first.trace_id.as_slice(), first.flags), (&[1; 16][..], 0x301));
        assert_eq!((first.kind, first.trace_state.as_str()), (ProtoKind::Server as i32, "a=b"));
        assert_eq!((first.start_time_unix_nano, first.end_time_unix_nano), (5, 5));
        assert_eq!(first.status.as_ref().unwrap().code, StatusCode::Error as i32);
        let keys: Vec<_> = first.attributes.iter().map(|one| one.key.as_str()).collect();
        assert_eq!(keys, ["http.response.status_code", "url.path"]);
        assert!(second.parent_span_id.is_empty() && second.status.is_none());
        assert_eq!(second.flags, 0x101);
    }

    #[test]
    fn a_pause_is_read_from_the_details_of_an_error() {
        let info = RetryInfo { retry_delay: Some(RetryDelay { seconds: 3, nanos: -1 }) };
        let detail =
            |type_url: &str| Detail { type_url: type_url.to_owned(), value: info.encode_to_vec() };
        let with = |detail| RpcStatus { message: String::new(), details: vec![detail] };
        let known = with(detail("type.googleapis.com/google.rpc.RetryInfo"));
        assert_eq!(known.retry_delay(), Some(Duration::from_secs(3)));
        assert_eq!(with(detail("type.googleapis.com/google.rpc.Help")).retry_delay(), None);
        assert_eq!(RpcStatus::default().retry_delay(), None);
    }

    proptest! {
        #[test]
        fn no_response_makes_the_reader_fail(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = refused(&bytes);
            if let Ok(status) = RpcStatus::decode(&bytes[..]) {
                let _ = status.retry_delay();
            }
        }
    }
}
