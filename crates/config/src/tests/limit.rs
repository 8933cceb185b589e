//! `limit` of listeners and actions.

use super::*;
use crate::{Fairness, LimitBandwidth, LimitPenalty, LimitRate, LimitRule};

fn rules(limit: Value) -> Vec<LimitRule> {
    read_action(json!({"return": 200, "limit": limit})).limit
}

fn refused(limit: Value) -> String {
    refusal(json!({"routes": [{"action": {"return": 200, "limit": limit}}]}))
}

#[test]
fn every_key_of_a_limit_is_read() {
    let all = rules(json!([
        {
            "zone": "a.b-c", "key": "$host", "rate": "60/m", "burst": 5, "delay": 2,
            "concurrency": 3, "processes": 2,
            "keys": 1000, "status": 503, "announce": true, "dry_run": true,
            "penalty": {"after": 2, "time": 10, "max_time": 20, "close_after": 9},
            "match": {"method": "POST"}, "except": ["10.0.0.0/8", {"headers": {"X-Key": "1"}}],
        },
        {"concurrency": 1},
    ]));
    let [full, short] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!((full.name(), full.concurrency, full.keys), ("a.b-c", Some(3), 1000));
    let period = std::time::Duration::from_secs(60);
    let rate = LimitRate { requests: 60, period, burst: 5, undelayed: Some(2) };
    assert_eq!(full.rate, Some(rate));
    let penalty = LimitPenalty { after: 2, time: 10, max_time: 20, close_after: Some(9) };
    assert_eq!(full.penalty, Some(penalty));
    assert_eq!(full.processes, Some(2));
    assert!(full.announce && full.dry_run && full.status == 503);
    assert!(full.except.addresses.matches("10.1.1.1:1".parse().ok()));
    assert!(full.except.conditions.len() == 1 && full.conditions.method.is_some());
    assert_eq!(short.name(), "/routes/0/action/limit/1");
    assert!(short.key.is_none() && short.rate.is_none() && short.status == 429);
    assert!(!short.except.addresses.matches("10.1.1.1:1".parse().ok()));
}

#[test]
fn a_listener_has_limits_too() {
    let document =
        json!({"listeners": {"*:80": {"pass": "routes", "limit": {"rate": "2/h"}}}, "routes": []});
    let config = read(document);
    let rule = config.limit_rules().next().expect("a rule");
    assert_eq!(rule.place, "/listeners/*:80/limit");
    assert_eq!(rule.rate.map(|rate| (rate.requests, rate.period.as_secs())), Some((2, 3600)));
}

#[test]
fn own_keys_replace_those_of_a_preset() {
    let rules = rules(json!({"preset": "login", "rate": "3/s"}));
    let rule = rules.first().expect("a rule");
    assert_eq!(rule.rate.map(|rate| (rate.requests, rate.burst)), Some((3, 9)));
    assert!(rule.conditions.uri.as_ref().is_some_and(|uri| uri.matches(b"/blog/wp-login.php")));
    assert!(rule.penalty.is_some());
}

#[test]
fn every_spelling_of_a_log_in_page_is_limited() {
    let rules = rules(json!({"preset": "login"}));
    let uri = rules.first().and_then(|rule| rule.conditions.uri.as_ref()).expect("patterns");
    // Scripts run with any path behind their names, as the index of their directory, and
    // applications take no notice of a slash at the end.
    for path in [
        "/wp-login.php",
        "/wp-login.php/",
        "/blog/wp-login.php/a.css",
        "/xmlrpc.php/x",
        "/login",
        "/login/",
        "/index.php/login/",
        "/user/login/",
        "/admin/login/",
        "/administrator/",
        "/joomla/administrator/index.php/x",
        "/typo3/",
        "/typo3/index.php/",
        "/password/email/",
    ] {
        assert!(uri.matches(path.as_bytes()), "{path}");
    }
    for path in
        ["/", "/index.php", "/administrator/images/a.png", "/logins", "/my-wp-login.php.txt"]
    {
        assert!(!uri.matches(path.as_bytes()), "{path}");
    }
}

