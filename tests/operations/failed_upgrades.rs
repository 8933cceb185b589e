//! Upgrades that fail: the old server continues, and one of both is in charge.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::disk::SmallDisk;
use harness::{Server, Site, eventually, open_to_all, programs, requirements, users};
use rustix::process::Signal;
use serde_json::json;

use super::upgrade::{command, output_into, pid_file, serve, titles};

#[test]
fn the_first_process_of_a_container_is_not_replaced() {
    if !requirements::root() {
        return;
    }
    let own = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let server = Site::script("a.php", "echo 'hello';").through(&own).controlled().serve();
    let document = server.site.document(server.address);
    server.put("/config", &document);
    let output = command(&server);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("first process of a container cannot be replaced"), "{text}");
    assert_eq!(server.get("/a.php").text(), "hello");
}

/// Serves from a program of the test's own.
fn serve_own() -> (Server, PathBuf) {
    let (site, program) = Site::script("a.php", "echo 'hello';").own_program();
    (serve(site), program)
}

/// Replaces a program.
fn replace(program: &Path, text: &str) {
    let new = program.with_extension("new");
    fs::write(&new, text).unwrap();
    open_to_all(&new, 0o755);
    fs::rename(new, program).unwrap();
}

/// Asserts that the upgrade fails with a message, and that the server continues.
fn assert_goes_on(server: &Server, expected: &str) {
    let before = (server.supervisor(), titles(server));
    let output = command(server);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text.contains(expected), "{expected}: {text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(server.log().contains(expected), "{expected}: {}", server.log());
    assert_eq!(server.get("/a.php").text(), "hello");
    assert_eq!((pid_file(server), titles(server)), before);
    // The server still takes changes, and stores them on the disk.
    server.put("/config/settings", &json!({"http": {"server_version": false}}));
}

#[test]
fn a_program_that_cannot_serve_changes_nothing() {
    let (server, program) = serve_own();
    replace(&program, "#!/bin/sh\nexit 3\n");
    assert_goes_on(&server, "exited with status 3 before it served");
    replace(&program, "#!/bin/sh\nkill -9 $$\n");
    assert_goes_on(&server, "exited on signal 9 before it served");
    replace(&program, "not a program");
    assert_goes_on(&server, "is no program; install it again");
    replace(&program, "#!/no/such/interpreter\n");
    assert_goes_on(&server, "cannot execute ");
    replace(&program, "#!/bin/sh\nexit 3\n");
    open_to_all(&program, 0o757);
    assert_goes_on(&server, "can be changed by other users");
    fs::remove_file(&program).unwrap();
    assert_goes_on(&server, "no longer exists");
    programs::copy(programs::howdah(), &program);
    let old = server.upgrade();
    server.wait_for_end_of(old);
    assert_eq!(server.get("/a.php").text(), "hello");
}

#[test]
fn a_version_without_the_php_of_an_application_changes_nothing() {
    let (server, program) = serve_own();
    let php = program.with_file_name("howdah-php");
    let away = program.with_file_name("away");
    fs::rename(&php, &away).unwrap();
    assert_goes_on(&server, "PHP");
    fs::rename(&away, &php).unwrap();
    server.wait_for_end_of(server.upgrade());
}

#[test]
fn a_configuration_that_the_new_version_cannot_run_changes_nothing() {
    let server = serve(Site::script("a.php", "echo 'hello';"));
    let logs = output_into(&server);
    fs::remove_dir_all(&logs).unwrap();
    assert_goes_on(&server, "application \"site\": stdout: ");
    fs::create_dir(&logs).unwrap();
    harness::open_to_all(&logs, 0o777);
    server.wait_for_end_of(server.upgrade());
}

