//! Applications whose prototypes a zygote forks: they have the start of PHP in common, and nothing
//! else.

use std::fs;
use std::path::Path;
use std::process::Command;

use harness::{Server, Site, eventually, open_to_all, processes, requirements};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Settings of every kind that a prototype applies after the fork.
fn settings(root: &Path) -> Value {
    json!({
        "admin": {
            "memory_limit": "77M",
            "open_basedir": format!("{}:/proc:/tmp", root.display()),
            "disable_functions": "exec,system",
            "disable_classes": "SplFixedArray",
            "error_log": "/dev/stderr",
            "date.timezone": "Europe/Lisbon",
            "session.gc_maxlifetime": "99",
            "session.save_path": "/tmp",
            "opcache.memory_consumption": "16",
            "opcache.interned_strings_buffer": "2",
            "opcache.max_accelerated_files": "500",
            "opcache.jit": "tracing",
            "opcache.jit_buffer_size": "1M",
            "opcache.validate_timestamps": "0",
            "pcre.jit": "0",
            "mbstring.language": "Japanese",
            "user_ini.filename": ".other.ini",
            "cgi.fix_pathinfo": "0",
            "short_open_tag": "1",
            "unserialize_callback_func": "it's \"quoted\" ${HOME}",
        },
        "user": {"precision": "5", "zlib.output_compression": "0", "arg_separator.output": "&amp;"},
    })
}

/// Tells all that PHP has taken from its start.
const DESCRIBE: &str = r#"<?php
    $status = file('/proc/self/status', FILE_IGNORE_NEW_LINES);
    $kept = preg_grep('/^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp:|Threads|Sig[BIC])/', $status);
    $open = array_map(fn ($name) => preg_replace('/\d+|ZendSem\.\w+/', 'N', (string) @readlink("/proc/self/fd/$name")),
        array_diff(scandir('/proc/self/fd'), ['.', '..']));
    sort($open);
    $settings = ini_get_all();
    unset($settings['opcache.lockfile_path']);
    echo json_encode([
        'settings' => $settings,
        'configured' => array_map(fn ($name) => get_cfg_var($name), array_combine($n = array_keys($settings), $n)),
        'environment' => explode("\n", (string) shell_exec('/usr/bin/env | sort')),
        'constants' => array_diff_key(get_defined_constants(), ['NAN' => 0, 'INF' => 0, 'PHP_FLOAT_MAX' => 0]),
        'extensions' => get_loaded_extensions(),
        'zend_extensions' => get_loaded_extensions(true),
        'functions' => get_defined_functions(true)['internal'],
        'classes' => get_declared_classes(),
        'locale' => setlocale(LC_ALL, 0),
        'directory' => getcwd(),
        'time zone' => date('T e'),
        'own locale' => [setlocale(LC_ALL, ''), class_exists('Locale') ? Locale::getDefault() : ''],
        'files' => [php_ini_loaded_file(), php_ini_scanned_files()],
        'umask' => umask(),
        'jit' => opcache_get_status(false)['jit'] ?? null,
        'process' => array_values($kept),
        'open' => $open,
        'session' => posix_getsid(posix_getpid()) === posix_getsid(posix_getppid()),
        'limits' => posix_getrlimit(),
    ], JSON_PARTIAL_OUTPUT_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE);
"#;

/// Two applications that share the start of PHP, and `own`, which does not. Each has a directory of
/// its own name in the root.
fn sites(place: &Path, code: &str, changes: Value) -> Site {
    open_to_all(place, 0o755);
    let mut applications = json!({});
    for name in ["site", "other", "own"] {
        let root = place.join(name);
        fs::create_dir_all(&root).unwrap();
        open_to_all(&root, 0o755);
        fs::write(root.join("index.php"), code).unwrap();
        applications[name] = json!({
            "type": "php",
            "root": root,
            "script": "index.php",
            "processes": {"max": 2, "spare": 0},
            "isolation": {"own_start": name == "own"},
        });
    }
    harness::merge(&mut applications, changes);
    let route = |name: &str| {
        json!({"match": {"uri": format!("/{name}*")},
        "action": {"pass": format!("applications/{name}")}})
    };
    let site = Site::script("a.php", "");
    let address = format!("unix:{}", site.control_socket().display());
    site.argument("--control").argument(&address).with(json!({
        "routes": [route("site"), route("other"), route("own")],
        "applications": applications,
    }))
}

