use std::fs;
use std::path::Path;

use proptest::prelude::*;
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::{Import, Options, Status};

/// A directory with files.
fn files(files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    directory
}

fn imported(text: &str) -> Result<Import, Error> {
    let directory = files(&[("www.conf", text)]);
    let path = directory.path().join("www.conf");
    let mut source = Source::new(Some(directory.path().to_owned()));
    import(&[path], &Options::default(), &mut source)
}

/// The application of a pool with these lines.
fn application(lines: &str) -> serde_json::Value {
    let text = format!("[www]\nlisten = /run/a.sock\npm = static\npm.max_children = 2\n{lines}");
    let mut application = imported(&text).unwrap().document["applications"]["www"].take();
    for (key, usual) in [
        ("type", json!("php")),
        ("root", json!("/var/www/html")),
        ("processes", json!(2)),
        ("limits", json!({ "slow": 0 })),
        ("limit_extensions", json!([".php", ".phar"])),
    ] {
        if application[key] == usual {
            application.as_object_mut().unwrap().remove(key);
        }
    }
    application
}

/// Line, name and status of each directive of a pool with these lines, which begin at line 5.
fn statuses(lines: &str) -> Vec<(u32, String, Status)> {
    let text = format!("[www]\nlisten = /run/a.sock\npm = static\npm.max_children = 2\n{lines}");
    let report = imported(&text).unwrap().report;
    let told = |entry: &crate::Entry| (entry.line, entry.directive.clone(), entry.status());
    report.entries().iter().filter(|entry| entry.line > 4).map(told).collect()
}

fn status(line: &str) -> Status {
    let found = statuses(line);
    assert_eq!(found.len(), 1, "{line}");
    found[0].2
}

#[test]
fn a_pool_becomes_an_application_of_its_name() {
    let import = imported(
        "[blog]\nuser = blog\ngroup = web\nlisten = /run/php/$pool.sock\nlisten.owner = www-data\n\
         pm = dynamic\npm.max_children = 20\npm.start_servers = 4\npm.min_spare_servers = 2\n\
         pm.max_spare_servers = 6\npm.max_requests = 1000\nrequest_terminate_timeout = 1m\n\
         request_slowlog_timeout = 5s\nslowlog = /var/log/$pool.slow\nchdir = /srv/blog\n\
         env[APP_ENV] = production\nphp_admin_value[memory_limit] = 256M\n\
         php_flag[display_errors] = off\n",
    )
    .unwrap();
    assert_eq!(
        import.document,
        json!({
            "listeners": {},
            "routes": { "blog": [{ "action": { "pass": "applications/blog" } }] },
            "applications": { "blog": {
                "type": "php",
                "root": "/srv/blog",
                "user": "blog",
                "group": "web",
                "processes": { "max": 20, "start": 4, "spare": 2, "max_spare": 6 },
                "limits": {
                    "requests": 1000, "timeout": 60, "slow": 5, "slow_log": "/var/log/blog.slow"
                },
                "limit_extensions": [".php", ".phar"],
                "working_directory": "/srv/blog",
                "environment": { "APP_ENV": "production" },
                "options": {
                    "admin": { "memory_limit": "256M" }, "user": { "display_errors": "0" }
                }
            } }
        })
    );
    assert_eq!(import.report.entries().len(), 17);
    assert_eq!(import.report.with_status(Status::NotConverted).count(), 0);
}

#[test]
fn process_managers_have_their_numbers() {
    let processes = |lines: &str| {
        let text = format!("[www]\nlisten = 9000\n{lines}");
        imported(&text).unwrap().document["applications"]["www"]["processes"].take()
    };
    assert_eq!(processes("pm = STATIC\npm.max_children = 7"), json!(7));
    assert_eq!(
        processes("pm = ondemand\npm.max_children = 4"),
        json!({ "max": 4, "spare": 0, "idle_timeout": 10 })
    );
    assert_eq!(
        processes("pm = ondemand\npm.max_children = 4\npm.process_idle_timeout = 2m"),
        json!({ "max": 4, "spare": 0, "idle_timeout": 120 })
    );
    // PHP-FPM's number in the middle.
    assert_eq!(
        processes(
            "pm = dynamic\npm.max_children = 9\npm.min_spare_servers = 2\n\
             pm.max_spare_servers = 7\npm.max_spawn_rate = 5"
        ),
        json!({ "max": 9, "start": 4, "spare": 2, "max_spare": 7, "spawn_rate": 5 })
    );
    assert_eq!(processes("pm = static"), json!(null));
}

