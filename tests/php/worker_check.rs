//! `howdah worker-check`: finds differences between the classic mode and worker mode.

use std::process::{Command, Output};

use harness::{Server, Site, programs};
use serde_json::json;

/// Serves an application in the classic mode whose front controller can also run as a worker
/// script. `page` handles a request; its own global variables stay in worker mode.
fn serve(page: &str) -> Server {
    let script = format!(
        "<?php
        $page = function () {{
            $path = strtok($_SERVER['REQUEST_URI'], '?');
            if ($path === '/') \
            {{ echo '<a href=\"/one\">1</a> <a href=\"two\">2</a> <a href=\"/three?a=b\">3</a>'; }}
            echo $path, ' token ', bin2hex(random_bytes(4)), ' ';
            {page}
        }};
        try {{
            while (frankenphp_handle_request($page));
        }} catch (RuntimeException $error) {{
            $page();
        }}"
    );
    let site = Site::new().file("index.php", script).with(json!({
        "routes": [{"action": {"pass": "applications/site"}}],
        "applications": {"site": {"script": "index.php"}},
    }));
    let address = format!("unix:{}", site.control_socket().display());
    site.argument("--control").argument(&address).serve()
}

fn check(server: &Server, arguments: &[&str]) -> (Option<i32>, String) {
    let socket = format!("unix:{}", server.site.control_socket().display());
    let url = format!("http://{}/", server.address);
    let mut command = Command::new(programs::howdah());
    command.args(["worker-check", &url, "--control", &socket]).args(arguments);
    let Output { status, stdout, stderr } = programs::run(&mut command);
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code(), text(stdout) + &text(stderr))
}

#[test]
fn an_application_that_is_fit_gives_the_same_pages() {
    let server = serve(
        "header('X-Own: 1'); session_start(); setcookie('seen', '1'); echo $_GET['a'] ?? 'none';",
    );
    let (code, text) = check(&server, &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.starts_with("4 pages of \"site\" were compared.\n"), "{text}");
    assert!(!text.contains("Different") && !text.contains("replaced"), "{text}");
    assert!(text.contains("ms classic"), "{text}");
}

#[test]
fn pages_that_depend_on_an_earlier_request_are_named() {
    let server = serve("global $count; echo 'visits: ', ++$count;");
    let (code, text) = check(&server, &[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("Different in worker mode: 4\n  /: "), "{text}");
    assert!(text.contains("instead of"), "{text}");
    let server = serve("if ($path === '/two') { define('ONCE', 1) || print('again'); exit; }");
    let (_, text) = check(&server, &[]);
    assert!(text.contains("exit: "), "{text}");
}

#[test]
fn a_script_that_does_not_boot_beside_other_applications_is_named_with_its_error() {
    let site = Site::new()
        .file("index.php", "<?php echo 1;")
        .file("worker.php", "<?php throw new Exception('no database');")
        .with(json!({
            "routes": [
                {"match": {"uri": "/other"}, "action": {"pass": "applications/other"}},
                {"action": {"pass": "applications/site"}},
            ],
            "applications": {"site": {"script": "index.php"}},
        }));
    let root = site.root().display().to_string();
    let other = json!({"type": "php", "root": root, "script": "index.php", "processes": 1});
    let address = format!("unix:{}", site.control_socket().display());
    let server = site
        .with(json!({"applications": {"other": other}}))
        .argument("--control")
        .argument(&address)
        .serve();
    let (code, text) = check(&server, &["--application", "site", "--script", "worker.php"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("the worker script of the application \"site\" does not start"),
        "{text}"
    );
    assert!(text.contains("no database") && text.contains("frankenphp_handle_request"), "{text}");
}

#[test]
fn a_url_that_leads_elsewhere_is_no_comparison() {
    let site = Site::new().file("index.php", "<?php echo 1;").with(json!({
        "routes": [
            {"match": {"host": "shop.example"}, "action": {"pass": "applications/site"}},
            {"action": {"return": 404}},
        ],
        "applications": {"site": {"script": "index.php", "worker": {"script": "worker.php"}}},
    }));
    let site = site.file("worker.php", "<?php while (frankenphp_handle_request(fn () => 1));");
    let address = format!("unix:{}", site.control_socket().display());
    let server = site.argument("--control").argument(&address).serve();
    let (code, text) = check(&server, &[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("/ was not answered by the application \"site\""), "{text}");
    assert!(text.contains(&format!("\"{}\" lead elsewhere", server.address)), "{text}");
    assert!(text.contains("status 404"), "{text}");
}

#[test]
fn a_script_that_is_no_worker_script_is_named() {
    let server = serve("");
    let (code, text) = check(&server, &["--script", "missing.php"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("the worker mode does not start: "), "{text}");
    assert!(text.contains("missing.php"), "{text}");
    let (code, text) = check(&server, &["--application", "other"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("there is no application \"other\"; there is \"site\""), "{text}");
}

#[test]
fn a_directory_that_is_served_without_a_document_can_be_compared() {
    let front = "<?php require __DIR__ . '/page.php'; page();";
    let worker = "<?php require __DIR__ . '/page.php'; while (frankenphp_handle_request('page'));";
    let page = "<?php function page() { static $visits = 0; echo 'visits: ', ++$visits; }";
    let site = Site::new().file("index.php", front).file("frankenphp-worker.php", worker);
    let site = site.file("page.php", page);
    let address = format!("unix:{}", site.control_socket().display());
    let server = site.argument("--control").argument(&address).serve();
    let (code, text) = check(&server, &["--script", "frankenphp-worker.php"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("One page of \"site\" was compared."), "{text}");
    assert!(text.contains("Different in worker mode: 1\n  /: "), "{text}");
    let (code, text) = check(&server, &["--script", "worker.txt"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("does not start: ") && text.contains("must be a script"), "{text}");
}
