//! What scripts, uploads and workers cannot do to the server, and what becomes of the machine's
//! resources.
//! A number in a name is the class of attack; unit tests use the same numbers.

mod harness;

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use harness::client::PATIENCE;
use harness::{Server, Site, eventually, processes};
use rustix::process::Signal;
use serde_json::json;

const FORM: &str = "application/x-www-form-urlencoded";
const MULTIPART: &str = "multipart/form-data; boundary=B";

// -- 11: the way into PHP --

#[test]
fn hardening_11_who_speaks_fastcgi_to_the_server_sets_nothing_of_php() {
    // Where PHP-FPM's own socket can be reached, these records run any code.
    let site = Site::script("a.php", "echo ini_get('auto_prepend_file'), '|', getenv('DATA');");
    let socket = site.data().join("site.sock");
    let script = site.root().join("a.php");
    let listeners = json!({format!("unix:{}", socket.display()): {"pass": "applications/site"}});
    let control = format!("unix:{}", site.control_socket().display());
    let server =
        site.with(json!({"listeners": listeners})).argument("--control").argument(&control).serve();
    let mut parameters = Vec::new();
    for (name, value) in [
        ("SCRIPT_FILENAME", script.to_str().unwrap()),
        ("REQUEST_METHOD", "GET"),
        ("PHP_ADMIN_VALUE", "auto_prepend_file = /etc/passwd"),
    ] {
        parameters.extend([name.len() as u8, value.len() as u8]);
        parameters.extend(name.bytes().chain(value.bytes()));
    }
    let record = |kind: u8, content: &[u8]| {
        let length = (content.len() as u16).to_be_bytes();
        [&[1, kind, 0, 1, length[0], length[1], 0, 0], content].concat()
    };
    let begin = record(1, &[0, 1, 0, 0, 0, 0, 0, 0]);
    let request = [begin, record(4, &parameters), record(4, &[]), record(5, &[])].concat();
    let mut client = server.connect();
    client.send(&request);
    client.finish_sending();
    let answers = [
        client.everything(),
        spoken(&socket, &request),
        spoken(&server.site.control_socket(), &request),
    ];
    for answer in answers {
        let text = String::from_utf8_lossy(&answer);
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 400 "), "{text}");
        assert!(!text.contains("root:"), "{text}");
    }
    // Nor has a worker a socket of its own that somebody could speak to.
    let listening = fs::read_to_string("/proc/net/unix").unwrap();
    for pid in server.workers().into_iter().chain([server.prototype()]) {
        for (_, target) in processes::descriptors(pid) {
            let Some(inode) = target.strip_prefix("socket:[") else { continue };
            let inode = inode.trim_end_matches(']');
            let own =
                listening.lines().filter(|line| line.split_whitespace().nth(6) == Some(inode));
            for line in own {
                // Neither accepts connections (__SO_ACCEPTCON) nor has a name.
                let fields: Vec<_> = line.split_whitespace().collect();
                assert_eq!((fields[3], fields.len()), ("00000000", 7), "{line}");
            }
        }
    }
    let data = server.site.data().display().to_string();
    assert_eq!(server.get("/a.php").text(), format!("|{data}"), "nothing has changed");
}

/// All that is answered to some bytes.
fn spoken(socket: &Path, bytes: &[u8]) -> Vec<u8> {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes).unwrap();
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    // What was not read may reset the connection.
    let _ = stream.read_to_end(&mut answer);
    answer
}

// -- 14, 15: log and pages --

