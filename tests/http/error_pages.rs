//! Responses of the whole server: lists of paths, error pages, and changes to responses of other
//! servers.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};

use harness::backends::read_head;
use harness::{Server, Site};
use serde_json::{Value, json};

/// Reports the request as a script sees it.
const TELL: &str = "foreach (['REDIRECT_STATUS', 'REDIRECT_URL', 'REQUEST_METHOD', 'REQUEST_URI',
    'QUERY_STRING', 'SCRIPT_NAME', 'CONTENT_LENGTH', 'HTTP_COOKIE', 'HTTP_RANGE'] as $name)
    echo $name, '=', $_SERVER[$name] ?? '-', \"\\n\";
    echo 'body=', file_get_contents('php://input'), \"\\n\";";

fn ask(server: &Server, line: &str, fields: &str) -> harness::client::Response {
    server.send(format!("{line} HTTP/1.1\r\nHost: a.org\r\nConnection: close\r\n{fields}\r\n"))
}

/// A server that answers every request with a status and the request.
fn backend(status: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let head = read_head(&mut stream).unwrap_or_default();
            let body = [b"backend ".as_slice(), &head, &[b' '; 2000]].concat();
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n"
            );
            let _ = stream.write_all(&body);
        }
    });
    address
}

/// A document with these routes for the site's directory.
fn serve(site: Site, routes: impl FnOnce(&str) -> Value) -> Server {
    let root = site.root().display().to_string();
    site.with(json!({"routes": routes(&root)})).serve()
}

#[test]
fn a_script_answers_with_the_page_for_an_error_and_the_status_stays() {
    let code = format!("header('X-From: page'); setcookie('seen', '1'); {TELL}");
    let server = serve(Site::script("404.php", &code), |root| {
        json!([{"action": {
            "share": format!("{root}$uri"),
            "error_pages": {"404": {"action": {"rewrite": "/404.php",
                "pass": "applications/site"}}},
        }}])
    });
    let fields = "Cookie: a=b\r\nRange: bytes=0-1\r\nIf-None-Match: *\r\n";
    let page = ask(&server, "GET /no%20such?q=1", fields);
    assert_eq!((page.status, page.field("x-from")), (404, Some("page")));
    assert_eq!(page.field("set-cookie"), Some("seen=1"));
    let expected = "REDIRECT_STATUS=404\nREDIRECT_URL=/no such\nREQUEST_METHOD=GET\n\
                    REQUEST_URI=/no%20such?q=1\nQUERY_STRING=q=1\nSCRIPT_NAME=/404.php\n\
                    CONTENT_LENGTH=\nHTTP_COOKIE=a=b\nHTTP_RANGE=-\nbody=\n";
    assert_eq!(page.text(), expected);
}

