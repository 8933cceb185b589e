use std::sync::Arc;

use howdah_config::{Config, Match};
use howdah_http::fixture::request;
use howdah_http::message::Response;
use serde_json::{Value, json};

use super::*;
use crate::SECOND;
use crate::rules::{Paths, TooManyConnections, connect, need_name};
use crate::shared::Answer;
use crate::zone::Zones;

/// Rules of an action, and their zones.
struct Fixture {
    rules: Vec<Rule>,
    zones: Zones,
}

fn config(limit: Value) -> Config {
    let action = json!({"return": 200, "limit": limit});
    Config::from_value(json!({"routes": [{"action": action}]})).expect("valid")
}

fn fixture_after(limit: Value, previous: Option<&Fixture>) -> Fixture {
    let config = config(limit);
    let zones = Zones::new(&config, previous.map(|previous| &previous.zones));
    let rules = Rule::compile(&config.routes[0].steps[0].action.limit, &zones);
    Fixture { rules, zones }
}

fn fixture(limit: Value) -> Fixture {
    fixture_after(limit, None)
}

fn from(client: &str) -> Request {
    let mut request = request("/", &[]);
    let mut connection = (*request.connection).clone();
    connection.peer = Some(client.parse().expect("an address"));
    request.connection = Arc::new(connection);
    request
}

impl Fixture {
    /// Checks a request at a time in milliseconds.
    fn check(&self, client: &str, ms: u64) -> Result<Admission, Box<Refusal>> {
        let request = from(client);
        let mut holds = |conditions: &Match, _: Paths| {
            conditions.source.as_ref().is_none_or(|s| s.matches(request.connection.peer))
        };
        let now = SECOND + ms * 1_000_000;
        let checked = check(&self.rules, &request, None, Instant::now(), now, &mut holds);
        checked.map(|checked| checked.admission)
    }

    fn admits(&self, client: &str, ms: u64) -> bool {
        self.check(client, ms).is_ok()
    }

    fn report(&self) -> howdah_questions::LimitStatus {
        self.zones.all()[0].report(SECOND)
    }
}

const A: &str = "192.0.2.1:1000";
const B: &str = "192.0.2.2:1000";

fn field<'a>(response: &'a Response, name: &str) -> &'a str {
    let value = response.fields.get(name);
    value.and_then(|value| std::str::from_utf8(value).ok()).unwrap_or("")
}

#[test]
fn a_refused_client_is_told_when_to_come_again() {
    let limit = fixture(json!({"rate": "30/m", "burst": 2, "zone": "search"}));
    assert!((0..3).all(|_| limit.admits(A, 0)) && limit.admits(B, 0));
    let response = limit.check(A, 500).expect_err("the fourth").response();
    assert_eq!((response.status, field(&response, "Retry-After")), (429, "2"));
    assert_eq!(field(&response, "RateLimit-Policy"), "\"search\";q=3;w=6");
    assert_eq!(field(&response, "RateLimit"), "\"search\";r=0;t=2");
    assert!(response.is_default_error_page, "a page of the administrator may replace it");
    assert!(limit.admits(A, 2000) && !limit.admits(A, 2000));
}

#[test]
fn a_status_of_the_document_replaces_429() {
    let limit = fixture(json!({"rate": "1/s", "status": 503}));
    limit.admits(A, 0);
    let response = limit.check(A, 0).expect_err("the second").response();
    assert_eq!(response.status, 503);
    let retry = response.fields.iter().filter(|(name, _)| *name == b"Retry-After");
    assert_eq!(retry.map(|(_, value)| value).collect::<Vec<_>>(), [b"1"]);
}

/// As nginx: with `burst=4 delay=2` two requests of the burst continue at once, and two wait.
#[test]
fn requests_of_the_burst_wait_for_their_turn() {
    let delays = |limit: Value| -> Vec<_> {
        let limit = fixture(limit);
        let delay = |_| limit.check(A, 0).map(|admission| admission.delay / 1_000_000).ok();
        (0..6).map(delay).collect()
    };
    let all = [Some(0), Some(100), Some(200), Some(300), Some(400), None];
    assert_eq!(delays(json!({"rate": "10/s", "burst": 4, "delay": true})), all);
    let some = [Some(0), Some(0), Some(0), Some(100), Some(200), None];
    assert_eq!(delays(json!({"rate": "10/s", "burst": 4, "delay": 2})), some);
    let none = [Some(0), Some(0), Some(0), Some(0), Some(0), None];
    assert_eq!(delays(json!({"rate": "10/s", "burst": 4})), none);
}

