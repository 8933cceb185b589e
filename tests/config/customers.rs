//! A file for each customer, as docs/hosting.md describes it: customers are added, checked, broken
//! and taken away.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};

use harness::tls::{self, Authority};
use harness::{Server, Site, free_address, open_to_all, programs};
use serde_json::json;

/// Returns the examples of the page with the given text in them.
fn example(text: &str) -> &'static str {
    let page = include_str!("../../docs/hosting.md");
    let mut examples = page.split("```text\n").skip(1).filter_map(|part| part.split("```").next());
    examples.find(|example| example.contains(text)).expect("an example")
}

/// Makes the files of a customer, whose file is like that of the customer of the example.
fn add(directory: &Path, name: &str, index: &str, tls: SocketAddr) {
    let root = directory.join(name).join("www");
    fs::create_dir_all(&root).unwrap();
    open_to_all(&directory.join(name), 0o755);
    open_to_all(&root, 0o755);
    fs::write(root.join("index.php"), index).unwrap();
    // The user of the example does not exist on this machine.
    let file = example("\"www.shop.example\"").replace(", \"user\": \"shop\"", "");
    let directory_name = directory.to_str().unwrap();
    let file = file.replace("/srv", directory_name).replace("/etc/howdah", directory_name);
    let file = file.replace("shop", name).replace("*:443", &tls.to_string());
    let hidden = directory.join(format!("customers/.{name}.json"));
    fs::write(&hidden, file).unwrap();
    fs::rename(&hidden, directory.join(format!("customers/{name}.json"))).unwrap();
}

fn howdah(server: &Server, arguments: &[&str]) -> Output {
    let mut command = Command::new(programs::howdah());
    command.args(arguments);
    if arguments[0] != "check" {
        command.arg("--control").arg(format!("unix:{}", server.site.control_socket().display()));
    }
    command.output().unwrap()
}

fn get(server: &Server, host: &str) -> (u16, String) {
    let response =
        server.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
    (response.status, response.text())
}

#[test]
fn customers_are_added_checked_broken_and_taken_away() {
    let site = Site::new().with(json!({}));
    let authority = Authority::new();
    let at = &site.root().parent().unwrap().to_owned();
    for name in ["customers", "tls"] {
        fs::create_dir(at.join(name)).unwrap();
    }
    for name in ["server", "shop", "wiki"] {
        let (chain, key) = authority.issue(&[&format!("{name}.example")]);
        fs::write(at.join(format!("tls/{name}.pem")), chain).unwrap();
        fs::write(at.join(format!("tls/{name}.key")), key).unwrap();
    }
    let (plain, tls) = (free_address(), free_address());
    add(at, "shop", "<?php echo 'the shop';", tls);
    let document = example("customers/*.json").replace("/etc/howdah", at.to_str().unwrap());
    let document = document.replace("*:80", &plain.to_string()).replace("*:443", &tls.to_string());
    let config = at.join("config.json");
    fs::write(&config, &document).unwrap();
    let control = format!("unix:{}", site.control_socket().display());
    let config_name = config.to_str().unwrap();
    let site = site.argument("--control").argument(&control);
    let server = site.serve_again(&plain.to_string());
    let check = || howdah(&server, &["check", config_name]);

    assert_eq!(get(&server, "shop.example"), (200, "the shop".to_owned()));
    assert_eq!(get(&server, "WWW.shop.example").1, "the shop");
    assert_eq!(get(&server, "wiki.example").0, 404);
    add(at, "wiki", "<?php echo 'the wiki';", tls);
    assert!(check().status.success(), "{:?}", check());
    assert!(howdah(&server, &["reload"]).status.success());
    assert_eq!(get(&server, "wiki.example"), (200, "the wiki".to_owned()));
    let names = ["server.example", "shop.example", "wiki.example"];
    let certificate = |name: &str| tls::certificate(tls, &authority.client(None, &[]), name);
    // The client accepts a certificate only if it is for the name.
    let all = names.map(certificate);
    assert!(all.iter().all(|certificate| !certificate.is_empty()) && all[1] != all[2]);

    let file = at.join("customers/wiki.json");
    let good = fs::read_to_string(&file).unwrap();
    fs::write(&file, good.replace("\"share\"", "\"shaer\"")).unwrap();
    let checked = check();
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(!checked.status.success() && said.contains("wiki.json"), "{said}");
    let reloaded = howdah(&server, &["reload"]);
    assert_eq!(reloaded.status.code(), Some(4), "{reloaded:?}");
    assert_eq!(get(&server, "wiki.example").1, "the wiki", "it keeps what it had");
    assert_eq!(get(&server, "shop.example").1, "the shop");
    assert_eq!(names.map(certificate), all);

    // A certificate that cannot be used is out alone.
    fs::write(&file, good).unwrap();
    let (chain, key) = authority.issue(&["blog.example"]);
    fs::write(at.join("tls/blog.pem"), chain).unwrap();
    fs::write(at.join("tls/blog.key"), "no key").unwrap();
    add(at, "blog", "<?php echo 'the blog';", tls);
    assert_eq!(howdah(&server, &["reload"]).status.code(), Some(4));
    assert_eq!(names.map(certificate), all);
    assert_eq!(get(&server, "blog.example").1, "the blog");
    let status = howdah(&server, &["status", "--problems"]);
    let said = String::from_utf8_lossy(&status.stdout).into_owned();
    let has = |name: &str| said.contains(name);
    assert!(has("blog.pem") && !has("shop.pem") && !has("customers"), "{said}");
    fs::write(at.join("tls/blog.key"), key).unwrap();
    let reloaded = howdah(&server, &["reload"]);
    assert!(reloaded.status.success(), "{reloaded:?}");
    assert!(!all.contains(&certificate("blog.example")));
    assert_eq!(names.map(certificate), all);

    fs::remove_file(&file).unwrap();
    assert!(howdah(&server, &["reload"]).status.success());
    assert_eq!(get(&server, "wiki.example").0, 404);
    assert_eq!(get(&server, "shop.example").1, "the shop");
}