#[test]
fn an_application_that_has_lost_its_user_is_out_and_the_others_are_upgraded() {
    let site = Site::script("a.php", "echo 'hello';");
    let Some((site, _)) = users::site_with_own_user(site) else { return };
    let passwd = site.root().with_file_name("users").join("passwd");
    let server = serve(site);
    let mut document = server.site.document(server.address);
    let lost = json!({
        "type": "php", "root": server.site.root(), "script": "a.php", "processes": 1,
        "user": users::NAME,
    });
    document["applications"]["lost"] = lost;
    document["listeners"][server.address.to_string()] = json!({"pass": "routes"});
    document["routes"] = json!([
        {"match": {"uri": "/lost/"}, "action": {"pass": "applications/lost"}},
        {"action": {"pass": "applications/site"}},
    ]);
    server.put("/config", &document);
    assert_eq!(server.get("/lost/").text(), "hello");
    let known = fs::read_to_string(&passwd).unwrap();
    let without = known.lines().filter(|line| !line.starts_with(users::NAME));
    fs::write(&passwd, without.collect::<Vec<_>>().join("\n") + "\n").unwrap();
    let old = server.upgrade();
    assert_eq!(server.get("/a.php").text(), "hello");
    server.wait_for_end_of(old);
    assert_eq!((server.get("/a.php").status, server.get("/lost/").status), (200, 503));
    assert!(server.log().contains("application \"lost\": user: "), "{}", server.log());
    fs::write(&passwd, known).unwrap();
    eventually("it is served again", || (server.get("/lost/").status == 200).then_some(()));
}

/// Serves two sites: `/a.php` of the first, and `/NAME/` of others with a preload script of their
/// own. Returns the preload script.
fn serve_with_preload(names: &[&str], kind: &str) -> (Server, PathBuf) {
    let server = serve(Site::script("a.php", "echo 'hello';"));
    let preload = server.site.data().join("preload.php");
    fs::write(&preload, "<?php").unwrap();
    open_to_all(&preload, 0o644);
    let mut document = server.site.document(server.address);
    let options = json!({"admin": {"opcache.preload": preload, "opcache.enable": "1"}});
    let mut routes = vec![json!({"action": {"pass": "applications/site"}})];
    for name in names {
        document["applications"][name] = json!({
            "type": kind, "root": server.site.root(), "script": "a.php", "processes": 1,
            "options": options,
        });
        let action = json!({"pass": format!("applications/{name}")});
        routes.insert(0, json!({"match": {"uri": format!("/{name}/")}, "action": action}));
    }
    document["listeners"][server.address.to_string()] = json!({"pass": "routes"});
    document["routes"] = json!(routes);
    server.put("/config", &document);
    for name in names {
        assert_eq!(server.get(&format!("/{name}/")).text(), "hello");
    }
    (server, preload)
}

#[test]
fn an_application_whose_preload_script_fails_is_out_and_the_others_are_upgraded() {
    let (server, preload) = serve_with_preload(&["shop"], "php");
    fs::write(&preload, "<?php no_such_function();").unwrap();
    let old = server.supervisor();
    let output = command(&server);
    let text = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat();
    assert_eq!(output.status.code(), Some(4), "{text}");
    assert!(text.contains("Upgrade done") && text.contains("application \"shop\": "), "{text}");
    server.replaced_by(pid_file(&server));
    server.wait_for_end_of(old);
    assert_eq!((server.get("/a.php").status, server.get("/shop/").status), (200, 503));
    let log = server.log();
    assert!(log.contains("no_such_function") && log.contains("the others are served"), "{log}");
    fs::write(&preload, "<?php").unwrap();
    eventually("it is served again", || (server.get("/shop/").status == 200).then_some(()));
    server.wait_for_end_of(server.upgrade());
    assert_eq!(server.get("/shop/").text(), "hello");
}