#[test]
fn an_ipv6_client_cannot_escape_within_its_network() {
    let limit = fixture(json!({"rate": "1/s"}));
    assert!(limit.admits("[2001:db8:0:1::1]:1", 0) && !limit.admits("[2001:db8:0:1::2]:2", 0));
    assert!(limit.admits("[2001:db8:0:2::1]:1", 0));
}

#[test]
fn requests_at_once_are_counted_until_their_permits_are_dropped() {
    let limit = fixture(json!({"concurrency": 2}));
    let first = limit.check(A, 0).expect("one");
    let _second = limit.check(A, 0).expect("two");
    let refusal = limit.check(A, 0).expect_err("three");
    assert_eq!(field(&refusal.response(), "Retry-After"), "1");
    assert_eq!(field(&refusal.response(), "RateLimit"), "");
    assert!(limit.admits(B, 0));
    drop(first);
    assert!(limit.admits(A, 0));
}

#[test]
fn a_refused_request_counts_for_no_rule() {
    let limit = fixture(json!([{"rate": "1/m", "burst": 4}, {"concurrency": 1}]));
    let held = limit.check(A, 0).expect("one at once");
    assert!((0..50).all(|_| !limit.admits(A, 0)), "refused by the second rule");
    drop(held);
    assert!((0..4).all(|_| limit.admits(A, 0)), "the first rule has not counted them");
    assert!(!limit.admits(A, 0));
}

#[test]
fn a_dry_run_counts_and_admits() {
    let limit = fixture(json!({"rate": "1/m", "burst": 1, "delay": true, "dry_run": true}));
    for _ in 0..5 {
        assert_eq!(limit.check(A, 0).expect("admitted").delay, 0);
    }
    let report = limit.report();
    assert_eq!((report.requests, report.dry_run, report.refused), (5, 3, 0));
    assert_eq!(limit.zones.all()[0].report(0).top[0].key, "192.0.2.1");
}

#[test]
fn exceptions_and_empty_keys_are_not_counted() {
    let except = json!(["192.0.2.1", {"source": "192.0.2.2"}]);
    let limit = fixture(json!({"rate": "1/d", "except": except}));
    assert!((0..5).all(|_| limit.admits(A, 0) && limit.admits(B, 0)));
    assert!(limit.admits("192.0.2.3:1", 0) && !limit.admits("192.0.2.3:1", 0));
    let limit = fixture(json!({"rate": "1/d", "key": "$header_x_api_key"}));
    assert!((0..5).all(|_| limit.admits(A, 0)));
    assert_eq!(limit.report().requests, 0);
}

#[test]
fn rules_with_conditions_are_about_the_requests_that_meet_them() {
    let limit = fixture(json!({"rate": "1/d", "match": {"source": "192.0.2.1"}}));
    assert!(limit.admits(A, 0) && !limit.admits(A, 0) && limit.admits(B, 0) && limit.admits(B, 0));
}

#[test]
fn clients_that_go_on_are_blocked_and_then_not_answered() {
    let penalty = json!({"after": 3, "time": 10, "max_time": 20, "close_after": 5});
    let limit = fixture(json!({"rate": "10/s", "penalty": penalty}));
    assert!(limit.admits(A, 0));
    let seen: Vec<_> = (0..6)
        .map(|_| {
            let refusal = limit.check(A, 1).expect_err("refused");
            assert_eq!(refusal.response().is_unsent(), refusal.close);
            (refusal.block.map(|block| block / SECOND), refusal.close)
        })
        .collect();
    let (answered, closed) = ((None, false), (None, true));
    assert_eq!(seen, [answered, answered, (Some(10), false), answered, closed, (Some(20), true)]);
    assert!(!limit.admits(A, 15_000), "blocked at ten times less than its rate");
    assert!(limit.admits(A, 90_000), "pardoned after a time without requests");
    assert!(limit.check(A, 90_000).is_err_and(|refusal| !refusal.close));
    let report = limit.report();
    assert_eq!((report.penalties, report.closed), (2, 3));
}

