//! PHP applications: roots, targets, processes, limits.

use super::*;

#[test]
fn an_application_has_defaults() {
    let site = read_application(json!({"type": "php", "root": "/www"}));
    assert_eq!(site.name, "site");
    assert_eq!(site.version, PhpVersion::default());
    assert_eq!(site.targets.len(), 1);
    assert_eq!(site.targets[0].root, PathBuf::from("/www"));
    assert_eq!(
        (site.targets[0].script.as_deref(), site.targets[0].index.as_str()),
        (None, "index.php")
    );
    assert_eq!(site.processes, Processes::Automatic);
    assert_eq!(site.limits, Limits::default());
    assert_eq!(site.options, PhpOptions::default());
}

#[test]
fn an_application_takes_all_its_keys() {
    let site = read_application(json!({
        "type": "php 8.2",
        "targets": {"z": {"root": "/z", "script": "/front.php"},
            "a": {"root": "/a", "index": "i.php", "prefix": "/a/"}},
        "options": {"file": "/etc/php.ini", "admin": {"memory_limit": "256M"},
            "user": {"display_errors": "0"}},
        "processes": {"max": 10, "spare": 5, "idle_timeout": 20},
        "limits": {"timeout": 10, "requests": 1000, "queue": 50, "queue_timeout": 2, "slow": 5,
            "slow_log": "/var/log/slow.log"},
        "environment": {"B": "2", "A": ""},
        "user": "www-data", "group": "www-data", "working_directory": "/www",
        "script_directories": ["/www//blog/", "!/www/blog/uploads"],
        "stdout": "/var/log/out.log", "stderr": "/var/log/err.log",
    }));
    assert!(site.version.accepts(8, 2, 30));
    let names: Vec<_> = site.targets.iter().map(|target| target.name.as_deref()).collect();
    assert_eq!(names, [Some("z"), Some("a")], "in the order written");
    assert_eq!(site.targets[1].prefix, crate::Prefix::parse("/a"));
    assert_eq!(site.options.admin, [("memory_limit".to_owned(), "256M".to_owned())]);
    let idle_timeout = Some(Duration::from_secs(20));
    let range = DynamicProcesses { max: 10, spare: 5, idle_timeout, ..DynamicProcesses::default() };
    assert_eq!(site.processes, Processes::Dynamic(range));
    assert_eq!(site.limits.timeout, Some(Duration::from_secs(10)));
    assert_eq!((site.limits.queue, site.limits.queue_timeout), (50, Some(Duration::from_secs(2))));
    assert_eq!(site.limits.slow, Some(Duration::from_secs(5)));
    assert_eq!(site.limits.slow_log, Some("/var/log/slow.log".into()));
    assert_eq!(site.environment[0], ("B".to_owned(), EnvironmentSource::Text("2".to_owned())));
    assert_eq!(site.user.as_deref(), Some("www-data"));
    assert_eq!(site.script_directories.allowed, [PathBuf::from("/www/blog")]);
    assert_eq!(site.script_directories.forbidden, [PathBuf::from("/www/blog/uploads")]);
}

