//! Actions of the router and the control process that the kernel refuses.
//!
//! Kernels differ: a test that this one cannot run says so and passes.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use harness::{Site, eventually, free_address, open_to_all, requirements};
use howdah_sys::sandbox::{landlock, seccomp};
use serde_json::{Value, json};

use super::sandbox::has_landlock;

#[test]
fn the_router_has_few_system_calls_no_way_to_privileges_and_no_other_processes_memory() {
    let server = Site::script("a.php", "echo 1;").serve();
    let status = fs::read_to_string(format!("/proc/{}/status", server.router())).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim).unwrap_or_default().to_owned()
    };
    assert_eq!(field("NoNewPrivs:"), "1");
    if seccomp::is_available() {
        assert_eq!(field("Seccomp:"), "2");
    } else {
        requirements::skipped("this kernel cannot filter system calls");
    }
    assert_eq!(server.get("/a.php").text(), "1");
}

#[test]
fn the_control_process_has_few_system_calls_and_no_files() {
    let site = Site::script("a.php", "echo 1;").controlled();
    let mut document = site.document(free_address());
    let server = site.serve();
    // The router works all the same: reads and checks documents, and hands them on.
    document["routes"] = json!([{"match": {"uri": "~^/[a-z]+$"}, "action": {"return": 204}}]);
    server.put("/config", &document);
    assert_eq!(server.control("GET", "/config/routes", "").succeeded(), document["routes"]);
    assert_eq!(server.control("PUT", "/config", "{").status, 400);
    let control = server.processes().into_iter().find(|process| process.title == "howdah: control");
    let control = control.expect("it has just answered").pid;
    // The router continues when the log is opened again, although it can open no file.
    let log = server.site.log_path();
    fs::rename(&log, log.with_extension("old")).unwrap();
    server.signal(rustix::process::Signal::USR1);
    let new_log = |fd: u32| fs::read_link(format!("/proc/{control}/fd/{fd}")).ok();
    // Users other than root do not see the descriptors of a process that is not dumpable.
    if requirements::is_root() {
        eventually("it writes to the new log", || {
            (new_log(2)? == log && new_log(1)? == log).then_some(())
        });
    }
    assert_eq!(server.control("GET", "/config/routes", "").succeeded(), document["routes"]);
    if seccomp::is_available() {
        let status = fs::read_to_string(format!("/proc/{control}/status")).unwrap();
        assert!(status.contains("\nSeccomp:\t2\n"), "{status}");
    } else {
        requirements::skipped("this kernel cannot filter system calls");
    }
}

#[test]
fn the_log_and_the_status_say_what_protects_each_process() {
    let site = Site::script("a.php", "echo 1;").controlled();
    let mut document = site.document(free_address());
    document["applications"]["other"] = document["applications"]["site"].clone();
    document["applications"]["other"]["isolation"] = json!({"sandbox": false});
    let server = site.serve();
    server.put("/config", &document);
    let protection = server.control("GET", "/status/protection", "").succeeded();
    let version = landlock::version();
    assert_eq!(protection["landlock"], json!(version));
    let kept = |process: &Value, from: &str| {
        process["restrictions"].as_array().unwrap().contains(&json!(from))
    };
    let router = &protection["router"];
    assert!(kept(router, "new_privileges"), "{protection}");
    assert_eq!(kept(router, "system_calls"), seccomp::is_available());
    assert_eq!(kept(router, "files"), version > 0);
    assert_eq!(kept(router, "signals"), version >= landlock::SIGNALS);
    let site = &protection["applications"]["site"];
    assert_eq!(kept(site, "tracing"), version >= landlock::FILES);
    assert_eq!(kept(site, "signals"), version >= landlock::SIGNALS);
    assert!(!kept(site, "files"));
    assert!(!kept(&protection["applications"]["other"], "tracing"));
    if version < landlock::SIGNALS || !seccomp::is_available() {
        server.wait_for_log("[warn]");
    }
}

