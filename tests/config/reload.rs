//! Reading the configuration again: by `HUP`, through the control API, and by `howdah reload`.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

use harness::{Ends, Server, Site, eventually, programs};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Replaces the document that the server was started with.
fn write(server: &Server, change: impl FnOnce(&mut Value)) {
    let path = server.site.root().with_file_name("config.json");
    let mut document = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut document);
    fs::write(path, document.to_string()).unwrap();
}

fn reload(server: &Server) -> Output {
    reload_with(server, &[])
}

fn reload_with(server: &Server, options: &[&str]) -> Output {
    let control = format!("unix:{}", server.site.control_socket().display());
    let mut command = Command::new(programs::howdah());
    command.args(["reload", "--control", &control]).args(options).output().unwrap()
}

/// Serves a file of these routes, with a control API.
fn serve(site: Site, routes: Value) -> Server {
    let control = format!("unix:{}", site.control_socket().display());
    site.argument("--control").argument(&control).with(json!({"routes": routes})).serve()
}

#[test]
fn a_signal_has_the_file_read_again_and_no_request_is_lost() {
    let answer = |status: u16| json!([{"action": {"return": status}}]);
    let server =
        Site::script("a.php", "echo getmypid();").with(json!({"routes": answer(200)})).serve();
    let over = AtomicBool::new(false);
    let mut kept = server.connect();
    assert_eq!(kept.get("/").status, 200);
    std::thread::scope(|scope| {
        let ended = Ends(&over);
        let clients: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = server.connect();
                    while !over.load(Ordering::Relaxed) {
                        let response = client.get("/");
                        assert!((200..210).contains(&response.status), "{response:?}");
                        assert_eq!(response.field("connection"), None);
                    }
                })
            })
            .collect();
        for status in 201..206 {
            write(&server, |document| document["routes"] = answer(status));
            server.signal(Signal::HUP);
            eventually("the new file counts", || (server.get("/").status == status).then_some(()));
        }
        drop(ended);
        clients.into_iter().for_each(|client| client.join().unwrap());
    });
    assert_eq!(kept.get("/").status, 205);
    server.wait_for_log("config.json was read again");
}

#[test]
fn a_document_that_cannot_be_used_changes_nothing_and_the_log_says_why() {
    let server = Site::script("a.php", "echo 1;")
        .with(json!({"routes": [{"action": {"return": 200}}]}))
        .serve();
    let path = server.site.root().with_file_name("config.json");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    write(&server, |document| document["routes"][0]["action"]["retrun"] = json!(1));
    server.signal(Signal::HUP);
    server.wait_for_log("/routes/0/action: unknown key \"retrun\"; did you mean \"return\"?");
    assert_eq!(server.get("/").status, 200);

    write(&server, |document| {
        document["routes"] = json!([{"action": {"return": 201}}]);
        document["listeners"][&taken] = json!({"pass": "routes"});
    });
    server.signal(Signal::HUP);
    // Only that listener is out.
    let log = server.wait_for_log(&taken);
    assert!(log.contains("another program listens there"), "{log}");
    harness::eventually("the rest is taken over", || (server.get("/").status == 201).then_some(()));

    fs::write(&path, "{\n nonsense").unwrap();
    server.signal(Signal::HUP);
    server.wait_for_log("config.json: line 2, column 2");
    fs::remove_file(&path).unwrap();
    server.signal(Signal::HUP);
    let log = server.wait_for_log("there is no such file");
    assert!(log.contains("is not taken over, the old configuration runs"), "{log}");
    assert_eq!(server.get("/").status, 201);
}

