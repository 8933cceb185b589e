//! A user that is deleted or gets another id while its application runs: its processes continue,
//! and only the next start would fail.

use std::fs;

use harness::{Server, Site, eventually, programs, users};
use serde_json::json;

/// Runs a command of the server's control API. Returns its exit status and its output.
fn howdah(server: &Server, arguments: &[&str]) -> (Option<i32>, String) {
    let control = format!("unix:{}", server.site.control_socket().display());
    let mut command = std::process::Command::new(programs::howdah());
    let output = programs::run(command.args(arguments).args(["--control", &control]));
    let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    (output.status.code(), text.concat())
}

fn problems(server: &Server) -> (Option<i32>, String) {
    howdah(server, &["status", "--problems"])
}

#[test]
fn a_user_that_changes_while_its_application_runs_is_told_until_it_is_mended() {
    let site = Site::script("a.php", "echo 'hello';").workers(1);
    let site = site.file("uid.php", "<?php echo posix_geteuid();");
    let Some((site, uid)) = users::site_with_own_user(site) else { return };
    let control = format!("unix:{}", site.control_socket().display());
    let passwd = site.root().with_file_name("users").join("passwd");
    let known = fs::read_to_string(&passwd).unwrap();
    let application = json!({"user": users::NAME});
    let site = site.argument("--control").argument(&control);
    let server = site.with(json!({"applications": {"site": application}})).serve();
    assert_eq!(server.get("/a.php").text(), "hello");
    assert_eq!(problems(&server), (Some(0), "No problems.\n".to_owned()));
    assert_eq!(howdah(&server, &["reload"]).0, Some(0));

    // A reload looks, however short the time is.
    let without = known.lines().filter(|line| !line.starts_with(users::NAME));
    fs::write(&passwd, without.collect::<Vec<_>>().join("\n") + "\n").unwrap();
    let (code, told) = howdah(&server, &["reload"]);
    let name = users::NAME;
    let reason = format!(
        "application \"site\": its processes still run as uid {uid}, which no longer has a name: \
         there is no user \"{name}\" on this system; run: useradd --system --uid {uid} {name}, or \
         change \"user\""
    );
    assert_eq!(code, Some(4), "{told}");
    assert!(told.contains(&reason), "{told}");
    for _ in 0..2 {
        let (code, lines) = problems(&server);
        assert!(code == Some(1) && lines.contains(&reason), "{lines}");
        assert_eq!(howdah(&server, &["reload"]).0, Some(4));
        assert_eq!(server.get("/a.php").text(), "hello", "its processes go on");
    }
    let log = server.log();
    let alerts = log.lines().filter(|line| line.contains("[alert]"));
    assert_eq!(alerts.filter(|line| line.contains(&reason)).count(), 1, "{log}");
    fs::write(&passwd, &known).unwrap();
    eventually("it is mended", || (problems(&server).0 == Some(0)).then_some(()));
    server.wait_for_log("application \"site\" works again");
    assert_eq!(howdah(&server, &["reload"]).0, Some(0));

    // Another id is noticed without a reload, and taken by a restart or a reload.
    let other = uid + 1;
    fs::write(&passwd, known.replace(&format!(":{uid}:"), &format!(":{other}:"))).unwrap();
    let reason = format!(
        "its processes still run as uid {uid}, and the user \"{name}\" has uid {other} now; run: \
         howdah restart site"
    );
    eventually("it is told", || problems(&server).1.contains(&reason).then_some(()));
    assert_eq!(server.get("/a.php").text(), "hello");
    let restarted = howdah(&server, &["restart", "site"]);
    assert_eq!(restarted.0, Some(0), "{restarted:?}");
    assert_eq!(problems(&server), (Some(0), "No problems.\n".to_owned()));
    assert_eq!(howdah(&server, &["reload"]).0, Some(0));
    assert_eq!(server.get("/a.php").text(), "hello");
    assert_eq!(server.get("/uid.php").text(), other.to_string());
    fs::write(&passwd, &known).unwrap();
    let reloaded = howdah(&server, &["reload"]);
    assert_eq!(reloaded.0, Some(0), "{reloaded:?}");
    server.wait_for_log("application was restarted: changed: the ids of its user");
    assert_eq!(server.get("/uid.php").text(), uid.to_string());
}

/// A group that its user has lost, or got, is taken by a reload, too.
#[test]
fn a_reload_takes_the_groups_of_a_user() {
    let site = Site::script("a.php", "echo implode(' ', posix_getgroups());").workers(1);
    let Some((site, uid)) = users::site_with_own_user(site) else { return };
    let control = format!("unix:{}", site.control_socket().display());
    let group = site.root().with_file_name("users").join("group");
    let known = fs::read_to_string(&group).unwrap();
    let application = json!({"user": users::NAME});
    let site = site.argument("--control").argument(&control);
    let server = site.with(json!({"applications": {"site": application}})).serve();
    let before = server.get("/a.php").text().to_owned();
    let (name, other) = (users::NAME, uid + 1);
    fs::write(&group, format!("{known}staff-of-site:x:{other}:{name}\n")).unwrap();
    let told = format!("its processes lack the groups {other}, which the user \"{name}\" has now");
    eventually("it is told", || problems(&server).1.contains(&told).then_some(()));
    assert_eq!(server.get("/a.php").text(), before);
    assert_eq!(howdah(&server, &["reload"]).0, Some(0));
    assert!(server.get("/a.php").text().contains(&other.to_string()));
    fs::write(&group, &known).unwrap();
    let told =
        format!("its processes still have the groups {other}, which the user \"{name}\" has lost");
    eventually("it is told", || problems(&server).1.contains(&told).then_some(()));
    assert_eq!(howdah(&server, &["reload"]).0, Some(0));
    assert_eq!(server.get("/a.php").text(), before);
    assert_eq!(problems(&server), (Some(0), "No problems.\n".to_owned()));
}
