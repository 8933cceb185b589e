use serde_json::{Value, json};

use super::*;

/// Checks that an answer has these members in this order, and is read as it was sent.
fn assert_same(value: &Value) {
    let status: Status = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(serde_json::to_value(&status).unwrap(), *value);
    let text = serde_json::to_string(&status).unwrap();
    assert_eq!(text, value.to_string(), "the order of members");
}

#[test]
fn the_status_has_the_names_of_unit_and_is_read_as_it_was_sent() {
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    let part = json!({"kind": "log", "name": "/l", "reason": "full", "since": date});
    assert_same(&json!({
        "modules": {"php": {"version": "8.2.30", "lib": "/p"}},
        "connections": {"accepted": 10, "active": 1, "idle": 2, "closed": 7},
        "requests": {"total": 33},
        "applications": {
            "blog": {
                "processes": {"running": 4, "starting": 1, "idle": 3},
                "requests": {"active": 1},
                "problem": "its root is gone"
            }
        },
        "php": {
            "blog": {
                "state": "loaded",
                "memory": {"prototype": 20, "processes": 300},
                "start": "shared",
                "given_up": 3,
                "limits": {"memory": 9, "cpu": 0.5, "processes": 20, "approximate": true},
                "worker": {
                    "generation": 3, "boot_ms": 12, "template": true,
                    "retired": {"requests": 7, "exit": 1}, "fallback": "no"
                },
                "opcache": {
                    "enabled": true,
                    "memory": {"used": 9, "free": 20, "wasted": 1},
                    "scripts": 3, "hits": 8, "misses": 4, "restarts": 2
                },
                "activity": {
                    "accepted": 9, "slow": 1, "timed_out": 1, "exhausted": 2, "cpu_us": 1_000,
                    "memory_peak": 5_000, "longest_us": 7, "log_bytes": 8, "dropped_lines": 3,
                    "ends": {"signal_11": 1}, "failed_last_minute": {"signal_11": 1},
                    "restarts": {"asked": 1}
                },
                "processes": {
                    "all": 5, "programs": 2, "runnable": 1, "cpu_us": 9_000, "private": 300
                }
            }
        },
        "memory": {"used": 320, "budget": 1000},
        "server": {"version": "1.2.3", "uptime": 61, "started": date},
        "protection": {
            "landlock": 7,
            "router": {"restrictions": ["signals"], "namespaces": [], "user": "www-data"},
            "applications": {"blog": {"restrictions": [], "namespaces": ["pid"]}},
        },
        "upstreams": {"app": {"servers": {"10.0.0.1:80": {
            "state": "failing", "requests": {"active": 2, "total": 12}, "failures": 3
        }}}},
        "listeners": {
            "*:443": {"tls": {
                "handshakes": 9, "resumed": 4, "failed": 1, "versions": {"TLSv1.3": 9}
            }},
            "*:80": {}
        },
        "certificates": {
            "blog": {"names": ["a.org"], "expires": date},
            "acme:b.org": {
                "names": ["b.org"], "expires": null,
                "renewal": {"next": date, "failures": 2, "error": null}
            }
        },
        "caches": {
            "a": {
                "entries": 1, "bytes": 2, "memory": 3, "hits": 4, "stale": 5, "collapsed": 6,
                "misses": 7,
                "bypassed": 8, "revalidated": 9, "stored": 10, "refused": 11, "purges": 12,
                "disk_entries": 13, "disk_bytes": 14, "disk_size": 15, "disk_ready": 1,
                "disk_reads": 16, "disk_errors": 17
            }
        },
        "limits": {"login": {
            "requests": 20, "delayed": 1, "refused": 9, "closed": 2, "dry_run": 3, "penalties": 4,
            "keys": 5, "untracked": 6,
            "top": [{"key": "192.0.2.1", "refused": 9, "error": 1, "seconds": 2}]
        }},
        "cluster": {
            "server": "127.0.0.1:6379", "connected": true,
            "requests": {"counted": 1, "alone": 2},
            "purges": {"sent": 3, "received": 4, "missed": 5},
            "invalid": 6
        },
        "telemetry": {"spans_lost": 7},
        "out": [part],
        "warnings": [part],
        "configuration": {"generation": 4, "applied": "Sun, 06 Nov 1994 08:49:37 GMT"},
        "files": {"document": "/etc/howdah/howdah.json", "log": "journald"},
        "document": {"refused": {"since": "2026-01-01T00:00:00Z", "reason": "why"}},
        "replaced": {"at": "2026-01-01T00:00:00Z", "reason": "router 7 hung"}
    }));
}

#[test]
fn figures_that_there_are_not_are_omitted() {
    assert_same(&json!({
        "modules": {},
        "connections": {"accepted": 0, "active": 0, "idle": 0, "closed": 0},
        "requests": {"total": 0},
        "applications": {},
        "php": {},
        "memory": {"used": 0},
        "protection": {
            "landlock": 0, "router": {"restrictions": [], "namespaces": []}, "applications": {}
        }
    }));
}

#[test]
fn several_versions_of_php_are_an_array() {
    let module = |version: &str| Module { version: version.into(), lib: "/p".into() };
    let value = |versions: Versions| serde_json::to_value(versions).unwrap();
    let one: Versions = [module("8.2.30")].into_iter().collect();
    assert_eq!(value(one), json!({"version": "8.2.30", "lib": "/p"}));
    let two: Versions = ["8.2.30", "8.4.1"].map(module).into_iter().collect();
    assert_eq!(value(two)[1]["version"], "8.4.1");
}

#[test]
fn the_status_of_another_version_is_understood() {
    let value = json!({"requests": {"total": 3, "new": 1}, "news": true, "server": {"uptime": 5}});
    let status: Status = serde_json::from_value(value).unwrap();
    assert_eq!((status.requests.total, status.server.unwrap().uptime), (3, 5));
}

#[test]
fn hostile_answers_are_refused() {
    let deep = "[".repeat(1 << 16);
    let nested = format!("{{\"applications\": {deep}");
    for text in ["", "1", "{\"requests\": {\"total\": -1}}", "{\"out\": [1]}", &deep, &nested] {
        assert!(serde_json::from_str::<Status>(text).is_err(), "{:.40}", text);
    }
}
