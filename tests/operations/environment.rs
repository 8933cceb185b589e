//! Environment variables in place of options, as containers use them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use harness::{Site, eventually, free_address, processes, programs};
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
fn options_of_development_show_errors_and_set_php() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("index.php"), "<?php echo 1;").unwrap();
    let site = directory.path().display().to_string();
    let options = ["serve", &site, "--print-config", "--dev", "-d", "memory_limit=99M"];
    let output = howdah(&options, &[]);
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let options = &printed["applications"]["site"]["options"];
    assert_eq!(options["admin"]["memory_limit"], "99M", "{output:?}");
    assert_eq!(options["user"]["display_errors"], "1");
    for (options, problem) in [
        (&["-d", "=1"][..], "-d =1: must be NAME=VALUE"),
        (&["--php", "new"], "must be a version such as 8.2"),
        (&["--dev", "--config", "a.json"], "cannot be used with"),
    ] {
        let output = howdah(&[&["serve", "--print-config"], options].concat(), &[]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(problem), "{error}");
    }
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

/// Prints a variable in each of the ways in which scripts and programs see it.
const SEES: &str = "foreach (explode(',', $_GET['names']) as $name) {
        $seen = [getenv($name), $_SERVER[$name] ?? false, $_ENV[$name] ?? false,
                 rtrim(shell_exec('printenv ' . $name) ?? '', \"\\n\")];
        echo $name, '=', implode('|', array_unique(array_map('json_encode', $seen))), ';';
    }
    error_log('the script has run');";

const SECRETS: [&str; 4] =
    ["s3cret-of-a-file", "s3cret-of-the-server", "s3cret-option", "s3cret-f"];

fn shows_no_secret(place: &str, text: &str) {
    for secret in SECRETS {
        assert!(!text.contains(secret), "{place} has {secret}: {text}");
    }
}

#[test]
fn variables_of_the_server_and_of_files_reach_scripts_and_no_output_of_the_server() {
    let site = Site::script("a.php", SEES).argument("--control");
    let control = format!("unix:{}", site.control_socket().display());
    let secret = site.data().join("secret");
    fs::write(&secret, "s3cret-of-a-file\n").unwrap();
    let changes = json!({"applications": {"site": {
        "environment": {
            "FROM_FILE": {"file": secret},
            "FROM_SERVER": {"env": "SOURCE"},
            "SAME": {"env": true},
            "DEFAULT": {"env": "NO_SUCH_VARIABLE", "default": "d"},
            "APP_*": {"env": true},
            "APP_OWN": "own",
        },
        "options": {"admin": {"variables_order": "EGPCS"}},
    }}});
    let variables = [
        "env",
        "SOURCE=s3cret-of-the-server",
        "SAME=same",
        "APP_A=a",
        "APP_OWN=other",
        "HOWDAH_OTHER=x",
    ];
    let server = site.argument(&control).with(changes).through(&variables).serve();
    let seen = |names: &str| server.get(&format!("/a.php?names={names}")).text();
    let names = "FROM_FILE,FROM_SERVER,SAME,DEFAULT,APP_A,APP_OWN";
    assert_eq!(
        seen(names),
        "FROM_FILE=\"s3cret-of-a-file\";FROM_SERVER=\"s3cret-of-the-server\";SAME=\"same\";\
         DEFAULT=\"d\";APP_A=\"a\";APP_OWN=\"own\";"
    );
    assert_eq!(seen("SOURCE,HOWDAH_OTHER"), "SOURCE=false|\"\";HOWDAH_OTHER=false|\"\";");
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    assert_eq!(seen("PATH"), format!("PATH={};", json!(path)).replace('/', "\\/"));
    shows_no_secret("the log", &server.wait_for_log("the script has run"));
    for target in ["/status", "/config", "/"] {
        let answer = server.control("GET", target, "");
        shows_no_secret(target, &answer.body.to_string());
    }
    let file = server.site.log_path().with_file_name("config.json").display().to_string();
    for arguments in [&["check", &file][..], &["serve", "--print-config", "--config", &file]] {
        let output = howdah(arguments, &[("SOURCE", "s3cret-of-the-server"), ("SAME", "same")]);
        assert!(output.status.success(), "{output:?}");
        shows_no_secret(arguments[0], &format!("{output:?}"));
    }
    // A start reads the file again.
    fs::write(&secret, "changed\n").unwrap();
    server.control("GET", "/control/applications/site/restart", "").succeeded();
    eventually("the application has started again", || {
        (seen("FROM_FILE") == "FROM_FILE=\"changed\";").then_some(())
    });
}

#[test]
fn variables_of_a_site_that_are_in_files_are_in_no_output_and_no_stored_file() {
    let site = Site::script("a.php", SEES).argument("--control");
    let control = format!("unix:{}", site.control_socket().display());
    let (secret, listen) = (site.data().join("secret"), free_address().to_string());
    fs::write(&secret, "s3cret-of-a-file\n").unwrap();
    let environment = json!({"FROM_FILE": {"file": secret}});
    let changes = json!({
        "routes": {},
        "listeners": {&listen: {"pass": "routes/sites"}},
        "defaults": {"listen": listen},
        "sites": {"own": {"hosts": "own", "root": site.root(), "environment": environment}},
    });
    let state = site.state();
    let site = site.argument(&control).argument("--state").argument(state.to_str().unwrap());
    let server = site.with(changes).serve_at(&listen);
    let request = "GET /a.php?names=FROM_FILE HTTP/1.1\r\nHost: own\r\nConnection: close\r\n\r\n";
    let text = server.connect().send(request).response().text();
    assert!(text.starts_with("FROM_FILE=\"s3cret-of-a-file\""), "{text}");
    shows_no_secret("the log", &server.wait_for_log("the script has run"));
    for target in ["/status", "/config", "/", "/control/compiled"] {
        let answer = server.control("GET", target, "");
        shows_no_secret(target, &answer.body.to_string());
    }
    let file = server.site.log_path().with_file_name("config.json").display().to_string();
    for arguments in [
        &["check", &file][..],
        &["serve", "--print-config", "--config", &file],
        &["site", "show", "own", "--config", &file],
    ] {
        let output = howdah(arguments, &[]);
        shows_no_secret(arguments[0], &format!("{output:?}"));
        assert!(output.status.success(), "{output:?}");
    }
    let stored =
        eventually("the document is kept", || fs::read_to_string(state.join("served.json")).ok());
    shows_no_secret("the state", &stored);
}

#[test]
fn a_variable_without_a_value_is_a_problem_of_its_application_with_its_place() {
    let site = Site::script("a.php", "echo 'a';").argument("--control");
    let control = format!("unix:{}", site.control_socket().display());
    let root = site.root();
    let other =
        |environment: Value| json!({"type": "php", "root": root, "environment": environment});
    let changes = json!({
        "applications": {
            "missing": other(json!({"A": {"env": "NO_SUCH_VARIABLE"}})),
            "unreadable": other(json!({"B": {"file": "/nowhere/secret"}})),
        },
        "routes": [
            {"match": {"uri": "/missing"}, "action": {"pass": "applications/missing"}},
            {"match": {"uri": "/unreadable"}, "action": {"pass": "applications/unreadable"}},
            {"action": {"pass": "applications/site"}},
        ],
    });
    let server = site.argument(&control).with(changes).serve();
    assert_eq!(server.get("/a.php").text(), "a");
    assert_eq!(server.get("/missing").status, 503);
    assert_eq!(server.get("/unreadable").status, 503);
    server.wait_for_log("the environment of the server has no variable NO_SUCH_VARIABLE");
    server.wait_for_log("/nowhere/secret: No such file or directory");
    let file = server.site.log_path().with_file_name("config.json").display().to_string();
    let output = howdah(&["check", &file], &[]);
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    for line in [
        "/applications/missing/environment/A: the environment of the server has no variable",
        "/applications/unreadable/environment/B: /nowhere/secret: No such file or directory",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(!output.status.success());
}

#[test]
fn variables_of_the_command_line_reach_the_scripts_of_a_directory() {
    let site = Site::script("a.php", SEES);
    let (secret, list) = (site.data().join("secret"), site.data().join("list"));
    fs::write(&secret, "s3cret-f\n").unwrap();
    fs::write(&list, "# options\nLISTED=1 2\n").unwrap();
    let file = format!("APP_KEY_FILE={}", secret.display());
    let variables = [
        "env",
        "APP_A=a",
        &file,
        "APP_LOG_FILE=/nowhere/log",
        "OTHER=o",
        "HOWDAH_PHP_INI_precision=3",
    ];
    let list = format!("@{}", list.display());
    let arguments = ["--env", "APP_*", "--env", "SET=s3cret-option", "--env", &list];
    let site = arguments.iter().fold(site, |site, argument| site.argument(argument));
    let server = site.through(&variables).serve();
    let names = "APP_A,APP_KEY,APP_LOG,SET,LISTED,OTHER";
    let seen = server.get(&format!("/a.php?names={names}")).text();
    // Without variables_order, $_ENV is empty.
    let without_env = seen.replace("|false", "").replace("false|\"\"", "false");
    assert_eq!(
        without_env,
        "APP_A=\"a\";APP_KEY=\"s3cret-f\";APP_LOG=false;SET=\"s3cret-option\";LISTED=\"1 2\";\
         OTHER=false;"
    );
    shows_no_secret("the log", &server.wait_for_log("the script has run"));
    let root = server.site.root().display().to_string();
    let command = ["serve", &root, "--print-config", "--env", "*", "--env", "SET=s3cret-option"];
    let output = howdah(&command, &[("APP_A", "s3cret-of-the-server")]);
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let named = json!({"env": true});
    assert_eq!(
        printed["applications"]["site"]["environment"],
        json!({"*": named, "SET": named}),
        "{output:?}"
    );
    shows_no_secret("--print-config", &format!("{output:?}"));
    let output = howdah(&["serve", "--config", "/a.json", "--env", "A"], &[]);
    let problem = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(problem.contains("name it in \"environment\" of an application"), "{problem}");
}

#[test]
fn settings_of_php_have_the_variables_of_the_application_then_of_the_server_then_defaults() {
    let code = "echo json_encode([ini_get('memory_limit'), ini_get('date.timezone'),
        ini_get('user_agent'), ini_get('from'), getenv('PHP_MEMORY_LIMIT'), getenv('ZONE')]);";
    let site = Site::script("a.php", code).argument("--control");
    let site_control = format!("unix:{}", site.control_socket().display());
    let site = site.argument(&site_control);
    // Unlike the directories of a site, this one belongs to the user of the server.
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let ini = place.path().join("php.ini");
    let text = "; ${IN_A_COMMENT}\nmemory_limit = ${PHP_MEMORY_LIMIT}\ndate.timezone = ${ZONE}\n\
                user_agent = ${AGENT:-default}\nfrom = ${NO_SUCH_VARIABLE}\n";
    fs::write(&ini, text).unwrap();
    let changes = json!({"applications": {"site": {
        "environment": {"ZONE": "Asia/Tokyo"}, "options": {"file": ini},
    }}});
    let variables = ["env", "PHP_MEMORY_LIMIT=222M", "ZONE=Europe/Berlin"];
    let server = site.with(changes).through(&variables).serve();
    let expected = json!(["222M", "Asia/Tokyo", "default", "", false, "Asia/Tokyo"]);
    let found: Value = serde_json::from_str(&server.get("/a.php").text()).unwrap();
    assert_eq!(found, expected);
    let place = format!("{}, line 5: ${{NO_SUCH_VARIABLE}} is neither in", ini.display());
    let log = server.wait_for_log(&place);
    assert!(!log.contains("AGENT") && !log.contains("IN_A_COMMENT"), "{log}");
    let file = server.site.log_path().with_file_name("config.json").display().to_string();
    let output = howdah(&["check", &file], &[("PHP_MEMORY_LIMIT", "222M")]);
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success() && text.contains(&place), "{text}");
    // Whoever can change the file would learn what is meant for other applications.
    fs::set_permissions(&ini, fs::Permissions::from_mode(0o666)).unwrap();
    server.control("GET", "/control/applications/site/restart", "").succeeded();
    eventually("the variable of the server is left out", || {
        let found: Value = serde_json::from_str(&server.get("/a.php").text()).unwrap();
        (found[0] != "222M" && found[1] == "Asia/Tokyo").then_some(())
    });
}
