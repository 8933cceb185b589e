//! Messages of scripts in the log: one record for each message, whole, with the request it is
//! about; and one for all that a request writes to standard output and error.

use std::thread;
use std::time::{Duration, Instant};

use harness::{Server, Site, eventually};
use rustix::process::Signal;
use serde_json::json;

#[test]
fn a_message_of_a_script_is_one_record_with_request_and_worker_however_long_it_is() {
    let script = "error_log(str_repeat(\"a line of a message\\n\", 20000) . 'its end');
        echo getmypid();";
    let server = Site::script("a.php", script).with(json!({})).serve();
    let pid = server.get("/a.php?x=1").text();
    let log = server.wait_for_log("its end");
    let begin = log.find(&format!(" {pid}#{pid} \"site\" request ")).expect("a record");
    let record = &log[begin..];
    let head = record.lines().next().unwrap();
    assert!(head.contains(&format!(" {pid}#{pid} \"site\" request ")), "{head}");
    assert!(head.contains(": GET /a.php?x=1 (") && head.ends_with("a line of a message"), "{head}");
    assert_eq!(record.matches("\n    a line of a message").count(), 19999);
    assert!(record.contains("\n    its end\n"));
}

#[test]
fn an_uncaught_exception_is_one_record_with_its_trace() {
    let script = "function f() { throw new LogicException(\"two\\nlines\"); } f();";
    let server = Site::script("a.php", script).with(json!({})).serve();
    assert_eq!(server.get("/a.php").status, 500);
    let log = server.wait_for_log("thrown in");
    let record = log.lines().skip_while(|line| !line.contains("LogicException"));
    let lines: Vec<_> = record.collect();
    assert!(lines[0].contains("\"site\" request ") && lines[0].ends_with("two"), "{lines:?}");
    assert!(lines[1..6].iter().all(|line| line.starts_with("    ")), "{lines:?}");
}

#[test]
fn a_message_is_in_the_log_while_its_script_runs_and_cuts_no_response() {
    let script = "echo str_repeat('a', 5000); error_log('a message'); echo $no_such_variable;
        while (!file_exists(getenv('DATA') . '/go')) usleep(1000);
        echo 'the end';";
    let server = Site::script("a.php", script).with(json!({})).serve();
    let mut client = server.connect();
    client.send("GET /a.php HTTP/1.0\r\n\r\n");
    server.wait_for_log(": a message");
    server.wait_for_log("Undefined variable $no_such_variable");
    std::fs::write(server.site.data().join("go"), "").unwrap();
    let response = client.response();
    assert!(response.text().ends_with("aathe end"));
    // The length is known only if the response was not begun before its end.
    assert_eq!(response.field("Content-Length"), Some("5007"));
}

#[test]
fn messages_are_not_lost_with_a_worker_that_is_killed() {
    let script = "echo str_repeat('a', 5000); error_log('last words');
        error_log(str_repeat('b', 100000) . 'and long ones');
        posix_kill(getmypid(), SIGKILL);";
    let server = Site::script("a.php", script).with(json!({})).serve();
    assert_eq!(server.get("/a.php?killed").status, 502);
    for words in [": last words", "bband long ones"] {
        let log = server.wait_for_log(words);
        let line = log.lines().find(|line| line.contains(words)).unwrap();
        assert!(line.contains(": GET /a.php?killed ("), "{line}");
    }
}

#[test]
fn messages_are_not_lost_with_a_script_that_exceeds_its_time() {
    // The last ones are written while the worker is being killed.
    let script = "error_log('first words');
        for ($n = 1; true; $n++) {
            usleep(2000);
            error_log(\"word $n\");
            file_put_contents(getenv('DATA') . '/words', '.', FILE_APPEND);
        }";
    let limits = json!({"applications": {"site": {"limits": {"timeout": 1}}}});
    let server = Site::script("a.php", script).with(limits).serve();
    assert_eq!(server.get("/a.php").status, 504);
    let log = server.wait_for_log("exited on signal 9");
    let words = server.data("words").len();
    assert!(words > 0 && log.contains(": first words\n"), "{words}");
    server.wait_for_log(&format!(": word {words}\n"));
}

/// The records about output, as (head up to the text, text) with its lines as they were written.
fn records(server: &Server) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut within = false;
    for line in server.log().lines() {
        match (line.strip_prefix("    "), line.split_once(" output: ")) {
            (Some(more), _) if within => {
                let (_, text) = found.last_mut().unwrap();
                text.push('\n');
                text.push_str(more);
            }
            (None, Some((head, text))) => {
                within = true;
                found.push((head.to_owned(), text.to_owned()));
            }
            _ => within = false,
        }
    }
    found
}