#[test]
fn hardening_14_no_script_and_no_client_can_forge_a_line_of_the_log() {
    let forged = "2026/11/20 15:04:05 [alert] 1#1 forged";
    let code = format!(
        "error_log(\"first\\n{forged}\\r\\n{forged}\\x1b[2J\\x9b\\x7f last\");
         fwrite(fopen('php://stderr', 'w'), \"cut\\r{forged}\\n{forged}\\n\\x1b]0;evil\\x07\\n\");
         trigger_error(\"warned\\n{forged}\", E_USER_WARNING);
         syslog(LOG_ERR, 'to syslog'); echo 'done';"
    );
    let server = Site::script("a.php", &code).serve();
    let mut client = server.connect();
    client.send(format!("GET /a.php?\u{9b}\u{1b}%0a{forged} HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_eq!(client.response().status, 400, "such a target is not taken at all");
    assert_eq!(server.get("/a.php?%0a%1b[2J").text().lines().last(), Some("done"));
    server.wait_for_log("evil");
    let log = server.wait_for_log("warned");
    for line in log.lines() {
        assert!(!line.starts_with(forged), "{line:?}");
        assert!(!line.contains('\r') && !line.contains('\x1b'), "{line:?}");
    }
    let bytes = log.bytes().filter(|byte| byte.is_ascii_control() && *byte != b'\n').count();
    assert_eq!(bytes, 0, "no control character is in the log: {log:?}");
    assert!(log.contains("last"), "the record is whole: {log:?}");
}

#[test]
fn hardening_15_pages_of_the_server_repeat_nothing_of_the_request() {
    let server = Site::script("a.php", "echo 1;").file("dir/x.txt", "x").serve();
    let evil = "%3Cscript%3Ealert(1)%3C/script%3E";
    let raw = "\"'`(alert)1";
    for target in [
        format!("/{evil}"),
        format!("/{evil}.php"),
        format!("/a.php%00{evil}"),
        format!("/dir?{evil}"),
        format!("/{raw}"),
        format!("/dir?{raw}"),
        format!("/.{evil}"),
    ] {
        let response = server.get(&target);
        assert_ne!(response.status, 200, "{target}");
        let text = response.text();
        assert!(!text.contains("script") && !text.contains("alert"), "{target}: {response:?}");
        for (name, value) in &response.fields {
            assert!(
                !value.contains(['<', '>', '"']) || name == "ETag",
                "{target}: {name}: {value}"
            );
        }
    }
}

// -- 16: workers that keep dying --

#[test]
fn hardening_16_a_script_that_kills_its_worker_costs_its_own_request_each_time() {
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
fn hardening_16_workers_that_die_without_a_request_are_replaced_ever_more_slowly() {
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
fn hardening_16_a_prototype_that_keeps_dying_does_not_flood_the_log() {
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

// -- 17, 18: forms --

fn form_site() -> Site {
    Site::script(
        "a.php",
        "echo count($_POST), ' ', count($_FILES), ' ', is_array($_POST['a'] ?? 0) ? count($_POST['a']) : 0, ' ', getmypid();",
    )
    .file("kill.php", "<?php posix_kill(getmypid(), SIGKILL);")
    .file("fatal.php", "<?php no_such_function();")
    .workers(1)
    .with(json!({"applications": {"site": {"options": {"admin": {
        "max_input_vars": "1000", "display_errors": "0", "display_startup_errors": "0",
    }}}}}))
}

/// Posts a form within a time and to a worker that lives on; returns what the script counted.
fn post_within(server: &Server, limit: Duration, kind: &str, body: &[u8]) -> Vec<u64> {
    let worker = server.workers()[0];
    let (begun, used) = (Instant::now(), processes::processor_time(worker));
    let response = server.post("/a.php", kind, body);
    assert!(begun.elapsed() < Duration::from_secs(40), "took {:?}", begun.elapsed());
    let used = processes::processor_time(worker) - used;
    assert!(used < limit.as_secs_f64(), "took {used} s of processor time");
    assert_eq!(response.status, 200, "{response:?}");
    let counts: Vec<u64> = response.text().split(' ').map(|word| word.parse().unwrap()).collect();
    assert_eq!(counts.last(), Some(&u64::from(worker)), "the worker lives on");
    counts
}

#[test]
fn hardening_17_forms_of_countless_or_endless_parts_are_bounded() {
    let server = form_site().serve();
    let part = |n: usize, name: &str| {
        format!("--B\r\nContent-Disposition: form-data; name=\"{name}{n}\"\r\n\r\nv\r\n")
    };
    let file = |n: usize| {
        format!("--B\r\nContent-Disposition: form-data; name=\"f{n}\"; filename=\"f\"\r\n\r\nv\r\n")
    };
    let many: String = (0..60_000).map(|n| part(n, "a")).collect::<String>() + "--B--\r\n";
    let files: String = (0..5_000).map(file).collect::<String>() + "--B--\r\n";
    let endless = "-".repeat(4 << 20);
    let header = format!(
        "--B\r\nContent-Disposition: form-data; name=\"a\"{}\r\n\r\nv\r\n--B--\r\n",
        "; x=y".repeat(800_000)
    );
    let headers = format!("--B\r\n{}\r\nv\r\n--B--\r\n", "X: y\r\n".repeat(600_000));
    let open = format!(
        "--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n{}",
        "--B".repeat(1_000_000)
    );
    for body in [many, files, endless, header, headers, open] {
        let counts = post_within(&server, Duration::from_secs(3), MULTIPART, body.as_bytes());
        assert!(counts[0] <= 1000 && counts[1] <= 20, "{counts:?}: {}", &body[..80]);
    }
    let name = format!("multipart/form-data; boundary={}", "B".repeat(7000));
    assert_eq!(post_within(&server, Duration::from_secs(1), &name, b"--B--")[0], 0);
}

#[test]
fn hardening_17_uploads_leave_no_file_however_their_request_ends() {
    let server = form_site().serve();
    let tmp = server.site.data().with_file_name("tmp");
    // Files, in the directories of workers too; these stay for as long as the worker does.
    let files = || {
        let list = |path: &Path| fs::read_dir(path).unwrap().flatten().map(|entry| entry.path());
        let (directories, mut files): (Vec<_>, Vec<_>) =
            list(&tmp).partition(|path: &PathBuf| path.is_dir());
        files.extend(directories.iter().flat_map(|path| list(path)));
        files
    };
    let mut body =
        b"--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n".to_vec();
    body.resize(1 << 20, b'x');
    let whole = [&body[..], b"\r\n--B--\r\n"].concat();
    // Within the body, as complete file and within the script.
    let mut client = server.connect();
    client.send(format!(
        "POST /a.php HTTP/1.1\r\nHost: a\r\nContent-Type: {MULTIPART}\r\nContent-Length: {}\r\n\r\n",
        whole.len()
    ));
    client.send(&body[..1 << 19]);
    drop(client);
    assert!(server.post("/a.php", MULTIPART, &body).text().starts_with("0 "), "it never ended");
    assert!(server.post("/a.php", MULTIPART, &whole).text().starts_with("0 1 "));
    assert_eq!(server.post("/fatal.php", MULTIPART, &whole).status, 500);
    eventually(&format!("nothing is left in {}", tmp.display()), || {
        files().is_empty().then_some(())
    });
}

#[test]
fn hardening_17_uploads_of_killed_workers_and_servers_are_removed() {
    let mut server = form_site()
        .file(
            "wait.php",
            "<?php file_put_contents(getenv('DATA') . '/begun', $_FILES['f']['tmp_name']);
             while (true) usleep(1000);",
        )
        .with(json!({"applications": {"site": {"limits": {"timeout": 1}}}}))
        .serve();
    let body =
        "--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\nx\r\n--B--\r\n";
    let left = |site: &Site| {
        let tmp = fs::read_dir(site.data().with_file_name("tmp")).unwrap();
        tmp.flatten().map(|entry| entry.path()).collect::<Vec<_>>()
    };
    assert_eq!(server.post("/kill.php", MULTIPART, body).status, 502);
    eventually("a killed worker's upload is removed", || {
        left(&server.site).is_empty().then_some(())
    });
    assert_eq!(server.post("/wait.php", MULTIPART, body).status, 504);
    eventually("so is that of one beyond its time", || left(&server.site).is_empty().then_some(()));
    // From here on nothing ends a script while the test looks at it.
    let (_, site) = server.end(Signal::TERM);
    let patient = json!({"applications": {"site": {"limits": {"timeout": 600}}}});
    server = site.with(patient).serve();
    for signal in [Signal::TERM, Signal::KILL] {
        let begun = server.site.data().join("begun");
        fs::remove_file(&begun).unwrap();
        let mut client = server.connect();
        client.send(format!(
            "POST /wait.php HTTP/1.1\r\nHost: a\r\nContent-Type: {MULTIPART}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        let upload = eventually("the script runs", || {
            fs::read_to_string(&begun).ok().filter(|path| !path.is_empty())
        });
        assert!(!left(&server.site).is_empty() && fs::exists(&upload).unwrap(), "{upload}");
        let (_, site) = server.end(signal);
        if signal == Signal::TERM {
            assert!(left(&site).is_empty(), "the server cleans up when it ends");
        }
        server = site.serve();
    }
    server.workers();
    assert!(left(&server.site).is_empty(), "what a killed server left is removed by the next one");
}

#[test]
fn hardening_17_an_upload_is_what_php_says_it_is() {
    let server = Site::script(
        "a.php",
        "$f = $_FILES['f']['tmp_name'];
         echo json_encode([is_uploaded_file($f), file_get_contents($f), fileperms($f) & 0777,
             ini_get('upload_tmp_dir') ?: null, move_uploaded_file($f, getenv('DATA') . '/moved'),
             file_exists($f)]);",
    )
    .with(json!({}))
    .serve();
    let body =
        "--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\nx\r\n--B--\r\n";
    for _ in 0..3 {
        let response = server.post("/a.php", MULTIPART, body);
        let found: serde_json::Value = serde_json::from_str(&response.text()).unwrap();
        assert_eq!(found, json!([true, "x", 0o600, null, true, false]), "{response:?}");
        assert_eq!(server.data("moved"), "x");
    }
}

#[test]
fn hardening_18_colliding_names_cost_no_time() {
    let server = form_site().serve();
    // Names that fall into one bucket of a table of 65,536; and names beyond all limits.
    let numbers: String = (0..60_000u64).map(|n| format!("a[{}]=&", n << 16)).collect();
    let pairs = ["Ez", "FY"];
    let strings: String = (0..1 << 16)
        .map(|n| (0..16).map(|bit| pairs[n >> bit & 1]).collect::<String>() + "=&")
        .collect();
    let deep = format!("a{}=1", "[x]".repeat(100_000));
    for body in [numbers, strings, deep] {
        let counts = post_within(&server, Duration::from_secs(1), FORM, body.as_bytes());
        assert!(counts[0] <= 1001 && counts[2] <= 1001, "{counts:?}");
    }
}

// -- 50, 55: privileges and descriptors --

#[test]
fn hardening_50_workers_have_no_privileges_and_cannot_gain_any() {
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
    if rustix::process::geteuid().is_root() {
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

/// Whether a descriptor leads to something that a worker has no use for. Sockets are told apart
/// by who else has them: the listening one is the supervisor's.
fn is_not_a_workers(server: &Server, target: &str) -> bool {
    let listening = processes::descriptors(server.supervisor());
    let sockets: Vec<_> = listening.iter().map(|(_, name)| name.as_str()).collect();
    (target.starts_with("socket:") && sockets.contains(&target))
        || target.ends_with("/log")
        || target.ends_with("/config.json")
        || target.contains("signalfd")
}

#[test]
fn hardening_50_workers_hold_no_listening_log_or_control_descriptor() {
    let site = Site::script(
        "a.php",
        "foreach (scandir('/proc/self/fd') as $fd) echo $fd, ' ', @readlink(\"/proc/self/fd/$fd\"), \"\\n\";",
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
fn hardening_55_programs_started_by_scripts_inherit_three_descriptors() {
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
        assert!(matches!(fd, "0" | "1" | "2") || own, "{line}:\n{text}");
        assert!(!is_not_a_workers(&server, target), "{line}:\n{text}");
        seen += 1;
    }
    assert!(seen >= 8, "{text}");
}

// -- files that a site may write and the router reads --

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
        println!("skipped: a_lease_of_a_users_file_delays_nobody: there is no python3");
        return;
    };
    let mut held = [0; 5];
    if holder.stdout.take().unwrap().read_exact(&mut held).is_err() {
        println!("skipped: a_lease_of_a_users_file_delays_nobody: no leases on this file system");
        return;
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

// -- descriptors that workers get --

/// The descriptor was that of the router, which could write, so that a worker could fill the disk in
/// the name of the server's user.
#[test]
fn a_worker_can_only_read_the_file_of_a_body() {
    let code = "foreach (scandir('/proc/self/fd') as $number) {
        $file = @readlink('/proc/self/fd/' . $number);
        $facts = @file_get_contents('/proc/self/fdinfo/' . $number);
        if (str_starts_with((string)$file, '/') && preg_match('/flags:\\s*0?(\\d+)/', $facts, $found))
            echo (octdec($found[1]) & 3) === 0 ? 'read ' : 'write ', $file, \"\\n\";
    }
    echo strlen(file_get_contents('php://input'));";
    let server = Site::script("a.php", code).serve();
    let answer = server.post("/a.php", "application/octet-stream", vec![b'x'; 4 << 20]);
    let text = answer.text();
    assert!(text.ends_with(&(4 << 20).to_string()), "{text}");
    // Its temporary file has no name. Where a file system has no such files, it is in sealed memory.
    let temporary = server.site.data().with_file_name("tmp").display().to_string();
    let is_body = |line: &&str| line.contains(&temporary) && line.ends_with(" (deleted)");
    let body: Vec<_> = text.lines().filter(is_body).collect();
    assert!(body.iter().all(|line| line.starts_with("read ")), "{text}");
    assert!(!body.is_empty() || text.contains("/memfd:howdah-spool"), "{text}");
}