fn place() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn zygote(server: &Server) -> Option<u32> {
    let all = server.processes();
    all.iter().find(|process| process.title.ends_with("zygote")).map(|process| process.pid)
}

/// The prototype of an application, if it runs.
fn prototype(server: &Server, name: &str) -> Option<u32> {
    let title = format!("howdah: \"{name}\" prototype");
    let all = server.processes();
    all.iter().find(|process| process.title == title).map(|process| process.pid)
}

/// The memory that is shared with no other process, without files, in KiB.
fn private_memory(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Private_Dirty:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_forked_prototype_differs_in_nothing_from_one_that_is_executed() {
    let place = place();
    let mut changes = json!({});
    for name in ["other", "own"] {
        changes[name] = json!({
            // The same root, so that the paths are the same.
            "root": place.path().join("own"),
            "options": settings(&place.path().join("own")),
            "environment": {"TZ": "Asia/Tokyo", "WHO": "it's me", "USER": "somebody", "LANG": "C.UTF-8"},
            "working_directory": "/",
            "limits": {"rlimits": {"nofile": 200, "core": 0}},
        });
    }
    let server = sites(place.path(), DESCRIBE, changes).serve();
    let describe = |name: &str| -> Value {
        let text = server.get(&format!("/{name}")).text().to_owned();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    };
    let (forked, executed) = (describe("other"), describe("own"));
    for (part, expected) in executed.as_object().unwrap() {
        let found = &forked[part];
        match expected.as_object() {
            Some(members) => {
                for (name, expected) in members {
                    assert_eq!(&found[name], expected, "{part}: {name}");
                }
                assert_eq!(found.as_object().unwrap().len(), members.len(), "{part}");
            }
            None => assert_eq!(found, expected, "{part}"),
        }
    }
    assert_eq!(forked["settings"]["memory_limit"]["global_value"], "77M");
    assert_eq!(forked["jit"]["on"], true);
    assert!(zygote(&server).is_some(), "{}", server.log());
}

#[test]
fn a_forked_prototype_has_the_memory_of_phps_start_in_common() {
    let place = place();
    let server = sites(place.path(), "<?php echo 'here';", json!({})).serve();
    for name in ["site", "other", "own"] {
        assert_eq!(server.get(&format!("/{name}")).text(), "here");
    }
    let memory = |name| private_memory(prototype(&server, name).unwrap());
    let (shared, own) = (memory("site"), memory("own"));
    assert!(shared * 3 < own, "{shared} KiB and {own} KiB");
}

#[test]
fn each_application_has_an_opcache_of_its_own() {
    let code = "<?php class Only { const IN = __DIR__; }
        echo json_encode([Only::IN, array_keys(opcache_get_status()['scripts'] ?? [])]);
        if (isset($_GET['reset'])) { opcache_reset(); }";
    let place = place();
    let server = sites(place.path(), code, json!({})).serve();
    for name in ["site", "other", "site", "other"] {
        let root = place.path().join(name).display().to_string();
        // Files younger than two seconds are not cached.
        let script = format!("{root}/index.php");
        let seen = eventually("the script is cached", || {
            let seen: Value =
                serde_json::from_str(&server.get(&format!("/{name}")).text()).unwrap();
            (seen[1] != json!([])).then_some(seen)
        });
        assert_eq!(seen, json!([root, [script]]));
    }
    server.get("/site?reset");
    let seen: Value = serde_json::from_str(&server.get("/other").text()).unwrap();
    assert_ne!(seen[1], json!([]), "another application's cache");
}

#[test]
fn a_preload_script_runs_as_the_applications_user_and_for_it_alone() {
    let place = place();
    let code =
        "<?php echo json_encode([class_exists('Preloaded', false) ? Preloaded::USER : 'none',
        posix_getuid()]);";
    let preload = place.path().join("preload.php");
    let changes = json!({"other": {"options": {"admin": {"opcache.preload": preload}}}});
    let site = sites(place.path(), code, changes);
    let code = "<?php file_put_contents(getenv('DATA') . '/uid', posix_getuid());
        class Preloaded { const USER = 'preloaded'; }";
    fs::write(&preload, code).unwrap();
    let data = site.data();
    let server =
        site.with(json!({"applications": {"other": {"environment": {"DATA": data}}}})).serve();
    let answer: Value = serde_json::from_str(&server.get("/other").text()).unwrap();
    assert_eq!(answer[0], "preloaded");
    assert_eq!(answer[1].to_string(), server.wait_for_data("uid"));
    let answer: Value = serde_json::from_str(&server.get("/site").text()).unwrap();
    assert_eq!(answer[0], "none");
}

