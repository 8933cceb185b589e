//! Numbers of workers: fixed, within bounds, on demand, or measured; a change of the number, or of
//! all workers, costs no request.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use harness::{Server, Site, eventually, processes};
use rustix::process::Signal;
use serde_json::json;

/// Works for a while, and returns the worker's process id.
const WORKS: &str = "usleep((int) ($_GET['us'] ?? 20000)); echo getmypid();";

fn site(processes: serde_json::Value) -> Site {
    let site = Site::script("a.php", WORKS);
    asked(site).with(json!({"applications": {"site": {"processes": processes}}}))
}

/// With the control API.
fn asked(site: Site) -> Site {
    let address = format!("unix:{}", site.control_socket().display());
    site.argument("--control").argument(&address)
}

/// Asks on `clients` connections over and over while `f` runs; every answer must be right. Returns
/// how many there were.
fn under_load(server: &Server, clients: usize, target: &str, f: impl FnOnce()) -> usize {
    let (ending, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                let mut client = server.connect();
                loop {
                    let response = client.get(target);
                    assert_eq!(response.status, 200, "{response:?}");
                    answered.fetch_add(1, Relaxed);
                    if ending.load(Relaxed) {
                        return;
                    }
                }
            });
        }
        // The others are to end although this one fails.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually("there is a load", || (answered.load(Relaxed) >= clients).then_some(()));
            f();
        }));
        ending.store(true, Relaxed);
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    answered.into_inner()
}

// -- as PHP-FPM has them --

#[test]
fn a_static_pool_is_there_before_the_first_request_and_stays() {
    let server = site(json!(3)).serve();
    eventually("there are 3", || (server.running_workers().len() == 3).then_some(()));
    under_load(&server, 12, "/a.php", || harness::time::sleep(Duration::from_millis(500)));
    assert_eq!(server.running_workers().len(), 3);
}

#[test]
fn a_dynamic_pool_starts_with_some_grows_with_the_load_and_keeps_no_more_idle_than_it_may() {
    let server = site(json!({"max": 10, "start": 4, "spare": 2, "max_spare": 5})).serve();
    eventually("it starts with 4", || (server.running_workers().len() == 4).then_some(()));
    under_load(&server, 30, "/a.php", || {
        eventually("there are 10", || (server.running_workers().len() == 10).then_some(()));
        harness::time::sleep(Duration::from_millis(300));
        assert!(server.running_workers().len() <= 10);
    });
    eventually("5 are left", || (server.running_workers().len() == 5).then_some(()));
    harness::time::sleep(Duration::from_millis(1500));
    assert_eq!(server.running_workers().len(), 5, "these may stay idle for ever");
}

#[test]
fn an_unused_application_has_no_prototype_either_and_the_next_request_starts_it() {
    let processes = json!({"max": 2, "spare": 0, "idle_timeout": 0, "prototype_timeout": 1});
    let server = site(processes).serve();
    let prototypes = || server.processes().iter().filter(|p| p.title.contains("prototype")).count();
    for round in 1..=2 {
        assert_eq!(server.get("/a.php").status, 200, "round {round}");
        eventually("nothing of the application is left", || {
            (server.running_workers().is_empty() && prototypes() == 0).then_some(())
        });
    }
    assert!(
        server.log().contains("application is unloaded, as it was not used for 1 s"),
        "{}",
        server.log()
    );
}

#[test]
fn a_program_that_a_script_has_left_running_keeps_the_prototype_until_it_ends() {
    let processes = json!({"max": 2, "spare": 0, "idle_timeout": 0, "prototype_timeout": 0});
    let code = "<?php echo exec('sleep 1000 >/dev/null 2>&1 & echo $!');";
    let server = site(processes).file("left.php", code).serve();
    let program: u32 = server.get("/left.php").text().parse().unwrap();
    server.wait_for_log("application is unloaded");
    // Another prototype serves meanwhile.
    assert_eq!(server.get("/a.php?us=0").status, 200);
    eventually("its worker has ended", || server.running_workers().is_empty().then_some(()));
    let is_prototype = |process: &processes::Process| process.title.contains("prototype");
    let prototypes = || server.processes().into_iter().filter(is_prototype).count();
    eventually("one is left", || (prototypes() == 1).then_some(()));
    assert!(processes::is_alive(program));
    processes::signal(program, rustix::process::Signal::KILL);
    eventually("none is left", || (prototypes() == 0).then_some(()));
}

