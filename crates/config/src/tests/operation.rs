//! Log, compression, isolation: settings that do not affect routing.

use super::*;

#[test]
fn metrics_have_listeners_of_their_own() {
    let config = read(json!({
        "listeners": {"*:80": {"pass": "routes"}}, "routes": [],
        "settings": {"metrics": {"listen": ["127.0.0.1:9145", "unix:@metrics"]}},
    }));
    let names: Vec<_> = config.listeners.iter().map(|listener| listener.name.as_str()).collect();
    assert_eq!(names, ["*:80", "127.0.0.1:9145", "unix:@metrics"]);
    assert!(config.listeners[1].access_log.as_ref().is_some_and(Vec::is_empty));
    for (listen, message) in [
        (json!("*:80"), "/settings/metrics/listen: \"*:80\" is the address of a listener"),
        (json!(["[::1]:9", "[::1]:9"]), "is the address of a listener; choose another port"),
        (json!("9145"), "is not an address to listen on"),
        (json!(9145), "/settings/metrics/listen"),
        (json!([9145]), "/settings/metrics/listen/0"),
    ] {
        let document = json!({
            "listeners": {"*:80": {"pass": "routes"}}, "routes": [],
            "settings": {"metrics": {"listen": listen}},
        });
        let error = Config::from_value(document).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn probes_have_listeners_of_their_own() {
    let document = |probes: &str| {
        json!({"settings": {
            "metrics": {"listen": "127.0.0.1:9145"}, "probes": {"listen": probes},
        }})
    };
    let config = read(document("*:8081"));
    let passes: Vec<_> = config.listeners.iter().map(|listener| &listener.pass).collect();
    assert_eq!(passes, [&Pass::Fixed(Target::Metrics), &Pass::Fixed(Target::Probes)]);
    let error = Config::from_value(document("127.0.0.1:9145")).unwrap_err().to_string();
    let expected = "/settings/probes/listen: \"127.0.0.1:9145\" is the address of a listener";
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn actions_without_parameters_are_true() {
    for kind in ["metrics", "dashboard"] {
        let action = |value: Value| {
            let routes = json!([{"action": {kind: value}}]);
            Config::from_value(json!({"routes": routes})).map_err(|error| error.to_string())
        };
        let config = action(json!(true)).unwrap();
        assert_eq!(config.has_dashboard(), kind == "dashboard");
        for value in [json!(false), json!("x"), json!({})] {
            assert!(action(value).unwrap_err().contains("must be true"), "{kind}");
        }
    }
    let error_page = json!({"404": {"action": {"dashboard": true}}});
    let routes = json!([{"action": {"return": 404, "error_pages": error_page}}]);
    assert!(read(json!({"routes": routes})).has_dashboard(), "within another action");
    let cached = json!([{"action": {"dashboard": true, "cache": {}}}]);
    let error = Config::from_value(json!({"routes": cached})).unwrap_err().to_string();
    assert!(error.contains("has no effect here"), "{error}");
}

#[test]
fn an_access_log_is_a_file_or_has_a_format() {
    let log = |value: Value| read(json!({"access_log": value})).access_log.remove(0);
    let plain = log(json!("/var/log/access.log"));
    let LogFormat::Text(combined) = &plain.format else { panic!("text") };
    assert_eq!(combined.parts().len(), 16);
    let custom = log(json!({"path": "/x", "format": {"uri": "$uri", "a": "b"}, "if": "$arg_log"}));
    let LogFormat::Json(members) = &custom.format else { panic!("JSON") };
    assert_eq!(members[0].0, "uri");
    assert!(custom.condition.is_some());
    assert_eq!((&*plain.absent, &*custom.absent), ("-", "-"));
    assert_eq!(log(json!({"path": "/x", "absent": ""})).absent, "");
    for (value, message) in [
        (json!(""), "must not be empty"),
        (
            json!({"format": "$uri"}),
            "/access_log: one of \"path\", \"syslog\" or \"journal\" is missing",
        ),
        (json!({"path": ""}), "/access_log/path: "),
        (
            json!({"path": "/x", "format": "$remote_add"}),
            "Unknown variable \"$remote_add\"; did you mean \"$remote_addr\"?",
        ),
        (json!({"path": "/x", "format": {"a": 1}}), "/access_log/format/a: "),
        (json!({"path": "/x", "format": {"": "a"}}), "must have a name"),
        (json!({"path": "/x", "absent": "a\n"}), "must not contain control characters"),
        (json!({"path": "/x", "if": "$arg_"}), "/access_log/if: Unknown variable"),
        (json!(1), "must be a file name, an object, an array of them, or false"),
        (json!(true), "must be a file name, an object, an array of them, or false"),
        (json!([]), "must not be empty; write false for no log"),
        (json!(["/a", 1]), "/access_log/1: element 1 must be a file name"),
        (json!({"path": "/x", "format": "combine"}), "did you mean \"combined\"?"),
        (json!({"path": "/x", "journal": true}), "must have just one of"),
        (json!({"path": "/x", "only": {}}), "must have \"slow\", \"status\" or"),
        (json!({"path": "/x", "only": {"slow": -1}}), "/access_log/only/slow: "),
        (json!({"path": "/x", "only": {"sample": 2}}), "must be above 0 and at most 1"),
        (json!({"path": "/x", "only": {"status": [5, 9]}}), "/access_log/only/status/0: "),
        (json!({"path": "/x", "flush": 61}), "must be between 0 and 60 seconds"),
        (json!({"path": "/x", "mask": [1]}), "/access_log/mask/0: "),
        (json!({"syslog": "logs.example"}), "is no address of a server; write an address"),
        (json!({"path": "/x", "numbers": true}), "/access_log/numbers: "),
        (json!({"path": "/x", "mask": ["a", "token="]}), "/access_log/mask/1: "),
        (
            json!({"syslog": {"server": "10.0.0.1", "facility": "local8"}}),
            "/access_log/syslog/facility: ",
        ),
        (json!({"syslog": {"server": "10.0.0.1", "severity": "infos"}}), "did you mean \"info\"?"),
        (json!({"syslog": {"server": "10.0.0.1", "tag": "a b"}}), "/access_log/syslog/tag: "),
        (json!({"journal": {"identifier": "a\nPRIORITY=0"}}), "/access_log/journal/identifier: "),
        (json!({"journal": false}), "must be true or an object"),
    ] {
        let line = refusal(json!({"access_log": value}));
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn lines_of_the_access_log_wait_for_others_but_not_with_the_defaults_of_unit() {
    for value in [json!("/var/log/a"), json!({"path": "/var/log/a"})] {
        for (defaults, flush) in [(Defaults::default(), 10), (Defaults::of_unit(), 0)] {
            let document = json!({"access_log": value}).to_string();
            let config = parse_with(document.as_bytes(), &defaults).unwrap();
            assert_eq!(config.access_log[0].flush, Duration::from_millis(flush));
        }
    }
}

#[test]
fn listeners_and_actions_have_access_logs_of_their_own() {
    let config = read(json!({
        "access_log": ["/all", {"syslog": "10.0.0.1"}],
        "listeners": {"*:80": {"pass": "routes", "access_log": false}},
        "routes": [{"action": {"return": 200, "access_log": {"journal": true}}}],
    }));
    let logs = config.access_logs();
    let named: Vec<_> =
        logs.iter().map(|(place, log)| (place.as_str(), log.destination.to_string())).collect();
    let journal = format!("unix:{JOURNAL_SOCKET}");
    let expected = [
        ("/access_log/0", "/all"),
        ("/access_log/1", "udp:10.0.0.1:514"),
        ("/routes/0/action/access_log", journal.as_str()),
    ];
    assert_eq!(named, expected.map(|(place, name)| (place, name.to_owned())));
    assert_eq!(config.listeners[0].access_log.as_ref().map(Vec::len), Some(0));
    let line = refusal(json!({"routes": [{"action": {"return": 200, "access_log": 1}}]}));
    assert!(line.starts_with("/routes/0/action/access_log: "), "{line}");
}

#[test]
fn an_action_has_variables_and_settings_for_scripts() {
    let action = |options: Value| {
        let mut action = json!({"return": 200});
        let members = options.as_object().cloned().unwrap_or_default();
        members.into_iter().for_each(|(key, value)| action[key] = value);
        let next = json!({"action": {"pass": "applications/a"}});
        let routes = json!([{"action": action}, next]);
        json!({"routes": routes, "applications": {"a": {"type": "php", "root": "/"}}})
    };
    let config = read(action(json!({
        "environment": {"APP_ENV": "$host", "HTTPS": "on"},
        "options": {"user": {"memory_limit": "1G"}, "admin": {"date.timezone": "UTC"}},
        "internal": true,
        "intercept_errors": false,
    })));
    let options = &config.routes[0].steps[0].action.options;
    assert_eq!((options.environment.len(), options.internal), (2, true));
    assert_eq!(options.intercept_errors, Some(false));
    assert_eq!(config.applications[0].route_settings, ["date.timezone", "memory_limit"]);
    for (options, message) in [
        (json!({"environment": {"A B": ""}}), "must have a name of letters"),
        (json!({"environment": {"A": "$urk"}}), "did you mean \"$uri\"?"),
        (json!({"environment": {"PHP_VALUE": "a=b"}}), "cannot be set here"),
        (
            json!({"environment": {"SCRIPT_FILENAME": "/a"}}),
            "cannot be set here; the application's",
        ),
        (json!({"options": {"file": {}}}), "unknown key \"file\"; allowed here: \"admin\""),
        (json!({"options": {"admin": {"a": "b\nc=d"}}}), "must not contain control"),
        (json!({"options": {"user": {"a": 1}}}), "must be a string"),
        (json!({"options": {"user": {"a": "b\nc=d"}}}), "must not contain control"),
        (json!({"internal": "yes"}), "must be true or false"),
        (json!({"intercept_errors": 1}), "must be true or false"),
    ] {
        let line = refusal(action(options));
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn requests_of_an_action_may_be_copied_to_others() {
    let action = |mirror: Value| json!({"routes": [{"action": {"return": 200, "mirror": mirror}}]});
    let mirror = |more: Value| {
        let mut mirror = json!({"action": {"return": 204}});
        mirror.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        mirror
    };
    let config = read(action(mirror(json!({}))));
    assert_eq!(config.actions()[0].0, "/routes/0/action/mirror/action");
    let several =
        action(json!([mirror(json!({"max_body_size": 0})), mirror(json!({"concurrency": 1}))]));
    assert_eq!(read(several).actions()[1].0, "/routes/0/action/mirror/1/action");
    for (mirror, message) in [
        (json!("upstreams/a"), "/routes/0/action/mirror: "),
        (json!({}), "\"action\" is missing"),
        (mirror(json!({"concurrency": 0})), "/routes/0/action/mirror/concurrency: "),
        (
            json!({"action": {"return": 204, "mirror": {"action": {"return": 204}}}}),
            "must not have \"mirror\"",
        ),
    ] {
        let line = refusal(action(mirror));
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn an_action_may_be_checked_by_another() {
    let action =
        |check: Value| json!({"routes": [{"action": {"return": 200, "auth_request": check}}]});
    let config = read(action(json!({"action": {"return": 204}, "copy_headers": "X-User"})));
    assert_eq!(config.actions()[0].0, "/routes/0/action/auth_request/action");
    for (check, message) in [
        (json!("routes/auth"), "/routes/0/action/auth_request: "),
        (json!({}), "\"action\" is missing"),
        (
            json!({"action": {"return": 204, "auth_request": {"action": {"return": 204}}}}),
            "must not have \"auth_request\"",
        ),
        (
            json!({"action": {"return": 204}, "copy_headers": "X_User"}),
            "letters, digits and hyphens",
        ),
        (json!({"action": {"return": 204}, "copy_headers": ["Host"]}), "cannot be copied"),
    ] {
        let line = refusal(action(check));
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn compression_has_types_and_compressors() {
    let document = |value: Value| json!({"settings": {"http": {"compression": value}}});
    let read_compression =
        |value| read(document(value)).settings.http.compression.expect("compression");
    let several = read_compression(json!({
        "types": ["text/*"],
        "compressors": [{"encoding": "br", "level": 5, "min_length": 100}, {"encoding": "gzip"}],
    }));
    assert!(several.types.expect("types").matches(b"text/css"));
    assert_eq!(
        several.compressors,
        [
            Compressor { encoding: "br", level: Some(5), min_length: 100 },
            Compressor { encoding: "gzip", level: None, min_length: 0 },
        ]
    );
    assert_eq!(
        read_compression(json!({"compressors": {"encoding": "zstd", "level": -7}}))
            .compressors
            .len(),
        1
    );
    assert!(several.enabled && !read_compression(json!({"enabled": false})).enabled);
    for (value, message) in [
        (json!({}), "\"compressors\" is missing"),
        (json!({"compressors": {}}), "\"encoding\" is missing"),
        (json!({"compressors": "gzip"}), "must be an object or an array of objects"),
        (
            json!({"compressors": {"encoding": "lzma"}}),
            "must be \"gzip\", \"br\", \"zstd\" or \"deflate\"",
        ),
        (
            json!({"compressors": {"encoding": "gzip", "level": 10}}),
            "must be between -1 and 9, but is 10",
        ),
        (json!({"compressors": [{"encoding": "gzip", "min_length": -1}]}), "must be 0 or more"),
    ] {
        let line = refusal(document(value));
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn isolation_is_read() {
    let isolation = read_application(json!({"type": "php", "root": "/", "isolation": {
        "namespaces": {"pid": true, "credential": true}, "rootfs": "/srv/root",
        "automount": {"procfs": false}, "new_privs": false,
        "cgroup": {"path": "site/a", "cpu_weight": 50, "io_weight": 10000},
        "uidmap": [{"container": 0, "host": 1000, "size": 1}], "gidmap": [],
    }}))
    .isolation;
    assert!(isolation.namespaces.pid && !isolation.namespaces.network);
    assert!(isolation.automount.tmpfs && !isolation.automount.procfs);
    assert_eq!(isolation.uidmap, [IdRange { container: 0, host: 1000, size: 1 }]);
    let group = isolation.cgroup.as_ref().unwrap();
    assert_eq!((group.cpu_weight, group.io_weight), (Some(50), Some(10_000)));
    assert_eq!(isolation.group(), Some(std::path::Path::new("site/a")));
    for (value, message) in [
        (json!({"namespaces": {"user": true}}), "unknown key \"user\""),
        (json!({"cgroup": {"path": "a/../b"}}), "without \"..\""),
        (json!({"cgroup": {}}), "\"path\" is missing"),
        (json!({"cgroup": {"path": "a", "cpu_weight": 0}}), "between 1 and 10000"),
        (json!({"cgroup": {"path": "a", "memory_max": "128M"}}), "write 134217728, without"),
        (json!({"limits": {"memory": 128}}), "must be 16777216 or more"),
        (json!({"limits": {"cpu": 0}}), "number of processors between 0.01 and 4096"),
        (json!({"limits": {"cpu": "2"}}), "a number of processors"),
        (json!({"limits": {"processes": 2}}), "between 3 and"),
        (json!({"limits": {"pids": 20}}), "unknown key \"pids\""),
        (json!({"uidmap": [{"container": 0, "host": 0}]}), "/uidmap/0: \"size\" is missing"),
        (
            json!({"uidmap": [{"container": 0, "host": 4_294_967_295_u32, "size": 2}]}),
            "must not go beyond",
        ),
        (json!({"uidmap": [{"container": -1, "host": 0, "size": 1}]}), "must be between 0"),
    ] {
        let line = refused_application(json!({"type": "php", "root": "/", "isolation": value}));
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn limits_of_all_processes_are_read() {
    let read = |isolation: serde_json::Value| {
        read_application(json!({"type": "php", "root": "/", "isolation": isolation}))
    };
    let app = read(json!({
        "cgroup": {"path": "a", "memory_max": 134_217_728, "memory_high": 100_000_000,
            "cpu_max": 0.5, "pids_max": 20},
        "limits": {"memory": 268_435_456, "cpu": 2, "processes": 30},
    }));
    let group = app.isolation.cgroup.as_ref().unwrap();
    assert_eq!((group.memory_max, group.memory_high), (Some(134_217_728), Some(100_000_000)));
    assert_eq!((group.cpu_max, group.pids_max), (Some(500), Some(20)));
    let limits = app.isolation.limits.as_ref().unwrap();
    assert_eq!(
        (limits.memory, limits.cpu, limits.processes),
        (Some(1 << 28), Some(2000), Some(30))
    );
    assert_eq!((app.isolation.group(), app.max_workers()), (Some("a".as_ref()), Some(19)));
    assert_eq!(read(json!({"limits": {}})).isolation, Isolation::default());
    let of_its_own = read(json!({"limits": {"memory": 134_217_728}}));
    let name = format!("application-{}", of_its_own.name);
    assert_eq!(of_its_own.isolation.group(), Some(name.as_ref()));
    let line = refused_application(json!({"type": "php", "root": "/", "processes": 20,
        "isolation": {"limits": {"processes": 20}}}));
    assert!(line.contains("more \"processes\" than its \"isolation\" allows"), "{line}");
}

#[test]
fn limits_of_all_processes_change_while_they_run() {
    let read = |isolation: serde_json::Value| {
        read_application(json!({"type": "php", "root": "/", "isolation": isolation}))
    };
    let small = read(json!({"limits": {"memory": 134_217_728}}));
    for (isolation, is_same) in [
        (json!({"limits": {"memory": 268_435_456, "cpu": 1}}), true),
        (json!({}), false),
        (json!({"limits": {"memory": 134_217_728}, "own_start": true}), false),
        (json!({"limits": {"memory": 134_217_728}, "cgroup": {"path": "b"}}), false),
    ] {
        let is = small.has_same_processes(&read(isolation.clone()));
        assert_eq!(is, is_same, "{isolation}");
    }
    let group = |max: u64| read(json!({"cgroup": {"path": "a", "memory_max": max}}));
    assert!(group(134_217_728).has_same_processes(&group(268_435_456)));
}

#[test]
fn a_sandbox_is_read() {
    let read = |value: serde_json::Value| {
        let isolation = json!({"sandbox": value});
        read_application(json!({"type": "php", "root": "/", "isolation": isolation}))
            .isolation
            .sandbox
    };
    let by_default = read_application(json!({"type": "php", "root": "/"})).isolation.sandbox;
    assert_eq!(by_default, Sandbox::Processes);
    assert_eq!(read(json!(false)), Sandbox::Off);
    assert_eq!(read(json!(true)), Sandbox::Files(SandboxFiles::default()));
    let named = read(json!({"read": "/a//b/", "write": ["/c", "/d"], "required": false}));
    let expected = SandboxFiles {
        read: vec!["/a/b".into()],
        write: vec!["/c".into(), "/d".into()],
        execute: Vec::new(),
        required: false,
    };
    assert_eq!(named, Sandbox::Files(expected));
    for (value, message) in [
        (json!("on"), "must be true, false or an object"),
        (json!({"read": "relative"}), "starts with \"/\""),
        (json!({"write": ["/a/../b"]}), "without \"..\""),
        (json!({"writes": []}), "unknown key \"writes\""),
        (json!({"execute": [""]}), "must not be empty"),
    ] {
        let isolation = json!({"sandbox": value});
        let line = refused_application(json!({"type": "php", "root": "/", "isolation": isolation}));
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn what_no_version_has_is_refused_by_name() {
    for (document, path) in [
        (json!({"settings": {"js_module": "x"}}), "/settings/js_module"),
        (json!({"settings": {"http": {"websocket": {}}}}), "/settings/http/websocket"),
    ] {
        let error = Config::from_value(document).expect_err("refused");
        assert_eq!((error.kind(), error.path()), (ErrorKind::Unavailable, path));
    }
}
