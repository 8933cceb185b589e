use super::*;
use crate::fixture;
use crate::trace_context::Tracing;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn traced(fields: &[(&str, &str)], tracing: Tracing) -> Request {
    let request = fixture::request("/", fields);
    request.handling.set_tracing(Some(tracing));
    request
}

#[test]
fn without_telemetry_there_is_no_trace() {
    let request = fixture::request("/", &[("traceparent", PARENT)]);
    assert_eq!(Trace::of(&request), None);
    assert_eq!(TraceFields::for_script(&request), None);
    assert_eq!(TraceFields::for_attempt(&request), None);
}

#[test]
fn a_request_joins_the_trace_of_its_caller() {
    let request = traced(
        &[("Traceparent", PARENT), ("tracestate", "a=1"), ("tracestate", "b=2")],
        Tracing::new(0.0, true),
    );
    let trace = Trace::of(&request).unwrap();
    assert_eq!(trace.id.to_string(), &PARENT[3..35]);
    assert_eq!(trace.parent.unwrap().to_string(), &PARENT[36..52]);
    assert!(trace.is_sampled);
    let fields = TraceFields::for_script(&request).unwrap();
    let script = trace.child(Child::Script);
    assert_eq!(fields.parent, format!("{}-{script}-01", &PARENT[..35]));
    assert_eq!(fields.state.as_deref(), Some(&b"a=1,b=2"[..]));
}

#[test]
fn a_malformed_parent_or_two_begin_another_trace() {
    for parents in [&[("traceparent", "00-0-0-01")][..], &[("traceparent", PARENT); 2], &[]] {
        let fields: Vec<_> = parents.iter().copied().chain([("tracestate", "a=1")]).collect();
        let request = traced(&fields, Tracing::new(1.0, true));
        let trace = Trace::of(&request).unwrap();
        assert_eq!((trace.parent, trace.is_sampled), (None, true));
        let fields = TraceFields::for_script(&request).unwrap();
        assert_eq!(fields.state, None, "the state belongs to the trace that ends here");
        assert_eq!(Trace::of(&request), Some(trace), "all that ask get the same");
        let id = crate::message::ShownRequestId(request.id).to_string();
        assert_eq!(trace.id.to_string(), id);
    }
}

#[test]
fn clients_do_not_decide_where_parents_are_not_obeyed() {
    let request = traced(&[("traceparent", PARENT)], Tracing::new(0.0, false));
    let trace = Trace::of(&request).unwrap();
    assert_eq!((trace.parent, trace.is_sampled), (None, false));
    assert!(TraceFields::for_script(&request).unwrap().parent.ends_with("-00"));
}

#[test]
fn each_span_has_an_id_of_its_own() {
    let request = traced(&[], Tracing::new(1.0, true));
    let trace = Trace::of(&request).unwrap();
    let attempts = (0..100).map(Child::Attempt);
    let children = [Child::Script, Child::Queue, Child::Cache].into_iter().chain(attempts);
    let mut ids: Vec<_> = children.map(|child| trace.child(child).bytes()).collect();
    ids.push(trace.span.bytes());
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 104);
}

#[test]
fn parts_of_a_request_have_its_span_as_parent() {
    let request = traced(&[], Tracing::new(1.0, true));
    let part = request.clone();
    part.handling.set_part();
    let trace = Trace::of(&request).unwrap();
    let span = trace.span.to_string();
    for request in [&part, &Request { handling: request.handling.of_copy(), ..part.clone() }] {
        let fields = TraceFields::for_attempt(request).unwrap();
        assert_eq!(&fields.parent[36..52], span);
    }
    assert_ne!(&TraceFields::for_attempt(&request).unwrap().parent[36..52], span);
}
