//! Files of one application have no effect on the others, also when the server starts or changes.

use std::fs;
use std::path::Path;

use harness::{Server, Site, eventually, open_to_all, processes};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Further members of a document for another site with a root of its own and these changes.
fn other_site(root: &Path, changes: Value) -> Value {
    fs::create_dir_all(root).unwrap();
    open_to_all(root, 0o755);
    fs::write(root.join("b.php"), "<?php echo 'other';").unwrap();
    let mut other = json!({"type": "php", "root": root, "processes": 1});
    harness::merge(&mut other, changes);
    json!({
        "routes": [
            {"match": {"uri": "/b.php"}, "action": {"pass": "applications/other"}},
            {"action": {"pass": "applications/site"}},
        ],
        "applications": {"other": other},
    })
}

/// Two sites.
fn sites(root: &Path, changes: Value) -> Site {
    Site::script("a.php", "echo getmypid();").workers(1).with(other_site(root, changes))
}

fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    open_to_all(place.path(), 0o777);
    place
}

fn is_served_until(server: &Server, target: &str, status: u16) {
    eventually("the status is as expected", || (server.get(target).status == status).then_some(()));
}

#[test]
fn a_site_whose_root_is_gone_does_not_keep_the_others_from_being_served_at_the_start() {
    let place = place();
    let root = place.path().join("www");
    let site = sites(&root, json!({}));
    fs::rename(&root, place.path().join("away")).unwrap();
    let server = site.serve();
    assert_eq!(server.get("/a.php").status, 200);
    assert_eq!(server.get("/b.php").status, 503);
    let log = server.wait_for_log("the others are served");
    assert!(log.contains("[alert]") && log.contains("application \"other\": root"), "{log}");
    // The application is tried again by itself.
    fs::rename(place.path().join("away"), &root).unwrap();
    is_served_until(&server, "/b.php", 200);
}

#[test]
fn a_site_whose_root_is_gone_does_not_keep_a_new_router_from_serving_the_others() {
    let place = place();
    let root = place.path().join("www");
    let server = sites(&root, json!({})).serve();
    assert_eq!(server.get("/b.php").text(), "other");
    fs::rename(&root, place.path().join("away")).unwrap();
    processes::signal(server.router(), Signal::KILL);
    is_served_until(&server, "/a.php", 200);
    fs::rename(place.path().join("away"), &root).unwrap();
    is_served_until(&server, "/b.php", 200);
}

#[test]
fn a_server_whose_only_application_cannot_run_says_so_and_serves_the_rest() {
    let server = Site::script("a.php", "echo 1;")
        .with(json!({
            "routes": [
                {"match": {"uri": "/static"}, "action": {"return": 200, "body": "static"}},
                {"action": {"pass": "applications/site"}},
            ],
            "applications": {"site": {"root": "/nonexistent"}},
        }))
        .serve();
    let log = server.wait_for_log("the others are served");
    assert!(log.contains("application \"site\"") && log.contains("/nonexistent"), "{log}");
    assert_eq!(server.get("/static").text(), "static");
    assert_eq!(server.get("/a.php").status, 503);
}

#[test]
fn a_fifo_in_the_place_of_a_file_for_output_stops_its_application_alone() {
    let place = place();
    let fifo = place.path().join("err.log");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        0o666.into(),
        rustix::fs::makedev(0, 0),
    )
    .unwrap();
    open_to_all(&fifo, 0o666);
    let server = sites(&place.path().join("www"), json!({"stderr": fifo})).serve();
    assert_eq!(server.get("/a.php").status, 200);
    assert_eq!(server.get("/b.php").status, 503);
    server.wait_for_log("it is a FIFO without a reader");
    fs::remove_file(&fifo).unwrap();
    is_served_until(&server, "/b.php", 200);
}

