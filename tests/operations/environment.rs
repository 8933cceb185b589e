//! Environment variables in place of options, as containers use them.

use std::fs;
use std::process::{Command, Output};

use harness::{Site, processes, programs};
use rustix::process::Signal;
use serde_json::{Value, json};

fn howdah(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(programs::howdah());
    programs::run(command.args(arguments).envs(variables.iter().copied()))
}

#[test]
fn the_document_comes_from_the_file_that_the_environment_names() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("site.json");
    let document = json!({"listeners": {}, "routes": []});
    fs::write(&file, document.to_string()).unwrap();
    let file = file.display().to_string();
    let variables = [("HOWDAH_CONFIG", file.as_str()), ("HOWDAH_LISTEN", "*:8080")];
    let output = howdah(&["serve", "--print-config"], &variables);
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed, document, "{output:?}");
}

#[test]
fn addresses_and_workers_of_a_directory_come_from_the_environment() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("index.php"), "<?php echo 1;").unwrap();
    let site = directory.path().display().to_string();
    let variables = [
        ("HOWDAH_CONFIG", "/nowhere.json"),
        ("HOWDAH_LISTEN", "127.0.0.1:8081 [::1]:8081"),
        ("HOWDAH_WORKERS", "7"),
    ];
    let output = howdah(&["serve", &site, "--print-config"], &variables);
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let listeners: Vec<_> = printed["listeners"].as_object().unwrap().keys().collect();
    assert_eq!(listeners, ["127.0.0.1:8081", "[::1]:8081"], "{output:?}");
    assert!(
        output.status.success() && printed.to_string().contains("\"processes\":7"),
        "{printed}"
    );
    let output = howdah(&["serve", &site], &[("HOWDAH_WORKERS", "all")]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(error, "howdah: HOWDAH_WORKERS: \"all\" is not a number from 1 to 2000\n");
}

#[test]
fn every_process_writes_the_log_as_json_if_the_environment_asks_for_it() {
    let script = "error_log(\"two \\\"lines\\\"\\nof a script\"); echo 'a';";
    let server = Site::script("a.php", script).through(&["env", "HOWDAH_LOG_FORMAT=json"]).serve();
    assert_eq!(server.get("/a.php").text(), "a");
    server.wait_for_log("of a script");
    // A reload adds records of the supervisor, and writes to a file that was opened again.
    processes::signal(server.supervisor(), Signal::USR1);
    processes::signal(server.supervisor(), Signal::HUP);
    let log = server.wait_for_log("was read again");
    let mut writers = Vec::new();
    for line in log.lines() {
        let record: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        for member in ["time", "level", "pid", "thread", "message"] {
            assert!(!record[member].is_null(), "{member}: {line}");
        }
        writers.extend(record["pid"].as_u64());
    }
    writers.sort_unstable();
    writers.dedup();
    assert!(writers.len() > 1, "supervisor and router: {log}");
    assert!(log.contains(r#"two \"lines\"\nof a script"#), "{log}");
}

#[test]
fn no_process_writes_records_below_the_level_of_the_log() {
    let script = "trigger_error('old', E_USER_DEPRECATED); trigger_error('a warning', \
                  E_USER_WARNING); echo 'a';";
    for level in [&["--log-level", "warn"][..], &[]] {
        let site =
            Site::script("a.php", script).with(json!({"applications": {"site": {"options": {
                "admin": {"error_reporting": "-1", "log_errors": "1"},
            }}}}));
        let site = level.iter().fold(site, |site, argument| site.argument(argument));
        let server = site.through(&["env", "HOWDAH_LOG_LEVEL=info"]).serve();
        server.get("/a.php");
        let log = server.wait_for_log("a warning");
        assert_eq!(log.contains("[info]"), level.is_empty(), "{log}");
        assert_eq!(log.contains("[notice]"), level.is_empty(), "{log}");
    }
}
