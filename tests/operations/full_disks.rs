//! A disk that is full: the affected sites, and the status, which has the problem until there is
//! room, as the table in docs/hosting.md says.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::disk::SmallDisk;
use harness::raw::Raw;
use harness::{Server, Site, eventually, open_to_all, programs};
use serde_json::{Value, json};

/// Serves a document with a control socket, without a state.
fn serve(site: Site, document: Value) -> Server {
    let control = format!("unix:{}", site.control_socket().display());
    site.argument("--control").argument(&control).with(document).serve()
}

/// Mounts a small disk beside the site's data.
fn small_disk(site: &Site) -> Option<(SmallDisk, PathBuf)> {
    let path = site.data().with_file_name("small");
    Some((SmallDisk::mount(&path, "0755")?, path))
}

/// Returns the exit status of `howdah status --problems`, and its output.
fn problems(server: &Server) -> (Option<i32>, String) {
    let control = format!("unix:{}", server.site.control_socket().display());
    let mut command = Command::new(programs::howdah());
    let output = programs::run(command.args(["status", "--problems", "--control", &control]));
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Waits until the status has this part, and only this.
fn wait_until_told(server: &Server, kind: &str, path: &Path) {
    let part = format!(": {kind} \"{}\": ", path.display());
    eventually(&format!("{part} is told"), || {
        let (code, text) = problems(server);
        let line = text.lines().find(|line| line.contains(&part))?.to_owned();
        assert_eq!(code, Some(1), "{text}");
        assert!(text.starts_with("1 part is out\n"), "{text}");
        assert!(line.starts_with("OUT since ") && !line.contains("os error"), "{line}");
        let is_full = line.contains("No space left on device; make room there");
        assert!(is_full, "why, and what to do: {line}");
        Some(())
    });
}

fn wait_until_mended(server: &Server) {
    let is_mended = || (problems(server) == (Some(0), "No problems.\n".to_owned())).then_some(());
    eventually("nothing is out", is_mended);
}

/// Returns the log line of docs/hosting.md with these words, in parts: `…` is anything.
fn documented(words: &str) -> Vec<String> {
    let page = include_str!("../../docs/hosting.md");
    let is_it = |row: &&str| row.ends_with("| `full_disks` |") && row.contains(words);
    let row = page.lines().find(is_it).unwrap_or_else(|| panic!("there is no row with {words:?}"));
    let text = row.split(" | ").nth(3).unwrap().split('`').nth(1).unwrap();
    text.split('…').map(str::to_owned).collect()
}

/// Waits for the alert that docs/hosting.md has.
fn wait_for_documented(log: impl Fn() -> String, words: &str) {
    let parts = documented(words);
    eventually(&format!("the log has {parts:?}"), || {
        let log = log();
        let is_it = |line: &str| {
            let mut rest = Some(line).filter(|line| line.contains("[alert]"));
            for part in &parts {
                rest = rest.and_then(|rest| Some(rest.split_once(part.as_str())?.1));
            }
            rest.is_some()
        };
        log.lines().any(is_it).then_some(())
    });
}

#[test]
fn lines_of_an_access_log_wait_and_the_log_of_another_site_goes_on() {
    let site = Site::new().file("a.txt", "a").file("b.txt", "b");
    let Some((disk, small)) = small_disk(&site) else { return };
    let (full, other) = (small.join("access.log"), site.data().join("b.log"));
    let step = |name: &str, log: &Path| {
        let share = format!("{}$uri", site.root().display());
        let format = json!({"path": log, "format": "$request_line"});
        json!({"match": {"uri": name}, "action": {"share": share, "access_log": format}})
    };
    let routes = json!([step("/a.txt", &full), step("/b.txt", &other)]);
    let server = serve(site, json!({"routes": routes}));
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    assert_eq!(server.get("/a.txt").text(), "a");
    eventually("it is logged", || (read(&full).lines().count() == 1).then_some(()));
    disk.fill();
    // The rest of the file's last page takes the first ones.
    for _ in 0..300 {
        assert_eq!(server.get("/a.txt").text(), "a", "nobody is affected");
    }
    wait_until_told(&server, "log", &full);
    wait_for_documented(|| server.log(), "an access log");
    assert_eq!(server.get("/b.txt").text(), "b");
    eventually("the other log has its line", || read(&other).contains("/b.txt").then_some(()));
    disk.free();
    wait_until_mended(&server);
    eventually("no line is lost", || (read(&full).lines().count() == 301).then_some(()));
    assert!(read(&full).lines().all(|line| line == "GET /a.txt HTTP/1.1"), "each is whole");
    server.wait_for_log(&format!("log \"{}\" works again", full.display()));
}

#[test]
fn lost_lines_of_the_servers_log_are_counted() {
    let site = Site::script("a.php", "error_log(str_repeat('x', 900)); echo 'here';");
    let Some((disk, small)) = small_disk(&site) else { return };
    let log = small.join("howdah.log");
    let site = site.logs_to_stderr().argument("--log").argument(&log.display().to_string());
    let server = serve(site, json!({}));
    let read = || fs::read_to_string(&log).unwrap_or_default();
    assert_eq!(server.get("/a.php").text(), "here");
    disk.fill();
    for _ in 0..10 {
        assert_eq!(server.get("/a.php").text(), "here", "nobody is affected");
    }
    wait_until_told(&server, "log", &log);
    disk.free();
    wait_until_mended(&server);
    wait_for_documented(read, "the server's log");
    assert_eq!(server.get("/a.php").text(), "here");
    eventually("it goes on", || {
        let text = read();
        let (_, rest) = text.split_once("of this log ")?;
        rest.contains("xxx").then_some(())
    });
    let text = read();
    assert!(text.contains(&format!("log \"{}\" works again", log.display())), "{text}");
}

#[test]
fn a_full_slow_log_is_that_of_its_application() {
    let site = Site::script("a.php", "usleep(1500000); echo 'here';").file("b.txt", "b");
    let Some((disk, small)) = small_disk(&site) else { return };
    let log = small.join("slow.log");
    let limits = json!({"slow": 1, "slow_log": log});
    let server = serve(site, json!({"applications": {"site": {"limits": limits}}}));
    let ask = || {
        let target = format!("/a.php?{}", "x".repeat(3000));
        assert_eq!(server.get(&target).text(), "here");
        assert_eq!(server.get("/b.txt").text(), "b");
    };
    ask();
    eventually("it is used", || fs::read_to_string(&log).ok()?.contains("slow").then_some(()));
    disk.fill();
    let part = format!("log \"{}\"", log.display());
    eventually("it is full", || {
        ask();
        problems(&server).1.contains(&part).then_some(())
    });
    wait_until_told(&server, "log", &log);
    wait_for_documented(|| server.log(), "a slow log");
    disk.free();
    wait_until_mended(&server);
    let text = fs::read_to_string(&log).unwrap();
    assert!(text.contains("of this log ") && text.contains("lost, as it could not"), "{text}");
}

#[test]
fn a_full_state_directory_is_told_before_a_change_needs_it() {
    let site = Site::new().file("a.txt", "a").controlled();
    let Some(disk) = SmallDisk::mount(&site.state(), "0700") else { return };
    let server = site.serve();
    server.put("/config", &server.site.document(server.address));
    disk.fill();
    let refused = server.control("PUT", "/config/settings", "{}");
    assert_eq!(refused.status, 500, "{}", refused.body);
    wait_until_told(&server, "state directory", &server.site.state());
    wait_for_documented(|| server.log(), "the state directory");
    assert_eq!(server.get("/a.txt").text(), "a", "visitors are not affected");
    disk.free();
    wait_until_mended(&server);
    server.put("/config/settings", &json!({}));
}

/// The document that is served last is kept as soon as there is room.
#[test]
fn a_document_that_could_not_be_kept_is_kept_later() {
    let site = Site::new().file("a.txt", "a");
    let Some(disk) = SmallDisk::mount(&site.state(), "0700") else { return };
    disk.fill();
    let state = site.state();
    let site = site.argument("--state").argument(&state.display().to_string());
    let server = serve(site, json!({}));
    wait_until_told(&server, "state directory", &state);
    assert_eq!(server.get("/a.txt").text(), "a");
    disk.free();
    wait_until_mended(&server);
    eventually("it is kept", || state.join("served.json").exists().then_some(()));
}

#[test]
fn temporary_files_that_do_not_fit_cost_their_requests_only() {
    let code = "echo strlen(file_get_contents('php://input'));";
    let site = Site::script("a.php", code);
    // Not that of PHP's own temporary files.
    let directory = site.data().with_file_name("small");
    let Some(disk) = SmallDisk::mount(&directory, "1777") else { return };
    let server = serve(site, json!({"settings": {"http": {"body_temp_path": directory}}}));
    let post = |length| server.post("/a.php", "text/plain", "x".repeat(length));
    assert_eq!(post(50_000).text(), "50000");
    disk.fill();
    assert_eq!(post(50_000).status, 507);
    assert_eq!(post(50).text(), "50", "what fits in memory is served");
    wait_until_told(&server, "temporary directory", &directory);
    wait_for_documented(|| server.log(), "directory for temporary files");
    disk.free();
    wait_until_mended(&server);
    assert_eq!(post(50_000).text(), "50000");
}

#[test]
fn a_cache_goes_on_in_memory() {
    const REPEATED: usize = 10_000;
    let origin = Raw::new(|connection| {
        while let Some(head) = connection.request() {
            let body = head.split_whitespace().nth(1).unwrap().repeat(REPEATED);
            let length = body.len();
            let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\n";
            if !connection.send(format!("{head}Content-Length: {length}\r\n\r\n{body}")) {
                return;
            }
        }
    });
    let site = Site::new();
    let small = site.data().with_file_name("small");
    let Some(_disk) = SmallDisk::sized(&small, "0755", 4096) else { return };
    let path = small.join("cache");
    fs::create_dir(&path).unwrap();
    open_to_all(&path, 0o700);
    let cache = json!({"path": path, "size": 1 << 24, "memory": 1 << 20});
    let action = json!({"proxy": origin.url(), "cache": cache});
    let server = serve(site, json!({"routes": [{"action": action}]}));
    let mut number = 0;
    let mut ask = || {
        number += 1;
        let target = format!("/page{number:04}");
        for _ in 0..2 {
            assert_eq!(server.get(&target).text(), target.repeat(REPEATED), "nobody is affected");
        }
    };
    let file = path.join("default.cache");
    eventually("the disk is full", || {
        ask();
        problems(&server).1.contains(&format!("cache \"{}\"", file.display())).then_some(())
    });
    wait_until_told(&server, "cache", &file);
    wait_for_documented(|| server.log(), "the file of a cache");
}
