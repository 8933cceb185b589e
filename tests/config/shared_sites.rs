//! Sites of one user and one directory that share PHP: one application, and an environment and
//! settings of each host that no other host sees.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use harness::client::Response;
use harness::{Server, Site, eventually};
use serde_json::{Value, json};

use crate::site_files::{command, file, with_document, without_sites, write};

/// Says what a script sees, and tries to leave it for the next request of the process.
const SCRIPT: &str = r#"<?php
$seen = [
    'pid' => getmypid(),
    'prototype' => posix_getppid(),
    'site' => getenv('HOWDAH_SITE'),
    'secret' => [getenv('SECRET'), $_SERVER['SECRET'] ?? '', getenv()['SECRET'] ?? ''],
    'environment' => [getenv(), $_ENV, $_SERVER],
    'process' => [file_get_contents('/proc/self/environ'), shell_exec('env')],
    'memory_limit' => [ini_get('memory_limit'), ini_set('memory_limit', '1G'), ini_get('memory_limit')],
    'from' => ini_get('from'),
    'settings' => ini_get_all(null, true),
    'constants' => [get_defined_constants(true)['user'] ?? [], array_keys($GLOBALS)],
    'static' => Kept::$secret,
    'left' => getenv('LEFT'),
    'cached' => opcache_is_script_cached(__FILE__),
];
ini_restore('memory_limit');
$seen['memory_limit'][] = ini_get('memory_limit');
usleep(5000);
echo json_encode($seen, JSON_INVALID_UTF8_SUBSTITUTE);
class Kept { public static $secret = ''; }
Kept::$secret = getenv('SECRET');
define('SECRET', getenv('SECRET'));
$GLOBALS['kept'] = getenv('SECRET');
putenv('LEFT=' . getenv('SECRET'));
$_ENV['SECRET'] = $_SERVER['SECRET'] = getenv('SECRET');
ini_set('user_agent', (string) getenv('SECRET'));
error_log('the log of ' . getenv('HOWDAH_SITE'));
"#;

/// A document with sites in one directory, which share PHP.
fn serve(names: &[&str]) -> Server {
    let site = without_sites();
    fs::create_dir_all(directory(&site)).unwrap();
    let script = directory(&site).join("index.php");
    fs::write(&script, SCRIPT).unwrap();
    // OPcache does not cache files that have just changed.
    let before = SystemTime::now() - Duration::from_secs(60);
    File::options().write(true).open(&script).unwrap().set_modified(before).unwrap();
    fs::write(directory(&site).join(".user.ini"), "memory_limit = 1G\nprecision = 5\n").unwrap();
    names.iter().for_each(|name| write(&site, name, &values(&site, name)));
    let address = harness::free_address().to_string();
    let defaults = json!({"php": {"shared": true, "processes": 1}});
    with_document(site, &address, defaults).serve_at(&address)
}

fn directory(site: &Site) -> PathBuf {
    site.root().with_file_name("tree")
}

fn secret(name: &str) -> String {
    format!("secret-of-{name}$")
}

/// The keys of a site.
fn values(site: &Site, name: &str) -> Value {
    let megabytes = 60 + name.len();
    json!({
        "hosts": format!("{name}.example"),
        "root": directory(site),
        "environment": {"SECRET": secret(name)},
        "php": {"ini": {"memory_limit": format!("{megabytes}M"), "from": format!("from-{name}")}},
    })
}

fn get(server: &Server, name: &str) -> Response {
    let request = format!("GET /a HTTP/1.1\r\nHost: {name}.example\r\nConnection: close\r\n\r\n");
    server.connect().send(request).response()
}

/// What the script of a site sees.
fn seen(server: &Server, name: &str) -> Value {
    let response = get(server, name);
    assert_eq!(response.status, 200, "{name}: {}", response.text());
    serde_json::from_str(&response.text()).unwrap_or_else(|_| panic!("{}", response.text()))
}

fn pid(server: &Server, name: &str) -> u64 {
    seen(server, name)["pid"].as_u64().unwrap()
}

fn reload(server: &Server) -> Option<i32> {
    command(server, &["reload"]).status.code()
}

#[test]
fn one_process_serves_all_and_no_host_sees_what_another_has() {
    let server = serve(&["a", "bb", "ccc"]);
    let first = seen(&server, "a");
    for round in 0..3 {
        for name in ["a", "bb", "ccc"] {
            let seen = seen(&server, name);
            assert_eq!((&seen["pid"], &seen["prototype"]), (&first["pid"], &first["prototype"]));
            assert_eq!(seen["site"], name);
            assert_eq!(seen["secret"], json!([secret(name), secret(name), secret(name)]));
            let limit = format!("{}M", 60 + name.len());
            assert_eq!(seen["memory_limit"], json!([limit, false, limit, limit]), "{name}");
            assert_eq!(seen["settings"]["memory_limit"]["local_value"], json!(limit));
            assert_eq!(
                (&seen["from"], &seen["settings"]["precision"]["local_value"]),
                (&json!(format!("from-{name}")), &json!("5"))
            );
            assert_eq!((&seen["static"], &seen["left"]), (&json!(""), &json!(false)));
            assert_eq!(seen["cached"], true, "{round} {name}");
            let text = seen.to_string();
            for other in ["a", "bb", "ccc"].iter().filter(|other| **other != name) {
                for own in [secret(other), format!("from-{other}")] {
                    assert!(!text.contains(&own), "{name} sees {own}: {text}");
                }
            }
            let process = seen["process"].to_string();
            assert!(!process.contains("secret-of"), "{process}");
        }
    }
    let log = server.wait_for_log(" of site \"ccc\": GET /a ");
    assert!(log.contains("the log of ccc"), "{log}");
    let status = server.control("GET", "/status", "").succeeded();
    let applications = status["php"].as_object().unwrap().iter();
    let shared: Vec<_> =
        applications.filter(|(name, _)| name.starts_with("shared:tree:")).collect();
    assert!(shared.len() == 1 && shared[0].1["opcache"]["misses"] == 1, "{status}");
    eventually("each site has its run times", || {
        let sites = server.control("GET", "/usage", "").succeeded()["sites"].clone();
        let ran = |name: &str| sites[name]["php_seconds"].as_f64().unwrap_or_default();
        ["a", "bb", "ccc"].iter().all(|name| ran(name) >= 0.015).then_some(())
    });
}

