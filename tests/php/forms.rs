//! Forms and uploads: limits of their cost, and the removal of their files.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use harness::time::Stopwatch;
use harness::{Server, Site, eventually, processes};
use rustix::process::Signal;
use serde_json::json;

const FORM: &str = "application/x-www-form-urlencoded";
const MULTIPART: &str = "multipart/form-data; boundary=B";

fn form_site() -> Site {
    Site::script(
        "a.php",
        "echo count($_POST), ' ', count($_FILES), ' ', is_array($_POST['a'] ?? 0) ? \
         count($_POST['a']) : 0, ' ', getmypid();",
    )
    .file("kill.php", "<?php posix_kill(getmypid(), SIGKILL);")
    .file("fatal.php", "<?php no_such_function();")
    .workers(1)
    .with(json!({"applications": {"site": {"options": {"admin": {
        "max_input_vars": "1000", "display_errors": "0", "display_startup_errors": "0",
    }}}}}))
}

/// Posts a form within a time and to a worker that lives on; returns the counts of the script.
fn post_within(server: &Server, limit: Duration, kind: &str, body: &[u8]) -> Vec<u64> {
    let worker = server.workers()[0];
    let (begun, used) = (Stopwatch::start(), processes::processor_time(worker));
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
fn forms_of_countless_or_endless_parts_are_bounded() {
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
fn uploads_leave_no_file_however_their_request_ends() {
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
        "POST /a.php HTTP/1.1\r\nHost: a\r\nContent-Type: {MULTIPART}\r\nContent-Length: \
         {}\r\n\r\n",
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
fn uploads_of_killed_workers_and_servers_are_removed() {
    let mut server = form_site()
        .file(
            "wait.php",
            "<?php file_put_contents(getenv('DATA') . '/begun', $_FILES['f']['tmp_name']);
             while (true) usleep(1000);",
        )
        .with(json!({"applications": {"site": {"limits": {"timeout": 3}}}}))
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
fn an_upload_is_what_php_says_it_is() {
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
fn colliding_names_cost_no_time() {
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

#[test]
fn a_body_or_file_above_the_limits_of_php_is_in_the_log_once_with_what_to_set() {
    let options = json!({"admin": {"post_max_size": "100K", "upload_max_filesize": "10K",
        "log_errors": "0"}});
    let one = json!({"options": options, "processes": 3});
    let site = Site::script(
        "index.php",
        "if (isset($_GET['wait'])) for ($n = 0; $n < 500 && count(glob(getenv('DATA') . '/at-*')) \
         < 3; $n++) {
             touch(getenv('DATA') . '/at-' . getmypid());
             usleep(20000);
         }
         echo $_FILES['f']['error'] ?? 'none';",
    );
    let mut other = one.clone();
    other["type"] = json!("php");
    other["root"] = json!(site.root());
    other["script"] = json!("index.php");
    let server = site
        .with(json!({
            "routes": [
                {"match": {"uri": "/other/*"}, "action": {"pass": "applications/other"}},
                {"action": {"pass": "applications/site"}},
            ],
            "applications": {"site": one, "other": other},
        }))
        .serve();
    let upload = |target: &str, bytes: usize| {
        let file = "x".repeat(bytes);
        let body = format!(
            "--b\r\nContent-Disposition: form-data; name=\"f\"; \
             filename=\"a\"\r\n\r\n{file}\r\n--b--\r\n"
        );
        server.post(target, "multipart/form-data; boundary=b", body).text().to_owned()
    };
    let lines = || server.log().lines().filter(|line| line.contains(" exceeds ")).count();
    assert_eq!(upload("/", 1000), "0");
    assert_eq!(lines(), 0, "{}", server.log());
    // Three processes of the application.
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| assert_eq!(upload("/?wait", 20_000), "1"));
        }
    });
    for _ in 0..3 {
        assert_eq!(upload("/", 200_000), "none");
    }
    server.wait_for_log("a file in a request body of 20");
    server.wait_for_log(
        "exceeds upload_max_filesize (10K), and PHP has dropped it; raise upload_max_filesize in",
    );
    server.wait_for_log(
        "exceeds post_max_size (100K), and PHP has dropped it; raise post_max_size in",
    );
    assert_eq!(lines(), 2, "{}", server.log());
    // Another application has lines of its own.
    assert_eq!(upload("/other/", 20_000), "1");
    eventually("its line", || (lines() == 3).then_some(()));
}