#[test]
fn of_two_lines_the_first_counts_for_arrays_and_the_last_for_numbers() {
    let lines = "env[A] = one\nenv[A] = two\nphp_value[precision] = 3\nphp_value[precision] = 5\n\
                 php_admin_flag[log_errors] = on\nphp_flag[log_errors] = off\n\
                 pm.max_requests = 5\npm.max_requests = 7\n";
    let application = application(lines);
    assert_eq!(application["environment"], json!({ "A": "one" }));
    assert_eq!(
        application["options"],
        json!({ "admin": { "log_errors": "1" }, "user": { "precision": "3" } })
    );
    assert_eq!(application["limits"], json!({ "requests": 7, "slow": 0 }));
    let not_needed: Vec<u32> = statuses(lines)
        .into_iter()
        .filter(|(.., status)| *status == Status::NotNeeded)
        .map(|(line, ..)| line)
        .collect();
    assert_eq!(not_needed, [6, 8, 10, 11]);
}

#[test]
fn empty_values_and_none_are_empty_settings() {
    let application = application("php_admin_value[disable_functions] = none\n");
    assert_eq!(application["options"], json!({ "admin": { "disable_functions": "" } }));
}

#[test]
fn a_variable_of_the_environment_is_that_of_the_server() {
    let application = application("env[A] = $HOME\n");
    assert_eq!(application["environment"], json!({ "A": { "env": "HOME", "default": "" } }));
    assert_eq!(status("env[A] = $HOME"), Status::Changed);
}

#[test]
fn an_environment_that_is_not_cleared_is_that_of_the_server() {
    let application = application("env[A] = one\nclear_env = no\n");
    assert_eq!(application["environment"], json!({ "A": "one", "*": { "env": true } }));
    assert_eq!(status("clear_env = no"), Status::Changed);
}

#[test]
fn a_variable_whose_name_nothing_can_have_is_empty() {
    for line in ["env[A] = $", "env[A] = \"$A=B\""] {
        assert_eq!(application(&format!("{line}\n"))["environment"], json!({ "A": "" }), "{line}");
        assert_eq!(status(line), Status::Converted, "{line}");
    }
}

#[test]
fn values_that_php_fpm_refuses_are_not_converted() {
    for line in [
        "clear_env = 2",
        "php_flag[display_errors] = \"YES\"",
        "pm.max_requests = many",
        "request_terminate_timeout = 5x",
        "rlimit_core = -2",
        "process.priority = 40",
        "unknown = 1",
        "pid = /run/a.pid",
        "env[] = 1",
        "env[A] =",
        "php_value[a] = ${HOME}",
        "pm.max_children",
        "listen.setfib = 1",
        "access.suppress_path[] = a",
        "access.suppress_path[b] = /a",
        "security.limit_extensions =",
        "ping.path = ping",
        "env = a",
        "user[a] = b",
        "apparmor_hat = php",
    ] {
        assert_eq!(status(line), Status::NotConverted, "{line}");
    }
}

#[test]
fn directives_without_effect_are_not_needed() {
    for line in [
        "listen.mode = 0660",
        "listen.backlog = -1",
        "clear_env = yes",
        "catch_workers_output = yes",
        "pm.start_servers = 3",
        "pm.process_idle_timeout = 3",
        "ping.response = pong",
        "access.format = %R",
        "slowlog = /var/log/a",
        "rlimit_files = 0",
        "listen.allowed_clients = 127.0.0.1",
    ] {
        assert_eq!(status(line), Status::NotNeeded, "{line}");
    }
}

#[test]
fn scripts_have_the_endings_of_the_pool() {
    let extensions = |value: &str| {
        let application = application(&format!("security.limit_extensions = {value}"));
        (application["limit_extensions"].clone(), application["index"].clone())
    };
    assert_eq!(extensions(".php .php8"), (json!([".php", ".php8"]), json!(null)));
    assert_eq!(extensions(".phtml"), (json!([".phtml"]), json!("index.phtml")));
    // PHP-FPM runs no file, whose name would have to end like this.
    assert_eq!(extensions(".php,.phtml"), (json!([".none"]), json!("index.none")));
}

