//! Processes that scripts start: programs in the foreground and the background, copies of
//! themselves, and as many of them as they can.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use harness::time::Stopwatch;
use harness::{Server, Site, eventually, processes, users};
use rustix::process::Signal;
use serde_json::json;

/// Processes that the user of the bomb may have.
const MOST: usize = 60;

/// Processes of a user that run.
fn processes_of(user: u32) -> Vec<u32> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| fs::metadata(format!("/proc/{pid}")).is_ok_and(|m| m.uid() == user))
        .filter(|pid| processes::is_alive(*pid))
        .collect()
}

/// Two applications, of which one has a user of its own, so that its processes can be counted, and
/// may have few. Returns the user's id too.
fn two_applications(code: &str) -> Option<(Server, u32)> {
    let site = Site::script("bomb.php", code).file("fine.php", "<?php usleep(1000); echo 'fine';");
    let bomb = json!({
        "type": "php", "root": site.root(), "user": users::NAME, "processes": 1,
        "limits": {"timeout": 1, "rlimits": {"nproc": MOST}},
        "environment": {"TMPDIR": "/tmp", "DATA": site.data()},
    });
    let routes = json!([
        {"match": {"uri": "/bomb.php"}, "action": {"pass": "applications/bomb"}},
        {"action": {"pass": "applications/site"}},
    ]);
    let (site, user) = users::site_with_own_user(site)?;
    Some((site.with(json!({"routes": routes, "applications": {"bomb": bomb}})).serve(), user))
}

/// Number of processes of an application that is complete: a prototype and a worker.
fn all_there(user: u32) -> usize {
    eventually("there are a prototype and a worker", || {
        Some(processes_of(user).len()).filter(|count| *count == 2)
    })
}

/// All that the first application was answered while the other one does its worst.
fn meanwhile(server: &Server, until: impl Fn() -> bool) {
    let begun = Instant::now();
    let mut slowest = Duration::ZERO;
    while !until() {
        let asked = Stopwatch::start();
        assert_eq!(server.get("/fine.php").text(), "fine");
        slowest = slowest.max(asked.elapsed());
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not end");
    }
    println!("slowest answer of the other application: {slowest:?}");
}

#[test]
fn a_fork_bomb_ends_with_its_script_and_harms_nobody_else() {
    let Some((server, user)) = two_applications("while (true) { pcntl_fork(); }") else { return };
    let own = all_there(user);
    std::thread::scope(|scope| {
        let bomb = scope.spawn(|| {
            let begun = Instant::now();
            let response = server.get("/bomb.php");
            (response.status, begun.elapsed())
        });
        meanwhile(&server, || bomb.is_finished());
        let (status, took) = bomb.join().unwrap();
        assert_eq!(status, 504);
        println!("answered after {took:?}");
    });
    eventually("its processes are gone", || {
        let left = processes_of(user).len();
        assert!(left <= MOST, "{left} processes");
        (left <= own).then_some(())
    });
    assert!(processes::is_alive(server.supervisor()));
}

#[test]
fn a_fork_bomb_of_shells_that_left_the_worker_ends_with_the_application() {
    // Each shell starts two in sessions of their own and is gone.
    let code = "$s = getenv('DATA') . '/bomb';
        file_put_contents($s, \"setsid sh $s & setsid sh $s & wait\\n\");
        exec(\"setsid sh $s > /dev/null 2>&1 &\"); usleep(500000);";
    let Some((server, user)) = two_applications(code) else { return };
    let own = all_there(user);
    let _ = server.get("/bomb.php");
    eventually("it goes on after its script", || (processes_of(user).len() > 10).then_some(()));
    let begun = Instant::now();
    meanwhile(&server, || begun.elapsed() > Duration::from_millis(300));
    // The prototype is killed: only the supervisor is left to end the processes that it has
    // adopted.
    let prototypes: Vec<_> = server
        .processes()
        .into_iter()
        .filter(|process| process.title.contains("\"bomb\" prototype"))
        .collect();
    prototypes.iter().for_each(|process| processes::signal(process.pid, Signal::KILL));
    eventually("its processes are gone", || (processes_of(user).len() <= own).then_some(()));
    let (_, _site) = server.end(Signal::TERM);
    eventually("all are gone", || processes_of(user).is_empty().then_some(()));
}

#[test]
fn what_a_script_leaves_running_goes_on_until_its_application_ends() {
    let code = "file_put_contents(getenv('DATA') . '/pid',
        exec('setsid sleep 300 > /dev/null 2>&1 & echo $!')); echo getmypid();";
    let server = Site::script("a.php", code).workers(1).with(json!({})).serve();
    let worker: u32 = server.get("/a.php").text().parse().unwrap();
    let background: u32 = server.data("pid").trim().parse().unwrap();
    // The process survives the end of the request and that of the worker.
    processes::signal(worker, Signal::KILL);
    eventually("there is another worker", || {
        server.running_workers().iter().any(|pid| *pid != worker).then_some(())
    });
    assert!(processes::is_alive(background));
    let (_, _site) = server.end(Signal::TERM);
    eventually("it ends with the server", || (!processes::is_alive(background)).then_some(()));
}