#[test]
fn requests_that_wake_an_application_during_changes_of_others_are_served() {
    let processes = json!({"max": 2, "spare": 0, "idle_timeout": 0, "prototype_timeout": 0});
    let server = site(processes).serve();
    let ending = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for seconds in (100..).take_while(|_| !ending.load(Relaxed)) {
                server.put("/config/settings", &json!({"http": {"idle_timeout": seconds}}));
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..40 {
                let response = server.get("/a.php?us=0");
                assert_eq!(response.status, 200, "{response:?}\n{}", server.log());
                std::thread::sleep(Duration::from_millis(30));
            }
        }));
        ending.store(true, Relaxed);
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

#[test]
fn an_application_that_is_not_loaded_stays_so_when_the_server_reloads() {
    let processes = json!({"max": 2, "spare": 0, "idle_timeout": 0, "prototype_timeout": 0});
    let server = site(processes).serve();
    let is_loaded = || server.processes().iter().any(|process| process.title.contains("prototype"));
    eventually("it is unloaded", || (!is_loaded()).then_some(()));
    server.control("GET", "/control/applications/site/restart", "").succeeded();
    assert!(!is_loaded());
    assert_eq!(server.get("/a.php").status, 200);
}

#[test]
fn an_application_whose_requests_may_not_wait_is_loaded_by_one_all_the_same() {
    let site = site(json!({"max": 2, "spare": 0, "idle_timeout": 0, "prototype_timeout": 0}));
    let limits = json!({"applications": {"site": {"limits": {"queue": 0}}}});
    let server = site.with(limits).serve();
    let is_loaded = || server.processes().iter().any(|process| process.title.contains("prototype"));
    eventually("it is unloaded", || (!is_loaded()).then_some(()));
    assert_eq!(server.get("/a.php").status, 200);
}

#[test]
fn several_applications_load_php_when_they_are_needed_and_broken_ones_are_named_at_the_start() {
    let broken = json!({"type": "php", "root": "/nonexistent"});
    let applications = json!({"site": {"processes": {"max": 2, "spare": 0}}, "other": broken});
    let server = Site::script("a.php", WORKS).with(json!({"applications": applications})).serve();
    server.wait_for_log("\"other\" application cannot run: root: /nonexistent cannot be used");
    let is_prototype = |process: &processes::Process| process.title.contains("prototype");
    assert!(!server.processes().iter().any(is_prototype));
    assert_eq!(server.get("/a.php").status, 200);
    assert!(server.processes().iter().any(is_prototype));
}

#[test]
fn requests_that_come_while_the_prototype_ends_are_served() {
    let processes = json!({"max": 2, "spare": 0, "idle_timeout": 0, "prototype_timeout": 0});
    let server = site(processes).serve();
    let mut client = server.connect();
    for pause in 0..30u64 {
        let response = client.get("/a.php?us=0");
        assert_eq!(response.status, 200, "after {pause} ms: {response:?}");
        std::thread::sleep(Duration::from_millis(pause * 10));
    }
}

#[test]
fn an_ondemand_pool_has_no_worker_while_nobody_comes() {
    let server = site(json!({"max": 4, "spare": 0, "idle_timeout": 1})).serve();
    assert_eq!(server.running_workers().len(), 0);
    under_load(&server, 8, "/a.php", || {
        eventually("there are 4", || (server.running_workers().len() == 4).then_some(()));
    });
    eventually("all leave", || server.running_workers().is_empty().then_some(()));
    assert_eq!(server.get("/a.php").status, 200, "and one is back");
}

// -- as measured --