#[test]
fn processes_are_a_number_or_a_range() {
    let processes = |value: Value| {
        read_application(json!({"type": "php", "root": "/", "processes": value})).processes
    };
    assert_eq!(processes(json!(4)), Processes::Static(4));
    assert_eq!(processes(json!("auto")), Processes::Automatic);
    let idle_timeout = Some(Duration::from_secs(15));
    let range = DynamicProcesses {
        max: 1,
        start: 0,
        spare: 0,
        max_spare: None,
        idle_timeout,
        spawn_rate: 32,
        prototype_timeout: None,
    };
    assert_eq!(processes(json!({"spare": 0})), Processes::Dynamic(range));
    let as_for_fpm = json!({"max": 50, "start": 10, "spare": 5, "max_spare": 20, "spawn_rate": 8});
    let range = DynamicProcesses {
        max: 50,
        start: 10,
        spare: 5,
        max_spare: Some(20),
        idle_timeout: None,
        spawn_rate: 8,
        prototype_timeout: None,
    };
    assert_eq!(processes(as_for_fpm), Processes::Dynamic(range));
    let Processes::Dynamic(range) = processes(json!({"prototype_timeout": 0})) else { panic!() };
    assert_eq!(range.prototype_timeout, Some(Duration::ZERO));
    for (value, message) in [
        (json!(0), "must be between 1 and"),
        (json!(-1), "must be between 1 and"),
        (json!(4_294_967_296_i64), "must be between 1 and"),
        (json!("4"), "must be an integer, an object or \"auto\", but is the string \"4\""),
        (json!({"max": 0}), "/applications/site/processes/max: \"max\" must be between 1"),
        (json!({"spare": 2}), "has a \"spare\" of 2, which is more than its \"max\" of 1"),
        (
            json!({"max": 3, "start": 4}),
            "has a \"start\" of 4, which is more than its \"max\" of 3",
        ),
        (json!({"max": 3, "max_spare": 4}), "has a \"max_spare\" of 4, which is more than"),
        (json!({"max": 3, "spare": 2, "max_spare": 1}), "which is less than its \"spare\" of 2"),
        (json!({"spawn_rate": 0}), "must be between 1 and"),
        (json!({"idle_timeout": -1}), "must be between 0 and 2147483"),
        (json!({"idle": 1}), "unknown key \"idle\""),
    ] {
        let line = refused_application(json!({"type": "php", "root": "/", "processes": value}));
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn limits_of_zero_are_no_limits() {
    let site = read_application(
        json!({"type": "php", "root": "/", "limits": {"timeout": 0, "requests": 0}}),
    );
    assert_eq!((site.limits.timeout, site.limits.requests), (None, None));
}

#[test]
fn broken_applications_are_refused() {
    for (application, message) in [
        (json!({"root": "/"}), "/applications/site: \"type\" is missing"),
        (json!({"type": "php"}), "/applications/site: \"root\" is missing"),
        (json!({"type": "php", "root": ""}), "\"root\" must not be empty"),
        (
            json!({"type": "php", "root": "/", "targets": {"a": {"root": "/"}}}),
            "must not stand beside \"targets\"",
        ),
        (json!({"type": "php", "targets": {}}), "\"targets\" must have at least one member"),
        (json!({"type": "php", "targets": {"": {"root": "/"}}}), "must have a name"),
        (
            json!({"type": "php", "targets": {"a": {}}}),
            "/applications/site/targets/a: \"root\" is missing",
        ),
        (json!({"type": "php", "root": "/", "environment": {"A=B": ""}}), "neither \"=\" nor"),
        (json!({"type": "php", "root": "/", "environment": {"A": 1}}), "\"A\" must be a string"),
        (
            json!({"type": "php", "root": "/", "options": {"admin": {"x": 1}}}),
            "must be a string, also where PHP",
        ),
        (json!({"type": "php 8.x", "root": "/"}), "has no usable version in \"php 8.x\""),
        (
            json!({"type": "PHP", "root": "/"}),
            "\"PHP\" is not a type of application; write \"php\"",
        ),
        (json!({"type": 8, "root": "/"}), "\"type\" must be a string"),
        (
            json!({"type": "php", "root": "/", "script_directories": ["/a", "!b"]}),
            "must be a directory that starts with \"/\", without \"..\"",
        ),
    ] {
        let line = refused_application(application);
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn other_languages_are_sent_behind_a_proxy() {
    for name in
        ["python", "python 3.11", "ruby", "go", "external", "java 17", "node", "perl", "wasm"]
    {
        let line = refused_application(json!({"type": name, "path": "/app"}));
        assert!(line.ends_with("Howdah runs PHP; put this back end behind \"proxy\""), "{line}");
    }
}

#[test]
fn a_worker_script_is_that_of_the_application_or_its_own() {
    let of = |value: Value| read_application(value).worker.expect("a worker script");
    let own = of(json!({"type": "php", "root": "/w", "script": "index.php", "worker": true}));
    let object = json!({"requests": 3});
    let same = of(json!({"type": "php", "root": "/w", "script": "index.php", "worker": object}));
    assert_eq!((same.script.as_str(), same.requests), (own.script.as_str(), Some(3)));
    assert_eq!(
        (own.script.as_str(), own.requests, own.has_fallback),
        ("index.php", Some(500), false)
    );
    let site = read_application(json!({
        "type": "php", "root": "/w", "script": "index.php", "limits": {"requests": 7},
        "worker": {"script": "/worker.php", "warm_up": "/a?b", "fallback": "classic"},
    }));
    assert_eq!(site.targets[0].script.as_deref(), Some("index.php"));
    let worker = site.worker.expect("a worker script");
    assert_eq!((worker.script.as_str(), worker.requests), ("worker.php", Some(7)));
    assert_eq!((worker.warm_up.as_deref(), worker.has_fallback), (Some("/a?b"), true));
    assert!(worker.watch.is_empty());
    let endless = json!({"script": "w.php", "requests": 0, "watch": ["../src", "/etc/site.ini"]});
    let limits = json!({"requests": 7});
    let targets = json!({"a": {"root": "/a"}, "b": {"root": "/b"}});
    let site = read_application(
        json!({"type": "php", "targets": targets, "limits": limits, "worker": endless}),
    );
    let worker = site.worker.expect("a worker script");
    assert_eq!(
        (worker.requests, worker.watch),
        (None, vec!["../src".into(), "/etc/site.ini".into()])
    );
    let scripts: Vec<_> = site.targets.iter().map(|target| target.script.as_deref()).collect();
    assert_eq!(scripts, [Some("w.php"), Some("w.php")]);
    assert!(
        read_application(json!({"type": "php", "root": "/w", "worker": false})).worker.is_none()
    );
}

#[test]
fn a_worker_script_that_cannot_be_is_refused() {
    let refused = |worker: Value, expected: &str| {
        let application = json!({"type": "php", "root": "/w", "worker": worker});
        let error = refused_application(application);
        assert!(error.contains(expected), "{error}");
    };
    refused(json!(true), "needs the \"script\" of the application beside it");
    refused(json!("w.php"), "a boolean or an object");
    refused(json!({}), "script");
    refused(json!({"script": "w.phtml"}), "ends in \".php\"");
    refused(json!({"script": "w.php", "warm_up": "a"}), "must begin with \"/\"");
    refused(json!({"script": "w.php", "fallback": "fpm"}), "must be \"classic\"");
    refused(json!({"script": "w.php", "fallback": "classic"}), "needs the \"script\"");
    refused(json!({"script": "w.php", "watch": [""]}), "watch/0");
    refused(json!({"script": "w.php", "watch": true}), "watch");
    let targets = json!({"a": {"root": "/a", "script": "a.php"}});
    let both = json!({"type": "php", "targets": targets, "worker": {"script": "w.php"}});
    assert!(
        refused_application(both).contains("must not stand beside targets that have a \"script\"")
    );
}

#[test]
fn extensions_are_names_and_no_paths() {
    let with = |extensions: Value| {
        json!({"applications": {"a": {
            "type": "php", "root": "/srv", "options": {"extensions": extensions},
        }}})
    };
    let config = read(with(json!(["imagick", "xdebug", "imagick"])));
    assert_eq!(config.applications[0].options.extensions, ["imagick", "xdebug"]);
    for wrong in ["/tmp/evil.so", "../evil", "a b", "a\nextension=b", "a.so"] {
        let line = refusal(with(json!([wrong])));
        assert!(line.contains("must be the name of an extension"), "{line}");
    }
}

#[test]
fn a_variable_may_have_its_value_in_the_environment_of_the_server_or_in_a_file() {
    let named = |name: &str, value: Value| {
        let environment = json!({name: value});
        json!({"applications": {"a": {"type": "php", "root": "/", "environment": environment}}})
    };
    let application = |value: Value| named("A", value);
    let of_server = |name: &str, default: Option<&str>| EnvironmentSource::Server {
        name: name.to_owned(),
        default: default.map(str::to_owned),
    };
    for (name, value, expected) in [
        ("A", json!({"env": "B"}), of_server("B", None)),
        ("A", json!({"env": true}), of_server("A", None)),
        ("A", json!({"env": "B", "default": ""}), of_server("B", Some(""))),
        ("A", json!({"file": "/run/a"}), EnvironmentSource::File("/run/a".into())),
        ("A_*", json!({"env": true}), EnvironmentSource::Beginning("A_".to_owned())),
        ("*", json!({"env": true}), EnvironmentSource::Beginning(String::new())),
        ("A*", json!("x"), EnvironmentSource::Text("x".to_owned())),
    ] {
        let config = read(named(name, value));
        assert_eq!(config.applications[0].environment, [(name.to_owned(), expected)]);
    }
    for (value, message) in [
        (json!({"env": ""}), "must have a name"),
        (json!({"env": "a=b"}), "must have a name"),
        (json!({"env": 1}), "must be a string"),
        (json!({"env": false}), "must be the name of a variable, or true"),
        (json!({"env": "B", "default": "a\0"}), "null character"),
        (json!({"file": ""}), "must not be empty"),
        (json!({"file": "/a", "default": "b"}), "unknown key \"default\""),
        (json!({}), "one of \"file\" or \"env\" is missing"),
        (json!({"env": "A", "file": "/a"}), "only one of \"file\" and \"env\""),
        (json!("a\0"), "null character"),
    ] {
        let line = refusal(application(value));
        assert!(line.contains(message), "{line}");
    }
    for (name, value, message) in [
        ("*_A", json!({"env": true}), "with \"*\" at its end alone"),
        ("A*", json!({"env": true, "default": ""}), "has no \"default\""),
    ] {
        let line = refusal(named(name, value));
        assert!(line.contains(message), "{line}");
    }
}
