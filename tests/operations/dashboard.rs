//! `howdah dashboard`: who may see the page, what it shows, and what its buttons do. The page
//! itself is tested in a browser, by `tests/e2e/dashboard.py`.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::process::{Child, ChildStdout, Command, Stdio};

use harness::client::{Client, Response};
use harness::raw::Raw;
use harness::{Server, Site, eventually, programs};
use serde_json::{Value, json};

use crate::faulty_sites::{FAULTS, Visitors, serve};

/// A page in a browser.
#[derive(Debug, Clone, Copy)]
pub struct Browser {
    /// The address that it connects to.
    pub address: SocketAddr,
    /// The address that it connects from; `None` for any.
    pub source: Option<Ipv4Addr>,
}

/// A page of `howdah dashboard`, and what it prints.
struct Page {
    child: Child,
    output: BufReader<ChildStdout>,
    browser: Browser,
    code: String,
}

/// The secrets of somebody who has logged in.
#[derive(Debug, Clone)]
pub struct Session {
    cookie: String,
    key: String,
}

impl Page {
    fn of(server: &Server, arguments: &[&str]) -> Page {
        let control = format!("unix:{}", server.site.control_socket().display());
        let mut command = Command::new(programs::howdah());
        command.args(["dashboard", "--listen", "127.0.0.1:0", "--control", &control]);
        let mut child = command.args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let link = next_link(&mut output);
        let (url, code) = link.split_once("/#log-in=").unwrap();
        let address = url.strip_prefix("http://").unwrap_or("127.0.0.1:0").parse().unwrap();
        let browser = Browser { address, source: None };
        Page { child, output, browser, code: code.to_owned() }
    }

    /// Logs in with the code that was printed.
    fn session(&self) -> Session {
        session(&self.log_in(&self.code))
    }
}

impl Deref for Page {
    type Target = Browser;

    fn deref(&self) -> &Browser {
        &self.browser
    }
}

impl Browser {
    /// Sends a request with these fields, and returns the response.
    pub fn ask(&self, method: &str, target: &str, fields: &str, body: &str) -> Response {
        let host = if fields.contains("Host:") { String::new() } else { self.host() };
        let length = body.len();
        let mut client = match self.source {
            Some(source) => Client::connect_from(source, self.address),
            None => Client::connect(self.address),
        };
        client
            .send(format!(
                "{method} {target} HTTP/1.1\r\n{host}Connection: close\r\n{fields}Content-Length: \
                 {length}\r\n\r\n{body}"
            ))
            .response()
    }

    fn host(&self) -> String {
        format!("Host: {}\r\n", self.address)
    }

    /// Returns the fields of a request of the page itself.
    pub fn own(&self, session: Option<&Session>) -> String {
        let mut fields = format!(
            "Origin: http://{}\r\nSec-Fetch-Site: same-origin\r\nContent-Type: application/json\r\n",
            self.address
        );
        if let Some(Session { cookie, key }) = session {
            fields += &format!("Cookie: a=b; {cookie}\r\nX-Howdah-Key: {key}\r\n");
        }
        fields
    }

    pub fn log_in(&self, code: &str) -> Response {
        let body = json!({"code": code}).to_string();
        self.ask("POST", "/api/log-in", &self.own(None), &body)
    }

    pub fn get(&self, session: &Session, name: &str) -> Value {
        let response = self.ask("GET", &format!("/api/{name}"), &self.own(Some(session)), "");
        assert_eq!(response.status, 200, "{response:?}");
        serde_json::from_str(&response.text()).unwrap()
    }

    pub fn press(&self, session: &Session, body: &Value) -> Response {
        self.ask("POST", "/api/do", &self.own(Some(session)), &body.to_string())
    }

