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

/// Starts 60 programs, each of which begins and ends on its own: none is below the worker when it is
/// counted.
const STARTS: &str = "for ($i = 0; $i < 60; $i++) exec('setsid sleep 300 > /dev/null 2>&1 &');
    echo 'started';";

/// Says whether scripts can fork.
const HAS_PCNTL: &str = "if (isset($_GET['has']))
    exit(function_exists('pcntl_fork') && function_exists('posix_kill') ? 'yes' : 'no');
";

/// Forks without end, in all processes that it becomes; gives up after 20 seconds.
const FORKS: &str = "for ($end = time() + 20; time() < $end;) pcntl_fork(); echo 'not ended';";

/// Forks twice without end, in all processes that it becomes: each child forks and ends, so that
/// the prototype adopts the grandchild, which begins a session of its own.
const FORKS_TWICE: &str = "for ($end = time() + 20; time() < $end;) {
        if (pcntl_fork() !== 0) continue;
        if (pcntl_fork() !== 0) posix_kill(getmypid(), 9);
        posix_setsid();
    }
    echo 'not ended';";

/// Starts `bomb.sh`.
const STARTS_BOMB: &str = "exec('setsid sh ' . __DIR__ . '/bomb.sh > /dev/null 2>&1 &');
    echo 'started';";

/// Starts itself twice, in sessions of their own, and ends, until the file `go` is removed.
const BOMB: &str = "cd \"${0%/*}\"; [ -e go ] || exit
    setsid sh \"$0\" & setsid sh \"$0\" &";

/// Starts a program that goes on by itself.
const HIDES: &str = "exec('command -v python3 || exit 127', $said, $status);
    exec('setsid python3 hide.py > /dev/null 2>&1 &'); echo $status;";

/// Takes 160 MiB of shared memory in two threads of a process whose first thread has ended, which
/// the kernel shows like a process that has ended.
const HIDDEN: &str = "
import ctypes, mmap, os, threading, time
def take():
    memory = mmap.mmap(-1, 80 << 20)
    for page in range(0, 80 << 20, 4096):
        memory[page] = 1
    time.sleep(300)
threading.Thread(target=take).start()
threading.Thread(target=take).start()
ctypes.CDLL(None).syscall(60 if os.uname().machine == 'x86_64' else 93, 0)
";

/// Returns what a document has for the application `hostile`, with these limits, for `/hostile.php`
/// and the application `site` for all others.
fn two_applications(site: &Site, hostile: Value) -> Value {
    let mut application = json!({
        "type": "php", "root": site.root(), "processes": 2,
        "options": {"admin": {"memory_limit": "-1"}},
    });
    harness::merge(&mut application, hostile);
    let routes = json!([
        {"match": {"uri": "/hostile.php"}, "action": {"pass": "applications/hostile"}},
        {"action": {"pass": "applications/site"}},
    ]);
    json!({"routes": routes, "applications": {"hostile": application}})
}

/// Returns a server with both applications and a control API.
fn two_sites(site: Site, hostile: Value) -> Server {
    let document = two_applications(&site, hostile);
    let control = format!("unix:{}", site.control_socket().display());
    site.file("fine.php", "<?php echo 'fine';")
        .argument("--control")
        .argument(&control)
        .with(document)
        .serve()
}

fn limits(server: &Server) -> Value {
    server.control("GET", "/status", "").succeeded()["php"]["hostile"]["limits"].clone()
}

/// Returns the process id of the prototype of an application.
fn prototype_of(server: &Server, name: &str) -> u32 {
    let is_prototype = |title: &str| title.contains(&format!("\"{name}\" p"));
    eventually("it has started", || {
        server.processes().into_iter().find(|one| is_prototype(&one.title)).map(|one| one.pid)
    })
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
    server.wait_for_log("the processes of its application exceeded isolation/limits");
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
    // A busy machine may take so long for all programs that they are taken for a bomb without end.
    let is_bomb = response.status == 502
        && server.log().contains("the processes of its application exceeded isolation/limits");
    assert!(is_bomb || response.text() == "started", "{response:?}");
    let prototype = prototype_of(&server, "hostile");
    let left = eventually("as many are left as are allowed", || {
        let left = processes::descendants(prototype).len() + 1;
        (left <= 20).then_some(left)
    });
    assert!(is_bomb || left > 3, "{left}: those that are allowed go on");
    server.wait_for_log("isolation/limits/processes allows 20: program ");
}

#[test]
fn a_program_that_hides_its_memory_and_its_parent_ends() {
    let limit = json!({"isolation": {"limits": {"memory": MEMORY}}});
    let server = two_sites(Site::script("hostile.php", HIDES), limit);
    if !counts(&server) {
        return;
    }
    let program = server.site.root().join("hide.py");
    fs::write(program, HIDDEN).unwrap();
    let response = beside(&server, || server.get("/hostile.php"));
    if response.text().contains("127") {
        return requirements::skipped("there is no python3");
    }
    server.wait_for_log("isolation/limits/memory allows 128: program ");
}