#[test]
fn a_site_that_is_added_changed_disabled_or_removed_touches_no_other() {
    let server = serve(&["a", "b"]);
    let served = pid(&server, "b");
    let is_untouched = |names: &[&str]| {
        for name in names {
            assert_eq!(pid(&server, name), served, "{name}");
        }
    };
    write(&server.site, "c", &values(&server.site, "c"));
    let mut changed = values(&server.site, "b");
    changed["environment"]["SECRET"] = json!("new");
    write(&server.site, "b", &changed);
    assert_eq!(reload(&server), Some(0));
    is_untouched(&["a", "b", "c"]);
    assert_eq!(seen(&server, "b")["secret"][0], "new");
    let mut disabled = values(&server.site, "a");
    disabled["enabled"] = json!(false);
    write(&server.site, "a", &disabled);
    assert_eq!(reload(&server), Some(0));
    assert_eq!(get(&server, "a").status, 503);
    is_untouched(&["b", "c"]);
    // The first site has gone, a later one has a mistake: the last good version of that goes on.
    fs::remove_file(file(&server.site, "a")).unwrap();
    assert_eq!(reload(&server), Some(0));
    is_untouched(&["b", "c"]);
    fs::remove_file(file(&server.site, "b")).unwrap();
    write(&server.site, "c", &json!({"hosts": "c.example", "rot": 1}));
    assert_eq!(reload(&server), Some(4));
    assert_eq!(get(&server, "b").status, 404);
    is_untouched(&["c"]);
    assert_eq!(seen(&server, "c")["secret"][0], json!(secret("c")));
}

#[test]
fn a_site_with_other_settings_of_the_process_has_its_own() {
    let server = serve(&["a", "b"]);
    let served = pid(&server, "a");
    let mut changed = values(&server.site, "b");
    changed["php"]["processes"] = json!(2);
    write(&server.site, "b", &changed);
    assert_eq!(reload(&server), Some(0));
    assert_ne!(seen(&server, "b")["prototype"], seen(&server, "a")["prototype"]);
    assert_eq!(pid(&server, "a"), served);
}

#[test]
fn commands_know_the_application_that_sites_share() {
    let server = serve(&["a", "b"]);
    let served = pid(&server, "a");
    let listed = command(&server, &["site", "list", "--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    for row in listed.as_array().unwrap() {
        assert_eq!((&row["state"], &row["processes"]), (&json!("loaded"), &json!(1)), "{row}");
        assert!(row["shared"].as_str().unwrap().starts_with("shared:tree:"), "{row}");
        assert_eq!(row["shared"], listed[0]["shared"], "{row}");
        assert!(row["php"].as_str().unwrap().contains('.'), "{row}");
    }
    let table = command(&server, &["site", "list"]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert_eq!(table.matches("B* ").count(), 2, "{table}");
    assert!(table.ends_with("\n* one PHP for all of: a, b\n"), "{table}");
    let shown = command(&server, &["site", "show", "b", "--json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["state"]["shared_with"], json!(["a"]), "{shown}");
    let shown = command(&server, &["site", "show", "b"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        shown.contains("application shared:tree:") && shown.contains("all of: a, b"),
        "{shown}"
    );
    assert_eq!(command(&server, &["site", "check"]).status.code(), Some(0));
    let usage = || server.control("GET", "/usage", "").succeeded()["sites"].clone();
    eventually("each site has its own counts of requests", || {
        let usage = usage();
        (usage["a"]["requests"] == 1 && usage["b"] == Value::Null).then_some(())
    });
    let restarted = command(&server, &["site", "restart", "a", "b"]);
    let text = String::from_utf8_lossy(&restarted.stdout).into_owned();
    for (site, other) in [("a", "b"), ("b", "a")] {
        let line = format!("{site}: restarted, with the sites that share its PHP: {other}\n");
        assert!(text.contains(&line), "{text}");
    }
    eventually("both have another process", || {
        (pid(&server, "a") != served && pid(&server, "b") != served).then_some(())
    });
    let code = "echo getenv('SECRET'), ini_get('memory_limit'), getenv('HOWDAH_SITE');";
    let ran = command(&server, &["php", "--site", "b", "-r", code]);
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    // The command-line PHP of the version need not be installed.
    if ran.status.success() {
        assert_eq!(said, format!("{}61Mb", secret("b")));
    }
}
