//! System calls per request, as strace counts them: a slow-down that shows without a stopwatch.
//!
//! A bound that has become too high is lowered; raising one needs a reason.
//!
//! Alone in its process: beside other tests, fewer requests would find all workers asleep.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use harness::client::Client;
use harness::{Server, Site, programs, requirements};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

/// Counts of which the least decides.
const COUNTS: usize = 5;

const REQUESTS: usize = 100;

/// Calls that happen once for a connection are not counted for requests; and where other processes
/// want the processors, a thread may be woken a few times more. One call more for each request
/// would be a hundred.
const ONCE: usize = 30;

/// Calls that happen once a second are not counted for requests either (timers, a look at the file
/// on the way that leads to it). On a busy machine, a hundred requests take many seconds.
const EACH_SECOND: usize = 10;

/// strace over all threads of one process.
struct Trace {
    strace: Child,
    stderr: BufReader<ChildStderr>,
    lines: String,
}

impl Trace {
    /// Begins to count; `None` if this machine does not let one process trace another.
    fn begin(pid: u32) -> Option<Trace> {
        let mut command = Command::new("strace");
        command.args(["-f", "-c", "-U", "calls,name", "-p", &pid.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut strace = command.spawn().expect("strace is installed (`make test-setup`)");
        let mut stderr = BufReader::new(strace.stderr.take().expect("it is piped"));
        let mut lines = String::new();
        stderr.read_line(&mut lines).unwrap();
        if lines.contains("attached") {
            return Some(Trace { strace, stderr, lines });
        }
        strace.wait().unwrap();
        requirements::skipped(format!("processes cannot be traced here: {}", lines.trim()));
        None
    }

    /// Ends it; how often each call was made.
    fn end(mut self) -> BTreeMap<String, usize> {
        let pid = Pid::from_child(&self.strace);
        kill_process(pid, Signal::INT).unwrap();
        self.lines.clear();
        while self.stderr.read_line(&mut self.lines).unwrap() > 0 {}
        self.strace.wait().unwrap();
        let rows = self.lines.lines().filter_map(|line| line.trim().split_once(' '));
        // A thread that looks for the next request before it sleeps leaves the processor to others:
        // rarely, as no request comes in time here.
        rows.filter_map(|(calls, name)| Some((name.trim().to_owned(), calls.parse().ok()?)))
            .filter(|(name, _)| name != "total" && name != "sched_yield")
            .collect()
    }
}

/// Serves a file and a script that both caches have taken.
fn warm_server() -> Server {
    let site = Site::new()
        .file("small.txt", "Hello, world!")
        .file("hello.php", "<?php echo 'Hello, world!';")
        .workers(1);
    // OPcache does not keep files that were changed within two seconds.
    let past = SystemTime::now() - Duration::from_secs(3600);
    for name in ["small.txt", "hello.php"] {
        let file = File::options().write(true).open(site.root().join(name)).unwrap();
        file.set_modified(past).unwrap();
    }
    let server = site.serve();
    server.workers();
    let mut client = server.connect();
    // Nor does the router keep files that were changed within two seconds, counted in whole ones.
    let written = Instant::now();
    while written.elapsed() < Duration::from_secs(4) {
        one_by_one(&mut client, "/small.txt", 1);
        one_by_one(&mut client, "/hello.php", 1);
        sleep(Duration::from_millis(300));
    }
    server
}

/// Serves a file in the root and one below four directories, in a site whose directories have these
/// `.htaccess` files.
fn warm_server_with_rules(rules: &[(&str, &str)]) -> Server {
    let mut site = Site::new();
    for name in RULED {
        site = site.file(name, "Hello, world!");
    }
    for (directory, rules) in rules {
        site = site.file(&format!("{directory}.htaccess"), rules);
    }
    let root = site.root();
    let past = SystemTime::now() - Duration::from_secs(3600);
    for name in RULED {
        let file = File::options().write(true).open(root.join(name)).unwrap();
        file.set_modified(past).unwrap();
    }
    let share = format!("{}$uri", root.display());
    let routes = json!([{"action": {"share": share, "htaccess": true}}]);
    let server = site.with(json!({"routes": routes})).serve();
    let mut client = server.connect();
    // The router does not keep files that were changed within two seconds, counted in whole ones.
    let written = Instant::now();
    while written.elapsed() < Duration::from_secs(4) {
        for name in RULED {
            one_by_one(&mut client, &format!("/{name}"), 1);
        }
        sleep(Duration::from_millis(300));
    }
    server
}

/// Files of sites with rules.
const RULED: [&str; 2] = ["small.txt", "a/b/c/d/small.txt"];

const WORDPRESS_RULES: &str = r"
<IfModule mod_rewrite.c>
RewriteEngine On
RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
RewriteBase /
RewriteRule ^index\.php$ - [L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule . /index.php [L]
</IfModule>
";

/// Requests that find all workers asleep, which is the dearest that they can be.
fn one_by_one(client: &mut Client, target: &str, count: usize) {
    for _ in 0..count {
        let response = client.get(target);
        assert_eq!((response.status, response.text().as_str()), (200, "Hello, world!"));
        sleep(Duration::from_millis(2));
    }
}

/// Calls of a process while a client makes its requests, and how many seconds have begun meanwhile;
/// `None` if they cannot be counted.
fn count(server: &Server, pid: u32, target: &str) -> Option<(BTreeMap<String, usize>, usize)> {
    let mut client = server.connect();
    one_by_one(&mut client, target, 2);
    let trace = Trace::begin(pid)?;
    let begun = Instant::now();
    // Threads attach one after the other.
    sleep(Duration::from_millis(300));
    one_by_one(&mut client, target, REQUESTS);
    let calls = trace.end();
    Some((calls, begun.elapsed().as_secs() as usize + 1))
}

/// Asserts that each request takes so many calls of a process. On a busy machine threads wake each
/// other more often, so the least of a few counts decides.
fn assert_at_most(server: &Server, pid: u32, target: &str, each: usize) {
    let mut counts = Vec::new();
    for _ in 0..COUNTS {
        let Some((calls, seconds)) = count(server, pid, target) else { return };
        let total: usize = calls.values().sum();
        assert!(total >= REQUESTS, "nothing was counted: {calls:?}");
        if total <= each * REQUESTS + ONCE + EACH_SECOND * seconds {
            return;
        }
        counts.push(format!("{total} system calls within {seconds} s: {calls:?}"));
    }
    panic!("for {REQUESTS} requests, at most {each} each: {}", counts.join("; "));
}

#[test]
fn a_small_file_on_a_kept_connection_takes_three_calls() {
    let server = warm_server();
    // epoll_wait, recvfrom, sendto.
    assert_at_most(&server, server.router(), "/small.txt", 3);
}

#[test]
fn a_script_takes_five_calls_of_a_router_that_sleeps() {
    let server = warm_server();
    // epoll_wait, recvfrom, futex to wake the worker; epoll_wait, sendto.
    assert_at_most(&server, server.router(), "/hello.php", 5);
}

#[test]
fn a_script_takes_seven_calls_of_a_worker_that_sleeps() {
    let server = warm_server();
    let worker = server.workers()[0];
    // To sleep, to wake the router, and for the processor time: futex, write, clock_gettime.
    // For the script: newfstatat. OPcache's lock: fcntl twice. Whether something lies in standard
    // error, which belongs to this request and not to the next one: ioctl.
    // From PHP 8.4 on, its memory manager asks at the end of a request whether the process was
    // forked, because it protects its lists with a random key: getpid.
    let of_newer_php = usize::from(programs::php_is_at_least(8, 4));
    assert_at_most(&server, worker, "/hello.php", 7 + of_newer_php);
}

/// Asserts that a file takes one call more than without rules, in the root and below four
/// directories.
fn assert_one_call_more(server: &Server) {
    for name in RULED {
        let target = format!("/{name}");
        let Some((calls, seconds)) = count(server, server.router(), &target) else { return };
        // epoll_wait, recvfrom, sendto, and read to ask what has changed on the disk. Once a
        // second, the directories on the way and their rules are compared with the disk, by each
        // thread.
        let extra = 2 * EACH_SECOND * seconds;
        let total: usize = calls.values().sum();
        let allowed = 4 * REQUESTS + ONCE + EACH_SECOND * seconds + extra;
        assert!(total <= allowed, "{total} system calls, {allowed} allowed: {calls:?}");
        let of = |name| calls.get(name).copied().unwrap_or_default();
        // The rules are neither opened nor read again, and nothing is looked at for a single
        // request.
        let looks = of("openat") + of("openat2") + of("statx") + of("newfstatat");
        assert!(looks <= ONCE + EACH_SECOND * seconds + extra, "{calls:?}");
    }
}

#[test]
fn a_file_below_five_files_of_rules_takes_one_call_more_than_without() {
    let header = "Header set X-Directory 1";
    let rules = [
        ("", WORDPRESS_RULES),
        ("a/", header),
        ("a/b/", header),
        ("a/b/c/", header),
        ("a/b/c/d/", header),
    ];
    assert_one_call_more(&warm_server_with_rules(&rules));
}

#[test]
fn a_file_of_a_site_that_may_have_rules_and_has_none_takes_one_call_more() {
    assert_one_call_more(&warm_server_with_rules(&[]));
}

/// Applications whose processes wait for requests, beside one that gets new processes all the time.
const OTHERS: usize = 30;

#[test]
fn a_new_process_of_an_application_costs_no_look_at_all_others() {
    let root = |site: &Site| site.root().display().to_string();
    let site = Site::new().file("hello.php", "<?php echo 'Hello, world!';").workers(1);
    let mut applications = json!({"site": {"limits": {"requests": 1}}});
    for number in 0..OTHERS {
        applications[format!("other{number}")] =
            json!({"type": "php", "root": root(&site), "processes": 1});
    }
    let server = site.with(json!({"applications": applications})).serve();
    let mut counts = Vec::new();
    for _ in 0..COUNTS {
        let Some((calls, seconds)) = count(&server, server.router(), "/hello.php") else { return };
        // The counters of an application's eventfds are looked at with one call; those of all five
        // times in a second.
        let looks = calls.get("ppoll").or(calls.get("poll")).copied().unwrap_or(0);
        if looks <= REQUESTS * OTHERS / 2 + 5 * seconds * (OTHERS + 1) {
            return;
        }
        counts.push(format!("{looks} looks within {seconds} s: {calls:?}"));
    }
    panic!("for {REQUESTS} new processes: {}", counts.join("; "));
}