#[test]
fn the_command_reads_the_file_again_restarts_applications_if_asked_and_says_what_is_wrong() {
    let script = "echo getmypid();";
    let server = serve(
        Site::script("a.php", script).workers(1),
        json!([{"action": {"pass": "applications/site"}}]),
    );
    let before = server.get("/a.php").text();
    write(&server, |document| {
        document["routes"] = json!([
            {"match": {"uri": "/new"}, "action": {"return": 204}},
            {"action": {"pass": "applications/site"}},
        ]);
    });
    let output = reload(&server);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(server.get("/new").status, 204);
    assert_eq!(server.get("/a.php").text(), before, "the same process");
    assert!(reload_with(&server, &["--restart"]).status.success());
    assert_ne!(server.get("/a.php").text(), before, "another process");
    // The API shows the configuration that runs.
    let shown = server.control("GET", "/config/routes/0/match/uri", "").succeeded();
    assert_eq!(shown, json!("/new"));

    write(&server, |document| document["applications"]["site"]["procesess"] = json!(1));
    let output = reload(&server);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("/applications/site: unknown key \"procesess\""), "{text}");
    assert!(text.contains("config.json: line 1, column "), "{text}");
    let refused = server.control("GET", "/status/document/refused/reason", "").succeeded();
    assert!(refused.as_str().unwrap().contains("config.json: line 1, column "), "{refused}");
    assert_eq!(server.get("/new").status, 204);
}

