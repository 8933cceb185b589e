//! Text of clients and scripts is neither a setting of PHP, nor a line of the log, nor markup.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;

use harness::time::patience;
use harness::{Site, processes};
use serde_json::json;

#[test]
fn who_speaks_fastcgi_to_the_server_sets_nothing_of_php() {
    // Where PHP-FPM's own socket can be reached, these records run any code.
    let site = Site::script("a.php", "echo ini_get('auto_prepend_file'), '|', getenv('DATA');");
    let socket = site.data().join("site.sock");
    let script = site.root().join("a.php");
    let listeners = json!({format!("unix:{}", socket.display()): {"pass": "applications/site"}});
    let control = format!("unix:{}", site.control_socket().display());
    let server =
        site.with(json!({"listeners": listeners})).argument("--control").argument(&control).serve();
    let mut parameters = Vec::new();
    for (name, value) in [
        ("SCRIPT_FILENAME", script.to_str().unwrap()),
        ("REQUEST_METHOD", "GET"),
        ("PHP_ADMIN_VALUE", "auto_prepend_file = /etc/passwd"),
    ] {
        parameters.extend([name.len() as u8, value.len() as u8]);
        parameters.extend(name.bytes().chain(value.bytes()));
    }
    let record = |kind: u8, content: &[u8]| {
        let length = (content.len() as u16).to_be_bytes();
        [&[1, kind, 0, 1, length[0], length[1], 0, 0], content].concat()
    };
    let begin = record(1, &[0, 1, 0, 0, 0, 0, 0, 0]);
    let request = [begin, record(4, &parameters), record(4, &[]), record(5, &[])].concat();
    let mut client = server.connect();
    client.send(&request);
    client.finish_sending();
    let answers = [
        client.everything(),
        spoken(&socket, &request),
        spoken(&server.site.control_socket(), &request),
    ];
    for answer in answers {
        let text = String::from_utf8_lossy(&answer);
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 400 "), "{text}");
        assert!(!text.contains("root:"), "{text}");
    }
    // Nor has a worker a socket of its own to which another process could connect.
    let listening = fs::read_to_string("/proc/net/unix").unwrap();
    for pid in server.workers().into_iter().chain([server.prototype()]) {
        for (_, target) in processes::descriptors(pid) {
            let Some(inode) = target.strip_prefix("socket:[") else { continue };
            let inode = inode.trim_end_matches(']');
            let own =
                listening.lines().filter(|line| line.split_whitespace().nth(6) == Some(inode));
            for line in own {
                // The socket neither accepts connections (__SO_ACCEPTCON) nor has a name.
                let fields: Vec<_> = line.split_whitespace().collect();
                assert_eq!((fields[3], fields.len()), ("00000000", 7), "{line}");
            }
        }
    }
    let data = server.site.data().display().to_string();
    assert_eq!(server.get("/a.php").text(), format!("|{data}"), "nothing has changed");
}

/// All that is answered to some bytes.
fn spoken(socket: &Path, bytes: &[u8]) -> Vec<u8> {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(patience())).unwrap();
    stream.write_all(bytes).unwrap();
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    // Unread bytes may reset the connection.
    let _ = stream.read_to_end(&mut answer);
    answer
}

#[test]
fn no_script_and_no_client_can_forge_a_line_of_the_log() {
    let forged = "2026/11/20 15:04:05 [alert] 1#1 forged";
    let code = format!(
        "error_log(\"first\\n{forged}\\r\\n{forged}\\x1b[2J\\x9b\\x7f last\");
         fwrite(fopen('php://stderr', 'w'), \"cut\\r{forged}\\n{forged}\\n\\x1b]0;evil\\x07\\n\");
         trigger_error(\"warned\\n{forged}\", E_USER_WARNING);
         syslog(LOG_ERR, 'to syslog'); echo 'done';"
    );
    let server = Site::script("a.php", &code).serve();
    let mut client = server.connect();
    client.send(format!("GET /a.php?\u{9b}\u{1b}%0a{forged} HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_eq!(client.response().status, 400, "such a target is not taken at all");
    assert_eq!(server.get("/a.php?%0a%1b[2J").text().lines().last(), Some("done"));
    server.wait_for_log("evil");
    let log = server.wait_for_log("warned");
    for line in log.lines() {
        assert!(!line.starts_with(forged), "{line:?}");
        assert!(!line.contains('\r') && !line.contains('\x1b'), "{line:?}");
    }
    let bytes = log.bytes().filter(|byte| byte.is_ascii_control() && *byte != b'\n').count();
    assert_eq!(bytes, 0, "no control character is in the log: {log:?}");
    assert!(log.contains("last"), "the record is whole: {log:?}");
}

#[test]
fn pages_of_the_server_repeat_nothing_of_the_request() {
    let server = Site::script("a.php", "echo 1;").file("dir/x.txt", "x").serve();
    let evil = "%3Cscript%3Ealert(1)%3C/script%3E";
    let raw = "\"'`(alert)1";
    for target in [
        format!("/{evil}"),
        format!("/{evil}.php"),
        format!("/a.php%00{evil}"),
        format!("/dir?{evil}"),
        format!("/{raw}"),
        format!("/dir?{raw}"),
        format!("/.{evil}"),
    ] {
        let response = server.get(&target);
        assert_ne!(response.status, 200, "{target}");
        let text = response.text();
        assert!(!text.contains("script") && !text.contains("alert"), "{target}: {response:?}");
        for (name, value) in &response.fields {
            assert!(
                !value.contains(['<', '>', '"']) || name == "ETag",
                "{target}: {name}: {value}"
            );
        }
    }
}
