//! Routes on the whole server: conditions, rewriting, header fields, proxies that tell of the
//! client.

use std::os::unix::fs::PermissionsExt;

use harness::{Server, Site, eventually};
use serde_json::{Value, json};

/// Reports the request as a script sees it.
const TELL: &str = "foreach (['REMOTE_ADDR', 'HTTPS', 'REQUEST_SCHEME', 'REQUEST_URI',
    'QUERY_STRING', 'SCRIPT_NAME', 'PATH_INFO', 'SERVER_NAME', 'SERVER_PORT'] as $name)
    echo $name, '=', $_SERVER[$name] ?? '-', \"\\n\";
    header('X-Powered-By: a script');";

fn serve(site: Site, document: Value) -> Server {
    site.with(document).serve()
}

fn ask(server: &Server, line: &str, fields: &str) -> harness::client::Response {
    server.send(format!("{line} HTTP/1.1\r\nHost: a.org\r\nConnection: close\r\n{fields}\r\n"))
}

#[test]
fn steps_are_chosen_by_everything_a_request_has() {
    let matching =
        |conditions: Value, status: u16| json!({"match": conditions, "action": {"return": status}});
    let server = serve(
        Site::new(),
        json!({"routes": [
            matching(json!({"method": "POST"}), 201),
            matching(json!({"host": "*.b.org"}), 202),
            matching(json!({"query": "a=b+c"}), 203),
            matching(json!({"arguments": {"a": "1", "b": ["2", "3"]}}), 204),
            matching(json!({"headers": {"x-key": "~^[0-9]+$"}}), 205),
            matching(json!({"cookies": {"sid": "*"}}), 206),
            matching(json!({"if": "$arg_special"}), 207),
            matching(json!({"source": "!127.0.0.0/8"}), 208),
            matching(json!({"scheme": "https"}), 209),
            matching(json!({"destination": "127.0.0.0/8", "uri": "/local"}), 210),
        ]}),
    );
    for (line, fields, status) in [
        ("POST /", "Content-Length: 0\r\n", 201),
        ("GET /?a=b%20c", "", 203),
        ("GET /?b=3&a=%31", "", 204),
        ("GET /", "X-Key: 12\r\n", 205),
        ("GET /", "Cookie: a=b; sid=x\r\n", 206),
        ("GET /?special=1", "", 207),
        ("GET /local", "", 210),
        ("GET /?special=0", "X-Key: a\r\nCookie: ssid=1\r\n", 404),
    ] {
        assert_eq!(ask(&server, line, fields).status, status, "{line} {fields}");
    }
    let response =
        server.send("GET / HTTP/1.1\r\nHost: www.B.org.:80\r\nConnection: close\r\n\r\n");
    assert_eq!(response.status, 202);
}

#[test]
fn a_script_sees_the_target_that_was_sent_and_runs_by_the_path_that_was_rewritten() {
    let server = serve(
        Site::script("a.php", TELL),
        json!({
            "settings": {"http": {"log_route": true}},
            "routes": [
                {"match": {"uri": "/nice/*"},
                 "action": {"rewrite": "/a.php$uri?added", "pass": "applications/site"}},
                {"action": {"return": 404}},
            ],
        }),
    );
    let text = ask(&server, "GET /nice/%41%3Fb?q=1", "").text();
    for line in ["REQUEST_URI=/nice/%41%3Fb?q=1", "QUERY_STRING=added&q=1", "SCRIPT_NAME=/a.php"] {
        assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
    }
    assert!(text.contains("PATH_INFO=/nice/A?b\n"), "{text}");
    let log = server.wait_for_log("URI rewritten to \"/a.php/nice/A?b\"");
    assert!(log.contains("http request line \"GET /nice/%41%3Fb?q=1 HTTP/1.1\""), "{log}");
    assert!(log.contains("\"routes/0\" selected"), "{log}");
}

