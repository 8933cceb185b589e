//! Applications whose script stays in memory: restarts, failures and the status of the server.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::{Duration, Instant};
use std::{fs, thread};

use harness::processes::{self, Process};
use harness::{Server, Site, eventually};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A worker script that says which boot and which process a request has met.
pub(super) const SCRIPT: &str = "<?php
    $version = trim(file_get_contents(__DIR__ . '/version'));
    usleep(1000 * (int) @file_get_contents(__DIR__ . '/boot_ms'));
    if ($version === 'broken') throw new Exception('the database is down');
    $boot = getmypid();
    while (frankenphp_handle_request(function () use ($version, $boot) {
        if (isset($_GET['code'])) { eval($_GET['code']); }
        echo $version, ' ', $boot, ' ', getmypid();
    }));";

pub(super) fn site(application: Value) -> Site {
    let site = uncontrolled(application);
    let address = format!("unix:{}", site.control_socket().display());
    site.argument("--control").argument(&address)
}

pub(super) fn uncontrolled(application: Value) -> Site {
    Site::new()
        .file("worker.php", SCRIPT)
        .file("version", "one")
        .with(json!({
            "routes": [{"action": {"pass": "applications/site"}}],
            "applications": {"site": {"script": "worker.php", "worker": true}},
        }))
        .with(json!({"applications": {"site": application}}))
}

/// The parts of an answer: version, process of the boot, process of the request.
pub(super) fn ask(server: &Server, target: &str) -> (String, u32, u32) {
    let response = server.get(target);
    assert_eq!(response.status, 200, "{}", response.text());
    parts(&response.text())
}

fn parts(text: &str) -> (String, u32, u32) {
    let mut words = text.split_whitespace().rev();
    let mut number = || words.next().unwrap().parse().unwrap();
    let (pid, boot) = (number(), number());
    (words.next().unwrap().to_owned(), boot, pid)
}

pub(super) fn worker_status(server: &Server) -> Value {
    server.control("GET", "/status/php/site/worker", "").succeeded()
}

/// Returns the template if it sleeps. A process with its title that runs, or is no child of the
/// prototype, may be one that it has just forked to be a worker.
pub(super) fn template(server: &Server) -> Option<u32> {
    let title = "howdah: \"site\" template";
    let prototype = server.prototype();
    let is_template = |process: &Process| {
        process.title == title && process.parent == prototype && processes::is_asleep(process.pid)
    };
    server.processes().into_iter().find(is_template).map(|found| found.pid)
}

/// Waits for the template.
pub(super) fn sleeping_template(server: &Server) -> u32 {
    eventually("there is a template", || template(server))
}

/// Calls a function at the end of a scope.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Sends requests from several clients while `act` runs, and returns the versions that they have
/// met. Each of them must be answered with 200.
pub(super) fn under_load(server: &Server, act: impl FnOnce()) -> Vec<String> {
    let ending = AtomicBool::new(false);
    let answered = AtomicU32::new(0);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut versions = Vec::new();
                    while !ending.load(Relaxed) {
                        versions.push(ask(server, "/").0);
                        answered.fetch_add(1, Relaxed);
                    }
                    versions
                })
            })
            .collect();
        // The clients end even if a check fails; the scope waits for them.
        let _end = OnDrop(|| ending.store(true, Relaxed));
        let more = |count: u32| {
            let until = answered.load(Relaxed) + count;
            eventually("requests are answered", || (answered.load(Relaxed) >= until).then_some(()));
        };
        more(50);
        act();
        more(50);
        ending.store(true, Relaxed);
        let mut versions: Vec<_> =
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        versions.dedup();
        versions
    })
}

#[test]
fn a_restart_boots_the_script_again_and_loses_no_request() {
    let server = site(json!({"processes": 2})).serve();
    let (version, boot, pid) = ask(&server, "/");
    assert_eq!((version.as_str(), boot), ("one", sleeping_template(&server)));
    assert_ne!(boot, pid);
    let before = worker_status(&server);
    assert_eq!(before["template"], json!(true));
    let versions = under_load(&server, || {
        fs::write(server.site.root().join("version"), "two").unwrap();
        server.control("GET", "/control/applications/site/restart", "").succeeded();
    });
    assert!(versions.contains(&"two".to_owned()), "{versions:?}");
    assert_eq!(ask(&server, "/").0, "two");
    let after = worker_status(&server);
    assert!(after["generation"].as_u64() > before["generation"].as_u64(), "{before} {after}");
}

