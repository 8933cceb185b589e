//! One site's mistake is its own: thirty sites, of which each of seven is broken in another way.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use harness::tls::{self, Authority};
use harness::{Server, Site, eventually, open_to_all, users};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Number of sites without a mistake.
const GOOD: usize = 23;

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

    /// Writes a file that everybody can read.
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

/// Returns what a document has on top for thirty sites. Each has a path of its own.
fn thirty(place: &Place, port: u16, tls_port: u16, authority: &Authority) -> Value {
    let mut applications = serde_json::Map::new();
    for number in 0..GOOD {
        let name = format!("good{number}");
        applications.insert(name.clone(), application(&place.site(&name), json!({})));
    }
    place.site("worker");
    place.write("worker/worker.php", WORKER);
    applications.insert("worker".to_owned(), worker_site(&place.path("worker")));
    let user = json!({"user": users::NAME});
    applications.insert("user".to_owned(), application(&place.site("user"), user));
    applications.insert("root".to_owned(), application(&place.site("root"), json!({})));
    let ini = place.write("ini/php.ini", "memory_limit = 64M\n");
    let with_ini = json!({"options": {"file": ini}});
    applications.insert("ini".to_owned(), application(&place.site("ini-site"), with_ini));
    let mut routes: Vec<_> = { applications.keys() }
        .map(|name| {
            let action = json!({"pass": format!("applications/{name}"), "rewrite": "/index.php"});
            json!({"match": {"uri": format!("/{name}/*")}, "action": action})
        })
        .collect();
    routes.push(json!({"action": {"return": 204}}));
    let certificates: Vec<_> = ["kept", "lost"]
        .map(|name| {
            let (chain, key) = authority.issue(&[&format!("{name}.example")]);
            let chain = place.write(&format!("{name}.pem"), &chain);
            json!({"chain": chain, "key": place.write(&format!("{name}.key"), &key)})
        })
        .into();
    place.write("logs/x", "");
    json!({
        "listeners": {
            format!("127.0.0.1:{port}"): {"pass": "routes"},
            format!("127.0.0.1:{tls_port}"): {
                "pass": "routes", "tls": {"certificate": certificates},
            },
        },
        "routes": routes,
        "applications": applications,
        "access_log": place.path("logs/other.log"),
    })
}

fn get(server: &Server, name: &str) -> (u16, String) {
    let response = server.get(&format!("/{name}/x"));
    (response.status, response.text().to_owned())
}

fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

fn assert_good(server: &Server) -> Vec<String> {
    (0..GOOD)
        .map(|number| {
            let (status, text) = get(server, &format!("good{number}"));
            assert_eq!(status, 200, "good{number}: {text}");
            text
        })
        .collect()
}

fn comes_back(server: &Server, name: &str) {
    eventually(&format!("{name} is served"), || (get(server, name).0 == 200).then_some(()));
}

/// Returns kinds and names of the parts that are out.
fn out(server: &Server) -> Vec<(String, String)> {
    let status = server.control("GET", "/status", "").succeeded();
    let parts = status.get("out").and_then(Value::as_array).cloned().unwrap_or_default();
    let text = |part: &Value, key: &str| part[key].as_str().unwrap_or_default().to_owned();
    parts.iter().map(|part| (text(part, "kind"), text(part, "name"))).collect()
}

