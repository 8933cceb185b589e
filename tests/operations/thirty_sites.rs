//! A mistake of a site concerns only that site: of thirty sites, seven are broken, each in another
//! way.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use harness::client::Client;
use harness::time::Stopwatch;
use harness::tls::{self, Authority};
use harness::{Ends, Server, Site, eventually, free_address, open_to_all, programs, users};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Number of sites without a mistake.
const GOOD: usize = 23;

/// Sites whose application or route is out while they are broken.
const BROKEN: [&str; 5] = ["worker", "user", "root", "ini", "included"];

/// Maximum time for one response of each site, on a busy machine.
const MAX_ANSWER_TIME: Duration = Duration::from_secs(10);

/// The directory of everything that the sites use.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let place = tempfile::tempdir().unwrap();
        open_to_all(place.path(), 0o755);
        Place(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file that all users can read.
    fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        open_to_all(path.parent().unwrap(), 0o755);
        fs::write(&path, content).unwrap();
        open_to_all(&path, 0o644);
        path
    }

    /// Makes the directory of a site whose script writes its name and its process.
    fn site(&self, name: &str) -> PathBuf {
        let script = format!("<?php echo '{name} ', getmypid();");
        self.write(&format!("{name}/index.php"), &script).parent().unwrap().to_owned()
    }
}

fn application(root: &Path, changes: Value) -> Value {
    let mut application =
        json!({"type": "php", "root": root, "script": "index.php", "processes": 1});
    harness::merge(&mut application, changes);
    application
}

/// A worker script that serves requests.
const WORKER: &str = "<?php while (frankenphp_handle_request(fn() => print 'worker')) {}";

fn worker_site(place: &Path) -> Value {
    let changes = json!({"worker": {"script": "worker.php"}});
    application(place, changes)
}

/// Thirty sites, each with a path of its own, and everything that they use. The site of the lost
/// certificate and that of the taken port have no application.
struct Thirty {
    place: Place,
    passwd: PathBuf,
    with_user: String,
    authority: Authority,
    port: u16,
    tls_port: u16,
}

impl Thirty {
    /// Makes the sites. `None` if there can be no user that only the server knows.
    fn new() -> Option<(Thirty, Site)> {
        let (site, _) = users::site_with_own_user(Site::new())?;
        let passwd = site.root().with_file_name("users").join("passwd");
        let with_user = fs::read_to_string(&passwd).unwrap();
        let [port, tls_port] = [(); 2].map(|()| free_address().port());
        let (place, authority) = (Place::new(), Authority::new());
        for number in 0..GOOD {
            place.site(&format!("good{number}"));
        }
        for name in ["worker", "user", "root", "ini-site", "included"] {
            place.site(name);
        }
        for name in ["kept", "lost"] {
            let (chain, key) = authority.issue(&[&format!("{name}.example")]);
            place.write(&format!("{name}.pem"), &chain);
            place.write(&format!("{name}.key"), &key);
        }
        let thirty = Thirty { place, passwd, with_user, authority, port, tls_port };
        thirty.mend();
        let control = format!("unix:{}", site.control_socket().display());
        Some((thirty, site.argument("--control").argument(&control)))
    }

    fn certificate(&self, name: &str) -> Value {
        let [chain, key] = ["pem", "key"].map(|kind| self.place.path(&format!("{name}.{kind}")));
        json!({"chain": chain, "key": key})
    }

    /// Returns the document of the sites without a mistake.
    fn good(&self, address: &str) -> Value {
        let good: Vec<_> = (0..GOOD).map(|number| format!("good{number}")).collect();
        let sites = good.iter().map(|name| {
            let root = self.place.path(name);
            (name.clone(), application(&root, json!({})))
        });
        let mut routes: Vec<_> = good.iter().map(|name| step(name, "applications")).collect();
        routes.push(json!({"action": {"return": 204}}));
        json!({
            "listeners": {
                address: {"pass": "routes/main"},
                format!("127.0.0.1:{}", self.tls_port): {
                    "pass": "routes/main", "tls": {"certificate": [self.certificate("kept")]},
                },
            },
            "routes": {"main": routes},
            "applications": sites.collect::<serde_json::Map<_, _>>(),
        })
    }

