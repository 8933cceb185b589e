//! Limits of all processes of an application together (`isolation.limits`), on a system whose
//! control groups do not keep them, so that the server counts.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use harness::{Server, Site, eventually, processes, programs, requirements, users};
use serde_json::{Value, json};

/// Bytes of memory that the application may have.
const MEMORY: u64 = 128 << 20;

/// Takes 192 MiB step by step, and waits for its end. A single process may have reserved twice the
/// limit, and no more.
const HOG: &str =
    "for ($i = 0; $i < 48; $i++) { $taken[] = str_repeat('x', 4 << 20); usleep(10000); }
    sleep(300); echo 'it was not ended';";

/// Starts 60 programs, each of which begins and ends on its own.
const STARTS: &str = "for ($i = 0; $i < 60; $i++) exec('setsid sleep 300 > /dev/null 2>&1 &');
    echo 'started';";

/// Forks as often as it can.
const BOMB: &str = "while (true) pcntl_fork();";

/// Returns a server with the application `hostile`, with these limits, for `/hostile.php` and the
/// application `site` for all others.
fn two_sites(site: Site, hostile: Value) -> Server {
    let root = site.root();
    let mut application = json!({
        "type": "php", "root": root, "processes": 2,
        "options": {"admin": {"memory_limit": "-1"}},
    });
    harness::merge(&mut application, hostile);
    let routes = json!([
        {"match": {"uri": "/hostile.php"}, "action": {"pass": "applications/hostile"}},
        {"action": {"pass": "applications/site"}},
    ]);
    site.file("fine.php", "<?php echo 'fine';")
        .controlled()
        .with(json!({"routes": routes, "applications": {"hostile": application}}))
        .serve()
}

fn limits(server: &Server) -> Value {
    server.control("GET", "/status", "").succeeded()["php"]["hostile"]["limits"].clone()
}

/// Returns true if the server counts; otherwise the test is skipped.
fn counts(server: &Server) -> bool {
    let is_approximate = eventually("PHP is loaded", || limits(server)["approximate"].as_bool());
    if !is_approximate {
        requirements::skipped("the control groups of this system keep the limits");
    }
    is_approximate
}

/// Sends requests to the other application while `f` runs; each is answered.
fn beside<T>(server: &Server, f: impl FnOnce() -> T) -> T {
    let ending = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut count = 0;
            while !ending.load(Relaxed) {
                assert_eq!(server.get("/fine.php").text(), "fine");
                count += 1;
            }
            count
        });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
        ending.store(true, Relaxed);
        assert!(other.join().unwrap() > 0);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[test]
fn a_script_that_takes_all_memory_ends_and_others_are_answered() {
    let limit = json!({"isolation": {"limits": {"memory": MEMORY}}});
    let server = two_sites(Site::script("hostile.php", HOG), limit);
    if !counts(&server) {
        return;
    }
    let response = beside(&server, || server.get("/hostile.php"));
    assert!(response.status >= 500, "{response:?}");
    let line = server.wait_for_log("isolation/limits/memory allows 128: worker ");
    let line = line.lines().find(|line| line.contains("allows 128")).unwrap();
    assert!(line.contains("application \"hostile\": its processes use "), "{line}");
    server.wait_for_log("used more memory than isolation/limits/memory allows");
    assert_eq!(server.get("/fine.php").text(), "fine");
    fs::write(server.site.root().join("hostile.php"), "<?php echo 'small';").unwrap();
    eventually("it goes on", || (server.get("/hostile.php").text() == "small").then_some(()));
}

#[test]
fn programs_of_a_script_end_if_there_are_too_many() {
    let limit = json!({"isolation": {"limits": {"processes": 20}}});
    let server = two_sites(Site::script("hostile.php", STARTS), limit);
    if !counts(&server) {
        return;
    }
    let response = beside(&server, || server.get("/hostile.php"));
    assert_eq!(response.text(), "started");
    let prototype = server.processes().into_iter().find(|one| one.title.contains("\"hostile\" p"));
    let prototype = prototype.unwrap().pid;
    let left = eventually("as many are left as are allowed", || {
        let left = processes::descendants(prototype).len() + 1;
        (left <= 20).then_some(left)
    });
    assert!(left > 3, "{left}: those that are allowed go on");
    server.wait_for_log("isolation/limits/processes allows 20: program ");
}

