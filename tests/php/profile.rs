//! `howdah profile`: the stacks of a site's scripts while visitors come.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Command, Output, Stdio};

use harness::client::Client;
use harness::{Server, Site, eventually, programs};
use serde_json::json;

/// Computes three times as long in one function as in the other.
const SCRIPT: &str = r"<?php
    namespace Shop;
    class Cart {
        function three() { for ($i = 0; $i < 3000000; $i++) { $x = $i * 2; } }
        static function one() { for ($i = 0; $i < 1000000; $i++) { $x = $i * 2; } }
    }
    function both() { (new Cart)->three(); Cart::one(); }
    both();
    echo 'done';";

fn served(site: Site) -> Server {
    let address = format!("unix:{}", site.control_socket().display());
    site.argument("--control").argument(&address).serve()
}

fn profile(server: &Server, words: &[&str]) -> Child {
    let mut command = Command::new(programs::howdah());
    command.arg("profile").args(words).arg("--control");
    command.arg(format!("unix:{}", server.site.control_socket().display()));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Makes a profile, and calls `visit` until it has ended.
fn visited(server: &Server, words: &[&str], mut visit: impl FnMut()) -> Output {
    let mut child = profile(server, words);
    // Its output fits a pipe.
    while child.try_wait().unwrap().is_none() {
        visit();
    }
    child.wait_with_output().unwrap()
}

/// The ticks of stacks by their text, of as many profiles as it takes for `least` ticks.
fn stacks(server: &Server, words: &[&str], least: u64, visit: impl Fn()) -> BTreeMap<String, u64> {
    stacks_until(server, words, visit, |found| found.values().sum::<u64>() >= least)
}

/// The ticks of stacks by their text, of as many profiles as it takes until `is_enough`.
fn stacks_until(
    server: &Server,
    words: &[&str],
    visit: impl Fn(),
    is_enough: impl Fn(&BTreeMap<String, u64>) -> bool,
) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    eventually("there are samples", || {
        let words = [words, &["--format", "folded", "--seconds", "2"]].concat();
        let output = visited(server, &words, &visit);
        let text = String::from_utf8(output.stdout).unwrap();
        for line in text.lines() {
            let (stack, ticks) = line.rsplit_once(' ').unwrap();
            *found.entry(stack.to_owned()).or_insert(0) += ticks.parse::<u64>().unwrap();
        }
        is_enough(&found).then_some(())
    });
    found
}

/// The numbers of threads of the workers.
fn threads(server: &Server) -> Vec<usize> {
    let of = |pid: &u32| fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    server.workers().iter().map(of).collect()
}

/// The ticks in a function, with all that it calls.
fn within(stacks: &BTreeMap<String, u64>, function: &str) -> u64 {
    let has = |stack: &str| stack.split(';').any(|call| call == function);
    stacks.iter().filter(|(stack, _)| has(stack)).map(|(_, ticks)| ticks).sum()
}

/// The ticks of as many profiles as it takes until their shares are about right. On a busy machine,
/// the thread that ticks waits for its turn, and one stack gets all ticks of that time.
fn about_three_to_one(
    server: &Server,
    words: &[&str],
    root: &str,
    visit: impl Fn(),
) -> BTreeMap<String, u64> {
    let stacks = stacks_until(server, words, visit, |stacks| {
        let all: u64 = stacks.values().sum();
        let [three, one] =
            ["Shop\\Cart::three", "Shop\\Cart::one"].map(|name| within(stacks, name));
        all >= 200 && three + one > all / 2 && three > one && three < 9 * one
    });
    let below = format!("{root};Shop\\both;Shop\\Cart::three");
    assert!(stacks.keys().any(|stack| stack.ends_with(&below)), "{below}: {stacks:?}");
    stacks
}

