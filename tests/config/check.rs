//! `howdah check` and the start: both report problems in the same words, before a visitor meets
//! them.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use harness::tls::Authority;
use harness::{Site, free_address, merge, processes, programs, requirements};
use rustix::process::Signal;
use serde_json::{Value, json};

/// The standard error of a command, without notes: those depend on the machine.
pub(super) fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    text.split_inclusive('\n').filter(|line| !line.starts_with("howdah: note: ")).collect()
}

/// Checks the site's document with changes. Returns the path of the document too.
pub(super) fn check(site: &Site, changes: &Value) -> (Output, PathBuf) {
    let mut document = site.document("127.0.0.1:80");
    merge(&mut document, changes.clone());
    let path = site.data().join("check.json");
    fs::write(&path, document.to_string()).unwrap();
    let mut command = Command::new(programs::howdah());
    command.arg("check").arg(&path).args(["--tmp", &site.data().display().to_string()]);
    (programs::run(&mut command), path)
}

/// Names, lengths and modes of all that is below a directory.
fn listing(directory: &Path) -> BTreeMap<PathBuf, (u64, u32)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let found = entry.metadata().unwrap();
        all.insert(entry.path(), (found.len(), found.permissions().mode()));
        if found.is_dir() {
            all.extend(listing(&entry.path()));
        }
    }
    all
}

/// A directory in which only root can create files, and the server of root cannot either.
fn closed(site: &Site) -> PathBuf {
    let directory = site.data().join("closed");
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o555)).unwrap();
    directory
}

#[test]
fn what_keeps_the_server_from_starting_is_found_with_its_place_and_leaves_no_trace() {
    let site = Site::script("index.php", "echo 1;").file("file", "");
    let data = site.data().display().to_string();
    let file = site.root().join("file").display().to_string();
    fs::write(site.data().join("bad.pem"), "nothing").unwrap();
    let tls = json!({"certificate": {"chain": format!("{data}/none.pem"), "key": "/none.pem"}});
    let application = |changes: Value| json!({"applications": {"site": changes}});
    let socket = format!("unix:{data}/none/socket");
    let cases = [
        (application(json!({"root": "/no/such/root"})), "/applications/site/root"),
        (application(json!({"root": file})), "/applications/site/root"),
        (
            application(json!({"root": null, "targets": {"a": {"root": "/no/such/root"}}})),
            "/applications/site/targets/a/root",
        ),
        (application(json!({"user": "no-such-user"})), "/applications/site/user"),
        (application(json!({"group": "no-such-group"})), "/applications/site/group"),
        (application(json!({"type": "php 4.1"})), "/applications/site/type"),
        (application(json!({"stdout": "/no/such/out"})), "/applications/site/stdout"),
        (
            application(json!({"working_directory": "/no/such"})),
            "/applications/site/working_directory",
        ),
        (
            application(json!({"options": {"file": "/proc/self/mem/php.ini"}})),
            "/applications/site/options/file",
        ),
        (json!({"listeners": {"127.0.0.1:80": {"tls": tls}}}), "/listeners/127.0.0.1:80/tls"),
        (
            json!({"upstreams": {"u/u": {"servers": {"127.0.0.1:1": {}},
                   "tls": {"authorities": format!("{data}/bad.pem")}}}}),
            "/upstreams/u%2Fu/tls",
        ),
        (json!({"access_log": "/no/such/log"}), "/access_log"),
        (
            json!({"settings": {"http": {"body_temp_path": "/no/such"}}}),
            "/settings/http/body_temp_path",
        ),
        (
            json!({"listeners": {socket: {"pass": "routes"}}}),
            &format!("/listeners/unix:{}%2Fnone%2Fsocket", data.replace('/', "%2F")),
        ),
    ];
    for (changes, path) in cases {
        let mut document = site.document("127.0.0.1:80");
        merge(&mut document, changes);
        let application = document["applications"]["site"].as_object_mut().unwrap();
        application.retain(|_, value| !value.is_null());
        let before = listing(&site.data());
        let name = site.root().with_file_name("config.json");
        fs::write(&name, document.to_string()).unwrap();
        let mut command = Command::new(programs::howdah());
        let output = programs::run(command.arg("check").arg(&name).args(["--tmp", &data]));
        let text = said(&output);
        assert_eq!(output.status.code(), Some(1), "{path}: {output:?}");
        assert_eq!(output.stdout, b"", "{path}: {output:?}");
        let beginning = format!("howdah: {}: {path}: ", name.display());
        let reason = text.strip_prefix(&beginning);
        let reason = reason.unwrap_or_else(|| panic!("{path}: {text}")).trim_end();
        assert!(!reason.contains('\n'), "{path}: one line: {text}");
        assert_eq!(listing(&site.data()), before, "{path}");

        // The start says the same; parts that are out do not keep others from being served.
        let address = free_address().to_string();
        let text = document.to_string().replace("127.0.0.1:80\"", &format!("{address}\""));
        fs::write(&name, text).unwrap();
        let mut command = Command::new(programs::howdah());
        let log = name.with_file_name("log");
        command.arg("serve").arg("--config").arg(&name).args(["--tmp", &data, "--log"]).arg(&log);
        command.stdout(Stdio::null()).stderr(fs::File::create(log.with_extension("err")).unwrap());
        let mut child = command.spawn().unwrap();
        let is_refused = path.starts_with("/settings");
        // A reason has the name of its part in front.
        let (_, reason) = reason.split_once(": ").filter(|_| !is_refused).unwrap_or(("", reason));
        harness::eventually(&format!("{path}: {reason}"), || {
            let said = [log.clone(), log.with_extension("err")].map(fs::read_to_string);
            // The check leaves the numbers of errors out.
            let numbers = [" (os error 2)", " (os error 13)", " (os error 20)"];
            let plain = |said: &String| {
                numbers.iter().fold(said.clone(), |said, number| said.replace(number, ""))
            };
            said.iter().flatten().any(|said| plain(said).contains(reason)).then_some(())
        });
        if is_refused {
            assert_eq!(child.wait().unwrap().code(), Some(1), "{path}")
        } else {
            assert!(child.try_wait().unwrap().is_none(), "{path}")
        }
        let _ = child.kill();
        child.wait().unwrap();
        fs::remove_file(&log).unwrap_or_default();
    }
}

