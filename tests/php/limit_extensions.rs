//! `limit_extensions`: which files run as scripts, and that none of them is sent as a file.

use std::os::unix::fs::symlink;

use harness::{Server, Site};
use serde_json::{Value, json};

const CODE: &str = "<?php echo 'ran ', $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['PATH_INFO'] ?? '';";

fn site() -> Site {
    let mut site = Site::new().file("public.txt", "text").file("style.css", "css");
    for name in ["a.php", "a.phtml", "a.inc", "a.inc.bak", "a.INC", "dir.inc/b.inc", "index.php"] {
        site = site.file(name, CODE);
    }
    symlink("a.inc", site.root().join("link.txt")).unwrap();
    site
}

fn answer(server: &Server, target: &str) -> (u16, String) {
    let response = server.get(target);
    let text = response.text();
    assert!(!text.contains("<?php"), "the source of {target} was sent: {text}");
    (response.status, text)
}

/// All requests go to the application.
fn pass() -> Value {
    json!({"routes": [{"action": {"pass": "applications/site"}}]})
}

fn endings() -> Value {
    json!({"applications": {"site": {"limit_extensions": [".php", ".inc"]}}})
}

#[test]
fn an_application_runs_the_configured_endings_and_no_others() {
    let server = site().with(endings()).with(pass()).serve();
    for (target, status, text) in [
        ("/a.php", 200, "ran /a.php "),
        ("/a.inc", 200, "ran /a.inc "),
        ("/a.inc/x/y", 200, "ran /a.inc /x/y"),
        ("/dir.inc/b.inc", 404, ""),
        ("/a.phtml", 403, ""),
        ("/a.INC", 403, ""),
        ("/a.inc.bak", 403, ""),
        ("/public.txt", 403, ""),
        ("/", 200, "ran /index.php "),
    ] {
        let (found, body) = answer(&server, target);
        assert_eq!(found, status, "{target}: {body}");
        assert!(body.contains(text), "{target}: {body}");
    }
}

#[test]
fn php_alone_does_not_run_unless_it_is_named() {
    let list = json!({"applications": {"site": {"limit_extensions": [".inc"], "index": "a.inc"}}});
    let server = site().with(list).with(pass()).serve();
    assert_eq!(answer(&server, "/a.php").0, 403);
    assert_eq!(answer(&server, "/"), (200, "ran /a.inc ".to_owned()));
}

#[test]
fn a_share_runs_the_endings_of_its_application_and_sends_no_source() {
    let site = site();
    let action = json!({"share": format!("{}$uri", site.root().display()), "index": "a.inc",
                        "scripts": "applications/site"});
    let server = site.with(endings()).with(json!({"routes": [{"action": action}]})).serve();
    for (target, status, text) in [
        ("/a.php", 200, "ran /a.php "),
        ("/a.inc", 200, "ran /a.inc "),
        ("/a.inc/x", 200, "ran /a.inc /x"),
        ("/dir.inc/b.inc", 200, "ran /dir.inc/b.inc "),
        ("/", 200, "ran /a.inc "),
        ("/public.txt", 200, "text"),
        ("/style.css", 200, "css"),
        ("/a.phtml", 404, ""),
        ("/a.INC", 404, ""),
        ("/a.inc.bak", 404, ""),
        ("/link.txt", 404, ""),
    ] {
        let (found, body) = answer(&server, target);
        assert_eq!(found, status, "{target}: {body}");
        assert!(body.contains(text), "{target}: {body}");
    }
}

/// A share without `scripts` sends no script of an application whose directory it has.
#[test]
fn another_share_of_the_directory_sends_no_source() {
    let site = site();
    let root = site.root().display().to_string();
    let parent = site.root().parent().unwrap().display().to_string();
    let name = root.rsplit('/').next().unwrap().to_owned();
    let routes = json!([
        {"match": {"uri": "/up/*"},
            "action": {"share": format!("{parent}/{name}$uri"), "prefix": "/up/"}},
        {"match": {"uri": "/any/*"},
            "action": {"share": format!("{parent}/$host$uri"), "prefix": "/any/"}},
        {"match": {"uri": "/list/"}, "action":
            {"share": format!("{root}$uri"), "prefix": "/list/", "index": "none",
                "listing": "json"}},
        {"action": {"pass": "applications/site"}},
    ]);
    let server = site.with(endings()).with(json!({"routes": routes})).serve();
    for target in [
        "/up/a.inc",
        "/up/a.inc.bak",
        "/up/a.INC",
        "/up/link.txt",
        "/up/dir.inc/b.inc",
        "/any/a.inc",
    ] {
        assert_eq!(answer(&server, target).0, 404, "{target}");
    }
    assert_eq!(answer(&server, "/up/public.txt"), (200, "text".to_owned()));
    let (status, list) = answer(&server, "/list/");
    assert_eq!(status, 200, "{list}");
    assert!(list.contains("public.txt") && !list.contains("a.inc"), "{list}");
}

/// `.htaccess` files may make PHP the handler of any file, but not of one that the application does
/// not run.
#[test]
fn htaccess_files_do_not_widen_the_list() {
    let list = json!({"applications": {"site": {
        "limit_extensions": [".php", ".inc"], "htaccess": true,
    }}});
    let site = site()
        .file(".htaccess", "<Files public.txt>\nSetHandler application/x-httpd-php\n</Files>\n");
    let server = site.with(list).with(pass()).serve();
    assert_eq!(answer(&server, "/a.inc"), (200, "ran /a.inc ".to_owned()));
    assert_eq!(answer(&server, "/a.php").0, 200);
    for target in ["/a.phtml", "/a.INC", "/a.inc.bak", "/public.txt"] {
        assert_eq!(answer(&server, target).0, 403, "{target}");
    }
}
