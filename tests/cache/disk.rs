//! The file of a cache: its contents after a restart, and damage to it.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use harness::disk::SmallDisk;
use harness::raw::Raw;
use harness::{Ends, Server, Site, eventually, processes};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::origin::{ask, controlled, get, is_hit, origin, page};

const SIZE: u64 = 16 << 20;

/// A directory for the file.
struct Directory(tempfile::TempDir);

impl Directory {
    fn new() -> Directory {
        Directory(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("cache")
    }

    fn file(&self) -> PathBuf {
        self.path().join("default.cache")
    }

    /// Returns a cache with a file here.
    fn cache(&self) -> Value {
        json!({"path": self.path(), "size": SIZE, "memory": 1 << 20, "purge": ["127.0.0.1"]})
    }
}

/// Returns the content of a page.
fn content(target: &str) -> String {
    let number: usize = target.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
    format!("{target} ").repeat(50 + number * 771 % 45_000)
}

fn pages() -> Raw {
    origin(|head, _| {
        let target = head.split_whitespace().nth(1).unwrap();
        let tag = format!("Cache-Tag: {}\r\n", target.trim_start_matches('/'));
        page(&format!("{tag}Cache-Control: max-age=600\r\nETag: \"{target}\"\r\n"), content(target))
    })
}

fn numbers(server: &Server) -> Value {
    let status = server.control("GET", "/status", "").succeeded();
    status["caches"]["default"].clone()
}

/// Waits until the file is in use and has so many entries.
fn wait_for_entries(server: &Server, count: u64) {
    let mut last = Value::Null;
    eventually(&format!("{count} entries are on the disk"), || {
        last = numbers(server);
        (last["disk_ready"] == 1 && last["disk_entries"].as_u64()? >= count).then_some(())
    });
}

fn kill_router(server: &Server) {
    let router = server.router();
    processes::signal(router, Signal::KILL);
    eventually("there is another router", || (server.router() != router).then_some(()));
}

#[test]
fn pages_that_memory_does_not_take_are_sent_from_the_disk_and_survive_the_router() {
    let (directory, origin) = (Directory::new(), pages());
    let server = controlled(&origin, directory.cache());
    wait_for_entries(&server, 0);
    let targets: Vec<_> = (0..60).map(|number| format!("/page{number}")).collect();
    targets.iter().for_each(|target| drop(get(&server, target, "")));
    wait_for_entries(&server, 60);
    let top = server.control("GET", "/control/caches/default/top", "").succeeded();
    let places = top["default"].as_array().unwrap().iter().map(|page| page["where"].as_str());
    let places: Vec<_> = places.map(Option::unwrap).collect();
    assert!(places.len() == 60 && places.contains(&"disk"), "{places:?}");
    assert!(places.contains(&"memory and disk"), "{places:?}");
    for _ in 0..2 {
        for target in &targets {
            let response = get(&server, target, "");
            assert!(is_hit(&response), "{target} {:?}", response.field("Cache-Status"));
            assert_eq!(response.text(), content(target));
        }
        kill_router(&server);
        wait_for_entries(&server, 60);
    }
    assert_eq!(origin.asked().len(), 60);
    // A large one in parts, and its conditions.
    let large = targets.iter().max_by_key(|target| content(target).len()).unwrap();
    let expected = content(large);
    assert!(expected.len() > 256 << 10);
    let part = get(&server, large, "Range: bytes=100000-300000\r\n");
    assert_eq!((part.status, part.text().as_str()), (206, &expected[100_000..=300_000]));
    let same = get(&server, large, &format!("If-None-Match: \"{large}\"\r\n"));
    assert_eq!((same.status, same.text().len()), (304, 0));
    let head = ask(&server, "HEAD", large, "");
    assert_eq!(head.field("Content-Length"), Some(expected.len().to_string().as_str()));
    assert_eq!(origin.asked().len(), 60);
    // The size on the disk.
    let found = fs::metadata(directory.file()).unwrap();
    assert!(found.blocks() * 512 <= SIZE && found.len() <= SIZE);
    assert_eq!(found.mode() & 0o7777, 0o600);
    assert_eq!(fs::metadata(directory.path()).unwrap().mode() & 0o7777, 0o700);
}

#[test]
fn what_was_purged_or_changed_does_not_come_back() {
    let (directory, origin) = (Directory::new(), pages());
    let server = controlled(&origin, directory.cache());
    wait_for_entries(&server, 0);
    for number in 0..6 {
        get(&server, &format!("/page{number}"), "");
    }
    wait_for_entries(&server, 6);
    assert_eq!(ask(&server, "PURGE", "/", "Cache-Tag: page1\r\n").status, 200);
    assert_eq!(ask(&server, "PURGE", "/page2", "").status, 200);
    ask(&server, "DELETE", "/page3", "");
    kill_router(&server);
    wait_for_entries(&server, 5);
    let only = "Cache-Control: only-if-cached\r\n";
    let found = (0..6).map(|number| get(&server, &format!("/page{number}"), only).status);
    assert_eq!(found.collect::<Vec<_>>(), [200, 504, 504, 504, 200, 200]);
    server.control("POST", "/control/caches/*/purge", "{\"all\": true}").succeeded();
    kill_router(&server);
    eventually("the file is ready", || (numbers(&server)["disk_ready"] == 1).then_some(()));
    assert_eq!(get(&server, "/page0", only).status, 504);
}

/// Clients ask on while router and machine suffer. Each complete answer is right.
#[test]
fn no_answer_is_wrong_however_often_the_router_is_killed() {
    let (directory, origin) = (Directory::new(), pages());
    let server = controlled(&origin, directory.cache());
    let (done, complete) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let _ends = Ends(&done);
        for client in 0..4 {
            let (server, done, complete) = (&server, &done, &complete);
            scope.spawn(move || {
                let mut number = client * 31;
                while !done.load(Relaxed) {
                    number = (number * 7 + 13) % 211;
                    let target = format!("/page{number}");
                    if let Some(body) = try_get(server, &target) {
                        assert_eq!(body, content(&target), "{target}");
                        complete.fetch_add(1, Relaxed);
                    }
                }
            });
        }
        for _ in 0..8 {
            std::thread::sleep(Duration::from_millis(400));
            kill_router(&server);
        }
    });
    assert!(complete.load(Relaxed) > 50, "{}", complete.load(Relaxed));
    let numbers = numbers(&server);
    assert!(numbers["disk_bytes"].as_u64().unwrap() <= SIZE, "{numbers}");
}

