//! Jobs: commands that run beside the pages of an application.

use std::fs;
use std::path::{Path, PathBuf};

use harness::{Server, Site, eventually, processes, users};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A site with a page, and the directory that its jobs write to.
fn page() -> (Site, PathBuf) {
    let site = Site::script("a.php", "echo getmypid();");
    let data = site.data();
    (site, data)
}

fn with(site: Site, jobs: Value) -> Site {
    site.workers(1).with(json!({"applications": {"site": {"jobs": jobs}}}))
}

/// A shell that adds its process id to a file, and then runs a script.
fn shell(data: &Path, file: &str, script: &str) -> Value {
    json!(["sh", "-c", format!("echo $$ >> {}; {script}", data.join(file).display())])
}

/// Waits until a file has this many lines with process ids, and returns them.
fn pids(data: &Path, file: &str, count: usize) -> Vec<u32> {
    eventually("the processes have started", || {
        let text = fs::read_to_string(data.join(file)).unwrap_or_default();
        let pids: Vec<_> = text.lines().filter_map(|line| line.parse().ok()).collect();
        (pids.len() >= count).then_some(pids)
    })
}

/// A server with these jobs, whose document is that of the control API.
fn controlled(site: Site, jobs: Value) -> Server {
    let server = site.workers(1).controlled().serve();
    let mut document = server.site.document(server.address);
    document["applications"]["site"]["jobs"] = jobs;
    server.put("/config", &document);
    server
}

fn wait_for_end(pid: u32) {
    eventually("the process has ended", || (!processes::is_alive(pid)).then_some(()));
}

/// A server with the jobs of the other tests: one for many cases.
#[test]
fn jobs_run_beside_the_pages_start_again_and_end_with_all_that_they_have_started() {
    let (site, data) = page();
    let jobs = json!({
        "queue": {"command": shell(&data, "queue", "exec sleep 600"), "processes": 2},
        "fails": {"command": shell(&data, "fails", "echo no such table; exit 3")},
        "once": {"command": shell(&data, "once", "true"), "restart": "on-failure"},
        "family": {"command": shell(&data, "family", &format!(
            "setsid sh -c 'echo $$ >> {0}/orphan; exec sleep 600' & \
             sh -c 'setsid sh -c \"echo \\$\\$ >> {0}/orphan; exec sleep 600\" &'; wait",
            data.display()
        ))},
        "hangs": {
            "command": shell(&data, "hangs", "trap '' TERM; while true; do sleep 0.1; done"),
            "stop_timeout": 1,
        },
        "unknown": {"command": ["no-such-program"]},
    });
    let server = with(site, jobs).serve();
    let queue = pids(&data, "queue", 2);
    assert!(queue.iter().all(|pid| processes::is_alive(*pid)));
    assert!(server.get("/a.php").text().parse::<u32>().is_ok());

    // One that is killed is followed by another, and the other one goes on.
    processes::signal(queue[0], Signal::KILL);
    let again = pids(&data, "queue", 3);
    assert!(processes::is_alive(queue[1]) && processes::is_alive(again[2]));

    // Failures are named, with the output, and wait longer each time.
    server.wait_for_log("\"site\" job \"fails\": no such table");
    server.wait_for_log("exited with status 3; it starts again in 1 s");
    server.wait_for_log("exited with status 3; it starts again in 2 s");
    let unknown = "\"site\" job \"unknown\": it cannot be started: jobs/unknown/command: ";
    server.wait_for_log(unknown);
    let log = server.log();
    let line = log.lines().find(|line| line.contains(unknown)).unwrap();
    assert!(line.contains("[error]") && line.contains("it starts again in 1 s"), "{line}");
    assert_eq!(pids(&data, "once", 1).len(), 1, "it has ended well");

    // All that a process has started ends with it, in whatever session it is.
    let (family, orphans) = (pids(&data, "family", 1), pids(&data, "orphan", 2));
    processes::signal(family[0], Signal::KILL);
    orphans.into_iter().for_each(wait_for_end);
    let next = pids(&data, "orphan", 4);

    let hanging = pids(&data, "hangs", 1)[0];
    let (status, _site) = server.end(Signal::TERM);
    assert!(status.success());
    let left = [hanging, queue[1], again[2], next[2], next[3]];
    assert!(left.iter().all(|pid| !processes::is_alive(*pid)));
    assert_eq!(fs::read_to_string(data.join("once")).unwrap().lines().count(), 1);
}

