//! Files that do not answer, never end, or are no files: a change that names one is refused, and
//! the server continues.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use harness::control::Answer;
use harness::hanging::HangingFiles;
use harness::time::Stopwatch;
use harness::tls::Authority;
use harness::{Server, Site, eventually, processes, programs};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use serde_json::{Value, json};

/// The time within which a change is refused whose file does not answer, with a machine that is
/// busy.
const PATIENCE: Duration = Duration::from_secs(15);

/// The time that the server itself waits for a file.
const FILE_TIMEOUT: Duration = Duration::from_secs(5);

/// A site with a script and a control API, and a directory for files that may hang.
struct Served {
    server: Server,
    directory: PathBuf,
}

impl Served {
    /// `document` returns the additions to the document, and may write files.
    fn new(document: impl FnOnce(&Path) -> Value) -> Served {
        let site = Site::script("a.php", "echo getmypid();").workers(1);
        let directory = site.root().with_file_name("drive");
        fs::create_dir(&directory).unwrap();
        let control = format!("unix:{}", site.control_socket().display());
        let document = document(&directory);
        let server = site.argument("--control").argument(&control).with(document).serve();
        Served { server, directory }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Checks that the server does not wait: a worker that has died is replaced, by the supervisor
    /// on request of the router, and the control API answers.
    fn goes_on(&self) {
        let begun = Stopwatch::start();
        let pid = || self.server.get("/a.php").text().parse::<u32>().ok();
        let worker = pid().expect("a worker");
        processes::signal(worker, Signal::KILL);
        eventually("there is another worker", || pid().filter(|other| *other != worker));
        self.server.control("GET", "/config/listeners", "").succeeded();
        self.server.control("GET", "/status", "").succeeded();
        let took = begun.elapsed();
        assert!(took < FILE_TIMEOUT, "{took:?}");
    }

    /// Makes a change whose file hangs. Returns the answer.
    fn change(&self, target: &str, value: &Value) -> Answer {
        let (stopwatch, begun) = (Stopwatch::start(), Instant::now());
        std::thread::scope(|scope| {
            let change =
                scope.spawn(|| self.server.control("PUT", target, value.to_string().as_bytes()));
            harness::time::sleep(Duration::from_millis(300));
            self.goes_on();
            // On a busy machine, the time may be over.
            let is_over = begun.elapsed() >= FILE_TIMEOUT;
            assert!(is_over || !change.is_finished(), "it does not hang: {:?}", change.join());
            let answer = change.join().unwrap();
            assert!(stopwatch.elapsed() < PATIENCE, "{:?}", begun.elapsed());
            answer
        })
    }

    /// Checks that a change is refused because a file does not answer, and is made once it does.
    fn refused_while_hanging(&self, file: &Path, target: &str, value: &Value, place: &str) {
        let Some(hanging) = HangingFiles::new(&[file]) else { return };
        let answer = self.change(target, value);
        let detail = answer.text("detail").to_owned();
        assert_eq!(answer.status, 500, "{answer:?}");
        for part in [place, &file.display().to_string(), "has not answered for 5 s"] {
            assert!(detail.contains(part), "{part}: {detail}");
        }
        self.goes_on();
        drop(hanging);
        self.server.control("PUT", target, value.to_string()).succeeded();
    }

    fn reload(&self) -> Output {
        let control = format!("unix:{}", self.server.site.control_socket().display());
        let mut command = Command::new(programs::howdah());
        command.args(["reload", "--control", &control]).output().unwrap()
    }
}

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
}

fn listener(certificate: &Path, key: &Path) -> Value {
    let files = json!({"chain": certificate, "key": key});
    json!({"pass": "routes", "tls": {"certificate": files}})
}

#[test]
fn a_certificate_that_hangs_is_refused() {
    let served = Served::new(|_| json!({}));
    let (certificate, key) = Authority::new().issue(&["localhost"]);
    let (files, address) =
        (["c.pem", "k.pem"].map(|name| served.file(name)), harness::free_address());
    fs::write(&files[0], certificate).unwrap();
    fs::write(&files[1], key).unwrap();
    let target = format!("/config/listeners/{address}");
    let listener = listener(&files[0], &files[1]);
    let place = format!("/listeners/{address}/tls");
    served.refused_while_hanging(&files[1], &target, &listener, &place);
}

