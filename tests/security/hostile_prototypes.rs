//! A prototype runs as the user of its scripts, so that these can stop it and, if they get at its
//! descriptors, speak in its name. That costs their own application, and no other.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use harness::time::Stopwatch;
use harness::{Server, Site, eventually, processes};
use rustix::process::Signal;
use serde_json::json;

/// Maximum time for which a part of an instance may exist after its requests: ten seconds, and the
/// delay of a busy machine.
const LEFTOVERS: Duration = Duration::from_secs(20);

/// A site whose scripts may run for four seconds: enough for a short one on a busy machine.
fn site() -> Site {
    Site::script("a.php", "file_put_contents(getenv('DATA') . '/begun', '1'); sleep(60);")
        .file("fine.php", "<?php echo getmypid();")
        .workers(2)
        .with(json!({"applications": {"site": {"limits": {"timeout": 4}}}}))
}

/// Waits until another prototype than this one answers.
fn replaced(server: &Server, prototype: u32) {
    eventually("the prototype is replaced", || {
        let other = server
            .processes()
            .into_iter()
            .any(|process| process.pid != prototype && process.title.ends_with("\" prototype"));
        (other && server.get("/fine.php").status == 200).then_some(())
    });
    gone(&[prototype]);
}

/// Waits until these processes have gone.
fn gone(pids: &[u32]) {
    let begun = Stopwatch::start();
    let left = || pids.iter().filter(|pid| processes::is_alive(**pid)).count();
    while left() > 0 {
        assert!(begun.elapsed() < LEFTOVERS, "{} of {pids:?} are left", left());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_prototype_that_is_stopped_is_replaced_and_a_script_has_no_more_time_for_it() {
    let server = site().serve();
    let (prototype, workers) = (server.prototype(), server.workers());
    std::thread::scope(|scope| {
        let (told, heard) = mpsc::channel();
        let address = &server;
        scope.spawn(move || {
            let begun = Stopwatch::start();
            let status = address.get("/a.php").status;
            told.send((status, begun.elapsed())).unwrap();
        });
        server.wait_for_data("begun");
        processes::signal(prototype, Signal::STOP);
        let (status, took) = heard.recv().unwrap();
        assert!(matches!(status, 502 | 504), "{status}");
        assert!(took < LEFTOVERS, "after {took:?}");
    });
    replaced(&server, prototype);
    gone(&workers);
    server.wait_for_log("prototype");
}

#[test]
fn a_worker_that_has_died_is_missed_though_its_prototype_is_stopped() {
    let server = site().serve();
    let (prototype, workers) = (server.prototype(), server.workers());
    processes::signal(prototype, Signal::STOP);
    processes::signal(workers[0], Signal::KILL);
    replaced(&server, prototype);
    gone(&workers);
}

#[test]
fn a_prototype_that_is_stopped_for_a_moment_goes_on() {
    let server = site().serve();
    let prototype = server.prototype();
    processes::signal(prototype, Signal::STOP);
    processes::signal(prototype, Signal::CONT);
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(server.get("/fine.php").status, 200);
    assert_eq!(server.prototype(), prototype);
}

/// Leaves a program behind that is stopped.
const LEAVES: &str = "$pid = exec('setsid sleep 600 > /dev/null 2>&1 & echo $!');
    posix_kill((int) $pid, SIGSTOP); file_put_contents(getenv('DATA') . '/pid', $pid); echo \
    'left';";

#[test]
fn a_restart_leaves_nothing_of_the_old_instance_even_if_all_of_it_is_stopped() {
    for stopped in ["prototype", "worker", "both"] {
        let site = Site::script("leave.php", LEAVES).file("fine.php", "<?php echo 1;").workers(1);
        let control = site.control_socket().display().to_string();
        let site = site.argument("--control").argument(&format!("unix:{control}"));
        let server = site.with(json!({})).serve();
        let (prototype, workers) = (server.prototype(), server.workers());
        assert_eq!(server.get("/leave.php").text(), "left");
        let mut old = vec![prototype, server.data("pid").trim().parse().unwrap()];
        old.extend(workers);
        if stopped != "worker" {
            processes::signal(prototype, Signal::STOP);
        }
        if stopped != "prototype" {
            processes::signal(old[2], Signal::STOP);
        }
        server.control("GET", "/control/applications/site/restart", "").succeeded();
        assert_eq!(server.get("/fine.php").text(), "1");
        gone(&old);
    }
}

#[test]
fn a_graceful_end_does_not_wait_for_a_worker_that_is_stopped() {
    let server = Site::script("fine.php", "echo 1;").workers(2).with(json!({})).serve();
    let workers = server.workers();
    assert_eq!(server.get("/fine.php").text(), "1");
    processes::signal(workers[0], Signal::STOP);
    let begun = Stopwatch::start();
    let (status, _site) = server.end(Signal::QUIT);
    assert!(status.success() && begun.elapsed() < LEFTOVERS, "{status} {:?}", begun.elapsed());
    gone(&workers);
}

#[test]
fn a_router_that_reads_nothing_for_a_moment_goes_on_and_misses_nothing() {
    let server = Site::script("fine.php", "echo 1;").workers(1).with(json!({})).serve();
    let (router, worker) = (server.router(), server.workers()[0]);
    let Some(mut stopper) = processes::stop_thread(router) else { return };
    // Each is a message to the router, and many more than its socket holds.
    for _ in 0..1500 {
        server.signal(Signal::USR1);
        std::thread::sleep(Duration::from_micros(500));
    }
    processes::signal(worker, Signal::KILL);
    harness::time::sleep(Duration::from_millis(200));
    stopper.kill().unwrap();
    stopper.wait().unwrap();
    server.wait_for_log(&format!("worker process {worker} "));
    assert_eq!(server.get("/fine.php").text(), "1");
    assert_eq!(server.router(), router);
}

// -- descriptors and memory of a prototype --

/// Tries to take over the process that is its argument; prints a line for each attempt.
const ATTACK: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static void tell(const char *attempt, long result) {
    printf("%s: %s\n", attempt, result < 0 ? strerror(errno) : "done");
}

int main(int count, char **arguments) {
    int pid = atoi(arguments[1]);
    char path[64], here[8];
    static char there[8];
    int process = syscall(SYS_pidfd_open, pid, 0);
    if (count < 2 || process < 0) return 1;
    tell("descriptor", syscall(SYS_pidfd_getfd, process, 0, 0));
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    tell("memory", open(path, O_RDWR));
    snprintf(path, sizeof path, "/proc/%d/fd/0", pid);
    tell("open descriptor", open(path, O_RDONLY));
    struct iovec to = {here, sizeof here}, from = {there, sizeof there};
    long read = process_vm_readv(pid, &to, 1, &from, 1, 0);
    /* Another program has nothing there: that is not what it is refused for. */
    tell("read", read < 0 && errno == EFAULT ? 0 : read);
    tell("trace", ptrace(PTRACE_SEIZE, pid, 0, 0));
    return 0;
}
"#;

/// Compiles C.
fn compile(source: &str, program: &Path, arguments: &[&str]) {
    let path = program.with_extension("c");
    std::fs::write(&path, source).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-o"]).arg(program).args(arguments).arg(&path);
    let output = harness::programs::run(&mut cc);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    harness::open_to_all(program, 0o755);
}

fn attacker(site: &Site) -> PathBuf {
    let program = site.data().join("attack");
    compile(ATTACK, &program, &[]);
    program
}

#[test]
fn a_script_cannot_take_what_its_prototype_has() {
    let site = Site::script(
        "a.php",
        "passthru(getenv('DATA') . '/attack ' . ($_GET['self'] ?? 0 ? getmypid() : \
         posix_getppid()));",
    );
    attacker(&site);
    let server = site.workers(1).with(json!({})).serve();
    let tried = server.get("/a.php").text();
    assert_eq!(tried.lines().count(), 5, "{tried}");
    for line in tried.lines() {
        let refused = ["Operation not permitted", "Permission denied"];
        assert!(refused.iter().any(|why| line.ends_with(why)), "{tried}");
    }
    // Its own worker it may trace, as under other servers: so do debuggers, and core files.
    let own = server.get("/a.php?self=1").text();
    assert!(own.contains("memory: done") && own.contains("read: done"), "{own}");
}

// -- a prototype that is taken over --

/// An extension of PHP that is none: it leaves a process behind which has the prototype's
/// descriptors from the supervisor, and uses them as a file instructs.
const EXTENSION: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const unsigned char ready[] = {6, 0, 0, 0, 1, 1, 0, 0, 0, '8'};
static const unsigned char started[] = {9, 0, 0, 0, 3, 0, 0, 1, 0, 1, 0, 0, 0};
static const unsigned char died[] = {11, 0, 0, 0, 5, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0};
static const unsigned char endless[] = {0xff, 0xff, 0xff, 0xff};

static void say(const unsigned char *message, size_t length, int count) {
    while (count-- > 0 && write(4, message, length) > 0) {}
}

/* Sends a descriptor where only the supervisor may send. */
static int send_descriptor(void) {
    union { char space[CMSG_SPACE(sizeof(int))]; struct cmsghdr aligned; } control;
    struct iovec bytes = {"x", 1};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1,
        .msg_control = control.space, .msg_controllen = sizeof control.space};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    int descriptor = 4;
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof descriptor);
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    return sendmsg(3, &message, MSG_NOSIGNAL) < 0 ? errno : 0;
}