#[test]
fn a_fork_bomb_is_limited_by_the_kernel_and_ended_by_the_server() {
    let site = Site::script("hostile.php", BOMB);
    let Some((site, user)) = users::site_with_own_user(site) else { return };
    let limits = json!({"user": users::NAME, "isolation": {"limits": {"processes": 20}}});
    let server = two_sites(site, limits);
    if !counts(&server) {
        return;
    }
    let prototype = server.processes().into_iter().find(|one| one.title.contains("\"hostile\" p"));
    let limits = fs::read_to_string(format!("/proc/{}/limits", prototype.unwrap().pid)).unwrap();
    let most = limits.lines().find(|line| line.starts_with("Max processes")).unwrap();
    assert!(most.contains(" 72 "), "twice the limit and 32: {most}");
    let response = beside(&server, || server.get("/hostile.php"));
    assert!(response.status >= 500, "{response:?}");
    server.wait_for_log("isolation/limits/processes allows 20: worker ");
    eventually("its processes are gone", || {
        let all = fs::read_dir("/proc").unwrap().flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let left = pids.filter(|pid| owner(*pid) == Some(user) && processes::is_alive(*pid));
        (left.count() <= 3).then_some(())
    });
}

fn owner(pid: u32) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    Some(fs::metadata(format!("/proc/{pid}")).ok()?.uid())
}

#[test]
fn limits_change_while_the_processes_run() {
    let limit = json!({"isolation": {"limits": {"processes": 20, "memory": MEMORY}}});
    let server = two_sites(Site::script("hostile.php", "echo getmypid();"), limit);
    let before = server.get("/hostile.php").text();
    assert_eq!(limits(&server)["memory"], json!(MEMORY));
    server.put("/config/applications/hostile/isolation/limits/memory", &json!(2 * MEMORY));
    server.put("/config/applications/hostile/isolation/limits/cpu", &json!(0.5));
    let now = limits(&server);
    assert_eq!((&now["memory"], &now["cpu"]), (&json!(2 * MEMORY), &json!(0.5)));
    // There are two workers.
    let same = (0..20).any(|_| server.get("/hostile.php").text() == before);
    assert!(same, "{before} {}", server.log());
    if counts(&server) {
        let file = format!("/proc/{before}/limits");
        let found = fs::read_to_string(file).unwrap();
        let data = found.lines().find(|line| line.starts_with("Max data size")).unwrap();
        assert!(data.contains(&(4 * MEMORY).to_string()), "twice the limit: {data}");
    }
}

#[test]
fn what_control_groups_cannot_keep_is_refused_before_the_first_request() {
    let has_pids = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].iter().any(|root| {
        let list = fs::read_to_string(format!("{root}/cgroup.controllers")).unwrap_or_default();
        list.split_whitespace().any(|one| one == "pids")
    });
    if has_pids {
        return requirements::skipped("the control groups of this system count processes");
    }
    let group = json!({"isolation": {"cgroup": {"path": "hostile", "pids_max": 20}}});
    let server = two_sites(Site::script("hostile.php", "echo 'fine';"), group.clone());
    let reason = "isolation/cgroup/pids_max: cannot be kept: ";
    server.wait_for_log(reason);
    assert_eq!(server.get("/hostile.php").status, 503);
    assert_eq!(server.get("/fine.php").text(), "fine", "the other one runs");
    let problem = server.control("GET", "/status", "").succeeded();
    assert!(
        problem["applications"]["hostile"]["problem"].to_string().contains(reason),
        "{problem}"
    );
    // A change that asks for it is refused.
    let other = json!({"path": "site", "cpu_max": 0.5});
    let target = "/config/applications/site/isolation";
    let answer = server.control("PUT", target, json!({"cgroup": other}).to_string());
    assert_eq!(answer.status, 400, "{answer:?}");
    let said = answer.body.to_string();
    assert!(said.contains("isolation/cgroup/cpu_max: cannot be kept: "), "{said}");
    assert!(said.contains("limits") && said.contains("cpu"), "{said}");
    server.put(target, &json!({"limits": {"cpu": 0.5}}));
    // `howdah check` says the same, and what is kept approximately.
    let path = server.site.data().join("document.json");
    let mut document = server.site.document("127.0.0.1:1");
    fs::write(&path, document.to_string()).unwrap();
    let check = || {
        let mut command = Command::new(programs::howdah());
        programs::run(command.arg("check").arg(&path))
    };
    let output = check();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains(reason), "{said}");
    document["applications"]["hostile"]["isolation"] = json!({"limits": {"processes": 20}});
    fs::write(&path, document.to_string()).unwrap();
    let output = check();
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{said:?}");
    assert!(said.concat().contains("isolation/limits: kept approximately"), "{said:?}");
}
