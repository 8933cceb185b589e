//! Tests of the ring.

use std::sync::Arc;

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
    let most = 2 * MAX_NAME + MAX_METHOD + MAX_TARGET + MAX_UPSTREAMS;
    assert!(ring.places.borrow().iter().all(|place| place.text.capacity() <= most));
}
