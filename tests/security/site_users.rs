//! The socket on which users of sites ask about their own sites, in the hands of a hostile script.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, thread};

use serde_json::{Value, json};

use crate::bystander::request;
use crate::containment::{USERS, World, contained};
use crate::setup::{Plan, Setup, script};
use harness::{Ends, control, eventually, programs};

/// Scripts of the sites that ask: of the one that attacks, and of the other.
const HOSTILE: &str = "/attack/ask.php";
const OTHER: &str = "/ask.php";

/// A server with the socket.
struct Asked {
    setup: Setup,
    socket: PathBuf,
}

impl Asked {
    fn serve(plan: Plan<'_>) -> Asked {
        let socket = plan.base().join("sites.sock");
        let address = format!("unix:{}", socket.display());
        let plan = plan.file("ask.php", script("ask.php"));
        Asked { setup: plan.argument("--site-users").argument(&address).serve(), socket }
    }

    /// Sends a request to the socket from a script of a site.
    fn ask(&self, site: &str, method: &str, target: &str, body: &str) -> (u16, Value) {
        let order = json!({"socket": self.socket, "requests": [[method, target, body]]});
        let answers = self.run(site, &order);
        let answers: Vec<(u16, String)> = serde_json::from_str(&answers).unwrap();
        let (status, text) = answers.into_iter().next().unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    fn run(&self, site: &str, order: &Value) -> String {
        let order = order.to_string();
        request(self.setup.server.address, "POST", site, order.as_bytes()).unwrap()
    }

    /// Returns the answer to an administrator.
    fn administrator(&self, method: &str, target: &str, body: &str) -> control::Answer {
        let socket = self.setup.server.site.control_socket();
        control::ask(&socket, method, target, body.as_bytes()).unwrap()
    }

    /// Runs a command as a user, who is told nothing of the server.
    fn command(&self, uid: u32, arguments: &[&str]) -> Output {
        let uid = uid.to_string();
        Command::new("setpriv")
            .args(["--reuid", &uid, "--regid", &uid, "--clear-groups"])
            .arg(programs::howdah())
            .args(arguments)
            .env("HOWDAH_RUNTIME_DIR", self.socket.parent().unwrap_or(Path::new("/")))
            .output()
            .unwrap()
    }
}

fn names(value: &Value) -> Vec<&str> {
    value.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn a_script_learns_of_its_own_site_alone_and_changes_nothing() {
    contained("site_users::a_script_learns_of_its_own_site_alone_and_changes_nothing", |world| {
        for plan in [Plan::new(world).user_for_each(), Plan::new(world).user_for_each().sandboxed()]
        {
            learns_of_its_own_site_alone(&Asked::serve(plan));
        }
    });
}

fn learns_of_its_own_site_alone(asked: &Asked) {
    let others = asked.setup.others();
    let document = asked.administrator("GET", "/config", "").succeeded();
    // Requests of both sites are remembered.
    let _ = asked.ask(OTHER, "GET", "/status", "");
    let (status, answer) = asked.ask(HOSTILE, "GET", "/status", "");
    assert_eq!(status, 200, "{answer}");
    assert_eq!(names(&answer["applications"]), ["attacker"]);
    assert_eq!(names(&answer["php"]), ["attacker"]);
    assert!(answer.get("listeners").is_none() && answer["requests"]["total"] == 0, "{answer}");
    let (status, answer) = asked.ask(HOSTILE, "GET", "/requests?limit=10000", "");
    let requests = answer["requests"].as_array().unwrap();
    assert_eq!(status, 200);
    assert!(!requests.is_empty() && requests.iter().all(|it| it["site"] == "attacker"), "{answer}");
    let (status, answer) = asked.ask(HOSTILE, "GET", "/pools/attacker", "");
    assert!(status == 200 && answer["procs"].is_array(), "{answer}");
    for (method, target, body, expected) in [
        ("GET", "/requests?site=site", "", 404),
        ("GET", "/requests?site=attacker&site=site", "", 404),
        ("GET", "/pools/site", "", 404),
        ("GET", "/pools", "", 403),
        ("GET", "/slow/site", "", 404),
        ("GET", "/", "", 403),
        ("GET", "/config", "", 403),
        ("GET", "/certificates", "", 403),
        ("GET", "/usage", "", 403),
        ("GET", "/control/compiled", "", 403),
        ("GET", "/control/caches/*/top", "", 403),
        ("GET", "/control/applications/attacker/restart", "", 403),
        ("POST", "/control/applications/attacker/restart", "", 403),
        ("POST", "/control/applications/site/profile", "", 404),
        ("POST", "/control/applications/attacker/profile", r#"{"seconds": 61}"#, 429),
        ("POST", "/control/reload", "", 403),
        ("POST", "/control/upgrade", "", 403),
        ("PUT", "/config/applications/attacker/user", r#""root""#, 403),
        ("DELETE", "/config", "", 403),
        ("PUT", "/config", &"x".repeat(5000), 413),
    ] {
        let (status, answer) = asked.ask(HOSTILE, method, target, body);
        assert_eq!(status, expected, "{method} {target}: {answer}");
    }
    assert_eq!(asked.administrator("GET", "/config", "").succeeded(), document);
    assert_eq!(asked.setup.others(), others);
    // Root has the control socket, and no site.
    let root = control::ask(&asked.socket, "GET", "/status", b"").unwrap();
    assert_eq!(root.status, 403, "{}", root.body);
}

#[test]
fn a_script_learns_of_the_slow_scripts_of_its_own_site_alone() {
    let name = "site_users::a_script_learns_of_the_slow_scripts_of_its_own_site_alone";
    contained(name, |world| {
        let slow = json!({"limits": {"slow": 1}});
        let plan = Plan::new(world).user_for_each();
        let plan = plan.with(json!({"applications": {"attacker": slow, "site": slow}}));
        let (script, attack) = ("<?php sleep(3);", plan.base().join("attacker/attack"));
        let asked = Asked::serve(plan.file("slow.php", script.to_owned()));
        fs::write(attack.join("slow.php"), script).unwrap();
        for site in ["/slow.php?of=site&token=x", "/attack/slow.php?of=attacker"] {
            let _ = request(asked.setup.server.address, "GET", site, b"");
        }
        let all = eventually("both scripts are known to be slow", || {
            let all = asked.administrator("GET", "/slow", "").succeeded()["scripts"].to_string();
            ["of=site", "of=attacker"].iter().all(|it| all.contains(it)).then_some(all)
        });
        assert!(all.contains("sleep("), "{all}");
        for target in ["/slow", "/slow/attacker"] {
            let (status, answer) = asked.ask(HOSTILE, "GET", target, "");
            let scripts = answer["scripts"].as_array().unwrap();
            assert_eq!((status, scripts.len()), (200, 1), "{target}: {answer}");
            assert_eq!(scripts[0]["application"], "attacker");
            assert!(!answer.to_string().contains("of=site"), "{answer}");
        }
    });
}

#[test]
fn the_default_user_is_the_user_of_no_site() {
    contained("site_users::the_default_user_is_the_user_of_no_site", |world| {
        let asked = Asked::serve(Plan::new(world));
        let (status, answer) = asked.ask(HOSTILE, "GET", "/status", "");
        assert_eq!(status, 403, "{answer}");
    });
}

#[test]
fn a_flood_of_one_user_holds_up_neither_others_nor_administrators() {
    let name = "site_users::a_flood_of_one_user_holds_up_neither_others_nor_administrators";
    contained(name, |world| {
        let asked = Asked::serve(Plan::new(world).user_for_each());
        let others = asked.setup.others();
        let over = AtomicBool::new(false);
        let connected = thread::scope(|scope| {
            let flood = scope.spawn(|| {
                let mut connected = 0;
                while !over.load(Ordering::Relaxed) {
                    let order = json!({"socket": asked.socket, "flood": 2});
                    connected += asked.run(HOSTILE, &order).parse::<usize>().unwrap();
                }
                connected
            });
            let _ends = Ends(&over);
            let (mut answered, mut refused) = (0, 0);
            eventually("the flood meets its limit, and others are answered", || {
                let other = asked.command(world.user(USERS[1]), &["requests", "--json", "-n", "1"]);
                assert!(other.status.success(), "{other:?}");
                assert_eq!(asked.administrator("GET", "/config", "").status, 200);
                assert_eq!(asked.administrator("GET", "/status", "").status, 200);
                answered += 1;
                refused += usize::from(asked.ask(HOSTILE, "GET", "/status", "").0 == 429);
                (answered >= 10 && refused > 0).then_some(())
            });
            over.store(true, Ordering::Relaxed);
            flood.join().unwrap()
        });
        assert!(connected > 100, "{connected} connections");
        assert_eq!(asked.setup.others(), others);
        // Its connections have ended, or do so soon.
        eventually("the user is answered again", || {
            (asked.ask(HOSTILE, "GET", "/status", "").0 == 200).then_some(())
        });
    });
}

#[test]
fn who_has_no_site_takes_no_connections_of_others() {
    contained("site_users::who_has_no_site_takes_no_connections_of_others", |world| {
        let asked = Asked::serve(Plan::new(world).user_for_each());
        // Refused before it has sent a request. The test is root, who has no site; as a user with ids
        // of a namespace, it could be thousands of such users.
        let mut held: Vec<_> =
            (0..50).map(|_| UnixStream::connect(&asked.socket).unwrap()).collect();
        for connection in &mut held {
            let mut answer = String::new();
            connection.read_to_string(&mut answer).unwrap();
            // Or too many at once, until it is known that the user has no site.
            let has_no_site = answer.contains("HTTP/1.1 403") && answer.contains("No site");
            assert!(has_no_site || answer.contains("HTTP/1.1 429"), "{answer}");
        }
        assert_eq!(asked.ask(HOSTILE, "GET", "/status", "").0, 200);
    });
}

#[test]
fn a_profile_of_an_administrator_ends_that_of_a_user() {
    contained("site_users::a_profile_of_an_administrator_ends_that_of_a_user", |world| {
        let asked = Asked::serve(Plan::new(world).user_for_each());
        let target = "/control/applications/attacker/profile";
        thread::scope(|scope| {
            let profile = scope.spawn(|| {
                let arguments = ["profile", "attacker", "--seconds", "60"];
                asked.command(world.user(USERS[0]), &arguments)
            });
            eventually("the profile runs", || {
                let _ = asked.ask(HOSTILE, "GET", "/status", "");
                let processes = asked.setup.server.processes().into_iter();
                let mut workers = processes.filter(|it| it.title.contains("\"attacker\" app"));
                let threads =
                    |pid| fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
                workers.any(|worker| threads(worker.pid) == 2).then_some(())
            });
            let (status, answer) = asked.ask(HOSTILE, "POST", target, r#"{"seconds": 1}"#);
            assert_eq!(status, 429, "{answer}");
            let made = asked.administrator("POST", target, r#"{"seconds": 1}"#).succeeded();
            assert_eq!(made["site"], "attacker");
            let output = profile.join().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(errors.contains("an administrator makes a profile"), "{errors}");
        });
    });
}

#[test]
fn commands_find_the_socket_for_the_user_of_a_site() {
    contained("site_users::commands_find_the_socket_for_the_user_of_a_site", |world| {
        let asked = Asked::serve(Plan::new(world).user_for_each());
        finds_the_socket(&asked, world);
    });
}

fn finds_the_socket(asked: &Asked, world: &World) {
    let own = world.user(USERS[1]);
    let shown = |arguments: &[&str]| {
        let output = asked.command(own, arguments);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), errors)
    };
    let _ = asked.ask(OTHER, "GET", "/status", "");
    let (code, top, errors) = shown(&["top", "--once", "--json", "--all", "--interval", "0.1"]);
    assert_eq!(code, Some(0), "{errors}");
    let top: Value = serde_json::from_str(&top).unwrap();
    assert_eq!(top["sites"].as_array().unwrap().len(), 1, "{top}");
    assert_eq!(top["sites"][0]["site"], "site");
    let (code, requests, errors) = shown(&["requests"]);
    assert!(code == Some(0) && requests.contains(" site POST /ask.php"), "{requests}{errors}");
    let (code, _, errors) = shown(&["requests", "--site", "attacker"]);
    assert!(code == Some(1) && errors.contains("no site \"attacker\""), "{errors}");
    let (_, profile, errors) = shown(&["profile", "site", "--seconds", "1", "--format", "folded"]);
    assert!(errors.contains("no script of \"site\""), "{profile}{errors}");
    // The log is root's.
    let (code, _, errors) = shown(&["site", "logs", "site"]);
    assert!(code == Some(1) && errors.contains("ermission denied"), "{errors}");
    let (code, _, errors) = shown(&["config", "get"]);
    assert!(code == Some(3) && errors.contains("ermission denied"), "{errors}");
    let foreign = asked.command(world.www_data(), &["top", "--once"]);
    let errors = String::from_utf8_lossy(&foreign.stderr);
    assert!(errors.contains("No site of this user"), "{errors}");
}
