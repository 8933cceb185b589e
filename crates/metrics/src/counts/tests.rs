//! Tests of the counts of a thread.

use std::time::Duration;

use super::*;

fn request<'a>(site: &'a Arc<str>, listener: &'a Arc<str>) -> FinishedRequest<'a> {
    FinishedRequest {
        site,
        listener,
        trace: None,
        id: Some(1),
        method: b"GET",
        target: b"/",
        status: 200,
        received: 20,
        sent: 300,
        whole: Duration::from_millis(2),
        parts: Parts::default(),
        script: None,
        cache_status: None,
        outcome: SendOutcome::Complete,
        handling: None,
    }
}

#[test]
fn requests_are_counted_by_method_and_class_and_taken_once() {
    let (tally, shop, listener) = (Tally::default(), Arc::from("shop"), Arc::from("*:80"));
    let usual = request(&shop, &listener);
    tally.add(&usual);
    tally.add(&FinishedRequest { method: b"get", status: 404, ..usual });
    tally.add(&FinishedRequest { method: b"BREW", status: 0, sent: u64::MAX, ..usual });
    tally.add(&FinishedRequest { status: 599, outcome: SendOutcome::ClientGone, ..usual });
    let [(site, _, counts)] = &tally.take()[..] else { panic!() };
    assert_eq!((&**site, counts.requests(), counts.errors()), ("shop", 4, 1));
    let other = METHODS.len();
    let cells = [(0, 1), (0, 4), (other, 3), (other, 5)];
    assert!(cells.iter().all(|(method, class)| counts.requests[*method][*class] == 1));
    assert_eq!((counts.received, counts.sent, counts.cut_by_client), (80, u64::MAX, 1));
    assert_eq!(counts.whole.count(), 4);
    assert!(tally.take().is_empty());
}

#[test]
fn counts_that_nobody_took_are_counted_again() {
    let (tally, shop, listener) = (Tally::default(), Arc::from("shop"), Arc::from("*:80"));
    let parts = Parts { script: Some(700), ..Parts::default() };
    tally.add(&FinishedRequest { parts, ..request(&shop, &listener) });
    let taken = tally.take();
    tally.add(&request(&shop, &listener));
    tally.add_again(&taken);
    let [(_, _, counts)] = &tally.take()[..] else { panic!() };
    assert_eq!((counts.requests(), counts.parts[2].count(), counts.parts[2].sum()), (2, 1, 700));
}

#[test]
fn sites_and_listeners_have_counts_of_their_own() {
    let tally = Tally::default();
    let [shop, blog, http, https] = ["shop", "blog", "*:80", "*:443"].map(Arc::<str>::from);
    for (site, listener) in [(&shop, &http), (&shop, &https), (&blog, &http), (&shop, &http)] {
        tally.add(&request(site, listener));
    }
    let taken = tally.take();
    let mut all: Vec<_> = { taken.iter() }
        .map(|(site, listener, counts)| format!("{site} {listener} {}", counts.requests()))
        .collect();
    all.sort();
    assert_eq!(all, ["blog *:80 1", "shop *:443 1", "shop *:80 2"]);
}
