//! What it costs to decide a request where there are few steps, and where there are many: each kind
//! of condition in ten steps and in a thousand, of which the one behind them all holds.

use std::cell::RefCell;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use howdah_server::files::{self, Files, Now};
use howdah_server::message::{ConnectionInfo, Fields, Request, Version};
use howdah_server::php::application::Queue;
use howdah_server::route::{Router, Scratch};
use howdah_server::snapshot::Snapshot;
use howdah_sys::log::Log;

/// Makes the conditions of the step with this number.
type Kind = fn(usize) -> String;

const KINDS: [(&str, Kind); 7] = [
    ("paths", |n| format!(r#"{{"uri": "/page/{n}"}}"#)),
    ("starts of paths", |n| format!(r#"{{"uri": "/{}{n}/*"}}"#, "section".repeat(n % 3 + 1))),
    ("ends of paths", |n| format!(r#"{{"uri": "*.e{n}"}}"#)),
    ("hosts", |n| format!(r#"{{"host": "site{n}.example.com"}}"#)),
    ("hosts with subdomains", |n| format!(r#"{{"host": ["site{n}.org", "*.site{n}.org"]}}"#)),
    ("anchored expressions", |n| format!(r#"{{"uri": "~^/shop{n}/([0-9]+)$"}}"#)),
    ("a mix", |n| {
        let kind = KINDS.get(n % 6).map_or(KINDS[0].1, |(_, kind)| *kind);
        kind(n)
    }),
];

fn snapshot(kind: Kind, steps: usize) -> Snapshot {
    let mut list: Vec<_> = (0..steps)
        .map(|n| format!(r#"{{"match": {}, "action": {{"return": 404}}}}"#, kind(n)))
        .collect();
    list.push(r#"{"action": {"return": 204}}"#.to_owned());
    let document = format!(
        r#"{{"listeners": {{"*:80": {{"pass": "routes"}}}}, "routes": [{}]}}"#,
        list.join(",")
    );
    let config = howdah_config::parse(document.as_bytes()).expect("a configuration");
    Snapshot::compile(config, None, None, &Default::default(), |_| Arc::new(Queue::new(1)))
}

fn request() -> Request {
    Request {
        method: Bytes::from_static(b"GET"),
        target: Bytes::from_static(b"/sectionsection/2026/a-post.html"),
        path: Bytes::from_static(b"/sectionsection/2026/a-post.html"),
        query: Bytes::new(),
        version: Version::Http11,
        host: Bytes::from_static(b"www.example.org"),
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
    }
}

fn decisions(criterion: &mut Criterion) {
    let files = Files::new(files::Limits::default());
    let scratch = RefCell::new(Scratch::default());
    let null = std::fs::File::options().write(true).open("/dev/null").expect("/dev/null");
    let log = Log::new(null.into());
    let now = Now { monotonic: Instant::now(), wall: SystemTime::now() };
    for (name, kind) in KINDS {
        let mut group = criterion.benchmark_group(name);
        for steps in [10, 1000] {
            let snapshot = snapshot(kind, steps);
            let router = Router {
                snapshot: &snapshot,
                files: &files,
                scratch: &scratch,
                log: &log,
                now,
                begun: now.monotonic,
            };
            let mut request = request();
            group.bench_function(format!("{steps} steps"), |bencher| {
                bencher.iter(|| router.decide("*:80", black_box(&mut request)));
            });
        }
        group.finish();
    }
}

criterion_group!(benches, decisions);
criterion_main!(benches);