#[test]
fn the_smallest_remainder_is_announced() {
    let announced = |limit: &Fixture| {
        let mut response = Response::new(200, howdah_http::body::Body::Empty);
        let admission = limit.check(A, 0).expect("admitted");
        admission.announcement.expect("announced").put(&mut response);
        field(&response, "RateLimit").to_owned()
    };
    let limit = fixture(json!([
        {"rate": "10/s", "burst": 9, "zone": "short", "announce": true},
        {"rate": "4/m", "burst": 3, "zone": "long", "announce": true},
    ]));
    assert_eq!(announced(&limit), "\"long\";r=3;t=15");
    let limit = fixture(json!({"rate": "1/s"}));
    assert_eq!(limit.check(A, 0).expect("admitted").announcement, None);
}

#[test]
fn clients_with_an_excepted_name_are_not_counted() {
    let key = "$header_user_agent";
    let limit = fixture(json!({"rate": "1/d", "key": key, "except_names": "*.example.org"}));
    let mut request = request("/", &[("User-Agent", "somebot")]);
    request.connection = from(A).connection;
    assert!(need_name(&limit.rules, &request, &mut |_, _| true));
    let admits =
        |name| check(&limit.rules, &request, name, Instant::now(), 1, &mut |_, _| true).is_ok();
    assert!((0..3).all(|_| admits(Some("crawl-1.example.org"))));
    assert!(admits(Some("example.com")) && !admits(None), "others share the name that they give");
    assert!(!need_name(&fixture(json!({"rate": "1/d"})).rules, &request, &mut |_, _| true));
}

#[test]
fn connections_of_a_client_are_counted_while_they_are_open() {
    let config = Config::from_value(json!({"routes": [], "listeners": {"*:80": {
        "pass": "routes", "limit": [{"connections": 2, "except": "192.0.2.9"}, {"rate": "1/s"}],
    }}}));
    let config = config.expect("valid");
    let zones = Zones::new(&config, None);
    let rules = Rule::compile(&config.listeners[0].limit, &zones);
    let open = |client: &str| connect(&rules, client.parse().ok(), 1);
    let [first, _second] = [(); 2].map(|()| open(A).expect("room"));
    assert_eq!(open(A).err(), Some(TooManyConnections));
    assert!(open(B).is_ok() && (0..5).map(|_| open("192.0.2.9:1")).all(|open| open.is_ok()));
    drop(first);
    assert!(open(A).is_ok());
}

#[test]
fn rules_of_a_zone_share_its_counters() {
    let rule = json!({"rate": "1/m", "zone": "a"});
    let config = Config::from_value(json!({"routes": [
        {"action": {"return": 200, "limit": rule}}, {"action": {"return": 200, "limit": rule}},
    ]}));
    let config = config.expect("valid");
    let zones = Zones::new(&config, None);
    let steps = &config.routes[0].steps;
    let [first, second] =
        [0, 1].map(|step: usize| Rule::compile(&steps[step].action.limit, &zones));
    let admits =
        |rules: &[Rule]| check(rules, &from(A), None, Instant::now(), 1, &mut |_, _| true).is_ok();
    assert!(admits(&first) && !admits(&second));
}

#[test]
fn a_change_of_the_configuration_pardons_nobody() {
    let before = fixture(json!({"rate": "1/m", "zone": "a"}));
    assert!(before.admits(A, 0));
    let after = fixture_after(json!({"rate": "2/m", "zone": "a"}), Some(&before));
    assert!(!after.admits(A, 0) && after.admits(B, 0));
    let other = fixture_after(json!({"rate": "1/m", "zone": "a", "key": "$host"}), Some(&before));
    assert!(other.admits(A, 0));
}

/// A counter that several servers share.
struct Counter {
    due: u64,
}

