//! The action `dashboard`: who may see the page behind a listener, and that it changes nothing.

use std::net::Ipv4Addr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixStream};

use harness::processes;
use harness::tls::{Authority, send};
use harness::{Server, Site, eventually, free_address};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::dashboard::{Browser, Session, session};

const TOKEN: &str = "7c1f0e5a9d7b28364f1c0e5a9d7b2836";
const TITLE: &str = "howdah: dashboard";

/// A site whose other requests reach the page; with a token for it.
fn site() -> Site {
    let site = Site::script("a.php", "echo getmypid();");
    let file = site.data().join("page.token");
    std::fs::write(&file, TOKEN).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let control = format!("unix:{}", site.control_socket().display());
    let site = site.argument("--control").argument(&control);
    site.argument("--dashboard-token-file").argument(&file.display().to_string())
}

fn routes(site: &Site) -> Value {
    let root = site.root();
    json!([
        {"match": {"uri": "*.php"}, "action": {
            "share": format!("{}$uri", root.display()), "scripts": "applications/site",
        }},
        {"action": {"dashboard": true}},
    ])
}

fn serve() -> Server {
    let site = site();
    let routes = routes(&site);
    site.with(json!({"routes": routes})).serve()
}

fn browser(server: &Server) -> Browser {
    Browser { address: server.address, source: None }
}

/// Logs in as soon as the process serves.
fn log_in(browser: &Browser) -> Session {
    session(&eventually("the page takes the token", || {
        let response = browser.log_in(TOKEN);
        (response.status < 500).then_some(response)
    }))
}

/// Returns the process id of the dashboard process, if there is one.
fn process(server: &Server) -> Option<u32> {
    let mut found = server.processes().into_iter().filter(|process| process.title == TITLE);
    let pid = found.next().map(|process| process.pid);
    assert!(found.next().is_none());
    pid
}

#[test]
fn the_action_shows_the_page_to_who_has_the_token() {
    let server = serve();
    let browser = browser(&server);
    let session = log_in(&browser);
    assert_eq!(browser.ask("GET", "/", "", "").status, 200);
    let advice = browser.ask("GET", "/api/session", &browser.own(None), "");
    assert!(advice.text().contains("--dashboard-token-file"), "{advice:?}");
    for token in ["", "x", &TOKEN[1..]] {
        let refused = browser.log_in(token);
        assert_eq!(refused.status, 403, "{refused:?}");
        assert!(refused.text().contains("this is not the token"), "{refused:?}");
    }
    let first = server.get("/a.php").text();
    let site = eventually("the site is known", || {
        let site = browser.get(&session, "site?name=site");
        (site["application"].is_object() && site["requests"][0].is_object()).then_some(site)
    });
    assert_eq!(site["pool"]["procs"][0]["pid"].as_u64().unwrap().to_string(), first, "{site}");
    assert!(site["buttons"].is_null());
    // They are counted for the listener: an application may be called as the action.
    let requests = browser.get(&session, "requests")["requests"].clone();
    let is_log_in = |request: &&Value| request["target"] == "/api/log-in";
    let log_in = requests.as_array().unwrap().iter().find(is_log_in).unwrap();
    assert!(log_in["site"].is_string() && log_in["site"] == log_in["listener"], "{log_in}");
    let parts = browser.get(&session, "parts");
    assert!(parts["listeners"].is_object() && parts["buttons"].is_null(), "{parts}");
    assert_eq!(browser.get(&session, "session")["read_only"], true);
    let mut events = browser.events(&session);
    events.wait_for("event: all\n");
    events.wait_for("event: tick\n");
    for fields in [
        browser.own(None),
        browser.own(Some(&session)).replace("same-origin", "cross-site"),
        browser.own(Some(&session)).replace("Origin: http://", "Origin: http://evil."),
    ] {
        let refused = browser.ask("GET", "/api/parts", &fields, "");
        assert!(matches!(refused.status, 401 | 403), "{fields}: {refused:?}");
    }
    assert_eq!(browser.ask("POST", "/api/log-out", &browser.own(Some(&session)), "{}").status, 200);
    let refused = browser.ask("GET", "/api/session", &browser.own(Some(&session)), "");
    assert_eq!(refused.status, 401, "{refused:?}");
}

