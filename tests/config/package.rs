//! The document of the package: it serves sites, and a welcome page for other hosts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use harness::{Server, Site, programs};
use serde_json::json;

fn packaging(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging").join(path)
}

/// The document of the package as installed by it, but for the directory of the welcome page and
/// the address.
fn installed() -> Server {
    let site = Site::new();
    let address = harness::free_address().to_string();
    let document = fs::read_to_string(packaging("config/howdah.json")).unwrap();
    let welcome = packaging("welcome");
    for part in ["/usr/share/howdah/welcome", "\"defaults\": {}"] {
        assert!(document.contains(part), "{document}");
    }
    let document = document.replace("/usr/share/howdah/welcome", welcome.to_str().unwrap());
    let listen = format!("\"defaults\": {{ \"listen\": \"{address}\" }}");
    let document = document.replace("\"defaults\": {}", &listen);
    let control = format!("unix:{}", site.control_socket().display());
    let site = site.argument("--control").argument(&control).with(json!({}));
    fs::write(site.root().with_file_name("config.json"), document).unwrap();
    fs::create_dir(site.root().with_file_name("sites")).unwrap();
    site.serve_again(&address)
}

fn get(server: &Server, host: &str) -> (u16, String) {
    let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let response = server.connect().send(request).response();
    (response.status, response.text())
}

fn reload(server: &Server) -> Output {
    let control = format!("unix:{}", server.site.control_socket().display());
    Command::new(programs::howdah()).args(["reload", "--control", &control]).output().unwrap()
}

/// The site in the comment of the document, with another directory and without a user, who does
/// not exist on this machine.
fn site_of_the_comment(root: &Path) -> String {
    let document = fs::read_to_string(packaging("config/howdah.json")).unwrap();
    let line = document.lines().find(|line| line.contains("\"hosts\"")).expect("a site");
    let site = line.trim_start_matches(['/', ' ']).replace("/srv/shop", root.to_str().unwrap());
    site.replace(", \"user\": \"shop\"", "")
}

#[test]
fn the_document_of_the_package_serves_sites_and_a_welcome_page() {
    let server = installed();
    let document = server.site.root().with_file_name("config.json");
    let check = || Command::new(programs::howdah()).arg("check").arg(&document).output().unwrap();
    assert!(check().status.success(), "{:?}", check());
    for host in ["localhost", "shop.example"] {
        let (status, body) = get(&server, host);
        assert!(status == 200 && body.contains("Howdah is running"), "{host}: {status} {body}");
    }

    let root = server.site.root().to_owned();
    fs::write(root.join("index.php"), "<?php echo 'the shop';").unwrap();
    let file = root.with_file_name("sites").join("shop.json");
    fs::write(&file, site_of_the_comment(&root)).unwrap();
    assert!(check().status.success(), "{:?}", check());
    assert!(reload(&server).status.success());
    assert_eq!(get(&server, "www.shop.example"), (200, "the shop".to_owned()));
    assert!(get(&server, "localhost").1.contains("Howdah is running"));

    // A whole document belongs elsewhere.
    fs::write(&file, r#"{"listeners": {}}"#).unwrap();
    let reloaded = reload(&server);
    let said = String::from_utf8_lossy(&reloaded.stderr).into_owned();
    assert_eq!(reloaded.status.code(), Some(4), "{said}");
    assert!(said.contains("shop.json") && said.contains("/etc/howdah/servers"), "{said}");
    assert_eq!(get(&server, "shop.example"), (200, "the shop".to_owned()));

    fs::remove_file(&file).unwrap();
    assert!(reload(&server).status.success());
    assert!(get(&server, "shop.example").1.contains("Howdah is running"));
}
