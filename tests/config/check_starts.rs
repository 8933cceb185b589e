//! `howdah check` of many applications: PHP is loaded once for those that start it in the same way,
//! and differences between them are reported all the same.

use std::fs;
use std::mem::MaybeUninit;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use harness::{Site, open_to_all, programs, requirements};
use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value, json};

fn check(site: &Site, applications: &Map<String, Value>) -> Output {
    let file = site.data().join("document.json");
    fs::write(&file, json!({"applications": applications}).to_string()).unwrap();
    let mut command = Command::new(programs::howdah());
    programs::run(command.arg("check").arg(file).arg("--tmp").arg(site.data()))
}

fn write_ini(site: &Site) -> std::path::PathBuf {
    let ini = site.data().join("php.ini");
    fs::write(&ini, "memory_limit = 64M\n; a comment with ${HOME}\n").unwrap();
    open_to_all(&ini, 0o644);
    ini
}

fn application(site: &Site, ini: &Path) -> Value {
    json!({"type": "php", "root": site.root(), "options": {"file": ini}})
}

/// Checks applications with these memory limits, each in a `php.ini` of its own. Returns how often
/// these were opened.
fn opened(site: &Site, limits: &[&str]) -> usize {
    let watch = init(CreateFlags::NONBLOCK).unwrap();
    let numbered = limits.iter().enumerate().map(|(number, limit)| {
        let ini = site.data().join(format!("php-{limit}.ini"));
        fs::write(&ini, format!("memory_limit = {limit}\n")).unwrap();
        open_to_all(&ini, 0o644);
        (format!("site{number}"), application(site, &ini))
    });
    let numbered: Map<_, _> = numbered.collect();
    for limit in limits {
        // Equal events that follow each other would be one, also those of processes beside each
        // other.
        let ini = site.data().join(format!("php-{limit}.ini"));
        add_watch(&watch, ini, WatchFlags::OPEN | WatchFlags::CLOSE).unwrap();
    }
    let output = check(site, &numbered);
    assert!(output.status.success(), "{output:?}");
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut events = Reader::new(watch, &mut buffer);
    let mut count = 0;
    while let Ok(event) = events.next() {
        count += usize::from(event.events().contains(rustix::fs::inotify::ReadFlags::OPEN));
    }
    count
}

#[test]
fn php_is_loaded_once_for_all_that_start_it_in_the_same_way() {
    let site = Site::script("index.php", "echo 1;");
    let once = opened(&site, &["32M"]);
    assert!(once > 0);
    assert_eq!(opened(&site, &["32M"; 12]), once);
    assert_eq!(opened(&site, &["32M", "64M", "32M", "64M"]), 2 * once);
}

#[test]
fn a_process_that_ends_while_it_checks_costs_no_application() {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        return; // there is no other process
    }
    let site = Site::script("index.php", "echo 1;");
    let ini = write_ini(&site);
    let all: Map<_, _> =
        (0..60).map(|number| (format!("site{number}"), application(&site, &ini))).collect();
    let file = site.data().join("document.json");
    fs::write(&file, json!({"applications": all}).to_string()).unwrap();
    let mut command = Command::new(programs::howdah());
    command.arg("check").arg(file).arg("--tmp").arg(site.data());
    let check = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let children = format!("/proc/{0}/task/{0}/children", check.id());
    let is_howdah = |pid: &&str| {
        fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == programs::howdah())
    };
    harness::eventually("a process that checks applications", || {
        let children = fs::read_to_string(&children).unwrap_or_default();
        let pid = children.split_ascii_whitespace().find(is_howdah)?.parse().ok()?;
        kill_process(Pid::from_raw(pid)?, Signal::KILL).ok()
    });
    let output = check.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn what_differs_between_applications_with_the_same_settings_is_said() {
    if !requirements::root() {
        return;
    }
    let site = Site::script("index.php", "echo 1;");
    let ini = write_ini(&site);
    let mut all = Map::new();
    let mut add = |name: &str, change: Value| {
        let mut application = application(&site, &ini);
        harness::merge(&mut application, change);
        all.insert(name.to_owned(), application);
    };
    add("a", json!({}));
    add("b", json!({"root": "/nonexistent"}));
    add("c", json!({"user": "nobody"}));
    add("d", json!({"user": "no-such-user"}));
    add("e", json!({"options": {"admin": {"no.such": "1"}}}));
    add("f", json!({}));
    let group = fs::read_to_string("/etc/group").unwrap();
    let group = group.lines().find_map(|line| line.strip_prefix("www-data:x:")).unwrap();
    let group = group.split(':').next().unwrap().parse().unwrap();
    chown(&ini, None, Some(group)).unwrap();
    open_to_all(&ini, 0o640);
    let output = check(&site, &all);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let about = |name: &str| {
        let place = format!("/applications/{name}");
        let lines = text.lines().filter(|line| line.contains(&place));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    for (name, part) in [
        ("b", "root: /nonexistent"),
        ("c", "options/file: "),
        ("d", "user: "),
        ("e", "PHP has no setting \"no.such\""),
    ] {
        let found = about(name);
        assert!(found.iter().any(|line| line.contains(part)), "{name}: {found:?}: {text}");
    }
    assert!(about("a/").is_empty() && about("f/").is_empty(), "{text}");
}

/// PHP prints messages as HTML unless the settings say otherwise, and logs them as well.
#[test]
fn the_error_of_a_worker_script_is_told_once_and_as_text() {
    let site = Site::new().file("worker.php", "<?php $a = \"x\" y \"z\";");
    let ini = site.data().join("php.ini");
    fs::write(&ini, "display_errors = 1\nhtml_errors = 1\nlog_errors = 1\n").unwrap();
    open_to_all(&ini, 0o644);
    let mut one = application(&site, &ini);
    one["worker"] = json!({"script": "worker.php"});
    let output = check(&site, &Map::from_iter([("site".to_owned(), one.clone())]));
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(text.matches("syntax error").count(), 1, "{text}");
    assert!(text.contains("does not work: syntax error") && !text.contains("<br"), "{text}");
    let server = site.with(json!({"applications": {"site": one}})).serve();
    let log = server.wait_for_log("does not work: syntax error");
    assert!(!log.contains("<br") && !log.contains("&quot;"), "{log}");
    assert_eq!(log.matches("PHP Parse error").count(), 1, "{log}");
}