#[test]
fn an_automatic_pool_grows_for_scripts_that_wait_and_can_be_asked_why() {
    let server = site(json!("auto")).serve();
    assert_eq!(server.running_workers().len(), 0, "nobody has come");
    let before = server.control("GET", "/control/applications/site/tune", "").succeeded();
    assert_eq!(before["configured"], "auto", "{before}");
    // As many clients as there may be files open.
    let processors = std::thread::available_parallelism().unwrap().get().min(16);
    let mut tuning = before;
    under_load(&server, 20 * processors, "/a.php?us=50000", || {
        let enough = 8 * processors;
        eventually(&format!("there are {enough} workers"), || {
            (server.running_workers().len() >= enough).then_some(())
        });
        tuning = eventually("they were measured", || {
            let tuning = server.control("GET", "/control/applications/site/tune", "").succeeded();
            (tuning["measured"]["process_peak"].as_f64() > Some(0.0)).then_some(tuning)
        });
    });
    let number = |pointer: &str| tuning.pointer(pointer).and_then(|n| n.as_f64());
    assert!(number("/measured/process_peak") > Some(100_000.0), "{tuning}");
    assert!(number("/measured/process_on_processor") < Some(0.5), "they wait: {tuning}");
    assert_eq!(tuning["max"], tuning["automatic"]["processes"]);
}

#[test]
fn scripts_that_compute_for_long_leave_a_worker_for_others() {
    let code =
        "if (isset($_GET['long'])) while (!file_exists(getenv('DATA') . '/go')) clearstatcache();
        echo getmypid();";
    let site = Site::script("a.php", code);
    let site = site.with(json!({"applications": {"site": {"processes": "auto"}}}));
    let server = asked(site).serve();
    let processors = std::thread::available_parallelism().unwrap().get();
    let mut long: Vec<_> = (0..processors)
        .map(|_| {
            let mut client = server.connect();
            client.send("GET /a.php?long HTTP/1.1\r\nHost: a\r\n\r\n");
            client
        })
        .collect();
    eventually("all run", || (server.running_workers().len() >= processors).then_some(()));
    assert_eq!(server.get("/a.php").status, 200, "it does not wait for them");
    std::fs::write(server.site.data().join("go"), "").unwrap();
    long.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
}

#[test]
fn a_configured_pool_can_be_asked_what_it_costs() {
    let server = site(json!(2)).serve();
    let tuning = eventually("it was measured", || {
        server.get("/a.php?us=0");
        let tuning = server.control("GET", "/control/applications/site/tune", "").succeeded();
        (tuning["measured"]["processes"].as_u64() > Some(0)).then_some(tuning)
    });
    assert_eq!((&tuning["configured"], &tuning["max"]), (&json!("static"), &json!(2)));
    assert_eq!(server.control("GET", "/control/applications/none/tune", "").status, 404);
}

// -- restarts --

#[test]
fn a_restart_under_load_loses_no_request_and_leaves_no_old_worker() {
    for processes in [json!(3), json!("auto")] {
        let server = site(processes.clone()).serve();
        let answered = under_load(&server, 16, "/a.php?us=2000", || {
            for _ in 0..5 {
                eventually("workers serve", || {
                    (!server.running_workers().is_empty()).then_some(())
                });
                let (old, prototype) = (server.running_workers(), server.prototype());
                server.control("GET", "/control/applications/site/restart", "").succeeded();
                eventually("the old ones have left", || {
                    old.iter().all(|pid| !processes::is_alive(*pid)).then_some(())
                });
                eventually("their prototype too", || {
                    (!processes::is_alive(prototype)).then_some(())
                });
            }
        });
        assert!(answered > 20, "{answered} answers with {processes}");
        assert!(!server.log().contains("[error]"), "{}", server.log());
    }
}

#[test]
fn a_restart_takes_new_code_and_new_settings_and_warms_opcache_with_the_preload() {
    let site = Site::script("a.php", "echo class_exists('Ready', false) ? VERSION : 'cold';")
        .file("preload.php", "<?php class Ready {} const VERSION = 1;")
        .file("defines.php", "<?php const VERSION = 1;");
    let root = site.root();
    let settings = json!({
        "opcache.preload": root.join("preload.php"), "opcache.enable": "1",
        "opcache.validate_timestamps": "0", "opcache.file_update_protection": "0",
        "auto_prepend_file": root.join("defines.php"),
    });
    let server = asked(site)
        .with(json!({"applications": {"site": {"processes": 2, "options": {"admin": settings}}}}))
        .serve();
    assert_eq!(server.get("/a.php").text(), "1");
    std::fs::write(root.join("defines.php"), "<?php const VERSION = 2;").unwrap();
    assert_eq!(server.get("/a.php").text(), "1", "OPcache does not look");
    let answered = under_load(&server, 4, "/a.php", || {
        server.control("GET", "/control/applications/site/restart", "").succeeded();
        // From here on no old worker takes a request.
        assert_eq!(server.get("/a.php").text(), "2");
    });
    assert!(answered > 0);
}