#[test]
fn timers_run_at_their_times_one_run_after_the_other_and_not_for_too_long() {
    let (site, data) = page();
    let jobs = json!({
        "ticks": {"command": shell(&data, "ticks", "true"), "every": "1s"},
        "slow": {"command": shell(&data, "slow", "exec sleep 600"), "every": "1s"},
        "beside": {
            "command": shell(&data, "beside", "exec sleep 600"), "every": "1s", "overlap": true,
        },
        "late": {
            "command": shell(&data, "late", "exec sleep 600"), "every": 1, "timeout": "1s",
        },
        "fails": {"command": shell(&data, "fails", "exit 3"), "every": 1},
        "nightly": {"command": shell(&data, "nightly", "true"), "cron": "0 3 1 1 *"},
        "lost": {
            "command": ["true"], "cron": "@daily", "time_zone": "Europe/Nowhere",
        },
    });
    let server = with(site, jobs).serve();
    server.wait_for_log("\"site\" job \"lost\": it does not run: jobs/lost/time_zone: there is no");
    pids(&data, "ticks", 3);
    let beside = pids(&data, "beside", 2);
    assert!(beside.iter().all(|pid| processes::is_alive(*pid)));
    server.wait_for_log("\"site\" job \"slow\": a run is left out: the run before goes on");
    assert_eq!(pids(&data, "slow", 1).len(), 1);
    server.wait_for_log("is asked to end: it has run for its timeout of 1 s");
    let late = pids(&data, "late", 2);
    wait_for_end(late[0]);
    pids(&data, "fails", 2);
    server.wait_for_log("\"site\" job \"fails\": process");
    assert!(!server.log().contains("exited with status 3; it starts again"));
    assert!(server.get("/a.php").text().parse::<u32>().is_ok());
    assert!(!data.join("nightly").exists());

    let (status, _site) = server.end(Signal::TERM);
    assert!(status.success());
    let left = beside.into_iter().chain(pids(&data, "slow", 1));
    assert!(left.into_iter().all(|pid| !processes::is_alive(pid)));
}

#[test]
fn a_job_has_the_user_the_settings_and_the_restrictions_of_its_application() {
    let site = Site::script("a.php", "echo 'page';");
    let data = site.data();
    let facts = "file_put_contents(getenv('DATA') . '/facts', json_encode([
        'euid' => posix_geteuid(), 'sapi' => PHP_SAPI, 'dir' => getcwd(),
        'limit' => ini_get('memory_limit'), 'word' => ini_get('user_agent'),
        'path' => getenv('PATH'), 'own' => getenv('OWN'), 'server' => getenv('CARGO'),
        'arguments' => $argv,
        'status' => file_get_contents('/proc/self/status'),
    ])); sleep(600);";
    let job = json!({"facts": {"command": ["php", "-r", facts, "--", "a b", "$HOME"]}});
    let Some((site, user)) = users::site_with_own_user(site) else { return };
    let application = json!({
        "user": users::NAME,
        "jobs": job,
        "environment": {"DATA": data, "OWN": "äö \"'"},
        "options": {"admin": {"memory_limit": "99M"}, "user": {"user_agent": "a b\"c"}},
        "isolation": {"sandbox": {"required": false}},
    });
    let server = site.with(json!({"applications": {"site": application}})).serve();
    let facts: Value = eventually("the job has written", || {
        serde_json::from_slice(&fs::read(data.join("facts")).ok()?).ok()
    });
    assert_eq!(facts["euid"], json!(user));
    assert_eq!(facts["sapi"], "cli");
    assert_eq!(facts["dir"], json!(server.site.root()));
    assert_eq!((&facts["limit"], &facts["word"]), (&json!("99M"), &json!("a b\"c")));
    assert_eq!(facts["own"], "äö \"'");
    assert_eq!(facts["server"], json!(false), "the server's own environment is not passed on");
    assert_eq!(facts["path"], howdah_sys::environment::DEFAULT_PATH);
    assert_eq!(facts["arguments"].as_array().unwrap()[1..], [json!("a b"), json!("$HOME")]);
    let status = facts["status"].as_str().unwrap();
    let value =
        |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
    assert_eq!(value("NoNewPrivs:"), "1");
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        assert_eq!(u64::from_str_radix(value(set), 16), Ok(0), "{set}");
    }
    assert_eq!(value("Seccomp:"), "2");
}

#[test]
fn a_job_that_leaks_is_replaced_and_one_that_floods_the_log_harms_nobody() {
    let (site, data) = page();
    let leak = "file_put_contents($argv[1], getmypid() . \"\\n\", FILE_APPEND);
        while (true) { $all[] = random_bytes(1 << 20); usleep(5000); }";
    let jobs = json!({
        "leaks": {
            "command": ["php", "-d", "memory_limit=-1", "-r", leak, "--", data.join("leaks")],
            "memory": "64M",
        },
        "floods": {"command": ["yes", "flood ".repeat(300)]},
    });
    let server = with(site, jobs).serve();
    let first = pids(&data, "leaks", 1)[0];
    server.wait_for_log("more than \"memory\" allows, and is replaced");
    wait_for_end(first);
    pids(&data, "leaks", 2);
    server.wait_for_log("the job \"floods\" of \"site\" writes too much for the log");
    for _ in 0..20 {
        assert_eq!(server.get("/a.php").status, 200);
    }
    let (status, _site) = server.end(Signal::TERM);
    assert!(status.success());
}