/// Returns the body of a complete answer.
fn try_get(server: &Server, target: &str) -> Option<String> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(server.address).ok()?;
    stream.set_read_timeout(Some(harness::time::patience())).ok()?;
    write!(stream, "GET {target} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n").ok()?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let is_ok = head.starts_with("HTTP/1.1 200");
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let is_whole = length.and_then(|length| length.parse().ok()) == Some(body.len());
    (is_ok && is_whole).then(|| body.to_owned())
}

#[test]
fn a_full_disk_is_no_trouble_for_visitors() {
    let origin = pages();
    let site = tempfile::tempdir().unwrap();
    let path = site.path().join("small");
    let Some(_disk) = SmallDisk::mount(&path, "0700") else { return };
    let server = controlled(&origin, json!({"path": path, "size": SIZE, "memory": 1 << 20}));
    for _ in 0..2 {
        for number in 0..30 {
            let target = format!("/page{number}");
            let response = get(&server, &target, "");
            assert_eq!((response.status, response.text()), (200, content(&target)));
        }
    }
    eventually("the full disk is noticed", || {
        (numbers(&server)["disk_errors"].as_u64()? > 0).then_some(())
    });
}

#[test]
fn a_changed_byte_is_asked_for_again() {
    let (directory, origin) = (Directory::new(), pages());
    let server = controlled(&origin, directory.cache());
    wait_for_entries(&server, 0);
    get(&server, "/page7", "");
    wait_for_entries(&server, 1);
    let bytes = fs::read(directory.file()).unwrap();
    let text = content("/page7");
    let at = bytes.windows(text.len()).position(|part| part == text.as_bytes()).unwrap();
    let file = File::options().write(true).open(directory.file()).unwrap();
    file.write_all_at(b"X", at as u64 + 100).unwrap();
    kill_router(&server);
    wait_for_entries(&server, 1);
    let response = get(&server, "/page7", "");
    assert!(!is_hit(&response));
    assert_eq!(response.text(), text);
    assert_eq!(origin.asked().len(), 2);
}

#[test]
fn a_directory_that_others_can_write_to_is_refused() {
    let (directory, origin) = (Directory::new(), pages());
    let server = Site::new().controlled().serve();
    let put = |cache: Value| {
        let route = json!([{"action": {"proxy": origin.url(), "cache": cache}}]);
        let answer = server.control("PUT", "/config/routes", route.to_string());
        answer.body.to_string()
    };
    let refused = |problem: &str| {
        let text = put(directory.cache());
        assert!(text.contains("/routes/0/action/cache/path") && text.contains(problem), "{text}");
    };
    fs::create_dir(directory.path()).unwrap();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).unwrap();
    refused("others can write to the directory");
    fs::remove_dir(directory.path()).unwrap();
    fs::write(directory.path(), "").unwrap();
    refused("cannot be opened");
    assert!(Path::new(&directory.path()).is_file());
}

#[test]
fn of_two_servers_of_an_upgrade_one_uses_the_file() {
    let (directory, origin) = (Directory::new(), pages());
    let server = controlled(&origin, directory.cache());
    wait_for_entries(&server, 0);
    get(&server, "/page3", "");
    wait_for_entries(&server, 1);
    let old = server.upgrade();
    server.wait_for_end_of(old);
    wait_for_entries(&server, 1);
    assert!(is_hit(&get(&server, "/page3", "")));
    assert_eq!(origin.asked().len(), 1);
}

#[test]
fn two_applications_do_not_take_each_others_room() {
    let (directory, quiet, greedy) = (Directory::new(), pages(), pages());
    let server = Site::new().controlled().serve();
    let action = |origin: &Raw| json!({"proxy": origin.url(), "cache": directory.cache()});
    let routes = json!([
        {"match": {"uri": "/quiet*"}, "action": action(&quiet)},
        {"action": action(&greedy)},
    ]);
    server.put("/config/listeners", &json!({server.address.to_string(): {"pass": "routes"}}));
    server.put("/config/routes", &routes);
    wait_for_entries(&server, 0);
    for number in 0..10 {
        get(&server, &format!("/quiet{number}"), "");
    }
    wait_for_entries(&server, 10);
    for number in 0..400 {
        get(&server, &format!("/page{number}"), "");
    }
    for number in 0..10 {
        assert!(is_hit(&get(&server, &format!("/quiet{number}"), "")), "{number}");
    }
    assert_eq!(quiet.asked().len(), 10);
    let numbers = numbers(&server);
    assert!(numbers["disk_bytes"].as_u64().unwrap() <= SIZE, "{numbers}");
}
