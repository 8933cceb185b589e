//! Workers and prototypes that keep dying cost neither processor time nor a flood in the log.

use std::time::{Duration, Instant};

use harness::{Site, eventually, processes};
use rustix::process::Signal;

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
    let told = log.matches("was killed by signal 9").count();
    // A worker that the busy machine lets live for a second begins another loop.
    assert!((1..=4).contains(&told), "a loop is told once:\n{log}");
    assert_eq!(server.get("/a.php").text(), "fine", "it goes on when they live");
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