/// A process that is killed or stopped is no evidence about the file.
#[test]
fn a_file_whose_process_is_killed_is_opened_by_another_one() {
    let served = Served::new(|_| json!({}));
    let file = served.file("access.log");
    fs::write(&file, "").unwrap();
    let log = json!({"path": file}).to_string();
    let Some(hanging) = HangingFiles::new(&[&file]) else { return };
    let opens_log = || {
        let all = served.server.processes().into_iter();
        all.filter(|process| process.title == "howdah: files").map(|process| process.pid).max()
    };
    std::thread::scope(|scope| {
        let change = scope.spawn(|| served.server.control("PUT", "/config/access_log", &log));
        let first = eventually("a process opens the log", opens_log);
        harness::time::sleep(Duration::from_millis(300));
        processes::signal(first, Signal::KILL);
        eventually("another one opens it", || opens_log().filter(|other| *other != first));
        drop(hanging);
        change.join().unwrap().succeeded();
    });
    // An idle helper is stopped, and gets no task.
    let idle = eventually("a process is there", || {
        let _ = served.server.control("PUT", "/config/access_log", &log);
        opens_log()
    });
    processes::signal(idle, Signal::STOP);
    let begun = Stopwatch::start();
    let other = json!({"path": served.file("other.log")}).to_string();
    served.server.control("PUT", "/config/access_log", &other).succeeded();
    assert!(begun.elapsed() < PATIENCE);
}

#[test]
fn a_certificate_that_hangs_while_it_is_served_stays_in_use_and_stops_nothing() {
    let authority = Authority::new();
    let address = harness::free_address();
    let served = Served::new(|directory| {
        let (certificate, key) = authority.issue(&["localhost"]);
        let files = ["c.pem", "k.pem"].map(|name| directory.join(name));
        fs::write(&files[0], certificate).unwrap();
        fs::write(&files[1], key).unwrap();
        json!({"listeners": {address.to_string(): listener(&files[0], &files[1])}})
    });
    let file = served.file("c.pem");
    let Some(hanging) = HangingFiles::new(&[&file]) else { return };
    // The file is looked at every five seconds.
    let log = served.server.wait_for_log("the old one stays in use");
    assert!(log.contains("has not answered for 5 s"), "{log}");
    served.goes_on();
    let client = harness::tls::trusting(&authority.pem());
    assert!(!harness::tls::certificate(address, &client, "localhost").is_empty());
    // A change that does not touch the certificate is not refused for it, and does not wait for
    // long.
    let begun = Stopwatch::start();
    let routes = json!([{"action": {"return": 204}}]).to_string();
    served.server.control("PUT", "/config/routes", &routes).succeeded();
    assert!(begun.elapsed() < PATIENCE);
    assert!(!harness::tls::certificate(address, &client, "localhost").is_empty());
    drop(hanging);
}

#[test]
fn a_log_that_hangs_is_refused() {
    let served = Served::new(|_| json!({}));
    let file = served.file("access.log");
    fs::write(&file, "").unwrap();
    let log = json!({"path": file});
    served.refused_while_hanging(&file, "/config/access_log", &log, "/access_log");
}

#[test]
fn a_database_of_addresses_that_hangs_is_refused() {
    #[path = "../../crates/template/src/geo_database/writer.rs"]
    mod writer;
    let served = Served::new(|_| json!({}));
    let file = served.file("a.mmdb");
    let content = json!({"country": {"iso_code": "DE"}});
    fs::write(&file, writer::write(&[("10.0.0.0/8", content)])).unwrap();
    let variable = json!({"geo": "$remote_addr", "database": file, "path": "country.iso_code"});
    let variables = json!({"country": variable});
    let place = "/variables/country/database";
    served.refused_while_hanging(&file, "/config/variables", &variables, place);
}

