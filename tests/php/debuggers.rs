//! Xdebug in a second application of a site, for requests with a cookie from an address of
//! developers only, as docs/debug.md describes it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use harness::{Server, Site, requirements};
use serde_json::{Value, json};

const CODE: &str = "$secret = 6 * 7;\necho extension_loaded('xdebug') ? 'debugged' : 'plain';";

const COOKIE: &str = "Cookie: XDEBUG_SESSION=lHq3vT0kSbWc\r\n";

/// A client of DBGp: what an editor is.
struct Editor {
    stream: TcpStream,
}

impl Editor {
    fn accept(listener: &TcpListener) -> Editor {
        let (stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Editor { stream }
    }

    /// Reads a packet: its length, a zero, XML, a zero.
    fn packet(&mut self) -> String {
        let length: usize = self.until_zero().parse().unwrap();
        let xml = self.until_zero();
        assert_eq!(xml.len(), length, "{xml}");
        xml
    }

    fn until_zero(&mut self) -> String {
        let mut text = Vec::new();
        let mut byte = [0];
        loop {
            self.stream.read_exact(&mut byte).unwrap();
            if byte == [0] {
                return String::from_utf8(text).unwrap();
            }
            text.extend(byte);
        }
    }

    /// Sends a command and returns the answer to it.
    fn ask(&mut self, command: &str) -> String {
        self.stream.write_all(format!("{command}\0").as_bytes()).unwrap();
        loop {
            let packet = self.packet();
            if packet.contains("<response") {
                return packet;
            }
        }
    }
}

/// Serves the site with its second application, whose Xdebug connects to this port.
fn serve(port: u16) -> Server {
    let site = Site::script("a.php", CODE);
    let debug = json!({
        "type": "php", "root": site.root(),
        "processes": {"max": 2, "spare": 0, "idle_timeout": 60},
        "limits": {"timeout": 3600},
        "options": {
            "extensions": "xdebug",
            "admin": {
                "xdebug.mode": "debug", "xdebug.start_with_request": "yes",
                "xdebug.client_host": "127.0.0.1", "xdebug.client_port": port.to_string(),
            },
        },
    });
    let step = |cookie: &str, source: &str| -> Value {
        json!({
            "match": {"cookies": {"XDEBUG_SESSION": cookie}, "source": source, "uri": "*.php"},
            "action": {"pass": "applications/site-debug"},
        })
    };
    let routes = json!([
        step("lHq3vT0kSbWc", "127.0.0.1"),
        step("of-another-address", "192.0.2.1"),
        {"action": {"pass": "applications/site"}},
    ]);
    site.with(json!({"routes": routes, "applications": {"site-debug": debug}})).serve()
}

/// Returns true if the PHP under test has Xdebug. Reports otherwise that the test is skipped.
#[track_caller]
fn is_installed() -> bool {
    let server = Site::script("a.php", "echo ini_get('extension_dir');").serve();
    let directory = server.get("/a.php").text();
    let found = Path::new(&directory).join("xdebug.so").exists();
    if !found {
        requirements::skipped("Xdebug is not installed (Debian's php8.2-xdebug)");
    }
    found
}

fn get(server: &Server, fields: &str) -> String {
    let request = format!("GET /a.php HTTP/1.1\r\nHost: a\r\n{fields}Connection: close\r\n\r\n");
    let response = server.send(request);
    assert_eq!(response.status, 200, "{}", response.text());
    response.text()
}

#[test]
fn xdebug_stops_requests_with_the_cookie_and_no_others() {
    if !is_installed() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = serve(listener.local_addr().unwrap().port());
    let file = server.site.root().join("a.php").display().to_string();
    std::thread::scope(|scope| {
        let visit = scope.spawn(|| get(&server, COOKIE));
        let mut editor = Editor::accept(&listener);
        let init = editor.packet();
        assert!(init.contains("language=\"PHP\"") && init.contains(&file), "{init}");
        let set = editor.ask(&format!("breakpoint_set -i 1 -t line -f file://{file} -n 2"));
        assert!(set.contains("breakpoint_set"), "{set}");
        let stop = editor.ask("run -i 2");
        assert!(stop.contains("status=\"break\""), "{stop}");
        // The request is stopped: others are answered meanwhile, by PHP without Xdebug.
        for fields in [
            "",
            "Cookie: XDEBUG_SESSION=guessed\r\n",
            "Cookie: XDEBUG_SESSION=of-another-address\r\n",
        ] {
            assert_eq!(get(&server, fields), "plain", "{fields}");
        }
        let value = editor.ask("property_get -i 3 -n $secret");
        assert!(value.contains("type=\"int\"") && value.contains("42"), "{value}");
        let end = editor.ask("run -i 4");
        assert!(end.contains("status=\"stopping\""), "{end}");
        editor.ask("stop -i 5");
        assert_eq!(visit.join().unwrap(), "debugged");
    });
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "a request without the cookie was debugged");
}

/// Without an editor, a request with the cookie is answered all the same.
#[test]
fn a_request_is_answered_if_no_editor_listens() {
    if !is_installed() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let server = serve(port);
    assert!(get(&server, COOKIE).contains("debugged"));
}
