//! Thirty sites, of which six have a fault: one sleeps, one leaks, one crashes, one forks, one
//! burns a processor, one floods the log.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use harness::{Server, Site};
use serde_json::{Value, json};

/// Sites that work.
pub const GOOD: usize = 24;

/// Sites with a fault: the name, the script, and how the fault is named.
pub const FAULTS: [(&str, &str, &[&str]); 6] = [
    ("sleeps", "sleep(600);", &["slow: "]),
    (
        "leaks",
        "for ($i = 0; $i < 6000; $i++) { if ($i < 400) $a[] = str_repeat('x', 1 << 20); \
         usleep(100000); }",
        &["memory +"],
    ),
    ("crashes", "posix_kill(getmypid(), 11);", &["crash"]),
    (
        "forks",
        "for ($i = 0; $i < 20; $i++) exec('sleep 600 > /dev/null 2>&1 &'); echo 1;",
        &["programs of scripts"],
    ),
    ("burns", "for (;;) { }", &["uses ", "gets "]),
    (
        "floods",
        "for ($i = 0; $i < 6000; $i++) { error_log(str_repeat('x', 20000)); usleep(20000); }",
        &["log "],
    ),
];

/// Makes a site in its own directory.
fn application(root: &Path, name: &str, code: &str) -> Value {
    let root = root.join(name);
    fs::create_dir_all(&root).unwrap();
    harness::open_to_all(&root, 0o755);
    fs::write(root.join("index.php"), format!("<?php {code}")).unwrap();
    harness::open_to_all(&root.join("index.php"), 0o644);
    json!({
        "type": "php", "root": root, "script": "index.php", "processes": 1,
        "options": {"admin": {"memory_limit": "2G", "max_execution_time": "0"}},
    })
}

/// Serves thirty sites, each at a path with its name.
pub fn serve() -> Server {
    let site = Site::new();
    let root = site.root();
    let good = (0..GOOD).map(|number| (format!("good{number:02}"), "usleep(1000); echo 1;"));
    let bad = FAULTS.iter().map(|(name, code, _)| ((*name).to_owned(), *code));
    let (mut applications, mut routes) = (serde_json::Map::new(), Vec::new());
    for (name, code) in good.chain(bad) {
        applications.insert(name.clone(), application(&root, &name, code));
        let pass = format!("applications/{name}");
        routes.push(json!({"match": {"uri": format!("/{name}")}, "action": {"pass": pass}}));
    }
    let control = format!("unix:{}", site.control_socket().display());
    let site = site.argument("--control").argument(&control);
    site.with(json!({"applications": applications, "routes": routes})).serve()
}

/// Visitors of all sites, until they are dropped.
pub struct Visitors(Arc<AtomicBool>);

impl Visitors {
    /// Sends visitors to all sites.
    pub fn of(server: &Server) -> Visitors {
        let is_over = Arc::new(AtomicBool::new(false));
        for number in 0..GOOD {
            visit(server, format!("good{number:02}"), Duration::from_secs(2), &is_over);
        }
        for (name, ..) in FAULTS {
            visit(server, name.to_owned(), Duration::from_secs(1), &is_over);
        }
        Visitors(is_over)
    }
}

impl Drop for Visitors {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Asks a site until the end of the test. Responses that fail are part of it.
fn visit(server: &Server, name: String, pause: Duration, is_over: &Arc<AtomicBool>) {
    let (address, is_over) = (server.address, Arc::clone(is_over));
    thread::spawn(move || {
        while !is_over.load(Ordering::Relaxed) {
            let Ok(mut stream) = TcpStream::connect(address) else { return };
            let head = format!("GET /{name} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.read_to_end(&mut Vec::new());
            thread::sleep(pause);
        }
    });
}
