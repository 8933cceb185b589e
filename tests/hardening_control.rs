//! Classes of attacks on the control API and on the files that the server keeps for itself; the
//! number of each is in the name of its tests. What concerns certificates is in `certificates.rs`,
//! what concerns memory in `control_limits.rs`.

mod harness;

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::Path;
use std::process::Stdio;

use harness::{Server, Site, control, eventually, free_address};
use rustix::process::Signal;
use serde_json::json;

fn over_tcp() -> (Server, SocketAddr) {
    let control = free_address();
    let server = Site::new().controlled_at(&control.to_string()).serve();
    (server, control)
}

#[test]
fn hardening_48_browsers_are_refused_over_tcp() {
    let (_server, control) = over_tcp();
    let ask = |fields: &str| control::ask_tcp(control, "DELETE", "/config", fields).status;
    assert_eq!(ask(&format!("Host: {control}\r\n")), 200);
    assert_eq!(ask("Host: localhost\r\n"), 200);
    for field in [
        "Origin: http://evil.example",
        "Origin: null",
        "origin: http://localhost",
        "Sec-Fetch-Mode: no-cors",
        "sec-fetch-site: same-origin",
    ] {
        assert_eq!(ask(&format!("Host: {control}\r\n{field}\r\n")), 403, "{field}");
    }
}

#[test]
fn hardening_48_names_of_others_are_refused_over_tcp() {
    let (_server, control) = over_tcp();
    for host in ["evil.example", "evil.example:80", "localhost.evil.example", "10.0.0.1", "[::2]"] {
        let answer = control::ask_tcp(control, "GET", "/config", &format!("Host: {host}\r\n"));
        assert_eq!((answer.status, answer.text("error")), (403, "Request for another host."));
    }
    // The target's own authority counts, not the field (RFC 9112, 3.2.2).
    let target = "http://evil.example/config";
    let answer = control::ask_tcp(control, "GET", target, "Host: evil.example\r\n");
    assert_eq!(answer.status, 403);
    for fields in ["", "Host: localhost\r\nHost: evil.example\r\n", "Host: localhost@evil\r\n"] {
        let answer = control::ask_tcp(control, "GET", "/config", fields);
        assert_eq!(answer.status, 400, "{fields:?}");
    }
    let answer = control::ask_tcp(control, "GET", target, "Host: localhost\r\n");
    assert!((400..500).contains(&answer.status), "{answer:?}");
}

#[test]
fn hardening_48_the_api_is_not_offered_to_other_machines() {
    let mut command = Site::new().controlled_at("0.0.0.0:0").command("127.0.0.1:1");
    let output = command.stdout(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("--control 0.0.0.0:0") && text.contains("127.0.0.1:8000"), "{text}");
}

#[test]
fn hardening_48_only_its_owner_may_speak_to_the_unix_socket() {
    let server = Site::new().controlled().serve();
    let socket = fs::metadata(server.site.control_socket()).unwrap();
    assert!(socket.file_type().is_socket());
    assert_eq!(socket.mode() & 0o777, 0o600);
    assert_eq!(socket.uid(), rustix::process::geteuid().as_raw());
}

/// A directory of another user's, in which that user has put a link to a file of root's.
fn foreign(site: &Site, link: &str, target: &Path) -> Option<std::path::PathBuf> {
    let directory = site.data().join("foreign");
    fs::create_dir(&directory).unwrap();
    fs::write(target, "precious").unwrap();
    fs::set_permissions(target, fs::Permissions::from_mode(0o600)).unwrap();
    symlink(target, directory.join(link)).unwrap();
    if !rustix::process::geteuid().is_root() {
        return None; // only root can be misled in this way
    }
    chown(&directory, Some(65534), Some(65534)).unwrap();
    lchown(directory.join(link), Some(65534), Some(65534)).unwrap();
    Some(directory)
}

#[test]
fn hardening_49_a_log_that_was_made_a_link_is_not_opened_again() {
    let site = Site::new().controlled();
    let precious = site.data().join("precious");
    let Some(directory) = foreign(&site, "access.log", &precious) else { return };
    let (link, real) = (directory.join("access.log"), directory.join("real.log"));
    let address = free_address();
    let server = site.serve();
    let document = |path: &Path| {
        json!({
            "listeners": {address.to_string(): {"pass": "routes"}},
            "routes": [{"action": {"return": 204}}],
            "access_log": path,
        })
    };
    let refused = server.control("PUT", "/config", document(&link).to_string());
    assert_eq!(refused.status, 500, "{refused:?}");
    server.put("/config", &document(&real));
    fs::remove_file(&real).unwrap();
    symlink(&precious, &real).unwrap();
    server.signal(Signal::USR1);
    server.wait_for_log("cannot be opened again");
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
}

#[test]
fn hardening_49_a_pid_file_and_a_socket_do_not_follow_links() {
    let site = Site::new();
    let precious = site.data().join("precious");
    let Some(directory) = foreign(&site, "howdah.pid", &precious) else { return };
    symlink(&precious, directory.join("control.sock")).unwrap();
    let pid = directory.join("howdah.pid");
    let server = site.argument("--pid").argument(&pid.display().to_string()).controlled().serve();
    assert_eq!(fs::read_to_string(&pid).unwrap().trim(), server.supervisor().to_string());
    let (_, site) = server.end(Signal::TERM);
    assert!(fs::symlink_metadata(&pid).is_err());
    // A socket is not opened where a link is.
    let socket = format!("unix:{}", directory.join("control.sock").display());
    let site = site.controlled_at(&socket);
    let output = site.command("127.0.0.1:1").stdout(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    assert_eq!(fs::metadata(&precious).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn hardening_49_links_of_others_are_not_followed_on_the_way() {
    let site = Site::new();
    let goal = site.data().join("etc");
    fs::create_dir(&goal).unwrap();
    let Some(directory) = foreign(&site, "logs", &site.data().join("precious")) else { return };
    fs::remove_file(directory.join("logs")).unwrap();
    symlink(&goal, directory.join("logs")).unwrap();
    lchown(directory.join("logs"), Some(65534), Some(65534)).unwrap();
    let pid = directory.join("logs/howdah.pid").display().to_string();
    let site = site.argument("--pid").argument(&pid).controlled();
    let output = site.command("127.0.0.1:1").stdout(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("another user's link (logs)"), "{text}");
    eventually("nothing was written", || {
        fs::read_dir(&goal).unwrap().next().is_none().then_some(())
    });
}