#[test]
fn a_worker_script_and_what_it_watches_must_exist() {
    let site = Site::script("index.php", "echo 1;").file("w.php", "<?php").file("watched/a", "");
    let worker = |worker: Value| json!({"applications": {"site": {"worker": worker}}});
    for (given, place, named) in [
        (json!({"script": "none.php"}), "worker", "/none.php cannot be read"),
        (
            json!({"script": "w.php", "watch": ["watched", "none"]}),
            "worker/watch",
            "/none cannot be watched",
        ),
    ] {
        let (output, name) = check(&site, &worker(given));
        let text = said(&output);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let beginning = format!("howdah: {}: /applications/site/{place}: ", name.display());
        assert!(text.starts_with(&beginning) && text.contains(named), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
    // There are only warnings about parts that still run.
    let mut classic = worker(json!({"script": "none.php", "fallback": "classic"}));
    classic["applications"]["site"]["script"] = json!("index.php");
    classic["routes"] = json!([{"action": {"pass": "applications/site"}}]);
    let (output, _) = check(&site, &classic);
    assert!(output.status.success(), "{output:?}");
    assert!(
        said(&output).contains("warning: ") && said(&output).contains("none.php"),
        "{output:?}"
    );
    let sound = json!({"script": "w.php", "watch": ["watched", "../www/w.php"]});
    let (output, _) = check(&site, &worker(sound));
    assert!(output.status.success() && said(&output).is_empty(), "{output:?}");
}

#[test]
fn a_worker_script_in_another_root_directory_is_looked_for_there() {
    if !requirements::root() {
        return;
    }
    let site = Site::script("index.php", "echo 1;");
    let root = site.data().join("new-root");
    fs::create_dir_all(root.join("srv/app")).unwrap();
    let application = json!({
        "root": "/srv/app", "worker": {"script": "w.php"}, "isolation": {"rootfs": root},
    });
    let changes = json!({"applications": {"site": application}});
    let text = said(&check(&site, &changes).0);
    let missing = format!("/applications/site/worker: {}/srv/app/w.php: ", root.display());
    assert!(text.contains("warning: ") && text.contains(&missing), "{text}");
    fs::write(root.join("srv/app/w.php"), "<?php").unwrap();
    assert!(!said(&check(&site, &changes).0).contains("/worker"));
}

#[test]
fn a_document_in_order_is_valid_and_nothing_is_made_bound_or_run() {
    let site = Site::script("index.php", "echo 1;");
    let ran = site.data().join("ran");
    let preload = site.root().join("preload.php");
    fs::write(&preload, format!("<?php touch({:?});", ran.display().to_string())).unwrap();
    let authority = Authority::new();
    let (chain, key) = authority.issue(&["a.example"]);
    let path = |name: &str| site.data().join(name);
    fs::write(path("chain.pem"), chain).unwrap();
    fs::write(path("key.pem"), key).unwrap();
    let socket = format!("unix:{}", path("socket").display());
    let (output, name) = check(
        &site,
        &json!({
            "listeners": {
                "127.0.0.1:80": {"tls": {"certificate":
                    {"chain": path("chain.pem"), "key": path("key.pem")}}},
                socket: {"pass": "routes"},
            },
            "access_log": path("access.log"),
            "applications": {"site": {
                "stdout": path("out"),
                "options": {"admin": {"opcache.preload": preload, "error_log": path("php.log")}},
                "limits": {"slow": 1, "slow_log": path("slow.log")},
            }},
        }),
    );
    assert!(output.status.success(), "{output:?}");
    let told = String::from_utf8_lossy(&output.stdout);
    let told: Vec<_> = told.lines().collect();
    let [valid, versions, protection] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(*valid, format!("{}: the configuration is valid", name.display()));
    assert!(versions.contains(": there is PHP "), "{versions}");
    assert!(protection.contains(": application \"site\" cannot "), "{protection}");
    assert_eq!(said(&output), "");
    let names: Vec<_> = listing(&site.data()).into_keys().collect();
    assert_eq!(names, [path("chain.pem"), path("check.json"), path("key.pem")]);
}

/// A prototype can look at a root that its user cannot enter, so this was found only by visitors.
#[test]
fn a_root_that_the_user_of_the_application_cannot_enter_is_an_error() {
    let site = Site::script("index.php", "echo 1;");
    let closed = site.data().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o600)).unwrap();
    let (output, _) = check(&site, &json!({"applications": {"site": {"root": closed}}}));
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let reason = "/applications/site/root: the user \"";
    assert!(text.contains(reason) && text.contains("may not enter"), "{text}");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o711)).unwrap();
    let (output, _) = check(&site, &json!({"applications": {"site": {"root": closed}}}));
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn what_is_legal_and_nearly_always_a_mistake_is_a_warning() {
    let site = Site::script("index.php", "echo 1;");
    let root = site.root().display().to_string();
    let (output, name) = check(
        &site,
        &json!({
            "routes": [
                {"match": {"host": ".example.com"}, "action": {"return": 200}},
                {"match": {}, "action": {"share": root}},
                {"action": {"return": 404}},
            ],
            "access_log": {"path": site.data().join("$host.log"), "if": "$status"},
        }),
    );
    assert!(output.status.success(), "{output:?}");
    let found = said(&output);
    let expected = [
        ("/routes/0/match/host: ", "write [\"example.com\", \"*.example.com\"]"),
        ("/routes/0/match/host: ", "never holds"),
        ("/routes/1/match: ", "no condition"),
        ("/routes/2: ", "step 1 takes all of them"),
        ("/routes/1/action/share: ", "$uri"),
        ("/access_log/if: ", "always holds"),
        ("/access_log/path: ", "$host"),
    ];
    for (line, (path, part)) in found.lines().zip(expected) {
        let beginning = format!("howdah: warning: {}: {path}", name.display());
        assert!(line.starts_with(&beginning) && line.contains(part), "{path}: {line}");
    }
    assert_eq!(found.lines().count(), expected.len(), "{found}");
    let mut command = Command::new(programs::howdah());
    let output = programs::run(command.args(["check", "--syntax"]).arg(name));
    assert_eq!(said(&output), found, "it is told from the document alone");
}

