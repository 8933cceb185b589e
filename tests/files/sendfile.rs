//! Files that answers leave to the server: `X-Accel-Redirect` and `X-Sendfile`.

use harness::client::Response;
use harness::fastcgi::{Socket, fpm};
use harness::raw::Raw;
use harness::{Server, Site};
use serde_json::{Value, json};

/// The scripts of the tests.
const SCRIPT: &str = r#"
header_remove('X-Powered-By');
foreach ($_GET['h'] ?? [] as $header) header($header);
header('ETag: "script"');
setcookie('a', '1');
echo $_SERVER['REQUEST_METHOD'], ' the script itself', $_SERVER['HTTP_X_SENDFILE_TYPE'] ?? '';
"#;

/// A site whose answers may redirect to the route `files`, which only they lead to, and send files
/// of the directory `protected`.
fn site() -> (Site, Value) {
    let site = Site::script("a.php", SCRIPT)
        .file("a.txt", "public")
        .file("../protected/a b.bin", "0123456789")
        .file("../secret", "secret");
    let directory = site.root().with_file_name("protected").display().to_string();
    let document = json!({
        "routes": {
            "main": [{"action": {
                "share": format!("{}$uri", site.root().display()),
                "scripts": "applications/site",
            }}],
            "files": [
                {"match": {"uri": "/denied/*"}, "action": {"return": 403}},
                {"match": {"uri": "/again*"}, "action": {"pass": "applications/again"}},
                {"action": {
                    "share": format!("{directory}$uri"),
                    "response_headers": {"X-Route": "files"},
                }},
            ],
        },
        "applications": {"again": {
            "type": "php", "root": site.root(), "script": "a.php", "processes": 1,
            "internal_redirect": "routes/files",
        }},
    });
    (site, document)
}

/// Serves it through the main route, with changes to the application.
fn serve(changes: Value) -> Server {
    let (site, mut document) = site();
    let directory = site.root().with_file_name("protected");
    let mut application = json!({"internal_redirect": "routes/files", "sendfile": [directory]});
    harness::merge(&mut application, changes);
    harness::merge(&mut document, json!({"applications": {"site": application}}));
    let address = harness::free_address().to_string();
    document["listeners"] = json!({&address: {"pass": "routes/main"}});
    site.with(document).serve_at(&address)
}

