//! Timers that one of several servers runs at each time.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use harness::valkey::Valkey;
use harness::{Server, Site, eventually, processes};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::servers::connected;

/// Starts two servers with the same jobs, which write to one directory.
fn two(valkey: &Valkey, jobs: impl Fn(&Path) -> Value) -> ([Server; 2], std::path::PathBuf) {
    let sites = [(); 2].map(|()| Site::script("a.php", "echo 1;"));
    let data = sites[0].data();
    let servers = sites.map(|site| {
        let server = site.workers(1).controlled().serve();
        let mut document = server.site.document(server.address);
        document["applications"]["site"]["jobs"] = jobs(&data);
        let socket = format!("unix:{}", valkey.socket().display());
        document["settings"]["cluster"] = json!(socket);
        server.put("/config", &document);
        connected(&server);
        server
    });
    (servers, data)
}

/// A shell that adds the process id of its server to a file, and its own one, and runs a script.
fn shell(data: &Path, file: &str, script: &str) -> Value {
    json!(["sh", "-c", format!("echo $PPID $$ >> {}; {script}", data.join(file).display())])
}

/// Returns the process ids of servers and runs.
fn runs(data: &Path, file: &str) -> Vec<(u32, u32)> {
    let text = fs::read_to_string(data.join(file)).unwrap_or_default();
    let run = |line: &str| {
        let (server, run) = line.split_once(' ')?;
        Some((server.parse().ok()?, run.parse().ok()?))
    };
    text.lines().filter_map(run).collect()
}

fn wait_for_runs(data: &Path, file: &str, count: usize) -> Vec<(u32, u32)> {
    eventually("there are enough runs", || {
        Some(runs(data, file)).filter(|runs| runs.len() >= count)
    })
}

#[test]
fn one_server_runs_a_timer_at_each_time() {
    let Some(valkey) = Valkey::start(&[]) else { return };
    // Another program has written a value of another kind.
    valkey.ask(&["SADD", "howdah:timer:broken:running:site", "x"]);
    let (servers, data) = two(&valkey, |data| {
        json!({
            "tick": {"command": shell(data, "tick", "true"), "every": "1s"},
            "beside": {
                "command": shell(data, "beside", "true"), "every": "1s", "overlap": true,
            },
            "slow": {"command": shell(data, "slow", "exec sleep 600"), "every": "1s"},
            "own": {"command": shell(data, "own", "true"), "every": "1s", "shared": false},
            "broken": {"command": shell(data, "broken", "true"), "every": "1s"},
        })
    });
    wait_for_runs(&data, "tick", 5);
    eventually("each server runs its own timer", || {
        let of_servers: BTreeSet<_> =
            runs(&data, "own").into_iter().map(|(server, _)| server).collect();
        (of_servers.len() == 2).then_some(())
    });
    servers.iter().for_each(|server| {
        server.wait_for_log("\"site\" job \"broken\": a run is left out: the server of settings/");
    });
    assert_eq!(runs(&data, "broken"), []);
    // No server joins the run of another one, and the next one begins when it has ended.
    let slow = runs(&data, "slow");
    assert_eq!(slow.len(), 1, "{slow:?}");
    processes::signal(slow[0].1, Signal::KILL);
    let slow = wait_for_runs(&data, "slow", 2);
    assert_eq!(slow.len(), 2, "{slow:?}");
    assert!(processes::is_alive(slow[1].1));
    let ended = servers.map(|server| server.end(Signal::TERM));
    assert!(ended.iter().all(|(status, _site)| status.success()));
    for job in ["tick", "beside"] {
        let count = runs(&data, job).len();
        let keys = format!("return #redis.call('KEYS', 'howdah:timer:{job}:[0-9]*:site')");
        let times: usize = valkey.ask(&["EVAL", &keys, "0"]).trim_matches(':').parse().unwrap();
        // The last one may have been granted to a server that was ending.
        assert!(count >= 5 && (count..=count + 2).contains(&times), "{job}: {count}, {times}");
    }
}

#[test]
fn without_the_store_runs_are_left_out_until_it_is_back() {
    let Some(mut valkey) = Valkey::start(&[]) else { return };
    let (servers, data) = two(
        &valkey,
        |data| json!({"tick": {"command": shell(data, "tick", "true"), "every": "1s"}}),
    );
    wait_for_runs(&data, "tick", 2);
    valkey.stop();
    for server in &servers {
        server.wait_for_log("and purges and shared timers wait");
        server.wait_for_log("\"site\" job \"tick\": a run is left out: the server of settings/");
    }
    let before = runs(&data, "tick").len();
    valkey.run();
    wait_for_runs(&data, "tick", before + 2);
}