#[test]
fn each_broken_site_is_out_alone_is_named_and_comes_back_once_mended() {
    let place = Place::new();
    let [port, tls_port] = [(); 2].map(|()| free_port());
    let Some((site, _)) = users::site_with_own_user(Site::new()) else { return };
    let passwd = site.root().with_file_name("users").join("passwd");
    let with_user = fs::read_to_string(&passwd).unwrap();
    let authority = Authority::new();
    let site = site.controlled();
    let address = harness::free_address();
    let mut document = site.document(address);
    harness::merge(&mut document, thirty(&place, port, tls_port, &authority));
    let server = site.serve_at(&address.to_string());
    server.put("/config", &document);
    assert_good(&server);
    for name in ["worker", "user", "root", "ini"] {
        comes_back(&server, name);
    }
    assert_eq!(out(&server), []);
    let client = authority.client(None, &[]);
    let tls_address = ([127, 0, 0, 1], tls_port).into();
    let is_reached = |name: &str| {
        tls::get(tls_address, &client, name, "/").is_ok_and(|response| response.status == 204)
    };
    assert!(is_reached("kept.example") && is_reached("lost.example"));

    // Everything breaks, and the server is started again.
    let (_, site) = server.end(Signal::TERM);
    place.write("worker/worker.php", "<?php this is no PHP");
    let without = with_user.lines().filter(|line| !line.starts_with(users::NAME));
    fs::write(&passwd, without.collect::<Vec<_>>().join("\n") + "\n").unwrap();
    fs::rename(place.path("root"), place.path("away")).unwrap();
    place.write("ini/php.ini", "opcache.preload = /nonexistent/preload.php\n");
    fs::remove_dir_all(place.path("logs")).unwrap();
    fs::rename(place.path("lost.pem"), place.path("lost")).unwrap();
    let taken = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let server = site.serve_at(&address.to_string());
    let pids = assert_good(&server);
    assert!(is_reached("kept.example") && !is_reached("lost.example"));
    for name in ["worker", "user", "root", "ini"] {
        assert_eq!(get(&server, name).0, 503, "{name}");
    }
    let listener = format!("127.0.0.1:{port}");
    let named = |kind: &str, name: &str| (kind.to_owned(), name.to_owned());
    let expected = [
        named("listener", &listener),
        named("certificate", &place.path("lost.pem").display().to_string()),
        named("application", "ini"),
        named("application", "root"),
        named("application", "user"),
        named("application", "worker"),
        named("log", &place.path("logs/other.log").display().to_string()),
    ];
    eventually("all are named", || (out(&server) == expected).then_some(()));
    for (kind, name) in &expected {
        let log = server.log();
        assert!(log.contains("[alert]") && log.contains(name.as_str()), "{kind} {name}: {log}");
    }

    // What is mended comes back by itself.
    place.write("worker/worker.php", WORKER);
    fs::write(&passwd, &with_user).unwrap();
    fs::rename(place.path("away"), place.path("root")).unwrap();
    place.write("ini/php.ini", "memory_limit = 64M\n");
    fs::create_dir_all(place.path("logs")).unwrap();
    fs::set_permissions(place.path("logs"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(place.path("lost"), place.path("lost.pem")).unwrap();
    drop(taken);
    for name in ["worker", "user", "root", "ini"] {
        comes_back(&server, name);
    }
    eventually("nothing is out", || out(&server).is_empty().then_some(()));
    assert_eq!(assert_good(&server), pids, "nothing has changed for the others");
    assert!(is_reached("lost.example"));
    TcpStream::connect(("127.0.0.1", port)).unwrap();
    assert!(place.path("logs/other.log").exists());
}

/// A document that is read again is taken over without what cannot run; its other sites go on.
#[test]
fn a_reload_leaves_out_only_what_cannot_run() {
    let place = Place::new();
    let [port, tls_port] = [(); 2].map(|()| free_port());
    let site = Site::new().with(thirty(&place, port, tls_port, &Authority::new()));
    // The user of one site is unknown from the start.
    let server = site.serve();
    let pids = assert_good(&server);
    assert_eq!(get(&server, "user").0, 503);
    let file = server.site.root().with_file_name("config.json");
    let mut document: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    document["applications"]["good0"]["group"] = json!("no-such-group");
    document["applications"]["gone"] = application(&place.path("nowhere"), json!({}));
    fs::write(&file, document.to_string()).unwrap();
    server.signal(Signal::HUP);
    server.wait_for_log("was read again");
    assert_eq!(get(&server, "good0").0, 503);
    for (number, pid) in pids.iter().enumerate().skip(1) {
        assert_eq!(get(&server, &format!("good{number}")), (200, pid.clone()));
    }
    document["applications"]["good0"].as_object_mut().unwrap().remove("group");
    fs::write(&file, document.to_string()).unwrap();
    server.signal(Signal::HUP);
    comes_back(&server, "good0");
}