#[test]
fn what_a_request_writes_to_standard_error_is_one_record_with_request_and_worker() {
    let script = "file_put_contents('php://stderr', \"one\\n\");
        usleep(20000);
        exec('echo two > /proc/self/fd/2; echo three >&2; sh -c \"echo four >&2\"');
        file_put_contents('php://stdout', \"five\\n\");
        echo getmypid();";
    let server = Site::script("a.php", script).with(json!({})).serve();
    let pid = server.get("/a.php?x=1").text();
    server.wait_for_log("five");
    let records = records(&server);
    assert_eq!(records.len(), 1, "{records:?}");
    let (head, text) = &records[0];
    assert!(head.contains(&format!("[error] {pid}#{pid} \"site\" request ")), "{head}");
    assert!(head.contains(": GET /a.php?x=1 ("), "{head}");
    assert_eq!(text, "one\ntwo\nthree\nfour\nfive");
}

#[test]
fn the_output_of_requests_that_run_at_the_same_time_is_never_mixed() {
    // Some write a little just before they end, when the next request is already waiting for their
    // worker; some write more than a pipe holds.
    let script = "$n = (int) $_GET['n'];
        if ($n % 3 == 0) return;
        for ($i = 0; $i < ($n % 7 ? 3 : 3000); $i++)
            file_put_contents('php://stderr', \"request $n line $i of several\\n\");";
    let server = Site::script("a.php", script).workers(2).serve();
    const CLIENTS: usize = 4;
    const REQUESTS: usize = 100;
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let mut connection = server.connect();
            scope.spawn(move || {
                for n in (0..REQUESTS).map(|n| n * CLIENTS + client) {
                    assert_eq!(connection.get(&format!("/a.php?n={n}")).status, 200);
                }
            });
        }
    });
    let writing: Vec<_> = (0..CLIENTS * REQUESTS).filter(|n| n % 3 != 0).collect();
    let count = |n: &usize| if n.is_multiple_of(7) { 3000 } else { 3 };
    let lines: usize = writing.iter().map(count).sum();
    let found = harness::eventually("each request that writes has its whole record", || {
        let found = records(&server);
        let come: usize = found.iter().map(|(_, text)| text.lines().count()).sum();
        (come >= lines && server.log().ends_with('\n')).then_some(found)
    });
    assert_eq!(found.len(), writing.len());
    for n in writing {
        let name = format!(": GET /a.php?n={n} (");
        let (_, text) = found.iter().find(|(head, _)| head.contains(&name)).expect(&name);
        let line = |i| format!("request {n} line {i} of several");
        let lines: Vec<_> = (0..count(&n)).map(line).collect();
        assert!(text.lines().eq(lines), "{name} has written {text}");
    }
}