fn escape(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// Lets the script set these header lines.
fn ask(server: &Server, method: &str, headers: &[&str], fields: &str) -> Response {
    let query: Vec<_> = headers.iter().map(|header| format!("h[]={}", escape(header))).collect();
    let target = format!("/a.php?{}", query.join("&"));
    let mut client = server.connect();
    client.send(format!(
        "{method} {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n"
    ));
    if method == "HEAD" { client.head_response() } else { client.response() }
}

const PATH: &str = "X-Accel-Redirect: /a%20b.bin";

fn check_redirect(server: &Server) {
    let response = ask(server, "GET", &[PATH, "Content-Type: x/y", "Content-Disposition: z"], "");
    assert_eq!((response.status, response.text().as_str()), (200, "0123456789"));
    assert_eq!(response.field("Content-Type"), Some("x/y"));
    assert_eq!(response.field("Content-Disposition"), Some("z"));
    assert_eq!(response.field("Set-Cookie"), Some("a=1"));
    assert_eq!(response.field("X-Route"), Some("files"), "the route's own fields");
    assert_eq!(response.field("X-Accel-Redirect"), None);
    let tag = response.field("ETag").unwrap().to_owned();
    assert_ne!(tag, "\"script\"");
    // The client's conditions and ranges for the file count.
    let part = ask(server, "GET", &[PATH], "Range: bytes=2-4\r\n");
    assert_eq!((part.status, part.text().as_str()), (206, "234"));
    let same = ask(server, "GET", &[PATH], &format!("If-None-Match: {tag}\r\n"));
    assert_eq!((same.status, same.body.len()), (304, 0));
    let posted = ask(server, "POST", &[PATH], "Content-Length: 0\r\nRange: bytes=9-\r\n");
    assert_eq!((posted.status, posted.text().as_str()), (206, "9"));
    let head = ask(server, "HEAD", &[PATH], "");
    assert_eq!((head.status, head.field("Content-Length")), (200, Some("10")));
}

/// Scenario: `X-Accel-Redirect: @name`, for which nginx keeps path, query and method of the request.
#[test]
fn a_script_leaves_the_request_to_a_named_route() {
    let named = json!({"@tell": "routes/tell", "@again": "routes/again"});
    let (site, mut document) = site();
    document["routes"]["tell"] = json!([
        {"match": {"method": "POST", "headers": {"content-length": "*"}}, "action": {"return": 500}},
        {"action": {"return": 200, "body": "$method $uri", "internal": true}},
    ]);
    document["routes"]["again"] = json!([{"action": {"pass": "applications/site"}}]);
    let application = json!({"named_redirects": named});
    harness::merge(&mut document, json!({"applications": {"site": application}}));
    let address = harness::free_address().to_string();
    document["listeners"] = json!({&address: {"pass": "routes/main"}});
    let server = site.with(document).serve_at(&address);
    for (method, fields) in [("GET", ""), ("POST", "Content-Length: 0\r\n")] {
        let response = ask(&server, method, &["X-Accel-Redirect: @tell"], fields);
        assert_eq!((response.status, response.text()), (200, format!("{method} /a.php")));
        assert_eq!(response.field("Set-Cookie"), Some("a=1"));
    }
    for (name, status) in [("@none", 404), ("@tell/..", 404), ("/a%20b.bin", 404), ("@again", 500)]
    {
        let response = ask(&server, "GET", &[&format!("X-Accel-Redirect: {name}")], "");
        assert_eq!(response.status, status, "{name}: {response:?}");
        assert!(!response.text().contains("script itself"));
    }
    server.wait_for_log("X-Accel-Redirect leads to a redirect loop");
}

#[test]
fn a_script_has_a_route_answer_that_no_client_can_ask() {
    let server = serve(json!({}));
    check_redirect(&server);
    assert_eq!(server.get("/a%20b.bin").status, 404, "the route is not for clients");
    for (path, status) in [("/none", 404), ("/denied/a", 403), ("@files", 404)] {
        let response = ask(&server, "GET", &[&format!("X-Accel-Redirect: {path}")], "");
        assert_eq!(response.status, status, "{path}: {response:?}");
        assert_eq!(response.field("Content-Type"), Some("text/html"));
        assert_eq!(response.field("Set-Cookie"), Some("a=1"));
        assert!(!response.text().contains("script itself"));
    }
}

#[test]
fn a_script_of_php_fpm_has_a_route_answer() {
    let fastcgi = fpm(&Socket::Unix(16), 1, "");
    let (site, mut document) = site();
    let directory = site.root().with_file_name("protected");
    let address = harness::free_address().to_string();
    document["listeners"] = json!({&address: {"pass": "routes/main"}});
    document["routes"]["main"][0]["action"]["scripts"] = json!("applications/fpm");
    document["applications"]["fpm"] = json!({
        "type": "fastcgi", "server": fastcgi.address, "root": site.root(),
        "internal_redirect": "routes/files", "sendfile": directory,
    });
    let server = site.with(document).serve_at(&address);
    check_redirect(&server);
    check_files(&server);
}

fn check_files(server: &Server) {
    let directory = server.site.root().with_file_name("protected");
    let file = format!("X-Sendfile: {}/a b.bin", directory.display());
    let response = ask(server, "GET", &[&file, "Content-Type: x/y"], "Range: bytes=2-4\r\n");
    assert_eq!((response.status, response.text().as_str()), (206, "234"));
    assert_eq!(response.field("Content-Type"), Some("x/y"));
    assert_eq!((response.field("X-Sendfile"), response.field("Set-Cookie")), (None, Some("a=1")));
    let at = directory.display();
    for outside in [
        format!("{at}/../secret"),
        format!("{at}/%2e%2e/secret"),
        format!("{at}/..%2fsecret"),
        format!("{at}/a b.bin%00"),
        format!("{at}x/a"),
        "/etc/passwd".to_owned(),
        "a b.bin".to_owned(),
        String::new(),
    ] {
        let response = ask(server, "GET", &[&format!("X-Sendfile: {outside}")], "");
        // PHP itself drops a line without a value.
        let unsent = outside.is_empty() && response.text().contains("script itself");
        assert!(response.status == 404 || unsent, "{outside}: {response:?}");
        assert!(!response.text().contains("secret") && !response.text().contains("root:"));
    }
}

#[test]
fn a_script_names_files_below_listed_directories_only() {
    check_files(&serve(json!({})));
}

#[test]
fn nothing_is_left_to_us_that_the_configuration_does_not_name() {
    // This is how frameworks learn that they may.
    let environment = json!({"HTTP_X_SENDFILE_TYPE": " X-Sendfile"});
    let server = serve(json!({"sendfile": [], "environment": environment}));
    let file = format!("{}/a b.bin", server.site.root().with_file_name("protected").display());
    let response = ask(&server, "GET", &[&format!("X-Sendfile: {file}")], "");
    assert_eq!((response.status, response.field("X-Sendfile")), (200, None));
    assert_eq!(response.text(), "GET the script itself X-Sendfile");
    server.wait_for_log("X-Sendfile, which needs \"sendfile\"");
}

#[test]
fn clients_and_other_upstreams_have_no_say() {
    let backend = Raw::answering(
        "HTTP/1.1 200 OK\r\nX-Accel-Redirect: /a%20b.bin\r\nX-Sendfile: /etc/passwd\r\n\
         X-Accel-Expires: 10\r\nContent-Length: 4\r\n\r\nbody",
    );
    let (site, mut document) = site();
    let address = harness::free_address().to_string();
    document["listeners"] = json!({&address: {"pass": "routes/main"}});
    let servers = json!({backend.address.to_string(): {}});
    document["upstreams"] = json!({
        "trusted": {"servers": servers, "internal_redirect": "routes/files"},
        "other": {"servers": servers, "headers": {"X-Sendfile-Type": "X-Accel-Redirect"}},
    });
    document["routes"]["main"] = json!([
        {"match": {"uri": "/trusted"}, "action": {"pass": "upstreams/trusted"}},
        {"match": {"uri": "/other"}, "action": {"pass": "upstreams/other"}},
        {"match": {"uri": "/proxy"}, "action": {"proxy": backend.url()}},
        {"action": {"return": 200}},
    ]);
    let server = site.with(document).serve_at(&address);
    assert_eq!(server.get("/trusted").text(), "0123456789");
    let forged = "X-Accel-Redirect: /a%20b.bin\r\nX-Sendfile: /etc/passwd\r\n\
                  X-Accel-Mapping: /=/\r\nX-Sendfile-Type: X-Sendfile\r\n";
    for target in ["/other", "/proxy", "/nothing"] {
        let response = server
            .send(format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{forged}\r\n"));
        assert_eq!(response.status, 200);
        let expected = if target == "/nothing" { "" } else { "body" };
        assert_eq!(response.text(), expected, "{target}");
        let leaked = response.fields.iter().find(|(name, _)| name.starts_with("X-"));
        assert_eq!(leaked, None, "{target}");
    }
    let asked = backend.asked().join("").to_ascii_lowercase();
    for name in ["\nx-accel-", "\nx-sendfile:"] {
        assert!(!asked.contains(name), "{name} in {asked}");
    }
    assert_eq!(asked.matches("x-sendfile-type: x-accel-redirect\r\n").count(), 1, "{asked}");
    server.wait_for_log("X-Accel-Redirect, which needs \"internal_redirect\"");
}

#[test]
fn answers_that_lead_in_a_circle_end() {
    let server = serve(json!({}));
    // The script of the second application sees the query of the path, and names itself again.
    let again = format!("/again?h[]={}", escape("X-Accel-Redirect: /a%20b.bin"));
    let response = ask(&server, "GET", &[&format!("X-Accel-Redirect: {again}")], "");
    assert_eq!((response.status, response.text().as_str()), (200, "0123456789"));

    let backend =
        Raw::answering("HTTP/1.1 200 OK\r\nX-Accel-Redirect: /x\r\nContent-Length: 0\r\n\r\n");
    let document = json!({
        "routes": [{"action": {"pass": "upstreams/other"}}],
        "upstreams": {"other": {
            "servers": {backend.address.to_string(): {}}, "internal_redirect": "routes",
        }},
    });
    let server = Site::new().with(document).serve();
    assert_eq!(server.get("/").status, 500);
    server.wait_for_log("X-Accel-Redirect leads to a redirect loop");
    assert!(backend.asked().len() <= 11, "{:?}", backend.asked());
}