#[test]
fn changes_reloads_and_what_was_refused_are_in_the_log() {
    let server = serve(Site::new(), json!([{"action": {"return": 200}}]));
    server.put("/config/routes", &json!([{"action": {"return": 201}}]));
    server.wait_for_log("control API: PUT /config/routes: done");
    server.control("PUT", "/config/routes", r#"[{"action": {"retrun": "secret"}}]"#);
    let log = server.wait_for_log("unknown key \"retrun\"");
    assert!(!log.contains("secret"), "{log}");
    assert!(reload(&server).status.success());
    server.wait_for_log("control API: POST /control/reload: done");
    server.control("GET", "/control/applications/site/restart", "").succeeded();
    server.wait_for_log("control API: GET /control/applications/site/restart: done");
    server.control("GET", "/status", "").succeeded();
    assert!(!server.log().contains("/status"));
}

#[test]
fn what_was_changed_through_the_control_api_gives_way_to_the_file() {
    let server = serve(Site::new(), json!([{"action": {"return": 200}}]));
    server.put("/config/routes", &json!([{"action": {"return": 201}}]));
    assert_eq!(server.get("/").status, 201);
    assert!(reload(&server).status.success());
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn a_stored_configuration_survives_a_reload() {
    let server = Site::new().controlled().serve_at("127.0.0.1:0");
    let address = harness::free_address().to_string();
    let document = json!({
        "listeners": {address.as_str(): {"pass": "routes"}},
        "routes": [{"action": {"return": 203}}],
    });
    server.put("/config", &document);
    assert!(reload(&server).status.success());
    server.signal(Signal::HUP);
    server.wait_for_log("was read again");
    let mut client = harness::client::Client::connect(address.parse().unwrap());
    assert_eq!(client.get("/").status, 203);
    let kept: Value =
        serde_json::from_slice(&fs::read(server.site.state().join("conf.json")).unwrap()).unwrap();
    assert_eq!(kept, document);
}

#[test]
fn a_directory_is_looked_at_again() {
    let server = Site::new().file("index.html", "a page").serve();
    assert_eq!(server.get("/").text(), "a page");
    let script = server.site.root().join("index.php");
    fs::write(&script, "<?php echo 'a script';").unwrap();
    harness::open_to_all(&script, 0o644);
    server.signal(Signal::HUP);
    server.wait_for_log("was read again");
    assert_eq!(server.get("/").text(), "a script");
}

/// Also of an application that PHP is loaded for with its first request: it is named before a
/// visitor meets the mistake.
#[test]
fn an_application_with_a_mistake_is_out_alone_and_named() {
    let late = |change: Value| {
        let mut late = json!({"type": "php", "root": "/", "processes": {"max": 1, "spare": 0}});
        harness::merge(&mut late, change);
        late
    };
    let site = Site::script("a.php", "echo 'hello';");
    let control = format!("unix:{}", site.control_socket().display());
    let broken = late(json!({"root": "/nonexistent/broken"}));
    let server = site
        .argument("--control")
        .argument(&control)
        .with(json!({"applications": {"late": late(json!({})), "broken": broken}}))
        .serve();
    for (name, key, value) in [
        ("site", "user", "nobody-of-this-name"),
        ("late", "user", "nobody-of-this-name"),
        ("late", "root", "/nonexistent/late"),
    ] {
        let mut before = Value::Null;
        write(&server, |document| {
            before = document.clone();
            document["applications"][name][key] = value.into();
        });
        let output = reload(&server);
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        harness::eventually(&format!("{name} is named"), || {
            let status =
                harness::control::ask(&server.site.control_socket(), "GET", "/status", b"")
                    .unwrap()
                    .succeeded();
            let mut out = status["out"].as_array()?.iter();
            let found = out.find(|part| part["name"] == name)?;
            let reason = found["reason"].as_str()?;
            let goes_on = reason.starts_with("it continues unchanged");
            assert_eq!(goes_on, name == "site", "only the one that serves: {reason}");
            (reason.contains(&format!("{key}: ")) && reason.contains(value)).then_some(())
        });
        assert_eq!(server.get("/a.php").status, 200);
        write(&server, |document| *document = before);
        assert_eq!(reload(&server).status.code(), Some(4), "another one is still out");
        harness::eventually("it is served", || {
            (server.get("/a.php").text() == "hello").then_some(())
        });
    }
    write(&server, |document| document["applications"]["late"]["limits"] = json!({"requests": 7}));
    assert_eq!(reload(&server).status.code(), Some(4));
    write(&server, |document| {
        document["applications"]["broken"]["limits"] = json!({"requests": 7})
    });
    let output = reload(&server);
    // The application need not run before its first request, so it may not have been checked yet.
    assert!(matches!(output.status.code(), Some(0 | 4)), "{output:?}");
}

#[test]
fn an_application_that_cannot_run_does_not_keep_others_from_a_restart() {
    let site = Site::script("a.php", "echo getmypid();");
    let broken =
        json!({"type": "php", "root": "/nonexistent", "processes": {"max": 1, "spare": 0}});
    let control = format!("unix:{}", site.control_socket().display());
    let server = site
        .argument("--control")
        .argument(&control)
        .with(json!({
            "routes": [
                {"match": {"uri": "/broken"}, "action": {"pass": "applications/broken"}},
                {"action": {"pass": "applications/site"}},
            ],
            "applications": {"broken": broken},
        }))
        .serve();
    assert_eq!(server.get("/broken").status, 503);
    let before = server.get("/a.php").text();
    let reloaded = reload_with(&server, &["--restart"]);
    assert_eq!(reloaded.status.code(), Some(4), "{reloaded:?}");
    assert_ne!(server.get("/a.php").text(), before);
    assert_eq!(server.get("/broken").status, 503);
}

#[test]
fn all_applications_that_can_be_restarted_are_and_the_answer_names_the_one_that_cannot() {
    let site = Site::script("a.php", "echo getmypid();");
    let root = site.root().with_file_name("other");
    fs::create_dir(&root).unwrap();
    harness::open_to_all(&root, 0o755);
    fs::write(root.join("b.php"), "<?php echo 'other';").unwrap();
    let other = json!({"type": "php", "root": root, "processes": {"max": 1, "spare": 0}});
    let control = format!("unix:{}", site.control_socket().display());
    let server = site
        .argument("--control")
        .argument(&control)
        .with(json!({
            "routes": [
                {"match": {"uri": "/b.php"}, "action": {"pass": "applications/other"}},
                {"action": {"pass": "applications/site"}},
            ],
            "applications": {"other": other},
        }))
        .serve();
    assert_eq!(server.get("/b.php").text(), "other");
    let before = server.get("/a.php").text();
    fs::rename(&root, root.with_file_name("gone")).unwrap();
    let output = reload_with(&server, &["--restart"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(4), "{text}");
    let part =
        "application \"other\": its former processes continue, as new ones could not start: root: ";
    assert!(text.contains(part), "{text}");
    assert_ne!(server.get("/a.php").text(), before);
    assert!(server.log().contains(part), "{}", server.log());
}

/// A worker script that is broken before a reload: the answer, the status and the log name the
/// application until the script is mended.
#[test]
fn an_application_that_keeps_its_former_processes_is_named_until_it_has_new_ones() {
    let code = |release: &str| {
        format!(
            "<?php while (frankenphp_handle_request(fn () => print(getmypid() . ' {release}')));"
        )
    };
    let one = json!({"max": 1, "spare": 1});
    let site = Site::script("worker.php", "").file("worker.php", code("1"));
    let script = site.root().join("worker.php");
    let server = serve(
        site.with(json!({"applications": {"site": {
            "script": "worker.php", "worker": {"script": "worker.php"}, "processes": one,
        }}})),
        json!([{"action": {"pass": "applications/site"}}]),
    );
    let control = format!("unix:{}", server.site.control_socket().display());
    let problems = || {
        let mut command = Command::new(programs::howdah());
        let output =
            command.args(["status", "--problems", "--control", &control]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let first = server.get("/").text();
    assert!(first.ends_with(" 1"), "{first}");
    fs::write(&script, "<?php broken(").unwrap();
    for _ in 0..2 {
        let output = reload(&server);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(4), "{text}");
        assert!(
            text.contains("application \"site\": its former processes continue, as new ones"),
            "{text}"
        );
        assert!(text.contains("worker.php does not work: Unclosed"), "{text}");
        let (code, text) = problems();
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("application \"site\": its former processes continue"), "{text}");
        assert_eq!(server.get("/").text(), first);
    }
    let alert = "application \"site\": its former processes continue, as new ones could not start";
    let log = server.log();
    assert_eq!(log.matches(alert).count(), 1, "{log}");
    server.signal(Signal::HUP);
    eventually("it was read", || server.log().contains("was read again").then_some(()));
    assert_eq!(server.get("/").text(), first);

    fs::write(&script, code("2")).unwrap();
    let output = reload(&server);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(server.get("/").text().ends_with(" 2"));
    assert_eq!(problems(), (Some(0), "No problems.\n".to_owned()));
}

/// An application with a `php.ini` of its own, which starts one process.
fn with_ini(place: &Path, name: &str, own_start: bool) -> Value {
    let root = place.join(name);
    fs::create_dir(&root).unwrap();
    harness::open_to_all(&root, 0o755);
    fs::write(root.join("index.php"), "<?php echo getmypid(), ' ', ini_get('precision');").unwrap();
    let ini = place.join(format!("{name}.ini"));
    fs::write(&ini, "precision=5\n").unwrap();
    harness::open_to_all(&ini, 0o644);
    json!({
        "type": "php", "root": root, "script": "index.php",
        "processes": {"max": 1, "spare": 1},
        "options": {"file": ini},
        "isolation": {"own_start": own_start},
    })
}

/// Both ways to start PHP: executed, and forked from a zygote.
#[test]
fn a_reload_restarts_only_what_has_changed() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    harness::open_to_all(place, 0o755);
    let names = ["a", "b", "own", "other"];
    let mut applications = json!({});
    for name in names {
        applications[name] = with_ini(place, name, name.starts_with('o'));
    }
    let route = |name: &str| {
        json!({"match": {"uri": format!("/{name}")},
        "action": {"pass": format!("applications/{name}")}})
    };
    let site = Site::new().with(json!({"applications": applications}));
    let server = serve(site, names.map(route).into_iter().collect());
    let all = || names.map(|name| server.get(&format!("/{name}")).text());
    let changed = |before: &[String; 4], now: &[String; 4]| -> Vec<&str> {
        let pairs = names.iter().zip(before.iter().zip(now));
        pairs.filter(|(_, (before, now))| before != now).map(|(name, _)| *name).collect()
    };
    let first = all();
    write(&server, |document| {
        let routes = document["routes"].as_array_mut().unwrap();
        routes.push(json!({"match": {"uri": "/new"}, "action": {"return": 204}}));
        document["applications"]["new"] = with_ini(place, "new", false);
    });
    assert!(reload(&server).status.success());
    assert_eq!(server.get("/new").status, 204);
    assert_eq!(changed(&first, &all()), [""; 0]);

    for (name, own) in [("a", false), ("own", true)] {
        let before = all();
        fs::write(place.join(format!("{name}.ini")), "precision=7\n").unwrap();
        assert!(reload(&server).status.success());
        let now = all();
        assert_eq!(changed(&before, &now), [name], "{own}: {before:?} {now:?}");
        assert!(now.iter().any(|text| text.ends_with(" 7")), "{now:?}");
        server.wait_for_log(&format!("\"{name}\" application was restarted: changed: "));
    }
    let before = all();
    write(&server, |document| {
        document["applications"]["b"]["limits"] = json!({"requests": 1000});
    });
    server.signal(Signal::HUP);
    server.wait_for_log("config.json was read again");
    assert_eq!(changed(&before, &all()), ["b"]);
    let before = all();
    assert!(reload_with(&server, &["--restart"]).status.success());
    assert_eq!(changed(&before, &all()), names);
}

/// A deployment that exchanges a link to the release, and one that writes the file itself.
#[test]
fn a_reload_restarts_an_application_whose_worker_or_preload_script_has_changed() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    harness::open_to_all(place, 0o755);
    let code = |release: &str| {
        format!(
            "<?php if (function_exists('frankenphp_handle_request')) while \
             (frankenphp_handle_request(fn () => print(getmypid() . ' {release}')));"
        )
    };
    for release in ["1", "2"] {
        let root = place.join(release);
        fs::create_dir(&root).unwrap();
        harness::open_to_all(&root, 0o755);
        fs::write(root.join("worker.php"), code(release)).unwrap();
        fs::write(root.join("index.php"), "<?php echo getmypid(), ' ', f();").unwrap();
        fs::write(root.join("preload.php"), format!("<?php function f() {{ return {release}; }}"))
            .unwrap();
    }
    let current = place.join("current");
    std::os::unix::fs::symlink("1", &current).unwrap();
    let one = json!({"max": 1, "spare": 1});
    let applications = json!({
        "worker": {
            "type": "php", "root": &current, "script": "worker.php", "processes": one,
            "worker": {"script": "worker.php"},
        },
        "preload": {
            "type": "php", "root": &current, "script": "index.php", "processes": one,
            "options": {"admin": {"opcache.preload": current.join("preload.php")}},
        },
    });
    let routes = json!([
        {"match": {"uri": "/worker"}, "action": {"pass": "applications/worker"}},
        {"action": {"pass": "applications/preload"}},
    ]);
    let server = serve(Site::new().with(json!({"applications": applications})), routes);
    let both = || [server.get("/worker").text(), server.get("/preload").text()];
    let first = both();
    assert!(first.iter().all(|text| text.ends_with(" 1")), "{first:?}");
    assert!(reload(&server).status.success());
    assert_eq!(both(), first);

    std::os::unix::fs::symlink("2", place.join("next")).unwrap();
    fs::rename(place.join("next"), &current).unwrap();
    assert!(reload(&server).status.success());
    let second = both();
    assert!(second.iter().all(|text| text.ends_with(" 2")), "{second:?}");
    fs::write(place.join("2/worker.php"), code("3")).unwrap();
    assert!(reload(&server).status.success());
    let third = both();
    assert!(third[0].ends_with(" 3"), "{third:?}");
    assert_eq!(third[1], second[1]);
}