#[test]
fn the_example_of_all_keys_is_a_valid_document() {
    let site = Site::script("index.php", "echo 1;");
    fs::create_dir(site.data().join("conf.d")).unwrap();
    let document = site.data().join("example.json");
    fs::write(&document, include_str!("../../packaging/example.json")).unwrap();
    let mut command = Command::new(programs::howdah());
    let output = programs::run(command.args(["check", "--syntax"]).arg(document));
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn a_share_that_names_a_directory_without_the_path_of_the_request_is_a_warning() {
    let site = Site::script("index.php", "echo 1;");
    let directory = site.root().join("example.com");
    fs::create_dir(&directory).unwrap();
    let (output, name) = check(&site, &json!({"routes": [{"action": {"share": directory}}]}));
    let text = said(&output);
    let beginning = format!("howdah: warning: {}: /routes/0/action/share: ", name.display());
    assert!(text.starts_with(&beginning) && text.contains("it is a directory"), "{text}");
    assert!(text.contains("write \"$uri\"") && text.lines().count() == 1, "{text}");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn an_address_that_another_program_listens_on_is_an_error() {
    if !Path::new("/proc/net/tcp").exists() || !Path::new("/proc/net/unix").exists() {
        return requirements::skipped("this machine does not tell who listens");
    }
    let site = Site::script("index.php", "echo 1;");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let socket = site.data().join("socket");
    let _unix = UnixListener::bind(&socket).unwrap();
    let socket = format!("unix:{}", socket.display());
    let listeners =
        json!({address.clone(): {"pass": "routes"}, socket.clone(): {"pass": "routes"}});
    let (output, name) = check(&site, &json!({"listeners": listeners}));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    for address in [address, socket] {
        let place = format!("/listeners/{}", address.replace('/', "%2F"));
        let beginning = format!("howdah: {}: {place}: ", name.display());
        let line = text.lines().find(|line| line.starts_with(&beginning));
        let line = line.unwrap_or_else(|| panic!("{place}: {text}"));
        assert!(line.contains("another program listens there ("), "{line}");
        assert!(line.contains(&format!(" on {address})")), "{line}");
    }
}

#[test]
fn a_check_with_the_defaults_of_unit_is_possible() {
    let site = Site::script("index.php", "echo 1;");
    let (output, name) = check(&site, &json!({}));
    assert!(output.status.success(), "{output:?}");
    let mut command = Command::new(programs::howdah());
    let output = programs::run(command.args(["check", "--unit"]).arg(name));
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn what_harms_less_is_a_warning_and_does_not_change_the_exit_status() {
    let site = Site::script("index.php", "echo 1;");
    let (output, name) = check(
        &site,
        &json!({
            "routes": [{"action": {
                "share": "/no/such$uri",
                "basic_auth": {"users_file": "/no/such/users"},
                "error_pages": {"404": "/no/such/page"},
            }}],
            "applications": {"site": {
                "script": "none.php",
                "script_directories": "/no/such",
                "options": {"file": "/no/such/php.ini",
                    "admin": {"no.such": "1", "extension": "no-such"}},
                "limits": {"slow_log": "/no/such/log"},
            }},
        }),
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = said(&output);
    for (path, reason) in [
        ("/routes/0/action/share", "/no/such"),
        ("/routes/0/action/basic_auth/users_file", "/no/such/users"),
        ("/routes/0/action/error_pages/404", "/no/such/page"),
        ("/applications/site/script", "none.php"),
        ("/applications/site/script_directories", "/no/such"),
        ("/applications/site/options/file", "there is no /no/such/php.ini"),
        ("/applications/site/options/admin/no.such", "PHP has no setting"),
        ("/applications/site", "Unable to load dynamic library 'no-such'"),
        ("/applications/site/limits/slow_log", "/no/such/log"),
    ] {
        let beginning = format!("howdah: warning: {}: {path}: ", name.display());
        let found = text.lines().find(|line| line.starts_with(&beginning) && line.contains(reason));
        assert!(found.is_some(), "{path}: {text}");
    }
    assert_eq!(text.lines().count(), 9, "{text}");
}

#[test]
fn a_preload_script_that_cannot_be_read_is_an_error_where_it_is_named() {
    let site = Site::script("index.php", "echo 1;");
    let options = json!({"admin": {"opcache.preload": "/no/such.php"}});
    let (output, _) = check(&site, &json!({"applications": {"site": {"options": options}}}));
    let text = said(&output);
    let path = "/applications/site/options/admin/opcache.preload: ";
    assert!(text.contains(path), "{text}");
    assert_eq!(text.matches("/no/such.php").count(), 1, "{text}");
    assert_eq!(output.status.code(), Some(1), "{text}");
    let ini = site.data().join("php.ini");
    fs::write(&ini, "opcache.preload=/no/such.php\n").unwrap();
    let options = json!({"file": ini});
    let (output, _) = check(&site, &json!({"applications": {"site": {"options": options}}}));
    assert!(said(&output).contains("/applications/site/options/file: "), "{output:?}");
}

#[test]
fn the_document_alone_is_looked_at_if_that_is_wanted() {
    let site = Site::script("index.php", "echo 1;");
    let shop = json!({"hosts": ["shop.example"], "root": "/no/such", "public": "pub"});
    let routes =
        json!({"routes": {"main": []}, "listeners": {"127.0.0.1:80": {"pass": "routes/main"}}});
    let defaults = json!({"listen": "127.0.0.1:81", "https": false});
    let mut of_sites = json!({"sites": {"shop": shop}, "defaults": defaults});
    merge(&mut of_sites, routes);
    for wrong in [json!({"applications": {"site": {"root": "/no/such"}}}), of_sites.clone()] {
        let (output, name) = check(&site, &wrong);
        assert!(!output.status.success());
        let mut command = Command::new(programs::howdah());
        let output = programs::run(command.args(["check", "--syntax"]).arg(name));
        assert!(output.status.success() && !said(&output).contains("/no/such"), "{output:?}");
    }
    // The rest of such a site is looked at.
    let mistake = json!([{"action": {"retrun": 404}}]);
    of_sites["routes"]["main"] = json!([{"action": {"pass": "routes/shop"}}]);
    for (wrong, cure) in [
        (json!({"sites": {"shop": {"routes": mistake}}}), "unknown key \"retrun\""),
        (json!({"sites": {"copy": of_sites["sites"]["shop"]}}), "/sites/copy/hosts/0: is in "),
    ] {
        let mut document = of_sites.clone();
        merge(&mut document, wrong);
        let (_, name) = check(&site, &document);
        let mut command = Command::new(programs::howdah());
        let output = programs::run(command.args(["check", "--syntax"]).arg(name));
        assert!(!output.status.success() && said(&output).contains(cure), "{cure}: {output:?}");
    }
}

/// The start and the check with these options; `command` gives `howdah`.
fn refusals(command: impl Fn() -> Command, options: &[&str], document: &Path) -> [Output; 2] {
    let mut serve = command();
    serve.arg("serve").arg("--config").arg(document).args(options);
    let mut check = command();
    check.arg("check").arg(document).args(options);
    [programs::run(&mut serve), programs::run(&mut check)]
}

fn without_php(site: &Site, settings: Value) -> PathBuf {
    let document = json!({
        "listeners": {free_address().to_string(): {"pass": "routes"}},
        "routes": [{"action": {"return": 200}}],
        "settings": settings,
    });
    let path = site.root().join("config.json");
    fs::write(&path, document.to_string()).unwrap();
    path
}

/// Scenario: the mistake was reported only with the first large body.
#[test]
fn a_directory_for_temporary_files_that_is_of_no_use_is_told_at_the_start() {
    let site = Site::new();
    let closed = closed(&site).display().to_string();
    let howdah = || Command::new(programs::howdah());
    let user = if requirements::is_root() { "\"www-data\"" } else { "the user" };
    let document = without_php(&site, json!({}));
    for output in refusals(howdah, &["--tmp", &closed], &document) {
        let text = said(&output);
        assert!(matches!(output.status.code(), Some(1 | 78)), "{output:?}");
        assert!(text.starts_with(&format!("howdah: --tmp {closed}: ")), "{text}");
        assert!(
            text.contains(user) && text.contains("permit it") && text.lines().count() == 1,
            "{text}"
        );
    }
    let tmp = site.data().display().to_string();
    let document = without_php(&site, json!({"http": {"body_temp_path": closed}}));
    for output in refusals(howdah, &["--tmp", &tmp], &document) {
        let text = said(&output);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(
            text.contains("/settings/http/body_temp_path: ") && text.contains(&closed),
            "{text}"
        );
    }
}

#[test]
fn an_ordinary_user_is_told_as_well() {
    let site = Site::new();
    let closed = closed(&site).display().to_string();
    // Other users may be unable to enter the directory that the program was built in.
    let program = site.root().join("howdah");
    programs::copy(programs::howdah(), &program);
    let howdah = || {
        let mut command = Command::new(&program);
        if requirements::is_root() {
            command.uid(65534).gid(65534);
        }
        command
    };
    let document = without_php(&site, json!({}));
    for output in refusals(howdah, &["--tmp", &closed], &document) {
        let text = said(&output);
        assert!(matches!(output.status.code(), Some(1 | 78)), "{output:?}");
        assert!(text.contains(&format!("--tmp {closed}: the user \"")), "{text}");
    }
    let state = format!("{closed}/state");
    let tmp = site.data().display().to_string();
    let mut check = howdah();
    let check = check.arg("check").arg(&document).args(["--tmp", &tmp, "--state", &state]);
    let output = programs::run(check);
    assert!(output.status.success(), "{output:?}");
    let text = said(&output);
    assert!(text.contains(&state) && text.contains("--state"), "{text}");
}

#[test]
fn a_usual_directory_for_temporary_files_that_is_of_no_use_is_a_warning() {
    let site = Site::new();
    let closed = closed(&site).display().to_string();
    let document = without_php(&site, json!({}));
    let mut command = Command::new(programs::howdah());
    let output = programs::run(command.arg("check").arg(&document).env("TMPDIR", &closed));
    assert!(output.status.success(), "{output:?}");
    assert!(said(&output).contains(&closed) && said(&output).contains("--tmp"), "{output:?}");
    // A server warns in its log, and serves.
    let log = site.data().join("log");
    let mut command = Command::new(programs::howdah());
    command.arg("serve").arg("--config").arg(&document).arg("--log").arg(&log);
    let mut child =
        command.env("TMPDIR", &closed).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    harness::eventually("the log warns", || {
        fs::read_to_string(&log).ok()?.contains(&closed).then_some(())
    });
    assert!(child.try_wait().unwrap().is_none(), "it runs");
    processes::signal(child.id(), Signal::TERM);
    child.wait().unwrap();
}

#[test]
fn the_mistakes_of_all_parts_are_told_by_the_check_the_start_and_a_change() {
    let site = Site::script("index.php", "echo 1;");
    let path = site.data().join("mistakes.json");
    let document = json!({
        "listeners": {"127.0.0.1:80": {"pass": "routes", "backlo": 1}},
        "routes": [{"action": {"retur": 200}}, {"action": {"pass": "applications/blog"}}],
        "applications": {"blog": {"type": "php"}},
        "upstreams": {"back": {}},
    });
    fs::write(&path, document.to_string()).unwrap();
    let places =
        ["/listeners/127.0.0.1:80", "/routes/0/action", "/applications/blog", "/upstreams/back"];
    let file = path.display();
    for output in refusals(|| Command::new(programs::howdah()), &[], &path) {
        let said = said(&output);
        assert_eq!(said.lines().count(), places.len(), "{said}");
        for (line, place) in said.lines().zip(places) {
            assert!(line.starts_with(&format!("howdah: {file}: line 1, column ")), "{said}");
            assert!(line.contains(&format!(": {place}: ")), "{said}");
        }
    }
    let control = format!("unix:{}", site.control_socket().display());
    let server = site.argument("--control").argument(&control).serve();
    let answer = server.control("PUT", "/config", document.to_string());
    assert_eq!(answer.status, 400);
    let detail = answer.text("detail");
    assert!(detail.lines().zip(places).all(|(line, place)| line.starts_with(place)), "{detail}");
    assert_eq!(detail.lines().count(), places.len(), "{detail}");
    assert_eq!(answer.body["location"]["path"], places[0]);
}

#[test]
fn users_and_groups_that_sockets_name_and_the_system_lacks_are_found() {
    let site = Site::script("a.php", "");
    for (key, kind) in [("user", "user"), ("group", "group")] {
        let socket = format!("unix:{}", site.data().join("socket").display());
        let listener = json!({"pass": "applications/site", "socket": {key: "nobody-here"}});
        let (output, _) = check(&site, &json!({"listeners": {socket.as_str(): listener}}));
        let problem = said(&output);
        let expected = format!("/socket/{key}: there is no {kind} \"nobody-here\"");
        assert!(!output.status.success() && problem.contains(&expected), "{problem}");
    }
}