    /// Returns the document of all sites.
    fn all(&self, address: &str) -> Value {
        let place = &self.place;
        let mut document = self.good(address);
        let applications = [
            ("worker", worker_site(&place.path("worker"))),
            ("user", application(&place.path("user"), json!({"user": users::NAME}))),
            ("root", application(&place.path("root"), json!({}))),
            (
                "ini",
                application(
                    &place.path("ini-site"),
                    json!({"options": {"file": place.path("ini/php.ini")}}),
                ),
            ),
        ];
        for (name, application) in applications {
            document["applications"][name] = application;
        }
        let steps = document["routes"]["main"].as_array_mut().unwrap();
        for name in BROKEN {
            let section = if name == "included" { "routes" } else { "applications" };
            steps.insert(0, step(name, section));
        }
        document["include"] = json!([place.path("conf.d/included.json")]);
        document["listeners"][format!("127.0.0.1:{}", self.port)] = json!({"pass": "routes/main"});
        let certificates = json!([self.certificate("kept"), self.certificate("lost")]);
        document["listeners"][format!("127.0.0.1:{}", self.tls_port)]["tls"]["certificate"] =
            certificates;
        document["access_log"] = json!(place.path("logs/other.log"));
        document
    }

    /// Breaks seven sites and a log. Returns the program that takes the port.
    fn spoil(&self) -> TcpListener {
        self.spoil_files();
        self.take_port()
    }

    /// Returns a program that takes the port of a site.
    fn take_port(&self) -> TcpListener {
        TcpListener::bind(("127.0.0.1", self.port)).unwrap()
    }

    /// Breaks the same files as [`Thirty::spoil`], but not the port.
    fn spoil_files(&self) {
        let place = &self.place;
        place.write("worker/worker.php", "<?php this is no PHP");
        let without = self.with_user.lines().filter(|line| !line.starts_with(users::NAME));
        fs::write(&self.passwd, without.collect::<Vec<_>>().join("\n") + "\n").unwrap();
        fs::rename(place.path("root"), place.path("away")).unwrap();
        place.write("ini/php.ini", "opcache.preload = /nonexistent/preload.php\n");
        place.write("conf.d/included.json", "{");
        fs::rename(place.path("lost.pem"), place.path("lost")).unwrap();
        fs::remove_dir_all(place.path("logs")).unwrap();
    }