#[test]
fn a_prototype_that_dies_is_started_again_and_what_waits_is_served() {
    let server = site(json!(1)).serve();
    assert_eq!(server.get("/a.php?us=0").status, 200);
    // Longer than a prototype must live to be started again at once.
    std::thread::sleep(Duration::from_millis(1200));
    let mut running = server.connect();
    running.send("GET /a.php?us=60000000 HTTP/1.1\r\nHost: a\r\n\r\n");
    server.wait_for_requests(1);
    let mut waiting: Vec<_> = (0..20)
        .map(|_| {
            let mut client = server.connect();
            client.send("GET /a.php?us=0 HTTP/1.1\r\nHost: a\r\n\r\n");
            client
        })
        .collect();
    server.wait_for_requests(21);
    processes::signal(server.prototype(), Signal::KILL);
    let begun = Instant::now();
    assert_eq!(running.response().status, 502, "it ran, and is lost");
    let log = server.log();
    let lost = log.lines().find(|line| line.contains("us=60000000")).expect("it is named");
    assert!(lost.contains("prototype exited on signal 9"), "{lost}");
    for (n, client) in waiting.iter_mut().enumerate() {
        let response = client.response();
        assert_eq!(response.status, 200, "request {n}: {response:?}");
    }
    println!("all that waited was served after {:?}", begun.elapsed());
}

// -- workers that die at their start --

#[test]
fn a_crash_loop_is_told_once_and_burns_no_processor() {
    // Every worker dies before it has had a request.
    let server = asked(Site::script("a.php", "echo 'fine';"))
        .with(json!({"applications": {"site": {"processes": 2}}}))
        .serve();
    let begun = Instant::now();
    let mut killed = HashSet::new();
    let mut kill = || {
        for pid in server.running_workers() {
            processes::signal(pid, Signal::KILL);
            killed.insert(pid); // it may take a while to end
        }
    };
    while begun.elapsed() < Duration::from_secs(4) {
        kill();
        std::thread::sleep(Duration::from_millis(5));
    }
    let log = server.log();
    // A worker that survives on a busy machine is no problem until it is killed.
    let problem = eventually("there is a problem", || {
        kill();
        let status = server.control("GET", "/status", "").succeeded();
        status.pointer("/applications/site/problem").and_then(|why| why.as_str().map(str::to_owned))
    });
    let killed = killed.len();
    // Workers that were ready and have served no request are replaced 20 times a second at most,
    // each.
    assert!(killed < 250, "{killed} workers were started in four seconds");
    let told = log.lines().filter(|line| line.contains("exited on signal 9")).count();
    // A worker that the busy machine lets live for a second begins another loop.
    assert!((1..=5).contains(&told), "{killed} deaths were told {told} times: {log}");
    assert_eq!(problem, "a worker exited on signal 9 before it had a request");
    eventually("it has recovered", || (server.get("/a.php").text() == "fine").then_some(()));
}

#[test]
fn an_application_that_cannot_run_is_shown_with_the_reason_until_it_runs_again() {
    let server = asked(Site::script("a.php", "echo 'fine';")).with(json!({})).serve();
    let problem = || {
        let status = server.control("GET", "/status", "").succeeded();
        status.pointer("/applications/site/problem").map(|problem| problem.to_string())
    };
    assert_eq!(problem(), None);
    let (root, away) = (server.site.root(), server.site.root().with_file_name("away"));
    std::fs::rename(&root, &away).unwrap();
    processes::signal(server.prototype(), Signal::KILL);
    let why = eventually("there is a problem", || problem().filter(|why| why.contains("root")));
    assert!(why.contains(&format!("root: {} cannot be used", root.display())), "{why}");
    std::fs::rename(&away, &root).unwrap();
    eventually("it is served again", || (server.get("/a.php").text() == "fine").then_some(()));
    eventually("nothing is wrong any more", || problem().is_none().then_some(()));
}