#[test]
fn a_change_of_a_job_restarts_it_alone_and_a_wrong_one_is_refused_at_its_place() {
    let (site, data) = page();
    let jobs = json!({
        "one": {"command": shell(&data, "one", "exec sleep 600")},
        "two": {"command": shell(&data, "two", "exec sleep 600")},
    });
    let server = controlled(site, jobs);
    let (one, two) = (pids(&data, "one", 1)[0], pids(&data, "two", 1)[0]);
    let worker = server.get("/a.php").text();

    let change = json!({"command": shell(&data, "one", "exec sleep 601")});
    server.put("/config/applications/site/jobs/one", &change);
    wait_for_end(one);
    let changed = pids(&data, "one", 2)[1];
    assert!(processes::is_alive(two), "it is as it was");
    assert_eq!(server.get("/a.php").text(), worker, "so are the pages");

    for (job, place, problem) in [
        (json!({"command": ["no-such"]}), "jobs/three/command", "no program \\\"no-such\\\""),
        (json!({"command": "php"}), "/applications/site/jobs/three/command", "array of strings"),
        (json!({"command": []}), "/applications/site/jobs/three/command", "a program"),
        (json!({"command": ["a"], "restart": "x"}), "jobs/three/restart", "on-failure"),
        (
            json!({"command": ["true"], "cron": "@daily", "time_zone": "Europe/Nowhere"}),
            "jobs/three/time_zone",
            "no time zone \\\"Europe/Nowhere\\\"",
        ),
        (
            json!({"command": ["true"], "cron": "0 24 * * *"}),
            "/applications/site/jobs/three/cron",
            "the hour \\\"24\\\"",
        ),
        (json!({}), "/applications/site/jobs/three", "command"),
    ] {
        let target = "/config/applications/site/jobs/three";
        let answer = server.control("PUT", target, job.to_string());
        let text = answer.body.to_string();
        let is_named = text.contains(place) && text.contains(problem);
        assert!(answer.status != 200 && is_named, "{} {text}", answer.status);
    }

    // A restart of the application, as after a deployment, restarts its jobs.
    let answer = server.control("GET", "/control/applications/site/restart", "");
    assert_eq!(answer.status, 200, "{}", answer.body);
    wait_for_end(two);
    wait_for_end(changed);
    let (one, two) = (pids(&data, "one", 3)[2], pids(&data, "two", 2)[1]);
    // Orders and questions about jobs.
    let ask = |method: &str, target: &str| server.control(method, target, "");
    let state = |job: &str| ask("GET", &format!("/jobs/site/{job}")).body;
    let order = |order: &str| {
        let target = format!("/control/applications/site/jobs/one/{order}");
        ask("POST", &target).status
    };
    assert_eq!((state("one")["state"].clone(), order("run")), (json!("running"), 409));
    assert_eq!(order("pause"), 200);
    wait_for_end(one);
    eventually("it is paused", || (state("one")["state"] == "paused").then_some(()));
    let status = ask("GET", "/status/jobs/site/one");
    assert_eq!((status.body["state"].clone(), order("run")), (json!("paused"), 409));
    // A pause holds when the job changes.
    server.put(
        "/config/applications/site/jobs/one",
        &json!({"command": shell(
        &data, "one", "echo hello; exec sleep 602")}),
    );
    eventually("it has changed", || (state("one")["runs"] == 0).then_some(()));
    assert_eq!(state("one")["state"], "paused");
    assert_eq!(order("resume"), 200);
    let one = pids(&data, "one", 4)[3];
    eventually("its line is there", || {
        ask("GET", "/jobs/site/one/log").body.to_string().contains("hello").then_some(())
    });
    assert_eq!(state("one")["processes"], json!([one]));
    for (method, target, expected) in [
        ("GET", "/jobs/site/none", 404),
        ("GET", "/jobs/none", 404),
        ("GET", "/jobs/site/none/log", 404),
        ("POST", "/control/applications/site/jobs/none/run", 404),
        ("POST", "/control/applications/none/jobs/one/run", 404),
        ("POST", "/control/applications/site/jobs/one/stop", 404),
        ("GET", "/control/applications/site/jobs/one/run", 405),
        ("POST", "/jobs", 405),
    ] {
        let answer = ask(method, target);
        assert_eq!(answer.status, expected, "{method} {target}: {}", answer.body);
    }

    let answer = server.control("DELETE", "/config/applications/site/jobs/two", "");
    assert_eq!(answer.status, 200, "{}", answer.body);
    wait_for_end(two);
    assert!(processes::is_alive(one));
}

