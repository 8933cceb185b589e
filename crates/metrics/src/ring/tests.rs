//! Tests of the ring.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;

fn keep(ring: &Ring, target: &str, status: u16, capacity: usize) {
    let site = Arc::from(if status < 500 { "shop" } else { "blog" });
    let request = FinishedRequest {
        site: &site,
        listener: &Arc::from("*:80"),
        trace: None,
        id: Some(7),
        method: b"GET",
        target: target.as_bytes(),
        status,
        received: 1,
        sent: 2,
        whole: Duration::from_millis(status.into()),
        parts: Parts::default(),
        script: None,
        cache_status: Some("HIT"),
        outcome: SendOutcome::Complete,
        handling: None,
    };
    ring.keep(&request, Duration::from_secs(5), capacity);
}

fn listed(ring: &Ring, filter: &Filter) -> Vec<String> {
    let (found, _) = ring.list(filter, 0);
    found.iter().map(|one| String::from_utf8(one.texts().target.to_vec()).unwrap()).collect()
}

fn all() -> Filter {
    Filter { max: 100, ..Filter::default() }
}

#[test]
fn the_last_requests_are_kept_in_their_order() {
    let ring = Ring::new(1);
    assert!(listed(&ring, &all()).is_empty());
    for number in 0..10 {
        keep(&ring, &format!("/{number}"), 200, 4);
        let first = (number + 1_usize).saturating_sub(4);
        let expected: Vec<_> = (first..=number).map(|number| format!("/{number}")).collect();
        assert_eq!(listed(&ring, &all()), expected);
    }
    assert_eq!(listed(&ring, &Filter { max: 2, ..all() }), ["/8", "/9"]);
    // A larger ring keeps what there is, a smaller one the last ones.
    keep(&ring, "/10", 200, 6);
    keep(&ring, "/11", 200, 6);
    keep(&ring, "/12", 200, 6);
    assert_eq!(listed(&ring, &all()), ["/7", "/8", "/9", "/10", "/11", "/12"]);
    keep(&ring, "/13", 200, 2);
    assert_eq!(listed(&ring, &all()), ["/12", "/13"]);
    keep(&ring, "/14", 200, 2);
    assert_eq!(listed(&ring, &all()), ["/13", "/14"]);
    keep(&ring, "/15", 200, 0);
    assert!(listed(&ring, &all()).is_empty());
    keep(&ring, "/16", 200, 2);
    assert_eq!(listed(&ring, &all()), ["/16"]);
}

#[test]
fn a_filter_selects_by_site_status_time_and_number() {
    let ring = Ring::new(1);
    for (target, status) in [("/a", 200), ("/b", 503), ("/c", 404), ("/d", 500)] {
        keep(&ring, target, status, 10);
    }
    assert_eq!(listed(&ring, &Filter { status: Some((500, 599)), ..all() }), ["/b", "/d"]);
    assert_eq!(listed(&ring, &Filter { status: Some((404, 404)), ..all() }), ["/c"]);
    let of = |sites: &[&str]| {
        let sites = Some(sites.iter().map(|site| (*site).to_owned()).collect());
        listed(&ring, &Filter { sites, ..all() })
    };
    assert_eq!(of(&["blog"]), ["/b", "/d"]);
    assert_eq!(of(&["blog", "shop"]).len(), 4);
    assert!(of(&[]).is_empty());
    assert_eq!(listed(&ring, &Filter { min_time: 404_001, ..all() }), ["/b", "/d"]);
    let (_, last) = ring.list(&all(), 0);
    assert!(listed(&ring, &Filter { after: vec![last], ..all() }).is_empty());
    keep(&ring, "/e", 200, 10);
    assert_eq!(listed(&ring, &Filter { after: vec![last], ..all() }), ["/e"]);
    // Of a thread that the cursor does not have, everything is new.
    assert_eq!(ring.list(&Filter { after: vec![last], ..all() }, 1).0.len(), 5);
}