static void put(unsigned char **at, uint64_t value, int bytes) {
    for (int byte = 0; byte < bytes; byte++) *(*at)++ = value >> 8 * byte;
}

/* Answers a question about what workers cost before the prototype does. */
static void forge(void) {
    unsigned char asked[4096], answer[65536], *at = answer + 4;
    for (;;) {
        if (recv(3, asked, sizeof asked, MSG_PEEK) <= 0) return;
        if (asked[0] != 4) continue;
        if (recv(3, asked, sizeof asked, MSG_DONTWAIT) > 0 && asked[0] == 4) break;
    }
    const uint64_t much = 1ull << 50;
    uint32_t count = asked[1] | asked[2] << 8;
    put(&at, 6, 1);
    put(&at, much, 8);
    put(&at, 1, 1);
    put(&at, much, 8);
    put(&at, count, 4);
    for (uint32_t worker = 0; worker < count; worker++) {
        for (int byte = 0; byte < 4; byte++) *at++ = asked[5 + 4 * worker + byte];
        for (int figure = 0; figure < 5; figure++) put(&at, much, 8);
    }
    size_t length = at - answer;
    at = answer;
    put(&at, length - 4, 4);
    say(answer, length, 1);
}

static void tell(const char *what) {
    char path[4096];
    snprintf(path, sizeof path, "%s/told", getenv("DATA"));
    FILE *file = fopen(path, "w");
    if (file) fprintf(file, "%s", what), fclose(file);
}

