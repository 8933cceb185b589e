//! `howdah serve DIR...`: each directory is the site of its `--host`.

use std::fs;
use std::process::{Command, Output};

use harness::client::Client;
use harness::{Site, free_address, open_to_all, programs};
use serde_json::Value;

/// A directory with sites below it.
fn directories(names: &[&str]) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    open_to_all(place.path(), 0o755);
    for name in names {
        let directory = place.path().join(name);
        fs::create_dir(&directory).unwrap();
        open_to_all(&directory, 0o755);
        let script = format!("<?php echo '{name} of ', $_SERVER['HTTP_HOST'];");
        fs::write(directory.join("index.php"), script).unwrap();
    }
    place
}

fn howdah(arguments: &[&str]) -> Output {
    programs::run(Command::new(programs::howdah()).arg("serve").args(arguments))
}

#[test]
fn each_directory_is_the_site_of_its_host() {
    let place = directories(&["blog"]);
    let blog = place.path().join("blog").display().to_string();
    // The directory of the harness comes last.
    let arguments = ["--host", "blog.example", &blog, "--host", "Shop.example"];
    let site = Site::script("index.php", "echo 'shop of ', $_SERVER['HTTP_HOST'];").workers(1);
    let server = arguments.into_iter().fold(site, Site::argument).serve();
    let get = |host: &str| {
        let request =
            format!("GET /any/page HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        Client::connect(server.address).send(request).response()
    };
    assert_eq!(get("shop.example").text(), "shop of shop.example");
    assert_eq!(get("blog.example:8080").text(), "blog of blog.example:8080");
    assert_eq!(get("other.example").status, 404);
    for line in ["blog.example: found: ", "shop.example: found: ", "mail: to", "Serving http://"] {
        assert!(server.announcement.contains(line), "{line}: {}", server.announcement);
    }
    let titles: Vec<_> = server.processes().into_iter().map(|process| process.title).collect();
    for site in ["blog.example", "shop.example"] {
        let title = format!("howdah: \"{site}\" application");
        assert_eq!(titles.iter().filter(|found| **found == title).count(), 1, "{titles:?}");
    }
}

#[test]
fn the_printed_document_can_be_served() {
    let place = directories(&["a", "b"]);
    let [a, b] = ["a", "b"].map(|name| place.path().join(name).display().to_string());
    let address = free_address().to_string();
    let output = howdah(&[
        "--host",
        "a.example",
        &a,
        "--host",
        "*",
        &b,
        "--listen",
        &address,
        "--print-config",
    ]);
    assert!(output.status.success(), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["listeners"][&address]["pass"], "routes/sites");
    let hosts = &document["variables"]["site"]["values"];
    assert_eq!((&hosts["a.example"], &hosts["*"]), (&"a.example".into(), &"all".into()));
    assert!(document.get("sites").is_none() && document.get("included").is_none(), "{document}");
    let site = Site::new().with(document);
    let server = site.serve_at(&address);
    let response = Client::connect(server.address)
        .send("GET / HTTP/1.1\r\nHost: any.example\r\nConnection: close\r\n\r\n")
        .response();
    assert_eq!(response.text(), "b of any.example");
}

#[test]
fn mistakes_are_said_in_one_line() {
    let place = directories(&["a", "b"]);
    let [a, b, none] = ["a", "b", "none"].map(|name| place.path().join(name).display().to_string());
    for (arguments, expected) in [
        (vec![a.as_str(), &b], "2 directories and 0 --hosts; give each directory its host"),
        (vec!["--host", "a.example", &a, &b], "2 directories and 1 --host; give each"),
        (vec!["--host", "a.example", &a, "--host", "a.example", &b], "a host of its own"),
        (vec!["--host", "a.example", &a, "--host", "b.example", &none], "none"),
        (vec!["--host", "127.0.0.1", &a], "--listen 127.0.0.1:8080"),
    ] {
        let output = howdah(&arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(78), "{output:?}");
        assert!(text.starts_with("howdah: ") && text.contains(expected), "{expected}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
    let output = howdah(&["--host", "a.example", &a, "--tls"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
