//! Messages with spans.

use howdah_wire::spans::{Attribute, ReadSpan, SpanKind, Value};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as ProtoValue;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind as ProtoKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message;

use super::{attribute, resource, scope, text};

/// Flag of a span whose trace is sent by all its servers (W3C Trace Context).
const SAMPLED: u32 = 1;

/// Flag: it is known whether the parent is of another process.
const HAS_IS_REMOTE: u32 = 0x100;

/// Flag: the parent is of another process.
const IS_REMOTE: u32 = 0x200;

/// Encodes a message with these spans. Malformed spans are left out.
pub(crate) fn encode(attributes: &[(String, String)], spans: &[Box<[u8]>]) -> Vec<u8> {
    let spans = spans.iter().filter_map(|bytes| Some(span(&ReadSpan::read(bytes).ok()?)));
    let scope_spans =
        ScopeSpans { scope: Some(scope()), spans: spans.collect(), ..ScopeSpans::default() };
    let resource_spans = ResourceSpans {
        resource: Some(resource(attributes)),
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
            .map(|(name, value)| attribute(Attribute::name(*name), proto_value(*value)))
            .collect(),
        status: sent
            .has_failed
            .then(|| Status { code: StatusCode::Error as i32, ..Status::default() }),
        ..Span::default()
    }
}

fn proto_value(value: Value<'_>) -> ProtoValue {
    match value {
        Value::Text(value) => text(value),
        Value::Number(number) => ProtoValue::IntValue(i64::try_from(number).unwrap_or(i64::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use howdah_wire::spans::{self, SpanWriter};

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
}
