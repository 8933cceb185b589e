//! Privileges, descriptors and files of a worker and of the programs that it starts.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use harness::{Server, Site, eventually, processes, requirements};
use serde_json::json;

#[test]
fn workers_have_no_privileges_and_cannot_gain_any() {
    let code = "echo file_get_contents('/proc/self/status');";
    let server = Site::script("a.php", code).serve();
    let status = server.get("/a.php").text();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).expect(name);
        line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let nothing = ["0000000000000000".to_owned()];
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        assert_eq!(field(set), nothing, "{set}");
    }
    assert_eq!(field("NoNewPrivs:"), ["1"]);
    if requirements::is_root() {
        assert_eq!(field("CapBnd:"), nothing, "the bounding set is empty too");
        assert!(field("Uid:").iter().all(|uid| uid != "0"), "{status}");
        assert!(field("Gid:").iter().all(|gid| gid != "0"), "{status}");
        assert!(!field("Groups:").contains(&"0".to_owned()), "{status}");
        let router = fs::read_to_string(format!("/proc/{}/status", server.router())).unwrap();
        for set in ["CapPrm:", "CapEff:", "CapBnd:", "CapInh:", "CapAmb:"] {
            let line = router.lines().find(|line| line.starts_with(set)).unwrap();
            assert!(line.ends_with("\t0000000000000000"), "router: {line}");
        }
        assert!(router.contains("NoNewPrivs:\t1"), "{router}");
    }
}

/// Returns true if a descriptor leads to a file that a worker has no use for. Sockets are told
/// apart by the other processes that have them: the listening one is the supervisor's.
fn is_not_a_workers(server: &Server, target: &str) -> bool {
    let listening = processes::descriptors(server.supervisor());
    let sockets: Vec<_> = listening.iter().map(|(_, name)| name.as_str()).collect();
    (target.starts_with("socket:") && sockets.contains(&target))
        || target.ends_with("/log")
        || target.ends_with("/config.json")
        || target.contains("signalfd")
}

#[test]
fn workers_hold_no_listening_log_or_control_descriptor() {
    let site = Site::script(
        "a.php",
        "foreach (scandir('/proc/self/fd') as $fd) echo $fd, ' ', \
         @readlink(\"/proc/self/fd/$fd\"), \"\\n\";",
    );
    let control = format!("unix:{}", site.data().join("control.sock").display());
    let server = site.argument("--control").argument(&control).serve();
    // A client that is connected while the worker looks.
    let _idle = server.connect();
    let text = server.get("/a.php").text();
    for line in text.lines() {
        let (_, target) = line.split_once(' ').unwrap_or_default();
        assert!(!is_not_a_workers(&server, target), "a worker holds {line}:\n{text}");
    }
    for pid in server.workers() {
        for (fd, target) in processes::descriptors(pid) {
            assert!(!is_not_a_workers(&server, &target), "worker {pid} holds {fd} {target}");
        }
    }
}

#[test]
fn programs_started_by_scripts_inherit_three_descriptors_and_that_for_mail() {
    let server = Site::script(
        "a.php",
        "fopen(__FILE__, 'r'); session_start();
         echo shell_exec('ls -l /proc/self/fd'), '--', \"\\n\";
         passthru('ls -l /proc/self/fd'); echo '--', \"\\n\";
         $pipes = []; $p = proc_open(['ls', '-l', '/proc/self/fd'], [], $pipes); proc_close($p);",
    )
    .serve();
    let text = server.get("/a.php").text();
    let mut seen = 0;
    for line in text.lines().filter(|line| line.contains(" -> ")) {
        let (name, target) = line.split_once(" -> ").unwrap();
        let fd = name.rsplit(' ').next().unwrap();
        let own = fd == "3" && target.starts_with("/proc/") && target.ends_with("/fd");
        let is_mail = fd == "110" && target.starts_with("socket:");
        assert!(matches!(fd, "0" | "1" | "2") || own || is_mail, "{line}:\n{text}");
        assert!(!is_not_a_workers(&server, target), "{line}:\n{text}");
        seen += 1;
    }
    assert!(seen >= 8, "{text}");
}

/// Opening a file whose owner holds a lease waits for 45 seconds, which a router thread did.
#[test]
fn a_lease_of_a_users_file_delays_nobody() {
    const HOLD: &str = "import fcntl, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = open(sys.argv[1], 'r+')
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print('held', flush=True)
sys.stdin.read()";
    let site = Site::new().file("a.txt", "fine");
    let users = site.data().join("users");
    fs::write(&users, "ann:{SHA}W8r/fyL/UzygmbNAjq2HbA67qac=\n").unwrap();
    harness::open_to_all(&users, 0o644);
    let mut holder = Command::new("python3");
    holder.args(["-I", "-c", HOLD]).arg(&users).stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut holder) = holder.spawn() else {
        return requirements::skipped("there is no python3");
    };
    let mut held = [0; 5];
    if holder.stdout.take().unwrap().read_exact(&mut held).is_err() {
        return requirements::skipped("there are no leases on this file system");
    }
    let root = site.root();
    let auth = json!({"users_file": users});
    let server = site
        .with(json!({
            "settings": {"listen_threads": 1},
            "routes": [
                {"match": {"uri": "/closed"}, "action": {"basic_auth": auth, "return": 204}},
                {"action": {"share": format!("{}$uri", root.display())}},
            ],
        }))
        .serve();
    let ask = || {
        let password = "Authorization: Basic YW5uOm9wZW4gc2VzYW1l";
        server.send(format!("GET /closed HTTP/1.1\r\nHost: a\r\n{password}\r\n\r\n")).status
    };
    assert_eq!(ask(), 500, "the file is not known, and is not waited for");
    assert_eq!(server.get("/a.txt").text(), "fine");
    server.wait_for_log("another program holds a lease of it");
    drop(holder.stdin.take());
    holder.wait().unwrap();
    eventually("the file is read once it can be", || (ask() == 204).then_some(()));
}

/// The descriptor was that of the router, which could write, so that a worker could fill the disk
/// in the name of the server's user.
#[test]
fn a_worker_can_only_read_the_file_of_a_body() {
    let code = "foreach (scandir('/proc/self/fd') as $number) {
        $file = @readlink('/proc/self/fd/' . $number);
        $facts = @file_get_contents('/proc/self/fdinfo/' . $number);
        if (str_starts_with((string)$file, '/') && preg_match('/flags:\\s*0?(\\d+)/', $facts, \
        $found))
            echo (octdec($found[1]) & 3) === 0 ? 'read ' : 'write ', $file, \"\\n\";
    }
    echo strlen(file_get_contents('php://input'));";
    let server = Site::script("a.php", code).serve();
    let answer = server.post("/a.php", "application/octet-stream", vec![b'x'; 4 << 20]);
    let text = answer.text();
    assert!(text.ends_with(&(4 << 20).to_string()), "{text}");
    // The temporary file of the body has no name. Where a file system cannot create nameless files,
    // the body is in sealed memory.
    let temporary = server.site.data().with_file_name("tmp").display().to_string();
    let is_body = |line: &&str| line.contains(&temporary) && line.ends_with(" (deleted)");
    let body: Vec<_> = text.lines().filter(is_body).collect();
    assert!(body.iter().all(|line| line.starts_with("read ")), "{text}");
    assert!(!body.is_empty() || text.contains("/memfd:howdah-spool"), "{text}");
}