#[test]
fn an_application_that_cannot_start_says_why_and_the_others_run() {
    let place = place();
    let missing = place.path().join("missing.php");
    let changes = json!({"other": {"options": {"admin": {"opcache.preload": missing}}}});
    let server = sites(place.path(), "<?php echo 'here';", changes).serve();
    assert_eq!(server.get("/other").status, 503);
    server.wait_for_log("Failed opening required");
    assert_eq!(server.get("/site").text(), "here");
    let gone = place.path().join("gone");
    let changes = json!({"site": {"working_directory": gone}});
    let server = sites(place.path(), "<?php echo 'here';", changes).serve();
    assert_eq!(server.get("/site").status, 503);
    server.wait_for_log("working_directory: ");
    assert_eq!(server.get("/other").text(), "here");
}

#[test]
fn nobody_notices_that_the_zygote_is_killed() {
    let place = place();
    let server = sites(place.path(), "<?php echo 'here';", json!({})).serve();
    let first = eventually("there is a zygote", || zygote(&server));
    assert_eq!(server.get("/site").text(), "here");
    processes::signal(first, Signal::KILL);
    assert_eq!(server.get("/site").text(), "here");
    assert_eq!(server.get("/other").text(), "here");
    server.wait_for_log("[alert]");
    // Applications that are started later have another one.
    eventually("there is a new zygote", || {
        server.control("GET", "/control/applications/site/restart", "").succeeded();
        assert_eq!(server.get("/site").text(), "here");
        zygote(&server).filter(|pid| *pid != first)
    });
}

#[test]
fn a_zygote_that_was_stopped_is_replaced() {
    let place = place();
    let server = sites(place.path(), "<?php echo 'here';", json!({})).serve();
    let first = eventually("there is a zygote", || zygote(&server));
    assert_eq!(server.get("/site").text(), "here");
    processes::signal(first, Signal::STOP);
    assert_eq!(server.get("/other").text(), "here");
    server.wait_for_log("the zygote is replaced: it was stopped by a signal");
}

/// Ends the process that loads it if that is a zygote, and writes a byte to TRIES before.
const ENDS_ZYGOTES: &str = r#"
    #include <fcntl.h>
    #include <string.h>
    #include <unistd.h>
    __attribute__((constructor)) static void load(void)
    {
        char line[4096] = {0};
        int file = open("/proc/self/cmdline", O_RDONLY);
        ssize_t length = read(file, line, sizeof line - 1);
        for (ssize_t i = 0; i < length; i++) {
            line[i] = line[i] ? line[i] : ' ';
        }
        close(file);
        if (strstr(line, "zygote")) {
            file = open(TRIES, O_WRONLY | O_APPEND);
            write(file, "x", 1);
            write(2, "no more\n", 8);
            _exit(3);
        }
    }
"#;

/// A zygote that is never ready, as with an extension that waits for something, costs its memory
/// and no request.
#[test]
fn a_zygote_that_is_never_ready_is_told_once_and_nobody_waits_for_the_next() {
    let place = place();
    let (ini, tries) = (place.path().join("php.ini"), place.path().join("tries"));
    let (code, extension) = (place.path().join("ends.c"), place.path().join("ends.so"));
    fs::write(&code, ENDS_ZYGOTES).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", &format!("-DTRIES=\"{}\"", tries.display()), "-o"]);
    match cc.arg(&extension).arg(&code).output() {
        Ok(output) => assert!(extension.exists(), "{output:?}"),
        Err(error) => return requirements::skipped(format!("there is no C compiler: {error}")),
    }
    fs::write(&ini, format!("extension = {}\n", extension.display())).unwrap();
    fs::write(&tries, "").unwrap();
    open_to_all(&tries, 0o666);
    let options = json!({"options": {"file": ini}});
    let changes = json!({"site": options, "other": options});
    let server = sites(place.path(), "<?php echo 'here';", changes).serve();
    assert_eq!(server.get("/site").text(), "here");
    eventually("it is tried again and again", || {
        server.control("GET", "/control/applications/site/restart", "").succeeded();
        assert_eq!(server.get("/site").text(), "here");
        (fs::read_to_string(&tries).unwrap().len() >= 3).then_some(())
    });
    assert_eq!(server.get("/other").text(), "here");
    let log = server.log();
    assert_eq!(log.matches("the zygote is replaced: ").count(), 1, "{log}");
    assert!(log.contains("it was never ready, so each application starts PHP on its own"), "{log}");
    assert_eq!(log.matches("no more").count(), 1, "{log}");
}

