//! Files of sites with certificates from elsewhere, as docs/panels.md says that a panel writes them:
//! sites are added, checked, broken and taken away.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use harness::tls::{self, Authority};
use harness::{Server, Site, free_address, open_to_all, programs};
use serde_json::json;

/// Returns the example of the page with a certificate.
fn example() -> &'static str {
    let page = include_str!("../../docs/panels.md");
    let mut examples = page.split("```text\n").skip(1).filter_map(|part| part.split("```").next());
    examples.find(|example| example.contains("\"certificate\"")).expect("an example")
}

/// Makes a site, whose file is like that of the example.
fn add(directory: &Path, name: &str, index: &str) {
    let root = directory.join(name);
    fs::create_dir_all(&root).unwrap();
    open_to_all(&root, 0o755);
    fs::write(root.join("index.php"), index).unwrap();
    // The user of the example does not exist on this machine.
    let file = example().replace("    \"user\": \"shop\",\n", "");
    let at = directory.to_str().unwrap();
    let file = file.replace("/srv", at).replace("/etc/panel", at).replace("shop", name);
    let hidden = directory.join(format!("sites/.{name}.json.new"));
    fs::write(&hidden, file).unwrap();
    fs::rename(&hidden, directory.join(format!("sites/{name}.json"))).unwrap();
}

fn howdah(server: &Server, arguments: &[&str]) -> Output {
    let mut command = Command::new(programs::howdah());
    command.args(arguments);
    if arguments[0] != "check" {
        command.arg("--control").arg(format!("unix:{}", server.site.control_socket().display()));
    }
    command.output().unwrap()
}

/// Status of the start page without encryption.
fn status(server: &Server, host: &str) -> u16 {
    server.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).status
}

#[test]
fn sites_with_certificates_are_added_checked_broken_and_taken_away() {
    let site = Site::new().with(json!({}));
    let authority = Authority::new();
    let at = &site.root().parent().unwrap().to_owned();
    for name in ["sites", "tls"] {
        fs::create_dir(at.join(name)).unwrap();
    }
    for name in ["shop", "wiki"] {
        let (chain, key) = authority.issue(&[&format!("{name}.example")]);
        fs::write(at.join(format!("tls/{name}.pem")), chain).unwrap();
        fs::write(at.join(format!("tls/{name}.key")), key).unwrap();
    }
    let (plain, tls) = (free_address(), free_address());
    add(at, "shop", "<?php echo 'the shop';");
    let document = json!({
        "sites": "sites/*.json",
        "defaults": {"listen": plain.to_string(), "listen_https": tls.to_string()},
    });
    let config = at.join("config.json");
    fs::write(&config, document.to_string()).unwrap();
    let control = format!("unix:{}", site.control_socket().display());
    let config_name = config.to_str().unwrap();
    let site = site.argument("--control").argument(&control);
    let server = site.serve_again(&plain.to_string());
    let check = || howdah(&server, &["check", config_name]);
    let page = |name: &str| {
        let client = authority.client(None, &[]);
        tls::get(tls, &client, &format!("{name}.example"), "/").unwrap().text()
    };
    let certificate = |name: &str| {
        tls::certificate(tls, &authority.client(None, &[]), &format!("{name}.example"))
    };

    assert_eq!(page("shop"), "the shop");
    assert_eq!(status(&server, "shop.example"), 301);
    assert_eq!(status(&server, "WWW.shop.example"), 301);
    assert_eq!(status(&server, "wiki.example"), 404);
    add(at, "wiki", "<?php echo 'the wiki';");
    assert!(check().status.success(), "{:?}", check());
    assert!(howdah(&server, &["reload"]).status.success());
    assert_eq!(page("wiki"), "the wiki");
    let names = ["shop", "wiki"];
    let all = names.map(certificate);
    assert!(!all[0].is_empty() && all[0] != all[1]);

    let file = at.join("sites/wiki.json");
    let good = fs::read_to_string(&file).unwrap();
    fs::write(&file, good.replace("\"hosts\": [", "\"hosts\": [\"a b\", ")).unwrap();
    let checked = check();
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(!checked.status.success() && said.contains("wiki.json: line 2"), "{said}");
    let reloaded = howdah(&server, &["reload"]);
    assert_eq!(reloaded.status.code(), Some(4), "{reloaded:?}");
    assert_eq!(page("wiki"), "the wiki", "it keeps what it had");
    assert_eq!(page("shop"), "the shop");
    assert_eq!(names.map(certificate), all);

    // A certificate that cannot be used is out alone.
    fs::write(&file, good).unwrap();
    let (chain, key) = authority.issue(&["blog.example"]);
    fs::write(at.join("tls/blog.pem"), chain).unwrap();
    fs::write(at.join("tls/blog.key"), "no key").unwrap();
    add(at, "blog", "<?php echo 'the blog';");
    assert_eq!(howdah(&server, &["reload"]).status.code(), Some(4));
    assert_eq!(names.map(certificate), all);
    assert_eq!(status(&server, "blog.example"), 301);
    let problems = howdah(&server, &["status", "--problems"]);
    let said = String::from_utf8_lossy(&problems.stdout).into_owned();
    assert!(said.contains("blog.pem") && !said.contains("shop.pem"), "{said}");
    fs::write(at.join("tls/blog.key"), key).unwrap();
    let reloaded = howdah(&server, &["reload"]);
    assert!(reloaded.status.success(), "{reloaded:?}");
    assert_eq!(page("blog"), "the blog");
    assert_eq!(names.map(certificate), all);

    fs::remove_file(&file).unwrap();
    assert!(howdah(&server, &["reload"]).status.success());
    assert_eq!(status(&server, "wiki.example"), 404);
    assert_eq!(page("shop"), "the shop");
}