    /// Repairs the files that [`Thirty::spoil`] has broken, but not the port.
    fn mend(&self) {
        let place = &self.place;
        place.write("worker/worker.php", WORKER);
        fs::write(&self.passwd, &self.with_user).unwrap();
        place.write("ini/php.ini", "memory_limit = 64M\n");
        let included = json!({
            "routes": {"included": [{"action": {"pass": "applications/included"}}]},
            "applications": {"included": application(&place.path("included"), json!({}))},
        });
        place.write("conf.d/included.json", &included.to_string());
        for (away, name) in [("away", "root"), ("lost", "lost.pem")] {
            if place.path(away).exists() {
                fs::rename(place.path(away), place.path(name)).unwrap();
            }
        }
        fs::create_dir_all(place.path("logs")).unwrap();
        fs::set_permissions(place.path("logs"), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Returns true if the site of a certificate answers over TLS.
    fn is_reached(&self, name: &str) -> bool {
        let client = self.authority.client(None, &[]);
        let address = ([127, 0, 0, 1], self.tls_port).into();
        let response = tls::get(address, &client, &format!("{name}.example"), "/");
        response.is_ok_and(|response| response.status == 204)
    }

    /// Returns kinds and names of the parts that are out while everything is broken.
    fn expected(&self) -> Vec<(String, String)> {
        let path = |name: &str| self.place.path(name).display().to_string();
        let mut expected: Vec<_> = [
            ("listener", format!("127.0.0.1:{}", self.port)),
            ("certificate", path("lost.pem")),
            ("include", path("conf.d/included.json")),
            ("log", path("logs/other.log")),
        ]
        .map(|(kind, name)| (kind.to_owned(), name))
        .into();
        let applications = BROKEN.iter().filter(|name| **name != "included");
        expected.extend(applications.map(|name| ("application".to_owned(), (*name).to_owned())));
        expected.sort();
        expected
    }

    /// Checks that the sites `out` are, that all that is broken is named, and that each comes back
    /// without a reload once it is mended. `pids`: responses of the others, which must not change.
    fn are_out_and_come_back(
        &self,
        server: &Server,
        taken: TcpListener,
        out: &[&str],
        pids: &[String],
    ) {
        assert!(self.is_reached("kept") && !self.is_reached("lost"));
        for name in out {
            assert_eq!(get(server, name).0, 503, "{name}");
        }
        let expected = self.expected();
        eventually("all are named", || (parts_out(server) == expected).then_some(()));
        let log = server.log();
        let status = text(&howdah(&["status"], server));
        let document = server.site.root().with_file_name("config.json");
        let check = programs::run(Command::new(programs::howdah()).arg("check").arg(document));
        assert_eq!(check.status.code(), Some(1), "{check:?}");
        let checked = text(&check);
        for (kind, name) in &expected {
            let is_told = |line: &str| line.contains("[alert]") && line.contains(name.as_str());
            assert!(log.lines().any(is_told), "{kind} {name}: {log}");
            assert!(status.contains(name.as_str()), "{kind} {name}: {status}");
            assert!(checked.contains(name.as_str()), "{kind} {name}: {checked}");
        }
        for line in documented() {
            let is_it = |told: &str| told.contains("[alert]") && in_order(told, &line);
            assert!(log.lines().any(is_it), "docs/hosting.md has {line:?}: {log}");
        }
        // The check says why in the same words. It knows more of a `php.ini` than PHP says, and not
        // whether the server has the former content of a file.
        let is_same = |(kind, name): &(String, String)| kind != "include" && name != "ini";
        for (part, reason) in reasons(server).into_iter().filter(|(part, _)| is_same(part)) {
            assert!(checked.contains(&reason), "{part:?}: {reason}: {checked}");
        }
        assert_eq!(answers(server), pids, "nothing has changed for the others");

        self.mend();
        drop(taken);
        for name in BROKEN {
            eventually(&format!("{name} is served"), || (get(server, name).0 == 200).then_some(()));
        }
        eventually("nothing is out", || parts_out(server).is_empty().then_some(()));
        assert!(self.is_reached("lost"));
        TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        assert!(self.place.path("logs/other.log").exists());
        assert_eq!(answers(server), pids, "nothing has changed for the others");
    }
}

/// Returns the step of a site for paths below `/NAME/`.
fn step(name: &str, section: &str) -> Value {
    let action = json!({"pass": format!("{section}/{name}"), "rewrite": "/index.php"});
    json!({"match": {"uri": format!("/{name}/*")}, "action": action})
}

fn get(server: &Server, name: &str) -> (u16, String) {
    let response = server.get(&format!("/{name}/x"));
    (response.status, response.text().to_owned())
}

/// Returns the responses of the sites without a mistake, with their process ids.
fn answers(server: &Server) -> Vec<String> {
    let begun = Stopwatch::start();
    let answer = |number| {
        let (status, text) = get(server, &format!("good{number}"));
        assert_eq!(status, 200, "good{number}: {text}");
        text
    };
    let answers = (0..GOOD).map(answer).collect();
    assert!(begun.elapsed() < MAX_ANSWER_TIME);
    answers
}

/// Returns kinds and names of the parts that are out.
fn parts_out(server: &Server) -> Vec<(String, String)> {
    let status = server.control("GET", "/status", "").succeeded();
    let parts = status.get("out").and_then(Value::as_array).cloned().unwrap_or_default();
    let text = |part: &Value, key: &str| part[key].as_str().unwrap_or_default().to_owned();
    let mut out: Vec<_> =
        parts.iter().map(|part| (text(part, "kind"), text(part, "name"))).collect();
    out.sort();
    out
}

/// Returns kind and name of each part that is out, and why it is.
fn reasons(server: &Server) -> Vec<((String, String), String)> {
    let status = server.control("GET", "/status", "").succeeded();
    let text = |part: &Value, key: &str| part[key].as_str().unwrap_or_default().to_owned();
    let parts = status["out"].as_array().unwrap().iter();
    parts.map(|part| ((text(part, "kind"), text(part, "name")), text(part, "reason"))).collect()
}

/// Runs a command of the server's control API.
fn howdah(arguments: &[&str], server: &Server) -> Output {
    let control = format!("unix:{}", server.site.control_socket().display());
    let mut command = Command::new(programs::howdah());
    programs::run(command.args(arguments).args(["--control", &control]))
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

/// Writes the document in place of the one that the harness has made.
fn serve(site: Site, address: &str, document: &Value) -> Server {
    fs::write(site.root().with_file_name("config.json"), document.to_string()).unwrap();
    site.with(json!({})).serve_again(address)
}

/// Returns the log lines of docs/hosting.md that this test is named for, in parts: names of the
/// example are anything.
fn documented() -> Vec<Vec<String>> {
    let page = include_str!("../../docs/hosting.md");
    let rows = page.lines().filter(|row| row.ends_with("| `thirty_sites` |"));
    let line = |row: &str| {
        let text = row.split(" | ").nth(3).unwrap().split('`').nth(1).unwrap();
        let text = text.replace("shop", "…").replace("*:8080", "…").replace("access.log", "….log");
        text.split('…').map(str::to_owned).collect::<Vec<_>>()
    };
    let lines: Vec<_> = rows.map(line).collect();
    assert!(lines.len() >= 7, "{lines:?}");
    lines
}

/// Returns true if a line has all parts, one after the other.
fn in_order(line: &str, parts: &[String]) -> bool {
    let mut rest = Some(line);
    for part in parts {
        rest = rest.and_then(|rest| Some(rest.split_once(part.as_str())?.1));
    }
    rest.is_some()
}

#[test]
fn each_broken_site_is_out_alone_after_a_start_and_comes_back_once_mended() {
    let Some((thirty, site)) = Thirty::new() else { return };
    let address = free_address().to_string();
    let document = thirty.all(&address);
    let server = serve(site, &address, &document);
    answers(&server);
    for name in BROKEN {
        eventually(&format!("{name} is served"), || (get(&server, name).0 == 200).then_some(()));
    }
    assert_eq!(parts_out(&server), []);
    assert!(thirty.is_reached("kept") && thirty.is_reached("lost"));

    // Everything breaks, and the server is started again.
    let (_, site) = server.end(Signal::TERM);
    let taken = thirty.spoil();
    let server = site.serve_again(&address);
    let pids = answers(&server);
    thirty.are_out_and_come_back(&server, taken, &BROKEN, &pids);
}

#[test]
fn each_broken_site_that_a_reload_adds_is_out_alone_and_comes_back_once_mended() {
    let Some((thirty, site)) = Thirty::new() else { return };
    let address = free_address().to_string();
    let server = serve(site, &address, &thirty.good(&address));
    let pids = answers(&server);
    assert!(thirty.is_reached("kept"));

    let taken = thirty.spoil();
    let document = server.site.root().with_file_name("config.json");
    fs::write(document, thirty.all(&address).to_string()).unwrap();
    let reloaded = howdah(&["reload"], &server);
    assert_eq!(reloaded.status.code(), Some(4), "{reloaded:?}");
    for (kind, name) in thirty.expected() {
        let lines = text(&reloaded);
        let lines = lines.lines().filter(|line| line.contains(&format!("{kind} \"{name}\": ")));
        assert_eq!(lines.count(), 1, "{kind} {name}: {reloaded:?}");
    }
    assert_eq!(answers(&server), pids);
    thirty.are_out_and_come_back(&server, taken, &BROKEN, &pids);
}

/// A site that a reload breaks is out, and is back after the next one.
#[test]
fn a_reload_leaves_out_only_what_cannot_run() {
    let Some((thirty, site)) = Thirty::new() else { return };
    let address = free_address().to_string();
    let mut document = thirty.all(&address);
    let server = serve(site, &address, &document);
    let pids = answers(&server);
    let file = server.site.root().with_file_name("config.json");
    document["applications"]["good0"]["group"] = json!("no-such-group");
    document["applications"]["gone"] = application(&thirty.place.path("nowhere"), json!({}));
    fs::write(&file, document.to_string()).unwrap();
    server.signal(Signal::HUP);
    server.wait_for_log("was read again");
    server.wait_for_log("application \"good0\": it continues unchanged");
    for (number, pid) in pids.iter().enumerate() {
        assert_eq!(get(&server, &format!("good{number}")), (200, pid.clone()));
    }
    document["applications"]["good0"].as_object_mut().unwrap().remove("group");
    fs::write(&file, document.to_string()).unwrap();
    server.signal(Signal::HUP);
    eventually("good0 is served", || (get(&server, "good0").0 == 200).then_some(()));
}

/// Sends requests to all sites without a mistake, one after the other, until `done`.
fn ask_on(address: SocketAddr, keep: bool, done: &AtomicBool, answered: &AtomicUsize) {
    let mut kept: Option<Client> = None;
    for number in (0..GOOD).cycle().take_while(|_| !done.load(Ordering::Relaxed)) {
        let mut client = kept.take().unwrap_or_else(|| Client::connect(address));
        let option = if keep { "" } else { "Connection: close\r\n" };
        client.send(format!("GET /good{number}/x HTTP/1.1\r\nHost: a\r\n{option}\r\n"));
        let response = client.response();
        assert_eq!(response.status, 200, "good{number}: {}", response.text());
        answered.fetch_add(1, Ordering::Relaxed);
        kept = (response.field("Connection") != Some("close")).then_some(client);
    }
}

/// All sites run, and the files that they use break. The new server cannot run seven of them.
#[test]
fn an_upgrade_amid_faults_loses_no_request_and_names_each_broken_site() {
    let Some((thirty, site)) = Thirty::new() else { return };
    let pid_file = site.data().join("howdah.pid");
    let site = site.argument("--pid").argument(&pid_file.display().to_string());
    let address = free_address().to_string();
    let taken = thirty.take_port();
    let server = serve(site, &address, &thirty.all(&address));
    answers(&server);
    for name in BROKEN {
        eventually(&format!("{name} is served"), || (get(&server, name).0 == 200).then_some(()));
    }
    thirty.spoil_files();
    let (done, answered) = (AtomicBool::new(false), [const { AtomicUsize::new(0) }; 4]);
    std::thread::scope(|scope| {
        let _ends = Ends(&done);
        let clients: Vec<_> = answered
            .iter()
            .enumerate()
            .map(|(number, answered)| {
                let (address, done) = (server.address, &done);
                scope.spawn(move || ask_on(address, number % 2 == 0, done, answered))
            })
            .collect();
        let served = || {
            let before = answered.each_ref().map(|count| count.load(Ordering::Relaxed));
            eventually("each client has all sites", || {
                let now = answered.each_ref().map(|count| count.load(Ordering::Relaxed));
                let all = now.iter().zip(before).all(|(now, before)| *now > before + GOOD);
                (all || clients.iter().any(|client| client.is_finished())).then_some(())
            });
        };
        let reloaded = howdah(&["reload"], &server);
        assert_eq!(reloaded.status.code(), Some(4), "{reloaded:?}");
        served();
        let upgraded = howdah(&["upgrade"], &server);
        assert_eq!(upgraded.status.code(), Some(4), "{upgraded:?}");
        let lines = text(&upgraded);
        assert!(lines.contains("Upgrade done: "), "{lines}");
        for (kind, name) in thirty.expected() {
            assert!(lines.contains(&format!("{kind} \"{name}\": ")), "{kind} {name}: {lines}");
        }
        let old = server.replaced_by(server.data("howdah.pid").trim().parse().unwrap());
        server.wait_for_end_of(old);
        served();
        done.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.join().unwrap());
    });
    let pids = answers(&server);
    // The included file keeps its former content.
    thirty.are_out_and_come_back(&server, taken, &["worker", "user", "root", "ini"], &pids);
}