#[test]
fn processor_time_is_found_where_it_is_spent_by_scripts_and_not_in_other_sites() {
    let site = Site::new().file("index.php", SCRIPT).file("other.php", SCRIPT);
    let server = served(site);
    let other = server.site.root().join("other.php");
    let mut document = server.control("GET", "/config", "").succeeded();
    let application = document["applications"]["site"].clone();
    document["applications"]["other"] = application;
    let listener = harness::free_address();
    document["listeners"][listener.to_string()] = json!({"pass": "applications/other"});
    server.put("/config", &document);
    let root = format!("{{main}} {}", server.site.root().join("index.php").display());
    let visit = || {
        assert_eq!(server.get("/").text(), "done");
        let mut client = Client::connect(listener);
        client.send("GET /other.php HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert_eq!(client.response().text(), "done");
    };
    let found = about_three_to_one(&server, &["site", "--cpu"], &root, visit);
    let others = other.display().to_string();
    assert!(!found.keys().any(|stack| stack.contains(&others)), "{found:?}");
    let log = server.wait_for_log("/control/applications/site/profile: done");
    assert!(log.contains("POST"), "{log}");
}

#[test]
fn a_profile_has_its_own_thread_in_the_workers_of_the_site_only_while_it_is_made() {
    let site = Site::new().file("index.php", SCRIPT).workers(1);
    let server = served(site);
    let threads = || threads(&server);
    assert_eq!(server.get("/").status, 200);
    assert_eq!(threads(), [1]);
    let mut child = profile(&server, &["site", "--seconds", "3", "--format", "folded"]);
    eventually("the worker has a thread for the clock", || {
        assert_eq!(server.get("/").status, 200);
        (threads() == [2]).then_some(())
    });
    let _ = child.wait();
    eventually("the thread has ended", || (threads() == [1]).then_some(()));
    assert_eq!(server.get("/").status, 200);
    assert_eq!(threads(), [1]);
}

#[test]
fn a_profile_ends_with_its_client_and_the_next_one_has_its_own_clock() {
    let site = Site::new().file("index.php", "<?php usleep(300000); echo 'done';").workers(1);
    let server = served(site);
    let visit = || assert_eq!(server.get("/").text(), "done");
    let mut left = profile(&server, &["site", "--cpu", "--seconds", "300"]);
    eventually("the worker is profiled", || {
        visit();
        (threads(&server) == [2]).then_some(())
    });
    left.kill().unwrap();
    left.wait().unwrap();
    let next = eventually("the profile has ended", || {
        let output = visited(&server, &["site", "--seconds", "2", "--format", "folded"], visit);
        let said = String::from_utf8_lossy(&output.stderr);
        (!said.contains("another profile")).then_some(output)
    });
    // The thread of the first profile still sleeps: the script takes no processor time.
    assert!(next.status.success(), "{next:?}");
    server.wait_for_log("profile: the client has left");
}

#[test]
fn a_profile_whose_client_leaves_has_no_thread_any_more() {
    let script = "<?php for ($end = time() + ($_GET['s'] ?? 0); time() < $end; ) usleep(1000);";
    let server = served(Site::new().file("index.php", script).workers(2));
    let mut left = profile(&server, &["site", "--seconds", "300"]);
    eventually("a worker is profiled", || {
        assert_eq!(server.get("/").status, 200);
        threads(&server).contains(&2).then_some(())
    });
    // One worker runs a script to the end of the test, the other one waits for requests.
    let mut client = server.connect();
    client.send("GET /?s=600 HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("both workers are profiled", || {
        assert_eq!(server.get("/").status, 200);
        (threads(&server) == [2, 2]).then_some(())
    });
    left.kill().unwrap();
    left.wait().unwrap();
    eventually("the threads have ended", || (threads(&server) == [1, 1]).then_some(()));
}

#[test]
fn scripts_in_worker_mode_have_profiles_of_both_clocks() {
    let script = format!(
        "{}\nwhile (\\frankenphp_handle_request(function () {{ both(); echo 'done'; }}));",
        SCRIPT.split("both();\n    echo").next().unwrap()
    );
    let site = Site::new().file("worker.php", script).with(json!({
        "routes": [{"action": {"pass": "applications/site"}}],
        "applications": {"site": {"script": "worker.php", "worker": true}},
    }));
    let server = served(site);
    let closure = |stack: &String| stack.contains("frankenphp_handle_request;Shop\\{closure:");
    for clock in [&["site", "--cpu"][..], &["site"]] {
        let visit = || assert_eq!(server.get("/").text(), "done");
        let found = about_three_to_one(&server, clock, "", visit);
        assert!(programs::php_is_at_least(8, 4) || found.keys().any(closure), "{found:?}");
    }
}

#[test]
fn only_requests_below_the_url_are_in_the_profile() {
    let site = Site::new()
        .file("a.php", "<?php function a() { for ($i = 0; $i < 1000000; $i++) { $x = $i; } } a();")
        .file("b.php", "<?php function b() { for ($i = 0; $i < 1000000; $i++) { $x = $i; } } b();");
    let server = served(site);
    let visit = || {
        assert_eq!(server.get("/b.php").status, 200);
        assert_eq!(server.get("/a.php?x").status, 200);
    };
    let found = stacks(&server, &["site", "--url", "/a.php"], 20, visit);
    assert!(within(&found, "a") > 0 && within(&found, "b") == 0, "{found:?}");
}