#[test]
fn a_megabyte_is_one_record_and_more_is_several_that_say_so() {
    let script = "$line = str_repeat('x', 99);
        for ($i = 0; $i < $_GET['lines']; $i++) file_put_contents('php://stderr', \"$line\\n\");
        file_put_contents('php://stderr', \"its end\\n\");";
    let server = Site::script("a.php", script).workers(1).serve();
    server.get("/a.php?lines=10000");
    server.wait_for_log("its end");
    let first = records(&server);
    assert_eq!(first.len(), 1);
    assert_eq!(first[0].1.len(), 10000 * 100 + "its end".len());
    server.get("/a.php?lines=30000");
    server.wait_for_log(", the last: ");
    let log = harness::eventually("all of it has come", || {
        Some(server.log()).filter(|log| log.matches("its end\n").count() == 2)
    });
    let parts: Vec<_> = log.lines().filter(|line| line.contains("?lines=30000 (")).collect();
    assert!(parts[0].contains("): output, part 1: xxx"), "{}", parts[0]);
    assert!(parts.iter().rev().take(1).all(|part| part.contains("the last: ")));
    assert_eq!(log.matches(&"x".repeat(99)).count(), 40000);
}

#[test]
fn what_a_program_in_the_background_writes_later_has_no_request() {
    let script = "exec(\"sh -c 'sleep 1; echo later >&2; echo and more >&2' > /dev/null &\");
        file_put_contents('php://stderr', 'at once');
        echo getmypid();";
    let server = Site::script("a.php", script).workers(1).serve();
    let pid = server.get("/a.php").text();
    let log = server.wait_for_log("and more");
    let line = log.lines().find(|line| line.contains("later")).unwrap();
    let expected = format!("[error] {pid}#{pid} \"");
    assert!(line.contains(&expected) && line.contains("\" application output: later"), "{line}");
    let line = log.lines().find(|line| line.contains("at once")).unwrap();
    assert!(line.contains("GET /a.php ("), "{line}");
}

#[test]
fn what_a_worker_has_written_before_it_is_killed_is_logged_with_its_request() {
    let script = "file_put_contents('php://stderr', \"last words\\n\");
        file_put_contents(getenv('DATA') . '/pid', getmypid());
        sleep(60);";
    let server = Site::script("a.php", script).workers(1).with(json!({})).serve();
    let mut client = server.connect();
    client.send("GET /a.php?killed HTTP/1.1\r\nHost: a\r\n\r\n");
    let pid = harness::eventually("the script runs", || server.data("pid").parse().ok());
    harness::processes::signal(pid, Signal::KILL);
    assert_eq!(client.response().status, 502);
    let log = server.wait_for_log("last words");
    let line = log.lines().find(|line| line.contains("last words")).unwrap();
    assert!(line.contains("GET /a.php?killed ("), "{line}");
}

#[test]
fn a_flood_on_standard_error_delays_nobody_and_keeps_no_worker() {
    let script = "$piece = str_repeat(str_repeat('f', 99) . \"\\n\", 100);
        for ($i = 0; $i < 1000; $i++) file_put_contents('php://stderr', $piece);
        echo 'flooded';";
    let site = Site::script("flood.php", script).file("a.php", "<?php echo 'fine';");
    let server = site.workers(2).serve();
    let mut flood = server.connect();
    flood.send("GET /flood.php HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut client = server.connect();
    for _ in 0..50 {
        assert_eq!(client.get("/a.php").text(), "fine");
    }
    assert_eq!(flood.response().text(), "flooded");
    assert_eq!(flood.get("/a.php").text(), "fine");
}

#[test]
fn a_script_that_floods_the_log_waits_and_loses_nothing() {
    // 16 MiB are four seconds at the rate at which an application may write, apart from the burst.
    let floods = [
        "for ($n = 0; $n < 4096; $n++) error_log($n . str_repeat(' word', 800) . ' END');",
        "$error = fopen('php://stderr', 'w');
         for ($n = 0; $n < 4096; $n++) fwrite($error, $n . str_repeat(' word', 800) . \" \
         END\\n\");",
    ];
    for flood in floods {
        let site = Site::script("a.php", &format!("{flood} echo 'over';"));
        let server = site.file("b.php", "<?php echo 1;").workers(2).serve();
        let begun = Instant::now();
        thread::scope(|scope| {
            let flood = scope.spawn(|| server.get("/a.php").text());
            for _ in 0..50 {
                assert_eq!(server.get("/b.php").text(), "1");
            }
            assert_eq!(flood.join().unwrap(), "over");
        });
        assert!(begun.elapsed() > Duration::from_secs(3), "{:?}", begun.elapsed());
        eventually("all of it is in the log", || {
            (server.log().matches(" word END").count() == 4096).then_some(())
        });
    }
}

#[test]
fn long_targets_and_dying_workers_do_not_lift_the_limit_of_the_log() {
    // Each record has the target in it, and the records of a dead worker are taken at once.
    let script =
        "if (pcntl_fork() === 0) { usleep(300000); posix_kill(posix_getppid(), SIGKILL); exit; }
        while (true) error_log('x');";
    let server = Site::script("a.php", script).workers(2).with(json!({})).serve();
    let target = format!("/a.php?{}", "y".repeat(7000));
    let begun = Instant::now();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| server.get(&target));
        }
    });
    let written = server.log().len();
    let allowed = (begun.elapsed().as_secs_f64() * 4.0 + 2.0 + 1.0) * 1024.0 * 1024.0;
    assert!(written > 1 << 20, "{written} bytes");
    assert!((written as f64) < allowed, "{written} bytes of {allowed}");
}