#[test]
fn an_included_file_that_hangs_is_named_and_the_old_configuration_runs_on() {
    let served = Served::new(|directory| {
        for name in ["a", "b"] {
            let upstream = json!({"upstreams": {name: {"servers": {"127.0.0.1:1": {}}}}});
            fs::write(directory.join(name).with_extension("json"), upstream.to_string()).unwrap();
        }
        json!({"include": "drive/*.json"})
    });
    let file = served.file("b.json");
    let Some(hanging) = HangingFiles::new(&[&file]) else { return };
    std::thread::scope(|scope| {
        let begun = Instant::now();
        let reload = scope.spawn(|| served.reload());
        harness::time::sleep(Duration::from_millis(300));
        served.goes_on();
        assert!(begun.elapsed() >= FILE_TIMEOUT || !reload.is_finished());
        let output = reload.join().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{text}");
        let expected = format!("/include: {}: its file system has not answered", file.display());
        assert!(text.contains("config.json") && text.contains(&expected), "{text}");
    });
    served.goes_on();
    drop(hanging);
    let output = served.reload();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_table_that_hangs_stays_as_it_is() {
    let served = Served::new(|directory| {
        fs::write(directory.join("t.json"), r#"{"/a": "1"}"#).unwrap();
        json!({
            "variables": {"v": {"map": "$uri", "values": "drive/t.json", "default": "0"}},
            "access_log": {"path": "/dev/null", "format": "$v"},
        })
    });
    let file = served.file("t.json");
    let new = served.file("new.json");
    fs::write(&new, r#"{"/a": "2", "/b": "3"}"#).unwrap();
    let Some(hanging) = HangingFiles::new(&[&new]) else { return };
    fs::rename(&new, &file).unwrap();
    let log = served.server.wait_for_log("files with tables of the configuration cannot be read");
    assert!(
        log.contains(&format!("{}: its file system has not answered", file.display())),
        "{log}"
    );
    served.goes_on();
    // One process waits for the drive, however often the files are due, and others open files.
    let access_log = json!({"path": served.directory.with_file_name("access.log")}).to_string();
    served.server.control("PUT", "/config/access_log", access_log).succeeded();
    harness::time::sleep(Duration::from_secs(6));
    eventually("one process waits", || {
        let all = served.server.processes().into_iter();
        (all.filter(|process| process.title == "howdah: files").count() == 1).then_some(())
    });
    assert_eq!(served.server.log().matches("files with tables").count(), 1);
    let path = "/config/variables/v/values";
    assert_eq!(served.server.control("GET", path, "").succeeded(), json!({"/a": "1"}));
    drop(hanging);
    eventually("the new table is used", || {
        let table = served.server.control("GET", path, "").succeeded();
        (table == json!({"/a": "2", "/b": "3"})).then_some(())
    });
}

#[test]
fn a_file_of_users_that_hangs_keeps_its_last_content() {
    let served = Served::new(|directory| {
        fs::write(directory.join("users"), "me:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n").unwrap();
        let auth = json!({"users_file": directory.join("users")});
        let secret =
            json!({"match": {"uri": "/secret"}, "action": {"basic_auth": auth, "return": 204}});
        let site = directory.with_file_name("www");
        let action = json!({
            "share": format!("{}$uri", site.display()), "scripts": "applications/site",
        });
        json!({"routes": [secret, {"action": action}]})
    });
    let login = |password: &str| {
        let request = format!(
            "GET /secret HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {password}\r\nConnection: \
             close\r\n\r\n"
        );
        served.server.send(request).status
    };
    // me:secret, me:public
    let (right, wrong) = ("bWU6c2VjcmV0", "bWU6cHVibGlj");
    assert_eq!((login(right), login(wrong)), (204, 401));
    let Some(_hanging) = HangingFiles::new(&[&served.file("users")]) else { return };
    std::thread::sleep(Duration::from_millis(1100));
    std::thread::scope(|scope| {
        let begun = Stopwatch::start();
        let waiting = scope.spawn(|| (login(right), login(wrong)));
        served.goes_on();
        assert_eq!(waiting.join().unwrap(), (204, 401));
        assert!(begun.elapsed() < PATIENCE);
    });
    served.server.wait_for_log("its last content stays in use");
    let begun = Stopwatch::start();
    assert_eq!((login(right), login(wrong)), (204, 401));
    assert!(begun.elapsed() < FILE_TIMEOUT, "nobody waits twice");
}

#[test]
fn a_name_that_nobody_resolves_delays_the_change_alone() {
    let silent = std::net::UdpSocket::bind(harness::free_address()).unwrap();
    let resolver = silent.local_addr().unwrap().to_string();
    let served = Served::new(|_| json!({"settings": {"resolver": resolver}}));
    let upstream = json!({"servers": {"nobody.example:80": {}}});
    let answer = served.change("/config/upstreams", &json!({"u": upstream}));
    // Its address may come later.
    answer.succeeded();
    served.goes_on();
}

#[test]
fn a_state_directory_that_hangs_delays_the_change_alone() {
    let server = Site::script("a.php", "echo getmypid();").workers(1).controlled().serve();
    server.put("/config", &server.site.document(server.address));
    let directory = server.site.state();
    let served = Served { server, directory };
    let stored = || fs::read_to_string(served.directory.join("conf.json")).unwrap();
    let before = stored();
    let Some(hanging) = HangingFiles::new(&[&served.directory]) else { return };
    std::thread::scope(|scope| {
        let change = scope.spawn(|| {
            let step = json!({"match": {"uri": "/new"}, "action": {"return": 204}});
            served.server.control("POST", "/config/routes", step.to_string())
        });
        harness::time::sleep(Duration::from_millis(300));
        served.goes_on();
        assert!(!change.is_finished(), "{:?}", change.join());
        // A router that dies meanwhile is replaced once it is known which configuration it begins
        // with.
        drop(hanging);
        change.join().unwrap().succeeded();
    });
    assert_ne!(stored(), before);
    served.goes_on();

    // The configuration that was stored is the one that runs, even if the client could not be told.
    let Some(hanging) = HangingFiles::new(&[&served.directory]) else { return };
    std::thread::scope(|scope| {
        let change = scope.spawn(|| {
            let step = json!({"action": {"return": 418}}).to_string();
            harness::control::ask(
                &served.server.site.control_socket(),
                "PUT",
                "/config/routes/0",
                step.as_bytes(),
            )
        });
        harness::time::sleep(Duration::from_millis(500));
        processes::signal(served.server.router(), Signal::KILL);
        harness::time::sleep(Duration::from_millis(300));
        drop(hanging);
        drop(change.join());
    });
    let status = eventually("another router serves", || Some(served.server.get("/").status));
    let is_stored = stored().contains("418");
    assert_eq!(status == 418, is_stored, "{status} {}", stored());
    assert!(is_stored);
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let served = Served::new(|_| json!({}));
    let (certificate, key) = Authority::new().issue(&["localhost"]);
    let [pem, key_file] = ["c.pem", "k.pem"].map(|name| served.file(name));
    fs::write(&pem, certificate).unwrap();
    fs::write(&key_file, key).unwrap();
    let pipe = served.file("pipe");
    fifo(&pipe);
    let endless = served.file("endless");
    std::os::unix::fs::symlink("/dev/zero", &endless).unwrap();
    let large = served.file("large");
    fs::File::create(&large).unwrap().set_len(3 << 40).unwrap();
    let address = harness::free_address();
    let target = format!("/config/listeners/{address}");
    for (file, problem) in [
        (&pipe, "it is not a regular file"),
        // The router may not open devices.
        (&endless, ""),
        (&served.directory, "it is a directory"),
        (&large, ""),
    ] {
        let variable = json!({"geo": "$remote_addr", "database": file, "path": "a"});
        let tls = format!("/listeners/{address}/tls");
        let changes = [
            (target.as_str(), listener(file, &key_file), tls.as_str()),
            (target.as_str(), listener(&pem, file), tls.as_str()),
            ("/config/variables", json!({"v": variable}), "/variables/v/database"),
        ];
        for (target, value, place) in changes {
            let begun = Stopwatch::start();
            let answer = served.server.control("PUT", target, value.to_string());
            let detail = answer.text("detail");
            assert_eq!(answer.status, 500, "{answer:?}");
            for part in [place, &file.display().to_string(), problem] {
                assert!(detail.contains(part), "{part}: {detail}");
            }
            assert!(begun.elapsed() < FILE_TIMEOUT, "{detail}");
        }
    }
    // A pipe without a reader, and files that cannot be appended to.
    for file in [&pipe, &served.directory] {
        let answer =
            served.server.control("PUT", "/config/access_log", json!({"path": file}).to_string());
        let detail = answer.text("detail");
        assert_eq!(answer.status, 500, "{answer:?}");
        assert!(
            detail.contains("/access_log: ") && detail.contains("cannot be opened"),
            "{detail}"
        );
    }
    served.goes_on();
}