impl Fixture {
    /// Checks a request by the shared counter too; `None` if it does not answer.
    fn check_shared(
        &self,
        client: &str,
        ms: u64,
        counter: Option<&mut Counter>,
    ) -> Result<Admission, Box<Refusal>> {
        let (request, now) = (from(client), SECOND + ms * 1_000_000);
        let mut checked =
            check(&self.rules, &request, None, Instant::now(), now, &mut |_, _| true)?;
        let Some(counter) = counter.filter(|_| checked.is_shared()) else {
            return Ok(checked.admission);
        };
        let shared = checked.take_shared();
        let answer = |claim: &Claim<'_>| {
            let debt = counter.due.saturating_sub(now);
            let conforms = claim.rate().wait(debt) == 0;
            if conforms {
                counter.due = now + debt + claim.rate().interval();
            }
            Answer { conforms, debt, credit: 0 }
        };
        let answers: Vec<_> = shared.iter().map(answer).collect();
        checked.settle(shared, &answers, now, now)
    }
}

fn clustered(limit: Value) -> Fixture {
    let action = json!({"return": 200, "limit": limit});
    let cluster = json!({"cluster": "127.0.0.1:6379"});
    let document = json!({"settings": cluster, "routes": [{"action": action}]});
    let config = Config::from_value(document).expect("valid");
    let zones = Zones::new(&config, None);
    let rules = Rule::compile(&config.routes[0].steps[0].action.limit, &zones);
    Fixture { rules, zones }
}

#[test]
fn servers_with_one_counter_admit_one_rate_together() {
    let servers = [(); 3].map(|()| clustered(json!({"rate": "10/s", "burst": 4})));
    let mut counter = Counter { due: 0 };
    let mut admitted = 0;
    for ms in 0..10_000 {
        for server in &servers {
            admitted += u32::from(server.check_shared(A, ms, Some(&mut counter)).is_ok());
        }
    }
    assert_eq!(admitted, 4 + 100);
    let asked: u64 = servers.iter().map(|server| server.report().requests).sum();
    assert_eq!(asked, 30_000);
}

#[test]
fn a_refused_request_is_counted_nowhere_and_the_next_need_not_ask() {
    let limit = clustered(json!([
        {"rate": "1/h", "burst": 9, "shared": false},
        {"rate": "1/s", "burst": 1, "announce": true},
    ]));
    let mut counter = Counter { due: 0 };
    let admission = limit.check_shared(A, 0, Some(&mut counter)).expect("the first");
    assert!(format!("{:?}", admission.announcement).contains("remaining: 1"));
    counter.due = 4 * SECOND;
    let refusal = limit.check_shared(A, 0, Some(&mut counter)).expect_err("others were there");
    assert_eq!(refusal.wait, 2 * SECOND);
    // The debt is known here now.
    for ms in [0, 1999] {
        let refusal = limit.check_shared(A, ms, None).expect_err("refused without a question");
        assert_eq!(refusal.status, 429);
    }
    assert!(limit.check_shared(A, 2000, Some(&mut counter)).is_ok());
    // Two of ten are gone.
    assert_eq!(
        (0..20).filter(|n| limit.check_shared(A, 10_000 + 1000 * n, None).is_ok()).count(),
        8
    );
}

#[test]
fn without_an_answer_a_server_decides_alone() {
    let limit = clustered(json!({"rate": "1/h", "burst": 2}));
    let admitted = (0..9).filter(|_| limit.check_shared(A, 0, None).is_ok());
    assert_eq!(admitted.count(), 3);
}

#[test]
fn a_block_is_told_to_the_others() {
    let penalty = json!({"after": 2, "time": 60});
    let limit = clustered(json!({"rate": "1/s", "burst": 1, "penalty": penalty}));
    let mut counter = Counter { due: 100 * SECOND };
    let first = limit.check_shared(A, 0, Some(&mut counter)).expect_err("refused");
    assert_eq!(first.shared_block, None);
    let second = limit.check_shared(A, 0, Some(&mut counter)).expect_err("refused");
    let block = second.shared_block.expect("a block");
    assert_eq!((&*block.key, block.debt), (&b"192.0.2.1"[..], 61 * SECOND));
    assert!(block.debt <= block.longest_debt);
}

#[test]
fn a_dry_run_is_shared_and_refuses_nobody() {
    let limit = clustered(json!({"rate": "1/s", "dry_run": true}));
    let mut counter = Counter { due: 100 * SECOND };
    assert!(limit.check_shared(A, 0, Some(&mut counter)).is_ok());
    assert_eq!(limit.report().dry_run, 1);
    assert_eq!(limit.report().refused, 0);
}
