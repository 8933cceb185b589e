//! Entity tags of scripts and servers behind compression: the tag that a browser returns leads to
//! 304.

use harness::client::Response;
use harness::fastcgi::{Socket, cgi, fpm};
use harness::raw::Raw;
use harness::{Server, Site};
use serde_json::{Value, json};

/// A page whose script compares its tag byte by byte.
fn page(tag: &str) -> String {
    format!(
        "$tag = '{tag}'; header(\"ETag: $tag\"); header('X-Asked: ' . \
         ($_SERVER['HTTP_IF_NONE_MATCH'] ?? ''));
         header('X-Match: ' . ($_SERVER['HTTP_IF_MATCH'] ?? '') . ($_SERVER['HTTP_IF_RANGE'] ?? \
         ''));
         if (($_SERVER['HTTP_IF_NONE_MATCH'] ?? '') === $tag) {{ http_response_code(304); exit; }}
         echo str_repeat('hello world ', 500);"
    )
}

fn compressed() -> Value {
    json!({"settings": {"http": {"compression": {"compressors": {"encoding": "gzip"}}}}})
}

fn ask(server: &Server, fields: &str) -> Response {
    server.send(format!(
        "GET /a.php HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n{fields}Connection: \
         close\r\n\r\n"
    ))
}

#[test]
fn the_tag_of_a_compressed_page_leads_to_304() {
    for (own, sent) in [("\"abc\"", "W/\"abc\""), ("W/\"abc\"", "W/\"abc\"")] {
        let server = Site::script("a.php", &page(own)).with(compressed()).serve();
        let first = ask(&server, "");
        assert_eq!((first.status, first.field("ETag")), (200, Some(sent)));
        assert_eq!(first.field("Content-Encoding"), Some("gzip"));
        for asked in [sent.to_owned(), format!("\"x\", {sent}, W/\"y\"")] {
            let again = ask(&server, &format!("If-None-Match: {asked}\r\n"));
            assert_eq!((again.status, again.field("ETag")), (304, Some(sent)), "{own} {asked}");
        }
        assert_eq!(ask(&server, "If-None-Match: W/\"other\"\r\n").status, 200);
    }
    let server = Site::script("a.php", &page("\"abc\"")).with(compressed()).serve();
    let listed = ask(&server, "If-None-Match: \"x\" , W/\"y\"\r\nIf-Match: W/\"abc\"\r\n");
    assert_eq!(listed.field("X-Asked"), Some("\"x\" , \"y\""));
    assert_eq!(listed.field("X-Match"), Some("W/\"abc\""), "it is compared strongly");
    assert_eq!(ask(&server, "If-None-Match: *\r\n").field("X-Asked"), Some("*"));
    let range = ask(&server, "If-Range: W/\"abc\"\r\n");
    assert_eq!(range.field("X-Match"), Some("W/\"abc\""));
    // The response is not compressed, so it is not changed.
    let plain = Site::script("a.php", &page("\"abc\"")).with(json!({})).serve();
    let asked = ask(&plain, "If-None-Match: W/\"abc\"\r\n");
    assert_eq!((asked.status, asked.field("X-Asked")), (200, Some("W/\"abc\"")));
}

#[test]
fn so_does_that_of_a_page_under_htaccess() {
    let site = Site::script("a.php", &page("\"abc\""))
        .file(".htaccess", "AddOutputFilterByType DEFLATE text/html\n")
        .with(json!({"routes": null}))
        .with(json!({
            "routes": [{"action": {"pass": "applications/site"}}],
            "applications": {"site": {"htaccess": true}},
        }));
    let server = site.serve();
    let first = ask(&server, "");
    assert_eq!((first.status, first.field("ETag")), (200, Some("\"abc-gzip\"")));
    let again = ask(&server, "If-None-Match: \"abc-gzip\"\r\n");
    assert_eq!(again.status, 304);
    assert_eq!(ask(&server, "If-None-Match: \"other-gzip\"\r\n").status, 200);
}

#[test]
fn so_does_that_of_a_server() {
    let origin = Raw::new(|connection| {
        while let Some(head) = connection.request() {
            let text = "hello world ".repeat(500);
            let fields = "Content-Type: text/html\r\nETag: \"abc\"\r\n";
            let answer = if head.contains("If-None-Match: \"abc\"\r\n") {
                format!(
                    "HTTP/1.1 304 \
                Not Modified\r\n{fields}\r\n"
                )
            } else {
                format!(
                    "HTTP/1.1 200 OK\r\n{fields}Cache-Control: max-age=0\r\nContent-Length: \
                     {}\r\n\r\n{text}",
                    text.len()
                )
            };
            if !connection.send(answer) {
                return;
            }
        }
    });
    for cache in [json!({}), json!({"cache": {}})] {
        let mut action = json!({"proxy": origin.url()});
        harness::merge(&mut action, cache);
        let server = Site::new()
            .with(json!({"routes": null}))
            .with(json!({"routes": [{"action": action}]}))
            .with(compressed())
            .serve();
        assert_eq!(ask(&server, "").field("ETag"), Some("W/\"abc\""));
        let again = ask(&server, "If-None-Match: W/\"abc\"\r\n");
        assert_eq!((again.status, again.field("ETag")), (304, Some("W/\"abc\"")));
    }
}

#[test]
fn so_does_that_of_a_script_of_a_fastcgi_server() {
    for fastcgi in [cgi(1), fpm(&Socket::Tcp, 1, "")] {
        for cache in [json!({}), json!({"cache": {}})] {
            let site = Site::script("a.php", &page("\"abc\""));
            let application =
                json!({"type": "fastcgi", "server": fastcgi.address, "root": site.root()});
            let mut action = json!({"pass": "applications/site"});
            harness::merge(&mut action, cache);
            let server = site
                .with(json!({"routes": null, "applications": null}))
                .with(json!({"applications": {"site": application}}))
                .with(json!({"routes": [{"action": action}]}))
                .with(compressed())
                .serve();
            let first = ask(&server, "");
            assert_eq!((first.status, first.field("ETag")), (200, Some("W/\"abc\"")), "{first:?}");
            assert_eq!(first.field("Content-Encoding"), Some("gzip"));
            let again = ask(&server, "If-None-Match: W/\"abc\"\r\n");
            assert_eq!((again.status, again.field("ETag")), (304, Some("W/\"abc\"")), "{again:?}");
            assert_eq!(ask(&server, "If-None-Match: W/\"other\"\r\n").status, 200);
        }
    }
}
