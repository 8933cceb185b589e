//! Workers and prototypes that keep dying cost neither processor time nor a flood in the log.

use std::time::{Duration, Instant};

use harness::{Site, eventually, processes};
use rustix::process::Signal;
use serde_json::json;

#[test]
fn a_script_that_kills_its_worker_costs_its_own_request_each_time() {
    let server = Site::script("a.php", "posix_kill(getmypid(), SIGKILL);")
        .file("b.php", "<?php echo 'fine';")
        .workers(2)
        .serve();
    let begun = Instant::now();
    for _ in 0..40 {
        assert_eq!(server.get("/a.php").status, 502);
        assert_eq!(server.get("/b.php").text(), "fine");
    }
    println!("forty deaths took {:?}", begun.elapsed());
    let log = server.log();
    assert!(log.lines().count() < 40 * 4 + 10, "a few lines for each death, no flood:\n{log}");
}

#[test]
fn workers_that_die_without_a_request_are_replaced_ever_more_slowly() {
    let server = Site::script("a.php", "echo 'fine';").workers(1).serve();
    let end = Instant::now() + Duration::from_secs(3);
    let mut killed = std::collections::HashSet::new();
    while Instant::now() < end {
        for pid in server.running_workers() {
            processes::signal(pid, Signal::KILL);
            killed.insert(pid);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let log = server.log();
    assert!((1..150).contains(&killed.len()), "{} workers within 3 s:\n{log}", killed.len());
    let told = log.matches("exited on signal 9").count();
    // A worker that the busy machine lets live for a second begins another loop.
    assert!((1..=4).contains(&told), "a loop is told once:\n{log}");
    assert_eq!(server.get("/a.php").text(), "fine", "it goes on when they live");
}

#[test]
fn the_messages_of_a_start_that_fails_again_and_again_are_logged_once_and_then_on_change() {
    let site = Site::script("a.php", "echo 'fine';");
    let (preload, tries) = (site.root().join("preload.php"), site.data().join("tries"));
    let script = |function: &str| {
        let tries = tries.display();
        let code = format!("<?php file_put_contents('{tries}', 'x', FILE_APPEND); {function}();");
        std::fs::write(&preload, code).unwrap();
        harness::open_to_all(&preload, 0o644);
    };
    script("first");
    let options = json!({"admin": {"opcache.preload": preload, "opcache.enable": "1"}});
    let other = json!({"type": "php", "root": site.root(), "script": "a.php", "processes": 1,
        "options": options});
    let changes = json!({"applications": {"other": other}});
    let server = site.with(changes).serve();
    let tried = |times| {
        let begun = std::fs::metadata(&tries).map_or(0, |file| file.len());
        eventually("it is tried again", || {
            (std::fs::metadata(&tries).ok()?.len() >= begun + times).then_some(())
        });
    };
    tried(4);
    script("second");
    tried(3);
    let log = server.wait_for_log("undefined function second()");
    let is_output = |line: &&str| line.contains("\"other\" application output: PHP Fatal error: ");
    let lines: Vec<_> = log.lines().filter(is_output).collect();
    let count = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    assert_eq!((count("undefined function first()"), count("function second()")), (1, 1), "{log}");
    assert_eq!(server.get("/a.php").text(), "fine");
}

#[test]
fn a_prototype_that_keeps_dying_does_not_flood_the_log() {
    let server = Site::script("a.php", "echo 'fine';").workers(1).serve();
    let end = Instant::now() + Duration::from_secs(4);
    let mut killed = std::collections::HashSet::new();
    while Instant::now() < end {
        for process in server.processes() {
            if process.title.ends_with("\" prototype") {
                processes::signal(process.pid, Signal::KILL);
                killed.insert(process.pid); // it may take a while to end
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!((1..12).contains(&killed.len()), "{killed:?} were started within 4 s");
    assert!(server.log().lines().count() < 40, "{}", server.log());
    eventually("PHP runs again", || (server.get("/a.php").text() == "fine").then_some(()));
}