/// A worker takes a request as soon as it is forked, and needs its socket for a body in a file. If
/// the application is restarted before the router knows of the worker, the request must not be
/// lost.
#[test]
fn a_restart_loses_no_request_of_a_worker_that_has_just_been_forked() {
    let worker = json!({"script": "worker.php", "requests": 1});
    let server = site(json!({"processes": 1, "worker": worker})).serve();
    let worker_runs = |count: usize| {
        let has_so_many = || (server.running_workers().len() == count).then_some(());
        eventually("as many workers run", has_so_many);
    };
    // The supervisor waits for a prototype for a second.
    let is_in_time = |since: Instant| since.elapsed() < Duration::from_millis(500);
    // On a busy machine, most restarts begin too late.
    for _ in 0..40 {
        worker_runs(1);
        let (prototype, template) = (server.prototype(), sleeping_template(&server));
        let _continue = OnDrop(|| {
            processes::signal(template, Signal::CONT);
            processes::signal(prototype, Signal::CONT);
        });
        processes::signal(template, Signal::STOP);
        ask(&server, "/");
        let since = Instant::now();
        worker_runs(0);
        thread::sleep(Duration::from_millis(50)); // the template is asked for the next worker
        processes::signal(prototype, Signal::STOP);
        let was_in_time = thread::scope(|scope| {
            let posted =
                scope.spawn(|| server.post("/", "application/octet-stream", [b'x'; 200_000]));
            processes::signal(template, Signal::CONT);
            worker_runs(1);
            thread::sleep(Duration::from_millis(50)); // the worker takes the request
            server.control("GET", "/control/applications/site/restart", "").succeeded();
            let was_in_time = is_in_time(since);
            processes::signal(prototype, Signal::CONT);
            let response = posted.join().unwrap();
            assert!(response.status == 200 || !was_in_time, "{}", response.text());
            was_in_time
        });
        if was_in_time {
            return;
        }
    }
    panic!("the restart took too long each time");
}

#[test]
fn a_changed_file_restarts_the_application_if_it_is_watched() {
    let worker = json!({"script": "worker.php", "watch": ["version", "."]});
    let server = site(json!({"processes": 1, "worker": worker})).serve();
    let change = |version: &str| fs::write(server.site.root().join("version"), version).unwrap();
    let answers = |version: &str| {
        eventually("the new version answers", || (ask(&server, "/").0 == version).then_some(()));
    };
    answers("one");
    change("two");
    answers("two");
    server.wait_for_log("was restarted: ");
    assert!(server.log().contains("version has changed"), "{}", server.log());
    change("broken");
    server.wait_for_log("could not be restarted although ");
    answers("two");
    change("three");
    answers("three");
}

#[test]
fn an_upgrade_loses_no_request_of_a_resident_application() {
    let server = site(json!({"processes": 2})).serve();
    let (_, boot, _) = ask(&server, "/");
    under_load(&server, || {
        let old = server.upgrade();
        server.wait_for_end_of(old);
    });
    let (_, now, _) = ask(&server, "/");
    assert_ne!(boot, now);
    assert_eq!(sleeping_template(&server), now);
}

#[test]
fn opcache_reset_restarts_the_application_without_losing_a_request() {
    let server = site(json!({"processes": 2})).serve();
    let first = worker_status(&server)["generation"].as_u64().unwrap();
    under_load(&server, || {
        ask(&server, "/?code=opcache_reset();");
        eventually("another generation", || {
            (worker_status(&server)["generation"].as_u64()? > first).then_some(())
        });
    });
    assert!(
        server.log().contains("was restarted: its script has called opcache_reset()"),
        "{}",
        server.log()
    );
}