#[test]
fn the_last_action_changes_fields_of_files_scripts_and_answers_but_not_of_errors() {
    let headers = json!({
        "X-Set": "$uri $status $response_header_content_type", "X-Powered-By": null,
        "etag": null, "Server": "mine",
    });
    let server = serve(
        Site::script("a.php", TELL).file("a.txt", "text"),
        json!({"routes": [
            {"match": {"uri": "*.php"},
             "action": {"pass": "applications/site", "response_headers": headers}},
            {"match": {"uri": "/moved"},
             "action": {"return": 301, "location": "/x y", "response_headers": headers}},
            {"action": {"share": "$arg_root$uri", "response_headers": headers}},
        ]}),
    );
    let script = ask(&server, "GET /a.php", "");
    assert_eq!(script.field("x-set"), Some("/a.php 200 text/html; charset=UTF-8"));
    assert_eq!((script.field("x-powered-by"), script.field("server")), (None, Some("mine")));
    let root = server.site.root().display().to_string();
    let file = ask(&server, &format!("GET /a.txt?root={root}"), "");
    assert_eq!(file.field("X-Set"), Some("/a.txt 200 text/plain"));
    assert_eq!((file.field("etag"), file.text().as_str()), (None, "text"));
    let answer = ask(&server, "GET /moved", "");
    assert_eq!(
        (answer.field("location"), answer.field("x-set")),
        (Some("/x%20y"), Some("/moved 301"))
    );
    let error = ask(&server, "GET /nothing", "");
    assert_eq!((error.status, error.field("x-set")), (404, None));
    assert!(error.field("server").is_some_and(|server| server.starts_with("Howdah")));
}

/// Scenario: nginx's `add_header` beside the application's own fields, and Apache's `Header append`,
/// `setifempty` and `edit`.
#[test]
fn fields_are_added_to_those_of_a_script_and_edit_them() {
    let code = "header('Link: <own>'); header('X-Own: 1'); header('Vary: Cookie');
        setcookie('a', '1'); setcookie('b', '2');";
    let headers = json!({
        "Link": {"value": ["<$arg_a>", "<$arg_none>", "$arg_none"], "mode": "add"},
        "X-Own": {"value": "2", "mode": "default"},
        "X-New": {"value": "2", "mode": "default"},
        "Vary": {"value": "Origin", "mode": "append"},
        "Set-Cookie": [
            {"edit": "~^(.*)=", "value": "__Host-$1="},
            {"edit": "~$", "value": "; Path=/$arg_a"},
        ],
        "X-Two": ["1", "2"],
    });
    let document = json!({"routes": [
        {"action": {"pass": "applications/site", "response_headers": headers}},
    ]});
    let server = serve(Site::script("a.php", code), document);
    let response = ask(&server, "GET /a.php?a=b%0d%0aX-Evil:%201", "");
    let all = |name: &str| -> Vec<&str> {
        let fields = response.fields.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        fields.map(|(_, value)| value.as_str()).collect()
    };
    assert_eq!(all("link"), ["<own>", "<bX-Evil: 1>", "<>"]);
    assert_eq!((all("x-own"), all("x-new")), (vec!["1"], vec!["2"]));
    assert_eq!((all("vary"), all("x-two")), (vec!["Cookie, Origin"], vec!["1", "2"]));
    assert_eq!(all("set-cookie"), ["__Host-a=1; Path=/bX-Evil: 1", "__Host-b=2; Path=/bX-Evil: 1"]);
    assert!(response.field("x-evil").is_none());
}

