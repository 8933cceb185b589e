//! PHP of sites, with the version of the tests: its version by `composer.json`, and extensions.

use std::fs;
use std::path::Path;
use std::process::Command;

use harness::client::Response;
use harness::{Server, Site, open_to_all, programs, requirements};
use serde_json::{Value, json};

/// Serves sites, given by their names, their keys and their `composer.json`. Their script prints
/// what `expression` is.
fn serve(launcher: &[&str], sites: &[(&str, Value, Option<Value>)], expression: &str) -> Server {
    let site = Site::new();
    let directory = site.root().with_file_name("sites");
    fs::create_dir(&directory).unwrap();
    for (name, keys, composer) in sites {
        let root = site.root().join(name);
        fs::create_dir(&root).unwrap();
        fs::write(root.join("index.php"), format!("<?php echo {expression};")).unwrap();
        if let Some(composer) = composer {
            fs::write(root.join("composer.json"), composer.to_string()).unwrap();
        }
        let mut values = json!({"hosts": format!("{name}.example"), "root": root});
        harness::merge(&mut values, keys.clone());
        fs::write(directory.join(format!("{name}.json")), values.to_string()).unwrap();
    }
    let address = harness::free_address().to_string();
    site.through(launcher)
        .with(json!({
            "sites": "sites/*.json",
            "defaults": {"listen": address},
            "routes": {},
            "listeners": {&address: {"pass": "routes/sites"}},
        }))
        .serve_at(&address)
}

fn get(server: &Server, name: &str) -> Response {
    let request = format!("GET / HTTP/1.1\r\nHost: {name}.example\r\nConnection: close\r\n\r\n");
    server.connect().send(request).response()
}

/// Writes a program that says to be a version of PHP, and cannot serve.
fn write_version(directory: &Path, version: &str) {
    let minor = version.rsplit_once('.').unwrap().0;
    let howdah = env!("CARGO_PKG_VERSION");
    let commands = format!("echo 'PHP {version} (Howdah {howdah}; no OPcache)'");
    // Written by a program of its own: see `programs::copy`.
    let write = ["-c", "printf '#!/bin/sh\n%s\n' \"$1\" >\"$0\"; chmod 755 \"$0\""];
    let path = directory.join(format!("howdah-php{minor}"));
    let status = Command::new("sh").args(write).arg(path).arg(commands).status().unwrap();
    assert!(status.success());
}

#[test]
fn a_site_gets_the_installed_version_that_its_composer_json_allows() {
    let programs = tempfile::tempdir().unwrap();
    open_to_all(programs.path(), 0o755);
    let howdah = programs::howdah();
    programs::copy(howdah, programs.path());
    let own = programs::php_version();
    let program = programs.path().join(format!("howdah-php{own}"));
    programs::copy(&howdah.with_file_name("howdah-php"), &program);
    write_version(programs.path(), "98.1.0");
    let requires = |constraint: String| Some(json!({"require": {"php": constraint}}));
    let sites = [
        ("tilde", json!({}), requires(format!("~{own}.0"))),
        ("below", json!({}), requires(">=5.3 <98".to_owned())),
        ("either", json!({}), requires(format!("^5.2 || {own}.*"))),
        ("named", json!({"php": {"version": own}}), requires("^98".to_owned())),
        ("newest", json!({}), None),
        ("caret", json!({}), requires("^98.1".to_owned())),
    ];
    let launcher =
        ["sh", "-c", "shift; exec \"$0/howdah\" \"$@\"", programs.path().to_str().unwrap()];
    let server = serve(&launcher, &sites, "PHP_VERSION");
    for name in ["tilde", "below", "either", "named"] {
        let response = get(&server, name);
        let version = response.text();
        assert!(version.starts_with(&format!("{own}.")), "{name}: {response:?}");
    }
    for name in ["newest", "caret"] {
        assert_eq!(get(&server, name).status, 503, "{name}");
    }
}

/// PHP reads no directory of further settings here, which load all installed extensions.
#[test]
fn a_site_that_names_an_extension_has_it_and_another_has_not() {
    let loaded = ["ctype", "calendar", "exif", "sockets"];
    let sites = [
        ("with", json!({"php": {"extensions": loaded}}), None),
        ("without", json!({}), None),
        ("missing", json!({"php": {"extensions": ["no-such-extension"]}}), None),
    ];
    let expression = "implode(' ', get_loaded_extensions())";
    let server = serve(&["env", "PHP_INI_SCAN_DIR="], &sites, expression);
    let extensions = |name: &str| -> Vec<String> {
        get(&server, name).text().split(' ').map(str::to_owned).collect()
    };
    let (with, without) = (extensions("with"), extensions("without"));
    let is_built_in = |name: &&str| without.iter().any(|other| other == name);
    if loaded.iter().all(is_built_in) {
        return requirements::skipped("all extensions are a part of this PHP");
    }
    for name in loaded {
        assert!(with.iter().any(|other| other == name), "{name}: {with:?}");
    }
    let of_both: Vec<_> = with.iter().filter(|name| !loaded.contains(&name.as_str())).collect();
    let expected: Vec<_> = without.iter().filter(|name| !loaded.contains(&name.as_str())).collect();
    assert_eq!(of_both, expected);
    assert_eq!(get(&server, "missing").status, 503);
}