#[test]
fn an_application_that_restarts_for_ever_holds_nobody_up() {
    let good = json!({"type": "php", "root": "/", "script": "good.php", "processes": 1});
    let mut server = uncontrolled(json!({"processes": 1}))
        .file("good.php", "<?php echo 'good';")
        .with(json!({"routes": [
            {"match": {"uri": "/good"}, "action": {"pass": "applications/good"}},
            {"action": {"pass": "applications/site"}},
        ]}));
    let mut good = good;
    good["root"] = json!(server.root());
    let control = format!("unix:{}", server.control_socket().display());
    server = server.with(json!({"applications": {"good": good}}));
    let server = server.argument("--control").argument(&control).serve();
    ask(&server, "/");
    // From now on the script does not come to its first request.
    let hangs = SCRIPT.replace("$boot = getmypid();", "$boot = getmypid(); sleep(1000);");
    fs::write(server.site.root().join("worker.php"), hangs).unwrap();
    server.get("/?code=opcache_reset();");
    eventually("it boots again", || {
        let templates = server.processes().into_iter();
        (templates.filter(|process| process.title.contains("template")).count() == 2).then_some(())
    });
    // Well before the boot is given up.
    server.control("GET", "/status", "").succeeded();
    server.control("GET", "/control/applications/good/restart", "").succeeded();
    assert_eq!(server.get("/good").text(), "good");
    server.signal(Signal::QUIT);
    server.wait_for_end_of(server.supervisor());
    assert!(!server.log().contains("could not be restarted"), "{}", server.log());
}

#[test]
fn a_restart_that_does_not_end_delays_no_restart_of_others() {
    let site = uncontrolled(json!({"processes": 1})).file("other.php", SCRIPT);
    let other = json!({
        "type": "php", "root": site.root(), "script": "other.php", "processes": 1, "worker": true,
    });
    let server = site
        .with(json!({
            "routes": [
                {"match": {"uri": "/other"}, "action": {"pass": "applications/other"}},
                {"action": {"pass": "applications/site"}},
            ],
            "applications": {"other": other},
        }))
        .serve();
    ask(&server, "/");
    let (_, boot, _) = ask(&server, "/other");
    let hangs = SCRIPT.replace("$boot = getmypid();", "sleep(1000);");
    fs::write(server.site.root().join("worker.php"), hangs).unwrap();
    server.get("/?code=opcache_reset();");
    let is_booting = || {
        let templates = server.processes().into_iter();
        (templates.filter(|process| process.title.contains("\"site\" template")).count() == 2)
            .then_some(())
    };
    eventually("it boots again", is_booting);
    server.get("/other?code=opcache_reset();");
    eventually("the other one restarts", || (ask(&server, "/other").1 != boot).then_some(()));
    is_booting().expect("the first restart is still in progress");
}

#[test]
fn the_status_counts_why_workers_were_replaced() {
    let server =
        site(json!({"processes": 1, "worker": {"script": "worker.php", "requests": 3}})).serve();
    for target in ["/?code=exit;", "/?code=str_repeat('x',1<<40);", "/", "/", "/", "/"] {
        server.get(target);
    }
    let status = eventually("the status has the counts", || {
        let status = worker_status(&server);
        (status["retired"]["requests"] == 1).then_some(status)
    });
    assert_eq!(status["retired"], json!({"requests": 1, "exit": 1, "fatal": 1}));
    assert!(server.log().contains("its worker is replaced: exit"), "{}", server.log());
}

#[test]
fn the_end_of_a_template_is_not_noticed_by_visitors() {
    let server = site(json!({"processes": 2, "limits": {"requests": 3}})).serve();
    under_load(&server, || {
        for _ in 0..20 {
            let first = sleeping_template(&server);
            processes::signal(first, Signal::KILL);
            let other = || template(&server).filter(|pid| *pid != first);
            eventually("there is another template", other);
        }
    });
    // No uncounted worker has been left.
    eventually("there are two workers", || (server.running_workers().len() == 2).then_some(()));
}

#[test]
fn visitors_wait_if_a_template_is_killed_while_it_boots() {
    let server = site(json!({"processes": 2, "limits": {"requests": 3}})).serve();
    std::fs::write(server.site.root().join("boot_ms"), "200").unwrap();
    under_load(&server, || {
        let mut last = sleeping_template(&server);
        for _ in 0..4 {
            processes::signal(last, Signal::KILL);
            // The template sleeps in its boot.
            let other = || template(&server).filter(|pid| *pid != last);
            last = eventually("there is another template", other);
        }
    });
}

