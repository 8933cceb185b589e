use super::*;
use crate::fixture::request;
use crate::message::ConnectionInfo;

const PIECE: usize = 1 << 20;

fn owner(client: u8, site: &str) -> Owner {
    Owner { client: Some([192, 0, 2, client].into()), site: Some(site.into()) }
}

fn is_unused(budget: &Budget) -> bool {
    budget.with(|used| {
        used.bytes == 0
            && used.clients.is_empty()
            && used.sites.is_empty()
            && used.contents.is_empty()
    })
}

/// Takes all that an owner gets.
fn all(budget: &'static Budget, owner: &Owner) -> Vec<Charge> {
    std::iter::from_fn(|| {
        let mut charge = Charge::new(budget, owner.clone());
        charge.hold(PIECE).then_some(charge)
    })
    .collect()
}

#[test]
fn clients_and_sites_have_a_part_of_the_memory_of_all() {
    static BUDGET: Budget = Budget::new("tests", 1);
    let mib = |bytes: usize| bytes / PIECE;
    let first = all(&BUDGET, &owner(1, "a"));
    assert_eq!(first.len(), mib(BUDGET.max_of_client.load(Relaxed)));
    let others: Vec<_> = (2..5).map(|client| all(&BUDGET, &owner(client, "a"))).collect();
    let of_site = first.len() + others.iter().map(Vec::len).sum::<usize>();
    assert_eq!(of_site, mib(BUDGET.max_of_site.load(Relaxed)));
    assert!(all(&BUDGET, &owner(1, "b")).is_empty(), "the client has had its part");
    let of_others: Vec<_> = (5..9).map(|client| all(&BUDGET, &owner(client, "b"))).collect();
    let count = of_site + of_others.iter().map(Vec::len).sum::<usize>();
    assert_eq!(count, mib(BUDGET.max.load(Relaxed)));
    let least = all(&BUDGET, &owner(9, "c"));
    assert_eq!(least.len(), mib(SITE_BYTES), "a site has a little whatever others have");
    drop((first, others, of_others, least));
    assert!(is_unused(&BUDGET));
}

#[test]
fn an_owner_that_many_clients_share_has_the_limit_of_its_site_alone() {
    static BUDGET: Budget = Budget::new("tests", 1);
    let owner = Owner { client: None, ..owner(1, "a") };
    let all = all(&BUDGET, &owner);
    assert_eq!(all.len(), BUDGET.max_of_site.load(Relaxed) / PIECE);
    let asked = |peer: &str| {
        let connection =
            ConnectionInfo { peer: Some(peer.parse().unwrap()), ..ConnectionInfo::default() };
        connection.owner().client.is_some()
    };
    assert!(asked("192.0.2.1:1") && asked("[2001:db8::1]:1"));
    assert!(!asked("127.0.0.1:1") && !asked("[::1]:1") && !asked("[::ffff:127.0.0.9]:1"));
    assert!(ConnectionInfo::default().owner().client.is_none(), "a unix socket");
    let listener: Arc<str> = "*:80".into();
    let mut request = request("/", &[("host", "made-up.example")]);
    request.connection = Arc::new(ConnectionInfo {
        peer: Some(([192, 0, 2, 1], 1).into()),
        ..ConnectionInfo::default()
    });
    request.handling.set_listener(Arc::clone(&listener));
    let of_request = request.owner();
    assert_eq!(of_request, super::tests::owner(1, "*:80"), "not the name that the client chose");
    request.handling.set_client_unknown();
    assert_eq!(request.owner(), Owner { client: None, site: Some(listener) });
}

#[test]
fn content_that_responses_share_counts_once_until_the_last_has_ended() {
    static BUDGET: Budget = Budget::new("tests", 1);
    let content = Bytes::from(vec![0; 20 << 20]);
    let mut first = Charge::new(&BUDGET, owner(1, "a"));
    assert!(first.hold_with(100 << 10, Some(&content), content.len()));
    let rest = content.slice(1000..);
    let others: Vec<_> = (0..50)
        .map(|_| {
            let mut charge = Charge::new(&BUDGET, owner(2, "b"));
            assert!(charge.hold_with(FREE_BYTES, Some(&rest), content.len()));
            charge
        })
        .collect();
    let bytes = || BUDGET.with(|used| used.bytes);
    assert_eq!(bytes(), content.len() + (112 << 10));
    assert!(first.hold_with(100 << 10, Some(&rest), content.len()));
    drop(first);
    assert_eq!(bytes(), content.len());
    drop(others);
    assert!(is_unused(&BUDGET));
}

#[test]
fn a_charge_follows_what_it_is_for() {
    static BUDGET: Budget = Budget::new("tests", 1);
    let bytes = || BUDGET.with(|used| used.bytes);
    let mut charge = Charge::new(&BUDGET, owner(1, "a"));
    assert!(charge.hold(FREE_BYTES) && bytes() == 0, "little is free");
    assert!(charge.hold(30 << 20) && bytes() == 30 << 20);
    assert!(!charge.hold(33 << 20) && bytes() == 30 << 20, "more than there is");
    assert!(charge.hold(29 << 20) && bytes() == 30 << 20, "a small step");
    assert!(charge.hold(2 << 20) && bytes() == 2 << 20);
    assert!(charge.hold(0) && bytes() == 0);
    assert!(charge.hold(1 << 20));
    let owned = charge.own(vec![7; 1 << 20]);
    assert!(owned[5] == 7 && bytes() == 1 << 20);
    drop(owned);
    assert!(is_unused(&BUDGET));
}

#[test]
fn a_limit_that_was_reached_is_told_once_a_minute() {
    static BUDGET: Budget = Budget::new("what waits", 1);
    let now = Instant::now();
    assert_eq!(BUDGET.report(now), None);
    let _all = all(&BUDGET, &owner(1, "shop"));
    let told = BUDGET.report(now).map(|report| report.to_string());
    let expected =
        "client 192.0.2.1: what waits take 32 MiB of memory, which is the limit of a client: ";
    assert!(told.as_ref().is_some_and(|told| told.starts_with(expected)), "{told:?}");
    assert!(all(&BUDGET, &owner(1, "shop")).is_empty());
    assert_eq!(BUDGET.report(now + REPORT_INTERVAL / 2), None);
    let of_proxy = Owner { client: None, ..owner(2, "shop") };
    let _rest = all(&BUDGET, &of_proxy);
    let told = BUDGET.report(now + REPORT_INTERVAL).map(|report| report.to_string());
    let expected = "shop: what waits take 64 MiB of memory, which is the limit of a site: ";
    assert!(told.as_ref().is_some_and(|told| told.starts_with(expected)), "{told:?}");
}
