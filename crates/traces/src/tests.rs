use std::rc::Rc;
use std::sync::Arc;

use howdah_http::fixture;
use howdah_http::message::{ConnectionFields, FieldBlock};
use howdah_http::trace_context::Tracing;
use howdah_wire::spans::{self, ReadSpan, Value};

use super::*;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn record<'a>(request: &'a Request, fields: &'a FieldBlock) -> RequestRecord<'a> {
    RequestRecord {
        connection: &request.connection,
        request: Some(request),
        refused_line: &[],
        refusal: None,
        status: 200,
        fields,
        connection_fields: ConnectionFields::default(),
        received: 100,
        sent: 200,
        body_sent: 50,
        elapsed: Duration::from_millis(10),
        outcome: SendOutcome::Complete,
    }
}

fn settings(more: &str) -> Telemetry {
    let document = format!(
        r#"{{"settings": {{"telemetry": {{"endpoint": "http://a", "protocol": "http"{more}}}}}}}"#
    );
    howdah_config::parse(document.as_bytes()).unwrap().settings.telemetry.unwrap()
}

fn traced(target: &str, fields: &[(&str, &str)], ratio: f64) -> Request {
    let request = fixture::request(target, fields);
    request.handling.set_tracing(Some(Tracing::new(ratio, true)));
    request
}

/// Calls `check` with the spans of a request that has ended now.
fn with_spans(record: &RequestRecord<'_>, now: Moment, check: impl FnOnce(&[ReadSpan<'_>])) {
    let (mut out, listener): (_, Arc<str>) = (Vec::new(), "*:80".into());
    let trace = Trace::of(record.request.unwrap()).unwrap();
    let secrets = ["token".to_owned()];
    let written = FinishedRequest::of(&listener, record, |finished| {
        write(&finished, record, &trace, now, &secrets, &mut out)
    });
    let split = spans::split(&out).unwrap();
    let read: Vec<_> = split.into_iter().map(|bytes| ReadSpan::read(bytes).unwrap()).collect();
    assert_eq!(written, read.len() as u64);
    check(&read);
}

fn now() -> Moment {
    Moment { wall: Duration::from_secs(1000), instant: Instant::now(), monotonic_us: 50_000 }
}

fn value<'a>(span: &'a ReadSpan<'_>, attribute: Attribute) -> Option<Value<'a>> {
    span.attributes.iter().find(|(name, _)| *name == attribute).map(|(_, value)| *value)
}

