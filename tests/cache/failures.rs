//! Pages that an error of their script has cut: they are sent, and never kept.

use harness::fastcgi::{Socket, cgi, fpm};
use harness::{Server, Site};
use serde_json::{Value, json};

/// A page that is good, or ends by an error after more than PHP buffers.
const PAGE: &str = "header('Cache-Control: max-age=60');
    $how = is_file('how') ? file_get_contents('how') : ($_GET['how'] ?? '');
    echo '<html>', str_repeat('article ', 4000);
    switch ($how) {
        case 'function': undefined_function();
        case 'exception': throw new Exception('no');
        case 'memory': ini_set('memory_limit', '8M'); str_repeat('x', 1 << 27);
        case 'time': set_time_limit(1); for (;;);
        case 'handled': register_shutdown_function(function () { exit; }); undefined_function();
        case 'later': register_shutdown_function(function () { throw new Exception('late'); });
    }
    echo '</html>';";

const HOWS: [&str; 6] = ["function", "exception", "memory", "time", "handled", "later"];

fn status(server: &Server, target: &str) -> (u16, String, String) {
    let response = server.get(target);
    let cache = response.field("Cache-Status").unwrap_or_default().to_owned();
    (response.status, cache, response.text())
}

fn assert_only_whole_pages_are_stored(server: &Server, hows: &[&str]) {
    for how in hows {
        for turn in 0..2 {
            let (code, cache, text) = status(server, &format!("/?how={how}"));
            assert_eq!(code, 200, "{how}");
            assert!(text.contains("article "), "{how}");
            assert!(!cache.contains("hit"), "{how}, {turn}: {cache}");
        }
    }
    status(server, "/?how=good");
    let (_, cache, text) = status(server, "/?how=good");
    assert!(cache.contains("hit") && text.ends_with("</html>"), "{cache}");
}

fn cached(pass: &str) -> Value {
    json!({"routes": [{"action": {"cache": {}, "pass": pass}}]})
}

#[test]
fn a_page_that_an_error_has_cut_is_not_stored() {
    let script = json!({"applications": {"site": {"script": "index.php"}}});
    let site = Site::script("index.php", PAGE).with(json!({"routes": null}));
    let server = site.with(cached("applications/site")).with(script).serve();
    assert_only_whole_pages_are_stored(&server, &HOWS);
}

#[test]
fn nor_is_one_of_a_worker_script() {
    let page = format!("while (frankenphp_handle_request(function () {{ {PAGE} }}));");
    let site = Site::script("index.php", &page).with(json!({"routes": null}));
    let script = json!({"applications": {"site": {"script": "index.php", "worker": true}}});
    let server = site.with(cached("applications/site")).with(script).serve();
    assert_only_whole_pages_are_stored(&server, &HOWS);
}

#[test]
fn nor_is_one_of_a_fastcgi_server() {
    // php-cgi sends the exit status; PHP-FPM only PHP's message.
    let log = "php_admin_flag[log_errors] = on\nphp_admin_value[error_log] =";
    for server in [cgi(2), fpm(&Socket::Tcp, 2, log)] {
        let site = Site::script("index.php", PAGE);
        let application = json!({
            "type": "fastcgi", "server": server.address, "root": site.root(), "script": "index.php",
        });
        let site = site
            .with(json!({"routes": null, "applications": null}))
            .with(json!({"applications": {"site": application}}))
            .with(cached("applications/site"));
        assert_only_whole_pages_are_stored(&site.serve(), &HOWS[..3]);
    }
}

#[test]
fn a_page_that_an_error_has_cut_takes_the_place_of_no_good_one() {
    let page = PAGE.replace("max-age=60", "max-age=0, stale-while-revalidate=60");
    let script = json!({"applications": {"site": {"script": "index.php"}}});
    let site = Site::script("index.php", &page).with(json!({"routes": null}));
    let site = site.file("how", "good").with(cached("applications/site")).with(script);
    let how = site.root().join("how");
    let server = site.serve();
    status(&server, "/");
    std::fs::write(how, "exception").unwrap();
    for _ in 0..20 {
        let (code, cache, text) = status(&server, "/");
        assert!(code == 200 && cache.contains("hit"), "{code}: {cache}");
        assert!(text.ends_with("</html>"));
    }
    server.wait_for_log("Uncaught Exception: no");
}

/// Scenario: a page is assembled from parts, and one of them ends by an error in the middle of its
/// content.
#[test]
fn a_part_that_an_error_has_cut_is_not_stored_and_shown_to_nobody_later() {
    let page =
        "header('Surrogate-Control: content=\"ESI/1.0\"'); header('Cache-Control: max-age=60');
        echo 'page<esi:include src=\"/part.php\"/>end';";
    for how in ["exception", "memory"] {
        let site = Site::script("index.php", page).file("part.php", format!("<?php {PAGE}"));
        let site = site.file("how", how);
        let (root, path) = (site.root(), site.root().join("how"));
        let action = json!({
            "share": format!("{}$uri", root.display()), "index": ["index.php"],
            "scripts": "applications/site", "cache": {"esi": true},
        });
        let server =
            site.with(json!({"routes": null})).with(json!({"routes": [{"action": action}]}));
        let server = server.serve();
        for _ in 0..2 {
            let response = server.get("/");
            assert!(!response.text().contains("article "), "{how}: {response:?}");
            let (_, cache, _) = status(&server, "/part.php");
            assert!(!cache.contains("hit"), "{how}: {cache}");
        }
        std::fs::write(&path, "good").unwrap();
        for _ in 0..2 {
            let (code, _, text) = status(&server, "/");
            assert!(code == 200 && text.starts_with("page<html>"), "{how}: {code}");
            assert!(text.ends_with("</html>end"), "{how}: {text}");
        }
        let (_, cache, _) = status(&server, "/part.php");
        assert!(cache.contains("hit"), "{how}: {cache}");
    }
}