__attribute__((constructor)) static void begin(void) {
    char path[4096], attack[32];
    if (!getenv("DATA") || fork() != 0) return;
    snprintf(path, sizeof path, "%s/attack", getenv("DATA"));
    for (;;) {
        FILE *file = fopen(path, "r");
        memset(attack, 0, sizeof attack);
        if (!file || !fgets(attack, sizeof attack, file)) {
            if (file) fclose(file);
            usleep(2000);
            continue;
        }
        fclose(file);
        unlink(path);
        if (!strcmp(attack, "flood")) say(ready, sizeof ready, 1 << 20);
        else if (!strcmp(attack, "start")) say(started, sizeof started, 1);
        else if (!strcmp(attack, "death")) say(died, sizeof died, 1);
        else if (!strcmp(attack, "endless")) say(endless, sizeof endless, 1);
        else if (!strcmp(attack, "measure")) forge(), tell("done");
        else {
            int error = send_descriptor();
            tell(error ? strerror(error) : "done");
        }
        _exit(0);
    }
}
"#;

/// Two applications of the same user, of which one has a prototype that is not its own any more.
fn taken_over() -> Server {
    let site = Site::script("fine.php", "echo 'fine';").file("evil.php", "<?php echo 'evil';");
    let control = site.control_socket().display().to_string();
    let site = site.argument("--control").argument(&format!("unix:{control}"));
    let extension = site.data().join("evil.so");
    compile(EXTENSION, &extension, &["-shared", "-fPIC"]);
    let evil = json!({
        "type": "php", "root": site.root(),
        "options": {"admin": {"extension": extension}},
        "environment": {"DATA": site.data(), "TMPDIR": "/tmp"},
    });
    let routes = json!([
        {"match": {"uri": "/evil.php"}, "action": {"pass": "applications/evil"}},
        {"action": {"pass": "applications/site"}},
    ]);
    let server = site.with(json!({"routes": routes, "applications": {"evil": evil}})).serve();
    assert_eq!(server.get("/evil.php").text(), "evil");
    server
}