/// A directory of the system, where the router expects no site.
fn out_of_reach() -> tempfile::TempDir {
    let directory = tempfile::Builder::new().prefix("howdah-test-").tempdir_in("/dev/shm").unwrap();
    open_to_all(directory.path(), 0o755);
    for name in ["file.txt", "file.css"] {
        fs::write(directory.path().join(name), "far away").unwrap();
        open_to_all(&directory.path().join(name), 0o644);
    }
    directory
}

fn share(directory: &Path, address: &str) -> Value {
    json!({
        "listeners": {address: {"pass": "routes"}},
        "routes": [{"action": {"share": format!("{}$uri", directory.display())}}],
    })
}

/// Asks for a file on a new connection.
fn fetched(address: &str, target: &str) -> harness::client::Response {
    let mut client = harness::client::Client::connect(address.parse().unwrap());
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
    client.response()
}

/// The rights of the running router to read were fixed at its start: another one takes its place,
/// and no request is lost.
#[test]
fn a_document_that_leads_out_of_the_routers_reach_brings_another_router() {
    if !has_landlock(1) {
        return;
    }
    let far = out_of_reach();
    let site = Site::script("near.php", "usleep(300000); echo 'near';").controlled();
    let server = site.serve();
    let address = free_address().to_string();
    let mut document = server.site.document(&address);
    server.put("/config", &document);
    let router = server.router();
    let done = Arc::new(AtomicBool::new(false));
    let visitor = {
        let (address, done) = (address.clone(), Arc::clone(&done));
        std::thread::spawn(move || {
            let mut count = 0;
            while !done.load(Relaxed) {
                assert_eq!(fetched(&address, "/near.php").text(), "near");
                count += 1;
            }
            count
        })
    };
    document["routes"] = json!([
        {"match": {"uri": "*.txt"}, "action": {"share": format!("{}$uri", far.path().display())}},
        document["routes"][0],
    ]);
    server.put("/config", &document);
    eventually("another router reads it", || {
        (fetched(&address, "/file.txt").text() == "far away").then_some(())
    });
    eventually("the former router has ended", || {
        server.processes().iter().all(|process| process.pid != router).then_some(())
    });
    // The control API continues with the new router.
    server.control("GET", "/status", "").succeeded();
    done.store(true, Relaxed);
    assert!(visitor.join().unwrap() > 0);
    // A link of a site does not lead out of reach.
    let other = out_of_reach();
    symlink(other.path(), server.site.root().join("link")).unwrap();
    assert_eq!(fetched(&address, "/link/file.css").status, 403);
}

/// A directory that a deployment makes later is served without a restart.
#[test]
fn a_directory_that_appears_out_of_reach_is_served() {
    if !has_landlock(1) {
        return;
    }
    let place = out_of_reach();
    let far = place.path().with_extension("later");
    let document = json!([{"action": {"share": format!("{}$uri", far.display())}}]);
    let server = Site::new().with(json!({"routes": document})).serve();
    assert_eq!(server.get("/file.txt").status, 404);
    fs::rename(place.path(), &far).unwrap();
    eventually("it is served", || (server.get("/file.txt").text() == "far away").then_some(()));
    fs::remove_dir_all(&far).unwrap();
}

#[test]
fn what_the_first_document_names_is_in_reach_wherever_it_is() {
    let far = out_of_reach();
    let server = Site::new()
        .with(json!({"routes": [{"action": {"share": format!("{}$uri", far.path().display())}}]}))
        .serve();
    assert_eq!(server.get("/file.txt").text(), "far away");
}

#[test]
fn a_router_without_a_sandbox_goes_wherever_its_user_may() {
    let far = out_of_reach();
    let server = Site::new().controlled().argument("--no-sandbox").serve();
    let address = free_address().to_string();
    server.put("/config", &share(far.path(), &address));
    let mut client = harness::client::Client::connect(address.parse().unwrap());
    client.send("GET /file.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(client.response().text(), "far away");
    let status = fs::read_to_string(format!("/proc/{}/status", server.router())).unwrap();
    assert!(status.contains("Seccomp:\t0"), "{status}");
    server.wait_for_log("--no-sandbox");
}