#[test]
fn what_the_first_request_of_a_new_worker_writes_is_its_own_too() {
    let script = "file_put_contents('php://stderr', \"request $_GET[n]\\n\");";
    let limits = json!({"applications": {"site": {"limits": {"requests": 1}}}});
    let server = Site::script("a.php", script).with(limits).serve();
    let mut client = server.connect();
    (0..100).for_each(|n| assert_eq!(client.get(&format!("/a.php?n={n}")).status, 200));
    let found = harness::eventually("each request has its record", || {
        let found = records(&server);
        (found.len() >= 100).then_some(found)
    });
    for (head, text) in &found {
        let n = text.strip_prefix("request ").expect("its text");
        assert!(head.contains(&format!(": GET /a.php?n={n} (")), "{head}: {text}");
    }
    assert_eq!(found.len(), 100);
}

#[test]
fn what_an_application_has_a_file_for_goes_there() {
    let script = "file_put_contents('php://stderr', \"to the file\\n\");
        exec('echo to the file too >&2');
        file_put_contents('php://stdout', \"to the log\\n\");";
    let site = Site::script("a.php", script);
    let file = site.data().join("stderr");
    let server = site.with(json!({"applications": {"site": {"stderr": file}}})).serve();
    assert_eq!(server.get("/a.php").status, 200);
    let log = server.wait_for_log("to the log");
    assert!(log.contains("GET /a.php (") && !log.contains("to the file"), "{log}");
    assert_eq!(server.data("stderr"), "to the file\nto the file too\n");
}

/// A script that writes to the log without end would fill the disk of all sites.
#[test]
fn a_site_that_floods_the_log_is_cut_off_and_others_are_heard() {
    let site = Site::script(
        "flood.php",
        "while (!file_exists(getenv('DATA') . '/stop')) error_log(str_repeat('f', 8000));",
    );
    let site = site.file("other.php", "<?php error_log('of the other one'); echo 'served';");
    let application = |script: &str| {
        json!({"type": "php", "root": site.root(), "script": script,
        "processes": 1})
    };
    let document = json!({
        "applications": {"site": application("flood.php"), "other": application("other.php")},
        "routes": [
            {"match": {"uri": "/other"}, "action": {"pass": "applications/other"}},
            {"action": {"pass": "applications/site"}},
        ],
    });
    let server = site.with(document).serve();
    let mut flood = server.connect();
    flood.send("GET /flood HTTP/1.1\r\nHost: a\r\n\r\n");
    let size = || std::fs::metadata(server.site.log_path()).unwrap().len();
    let closed = || {
        server
            .log()
            .contains("application \"site\" writes too much for the log: its lines are left out")
    };
    eventually("the flood is cut off", || (size() > 4 << 20 && closed()).then_some(()));
    assert!(size() < 20 << 20, "{}", size());
    assert_eq!(server.get("/other").text(), "served");
    eventually("the other is heard", || server.log().contains("of the other one").then_some(()));
    eventually("what was left out is counted", || {
        let log = server.log();
        let line = log
            .lines()
            .find(|line| line.contains(" lines of application \"site\" were left out"))?;
        line.contains("[warn]").then_some(())
    });
    std::fs::write(server.site.data().join("stop"), "").unwrap();
    flood.response();
}