/// Lets the prototype attack. The file appears at once with its whole content.
fn attack(server: &Server, how: &str) {
    let data = server.site.data();
    std::fs::write(data.join("attack.new"), how).unwrap();
    harness::open_to_all(&data.join("attack.new"), 0o666);
    std::fs::rename(data.join("attack.new"), data.join("attack")).unwrap();
}

fn prototype(server: &Server, application: &str) -> u32 {
    let title = format!("howdah: \"{application}\" prototype");
    eventually("there is a prototype", || {
        let mut all = server.processes().into_iter();
        // The process that it leaves behind has its title too.
        all.find(|process| process.title == title && process.parent == server.supervisor())
            .map(|process| process.pid)
    })
}

#[test]
fn what_a_prototype_says_that_was_not_asked_ends_its_own_application_alone() {
    let server = taken_over();
    let (router, site) = (server.router(), prototype(&server, "site"));
    for how in ["flood", "start", "death", "endless"] {
        eventually("the application runs", || {
            (server.get("/evil.php").status == 200).then_some(())
        });
        let evil = prototype(&server, "evil");
        attack(&server, how);
        eventually("its prototype is replaced", || {
            assert_eq!(server.get("/fine.php").text(), "fine", "{how}");
            (!processes::is_alive(evil)).then_some(())
        });
        gone(&[evil]);
    }
    eventually("it runs again", || (server.get("/evil.php").status == 200).then_some(()));
    assert_eq!((server.router(), prototype(&server, "site")), (router, site));
    let log = server.log();
    assert_eq!(log.matches("\"evil\" prototype is killed: it reported").count(), 4, "{log}");
    assert!(!log.contains("router is killed"), "{log}");
}

#[test]
fn a_prototype_cannot_send_descriptors() {
    let server = taken_over();
    attack(&server, "descriptor");
    assert_eq!(server.wait_for_data("told"), "Broken pipe");
    assert_eq!(server.get("/evil.php").text(), "evil");
}

#[test]
fn forged_figures_take_no_memory_from_other_applications() {
    const GIB: f64 = (1u64 << 30) as f64;
    let server = taken_over();
    let tuning = |application: &str| {
        let target = format!("/control/applications/{application}/tune");
        server.control("GET", &target, "").succeeded()
    };
    let ask = || {
        assert_eq!((server.get("/evil.php").status, server.get("/fine.php").status), (200, 200));
    };
    let prototype = prototype(&server, "evil");
    attack(&server, "measure");
    eventually("the figures are forged", || {
        ask();
        (!server.data("told").is_empty()).then_some(())
    });
    let tuned = eventually("they have arrived", || {
        ask();
        let tuned = tuning("evil");
        tuned["measured"]["process_peak"].as_f64().is_some().then_some(tuned)
    });
    for figure in ["process_peak", "prototype", "processes"] {
        assert!(tuned["measured"][figure].as_f64() < Some(GIB), "{tuned}");
    }
    let total = tuned["measured"]["memory"].as_f64().unwrap();
    assert!(tuned["measured"]["script_may_take"].as_f64() < Some(total + GIB), "{tuned}");
    let other = tuning("site");
    assert!(other["automatic"]["by_memory"].as_u64() > Some(1), "{other}");
    assert_eq!(self::prototype(&server, "evil"), prototype, "it was none of its own messages");
}
