//! Variables from databases of addresses in MaxMind's format.

use std::fs;
use std::net::Ipv4Addr;
use std::process::Command;

use harness::client::Client;
use harness::{Site, eventually, programs};
use serde_json::json;

#[path = "../../crates/template/src/geo_database/writer.rs"]
mod writer;

fn country(network: &str, code: &str) -> Vec<u8> {
    writer::write(&[(network, json!({"country": {"iso_code": code}}))])
}

#[test]
fn the_country_of_a_client_is_a_variable_and_a_new_database_is_used() {
    let site = Site::new();
    let file = site.root().with_file_name("country.mmdb");
    fs::write(&file, country("127.0.0.9/32", "DE")).unwrap();
    let variable = json!({"geo": "$remote_addr", "database": file, "path": "country.iso_code",
        "default": "none"});
    let server = site
        .with(json!({"variables": {"country": variable}, "routes": null}))
        .with(json!({
            "routes": [
                {"match": {"if": "!$country"}, "action": {"return": 500}},
                {"action": {"return": 302, "location": "/$country"}},
            ],
            "access_log": {"path": "/dev/null", "format": "$country"},
        }))
        .serve();
    let of = |last: u8| {
        let mut client = Client::connect_from(Ipv4Addr::new(127, 0, 0, last), server.address);
        client.get("/").field("Location").map(str::to_owned)
    };
    assert_eq!((of(9).as_deref(), of(8).as_deref()), (Some("/DE"), Some("/none")));

    let whole = country("127.0.0.9/32", "FR");
    fs::write(&file, &whole[..whole.len() - 30]).unwrap();
    server.wait_for_log("it is no valid MaxMind database");
    server.wait_for_log("its old content stays in use");
    assert_eq!(of(9).as_deref(), Some("/DE"));
    let new = file.with_extension("new");
    fs::write(&new, whole).unwrap();
    fs::rename(&new, &file).unwrap();
    eventually("the new database is used", || (of(9).as_deref() == Some("/FR")).then_some(()));
}

#[test]
fn a_database_that_is_missing_or_cut_off_is_named_by_check() {
    let site = Site::new();
    let file = site.root().with_file_name("a.mmdb");
    let variable = json!({"geo": "$remote_addr", "database": file, "path": "country.iso_code"});
    let mut document = site.document(harness::free_address());
    document["variables"] = json!({"country": variable});
    let path = file.with_file_name("geo.json");
    fs::write(&path, document.to_string()).unwrap();
    let whole = country("10.0.0.0/8", "DE");
    for (content, problem) in [
        (None, "No such file"),
        (Some(&whole[..100]), "it is no valid MaxMind database"),
        (Some(&b"DE"[..]), "it is no valid MaxMind database"),
    ] {
        if let Some(content) = content {
            fs::write(&file, content).unwrap();
        }
        for command in ["check", "serve"] {
            let mut command_line = Command::new(programs::howdah());
            command_line.arg(command);
            if command == "serve" {
                command_line.envs(harness::own_control(path.parent().unwrap()));
                command_line.args(["--strict", "--config"]);
            }
            let output = command_line.arg(&path).output().unwrap();
            let printed = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success(), "{command}: {printed}");
            let expected = format!("/variables/country/database: {}: {problem}", file.display());
            assert!(printed.contains(&expected), "{command}: {printed}");
        }
    }
}

/// A country that is kept out must not be let in because the database is not there.
#[test]
fn what_a_missing_database_decides_is_refused_until_it_is_there() {
    let site = Site::new();
    let file = site.root().with_file_name("country.mmdb");
    let log = site.root().with_file_name("access.log");
    let variable = json!({"geo": "$remote_addr", "database": file, "path": "country.iso_code",
        "default": "none"});
    let page = json!({"return": 200, "response_headers": {"X-Country": "$country"}});
    let mut limited = page.clone();
    limited["limit"] = json!({"rate": "100/s", "burst": 1000, "key": "$key"});
    let server = site
        .with(json!({
            "variables": {
                "country": variable,
                "key": {"map": "$country", "values": {"none": ""}, "default": "$country"},
            },
            "access_log": {"path": log, "format": "$uri $status $country"},
            "routes": [
                {"match": {"uri": "/open"}, "action": page},
                {"match": {"uri": "/limit"}, "action": limited},
                {"match": {"uri": "/location"}, "action": {"return": 302, "location": "/$country"}},
                {"match": {"uri": "/closed", "if": "$key"}, "action": {"return": 403}},
                {"action": page},
            ],
        }))
        .serve();
    let all =
        || ["/open", "/limit", "/location", "/closed"].map(|target| server.get(target).status);
    server.wait_for_log("country.mmdb: No such file");
    assert_eq!(all(), [200, 503, 503, 503]);
    assert_eq!(server.get("/open").field("X-Country"), Some("none"));
    server.wait_for_log("503: its route or limit needs ");
    eventually("the access log has lines", || {
        fs::read_to_string(&log).ok()?.contains("/open 200 none\n").then_some(())
    });
    fs::write(&file, country("127.0.0.0/8", "DE")).unwrap();
    eventually("the database is used", || (all()[1] == 200).then_some(()));
    assert_eq!(all(), [200, 200, 302, 403]);
}