#[test]
fn paths_of_the_pool_itself_are_steps_in_front_of_scripts() {
    let import = imported(
        "[a/b]\nlisten = 127.0.0.1:9000\nlisten.allowed_clients = 127.0.0.1, 10.0.0.1\npm = static\n\
         pm.max_children = 1\npm.status_path = /status\nping.path = /ping\nping.response = ok\n\
         access.log = /var/log/$pool.log\naccess.suppress_path[] = /health.php\n",
    )
    .unwrap();
    let allow = json!(["127.0.0.1", "10.0.0.1"]);
    assert_eq!(
        import.document["routes"],
        json!({ "a/b": [
            {
                "match": { "uri": "/status" },
                "action": { "status": "applications/a%2Fb", "allow": allow }
            },
            {
                "match": { "uri": "/ping" },
                "action": { "ping": "applications/a%2Fb", "response": "ok", "allow": allow }
            },
            {
                "match": { "uri": ["/health.php"] },
                "action": { "pass": "applications/a%2Fb", "access_log": false, "allow": allow }
            },
            { "action": { "pass": "applications/a%2Fb", "allow": allow } }
        ] })
    );
    assert_eq!(import.report.with_status(Status::NotConverted).count(), 0);
}

#[test]
fn global_values_are_those_of_each_pool() {
    let import = imported(
        "[global]\nerror_log = syslog\nprocess.priority = 5\nrlimit_files = 4096\n\
         rlimit_core = unlimited\nprocess_control_timeout = 10\nprocess.max = 64\n[a]\nlisten = 9000\npm = static\n\
         pm.max_children = 1\nrlimit_files = 100\n[global]\nlog_level = notice\n",
    )
    .unwrap();
    let application = &import.document["applications"]["a"];
    assert_eq!(application["priority"], 5);
    assert_eq!(application["limits"]["rlimits"], json!({ "nofile": 100, "core": "unlimited" }));
    let settings = json!({ "shutdown_timeout": 10, "max_processes": 64 });
    assert_eq!(import.document["settings"], settings);
}

#[test]
fn a_relative_path_begins_at_the_prefix() {
    let found = application("prefix = /srv/p\nchroot = $prefix/root\nchdir = /\n");
    assert_eq!(found["isolation"], json!({ "rootfs": "/srv/p/root" }));
    assert_eq!(found["working_directory"], "/");
    let found = application("php_admin_value[error_log] = log/a.log\n");
    assert_eq!(found["options"]["admin"]["error_log"], "/usr/log/a.log");
}

#[test]
fn included_files_are_read_once_and_their_section_stays_open() {
    let directory = files(&[
        (
            "fpm.conf",
            "[global]\ninclude = pool.d/*.conf\npm.max_requests = 9\ninclude=pool.d/a.conf",
        ),
        ("pool.d/a.conf", "[a]\nlisten = 9000\npm = static\npm.max_children = 1\n"),
        ("pool.d/.hidden.conf", "broken ="),
    ]);
    let paths = [directory.path().join("fpm.conf"), directory.path().join("pool.d")];
    let import = import(&paths, &Options::default(), &mut Source::default()).unwrap();
    assert_eq!(import.document["applications"]["a"]["limits"]["requests"], 9);
    let told: Vec<(String, u32)> = import
        .report
        .entries()
        .iter()
        .map(|entry| (entry.file.file_name().unwrap().to_string_lossy().into(), entry.line))
        .collect();
    let expected = [("fpm.conf", 2), ("a.conf", 2), ("a.conf", 3), ("a.conf", 4), ("fpm.conf", 3)];
    let expected = expected.map(|(file, line)| (file.to_owned(), line));
    assert_eq!(told[..5], expected);
    assert_eq!(told.len(), 6);
}

#[test]
fn a_name_with_a_dollar_sign_is_no_variable() {
    let import =
        imported("[a$b%/]\nlisten = 9000\npm = static\npm.max_children = 1\nping.path = /ping\n")
            .unwrap();
    let steps = &import.document["routes"]["a$b%/"];
    assert_eq!(steps[0]["action"]["ping"], "applications/a$b%25%2F");
    assert_eq!(steps[1]["action"]["pass"], "applications/a${dollar}b%25%2F");
    howdah_config::Config::from_value(import.document).unwrap();
}

