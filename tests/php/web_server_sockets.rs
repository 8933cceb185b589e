//! Who may connect to a listener for FastCGI at a unix socket: a client chooses the script and its
//! settings, and so runs code as the application's user.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use harness::users::{self, site_with_own_user};
use harness::{Server, Site, eventually, open_to_all, requirements};
use serde_json::{Value, json};

use crate::web_servers::{Behind, WebServer, body, request, serve, serve_controlled};

/// User id of `nobody`, which no site of the tests has.
const NOBODY: u32 = 65534;

/// Owner, group and permissions of a socket's file.
fn facts(socket: &Path) -> (u32, u32, u32) {
    let found = fs::metadata(socket).unwrap();
    (found.uid(), found.gid(), found.mode() & 0o7777)
}

/// The group of the server's user, which the router has, too.
fn group(server: &Server) -> u32 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.router())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Gid:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// Returns true if a process of this user can connect.
fn can_connect(socket: &Path, user: u32) -> bool {
    let code = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])";
    let mut command = Command::new("python3");
    command.args(["-c", code]).arg(socket).uid(user).gid(user);
    command.output().unwrap().status.success()
}

/// The place of the listener in the control API.
pub fn place(socket: &Path) -> String {
    let name = format!("unix:{}", socket.display());
    format!("/config/listeners/{}", name.replace('/', "%2F"))
}

/// Returns true if processes of other users can be started that connect.
fn can_try() -> bool {
    let has_python = || Command::new("python3").arg("-V").output().is_ok();
    if !requirements::root() {
        return false;
    }
    if !has_python() {
        requirements::skipped("there is no python3");
        return false;
    }
    true
}

fn listener(socket: Value) -> Value {
    json!({"protocol": "fastcgi", "pass": "applications/site", "socket": socket})
}

fn site() -> Site {
    Site::script("a.php", "echo 'ok';")
}

/// A server whose socket other users can reach as far as its permissions let them.
fn serve_for_all(changes: Value) -> Behind {
    let behind = serve_controlled(site(), changes);
    open_to_all(behind.socket.parent().unwrap(), 0o777);
    behind
}

/// The change of a document that gives the listener of a site this `socket`.
fn with_socket(site: &Site, socket: Value) -> Value {
    let address = format!("unix:{}", site.data().join("fastcgi.sock").display());
    json!({"listeners": {address: {"socket": socket}}})
}

#[test]
fn other_users_of_the_machine_cannot_connect() {
    if !can_try() {
        return;
    }
    let behind = serve_for_all(json!({}));
    assert_eq!(facts(&behind.socket), (0, group(&behind.server), 0o660));
    assert!(!can_connect(&behind.socket, NOBODY));
    assert!(can_connect(&behind.socket, 0));
    assert_eq!(body(&behind.ask("a.php", &[])), "ok");
    // The same document with HTTP, as before.
    let http = json!({"pass": "applications/site"});
    behind.server.put(&place(&behind.socket), &http);
    assert_eq!(facts(&behind.socket).2, 0o666);
    assert!(can_connect(&behind.socket, NOBODY));
    // And back.
    behind.server.put(&place(&behind.socket), &listener(json!({})));
    assert_eq!(facts(&behind.socket), (0, group(&behind.server), 0o660));
    assert!(!can_connect(&behind.socket, NOBODY));
    assert_eq!(body(&behind.ask("a.php", &[])), "ok");
}

#[test]
fn a_change_of_the_permissions_changes_the_open_socket() {
    if !can_try() {
        return;
    }
    let behind = serve_for_all(json!({}));
    let mut kept = behind.connect();
    let asked = request(&behind.root, "a.php", true, &[], b"");
    assert_eq!(body(&kept.send(&asked).answer().unwrap()), "ok");
    let group = group(&behind.server);
    for (socket, expected, nobody) in [
        (json!({"mode": "0666"}), (0, group, 0o666), true),
        (json!({"user": "nobody", "mode": "0600"}), (NOBODY, NOBODY, 0o600), true),
        (json!({"user": "root", "mode": "0600"}), (0, 0, 0o600), false),
        (json!({"group": "root"}), (0, 0, 0o660), false),
        (json!({}), (0, group, 0o660), false),
    ] {
        behind.server.put(&place(&behind.socket), &listener(socket.clone()));
        assert_eq!(facts(&behind.socket), expected, "{socket}");
        assert_eq!(can_connect(&behind.socket, NOBODY), nobody, "{socket}");
        assert_eq!(body(&kept.send(&asked).answer().unwrap()), "ok", "it is the same socket");
        assert_eq!(body(&behind.ask("a.php", &[])), "ok");
    }
}

#[test]
fn a_change_to_an_unknown_user_is_refused_at_its_place_and_changes_nothing() {
    let behind = serve_for_all(json!({}));
    let before = facts(&behind.socket);
    for (key, name) in [("user", "no-such-user"), ("group", "no-such-group")] {
        let changed = listener(json!({key: name, "mode": "0666"})).to_string();
        let answer = behind.server.control("PUT", &place(&behind.socket), changed);
        assert_eq!(answer.status, 500);
        let detail = answer.body.to_string();
        let expected = format!("/socket/{key}: there is no {key}");
        assert!(detail.contains(&expected) && detail.contains(name), "{detail}");
        assert_eq!(facts(&behind.socket), before);
        assert_eq!(body(&behind.ask("a.php", &[])), "ok");
    }
}

/// As another mistake of a listener, such as an address that another program has.
#[test]
fn an_unknown_user_at_the_start_closes_its_listener_alone() {
    let site = site();
    let changes = with_socket(&site, json!({"user": "no-such-user"}));
    let behind = serve(site, changes);
    assert_eq!(behind.server.get("/a.php").text(), "ok");
    assert!(!behind.socket.exists());
    behind.server.wait_for_log("/socket/user: there is no user \"no-such-user\"");
}

#[test]
fn a_user_of_the_document_is_looked_up() {
    let Some((site, id)) = site_with_own_user(site()) else { return };
    let changes = with_socket(&site, json!({"user": users::NAME, "mode": "0600"}));
    let behind = serve(site, changes);
    assert_eq!(facts(&behind.socket), (id, id, 0o600));
    assert_eq!(body(&behind.ask("a.php", &[])), "ok");
}

#[test]
fn the_permissions_outlive_routers_and_upgrades() {
    if !requirements::root() {
        return;
    }
    let site = site();
    let changes = with_socket(&site, json!({"user": "nobody", "mode": "0620"}));
    let behind = serve_controlled(site, changes);
    let expected = (NOBODY, NOBODY, 0o620);
    assert_eq!(facts(&behind.socket), expected);
    let router = behind.server.router();
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(router as i32).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    eventually("another router", || (behind.server.router() != router).then_some(()));
    assert_eq!(body(&behind.ask("a.php", &[])), "ok");
    assert_eq!(facts(&behind.socket), expected);
    behind.server.upgrade();
    assert_eq!(body(&behind.ask("a.php", &[])), "ok");
    assert_eq!(facts(&behind.socket), expected);
    // An administrator's change of the file does not last.
    open_to_all(&behind.socket, 0o666);
    behind.server.upgrade();
    let mut connection = WebServer::connect(&behind.socket);
    let asked = request(&behind.root, "a.php", false, &[], b"");
    assert_eq!(body(&connection.send(&asked).answer().unwrap()), "ok");
    assert_eq!(facts(&behind.socket), expected);
}