#[test]
fn the_programs_of_another_version_are_left_to_its_server() {
    let place = place();
    let programs = place.path().join("programs");
    fs::create_dir(&programs).unwrap();
    open_to_all(&programs, 0o755);
    let howdah = harness::programs::howdah();
    harness::programs::copy(howdah, &programs);
    let installed = programs.join("howdah-php");
    harness::programs::copy(&howdah.with_file_name("howdah-php"), &installed);
    let launcher = ["sh", "-c", "shift; exec \"$0/howdah\" \"$@\"", programs.to_str().unwrap()];
    let server = sites(place.path(), "<?php echo 'here';", json!({})).through(&launcher).serve();
    let first = eventually("there is a zygote", || zygote(&server));
    assert_eq!(server.get("/site").text(), "here");
    assert_eq!(zygote(&server), Some(first));
    let new = programs.join("new");
    fs::write(&new, "#!/bin/sh\nexit 3\n").unwrap();
    open_to_all(&new, 0o755);
    fs::rename(&new, &installed).unwrap();
    assert_eq!(server.get("/other").text(), "here");
    server.wait_for_log("PHP's files have changed");
    let second = eventually("there is a new zygote", || zygote(&server));
    assert_ne!(second, first);
    for kind in ["zygote", "prototype"] {
        let found = server.processes().into_iter().find(|process| process.title.contains(kind));
        processes::signal(found.unwrap().pid, Signal::KILL);
        eventually("it serves", || (server.get("/site").text() == "here").then_some(()));
        eventually("it serves", || (server.get("/other").text() == "here").then_some(()));
    }
}

#[test]
fn applications_with_the_same_php_ini_share_a_start_if_only_root_can_change_it() {
    let place = place();
    let ini = place.path().join("php.ini");
    fs::write(&ini, "memory_limit = 55M\nopcache.interned_strings_buffer = 2\n").unwrap();
    let options = json!({"options": {"file": ini}});
    let mut changes =
        json!({"site": options, "other": options, "own": {"isolation": {"own_start": false}}});
    let code = "<?php echo ini_get('memory_limit');";
    let server = sites(place.path(), code, changes.clone()).serve();
    for name in ["site", "other"] {
        assert_eq!(server.get(&format!("/{name}")).text(), "55M");
    }
    assert!(zygote(&server).is_some(), "{}", server.log());
    assert_ne!(server.get("/own").text(), "55M");
    drop(server);
    open_to_all(&ini, 0o666);
    let server = sites(place.path(), code, changes.clone()).serve();
    assert_eq!(server.get("/site").text(), "55M");
    assert_eq!(zygote(&server), None, "{}", server.log());
    drop(server);
    // A link that others can replace after it was checked.
    open_to_all(&ini, 0o644);
    let theirs = place.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    open_to_all(&theirs, 0o777);
    std::os::unix::fs::symlink(&ini, theirs.join("php.ini")).unwrap();
    let options = json!({"options": {"file": theirs.join("php.ini")}});
    harness::merge(&mut changes, json!({"site": options, "other": options}));
    let server = sites(place.path(), code, changes).serve();
    assert_eq!(server.get("/site").text(), "55M");
    assert_eq!(zygote(&server), None, "{}", server.log());
}