// The files of PHP's own images.
#[test]
fn a_pool_of_several_files_has_the_values_of_the_last() {
    let directory = files(&[
        ("usr/local/etc/php-fpm.conf", "[global]\ninclude=etc/php-fpm.d/*.conf\n"),
        (
            "usr/local/etc/php-fpm.d/www.conf",
            "[www]\nlisten = 127.0.0.1:9000\npm = static\npm.max_children = 5\n",
        ),
        (
            "usr/local/etc/php-fpm.d/zz-docker.conf",
            "[global]\ndaemonize = no\n[www]\nlisten = 9001\n",
        ),
    ]);
    let mut source = Source::new(Some(directory.path().to_owned()));
    let mut report = Report::default();
    let path = directory.path().join("usr/local/etc/php-fpm.conf");
    let pools = read(&[path], &mut source, &mut report).unwrap();
    assert_eq!((pools.len(), pools[0].listen.as_str()), (1, "9001"));
    assert!(pools[0].is_at("php:9001") && !pools[0].is_at("127.0.0.1:9000"));
    assert_eq!(report.entries().len(), 6);
    assert_eq!(report.with_status(Status::NotConverted).count(), 0);
}

#[test]
fn files_that_cannot_be_read_are_errors_with_a_line() {
    for (text, line) in [
        ("[www\n", Some(1)),
        ("[www]\nlisten = a=b\n", Some(2)),
        ("[www]\n\nphp_value[a] = \"b\n", Some(3)),
        ("[www]\npm = static\npm.max_children = 1\n", Some(1)),
        ("\n[www]\nlisten = 9000\n", Some(2)),
        ("include = /nowhere/a.conf\n", Some(1)),
        ("include = /nowhere/*.conf\n", Some(1)),
        ("include = www.conf\n", Some(1)),
        ("[global]\n", None),
    ] {
        assert_eq!(imported(text).unwrap_err().line, line, "{text}");
    }
    assert!(
        read(&[Path::new("/nowhere").into()], &mut Source::default(), &mut Report::default())
            .is_err()
    );
}

#[test]
fn a_version_is_that_of_the_directory() {
    let text = "[www]\nlisten = /run/php/php7.4-fpm.sock\npm = static\npm.max_children = 1\n";
    let directory = files(&[("etc/php/7.4/fpm/pool.d/www.conf", text)]);
    let mut report = Report::default();
    let path = directory.path().join("etc/php/7.4/fpm/pool.d");
    let pools = read(&[path], &mut Source::default(), &mut report).unwrap();
    assert_eq!(pools[0].application()["type"], "php 7.4");
    assert!(pools[0].is_at("unix:/run/php/php-fpm.sock"));
    pools[0].report_unused(&mut report);
    assert_eq!(report.with_status(Status::NotNeeded).count(), 3);
}

#[test]
fn settings_are_those_of_the_php_ini_of_php_fpm() {
    let pool = "[www]\nlisten = 9000\npm = static\npm.max_children = 1\n";
    let directory = files(&[
        ("etc/php/8.2/fpm/php.ini", ""),
        ("etc/php/8.10/fpm/php.ini", ""),
        ("etc/php/8.2/fpm/pool.d/a.conf", pool),
        ("b.conf", pool),
        ("c.conf", &format!("{pool}chroot = /srv")),
    ]);
    for (file, kind, ini) in [
        ("etc/php/8.2/fpm/pool.d/a.conf", "php 8.2", json!("/etc/php/8.2/fpm/php.ini")),
        ("b.conf", "php", json!("/etc/php/8.10/fpm/php.ini")),
        ("c.conf", "php", json!(null)),
    ] {
        let mut source = Source::new(Some(directory.path().to_owned()));
        let pools = read(&[directory.path().join(file)], &mut source, &mut Report::default());
        let application = serde_json::Value::from(pools.unwrap()[0].application());
        assert_eq!((&application["type"], &application["options"]["file"]), (&json!(kind), &ini));
    }
}

proptest! {
    #[test]
    fn whatever_is_imported_is_a_document(lines in proptest::collection::vec(
        "(\\[[a-c]\\]|pm = static|pm.max_children = [0-9]{1,12}|listen = [0-9:/a.]{0,9}|chroot = [$a-z/]{0,9}\
         |(env|php_value|php_flag|access.suppress_path)\\[[a-z]{0,2}\\] = [a-z\"$ ]{0,5}\
         |[a-z._]{0,12} ?= ?[a-z0-9%{}$\" .é-]{0,12})", 0..12)) {
        if let Ok(import) = imported(&lines.join("\n")) {
            howdah_config::Config::from_value(import.document).unwrap();
        }
    }
}
