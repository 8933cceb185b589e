//! Purges of one server reach the others.

use harness::Server;
use harness::client::Response;
use harness::raw::Raw;
use harness::valkey::Valkey;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::servers::{
    ask, cached, connected, disconnected, has, loses, origin, status, store, two,
};

const TARGETS: [&str; 3] = ["/a", "/b/c", "/b/d"];

#[test]
fn a_purge_of_one_server_reaches_the_other() {
    let Some(valkey) = Valkey::start(&[]) else { return };
    let origin = origin();
    let servers = two(&valkey, &cached(&origin));
    for (method, target, fields, purged) in [
        ("PURGE", "/a", "", &["/a"][..]),
        ("PURGE", "/b/*", "", &["/b/c", "/b/d"]),
        ("PURGE", "/", "Cache-Tag: -a,-b-c\r\n", &["/a", "/b/c"]),
        ("BAN", "/*", "", &TARGETS),
        // A request that changes something makes responses invalid.
        ("POST", "/b/d", "", &["/b/d"]),
    ] {
        store(&servers, &TARGETS);
        assert_eq!(ask(&servers[0], method, target, fields).status, 200);
        purged.iter().for_each(|target| loses(&servers[1], target));
        for target in TARGETS {
            let is_left = !purged.contains(&target);
            assert_eq!((has(&servers[0], target), has(&servers[1], target)), (is_left, is_left));
        }
    }
    assert_eq!(status(&servers[0], "/purges/received"), 0, "its own are none");
    assert_eq!(status(&servers[1], "/purges/received"), status(&servers[0], "/purges/sent"));
    // And the other way.
    store(&servers, &TARGETS);
    ask(&servers[1], "PURGE", "/a", "");
    loses(&servers[0], "/a");
}

#[test]
fn sites_with_different_prefixes_are_apart() {
    let Some(valkey) = Valkey::start(&[]) else { return };
    let origin = origin();
    let servers = ["one:", "two:"].map(|prefix| {
        let server = valkey.address.to_string();
        let cluster = serde_json::json!({"server": server, "prefix": prefix});
        let server = super::servers::server(&cluster, cached(&origin));
        super::servers::connected(&server);
        server
    });
    store(&servers, &TARGETS);
    ask(&servers[0], "BAN", "/*", "");
    harness::eventually("the purge is in Valkey", || {
        (valkey.ask(&["XLEN", "one:purges"]) == ":1").then_some(())
    });
    assert_eq!(valkey.ask(&["EXISTS", "two:purges"]), ":0");
    assert!(has(&servers[1], "/a"));
}

/// Returns a document with a site for each of two origins, and one cache.
fn two_sites(origins: &[Raw; 2]) -> Value {
    let site = |host: &str, origin: &Raw| {
        let action = json!({"proxy": origin.url(), "cache": {"purge": "127.0.0.0/8"}});
        json!({"match": {"host": host}, "action": action})
    };
    json!({"routes": [site("a.example", &origins[0]), site("b.example", &origins[1])]})
}

fn other_site(server: &Server, fields: &str) -> Response {
    let head = format!("GET /page HTTP/1.1\r\nHost: b.example\r\n{fields}");
    server.send(format!("{head}Connection: close\r\n\r\n"))
}

fn has_other_site(server: &Server) -> bool {
    other_site(server, "Cache-Control: only-if-cached\r\n").status == 200
}

/// More purges than may wait, while Valkey cannot be reached.
#[test]
fn a_flood_of_purges_that_wait_empties_the_cache_of_its_own_site_only() {
    let Some(mut valkey) = Valkey::start(&["--appendonly", "yes", "--appendfsync", "always"])
    else {
        return;
    };
    let origins = [origin(), origin()];
    let servers = two(&valkey, &two_sites(&origins));
    store(&servers, &["/a", "/kept"]);
    servers.iter().for_each(|server| drop(other_site(server, "")));
    ask(&servers[0], "PURGE", "/first", "");
    harness::eventually("the purge arrives", || {
        (status(&servers[1], "/purges/received") == 1).then_some(())
    });
    valkey.stop();
    servers.iter().for_each(disconnected);
    let mut client = servers[0].connect();
    for number in 0..1100 {
        let head = format!("PURGE /{number} HTTP/1.1\r\nHost: a.example\r\n\r\n");
        assert_eq!(client.send(head).response().status, 200);
    }
    valkey.run();
    servers.iter().for_each(connected);
    loses(&servers[1], "/a");
    assert!(has_other_site(&servers[1]), "the flood of one site has purged another");
    assert!(has_other_site(&servers[0]) && has(&servers[0], "/a"));
}

/// More purges than Valkey keeps, while a server does not read them: connected, or not.
#[test]
fn purges_that_valkey_no_longer_keeps_empty_the_cache_of_their_own_site_only() {
    for is_replaced in [false, true] {
        let Some(valkey) = Valkey::start(&[]) else { return };
        let origins = [origin(), origin()];
        let servers = two(&valkey, &two_sites(&origins));
        store(&servers, &["/first", "/a", "/c"]);
        servers.iter().for_each(|server| drop(other_site(server, "")));
        ask(&servers[0], "PURGE", "/first", "");
        loses(&servers[1], "/first");
        let router = Pid::from_raw(servers[1].router().try_into().unwrap()).unwrap();
        kill_process(router, Signal::STOP).unwrap();
        // The answer to the server's last question has the next purge, and no more.
        ask(&servers[0], "PURGE", "/next", "");
        ask(&servers[0], "PURGE", "/a", "");
        harness::eventually("the purges are in Valkey", || {
            (valkey.ask(&["XLEN", "howdah:purges"]) == ":3").then_some(())
        });
        valkey.ask(&["XTRIM", "howdah:purges", "MAXLEN", "0"]);
        if is_replaced {
            valkey.ask(&["CLIENT", "KILL", "TYPE", "normal"]);
        }
        kill_process(router, Signal::CONT).unwrap();
        loses(&servers[1], "/a");
        assert!(has_other_site(&servers[1]), "purges of one site have purged another");
        assert!(status(&servers[1], "/purges/missed").as_u64() >= Some(1));
        servers[1].wait_for_log("the cached responses of the origins that have purged since");
        // Purges continue, and those of others count as before.
        store(&servers, &["/a", "/c"]);
        ask(&servers[0], "PURGE", "/a", "");
        loses(&servers[1], "/a");
        assert!(has(&servers[1], "/c"));
    }
}