#[test]
fn the_rules_say_which_requests_are_sent() {
    let fields = FieldBlock::default();
    let (sampled, other) = (traced("/", &[("traceparent", PARENT)], 0.0), traced("/", &[], 0.0));
    let (in_time, failed) = (record(&other, &fields), record(&other, &fields));
    let failed = RequestRecord { status: 503, ..failed };
    let cut = RequestRecord { outcome: SendOutcome::BodyFailed, ..record(&other, &fields) };
    let trace = Trace::of(&other).unwrap();
    assert!(is_wanted(&settings(""), &Trace::of(&sampled).unwrap(), &record(&sampled, &fields)));
    for (settings, expected) in [
        (settings(""), [false, false, false]),
        (settings(r#", "failed": true"#), [false, true, true]),
        (settings(r#", "slow": 0.01"#), [true, true, true]),
        (settings(r#", "slow": 0.011"#), [false, false, false]),
    ] {
        let wanted = [&in_time, &failed, &cut].map(|one| is_wanted(&settings, &trace, one));
        assert_eq!(wanted, expected, "{settings:?}");
    }
}

#[test]
fn a_request_is_described_as_the_conventions_have_it() {
    let agent = ("user-agent", "curl");
    let request =
        traced("/a?token=x&b=1", &[("traceparent", PARENT), agent, ("tracestate", "a=1")], 0.0);
    let fields = FieldBlock::default();
    with_spans(&record(&request, &fields), now(), |spans| {
        let [server] = spans else { panic!("{spans:?}") };
        let span = &server.span;
        assert_eq!((span.name, span.kind, span.has_remote_parent), ("GET", SpanKind::Server, true));
        assert_eq!((span.state, span.is_sampled, span.has_failed), ("a=1", true, false));
        assert_eq!(span.times, (999_990_000_000, 1_000_000_000_000));
        for (attribute, expected) in [
            (Attribute::Method, Value::Text("GET")),
            (Attribute::Path, Value::Text("/a")),
            (Attribute::Query, Value::Text("token=***&b=1")),
            (Attribute::Scheme, Value::Text("http")),
            (Attribute::ServerAddress, Value::Text("example.org")),
            (Attribute::ServerPort, Value::Number(80)),
            (Attribute::ClientAddress, Value::Text("127.0.0.1")),
            (Attribute::PeerPort, Value::Number(1234)),
            (Attribute::ProtocolVersion, Value::Text("1.1")),
            (Attribute::UserAgent, Value::Text("curl")),
            (Attribute::Status, Value::Number(200)),
            (Attribute::RequestSize, Value::Number(100)),
            (Attribute::Listener, Value::Text("*:80")),
        ] {
            assert_eq!(value(server, attribute), Some(expected), "{attribute:?}");
        }
        assert_eq!(value(server, Attribute::ErrorType), None);
    });
}

#[test]
fn a_failed_request_says_why() {
    let (request, fields) = (traced("/", &[], 1.0), FieldBlock::default());
    let failed = RequestRecord { status: 503, ..record(&request, &fields) };
    with_spans(&failed, now(), |spans| {
        assert!(spans[0].span.has_failed);
        assert_eq!(value(&spans[0], Attribute::ErrorType), Some(Value::Text("503")));
    });
    let gone = RequestRecord { outcome: SendOutcome::ClientGone, ..record(&request, &fields) };
    with_spans(&gone, now(), |spans| {
        assert!(!spans[0].span.has_failed);
        assert_eq!(value(&spans[0], Attribute::ErrorType), Some(Value::Text("client_gone")));
    });
}

#[test]
fn unknown_methods_have_no_names_of_their_own() {
    let mut request = traced("/", &[], 1.0);
    request.method = "BREW".into();
    let fields = FieldBlock::default();
    with_spans(&record(&request, &fields), now(), |spans| {
        assert_eq!(spans[0].span.name, "HTTP");
        assert_eq!(value(&spans[0], Attribute::Method), Some(Value::Text("_OTHER")));
        assert_eq!(value(&spans[0], Attribute::OriginalMethod), Some(Value::Text("BREW")));
    });
}

/// A script, or an attempt at a server.
#[derive(Debug, Clone)]
struct Known {
    script: Option<ScriptFacts>,
    began: Option<Instant>,
    status: u64,
}

impl Facts for Known {
    fn value(&self, variable: &Variable) -> Option<Fact<'_>> {
        match variable {
            Variable::Upstream(UpstreamVariable::Address) => Some(Fact::Text("[::1]:81")),
            Variable::Upstream(UpstreamVariable::Status) => Some(Fact::Number(self.status)),
            Variable::Upstream(UpstreamVariable::ResponseTime) => {
                Some(Fact::Time(Duration::from_millis(2)))
            }
            _ => None,
        }
    }

    fn script(&self) -> Option<ScriptFacts> {
        self.script
    }

    fn began(&self) -> Option<Instant> {
        self.began
    }
}

#[test]
fn queue_and_script_have_their_places_in_the_request() {
    let (request, fields) = (traced("/", &[], 1.0), FieldBlock::default());
    let mut facts = ScriptFacts {
        queued_at_us: 41_000,
        waited_us: 2000,
        has_started_php: false,
        ran_us: 5000,
        cpu_us: 7,
        peak_memory: 9,
    };
    let known = Known { script: Some(facts), began: None, status: 0 };
    request.handling.set_runner("blog".into(), Some(Arc::new(known.clone())));
    let start = 999_990_000_000;
    with_spans(&record(&request, &fields), now(), |spans| {
        let [server, queue, script] = spans else { panic!("{spans:?}") };
        assert_eq!((queue.span.name, script.span.name), ("php queue", "php script"));
        assert_eq!(queue.span.times, (start + 1_000_000, start + 3_000_000));
        assert_eq!(script.span.times, (start + 3_000_000, start + 8_000_000));
        assert_eq!(script.span.parent, server.span.id);
        assert_eq!(value(script, Attribute::ScriptCpu), Some(Value::Number(7)));
    });
    // Of any values, none is before the request or after it.
    for (queued_at_us, waited_us, ran_us) in [(0, 0, u64::MAX), (u64::MAX, u64::MAX, u64::MAX)] {
        facts = ScriptFacts { queued_at_us, waited_us, ran_us, has_started_php: true, ..facts };
        let known = Known { script: Some(facts), ..known.clone() };
        request.handling.set_runner("blog".into(), Some(Arc::new(known)));
        with_spans(&record(&request, &fields), now(), |spans| {
            assert_eq!(spans[1].span.name, "php start");
            for span in spans {
                let (from, to) = span.span.times;
                assert!(start <= from && from <= to && to <= start + 10_000_000, "{span:?}");
            }
        });
    }
}

#[test]
fn each_attempt_has_the_span_that_its_server_knows() {
    let (request, fields) = (traced("/", &[], 1.0), FieldBlock::default());
    let moment = now();
    request.handling.set_looked_up(Duration::from_millis(1), Duration::from_millis(9));
    request.handling.set_cache_status(Some("MISS"));
    let mut known = Vec::new();
    for (ago, status) in [(6, 502), (3, 200)] {
        let began = Some(moment.instant - Duration::from_millis(ago));
        request.handling.add_step(Rc::new(Known { script: None, began, status }));
        let fields = howdah_http::trace::TraceFields::for_attempt(&request).unwrap();
        known.push(fields.parent[36..52].to_owned());
    }
    let start = 999_990_000_000;
    with_spans(&record(&request, &fields), moment, |spans| {
        let [_, first, second, cache] = spans else { panic!("{spans:?}") };
        let id = |span: &ReadSpan<'_>| format!("{:016x}", u64::from_be_bytes(span.span.id));
        assert_eq!([id(first), id(second)], known[..]);
        assert_eq!(first.span.times, (start + 4_000_000, start + 6_000_000));
        assert_eq!((first.span.kind, first.span.has_failed), (SpanKind::Client, true));
        assert_eq!(second.span.times, (start + 7_000_000, start + 9_000_000));
        assert!(!second.span.has_failed);
        assert_eq!(value(first, Attribute::ResendCount), None);
        assert_eq!(value(second, Attribute::ResendCount), Some(Value::Number(1)));
        assert_eq!(value(second, Attribute::ServerAddress), Some(Value::Text("::1")));
        assert_eq!(value(second, Attribute::ServerPort), Some(Value::Number(81)));
        // It ends when the first server gets the request.
        assert_eq!((cache.span.name, cache.span.times.1), ("cache", start + 4_000_000));
        assert_eq!(value(cache, Attribute::CacheResult), Some(Value::Text("MISS")));
    });
}

#[test]
fn an_address_is_split_into_host_and_port() {
    for (address, expected) in [
        ("10.0.0.1:80", ("10.0.0.1", Some(80))),
        ("[::1]:81", ("::1", Some(81))),
        ("unix:/run/a.sock", ("/run/a.sock", None)),
        ("a.test", ("a.test", None)),
    ] {
        assert_eq!(split_address(address), expected);
    }
}