#[test]
fn while_an_application_is_prepared_the_others_get_the_workers_that_they_need() {
    let place = place();
    let (preload, go) = (place.path().join("preload.php"), place.path().join("go"));
    fs::write(
        &preload,
        format!(
            "<?php while (!file_exists('{}')) {{ usleep(10000); clearstatcache(); }}",
            go.display()
        ),
    )
    .unwrap();
    let site = Site::script("a.php", "echo getmypid();").workers(1).controlled();
    let mut document = site.document(harness::free_address());
    harness::merge(&mut document, other_site(&place.path().join("www"), json!({})));
    let server = site.serve();
    server.put("/config", &document);
    let address = document["listeners"].as_object().unwrap().keys().next().unwrap().clone();
    let get = |target: &str| harness::client::Client::connect(address.parse().unwrap()).get(target);
    let worker = get("/a.php").text();
    let options = json!({"admin": {"opcache.preload": preload, "opcache.enable": "1"}});
    document["applications"]["other"]["options"] = options;
    std::thread::scope(|scope| {
        let change = scope.spawn(|| server.put("/config", &document));
        eventually("the new prototype has begun", || {
            let prototypes = server.processes().into_iter();
            let count = prototypes.filter(|process| process.title.contains("\"other\" prototype"));
            (count.count() == 2).then_some(())
        });
        processes::signal(worker.parse().unwrap(), Signal::KILL);
        eventually("there is another worker", || {
            let response = get("/a.php");
            (response.status == 200 && response.text() != worker).then_some(())
        });
        fs::write(&go, "").unwrap();
        change.join().unwrap();
    });
    assert_eq!(get("/b.php").text(), "other");
}

#[test]
fn nobody_else_can_open_the_lock_file_of_opcache() {
    // A process that has it open could hold its lock, and PHP would wait for that when it is
    // loaded.
    let server = Site::script(
        "a.php",
        "echo json_encode([ini_get('opcache.lockfile_path'), opcache_get_status(false) !== \
         false]);",
    )
    .with(json!({}))
    .serve();
    let answer: (String, bool) = serde_json::from_str(&server.get("/a.php").text()).unwrap();
    assert!(answer.1, "OPcache runs");
    let directory = Path::new(&answer.0);
    assert!(directory.file_name().unwrap().to_str().unwrap().starts_with(".howdah-"), "{answer:?}");
    assert!(!directory.exists(), "it is there only while PHP is loaded");
}

/// A database that accepts connections and never answers holds all processes of its site. The other
/// sites answer, and the commands are carried out.
#[test]
fn a_site_whose_database_never_answers_holds_nothing_else_up() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let code = format!(
        "if (isset($_GET['hang'])) {{
             $s = stream_socket_client('tcp://127.0.0.1:{port}');
             touch(getenv('DATA') . '/hangs-' . getmypid());
             fread($s, 1);
         }}
         echo 'here';"
    );
    let site = Site::script("index.php", &code);
    let (root, data) = (site.root(), site.data());
    let application = json!({"type": "php", "root": root, "script": "index.php",
        "processes": {"max": 2, "spare": 1}});
    let names: Vec<_> = (0..20).map(|number| format!("other{number}")).collect();
    let mut document = json!({"applications": {"site": {"processes": 2}}, "routes": []});
    for name in &names {
        document["applications"][name] = application.clone();
        let pass = format!("applications/{name}");
        let step = json!({"match": {"uri": format!("/{name}/*")}, "action": {"pass": pass}});
        document["routes"].as_array_mut().unwrap().push(step);
    }
    let last = json!({"action": {"pass": "applications/site"}});
    document["routes"].as_array_mut().unwrap().push(last);
    let control = format!("unix:{}", site.control_socket().display());
    let server = site.argument("--control").argument(&control).with(document).serve();
    let howdah = |arguments: &[&str]| {
        let mut command = std::process::Command::new(harness::programs::howdah());
        let output = harness::programs::run(command.args(arguments).args(["--control", &control]));
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    // Both processes hang, and requests wait.
    let _hanging: Vec<_> = (0..8)
        .map(|_| {
            let mut client = server.connect();
            client.send("GET /index.php?hang HTTP/1.1\r\nHost: a\r\n\r\n");
            client
        })
        .collect();
    eventually("its processes hang", || {
        let files = fs::read_dir(&data).unwrap().flatten();
        let hang = files.filter(|file| file.file_name().to_string_lossy().starts_with("hangs-"));
        (hang.count() == 2).then_some(())
    });
    let others = || {
        for name in &names {
            assert_eq!(server.get(&format!("/{name}/")).text(), "here");
        }
    };
    others();
    let status = howdah(&["status"]);
    let line = status.lines().find(|line| line.starts_with("site ")).unwrap();
    let columns: Vec<_> = line.split_whitespace().collect();
    assert_eq!(columns[1..5], ["2", "0", "0", "8"], "none of its processes is idle:\n{status}");
    howdah(&["reload"]);
    others();
    // The processes that hang continue with their requests; others start.
    howdah(&["restart", "site"]);
    others();
}
