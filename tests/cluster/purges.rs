//! Purges of one server reach the others.

use harness::valkey::Valkey;

use super::servers::{ask, cached, has, loses, origin, status, store, two};

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
        // What changes something makes responses invalid.
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