#[test]
fn a_page_gets_no_body_and_the_connection_goes_on_behind_it() {
    let server = serve(Site::script("405.php", TELL).file("a.txt", "text"), |root| {
        let page = json!({"action": {"rewrite": "/405.php", "pass": "applications/site"}});
        json!([{"action": {
            "share": format!("{root}$uri"), "error_pages": {"405": page, "404": page},
        }}])
    });
    let mut client = server.connect();
    client.send("POST /a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    let page = client.response();
    assert_eq!((page.status, page.field("allow")), (405, Some("GET, HEAD")));
    assert!(page.text().contains("REQUEST_METHOD=GET\n") && page.text().ends_with("body=\n"));
    assert_eq!(client.get("/a.txt").text(), "text", "what came behind the body is the next");
    client.send("HEAD /none HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.head_response();
    assert_eq!((head.status, head.body.len()), (404, 0));
    assert_eq!(client.get("/a.txt").text(), "text");
}

#[test]
fn a_page_may_have_a_status_of_its_own_and_come_from_anywhere() {
    let proxy = format!("http://{}", backend("203 Odd"));
    let listen = harness::free_address().to_string();
    let site = Site::script("own.php", "http_response_code(218); echo 'own';")
        .with(json!({"listeners": {listen.as_str(): {"pass": "routes/main"}}}));
    let root = site.root().display().to_string();
    let routes = {
        let own = json!({"rewrite": "/own.php", "pass": "applications/site"});
        json!({"main": [{
            "match": {"uri": "/404*"},
            "action": {"return": 404, "error_pages": {"404": {"action": own}}},
        }, {
            "match": {"uri": "/410"},
            "action": {
                "return": 410, "error_pages": {"410": {"action": own, "keep_status": false}},
            },
        }, {
            "match": {"uri": "/403"},
            "action": {"deny": "127.0.0.0/8", "return": 200, "error_pages": {"403": {
                "action": {"return": 302, "location": "/login?from=$uri"}, "keep_status": false,
            }}},
        }, {
            "match": {"uri": "/402"},
            "action": {"return": 402, "error_pages": {"402": {"action": own, "status": 451}}},
        }, {
            "match": {"uri": "/405"},
            "action": {"return": 405, "error_pages": {"405": {
                "action": {"return": 200, "body": "no body"}, "status": 204,
            }}},
        }, {
            "match": {"uri": "/503"},
            "action": {"return": 503, "error_pages": {"503": {"action": {"proxy": proxy}}}},
        }, {
            "match": {"uri": "/500"},
            "action": {"return": 500, "error_pages": {"500": {"action": {"pass": "routes/other"}}}},
        }], "other": [{"action": {"share": format!("{root}/no.html"), "fallback": {
            "share": format!("{root}/own.txt"),
        }}}]})
    };
    let server = site.with(json!({"routes": routes})).serve_at(&listen);
    std::fs::write(server.site.root().join("own.txt"), "from a file").unwrap();
    let page = server.get("/404");
    assert_eq!((page.status, page.text().as_str()), (404, "own"));
    let page = server.get("/410");
    assert_eq!((page.status, page.text().as_str()), (218, "own"));
    let page = server.get("/402");
    assert_eq!((page.status, page.text().as_str()), (451, "own"));
    let page = server.get("/405");
    assert_eq!((page.status, page.text().as_str()), (204, ""));
    let page = server.get("/403");
    assert_eq!((page.status, page.field("location")), (302, Some("/login?from=/403")));
    let page = server.get("/503");
    assert_eq!((page.status, page.field("retry-after")), (503, Some("5")));
    assert!(page.text().starts_with("backend GET /503 HTTP/1.1\r\n"), "{page:?}");
    let page = server.get("/500");
    assert_eq!((page.status, page.text().as_str()), (500, "from a file"));
    assert_eq!(page.field("etag"), None);
}

#[test]
fn an_error_within_a_page_ends_with_the_page_of_the_server() {
    let server = serve(Site::script("a.php", "echo 1;"), |root| {
        let circle = json!({"action": {"pass": "routes"}});
        json!([{
            "match": {"uri": "/circle"},
            "action": {"return": 404, "error_pages": {"404": circle}},
        }, {
            "match": {"uri": "/other"},
            "action": {
                "return": 404,
                "error_pages": {"404": {"action": {"rewrite": "/circle", "pass": "routes"}}},
            },
        }, {
            "match": {"uri": "/missing"},
            "action": {
                "return": 404,
                "error_pages": {"404": {"action": {"share": format!("{root}/none.html")}}},
            },
        }, {
            "match": {"uri": "/locked"},
            "action": {
                "return": 404,
                "error_pages": {"404": {"action": {
                    "basic_auth": {"users_file": "/no/such/file"}, "return": 200,
                }}},
            },
        }])
    });
    for target in ["/circle", "/other", "/missing", "/locked"] {
        let page = server.get(target);
        assert!(page.status == 404 && page.text().contains("404 Not Found"), "{target}: {page:?}");
    }
}

#[test]
fn pages_of_scripts_and_of_other_servers_stay_and_failures_of_both_get_a_page() {
    let gone = format!("http://{}", harness::free_address());
    let there = format!("http://{}", backend("404 Not Here"));
    let server = serve(
        Site::script("404.php", "http_response_code(404); echo 'script';")
            .file("dies.php", "<?php posix_kill(getmypid(), 9);")
            .file("page.html", "the page"),
        |root| {
            let page = format!("{root}/page.html");
            let pages = json!({"404": page, "502": page});
            json!([
                {"match": {"uri": "/gone"}, "action": {"proxy": gone, "error_pages": pages}},
                {"match": {"uri": "/there"}, "action": {"proxy": there, "error_pages": pages}},
                {"action": {"pass": "applications/site", "error_pages": pages}},
            ])
        },
    );
    for (target, status, text) in [
        ("/gone", 502, "the page"),
        ("/dies.php", 502, "the page"),
        ("/404.php", 404, "script"),
        ("/there", 404, "backend GET /there"),
    ] {
        let page = server.get(target);
        assert_eq!(page.status, status, "{target}");
        assert!(page.text().starts_with(text), "{target}: {page:?}");
    }
}

#[test]
fn answers_of_other_servers_are_compressed_and_get_the_fields_that_protect() {
    let proxy = format!("http://{}", backend("200 OK"));
    let gzip = json!({"compressors": [{"encoding": "gzip", "min_length": 100}]});
    let server = Site::new()
        .with(json!({
            "settings": {"http": {"compression": gzip}},
            "routes": [{
                "match": {"uri": "~^/api/(.*)$"},
                "action": {
                    "rewrite": "/v2/$1", "proxy": proxy, "security_headers": true,
                    "response_headers": {"X-Api": "$1 $status"},
                },
            }],
        }))
        .serve();
    let plain = ask(&server, "GET /api/a%20b/c?q=%31", "");
    assert!(plain.text().starts_with("backend GET /v2/a%20b/c?q=%31 HTTP/1.1\r\n"), "{plain:?}");
    assert_eq!(plain.field("x-api"), Some("a b/c 200"));
    assert_eq!(plain.field("x-content-type-options"), Some("nosniff"));
    let packed = ask(&server, "GET /api/a", "Accept-Encoding: gzip\r\n");
    assert_eq!(packed.field("content-encoding"), Some("gzip"));
    assert!(packed.body.starts_with(b"\x1f\x8b") && packed.body.len() < plain.body.len());
}

#[test]
fn one_list_serves_files_directories_and_a_front_controller() {
    let code = "echo implode('|', [$_SERVER['SCRIPT_NAME'], $_SERVER['REQUEST_URI'],
        $_SERVER['PATH_INFO'] ?? '-', $_SERVER['DOCUMENT_ROOT'] === getenv('ROOT') ? 'root' :
        $_SERVER['DOCUMENT_ROOT']]);";
    let site = Site::script("index.php", code)
        .file("direct.php", format!("<?php {code}"))
        .file("a.txt", "text")
        .file("dir/index.html", "index");
    let root = site.root().canonicalize().unwrap();
    let server = serve(
        site.with(json!({"applications": {"site": {"environment": {"ROOT": root}}}})),
        |root| {
            json!([{"action": {
                "share": format!("{root}$uri"), "try": ["$uri", "$uri/", "/index.php"],
                "index": ["index.php", "index.html"], "scripts": "applications/site",
            }}])
        },
    );
    for (target, text) in [
        ("/a.txt", "text"),
        ("/dir/", "index"),
        ("/blog/post?x=1", "/index.php|/blog/post?x=1|-|root"),
        ("/direct.php/info", "/direct.php|/direct.php/info|/info|root"),
        ("/?a", "/index.php|/?a|-|root"),
    ] {
        assert_eq!(server.get(target).text(), text, "{target}");
    }
    let redirect = server.get("/dir?x=%20");
    assert_eq!((redirect.status, redirect.field("location")), (301, Some("/dir/?x=%20")));
    let posted = server.post("/blog", "text/plain", "x");
    assert_eq!(posted.text(), "/index.php|/blog|-|root");
}