/// An attacker who has taken over the router has the cookies and keys of those who have logged in,
/// as they pass it. Whatever it sends, the process has no button, and no way to the control process.
#[test]
fn a_router_that_has_a_session_orders_nothing() {
    let server = serve();
    let browser = browser(&server);
    let session = log_in(&browser);
    let before = server.get("/a.php").text();
    let generation = || {
        let status = server.control("GET", "/status/configuration/generation", "").succeeded();
        status.as_u64().unwrap()
    };
    let generation_before = generation();
    for order in [
        json!({"do": "restart", "name": "site"}),
        json!({"do": "reload"}),
        json!({"do": "purge", "name": "*"}),
        json!({"do": "drain", "name": "pair", "server": "127.0.0.1:1", "drains": true}),
    ] {
        for code in ["", "x", &"0".repeat(64)] {
            let mut order = order.clone();
            order["code"] = json!(code);
            let refused = browser.press(&session, &order);
            assert_eq!(refused.status, 403, "{order}: {refused:?}");
        }
    }
    // The control API is not behind the page.
    for (method, target) in [
        ("GET", "/config"),
        ("PUT", "/config/settings"),
        ("GET", "/control/applications/site/restart"),
        ("POST", "/control/reload"),
        ("GET", "/api/config"),
        ("GET", "/api/site?name=..%2F..%2Fconfig"),
        ("GET", "/api/requests?site=x%26..%2Fconfig"),
    ] {
        let response = browser.ask(method, target, &browser.own(Some(&session)), "");
        let text = response.text();
        assert!(!text.contains("listeners") && !text.contains("routes"), "{target}: {text}");
    }
    assert_eq!(server.get("/a.php").text(), before);
    assert_eq!(generation(), generation_before);
}

#[test]
fn a_process_runs_while_the_document_has_the_action_and_is_replaced() {
    let site = site();
    let routes = routes(&site);
    let server = site.with(json!({})).serve();
    assert_eq!(process(&server), None);
    server.put("/config/routes", &routes);
    let first = eventually("it runs", || process(&server));
    let browser = browser(&server);
    let session = log_in(&browser);

    // Sessions and histories are kept while the router is replaced.
    let router = server.router();
    processes::signal(router, Signal::KILL);
    eventually("the next router is asked", || {
        let response = browser.ask("GET", "/api/requests", &browser.own(Some(&session)), "");
        (server.router() != router && response.status == 200).then_some(())
    });
    assert_eq!(process(&server), Some(first));

    processes::signal(first, Signal::KILL);
    let second = eventually("another one runs", || process(&server).filter(|pid| *pid != first));
    log_in(&browser);
    let refused = browser.ask("GET", "/api/session", &browser.own(Some(&session)), "");
    assert_eq!(refused.status, 401, "sessions end with the process: {refused:?}");
    server.wait_for_log("dashboard process");

    server.put("/config/routes", &json!([{"action": {"return": 204}}]));
    eventually("it ends", || {
        (process(&server).is_none() && !processes::is_alive(second)).then_some(())
    });
}

#[test]
fn guesses_of_others_lock_nobody_out() {
    let site = site();
    // An action on the way cannot leave out who the client is.
    let document = json!({"routes": {
        "first": [{"action": {"pass": "routes/page", "forwarded": "forwarded",
            "request_headers": {"X-Real-IP": null}}}],
        "page": [{"action": {"dashboard": true}}],
    }});
    let address = free_address().to_string();
    let listener = json!({"listeners": {&address: {"pass": "routes/first"}}});
    let server =
        site.with(json!({"routes": null})).with(document).with(listener).serve_at(&address);
    let owner = browser(&server);
    log_in(&owner);
    let other = Browser { source: Some(Ipv4Addr::new(127, 0, 0, 7)), ..owner };
    let body = json!({"code": "0123456789abcdef"}).to_string();
    let mut statuses = (0..200).map(|number| {
        let own = other.own(None);
        let fields =
            format!("X-Real-IP: 127.0.1.{number}\r\nX-Forwarded-For: 127.0.2.{number}\r\n{own}");
        other.ask("POST", "/api/log-in", &fields, &body).status
    });
    assert!(statuses.by_ref().take(10).all(|status| status == 403));
    assert!(statuses.any(|status| status == 429));
    assert_eq!(other.log_in(TOKEN).status, 429);
    session(&owner.log_in(TOKEN));
}