#[test]
fn broken_limits_are_refused_with_their_path_and_a_hint() {
    for (limit, message) in [
        (
            json!({}),
            "/routes/0/action/limit: one of \"rate\", \"concurrency\", \"processes\", \
             \"connections\" or \"bandwidth\" is missing",
        ),
        (json!(["1/s"]), "/routes/0/action/limit/0: element 0 must be an object"),
        (json!({"rate": 10}), "\"rate\" must be a string"),
        (json!({"rate": "10r/s"}), "write \"10/s\""),
        (json!({"rate": "10"}), "write \"10/s\" or \"100/m\""),
        (json!({"rate": "+1/s"}), "must be a number of requests"),
        (json!({"rate": "/s"}), "must be a number of requests"),
        (json!({"rate": "99999999999/s"}), "must be a number of requests"),
        (json!({"rate": "0/s"}), "must be at least 1"),
        (json!({"rate": "1000001/s"}), "must be at most 1000000/s"),
        (json!({"concurrency": 0}), "/limit/concurrency: \"concurrency\" must be between 1 and"),
        (json!({"concurrency": 1, "burst": 1}), "/limit/burst: \"burst\" must be with \"rate\""),
        (json!({"rate": "1/s", "delay": true}), "/limit/delay: \"delay\" must be with a \"burst\""),
        (json!({"rate": "1/s", "burst": 1, "delay": "no"}), "must be true, false, or the number"),
        (json!({"concurrency": 1, "penalty": {}}), "which must be with \"rate\""),
        (
            json!({"rate": "1/s", "penalty": {"time": 9, "max_time": 8}}),
            "must be at least \"time\"",
        ),
        (json!({"rate": "1/s", "status": 200}), "must be between 400 and 599"),
        (json!({"rate": "1/s", "keys": 1}), "must be between 100 and 20000000"),
        (json!({"rate": "1/s", "zone": "a b"}), "must be a name of letters"),
        (json!({"rate": "1/s", "key": ""}), "must not be empty"),
        (json!({"rate": "1/s", "key": "$status"}), "which is not known yet"),
        (json!({"rate": "1/s", "key": "$remote_adr"}), "did you mean \"$remote_addr\"?"),
        (json!({"rate": "1/s", "except": 1}), "must be an address pattern or an object"),
        (json!({"rate": "1/s", "except": ["x"]}), "/limit/except/0: element 0 is not an address"),
        (json!({"rate": "1/s", "except": {"hsot": "x"}}), "did you mean \"host\"?"),
        (json!({"rate": "1/s", "bursts": 1}), "did you mean \"burst\"?"),
        (json!({"connections": 1}), "must be in the \"limit\" of a listener"),
        (json!({"bandwidth": 0}), "/limit/bandwidth: \"bandwidth\" must be 1 or more"),
        (json!({"bandwidth": "10k"}), "without quotes or a unit"),
        (json!({"bandwidth": {"after": 1}}), "/limit/bandwidth: \"rate\" is missing"),
        (json!({"rate": "1/s", "except_names": 1}), "/limit/except_names"),
        (json!({"preset": "logn"}), "did you mean \"login\"?"),
    ] {
        let line = refused(limit);
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn connections_are_counted_before_there_is_a_request() {
    let document = |limit: Value| {
        json!({"listeners": {"*:80": {"pass": "routes", "limit": limit}},
        "routes": []})
    };
    let config = read(document(json!([
        {"connections": 5, "except": "10.0.0.1"}, {"bandwidth": {"rate": 2, "after": 1}},
    ])));
    let rules: Vec<_> = config.limit_rules().collect();
    let bandwidth = Some(LimitBandwidth { rate: 2, after: 1 });
    assert_eq!((rules[0].connections, rules[1].bandwidth), (Some(5), bandwidth));
    for (key, value) in
        [("key", json!("$host")), ("match", json!({})), ("except", json!({"uri": "/"}))]
    {
        let line = refusal(document(json!({"connections": 5, key: value})));
        assert!(line.contains("/listeners/*:80/limit"), "{line}");
    }
}

#[test]
fn an_application_may_let_clients_take_turns() {
    let limits = |limits: Value| {
        read_application(json!({"type": "php", "root": "/", "limits": limits})).limits
    };
    let fair = |value: Value| limits(json!({"fair": value})).fair;
    assert_eq!((fair(json!(true)), fair(json!(false))), (Fairness::Clients, Fairness::Arrival));
    assert!(matches!(fair(json!("$host")), Fairness::Key(_)));
    assert_eq!(limits(json!({"patience": 5})).patience, Some(std::time::Duration::from_secs(5)));
    assert_eq!(limits(json!({"patience": 0})), limits(json!({})));
    for (limits, message) in [
        (
            json!({"fair": 1}),
            "/applications/a/limits/fair: \"fair\" must be true, false, or a string",
        ),
        (json!({"fair": "$hots"}), "did you mean \"$host\"?"),
        (json!({"patience": -1}), "/applications/a/limits/patience"),
    ] {
        let application = json!({"type": "php", "root": "/", "limits": limits});
        let line = refusal(json!({"applications": {"a": application}}));
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn rules_of_one_zone_count_alike() {
    let rule = |key: &str, rate: &str| json!({"zone": "a", "key": key, "rate": rate});
    assert_eq!(rules(json!([rule("$host", "1/s"), rule("$host", "2/s")])).len(), 2);
    let line = refused(json!([rule("$host", "1/s"), rule("$uri", "1/s")]));
    assert!(
        line.contains(
            "/limit/1: \"key\" is not that of /routes/0/action/limit/0, which has the same zone"
        ),
        "{line}"
    );
}