#[test]
fn the_log_of_the_site_has_the_output_also_after_a_rotation() {
    let (site, data) = page();
    let log = data.join("site.log");
    let jobs = json!({"says": {"command": shell(&data, "says", "echo hello $$; exec sleep 600")}});
    let server = with(site, jobs).with(json!({"error_logs": {"site": log}})).serve();
    let wait = |text: String| {
        eventually("the log has the line", || {
            let found = fs::read_to_string(&log).unwrap_or_default();
            found.contains(&text).then_some(())
        });
    };
    let first = pids(&data, "says", 1)[0];
    wait(format!("\"site\" job \"says\": hello {first}"));
    fs::rename(&log, data.join("site.log.1")).unwrap();
    server.signal(Signal::USR1);
    eventually("it is opened again", || log.exists().then_some(()));
    processes::signal(first, Signal::KILL);
    let second = pids(&data, "says", 2)[1];
    wait(format!("\"site\" job \"says\": hello {second}"));
    assert!(!server.log().contains("job \"says\""));
}

#[test]
fn an_upgrade_ends_the_jobs_of_the_old_server_before_those_of_the_new_one_start() {
    let (site, data) = page();
    // It fails if another one runs.
    let script = format!(
        "exec flock -n {0}/lock sh -c 'echo locked >> {0}/lock; exec sleep 600'",
        data.display()
    );
    let jobs = json!({"one": {"command": shell(&data, "one", &script), "stop_timeout": 2}});
    let server = controlled(site, jobs);
    let first = pids(&data, "one", 1)[0];
    server.upgrade();
    wait_for_end(first);
    let all = pids(&data, "one", 2);
    assert_eq!(all.len(), 2);
    eventually("it has the lock", || {
        (fs::read_to_string(data.join("lock")).ok()?.lines().count() == 2).then_some(())
    });
}

#[test]
fn a_restart_replaces_the_jobs_of_an_application_that_no_request_has_loaded() {
    let (site, data) = page();
    let server = site.controlled().serve();
    let mut document = server.site.document(server.address);
    let application = &mut document["applications"]["site"];
    application["processes"] = json!({"max": 2, "spare": 0});
    application["jobs"] = json!({
        "one": {"command": shell(&data, "one", "exec sleep 600")},
        "timer": {"command": shell(&data, "timer", "exec sleep 600"), "every": "1s"},
    });
    server.put("/config", &document);
    let (one, timer) = (pids(&data, "one", 1)[0], pids(&data, "timer", 1)[0]);
    let answer = server.control("POST", "/control/applications/site/restart", "");
    assert_eq!(answer.status, 200, "{}", answer.body);
    wait_for_end(one);
    pids(&data, "one", 2);
    assert!(processes::is_alive(timer), "a run goes on to its end");
}

#[test]
fn a_pause_survives_a_restart_of_the_server_and_an_upgrade() {
    let (site, data) = page();
    let jobs = json!({
        "one": {"command": shell(&data, "one", "exec sleep 600")},
        "two": {"command": shell(&data, "two", "exec sleep 600")},
    });
    let server = controlled(site, jobs);
    let order = |server: &Server, job: &str, order: &str| {
        let target = format!("/control/applications/site/jobs/{job}/{order}");
        server.control("POST", &target, "").succeeded()
    };
    let state = |server: &Server, job: &str| {
        let all = server.control("GET", "/jobs", "").succeeded();
        all["site"][job]["state"].as_str().map(str::to_owned)
    };
    let running = [pids(&data, "one", 1)[0], pids(&data, "two", 1)[0]];
    order(&server, "one", "pause");
    order(&server, "two", "pause");
    running.into_iter().for_each(wait_for_end);
    order(&server, "two", "resume");
    pids(&data, "two", 2);
    let is_restored = |server: &Server, starts: usize| {
        // It would have started with the other one.
        pids(&data, "two", starts);
        assert_eq!(state(server, "one").as_deref(), Some("paused"));
        assert_eq!(pids(&data, "one", 1).len(), 1);
    };
    let address = server.address.to_string();
    let (status, site) = server.end(Signal::QUIT);
    assert!(status.success(), "{status}");
    let server = site.serve_at(&address);
    is_restored(&server, 3);
    server.upgrade();
    is_restored(&server, 4);
    order(&server, "one", "resume");
    pids(&data, "one", 2);
}
