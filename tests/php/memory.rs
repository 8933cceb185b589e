//! The memory of all PHP processes: its budget, its division among applications, and its display.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use harness::processes::private_memory;
use harness::{Server, Site, eventually};
use serde_json::{Value, json};

/// Takes 16 MiB and waits.
const TAKES_MEMORY: &str =
    "$taken = str_repeat('x', 16 << 20); usleep(200000); echo strlen($taken);";

/// Returns a server with the applications `site` and `other`, for `a.php` and `b.php`.
fn two_sites(memory: &str, site: Value, other: Value) -> Server {
    let files = Site::script("a.php", TAKES_MEMORY).file("b.php", format!("<?php {TAKES_MEMORY}"));
    let address = format!("unix:{}", files.control_socket().display());
    let root = files.root();
    let application = |processes| json!({"type": "php", "root": root, "processes": processes});
    let document = json!({
        "settings": {"memory": memory},
        "routes": [
            {"match": {"uri": "/b.php"}, "action": {"pass": "applications/other"}},
            {"action": {"pass": "applications/site"}},
        ],
        "applications": {"site": application(site), "other": application(other)},
    });
    files.argument("--control").argument(&address).with(document).serve()
}

fn status(server: &Server, pointer: &str) -> Value {
    let status = server.control("GET", "/status", "").succeeded();
    status.pointer(pointer).unwrap_or_else(|| panic!("{pointer} in {status}")).clone()
}

fn tuning(server: &Server, name: &str) -> Value {
    server.control("GET", &format!("/control/applications/{name}/tune"), "").succeeded()
}

/// Sends requests on `clients` connections while `f` runs.
fn flooded(server: &Server, clients: usize, target: &str, f: impl FnOnce()) {
    let ending = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                let mut client = server.connect();
                while !ending.load(Relaxed) {
                    let response = client.get(target);
                    assert_eq!(response.text(), (16 << 20).to_string(), "{response:?}");
                }
            });
        }
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
        ending.store(true, Relaxed);
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

#[test]
fn the_status_says_whether_php_is_loaded_and_who_has_which_memory() {
    let unloads = json!({"max": 2, "spare": 0, "idle_timeout": 0, "prototype_timeout": 0});
    let server = two_sites("512M", unloads, json!(1));
    assert_eq!(status(&server, "/memory/budget"), json!(512 << 20));
    eventually("the fixed one is loaded and measured", || {
        let prototype = status(&server, "/php/other/memory/prototype");
        (prototype.as_u64() > Some(0)).then_some(())
    });
    assert_eq!(status(&server, "/php/other/state"), "loaded");
    assert_eq!(server.get("/a.php").status, 200);
    eventually("the unused one is unloaded and has no memory", || {
        let site = status(&server, "/php/site");
        let none = json!({"prototype": 0, "processes": 0});
        (site["state"] == "unloaded" && site["memory"] == none).then_some(())
    });
    let all = status(&server, "");
    let of = |pointer: &str| all.pointer(pointer).and_then(Value::as_u64).unwrap();
    let other = of("/php/other/memory/prototype") + of("/php/other/memory/processes");
    assert_eq!(of("/memory/used"), other, "{all}");
}

#[test]
fn a_budget_limits_automatic_numbers_until_it_is_raised() {
    let server = two_sites("64M", json!("auto"), json!("auto"));
    let running = || status(&server, "/applications/site/processes/running").as_u64().unwrap();
    flooded(&server, 24, "/a.php", || {
        eventually("the budget was noticed", || {
            let tuning = tuning(&server, "site");
            let is_measured = tuning["measured"]["process_peak"].as_u64() > Some(16 << 20);
            let by_budget = tuning["measured"]["memory"] == json!(64 << 20)
                && tuning["automatic"]["limit"] == "memory";
            (is_measured && by_budget && running() <= 3).then_some(())
        });
        let number = tuning(&server, "site")["automatic"]["processes"].as_u64().unwrap();
        assert!((1..=3).contains(&number), "{number} of 16 MiB and more fit into 64");
        server.put("/config/settings/memory", &json!("100%"));
        eventually("there are more processes", || (running() >= 6).then_some(()));
    });
}

#[test]
fn a_site_gets_its_share_during_a_flood_of_another() {
    let server = two_sites("256M", json!("auto"), json!("auto"));
    let running = |name: &str| {
        status(&server, &format!("/applications/{name}/processes/running")).as_u64().unwrap()
    };
    flooded(&server, 32, "/a.php", || {
        eventually("the first has the memory", || {
            let tuning = tuning(&server, "site");
            (tuning["automatic"]["limit"] == "memory" && running("site") >= 4).then_some(())
        });
        flooded(&server, 32, "/b.php", || {
            eventually("both have as many processes", || {
                let (site, other) = (running("site"), running("other"));
                let has_share = tuning(&server, "site")["measured"]["memory_share"].is_u64();
                (has_share && other >= 2 && site.abs_diff(other) <= 1).then_some(())
            });
        });
    });
}

#[test]
fn idle_processes_make_room_for_an_application_with_requests() {
    let patient = json!({"max": 4, "start": 4, "spare": 1, "idle_timeout": 600});
    let server = two_sites("128M", json!("auto"), patient);
    let others = || status(&server, "/applications/other/processes/running");
    eventually("there are 4", || (others() == 4).then_some(()));
    flooded(&server, 24, "/a.php", || {
        eventually("only the spare one is left", || (others() == 1).then_some(()));
    });
}

#[test]
fn a_wrong_budget_is_refused_with_its_place() {
    let server = two_sites("50%", json!(1), json!(1));
    let answer = server.control("PUT", "/config/settings/memory", "\"120%\"");
    assert_eq!(
        answer.text("detail"),
        "/settings/memory: \"memory\" must be between 1% and 100%, but is 120%"
    );
}

/// Takes about 20 MiB in small pieces, as frameworks do: PHP keeps small pieces for later requests.
const TAKES_SMALL_PIECES: &str = "$all = []; for ($i = 0; $i < 50000; $i++) { $all[] = [$i]; } \
                                  echo getmypid(), ' ', array_sum(array_column($all, 0));";

#[test]
fn a_waiting_worker_returns_the_memory_of_its_requests() {
    // With the second one, PHP allocates with malloc().
    for environment in [json!({}), json!({"USE_ZEND_ALLOC": "0"})] {
        let site = Site::script("a.php", TAKES_SMALL_PIECES)
            .file("small.php", "<?php echo getmypid();")
            .workers(1)
            .with(json!({"applications": {"site": {"environment": environment}}}));
        let server = site.serve();
        let pid: u32 = server.get("/small.php").text().parse().unwrap();
        let before = private_memory(pid);
        for _ in 0..2 {
            for _ in 0..3 {
                let text = server.get("/a.php").text();
                assert_eq!(text, format!("{pid} 1249975000"), "the same worker, and its answer");
            }
            eventually("its memory is as small as before", || {
                (private_memory(pid) < before + (4 << 20)).then_some(())
            });
        }
    }
}