    /// Opens the stream of events.
    pub fn events(&self, session: &Session) -> Client {
        let mut client = Client::connect(self.address);
        let (host, fields) = (self.host(), self.own(Some(session)));
        client.send(format!("GET /api/events HTTP/1.1\r\n{host}{fields}\r\n"));
        client
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the next link that is printed.
fn next_link(output: &mut impl BufRead) -> String {
    let mut lines = output.lines().map(|line| line.unwrap());
    let link = lines.find(|line| line.contains("/#log-in="));
    link.expect("the page prints a link").trim().to_owned()
}

/// Returns the secrets of a response to a log-in.
pub fn session(response: &Response) -> Session {
    assert_eq!(response.status, 200, "{response:?}");
    let cookie = response.field("Set-Cookie").unwrap();
    let answer: Value = serde_json::from_str(&response.text()).unwrap();
    Session {
        cookie: cookie.split(';').next().unwrap().to_owned(),
        key: answer["key"].as_str().unwrap().to_owned(),
    }
}

/// A server with a small site and a control socket.
fn small() -> Server {
    let site = Site::script("a.php", "usleep((int) ($_GET['us'] ?? 0)); echo getmypid();");
    let control = format!("unix:{}", site.control_socket().display());
    site.argument("--control").argument(&control).with(json!({})).serve()
}

#[test]
fn the_page_is_for_its_own_host_and_its_policy_forbids_all_other_code() {
    let server = small();
    let page = Page::of(&server, &[]);
    for host in ["localhost", "localhost:99", "127.0.0.1:1", "[::1]"] {
        let response = page.ask("GET", "/", &format!("Host: {host}\r\n"), "");
        assert_eq!(response.status, 200, "{host}: {response:?}");
    }
    for host in ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", "localhost\r\nHost: b"] {
        let response = page.ask("GET", "/", &format!("Host: {host}\r\n"), "");
        assert!(matches!(response.status, 400 | 403), "{host}: {response:?}");
    }
    let response = page.ask("GET", "/", "", "");
    let policy = response.field("Content-Security-Policy").unwrap();
    for part in ["default-src 'none'", "script-src 'self';", "frame-ancestors 'none'", "'script'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(response.field("X-Content-Type-Options"), Some("nosniff"));
    let etag = response.field("ETag").unwrap();
    let known = page.ask("GET", "/", &format!("If-None-Match: {etag}\r\n"), "");
    assert_eq!(known.status, 304);
    for (method, target, status) in [
        ("POST", "/", 405),
        ("GET", "/app.js", 200),
        ("GET", "/../Cargo.toml", 400),
        ("GET", "/etc/passwd", 404),
        ("GET", "/api/log-in", 405),
        ("TRACE", "/app.js", 405),
    ] {
        assert_eq!(page.ask(method, target, "", "").status, status, "{method} {target}");
    }
    let long = format!("X-Long: {}\r\n", "x".repeat(40_000));
    assert_eq!(page.ask("GET", "/", &long, "").status, 431);
}

#[test]
fn nothing_but_a_code_logs_in_and_it_works_once() {
    let server = small();
    let mut page = Page::of(&server, &[]);
    for code in ["", "x", &page.code[1..], &"0".repeat(64)] {
        assert_eq!(page.log_in(code).status, 403, "{code}");
    }
    let right = json!({"code": page.code}).to_string();
    let own = page.own(None);
    for fields in [
        own.replace(&format!("Origin: http://{}\r\n", page.address), ""),
        own.replace("Origin: http://", "Origin: https://"),
        own.replace("Origin: ", "Origin: null\r\nX: "),
        own.replace("same-origin", "cross-site"),
        own.replace("same-origin", "same-site"),
    ] {
        assert_eq!(page.ask("POST", "/api/log-in", &fields, &right).status, 403, "{fields}");
    }
    let form = own.replace("application/json", "text/plain");
    assert_eq!(page.ask("POST", "/api/log-in", &form, &right).status, 415);
    let large = json!({"code": "x".repeat(40_000)}).to_string();
    assert!(matches!(page.ask("POST", "/api/log-in", &own, &large).status, 400 | 413));

    let response = page.log_in(&page.code);
    let cookie = response.field("Set-Cookie").unwrap();
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{cookie}");
    // Cookies know no ports: a page on another port has a cookie of another name.
    assert!(cookie.starts_with(&format!("howdah_dashboard_{}=", page.address.port())), "{cookie}");
    let first = session(&response);
    assert_eq!(page.log_in(&page.code).status, 403, "the code was used");
    let link = next_link(&mut page.output);
    let second = session(&page.log_in(link.split_once('=').unwrap().1));

    // A session is its cookie and its key.
    let mixed = Session { key: second.key.clone(), ..first.clone() };
    let others = [mixed, Session { key: String::new(), ..first.clone() }];
    for (session, status) in others.iter().map(|other| (other, 401)).chain([(&first, 200)]) {
        let fields = page.own(Some(session));
        for name in ["session", "site?name=a", "histories?ids=0&range=5m", "parts", "requests"] {
            let response = page.ask("GET", &format!("/api/{name}"), &fields, "");
            assert_eq!(response.status, status, "{name}: {response:?}");
        }
    }
    let fields = page.own(Some(&first)).replace("same-origin", "cross-site");
    assert_eq!(page.ask("GET", "/api/session", &fields, "").status, 403);
    let response = page.ask("POST", "/api/log-out", &page.own(Some(&first)), "{}");
    assert_eq!(response.status, 200);
    let response = page.ask("GET", "/api/session", &page.own(Some(&first)), "");
    assert_eq!(response.status, 401, "logged out");
    page.get(&second, "session");
}

#[test]
fn the_token_of_the_control_api_logs_in_too_and_guesses_are_limited() {
    let site = Site::script("a.php", "echo 1;");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    std::fs::write(&file, "0123456789abcdef").unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let file = file.display().to_string();
    let control = format!("unix:{}", site.control_socket().display());
    let site = site.argument("--control").argument(&control);
    let site = site.argument("--control-token-file").argument(&file);
    let server = site.with(json!({})).serve();
    let page = Page::of(&server, &["--control-token-file", &file]);
    session(&page.log_in("0123456789abcdef"));
    let mut statuses = (0..200).map(|_| page.log_in("0123456789abcdeF").status);
    assert!(statuses.by_ref().take(10).all(|status| status == 403));
    assert!(statuses.any(|status| status == 429));
    // Guesses of others lock no owner of a code out.
    session(&page.log_in(&page.code));
}

#[test]
fn a_page_behind_a_proxy_has_its_own_host_and_a_secure_cookie() {
    let server = small();
    let control = format!("unix:{}", server.site.control_socket().display());
    let address = harness::free_address();
    let mut command = Command::new(programs::howdah());
    command.args(["dashboard", "--control", &control, "--url", "https://status.example"]);
    command.args(["--listen", &address.to_string()]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let link = next_link(&mut output);
    let code = link.strip_prefix("https://status.example/#log-in=").unwrap().to_owned();
    let page = Page { child, output, browser: Browser { address, source: None }, code };
    let own = page.own(None);
    let behind = own.replace(&format!("http://{address}"), "https://status.example");
    let behind = format!("Host: status.example\r\n{behind}");
    let body = json!({"code": page.code}).to_string();
    let other = behind.replace("https://status", "https://evil");
    assert_eq!(page.ask("POST", "/api/log-in", &other, &body).status, 403);
    let response = page.ask("POST", "/api/log-in", &behind, &body);
    let cookie = response.field("Set-Cookie").unwrap();
    assert!(cookie.starts_with("howdah_dashboard="), "{cookie}");
    assert!(cookie.ends_with("SameSite=Strict; Secure"), "{cookie}");
    session(&response);
}

#[test]
fn each_of_six_faults_among_thirty_sites_is_told_to_the_page() {
    let server = serve();
    let _visitors = Visitors::of(&server);
    let page = Page::of(&server, &[]);
    let session = page.session();
    for (name, _, words) in FAULTS {
        eventually(&format!("{name} is named"), || {
            // A new page gets everything.
            let mut events = page.events(&session);
            events.wait_for("\n\n");
            let text = String::from_utf8_lossy(events.received()).into_owned();
            let data = text.lines().find_map(|line| line.strip_prefix("data: "))?;
            let data: Value = serde_json::from_str(data).unwrap();
            let sites = data["sites"].as_array()?;
            let notices = &sites.iter().find(|site| site[1] == *name)?[11];
            let notices = notices.as_array()?.iter().filter_map(|notice| notice[1].as_str());
            let mut named = notices.filter(|text| words.iter().any(|word| text.contains(word)));
            named.next().map(drop)
        });
    }
    let histories = page.get(&session, "histories?ids=0,1,2,999&range=5m");
    let sites = histories["sites"].as_object().unwrap();
    assert_eq!(sites.len(), 3, "{histories}");
    for range in ["1h", "1d"] {
        page.get(&session, &format!("histories?ids=0&range={range}"));
    }
    for query in ["", "?ids=0", "?ids=x&range=5m", "?ids=1&range=2h"] {
        let target = format!("/api/histories{query}");
        assert_eq!(page.ask("GET", &target, &page.own(Some(&session)), "").status, 400);
    }
    // The script that sleeps is at last a slow one, with its stack.
    eventually("the stack of the script that sleeps", || {
        let site = page.get(&session, "site?name=sleeps");
        assert!(site["pool"]["procs"].is_array(), "{site}");
        let stack = site["stacks"][0]["stack"][0].as_str()?.to_owned();
        stack.starts_with("#0 sleep(").then_some(())
    });
}

#[test]
fn two_hundred_pages_are_told_of_changes() {
    harness::allow_many_files();
    let server = small();
    let page = Page::of(&server, &[]);
    let session = page.session();
    let mut pages: Vec<_> = (0..200).map(|_| page.events(&session)).collect();
    for events in &mut pages {
        events.wait_for("event: all\n");
        events.wait_for("event: tick\n");
    }
    // Others can still log in, and ask.
    page.get(&session, "parts");
    let response = page.ask("POST", "/api/log-out", &page.own(Some(&session)), "{}");
    assert_eq!(response.status, 200);
    for events in &mut pages {
        events.wait_for("\r\n0\r\n");
    }
}

#[test]
fn a_button_works_with_its_own_code_only() {
    let server = small();
    let mut page = Page::of(&server, &[]);
    let session = page.session();
    let before = server.get("/a.php").text();
    let name = "site";
    // The first sample may not have come yet.
    let code = eventually("the button is offered", || {
        let site = page.get(&session, &format!("site?name={name}"));
        site["buttons"]["restart"].as_str().map(str::to_owned)
    });
    let order = |code: &str, name: &str| json!({"do": "restart", "name": name, "code": code});
    let link = next_link(&mut page.output);
    let other = crate::dashboard::session(&page.log_in(link.split_once('=').unwrap().1));
    for (session, body) in [
        (&session, order("", name)),
        (&session, order(&code[1..], name)),
        (&session, order(&code, "other")),
        (&session, json!({"do": "reload", "code": code})),
        (&other, order(&code, name)),
    ] {
        let response = page.press(session, &body);
        assert_eq!(response.status, 403, "{body}: {response:?}");
    }
    assert_eq!(page.press(&session, &json!({"do": "upgrade", "code": code})).status, 400);
    assert_eq!(server.get("/a.php").text(), before);
    let response = page.press(&session, &order(&code, name));
    assert_eq!(response.status, 200, "{response:?}");
    eventually("another process answers", || (server.get("/a.php").text() != before).then_some(()));

    let page = Page::of(&server, &["--read-only"]);
    let session = page.session();
    eventually("the site is known", || {
        let site = page.get(&session, &format!("site?name={name}"));
        assert!(site["buttons"].is_null(), "{site}");
        site["application"].is_object().then_some(())
    });
    assert_eq!(page.press(&session, &order(&code, name)).status, 403);
}

/// Presses the button of this name on the part of the page, as its code does; returns the answer.
fn press(page: &Page, session: &Session, button: &str, mut order: Value) -> Value {
    order["code"] = eventually("the button is offered", || {
        let code = &page.get(session, "parts")["buttons"][button];
        code.is_string().then(|| code.clone())
    });
    let response = page.press(session, &order);
    assert_eq!(response.status, 200, "{order}: {response:?}");
    serde_json::from_str(&response.text()).unwrap()
}

/// A server whose page has all buttons: two servers of an upstream, in turn, a cache in front of
/// one of them, and a document in a file.
fn with_all_buttons() -> (Server, [Raw; 2]) {
    let answer = |name: &str| {
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 1\r\n\r\n";
        Raw::answering(format!("{head}{name}"))
    };
    let servers = [answer("a"), answer("b")];
    let [a, b] = servers.each_ref().map(|server| server.address.to_string());
    let site = Site::new();
    let control = format!("unix:{}", site.control_socket().display());
    let document = json!({
        "upstreams": {"pair": {"servers": {a: {}, b: {}}}},
        "routes": [
            {"match": {"uri": "/cached"}, "action": {"pass": "upstreams/pair", "cache": {}}},
            {"match": {"uri": "/turns"}, "action": {"pass": "upstreams/pair"}},
            {"action": {"return": 404}},
        ],
    });
    (site.argument("--control").argument(&control).with(document).serve(), servers)
}

#[test]
fn the_button_of_a_cache_empties_it() {
    let (server, servers) = with_all_buttons();
    let asked = || servers.iter().map(|server| server.asked().len()).sum::<usize>();
    for _ in 0..2 {
        server.get("/cached");
    }
    assert_eq!(asked(), 1, "the second answer is that of the cache");
    let page = Page::of(&server, &[]);
    let session = page.session();
    let buttons = eventually("the cache is known", || {
        let parts = page.get(&session, "parts");
        let cache = parts["caches"].as_object()?.keys().next()?.clone();
        Some((cache, parts["buttons"].clone()))
    });
    let (cache, buttons) = buttons;
    let purge = |prefix: Option<&str>| {
        let order = json!({"do": "purge", "name": cache, "prefix": prefix});
        press(&page, &session, &format!("purge {cache}"), order);
        server.get("/cached");
        asked()
    };
    assert!(buttons["reload"].is_string(), "{buttons}");
    assert_eq!(purge(Some("https://elsewhere.example/")), 1, "nothing is below this URL");
    assert_eq!(purge(None), 2);
}

#[test]
fn the_buttons_of_a_server_keep_requests_from_it_and_give_it_some_again() {
    let (server, servers) = with_all_buttons();
    let page = Page::of(&server, &[]);
    let session = page.session();
    let address = servers[0].address.to_string();
    let button = format!("drain {}", json!(["pair", address]));
    let drain = |drains: bool| {
        let order = json!({"do": "drain", "name": "pair", "server": address, "drains": drains});
        press(&page, &session, &button, order);
    };
    let turns = || (0..8).map(|_| server.get("/turns").text()).collect::<String>();
    let before = turns();
    assert!(before.contains('a') && before.contains('b'), "{before}");
    drain(true);
    assert_eq!(turns(), "bbbbbbbb");
    let drained = eventually("the page says so", || {
        let drained = page.get(&session, "parts")["drained"].clone();
        (drained != json!([])).then_some(drained)
    });
    assert_eq!(drained, json!([["pair", address]]));
    drain(false);
    let after = turns();
    assert!(after.contains('a') && after.contains('b'), "{after}");
}

#[test]
fn the_button_reload_reads_the_document_again() {
    let (server, _servers) = with_all_buttons();
    let page = Page::of(&server, &[]);
    let session = page.session();
    let path = server.site.root().with_file_name("config.json");
    let mut document: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    document["routes"] = json!([{"action": {"return": 204}}]);
    std::fs::write(&path, document.to_string()).unwrap();
    assert_eq!(server.get("/").status, 404);
    press(&page, &session, "reload", json!({"do": "reload"}));
    assert_eq!(server.get("/").status, 204);
    // A document that is refused: the page gets the reason.
    std::fs::write(&path, "{").unwrap();
    let code = page.get(&session, "parts")["buttons"]["reload"].clone();
    let refused = page.press(&session, &json!({"do": "reload", "code": code}));
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.text().contains("config.json"), "{refused:?}");
}

#[test]
fn an_address_that_others_can_reach_is_refused() {
    let server = small();
    let control = format!("unix:{}", server.site.control_socket().display());
    let refusal = |arguments: &[&str]| {
        let mut command = Command::new(programs::howdah());
        command.args(["dashboard", "--control", &control]).args(arguments);
        let output = programs::run(&mut command);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refusal(&["--listen", "0.0.0.0:0"]).contains("ssh -L"));
    assert!(refusal(&["--listen", "127.0.0.1:0", "--no-link"]).contains("no token"));
    let taken = server.address.to_string();
    assert!(refusal(&["--listen", &taken]).contains("another address"));
}