#[test]
fn long_texts_are_cut_and_take_no_more_memory() {
    let ring = Ring::new(1);
    let long = "x".repeat(1 << 20);
    for _ in 0..3 {
        keep(&ring, &long, 200, 2);
    }
    let (found, _) = ring.list(&all(), 0);
    assert!(found.iter().all(|one| one.is_cut && one.texts().target.len() == MAX_TARGET));
    assert_eq!(found[0].texts().method, b"GET");
    let most = MAX_TARGET + 100;
    let bytes =
        |ring: &Ring| ring.requests.borrow().blocks.iter().map(Block::capacity).sum::<usize>();
    assert!(bytes(&ring) <= 3 * 2 * most);
}

#[test]
fn memory_is_bounded_by_the_number_of_requests_and_returns() {
    let ring = Ring::new(1);
    let long = "x".repeat(1 << 20);
    let bytes =
        |ring: &Ring| ring.requests.borrow().blocks.iter().map(Block::capacity).sum::<usize>();
    for _ in 0..2_000 {
        keep(&ring, &long, 200, 500);
    }
    // A vector has up to twice what it needs.
    let blocks = 500_usize.div_ceil(BLOCK_REQUESTS) + 1;
    assert_eq!(ring.requests.borrow().blocks.len(), blocks);
    assert!(bytes(&ring) <= blocks * BLOCK_REQUESTS * 2 * (MAX_TARGET + 100));
    for _ in 0..2_000 {
        keep(&ring, "/short", 200, 500);
    }
    assert!(bytes(&ring) <= blocks * BLOCK_REQUESTS * 2 * 50);
}

proptest! {
    #[test]
    fn requests_are_listed_as_they_were_kept(
        target in proptest::collection::vec(any::<u8>(), 0..600),
        numbers in any::<[u64; 6]>(),
        times in any::<[Option<u64>; 5]>(),
        script in any::<Option<[u64; 5]>>(),
        status in any::<u16>(),
        id in any::<Option<u64>>(),
        outcome in 0..3,
        cache_status in proptest::option::of(prop_oneof![Just("HIT"), Just("MISS")]),
    ) {
        let [queue, start, script_time, upstream, sending] = times;
        let request = FinishedRequest {
            site: &Arc::from("shop"),
            listener: &Arc::from(""),
            trace: None,
            id,
            method: b"POST",
            target: &target,
            status,
            received: numbers[0],
            sent: numbers[1],
            whole: Duration::from_micros(numbers[2]),
            parts: Parts { queue, start, script: script_time, upstream, sending },
            script: script.map(|numbers| ScriptFacts {
                queued_at_us: numbers[0],
                waited_us: numbers[1],
                has_started_php: numbers[0] % 2 == 1,
                ran_us: numbers[2],
                cpu_us: numbers[3],
                peak_memory: numbers[4],
            }),
            cache_status,
            outcome: match outcome {
                0 => SendOutcome::Complete,
                1 => SendOutcome::ClientGone,
                _ => SendOutcome::BodyFailed,
            },
            handling: None,
        };
        let ring = Ring::new(7);
        keep(&ring, "/before", 200, 3);
        ring.keep(&request, Duration::from_micros(numbers[3]), 3);
        keep(&ring, "/after", 200, 3);
        let (found, last) = ring.list(&all(), 0);
        prop_assert_eq!(last, 9);
        prop_assert_eq!(found.len(), 3);
        let kept = &found[1];
        prop_assert_eq!(kept.number, 8);
        prop_assert_eq!(kept.at, Duration::from_micros(numbers[3]));
        prop_assert_eq!(kept.whole, numbers[2]);
        prop_assert_eq!((kept.id, kept.status, kept.received, kept.sent), (id, status, numbers[0], numbers[1]));
        prop_assert_eq!(kept.parts, request.parts);
        prop_assert_eq!(kept.script, request.script);
        prop_assert_eq!((kept.cache_status, kept.outcome), (cache_status, request.outcome));
        prop_assert_eq!(kept.is_cut, target.len() > MAX_TARGET);
        let texts = kept.texts();
        prop_assert_eq!((texts.site, texts.listener, texts.method), (&b"shop"[..], &b""[..], &b"POST"[..]));
        prop_assert_eq!(texts.target, &target[..target.len().min(MAX_TARGET)]);
    }
}
