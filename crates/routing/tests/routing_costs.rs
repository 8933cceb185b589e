//! Allocations of a routing decision: conditions must not allocate.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use howdah_files::{Files, RequestTime};
use howdah_http::message::{ConnectionInfo, Fields, Request, Version};
use howdah_php_pool::queue::Queue;
use howdah_routing::request_log::RequestLog;
use howdah_routing::route::{Decision, Routing, Scratch, Step};
use howdah_routing::snapshot::Snapshot;
use howdah_sys::log::Log;

/// Allocator that counts the allocations of this thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed unchanged to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller meets the preconditions of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller meets the preconditions of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A configuration whose last step answers; the conditions of all other steps do not hold.
struct Site {
    snapshot: Snapshot,
    files: Files,
    scratch: RefCell<Scratch>,
    log: RequestLog,
}

impl Site {
    fn new(conditions: impl IntoIterator<Item = String>) -> Self {
        let step = |condition| format!(r#"{{"match": {condition}, "action": {{"return": 404}}}}"#);
        let mut steps: Vec<_> = conditions.into_iter().map(step).collect();
        steps.push(r#"{"action": {"return": 204}}"#.to_owned());
        let document = format!(
            r#"{{"listeners": {{"*:80": {{"pass": "routes"}}}}, "routes": [{}]}}"#,
            steps.join(",")
        );
        let config = howdah_config::parse(document.as_bytes()).expect(&document);
        let null = std::fs::File::options().write(true).open("/dev/null").unwrap();
        Site {
            snapshot: Snapshot::compile(
                config,
                Default::default(),
                None,
                &Default::default(),
                |_| Arc::new(Queue::new(1, false, None)),
            ),
            files: Files::new(howdah_files::Limits::default()),
            scratch: RefCell::default(),
            log: RequestLog::new(Arc::new(Log::new(null.into()))),
        }
    }

    /// Returns the number of allocations of a decision once all reusable memory is allocated.
    fn allocations(&self) -> usize {
        let mut least = usize::MAX;
        for _ in 0..20 {
            let mut request = request();
            let now = RequestTime { monotonic: Instant::now(), wall: SystemTime::now() };
            let router = Routing {
                snapshot: &self.snapshot,
                files: &self.files,
                scratch: &self.scratch,
                log: &self.log,
                now,
                started_at: now.monotonic,
            };
            let before = ALLOCATIONS.get();
            let (_, step) = router.route("*:80", &mut request);
            let made = ALLOCATIONS.get() - before;
            let Step::Handle(Decision::Respond(response)) = step else { panic!("{step:?}") };
            assert_eq!(response.status, 204);
            least = least.min(made);
        }
        least
    }
}

fn request() -> Request {
    let fields = [
        ("Host", "www.example.org"),
        ("Cookie", "a=1; session=0123456789abcdef"),
        ("User-Agent", "Mozilla/5.0"),
    ];
    Request {
        method: Bytes::from_static(b"GET"),
        target: Bytes::from_static(b"/blog/2026/a%20post?q=h%20h&page=3&x"),
        fragment: Bytes::new(),
        path: Bytes::from_static(b"/blog/2026/a post"),
        query: Bytes::from_static(b"q=h%20h&page=3&x"),
        version: Version::Http11,
        host: Bytes::from_static(b"www.example.org"),
        fields: Fields::from_pairs(fields.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes()))),
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

#[test]
fn no_condition_allocates() {
    let none = Site::new([]).allocations();
    for condition in [
        r#"{"uri": "/other"}"#,
        r#"{"uri": ["*/a", "/b*c*d", "!/blog/*"]}"#,
        r#"{"uri": "~^/blog/(\\d+)/x"}"#,
        r#"{"uri": "~post(s)$"}"#,
        r#"{"host": ["*.example.com", "!www.*"]}"#,
        r#"{"method": ["POST", "PUT"]}"#,
        r#"{"scheme": "https"}"#,
        r#"{"source": ["10.0.0.0/8", "192.168.0.1-192.168.0.9:80"]}"#,
        r#"{"destination": "*:443"}"#,
        r#"{"query": "q=h+h&page=4*"}"#,
        r#"{"arguments": {"page": "~^[12]$", "q": "h+h"}}"#,
        r#"{"headers": {"user-agent": "*curl*"}}"#,
        r#"{"cookies": [{"session": "~^x"}, {"b": "*"}]}"#,
        r#"{"if": "$arg_none$cookie_none$header_none"}"#,
    ] {
        for count in [1, 5, 50] {
            let made = Site::new((0..count).map(|_| condition.to_owned())).allocations();
            assert!(made <= none, "{made} for {count} times {condition}, {none} without");
        }
    }
}

#[test]
fn a_thousand_steps_allocate_as_much_as_none() {
    let none = Site::new([]).allocations();
    let kinds: [fn(usize) -> String; 5] = [
        |n| format!(r#"{{"uri": "/page/{n}"}}"#),
        |n| format!(r#"{{"uri": "/section{n}/*"}}"#),
        |n| format!(r#"{{"host": ["site{n}.org", "*.site{n}.org"]}}"#),
        |n| format!(r#"{{"uri": "~^/shop{n}/([0-9]+)$"}}"#),
        |n| format!(r#"{{"uri": "*.e{n}"}}"#),
    ];
    let site = Site::new((0..1000).map(|n| kinds[n % kinds.len()](n)));
    assert_eq!(site.allocations(), none);
}
