//! Problems that need attention are reported first, by exit statuses, and until they are solved.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use harness::tls::{self, Authority};
use harness::{Server, Site, eventually, free_address, programs};
use serde_json::{Value, json};

const DAY: Duration = Duration::from_secs(86_400);

/// Runs a command of the server's control API.
fn howdah(server: &Server, arguments: &[&str]) -> (Option<i32>, String) {
    let control = format!("unix:{}", server.site.control_socket().display());
    let mut command = Command::new(programs::howdah());
    let output = programs::run(command.args(arguments).args(["--control", &control]));
    (output.status.code(), text(&output))
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

/// Serves a document with a control socket, without a state.
fn serve(site: Site, document: Value) -> Server {
    let control = format!("unix:{}", site.control_socket().display());
    site.argument("--control").argument(&control).with(document).serve()
}

/// Writes a certificate and its key, and returns the settings.
fn certificate(directory: &Path, name: &str, (chain, key): (String, String)) -> Value {
    let files = ["pem", "key"].map(|kind| directory.join(format!("{name}.{kind}")));
    fs::write(&files[0], chain).unwrap();
    fs::write(&files[1], key).unwrap();
    json!({"chain": files[0], "key": files[1]})
}

fn problems(server: &Server) -> (Option<i32>, String) {
    howdah(server, &["status", "--problems"])
}

/// A certificate that breaks while it is served stays in use, and is noticed only when it expires.
#[test]
fn a_certificate_that_breaks_while_it_is_served_is_told_until_it_is_mended() {
    let authority = Authority::new();
    let site = Site::new().file("a.txt", "a file");
    let data = site.data();
    let settings = certificate(&data, "a", authority.issue(&["a.example"]));
    let address = free_address();
    let listener = json!({"pass": "routes", "tls": {"certificate": settings}});
    let document = json!({
        "listeners": {address.to_string(): listener},
        "routes": [{"action": {"return": 204}}],
    });
    let server = serve(site, document);
    let file = data.join("a.pem");
    let name = file.display().to_string();
    let good = fs::read(&file).unwrap();
    let client = authority.client(None, &[]);
    assert_eq!(problems(&server), (Some(0), "No problems.\n".to_owned()));
    assert_eq!(howdah(&server, &["reload"]).0, Some(0));

    type Break = fn(&PathBuf);
    let breaks: [(&str, Break); 3] = [
        ("it holds neither a certificate", |file| fs::write(file, "garbage").unwrap()),
        ("No such file or directory", |file| fs::remove_file(file).unwrap()),
        ("cannot be read: ", |file| {
            fs::remove_file(file).unwrap();
            fs::create_dir(file).unwrap();
        }),
    ];
    for (reason, spoil) in breaks {
        spoil(&file);
        let begun = server.log().len();
        eventually("it is told", || {
            let (code, lines) = problems(&server);
            let line = lines.lines().find(|line| line.contains(&name))?.to_owned();
            assert_eq!(code, Some(1), "{lines}");
            assert!(line.starts_with("OUT since "), "{line}");
            assert!(line.contains(reason) && line.contains("the old one stays in use"), "{line}");
            assert!(line.contains("expires on "), "{line}");
            assert!(lines.starts_with("1 part is out\n"), "{lines}");
            Some(())
        });
        let log = server.log();
        let alerts = log[begun..].lines().filter(|line| line.contains("[alert]"));
        assert_eq!(alerts.filter(|line| line.contains(&name)).count(), 1, "{log}");
        let (code, told) = howdah(&server, &["reload"]);
        assert_eq!(code, Some(4), "{told}");
        assert!(told.contains("howdah: OUT since ") && told.contains(reason), "{told}");
        assert_eq!(howdah(&server, &["reload", "--tolerant"]).0, Some(0));
        let (code, status) = howdah(&server, &["status"]);
        assert_eq!(code, Some(0));
        assert!(status.starts_with("1 part is out\nOUT since "), "{status}");
        assert_eq!(tls::get(address, &client, "a.example", "/").unwrap().status, 204);

        if file.is_dir() {
            fs::remove_dir(&file).unwrap();
        }
        fs::write(&file, &good).unwrap();
        let is_mended = || (problems(&server).0 == Some(0)).then_some(());
        eventually("it is mended", is_mended);
        server.wait_for_log(&format!("certificate \"{name}\" works again"));
        assert_eq!(howdah(&server, &["reload"]).0, Some(0));
    }
}

/// The authorities of client certificates are files of a listener, too.
#[test]
fn authorities_that_break_while_they_are_used_are_told_until_they_are_mended() {
    let authority = Authority::new();
    let site = Site::new();
    let data = site.data();
    let settings = certificate(&data, "a", authority.issue(&["a.example"]));
    let authorities = data.join("ca.pem");
    fs::write(&authorities, authority.pem()).unwrap();
    let address = free_address().to_string();
    let tls = json!({"certificate": settings, "client_certificates": {"authorities": authorities}});
    let document = json!({
        "listeners": {&address: {"pass": "routes", "tls": tls}},
        "routes": [{"action": {"return": 204}}],
    });
    let server = serve(site, document);
    fs::write(&authorities, "garbage").unwrap();
    let (code, told) = howdah(&server, &["reload"]);
    assert_eq!(code, Some(4), "{told}");
    let line = format!("listener \"{address}\": ");
    assert!(told.contains(&line) && told.contains("the old files stay in use"), "{told}");
    fs::write(&authorities, authority.pem()).unwrap();
    eventually("it is mended", || (problems(&server).0 == Some(0)).then_some(()));
    fs::remove_file(&authorities).unwrap();
    eventually("it is told without a reload", || problems(&server).1.contains(&line).then_some(()));
}

#[test]
fn a_certificate_that_has_expired_or_expires_soon_is_told() {
    let authority = Authority::new();
    let site = Site::new();
    let data = site.data();
    let now = SystemTime::now();
    let issue = |name: &str, since, until| {
        let issued = authority.issue_for(&[&format!("{name}.example")], since, until);
        certificate(&data, name, issued)
    };
    let certificates = json!([
        issue("good", now - 80 * DAY, now + 10 * DAY),
        issue("soon", now - 85 * DAY, now + 5 * DAY),
        issue("week", now - 3 * DAY, now + 4 * DAY),
        issue("old", now - 91 * DAY, now - DAY),
        issue("new", now + DAY, now + 90 * DAY),
    ]);
    let document = json!({
        "listeners": {free_address().to_string(): {"pass": "routes",
            "tls": {"certificate": certificates}}},
        "routes": [{"action": {"return": 204}}],
    });
    let server = serve(site, document);
    let told = [
        ("OUT since ", "[alert]", "old", "it has expired on ", ": warning: ", " has expired on "),
        (
            "OUT since ",
            "[alert]",
            "new",
            "it is not valid before ",
            ": warning: ",
            "is not valid before",
        ),
        ("WARNING since ", "[warn]", "soon", "it expires on ", ": warning: ", " expires on "),
    ];
    let (code, lines) = problems(&server);
    assert_eq!(code, Some(1));
    assert!(lines.starts_with("2 parts are out, 1 warning\n"), "{lines}");
    let log = server.log();
    let document = server.site.root().with_file_name("config.json");
    let check = programs::run(Command::new(programs::howdah()).arg("check").arg(document));
    let checked = text(&check);
    for (word, level, name, reason, noted, of_check) in told {
        let name = data.join(format!("{name}.pem")).display().to_string();
        let has = |line: &str, word: &str, reason: &str| {
            line.contains(word) && line.contains(&name) && line.contains(reason)
        };
        assert!(lines.lines().any(|line| has(line, word, reason)), "{name}: {lines}");
        assert!(log.lines().any(|line| has(line, level, reason)), "{name}: {log}");
        assert!(checked.lines().any(|line| has(line, noted, of_check)), "{name}: {checked}");
    }
    for name in ["good.pem", "week.pem"] {
        let name = data.join(name).display().to_string();
        assert!(!(lines.clone() + &checked + &log).contains(&name), "{name}: {lines} {checked}");
    }
    let (_, json) = howdah(&server, &["status", "--problems", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["out"].as_array().map(Vec::len), Some(2), "{json}");
    assert_eq!(json["warnings"][0]["kind"], "certificate");
    // A certificate that expires soon is no reason for a reload to fail; one that has expired is.
    let (code, told) = howdah(&server, &["reload"]);
    assert_eq!(code, Some(4), "{told}");
    assert!(!told.contains("soon.pem"), "{told}");
}

/// A key that the server may no longer read, as after a restore with other rights.
#[test]
fn a_key_that_cannot_be_read_any_more_is_told() {
    let authority = Authority::new();
    let site = Site::new();
    let data = site.data();
    let settings = certificate(&data, "a", authority.issue(&["a.example"]));
    let document = json!({
        "listeners": {free_address().to_string(): {"pass": "routes",
            "tls": {"certificate": settings}}},
        "routes": [{"action": {"return": 204}}],
    });
    let server = serve(site, document);
    let key = data.join("a.key");
    // Root may read files without any right, so a link without a target stands for an unreadable
    // key.
    if harness::requirements::root() {
        fs::rename(&key, data.join("away")).unwrap();
        std::os::unix::fs::symlink("a.key", &key).unwrap();
    } else {
        fs::set_permissions(&key, fs::Permissions::from_mode(0o000)).unwrap()
    }
    let (code, told) = howdah(&server, &["reload"]);
    assert_eq!(code, Some(4), "{told}");
    assert!(told.contains("a.key cannot be read") && told.contains("the old one stays"), "{told}");
}

#[test]
fn processes_that_are_all_busy_for_long_while_requests_wait_are_a_warning() {
    let site = Site::script("a.php", "while (!file_exists('done')) usleep(50000); echo 'done';");
    let done = site.root().join("done");
    let application = json!({"processes": 2, "limits": {"slow": 1}});
    let server = serve(site, json!({"applications": {"site": application}}));
    let ask = || {
        let mut client = server.connect();
        client.send("GET /a.php HTTP/1.1\r\nHost: a\r\n\r\n");
        client
    };
    let mut clients: Vec<_> = (0..2).map(|_| ask()).collect();
    eventually("both are slow", || (server.log().matches(" is slow: ").count() == 2).then_some(()));
    assert_eq!(problems(&server), (Some(0), "No problems.\n".to_owned()), "nobody waits");
    clients.extend((0..3).map(|_| ask()));
    let part = "application \"site\": all 2 processes have been busy for ";
    let (code, text) = eventually("it is told", || {
        let (code, text) = problems(&server);
        text.contains("3 requests wait").then_some((code, text))
    });
    assert_eq!(code, Some(1), "{text}");
    let line = text.strip_prefix("1 warning\nWARNING since ").unwrap();
    assert!(line.contains(part) && line.contains("the log has the stacks"), "{text}");
    let (code, told) = howdah(&server, &["reload"]);
    assert_eq!((code, told.contains("busy")), (Some(0), false), "{told}");
    fs::write(done, "").unwrap();
    for client in &mut clients {
        assert_eq!(client.response().text(), "done");
    }
    assert_eq!(problems(&server), (Some(0), "No problems.\n".to_owned()));
    let log = server.log();
    assert!(!log.contains("been busy") && !log.contains("works again"), "{log}");
}