/// Runs a fork bomb, which `run` starts, until no process of it is left, while the other application
/// is answered.
fn bomb(script: &str, run: impl FnOnce(&Server)) {
    let site = Site::script("hostile.php", &format!("{HAS_PCNTL}{script}"));
    let Some((site, _)) = users::site_with_own_user(site) else { return };
    // The kernel allows this user 72 processes, which bounds the bomb.
    let hostile = json!({"user": users::NAME, "isolation": {"limits": {"processes": 20}}});
    let server = two_sites(site, hostile);
    if !counts(&server) {
        return;
    }
    if script.contains("pcntl") && server.get("/hostile.php?has").text() == "no" {
        return requirements::skipped("PHP has no pcntl or no posix");
    }
    fs::write(server.site.root().join("bomb.sh"), BOMB).unwrap();
    fs::write(server.site.root().join("go"), "").unwrap();
    let prototype = prototype_of(&server, "hostile");
    beside(&server, || {
        run(&server);
        server.wait_for_log("isolation/limits/processes allows 20: ");
        fs::write(server.site.root().join("hostile.php"), "<?php echo 'small';").unwrap();
        eventually("it is answered", || {
            (server.get("/hostile.php").text() == "small").then_some(())
        });
        eventually("only the prototype and two workers are left", || {
            (processes::descendants(prototype).len() <= 3).then_some(())
        });
        let _ = fs::remove_file(server.site.root().join("go"));
    });
    let log = server.log();
    let lines = log.lines().filter(|line| line.contains("limits/processes allows")).count();
    assert!(lines <= 3, "{lines} in {log}");
    // 16 MiB at once, and 128 KiB a second.
    assert!(log.len() < 48 << 20, "{} bytes", log.len());
}

/// Requests a script whose worker must be ended.
fn get_bomb(server: &Server) {
    let response = server.get("/hostile.php");
    assert!(response.status >= 500, "{response:?}");
}

#[test]
fn a_script_that_forks_without_end_ends_with_all_its_processes() {
    bomb(FORKS, get_bomb);
}

#[test]
fn programs_that_fork_twice_end() {
    bomb(FORKS_TWICE, get_bomb);
}

#[test]
fn programs_that_start_each_other_in_sessions_of_their_own_end() {
    bomb(STARTS_BOMB, |server| assert_eq!(server.get("/hostile.php").text(), "started"));
}

#[test]
fn the_kernel_limits_the_processes_of_a_user_with_limits() {
    let site = Site::script("hostile.php", "echo 'fine';");
    let Some((site, _)) = users::site_with_own_user(site) else { return };
    let limits = json!({"user": users::NAME, "isolation": {"limits": {"processes": 20}}});
    let server = two_sites(site, limits);
    if !counts(&server) {
        return;
    }
    assert_eq!(server.get("/hostile.php").text(), "fine");
    let prototype = prototype_of(&server, "hostile");
    let limits = fs::read_to_string(format!("/proc/{prototype}/limits")).unwrap();
    let most = limits.lines().find(|line| line.starts_with("Max processes")).unwrap();
    assert!(most.contains(" 72 "), "twice the limit and 32: {most}");
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
    // Its other worker may answer all other requests.
    let children = processes::descendants(prototype_of(&server, "hostile"));
    let is_there = children.iter().any(|child| child.pid.to_string() == before);
    assert!(is_there, "{before} {}", server.log());
    assert_eq!(server.get("/hostile.php").status, 200);
    if counts(&server) {
        let file = format!("/proc/{before}/limits");
        let found = fs::read_to_string(file).unwrap();
        let data = found.lines().find(|line| line.starts_with("Max data size")).unwrap();
        // Without CAP_SYS_RESOURCE, as in a container, they keep what they have.
        let is_twice = |limit: u64| data.contains(&(2 * limit).to_string());
        assert!(is_twice(2 * MEMORY) || is_twice(MEMORY), "twice the limit: {data}");
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
    assert_eq!(answer.status, 500, "{answer:?}");
    let said = answer.body.to_string();
    assert!(said.contains("isolation/cgroup/cpu_max: cannot be kept: "), "{said}");
    assert!(said.contains("limits") && said.contains("cpu"), "{said}");
    let former = prototype_of(&server, "site");
    server.put(target, &json!({"limits": {"cpu": 0.5}}));
    server.wait_for_end_of(former);
    // A file that asks for it is refused, too, and the application goes on.
    let file = server.site.root().with_file_name("config.json");
    let mut read: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let before = prototype_of(&server, "site");
    read["applications"]["site"]["isolation"]["cgroup"] = json!({"path": "site", "cpu_max": 0.5});
    read["applications"]["hostile"]["isolation"] = json!({});
    fs::write(&file, read.to_string()).unwrap();
    let control = format!("unix:{}", server.site.control_socket().display());
    let mut command = Command::new(programs::howdah());
    let output = programs::run(command.args(["reload", "--control", &control]));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("isolation/cgroup/cpu_max: cannot be kept: "), "{said}");
    assert_eq!(server.get("/fine.php").text(), "fine");
    assert_eq!(prototype_of(&server, "site"), before);
    // `howdah check` says the same, and what is kept approximately.
    let path = server.site.data().join("document.json");
    let mut document = server.site.document("127.0.0.1:1");
    harness::merge(&mut document, two_applications(&server.site, group));
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
