//! A Valkey that is gone, hangs or comes back costs accuracy and no request.

use harness::valkey::Valkey;
use rustix::process::Signal;
use serde_json::json;

use super::servers::{
    ask, cached, connected, disconnected, has, loses, origin, server, status, store, two,
};

#[test]
fn without_valkey_each_server_counts_alone_and_answers() {
    let Some(mut valkey) = Valkey::start(&[]) else { return };
    let limit = json!({"rate": "1/h", "burst": 9});
    let servers = two(&valkey, &json!({"routes": [{"action": {"return": 200, "limit": limit}}]}));
    assert_eq!((servers[0].get("/").status, servers[1].get("/").status), (200, 200));
    valkey.stop();
    for server in &servers {
        disconnected(server);
        let mut client = server.connect();
        let statuses: Vec<_> = (0..20).map(|_| client.get("/").status).collect();
        let admitted = statuses.iter().filter(|status| **status == 200).count();
        assert!((8..=9).contains(&admitted), "{statuses:?}");
        assert!(statuses.iter().all(|status| [200, 429].contains(status)));
        server.wait_for_log("cluster: the server unix:");
    }
    valkey.run();
    servers.iter().for_each(connected);
    servers[0].wait_for_log("answers again");
}

#[test]
fn a_valkey_that_hangs_delays_requests_once() {
    let Some(valkey) = Valkey::start(&[]) else { return };
    let limit = json!({"rate": "1000000/s", "burst": 1000});
    let servers = two(&valkey, &json!({"routes": [{"action": {"return": 200, "limit": limit}}]}));
    valkey.signal(Signal::STOP);
    let mut client = servers[0].connect();
    for _ in 0..500 {
        assert_eq!(client.get("/").status, 200);
    }
    let alone = status(&servers[0], "/requests/alone").as_u64().unwrap();
    assert_eq!(alone, 500);
    servers[0].wait_for_log("it does not answer in time");
    valkey.signal(Signal::CONT);
    connected(&servers[0]);
    assert_eq!(client.get("/").status, 200);
    assert!(status(&servers[0], "/requests/counted").as_u64() >= Some(1));
}

#[test]
fn a_server_starts_without_valkey_and_without_a_name_that_has_an_address() {
    for cluster in [json!("unix:/nonexistent/valkey.sock"), json!("nowhere.invalid:6379")] {
        let limit = json!({"rate": "1/h"});
        let document = json!({
            "settings": {"resolver": "127.0.0.1:9"},
            "routes": [{"action": {"return": 200, "limit": limit}}],
        });
        let server = server(&cluster, document);
        assert_eq!((server.get("/").status, server.get("/").status), (200, 429));
        assert_eq!(status(&server, "/connected"), false);
    }
}

#[test]
fn purges_during_an_outage_are_not_lost() {
    let Some(mut valkey) = Valkey::start(&["--appendonly", "yes", "--appendfsync", "always"])
    else {
        return;
    };
    let origin = origin();
    let servers = two(&valkey, &cached(&origin));
    store(&servers, &["/first", "/a", "/b"]);
    // The receiver has a position from here on.
    ask(&servers[0], "PURGE", "/first", "");
    loses(&servers[1], "/first");
    valkey.stop();
    servers.iter().for_each(disconnected);
    assert_eq!(ask(&servers[0], "PURGE", "/a", "").status, 200);
    assert!(!has(&servers[0], "/a") && has(&servers[1], "/a"));
    valkey.run();
    loses(&servers[1], "/a");
    assert!(has(&servers[1], "/b"), "only what was purged is");
    assert_eq!(status(&servers[1], "/purges/missed"), 0);
}

#[test]
fn everything_is_purged_where_purges_may_have_been_missed() {
    let Some(mut valkey) = Valkey::start(&[]) else { return };
    let origin = origin();
    let servers = two(&valkey, &cached(&origin));
    store(&servers, &["/first", "/a"]);
    ask(&servers[0], "PURGE", "/first", "");
    loses(&servers[1], "/first");
    // Valkey forgets everything.
    valkey.stop();
    valkey.run();
    loses(&servers[1], "/a");
    assert!(status(&servers[1], "/purges/missed").as_u64() >= Some(1));
    servers[1].wait_for_log("all cached responses are purged");
}
