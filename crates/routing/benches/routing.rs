//! Benchmarks routing in routes with few and with many steps, for each kind of condition; only the
//! last step holds. Short routes are measured with and without an index, which gives the number of
//! steps from which on an index pays.

use std::cell::RefCell;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use howdah_files::{Files, RequestTime};
use howdah_http::message::{ConnectionInfo, Fields, Request, Version};
use howdah_php_pool::queue::Queue;
use howdah_routing::request_log::RequestLog;
use howdah_routing::route::{Routing, Scratch};
use howdah_routing::snapshot::Snapshot;
use howdah_routing::snapshot::index::Index;
use howdah_sys::log::Log;

/// Makes the conditions of the step with this number.
type Kind = fn(usize) -> String;

const KINDS: [(&str, Kind); 8] = [
    ("paths", |n| format!(r#"{{"uri": "/page/{n}"}}"#)),
    ("starts of paths", |n| format!(r#"{{"uri": "/{}{n}/*"}}"#, "section".repeat(n % 3 + 1))),
    ("ends of paths", |n| format!(r#"{{"uri": "*.e{n}"}}"#)),
    ("hosts", |n| format!(r#"{{"host": "site{n}.example.com"}}"#)),
    ("hosts with subdomains", |n| format!(r#"{{"host": ["site{n}.org", "*.site{n}.org"]}}"#)),
    ("anchored expressions", |n| format!(r#"{{"uri": "~^/shop{n}/([0-9]+)$"}}"#)),
    ("methods", |n| format!(r#"{{"method": "METHOD{n}"}}"#)),
    ("a mix", |n| {
        let kind = KINDS.get(n % 6).map_or(KINDS[0].1, |(_, kind)| *kind);
        kind(n)
    }),
];

/// Creates a snapshot with a route of `steps` steps.
fn snapshot(kind: Kind, steps: usize) -> Snapshot {
    let mut list: Vec<_> = (1..steps)
        .map(|n| format!(r#"{{"match": {}, "action": {{"return": 404}}}}"#, kind(n)))
        .collect();
    list.push(r#"{"action": {"return": 204}}"#.to_owned());
    let document = format!(
        r#"{{"listeners": {{"*:80": {{"pass": "routes"}}}}, "routes": [{}]}}"#,
        list.join(",")
    );
    let config = howdah_config::parse(document.as_bytes()).expect("a configuration");
    Snapshot::compile(config, Default::default(), None, &Default::default(), |_| {
        Arc::new(Queue::new(1, false, None))
    })
}

/// Adds an index to the route, or removes it.
fn set_index(snapshot: &mut Snapshot, wanted: bool) {
    let route = snapshot.main_route.as_mut().expect("the route");
    let conditions = route.steps.iter().map(|step| &*step.conditions);
    route.index = wanted.then(|| Index::new(conditions));
}

/// Creates a request whose parts lie in one buffer, as the parser leaves them. Comparing a text at
/// the very end of a mapped page would be ten times as slow.
fn request() -> Request {
    const PATH: &str = "/sectionsection/2026/a-post.html";
    const HOST: &str = "www.example.org";
    let head = format!("GET {PATH} HTTP/1.1\r\nHost: {HOST}\r\nAccept: */*\r\n\r\n");
    let head = Bytes::from([head.as_bytes(), &[0; 4096]].concat());
    let part = |text: &str| {
        let at = memchr::memmem::find(&head, text.as_bytes()).expect("it is there");
        head.slice(at..at + text.len())
    };
    Request {
        method: part("GET"),
        target: part(PATH),
        fragment: Bytes::new(),
        path: part(PATH),
        query: Bytes::new(),
        version: Version::Http11,
        host: part(HOST),
        fields: Fields::default(),
        connection: Arc::new(ConnectionInfo {
            peer: Some(([127, 0, 0, 1], 1234).into()),
            local: Some(([127, 0, 0, 2], 80).into()),
            tls: false,
            ..ConnectionInfo::default()
        }),
        user: None,
        id: 1,
        error: None,
        captures: Default::default(),
        additions: None,
        handling: Default::default(),
    }
}

fn decisions(criterion: &mut Criterion) {
    let files = Files::new(howdah_files::Limits::default());
    let scratch = RefCell::new(Scratch::default());
    let null = std::fs::File::options().write(true).open("/dev/null").expect("/dev/null");
    let log = RequestLog::new(Arc::new(Log::new(null.into())));
    let now = RequestTime { monotonic: Instant::now(), wall: SystemTime::now() };
    for (name, kind) in KINDS {
        let mut group = criterion.benchmark_group(name);
        group.warm_up_time(Duration::from_millis(200));
        group.measurement_time(Duration::from_millis(600));
        let few = [2, 4, 6, 8, 10, 12, 16].map(|steps| [(steps, false), (steps, true)]);
        for (steps, has_index) in few.into_iter().flatten().chain([(1000, true)]) {
            let mut snapshot = snapshot(kind, steps);
            set_index(&mut snapshot, has_index);
            let router = Routing {
                snapshot: &snapshot,
                files: &files,
                scratch: &scratch,
                log: &log,
                now,
                started_at: now.monotonic,
            };
            let mut request = request();
            let how = if has_index { "found with an index" } else { "one by one" };
            group.bench_function(format!("{steps} steps {how}"), |bencher| {
                bencher.iter(|| router.route("*:80", black_box(&mut request)));
            });
        }
        group.finish();
    }
}

criterion_group!(benches, decisions);
criterion_main!(benches);