#[test]
fn a_zygote_loads_no_extension_that_others_could_change() {
    let place = place();
    let (ini, extension) = (place.path().join("php.ini"), place.path().join("theirs.so"));
    fs::write(&extension, "").unwrap();
    open_to_all(&extension, 0o666);
    let text = format!("log_errors = 1\nextension = {}\n", extension.display());
    fs::write(&ini, text).unwrap();
    let options = json!({"options": {"file": ini}});
    let changes = json!({"site": options, "other": options});
    let server = sites(place.path(), "<?php echo 'here';", changes).serve();
    server.wait_for_log("each application starts PHP on its own, ");
    let log = server.wait_for_log("theirs.so can be changed by other users");
    assert!(!log.contains("Unable to load dynamic library"), "{log}");
    assert_eq!(server.get("/site").text(), "here");
    server.wait_for_log("Unable to load dynamic library");
}

#[test]
fn all_applications_with_workers_from_the_start_share_it_too() {
    let place = place();
    let spare = json!({"processes": {"max": 2, "spare": 1}});
    let changes = json!({"site": spare, "other": spare});
    let server = sites(place.path(), "<?php echo 'here';", changes).serve();
    for name in ["site", "other"] {
        assert_eq!(server.get(&format!("/{name}")).text(), "here");
    }
    let memory = |name| private_memory(prototype(&server, name).unwrap());
    assert_eq!(server.get("/own").text(), "here");
    assert!(memory("site") * 3 < memory("own") && memory("other") * 3 < memory("own"));
}

#[test]
fn a_zygote_runs_while_at_least_two_applications_can_use_it() {
    let place = place();
    let server = sites(place.path(), "<?php echo 'here';", json!({})).serve();
    eventually("there is a zygote", || zygote(&server));
    server.wait_for_log("do not share the start of PHP: \"own\" (isolation/own_start)");
    server.put("/config/applications/other/isolation", &json!({"own_start": true}));
    eventually("there is none", || zygote(&server).is_none().then_some(()));
    assert_eq!(server.get("/other").text(), "here");
    server.put("/config/applications/other/isolation", &json!({}));
    eventually("there is one again", || zygote(&server));
}

#[test]
fn a_stopped_server_leaves_no_zygote() {
    let place = place();
    let server = sites(place.path(), "<?php echo 'here';", json!({})).serve();
    let pid = eventually("there is a zygote", || zygote(&server));
    server.end(Signal::TERM);
    assert!(!processes::is_alive(pid));
}

#[test]
fn a_zygote_ends_with_a_supervisor_that_is_killed() {
    let place = place();
    let server = sites(place.path(), "<?php echo 'here';", json!({})).serve();
    let pid = eventually("there is a zygote", || zygote(&server));
    assert_eq!(server.get("/site").text(), "here");
    let prototype = prototype(&server, "site").unwrap();
    processes::signal(server.supervisor(), Signal::KILL);
    for pid in [pid, prototype] {
        eventually("all processes end", || (!processes::is_alive(pid)).then_some(()));
    }
}

/// Without a buffer for strings, PHP 8.2 crashes when it loads scripts from OPcache's file cache.
#[test]
fn an_application_with_a_file_cache_has_a_buffer_for_strings() {
    let place = place();
    let cache = place.path().join("cache");
    fs::create_dir(&cache).unwrap();
    open_to_all(&cache, 0o777);
    let code =
        "<?php echo isset(opcache_get_status(false)['interned_strings_usage']) ? 'has' : 'none';";
    let with_cache = json!({"site": {"options": {"admin": {"opcache.file_cache": cache}}}});
    let server = sites(place.path(), code, with_cache).serve();
    for (name, expected) in [("site", "has"), ("other", "none")] {
        assert_eq!(server.get(&format!("/{name}")).text(), expected, "{name}");
    }
    assert!(zygote(&server).is_some(), "{}", server.log());
    server.wait_for_log("cache cannot be used safely: ");
}

#[test]
fn the_status_says_which_applications_share_a_start() {
    let place = place();
    let server = sites(place.path(), "<?php echo 'here';", json!({})).serve();
    let start = |name: &str| {
        let status = server.control("GET", &format!("/status/php/{name}"), "").succeeded();
        status.get("start").cloned()
    };
    assert_eq!(start("site"), None, "it is not loaded");
    for name in ["site", "own"] {
        assert_eq!(server.get(&format!("/{name}")).text(), "here");
    }
    assert_eq!((start("site"), start("own")), (Some(json!("shared")), Some(json!("own"))));
}