#[test]
fn nobody_logs_in_from_elsewhere_without_tls() {
    let site = site();
    let (address, forwarded) = (
        free_address().to_string(),
        json!({
            "client_ip": "X-Forwarded-For", "protocol": "X-Forwarded-Proto", "source": "127.0.0.1",
        }),
    );
    let routes = routes(&site);
    let listener = json!({"pass": "routes", "forwarded": forwarded});
    let document = json!({"routes": routes, "listeners": {&address: listener}});
    let server = site.with(document).serve_at(&address);
    let browser = browser(&server);
    log_in(&browser);
    let body = json!({"code": TOKEN}).to_string();
    let from = |protocol: &str, origin: &str| {
        let own = browser.own(None).replace("Origin: http:", &format!("Origin: {origin}:"));
        let fields =
            format!("X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: {protocol}\r\n{own}");
        browser.ask("POST", "/api/log-in", &fields, &body)
    };
    let refused = from("http", "http");
    assert_eq!(refused.status, 403, "{refused:?}");
    assert!(refused.text().contains("HTTPS"), "{refused:?}");
    // The page asks this first, and offers no field for a token then.
    let fields = format!("X-Forwarded-For: 192.0.2.1\r\n{}", browser.own(None));
    let refused = browser.ask("GET", "/api/session", &fields, "");
    assert_eq!(refused.status, 403, "{refused:?}");
    assert!(refused.text().contains("HTTPS"), "{refused:?}");
    assert_eq!(from("https", "http").status, 403, "the origin has another scheme");
    let response = from("https", "https");
    let cookie = response.field("Set-Cookie").unwrap();
    assert!(cookie.ends_with("HttpOnly; SameSite=Strict; Secure"), "{cookie}");
    session(&response);
}

#[test]
fn over_tls_the_cookie_is_secure() {
    let site = site();
    let authority = Authority::new();
    let (chain, key) = authority.issue(&["status.example"]);
    let data = site.data();
    for (name, text) in [("chain.pem", &chain), ("key.pem", &key)] {
        std::fs::write(data.join(name), text).unwrap();
    }
    let address = free_address().to_string();
    let files = json!({"chain": data.join("chain.pem"), "key": data.join("key.pem")});
    let routes = routes(&site);
    let listener = json!({"pass": "routes", "tls": {"certificate": files}});
    let document = json!({"routes": routes, "listeners": {&address: listener}});
    let server = site.with(document).serve_at(&address);
    let client = authority.client(None, &["http/1.1"]);
    let body = json!({"code": TOKEN}).to_string();
    let request = format!(
        "POST /api/log-in HTTP/1.1\r\nHost: status.example\r\nOrigin: https://status.example\r\n\
         Sec-Fetch-Site: same-origin\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    let response = eventually("the page takes the token", || {
        let response = send(server.address, &client, "status.example", &request).unwrap();
        (response.status < 500).then_some(response)
    });
    let cookie = response.field("Set-Cookie").unwrap();
    assert!(cookie.ends_with("HttpOnly; SameSite=Strict; Secure"), "{cookie}");
    session(&response);
}

#[test]
fn without_a_token_nobody_logs_in_and_the_log_says_why() {
    let site = Site::new();
    let server = site.with(json!({"routes": [{"action": {"dashboard": true}}]})).serve();
    let browser = browser(&server);
    server.wait_for_log("--dashboard-token-file");
    let refused = eventually("the page answers", || {
        let response = browser.log_in("");
        (response.status < 500).then_some(response)
    });
    assert_eq!(refused.status, 403, "{refused:?}");
    assert!(refused.text().contains("--dashboard-token-file"), "{refused:?}");
    let refused = browser.ask("GET", "/api/session", &browser.own(None), "");
    assert_eq!(refused.status, 401, "{refused:?}");
    assert!(refused.text().contains("nobody can log in"), "{refused:?}");
}

/// The socket has a name that every process of the machine can find out.
#[test]
fn other_processes_than_the_router_get_no_answer() {
    if !harness::requirements::root() {
        return;
    }
    let server = serve();
    log_in(&browser(&server));
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
    let pid = process(&server).unwrap();
    let own: Vec<_> = processes::descriptors(pid).into_iter().map(|(_, link)| link).collect();
    let name = sockets.lines().find_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (inode, name) = (fields.get(6)?, fields.get(7)?.strip_prefix('@')?);
        let is_own = own.contains(&format!("socket:[{inode}]"));
        (is_own && name.starts_with("howdah-dashboard-")).then(|| name.to_owned())
    });
    let address = SocketAddr::from_abstract_name(name.unwrap()).unwrap();
    let mut stream = UnixStream::connect_addr(&address).unwrap();
    let _ = std::io::Write::write_all(&mut stream, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut answer = Vec::new();
    let _ = std::io::Read::read_to_end(&mut stream, &mut answer);
    assert_eq!(String::from_utf8_lossy(&answer), "");
}

#[test]
fn the_token_of_the_control_api_is_no_token_of_the_page() {
    let site = site();
    let file = site.data().join("page.token").display().to_string();
    let site = site.argument("--control-token-file").argument(&file);
    let site = site.with(json!({}));
    let mut command = site.command("127.0.0.1:8080");
    let output = harness::programs::run(&mut command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("--dashboard-token-file"), "{said}");
    assert!(said.contains("make another one"), "{said}");
}