/// A preload script that waits for something for ever. It is waited for ten seconds, as it may be
/// slow.
#[test]
fn an_application_whose_preload_script_hangs_is_out_and_the_others_are_upgraded() {
    let (server, preload) = serve_with_preload(&["shop"], "php");
    fs::write(&preload, "<?php while (true) { usleep(50000); }").unwrap();
    let old = server.supervisor();
    let socket = format!("unix:{}", server.site.control_socket().display());
    let mut upgrade = Command::new(programs::howdah());
    let output = upgrade.args(["upgrade", "--control", &socket]).output().unwrap();
    let text = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat();
    let reason = "application \"shop\": it has not started for 10 s: ";
    assert!(text.contains("Upgrade done") && text.contains(reason), "{text}");
    assert_eq!(output.status.code(), Some(4), "{text}");
    server.replaced_by(pid_file(&server));
    server.wait_for_end_of(old);
    assert_eq!(server.get("/a.php").status, 200);
    assert!(server.log().contains(reason), "{}", server.log());
    assert_eq!(server.get("/shop/").status, 503);
    fs::write(&preload, "<?php").unwrap();
    server.control("GET", "/control/applications/shop/restart", "").succeeded();
    assert_eq!(server.get("/shop/").text(), "hello");
}

/// PHP of one version starts for none of its applications, as after a package that is broken: the
/// old server has one that works.
#[test]
fn a_version_of_php_that_starts_for_none_of_several_applications_changes_nothing() {
    let version = programs::php_version();
    let (server, preload) = serve_with_preload(&["shop", "blog"], &format!("php {version}"));
    fs::write(&preload, "<?php no_such_function();").unwrap();
    let before = server.supervisor();
    let output = command(&server);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("application \"shop\": ") || text.contains("application \"blog\": "),
        "{text}"
    );
    assert_eq!(pid_file(&server), before);
    assert_eq!((server.get("/shop/").status, server.get("/blog/").status), (200, 200));
}

/// PID file and state are on a disk without room. Whether the upgrade succeeds or
/// not, one server has all of it, and serves.
#[test]
fn a_full_disk_leaves_one_server_in_charge() {
    let site = Site::script("a.php", "echo 'hello';");
    let small = site.state();
    let Some(_disk) = SmallDisk::mount(&small, "0700") else { return };
    let pid = small.join("pid").display().to_string();
    let server = site.argument("--pid").argument(&pid).controlled().serve();
    let document = server.site.document(server.address);
    server.put("/config", &document);
    let full = fs::write(small.join("fill"), vec![0; 1 << 20]);
    assert!(full.is_err(), "the disk is full");
    let output = command(&server);
    let pid: u32 = fs::read_to_string(small.join("pid")).unwrap().trim().parse().unwrap();
    if output.status.success() {
        let old = server.replaced_by(pid);
        server.wait_for_end_of(old);
    }
    assert_eq!(pid, server.supervisor(), "{output:?}");
    assert_eq!(server.get("/a.php").text(), "hello");
    let refused = server.control("PUT", "/config/settings", "{}");
    assert_eq!(refused.status, 500, "it cannot be stored: {}", refused.body);
    fs::remove_file(small.join("fill")).unwrap();
    server.put("/config/settings", &json!({}));
    server.wait_for_end_of(server.upgrade());
    assert_eq!(server.get("/a.php").text(), "hello");
}

/// A state directory of a newer format is not opened, by an upgrade or a start.
#[test]
fn a_state_of_a_newer_format_is_refused() {
    let server = serve(Site::script("a.php", "echo 'hello';"));
    let format = server.site.state().join("format");
    let own = fs::read_to_string(&format).unwrap();
    assert!(own.starts_with("howdah state 1\nwritten by howdah "), "{own}");
    // The document is kept after the answer to the change, and the format is written with it.
    let kept = server.site.state().join("served.json");
    eventually("the document is kept", || {
        fs::read_to_string(&kept).ok()?.contains("applications/site").then_some(())
    });
    fs::write(&format, "howdah state 2\nwritten by howdah 9.0.0\n").unwrap();
    let output = command(&server);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("has format 2") && text.contains("install howdah 9.0.0"), "{text}");
    assert_eq!(server.get("/a.php").text(), "hello");
    let refused = server.control("PUT", "/config/settings", "{}");
    assert_eq!(refused.status, 200, "this server has the directory: {}", refused.body);
    let (_, site) = server.end(Signal::TERM);
    fs::write(&format, "howdah state 2\n").unwrap();
    let output = programs::run(&mut site.command("127.0.0.1:0"));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(78), "{text}");
    assert!(text.contains("install a newer version again"), "{text}");
}
