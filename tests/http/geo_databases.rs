//! Variables from databases of addresses in MaxMind's format.

use std::fs;
use std::net::Ipv4Addr;
use std::process::Command;

use harness::client::Client;
use harness::{Site, eventually, programs};
use serde_json::json;

#[path = "../../crates/config/src/geo_database_writer.rs"]
mod writer;

fn country(network: &str, code: &str) -> Vec<u8> {
    writer::write(&[(network, json!({"country": {"iso_code": code}}))])
}

#[test]
fn the_country_of_a_client_is_a_variable_and_a_new_database_is_used() {
    let site = Site::new();
    let file = site.root().with_file_name("country.mmdb");
    fs::write(&file, country("127.0.0.9/32", "DE")).unwrap();
    let variable = json!({"geo": "$remote_addr", "database": file, "path": "country.iso_code", "default": "none"});
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
fn a_database_that_is_missing_or_cut_off_is_named_by_check_and_has_no_values() {
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
    let variable = json!({"geo": "$remote_addr", "database": file, "path": "country.iso_code", "default": "none"});
    let server = site
        .with(json!({
            "variables": {"country": variable},
            "routes": [{"action": {"return": 302, "location": "/$country"}}],
        }))
        .serve();
    server.wait_for_log("it has no values");
    assert_eq!(server.get("/").field("Location"), Some("/none"));
}