#[test]
fn only_a_listed_proxy_tells_who_the_client_is_and_what_it_asked_for() {
    for (source, address, scheme, https) in
        [("127.0.0.0/8", "1.2.3.4", "https", "on"), ("10.0.0.0/8", "127.", "http", "-")]
    {
        let forwarded = json!({
            "client_ip": "X-Forwarded-For", "protocol": "X-Forwarded-Proto", "source": source,
            "host": "X-Forwarded-Host", "port": "X-Forwarded-Port", "recursive": true,
        });
        let listen = harness::free_address().to_string();
        let server = Site::script("a.php", TELL)
            .with(json!({"listeners": {listen.as_str(): {"forwarded": forwarded}}}))
            .serve_at(&listen);
        let fields = "X-Forwarded-For: 6.6.6.6, 1.2.3.4, 127.9.9.9\r\nX-Forwarded-Proto: https\r\n";
        let text = ask(&server, "GET /a.php", fields).text();
        assert!(text.contains(&format!("REMOTE_ADDR={address}")), "{text}");
        assert!(text.contains(&format!("REQUEST_SCHEME={scheme}\n")), "{text}");
        assert!(text.contains(&format!("HTTPS={https}\n")), "{text}");
        let fields = "X-Forwarded-Host: Shop.Example\r\nX-Forwarded-Port: 8443\r\n";
        let text = ask(&server, "GET /a.php", fields).text();
        let is_told =
            text.contains("SERVER_NAME=shop.example\n") && text.contains("SERVER_PORT=8443\n");
        assert_eq!(is_told, https == "on", "{text}");
    }
}

#[test]
fn an_answer_may_have_any_status() {
    let server = serve(
        Site::new(),
        json!({"routes": [
            {"match": {"uri": "/0"}, "action": {"return": 0}},
            {"match": {"uri": "/100"}, "action": {"return": 100}},
            {"match": {"uri": "/598"}, "action": {"return": 598}},
            {"match": {"uri": "/999"}, "action": {"return": 999}},
            {"action": {"pass": "routes"}},
        ]}),
    );
    let page = ask(&server, "GET /598", "");
    assert!(page.status == 598 && !page.body.is_empty());
    let empty = ask(&server, "GET /999", "");
    assert!(
        empty.status == 999 && empty.body.is_empty() && empty.field("content-length") == Some("0")
    );
    for target in ["/0", "/100"] {
        // No client takes that for an answer, so the connection ends.
        let mut client = server.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let all = String::from_utf8(client.everything()).unwrap();
        assert!(all.ends_with("\r\n\r\n") && all.contains("Connection: close"), "{all}");
    }
    assert_eq!(ask(&server, "GET /circle", "").status, 500);
    eventually("the circle is logged", || server.log().contains("in a loop").then_some(()));
}

#[test]
fn many_threads_or_one_serve_the_same() {
    for threads in [1, 5] {
        let server = serve(
            Site::script("a.php", "echo 1;"),
            json!({"settings": {"listen_threads": threads}}),
        );
        let router = server.router();
        let tasks = std::fs::read_dir(format!("/proc/{router}/task")).unwrap().count();
        assert!(tasks > threads, "{tasks} threads");
        for _ in 0..20 {
            assert_eq!(server.get("/a.php").text(), "1");
        }
    }
}

#[test]
fn steps_are_chosen_by_files() {
    let site = Site::new()
        .file("a.html", "a")
        .file("sub/b.html", "b")
        .file("program", "")
        .file(".maintenance", "");
    let root = site.root().display().to_string();
    let run = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(site.root().join("program"), run).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", site.root().join("link")).unwrap();
    let step =
        |conditions: Value, status: u16| json!({"match": conditions, "action": {"return": status}});
    let server = serve(
        site,
        json!({"routes": [
            step(json!({"uri": "/up", "file": format!("{root}/.maintenance")}), 503),
            step(json!({"uri": "/host/*", "directory": format!("{root}/$host")}), 201),
            step(json!({"uri": "/arg", "exists": format!("{root}/sub/$arg_name")}), 202),
            step(json!({"uri": "/arg"}), 203),
            step(json!({"uri": "/program", "executable": format!("{root}$uri")}), 204),
            step(json!({"directory": format!("{root}$uri")}), 205),
            step(json!({"file": format!("{root}$uri")}), 206),
            step(json!({"exists": [format!("!{root}$uri"), "/"]}), 207),
        ]}),
    );
    for (target, status) in [
        ("/up", 503),
        ("/host/x", 207), // there is no directory a.org
        ("/arg?name=b.html", 202),
        ("/arg?name=../a.html", 203),
        ("/arg?name=..", 203),
        ("/arg?name=/../../www", 203),
        ("/arg?name=b.html%00", 203),
        ("/arg?name=none", 203),
        ("/program", 204),
        ("/sub", 205),
        ("/sub/", 205),
        ("/a.html", 206),
        ("/a.html/", 207),
        ("/none", 207),
    ] {
        assert_eq!(ask(&server, &format!("GET {target}"), "").status, status, "{target}");
    }
    std::fs::remove_file(server.site.root().join(".maintenance")).unwrap();
    assert_eq!(ask(&server, "GET /up", "").status, 207);
}