#[test]
fn the_ending_of_the_file_chooses_the_format() {
    let site = Site::new().file("index.php", SCRIPT);
    let server = served(site);
    let data = server.site.data();
    for (name, start) in [
        ("a.svg", &b"<?xml version=\"1.0\""[..]),
        ("a.json", b"{\"$schema\":\"https://www.speedscope.app/"),
        ("a.pb.gz", b"\x1f\x8b"),
        ("a.folded", b"{main} "),
    ] {
        let file = data.join(name);
        let output = file.to_str().unwrap();
        eventually("there are samples", || {
            let words = ["site", "--seconds", "1", "--output", output];
            let done = visited(&server, &words, || assert_eq!(server.get("/").status, 200));
            done.status.success().then_some(())
        });
        let bytes = fs::read(&file).unwrap();
        assert!(bytes.starts_with(start), "{name}: {:?}", String::from_utf8_lossy(&bytes));
    }
    if let Ok(found) = Command::new("python3")
        .args(["-c", "import sys, xml.dom.minidom as m; m.parse(sys.argv[1])"])
        .arg(data.join("a.svg"))
        .output()
    {
        assert!(found.status.success(), "{found:?}");
    }
}

#[test]
fn time_limits_signals_and_sleep_of_scripts_are_as_without_a_profile() {
    let site = Site::new()
        .file(
            "limit.php",
            "<?php register_shutdown_function(function () { echo error_get_last()['message']; });
             ini_set('display_errors', '0'); set_time_limit(1); while (true) { $x = 1; }",
        )
        .file(
            "signal.php",
            "<?php if (!function_exists('pcntl_signal')) { die('12'); }
             pcntl_async_signals(true);
             pcntl_signal(SIGPROF, function () { echo '1'; });
             posix_kill(getmypid(), SIGPROF);
             for ($i = 0; $i < 300000; $i++) { $x = $i; }
             echo '2';",
        )
        .file(
            "sleep.php",
            "<?php $begun = hrtime(true); usleep(200000); echo sleep(1);
             echo hrtime(true) - $begun >= 1200000000 ? 'slept' : 'woken';",
        );
    let server = served(site);
    for clock in [&["--cpu"][..], &[]] {
        let words = [&["site", "--seconds", "5", "--format", "folded"], clock].concat();
        eventually("there are samples", || {
            let done = visited(&server, &words, || {
                let limited = server.get("/limit.php").text();
                let message = "Maximum execution time of 1 second exceeded";
                assert!(limited.contains(message), "{limited}");
                assert_eq!(server.get("/signal.php").text(), "12");
                assert_eq!(server.get("/sleep.php").text(), "0slept");
            });
            done.status.success().then_some(())
        });
    }
}

#[test]
fn what_cannot_be_profiled_is_told() {
    let site = Site::new().file("index.php", SCRIPT);
    let server = served(site);
    let failed = |words: &[&str], status: i32| {
        let output = profile(&server, words).wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let none = failed(&["blog"], 1);
    assert!(none.contains("the configuration has no application \"blog\""), "{none}");
    let idle = failed(&["site", "--seconds", "1", "--url", "/x"], 1);
    assert!(idle.contains("no script of \"site\" has begun to run for /x"), "{idle}");
    // A refused profile takes no former one away, and leaves no file.
    let [former, new] = ["former.svg", "new.svg"].map(|name| server.site.data().join(name));
    fs::write(&former, "kept").unwrap();
    for file in [&former, &new] {
        failed(&["blog", "--output", file.to_str().unwrap()], 1);
    }
    assert_eq!(fs::read_to_string(&former).unwrap(), "kept");
    assert!(!new.exists());
    failed(&["site", "--seconds", "301"], 2);
    failed(&["site", "--url", "x"], 2);
    eventually("one of two is refused", || {
        let both = [(); 2].map(|()| profile(&server, &["site", "--seconds", "3"]));
        let said = both.map(|child| child.wait_with_output().unwrap().stderr);
        let said = said.map(|text| String::from_utf8_lossy(&text).into_owned());
        said.iter().any(|text| text.contains("another profile of it is being made")).then_some(())
    });
}