#[test]
fn workers_are_forked_in_namespaces_of_the_application_too() {
    if !harness::requirements::root() {
        return;
    }
    let namespaces = json!({"pid": true, "mount": true, "network": true, "credential": true});
    let isolation = json!({"namespaces": namespaces});
    let server =
        site(json!({"processes": 2, "isolation": isolation, "limits": {"requests": 3}})).serve();
    let (_, boot, pid) = ask(&server, "/");
    assert_ne!(boot, pid);
    let versions = under_load(&server, || {
        let template = sleeping_template(&server);
        processes::signal(template, Signal::KILL);
        server.control("GET", "/control/applications/site/restart", "").succeeded();
    });
    assert_eq!(versions, ["one"]);
}

#[test]
fn a_template_that_is_slow_is_kept() {
    let server = site(json!({"processes": 1, "limits": {"requests": 20}})).serve();
    let first = sleeping_template(&server);
    under_load(&server, || {
        processes::signal(first, Signal::STOP);
        let line = server.wait_for_log("its template has not forked it in time");
        assert!(line.contains("[warn]"), "{line}");
        processes::signal(first, Signal::CONT);
    });
    assert_eq!(sleeping_template(&server), first);
    // The worker that was refused has not been kept either.
    eventually("there is one worker", || (server.running_workers().len() == 1).then_some(()));
}

#[test]
fn an_unused_application_has_no_template_either() {
    let processes = json!({"max": 2, "spare": 0, "idle_timeout": 0, "prototype_timeout": 1});
    let server = site(json!({"processes": processes})).serve();
    for round in 1..=2 {
        assert_eq!(ask(&server, "/").0, "one", "round {round}");
        eventually("nothing of the application is left", || {
            let left = server.processes().iter().any(|process| process.title.contains("\"site\""));
            (!left).then_some(())
        });
    }
}

#[test]
fn a_script_that_does_not_come_back_after_a_response_is_ended_when_requests_wait() {
    let script =
        "<?php while (frankenphp_handle_request(function () { echo 'one 1 ', getmypid(); })) {
        if (isset($_GET['stay'])) sleep(600);
    }";
    let server =
        site(json!({"processes": 2, "limits": {"timeout": 1}})).file("worker.php", script).serve();
    let stayed: Vec<_> = (0..2).map(|_| ask(&server, "/?stay").2).collect();
    let (.., pid) = ask(&server, "/");
    assert!(!stayed.contains(&pid), "{stayed:?} {pid}");
    server.wait_for_log(
        "its script has not asked for another request within applications/site/limits/timeout",
    );
}

#[test]
fn a_worker_that_ends_between_two_requests_has_its_reason_in_the_log() {
    let script = "<?php putenv('BOOT=1');
        while (frankenphp_handle_request(function () { echo 'one 1 ', getmypid(); })) {
            eval(urldecode($_GET['pause'] ?? ''));
        }";
    let server = site(json!({"processes": 1})).file("worker.php", script).serve();
    for (pause, reason) in [
        ("putenv('BOOT=2')", "changed state: environment"),
        ("exit", "its script has ended"),
        ("nothing()", "fatal"),
    ] {
        ask(&server, &format!("/?pause={};", pause.replace('(', "%28")));
        server.wait_for_log(&format!("a worker is replaced between two requests: {reason}"));
    }
    ask(&server, "/");
}

#[test]
fn a_script_may_take_longer_to_start_than_a_request() {
    // Each worker starts the script itself: two processes must not share the pipe.
    let script = "<?php $pipe = popen('cat', 'w'); sleep(3);
        while (frankenphp_handle_request(function () { echo 'one 1 ', getmypid(); }));";
    let server =
        site(json!({"processes": 1, "limits": {"timeout": 1}})).file("worker.php", script).serve();
    assert_eq!(ask(&server, "/").0, "one");
    assert!(!server.log().contains("is ended"), "{}", server.log());
}

#[test]
fn a_worker_killed_by_its_time_limit_costs_one_request() {
    let server = site(json!({"processes": 2, "limits": {"timeout": 1}})).serve();
    let versions = under_load(&server, || {
        assert_eq!(server.get("/?code=sleep(600);").status, 504);
    });
    assert_eq!(versions, ["one"]);
}