#[test]
fn variables_of_the_document_choose_steps_files_and_fields() {
    let site = Site::new().file("shop/a.txt", "shop").file("main/a.txt", "main");
    let root = site.root().display().to_string();
    let server = serve(
        site,
        json!({
            "variables": {
                "area": {"map": "$host$arg_area", "default": "main", "values": {
                    "*.shop": "shop", "~^a\\.org(evil)$": "../$arg_area",
                }},
                "inside": {"geo": "$remote_addr", "values": {"127.0.0.0/8": "1"}},
                "design": {"split": "$remote_addr", "values": {"new": 100}, "default": "old"},
            },
            "routes": [
                {"match": {"if": "!$inside"}, "action": {"return": 403}},
                {"action": {
                    "share": format!("{root}/$area$uri"),
                    "response_headers": {"X-Design": "$design", "X-Area": "$area"},
                }},
            ],
        }),
    );
    let response = ask(&server, "GET /a.txt?area=.shop", "");
    assert_eq!(response.text(), "shop");
    assert_eq!((response.field("x-design"), response.field("x-area")), (Some("new"), Some("shop")));
    assert_eq!(ask(&server, "GET /a.txt", "").text(), "main");
    assert_eq!(ask(&server, "GET /a.txt?area=evil", "").status, 404);
}

/// Scenario: `Cookie: debug` without `=` is a cookie without a value for PHP, and evaded each
/// condition on it.
#[test]
fn conditions_know_cookies_without_a_value_as_php_does() {
    let code = "header('Cache-Control: max-age=600');
        echo isset($_COOKIE['debug']) ? 'debug' : 'plain', isset($_COOKIE['my_id']) ? ' id' : '';";
    let cookies = |name: &str| json!({"cookies": {name: "*"}});
    let document = json!({"routes": [
        {"match": {"uri": "/match", "cookies": {"debug": "*"}}, "action": {"return": 403}},
        {"match": {"uri": "/cache"}, "action": {
            "rewrite": "/a.php", "pass": "applications/site",
            "cache": {"bypass": cookies("debug"), "store": {"cookies": {"my_id": "*"}}},
        }},
        {"match": {"uri": "/limit"}, "action": {
            "return": 204, "limit": {"rate": "1/h", "match": cookies("debug")},
        }},
        {"action": {"rewrite": "/a.php", "pass": "applications/site"}},
    ]});
    let site = || Site::script("a.php", code);
    let server = serve(site(), document.clone());
    let get = |server: &Server, path: &str, cookie: &str| {
        ask(server, &format!("GET {path}"), &format!("Cookie: {cookie}\r\n"))
    };
    for cookie in ["debug", "a=b; debug", "debug[x]", " debug;a"] {
        assert_eq!(get(&server, "/match", cookie).status, 403, "{cookie}");
        assert!(get(&server, "/a", cookie).text().starts_with("debug"), "{cookie}");
        let answer = get(&server, "/cache", cookie);
        assert_eq!(answer.field("Cache-Status"), Some("Howdah; fwd=bypass"), "{cookie}");
    }
    assert_eq!(get(&server, "/match", "debugger; a=debug; debug ;").text(), "plain");
    let answer = get(&server, "/cache", "my.id");
    assert_eq!(answer.text(), "plain id");
    assert!(answer.field("Cache-Status").unwrap().ends_with("; stored"), "{answer:?}");
    assert_eq!([0; 2].map(|_| get(&server, "/limit", "a").status), [204, 204]);
    assert_eq!([0; 2].map(|_| get(&server, "/limit", "debug").status), [204, 429]);
    let unit = serve(site().argument("--unit"), document);
    assert_eq!(get(&unit, "/match", "debug").text(), "debug", "as in Unit");
}
