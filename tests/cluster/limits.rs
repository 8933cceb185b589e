//! Rates of several servers together.

use std::net::Ipv4Addr;

use harness::Server;
use harness::client::Client;
use harness::valkey::Valkey;
use serde_json::{Value, json};

use super::servers::{status, two};

fn limited(limit: Value) -> Value {
    json!({"routes": [{"action": {"return": 200, "limit": limit}}]})
}

/// Returns the statuses of requests of one client that are sent to all servers at once.
fn rush(servers: &[Server], clients: usize, requests: usize) -> Vec<u16> {
    std::thread::scope(|scope| {
        let clients = servers.iter().cycle().take(clients).map(|server| {
            scope.spawn(move || {
                let mut client = server.connect();
                (0..requests).map(|_| client.get("/").status).collect::<Vec<_>>()
            })
        });
        let clients: Vec<_> = clients.collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    })
}

fn count(statuses: &[u16], status: u16) -> usize {
    statuses.iter().filter(|found| **found == status).count()
}

#[test]
fn a_burst_is_exact_over_two_servers() {
    let Some(valkey) = Valkey::start(&[]) else { return };
    let servers = two(&valkey, &limited(json!({"rate": "1/h", "burst": 49})));
    let statuses = rush(&servers, 16, 20);
    assert_eq!((count(&statuses, 200), count(&statuses, 429)), (50, 270));
    // Once the debt is known, refusals take no question.
    let asked = |server| status(server, "/requests/counted").as_u64().unwrap();
    let before: Vec<_> = servers.iter().map(asked).collect();
    assert!(before.iter().sum::<u64>() < 320);
    assert_eq!(count(&rush(&servers, 4, 50), 429), 200);
    assert_eq!(servers.iter().map(asked).collect::<Vec<_>>(), before);
    let mut other = Client::connect_from(Ipv4Addr::new(127, 0, 0, 9), servers[0].address);
    assert_eq!(other.get("/").status, 200, "another client has its own rate");
    // No address of a visitor is in Valkey.
    assert_eq!(valkey.ask(&["KEYS", "*127.0*"]), "*0");
    assert_eq!(valkey.ask(&["KEYS", "howdah:limit:*"]), "*2");
}

#[test]
fn what_another_server_has_admitted_is_told_to_the_client() {
    let Some(valkey) = Valkey::start(&[]) else { return };
    let limit = json!({"rate": "1/h", "burst": 3, "zone": "shop", "announce": true});
    let servers = two(&valkey, &limited(limit));
    let ask = |server: usize| {
        let response = servers[server].get("/");
        let remaining = response.field("RateLimit").unwrap_or_default().to_owned();
        (response.status, remaining.split(';').nth(1).unwrap_or_default().to_owned())
    };
    assert_eq!(ask(0), (200, "r=3".to_owned()));
    assert_eq!(ask(1), (200, "r=2".to_owned()));
    assert_eq!(ask(1), (200, "r=1".to_owned()));
    assert_eq!(ask(0), (200, "r=0".to_owned()));
    assert_eq!(ask(1), (429, "r=0".to_owned()));
    let retry: u32 = servers[1].get("/").field("Retry-After").unwrap().parse().unwrap();
    assert!((3500..=3600).contains(&retry), "{retry}");
}

#[test]
fn a_rule_may_be_about_one_server_and_a_dry_run_is_shared() {
    let Some(valkey) = Valkey::start(&[]) else { return };
    let limit = json!([
        {"rate": "1/h", "burst": 4, "shared": false, "zone": "own"},
        {"rate": "1/h", "burst": 1, "dry_run": true, "zone": "dry"},
    ]);
    let servers = two(&valkey, &limited(limit));
    let statuses = rush(&servers, 2, 10);
    assert_eq!((count(&statuses, 200), count(&statuses, 429)), (10, 10));
    let dry = |server: &Server| {
        server.control("GET", "/status/limits/dry/dry_run", "").succeeded().as_u64().unwrap()
    };
    let both: u64 = servers.iter().map(dry).sum();
    assert_eq!(both, 8, "two of ten conform on both servers together");
}

#[test]
fn a_penalty_holds_on_all_servers() {
    let Some(valkey) = Valkey::start(&[]) else { return };
    let penalty = json!({"after": 3, "time": 3000, "max_time": 3000});
    let limit = json!({"rate": "1/s", "burst": 0, "zone": "z", "penalty": penalty});
    let servers = two(&valkey, &limited(limit));
    // The rate alone refuses for a second.
    let penalty = |server: &Server| {
        let retry: u32 = server.get("/").field("Retry-After")?.parse().unwrap();
        (retry > 1).then_some(retry)
    };
    harness::eventually("there is a penalty", || penalty(&servers[0]));
    let retry = harness::eventually("it holds on the other server", || penalty(&servers[1]));
    assert!((2000..=3000).contains(&retry), "{retry}");
}
