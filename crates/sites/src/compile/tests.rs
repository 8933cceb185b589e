//! Each key of a site, and what it becomes.

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;

use howdah_config::include::{self, Expanded, IncludedFiles};
use howdah_config::{Config, path};

use super::*;

mod certificates;
mod keys;
mod places;

thread_local! {
    /// The path that the last problem is because of.
    static BECAUSE_OF: Cell<Option<PathBuf>> = const { Cell::new(None) };
}

/// Files in memory; sites are compiled for the directories of the disk.
struct Files;

impl IncludedFiles for Files {
    fn read(&self, file: &Path) -> Result<Vec<u8>, String> {
        match file.to_str() {
            Some("/secret") => Ok(b"s3cret\n".to_vec()),
            _ => Err(format!("{}: there is no such file", file.display())),
        }
    }

    fn names(&self, _: &Path) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }

    fn compile(&self, site: &Site) -> Result<SiteParts, SiteProblem> {
        let php_versions = || ["8.2.36", "8.4.21"].map(str::to_owned).to_vec();
        let read = |file: &Path| self.read(file);
        let marks = ProjectMarks::default();
        let machine = Machine {
            user: None,
            read: &read,
            is_another: false,
            marks: &marks,
            php_versions: &php_versions,
        };
        compile(site, &machine).inspect_err(|problem| BECAUSE_OF.set(problem.because_of.clone()))
    }
}

/// Returns the document of a site with these keys beside `hosts` and `root`. It is valid.
fn document(keys: Value, defaults: Value) -> (tempfile::TempDir, Result<Value, String>) {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("pub")).unwrap();
    fs::write(root.path().join("index.php"), "").unwrap();
    fs::write(root.path().join("pub/app.php"), "").unwrap();
    let mut site = json!({"hosts": ["a.example", "www.a.example"], "root": root.path()});
    site.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    let text = json!({"sites": {"a": site}, "defaults": defaults}).to_string();
    let expanded = include::expand(text.as_bytes(), Path::new("/h.json"), &Files);
    let document = expanded.and_then(|expanded| {
        let expanded: Expanded = expanded.expect("sites");
        match Config::from_value(expanded.document.clone()) {
            Ok(_) => Ok(expanded.document),
            Err(error) => Err(expanded.explain(&error)),
        }
    });
    (root, document)
}

fn site(keys: Value) -> (tempfile::TempDir, Value) {
    let (root, document) = document(keys, json!({}));
    (root, document.unwrap())
}

fn problem(keys: Value, defaults: Value) -> String {
    document(keys, defaults).1.unwrap_err()
}

#[test]
fn a_site_has_its_hosts_its_route_and_its_application() {
    let (root, document) = site(json!({}));
    let root = root.path().to_str().unwrap();
    assert_eq!(
        document["variables"]["site"],
        json!({
            "map": "$host",
            "values": {"a.example": "a", "www.a.example": "a"},
            "default": "default",
        })
    );
    let last = document["routes"]["a"].as_array().unwrap().last().unwrap();
    assert_eq!(last["action"]["share"], format!("{root}$uri"));
    assert_eq!(last["action"]["scripts"], "applications/a/direct");
    let application = &document["applications"]["a"];
    assert_eq!(application["type"], "php");
    assert_eq!(
        application["targets"],
        json!({"direct": {"root": root}, "front": {"root": root, "script": "index.php"}})
    );
    let listeners: Vec<_> = document["listeners"].as_object().unwrap().keys().collect();
    assert_eq!(listeners, ["*:80", "[::]:80"]);
}

/// Reads a document with a site of these keys in a directory with an `index.php` and perhaps a
/// `composer.json`.
fn expanded(keys: Value, composer: Option<Value>) -> (tempfile::TempDir, Result<Expanded, String>) {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("index.php"), "").unwrap();
    if let Some(composer) = composer {
        fs::write(root.path().join("composer.json"), composer.to_string()).unwrap();
    }
    let mut site = json!({"hosts": "a.example", "root": root.path(), "https": false});
    site.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    let text = json!({"sites": {"a": site}}).to_string();
    let expanded = include::expand(text.as_bytes(), Path::new("/h.json"), &Files);
    (root, expanded.map(|expanded| expanded.expect("sites")))
}

/// Compiles a site whose project requires a version of PHP.
fn with_required_php(php: Value, required: &str) -> (Value, Vec<String>) {
    let composer = json!({"require": {"php": required}});
    let expanded = expanded(json!({"php": php}), Some(composer)).1.unwrap();
    (expanded.document["applications"]["a"]["type"].clone(), expanded.notes)
}

#[test]
fn the_project_chooses_the_version_of_php() {
    let version = |php, required| with_required_php(php, required).0;
    assert_eq!(version(json!({}), "^8.1"), "php");
    assert_eq!(version(json!({}), "~8.2.0"), "php 8.2");
    assert_eq!(version(json!({"version": "8.4"}), "~8.2.0"), "php 8.4");
    let (version, notes) = with_required_php(json!({}), "^9");
    assert_eq!((version, notes.len()), (json!("php"), 1));
    assert!(notes[0].starts_with("/h.json: line 1, ") && notes[0].contains("/sites/a/root: "));
    assert!(notes[0].contains("\"^9\", which no installed version is (8.2.36, 8.4.21)"));
}

#[test]
fn a_problem_names_the_path_that_must_change() {
    let because_of = |keys: Value| {
        let (root, expanded) = expanded(keys, None);
        expanded.unwrap_err();
        let path = BECAUSE_OF.take().unwrap();
        path.strip_prefix(root.path()).map_or(path.clone(), Path::to_owned)
    };
    assert_eq!(because_of(json!({"root": "/none"})), Path::new("/none"));
    assert_eq!(because_of(json!({"public": "web"})), Path::new("web"));
    assert_eq!(because_of(json!({"worker": true})), Path::new(""));
    let variable = json!({"environment": {"A": {"file": "/missing"}}, "php": {"shared": true}});
    assert_eq!(because_of(variable), Path::new("/missing"));
}

#[test]
fn keys_of_php_are_those_of_the_application() {
    let (_root, document) = site(json!({
        "user": "root",
        "group": "root",
        "php": {
            "version": "8.2",
            "ini": {"memory_limit": "256M"},
            "extensions": ["imagick"],
            "processes": {"max": 7},
        },
        "environment": {"A": "b", "SECRET": {"file": "/secret"}, "C": {"env": "D"}},
        "limits": {"mail": 50, "memory": "128M", "cpu": 0.5, "processes": 20},
    }));
    let application = &document["applications"]["a"];
    for (key, value) in [
        ("type", json!("php 8.2")),
        ("options", json!({"admin": {"memory_limit": "256M"}, "extensions": ["imagick"]})),
        ("processes", json!({"max": 7})),
        ("user", json!("root")),
        ("group", json!("root")),
        ("environment", json!({"A": "b", "SECRET": {"file": "/secret"}, "C": {"env": "D"}})),
        ("smtp", json!({"limit": 50})),
        ("isolation", json!({"limits": {"memory": 134_217_728, "cpu": 0.5, "processes": 20}})),
    ] {
        assert_eq!(application[key], value, "{key}");
    }
    // The permissions of its user restrict it, and no sandbox.
}

#[test]
fn keys_about_requests_are_options_of_the_action_that_leads_to_the_site() {
    let (_root, document) = site(json!({
        "auth": {"users_file": "/users"},
        "cache": "wordpress",
        "logs": {"access": "/log"},
        "limits": {"requests": "30/s", "bandwidth": "2M"},
    }));
    assert_eq!(
        document["routes"]["a"],
        json!([{"action": {
            "pass": "routes/a%2Fcontent",
            "basic_auth": {"users_file": "/users"},
            "cache": {"preset": "wordpress"},
            "access_log": "/log",
            "limit": [
                {"rate": "30/s", "burst": 30},
                {"key": "$site", "bandwidth": 2 << 20},
            ],
        }}])
    );
    assert!(document["routes"]["a/content"].is_array());
    let (_root, document) = site(json!({"limits": {"requests": "30/m"}}));
    assert_eq!(document["routes"]["a"][0]["action"]["limit"][0]["burst"], 20);
}

#[test]
fn header_fields_are_those_of_every_step_and_its_fallback() {
    let (_root, document) = site(json!({
        "headers": {"X-A": "b"},
        "routes": [
            {"match": {"uri": "/old"}, "action": {"return": 301, "location": "/new"}},
            {"match": {"uri": "/x"}, "action": {"return": 200, "response_headers": {"X": "own"}}},
        ],
    }));
    let steps = document["routes"]["a"].as_array().unwrap();
    let fields: Vec<_> = steps.iter().map(|step| &step["action"]["response_headers"]).collect();
    assert_eq!(fields[..3], [&json!({"X-A": "b"}), &json!({"X": "own"}), &json!({"X-A": "b"})]);
    let last = steps.last().unwrap();
    assert_eq!(last["action"]["fallback"]["response_headers"], json!({"X-A": "b"}));
}

#[test]
fn a_directory_can_be_described_in_place_of_what_is_found() {
    let (root, document) = site(json!({"public": "pub", "front_controller": "app.php"}));
    let public = root.path().join("pub");
    let application = &document["applications"]["a"];
    assert_eq!(application["targets"]["front"], json!({"root": public, "script": "app.php"}));
    let (_root, document) = site(json!({"front_controller": false, "htaccess": false}));
    let last = document["routes"]["a"].as_array().unwrap().last().unwrap();
    assert_eq!((last["action"].get("fallback"), last["action"].get("htaccess")), (None, None));
    assert_eq!(last["action"]["index"], json!(["index.php", "index.html"]));
    let (root, document) = site(json!({"worker": "worker.php"}));
    let application = &document["applications"]["a"];
    assert_eq!(application["worker"], json!({"script": "worker.php"}));
    assert_eq!(application["root"], json!(root.path()));
}

#[test]
fn a_site_that_is_not_enabled_has_a_page_and_no_php() {
    let (_root, document) = site(json!({"enabled": false}));
    let action = &document["routes"]["a"][0]["action"];
    assert_eq!(action["return"], 503);
    assert_eq!(action["response_headers"]["Retry-After"]["value"], RETRY_AFTER);
    assert_eq!(document.get("applications"), None);
}

#[test]
fn https_needs_an_address_for_the_authority_or_files() {
    let email = json!({"https": {"email": "me@a.example"}});
    let listeners = |keys: Value, defaults: &Value| {
        let (_root, found) = document(keys, defaults.clone());
        let found = found.unwrap();
        (found["listeners"].clone(), found["routes"]["a"][0].clone())
    };
    let redirect = json!({
        "match": {"scheme": "http"},
        "action": {"return": 301, "location": "https://$host$request_uri"},
    });
    let (found, first) = listeners(json!({}), &email);
    let acme = json!([{"email": "me@a.example", "domains": ["a.example", "www.a.example"]}]);
    assert_eq!(found["*:443"], json!({"pass": "routes/sites", "tls": {"acme": acme}}));
    assert_eq!(found["[::]:443"], found["*:443"]);
    assert_eq!(first, redirect);
    for keys in [json!({"https": false}), json!({"https": "auto"}), json!({})] {
        let defaults = if keys.get("https") == Some(&json!(false)) { &email } else { &json!({}) };
        let (found, first) = listeners(keys, defaults);
        assert_eq!(found.get("*:443"), None);
        assert_ne!(first, redirect);
    }
    let files = json!({"https": {"certificate": "/chain", "key": "/key"}});
    let (found, first) = listeners(files, &json!({}));
    assert_eq!(found["*:443"]["tls"]["certificate"], json!([{"chain": "/chain", "key": "/key"}]));
    assert_eq!(first, redirect);
    let own = json!({"https": {"email": "you@a.example", "challenges": "http"}});
    let (found, _) = listeners(own, &email);
    assert_eq!(found["*:443"]["tls"]["acme"][0]["email"], "you@a.example");
    let wildcard = problem(json!({"hosts": ["*.a.example"]}), email.clone());
    assert!(wildcard.contains("/sites/a/https: no authority gives"), "{wildcard}");
    let both = json!({"hosts": ["a.example", "*.a.example"]});
    let (found, first) = listeners(both, &email);
    assert_eq!(found["*:443"]["tls"]["acme"][0]["domains"], json!(["a.example"]));
    // The others would lead to an address without a certificate.
    assert_eq!(first["match"], json!({"scheme": "http", "host": ["a.example"]}));
}

#[test]
fn other_hosts_and_schemes_lead_to_the_canonical_address() {
    let defaults = json!({"https": {"email": "me@a.example"}, "listen_https": "127.0.0.1:8443"});
    let (_root, found) = document(json!({"canonical": "a.example"}), defaults);
    let found = found.unwrap();
    let location = "https://a.example:8443$request_uri";
    let steps = found["routes"]["a"].as_array().unwrap();
    assert_eq!(
        steps[..2],
        [
            json!({"match": {"scheme": "http"}, "action": {"return": 301, "location": location}}),
            json!({"match": {"host": "!a.example"}, "action": {"return": 301, "location": location}}),
        ]
    );
    let other = problem(json!({"canonical": "b.example"}), json!({}));
    assert!(other.contains("/sites/a/canonical: \"canonical\" must be one of"), "{other}");
}

#[test]
fn the_longest_pattern_of_a_host_comes_first() {
    let root = tempfile::tempdir().unwrap();
    let site = |hosts: Value| json!({"hosts": hosts, "root": root.path()});
    let text = json!({"sites": {
        "a": site(json!(["*", "x.example"])),
        "b": site(json!(["*.example"])),
        "c": site(json!(["*.b.example", "y.example"])),
    }});
    let text = text.to_string();
    let expanded = include::expand(text.as_bytes(), Path::new("/h.json"), &Files).unwrap().unwrap();
    let values = expanded.document["variables"]["site"]["values"].as_object().unwrap();
    let hosts: Vec<_> = values.keys().map(String::as_str).collect();
    assert_eq!(hosts, ["x.example", "y.example", "*.b.example", "*.example", "*"]);
}

#[test]
fn defaults_hold_for_keys_that_the_site_does_not_have() {
    let defaults = json!({
        "listen": ["127.0.0.1:8080"],
        "php": {"ini": {"memory_limit": "128M"}, "version": "8.2"},
        "limits": {"mail": 10},
        "headers": {"X-A": "all"},
        "htaccess": false,
    });
    let keys = json!({"php": {"version": "8"}, "limits": {"requests": "9/s"}, "htaccess": true});
    let (_root, found) = document(keys, defaults);
    let found = found.unwrap();
    let application = &found["applications"]["a"];
    assert_eq!(application["type"], "php 8");
    assert_eq!(application["options"]["admin"]["memory_limit"], "128M");
    assert_eq!(application["smtp"]["limit"], 10);
    let last = found["routes"]["a/content"].as_array().unwrap().last().unwrap();
    assert_eq!(last["action"]["response_headers"], json!({"X-A": "all"}));
    assert!(last["action"]["htaccess"].is_object());
    let listeners: Vec<_> = found["listeners"].as_object().unwrap().keys().collect();
    assert_eq!(listeners, ["127.0.0.1:8080"]);
}

#[test]
fn each_mistake_has_the_key_of_the_site() {
    for (keys, defaults, expected) in [
        (json!({"rot": 1}), json!({}), "/sites/a: unknown key \"rot\"; did you mean \"root\"?"),
        (json!({"root": "x"}), json!({}), "/sites/a/root: \"root\" must be an absolute path"),
        (json!({"root": "/none"}), json!({}), "/sites/a/root: \"/none\" does not exist"),
        (json!({"root": "/"}), json!({}), "/sites/a/root: \"/\" has files of the system"),
        (json!({"root": "/etc/"}), json!({}), "/sites/a/root: \"/etc/\" has files of the system"),
        (json!({"root": "/home"}), json!({}), "name the directory that holds the site alone"),
        (
            json!({"hosts": ["http://a.example:80/"]}),
            json!({}),
            "write it without a scheme, a port and a path",
        ),
        (json!({"hosts": ["ä.example"]}), json!({}), "write its form of ASCII letters (xn--…)"),
        (json!({"hosts": ["a/b"]}), json!({}), "/sites/a/hosts/0: element 0 must be a host name"),
        (json!({"hosts": []}), json!({}), "/sites/a/hosts: \"hosts\" must name at least one host"),
        (json!({"worker": true}), json!({}), "/sites/a/worker: there is no worker script in"),
        (json!({"public": "../x"}), json!({}), "/sites/a/public: \"public\" must be a path below"),
        (json!({"cache": {"presett": 1}}), json!({}), "/sites/a/cache: unknown key \"presett\""),
        (json!({"headers": {"a b": "c"}}), json!({}), "/sites/a/headers"),
        (json!({"routes": [{"action": {"shaer": 1}}]}), json!({}), "/sites/a/routes/0/action: "),
        (
            json!({
                "headers": {"X-A": "a"},
                "routes": [{"action": {"return": 200, "response_headers": {"a b": "c"}}}],
            }),
            json!({}),
            "/sites/a/routes/0/action/response_headers/a b: ",
        ),
        (json!({"php": {"version": "x"}}), json!({}), "/sites/a/php/version: "),
        (json!({"limits": {"memory": "x"}}), json!({}), "/sites/a/limits/memory: "),
        (json!({"limits": {"cpu": 0}}), json!({}), "/sites/a/limits/cpu: "),
        (
            json!({"environment": {"A": {"file": "/none"}}, "php": {"shared": true}}),
            json!({}),
            "/sites/a/environment/A: /none: there is no such file",
        ),
        (json!({"https": 1}), json!({}), "/sites/a/https: "),
        (json!({}), json!({"emial": 1}), "/defaults: unknown key \"emial\""),
        (json!({}), json!({"listen": "x"}), "/defaults/listen"),
        (json!({}), json!({"headers": {"a b": "c"}}), "/defaults/headers"),
        (json!({}), json!({"cache": {"presett": 1}}), "/defaults/cache: unknown key"),
        // Members that only `defaults` has, of keys that the site has as well.
        (json!({"headers": {"X-A": "a"}}), json!({"headers": {"a b": "c"}}), "/defaults/headers"),
        (
            json!({"php": {"version": "8.4"}}),
            json!({"php": {"ini": {"x": 5}}}),
            "/defaults/php/ini/x",
        ),
        (
            json!({"php": {"version": "8.4"}}),
            json!({"php": {"innni": {}}}),
            "/defaults/php: unknown",
        ),
        (
            json!({"php": {"version": "8.4"}}),
            json!({"php": {"processes": "x"}}),
            "/defaults/php/processes",
        ),
        (
            json!({"environment": {"B": "b"}}),
            json!({"environment": {"A": {"file": "/none"}}, "php": {"shared": true}}),
            "/defaults/environment/A: /none: there is no such file",
        ),
        (
            json!({"environment": {"B": "b"}}),
            json!({"environment": {"A": {"fiel": "/none"}}}),
            "/defaults/environment/A",
        ),
        (
            json!({"limits": {"mail": 1}}),
            json!({"limits": {"requests": "x"}}),
            "/defaults/limits/requests",
        ),
    ] {
        let problem = problem(keys.clone(), defaults);
        assert!(problem.contains(expected), "{keys}: {problem}");
        let is_told_twice = expected.starts_with("/defaults") && problem.contains("/sites/");
        assert!(problem.lines().count() == 1 && !is_told_twice, "{problem}");
        assert!(problem.starts_with("/h.json: line "), "{problem}");
    }
}

#[test]
fn paths_of_the_document_lead_to_keys_of_the_site() {
    let root = tempfile::tempdir().unwrap();
    let value = json!({"hosts": ["a"], "root": root.path()});
    let text = json!({"sites": {"a": value}}).to_string();
    let expanded = include::expand(text.as_bytes(), Path::new("/h.json"), &Files).unwrap().unwrap();
    let files: Vec<_> = expanded.files().map(PathBuf::from).collect();
    assert_eq!(files, [PathBuf::from("/h.json")]);
    assert_eq!(path(&["a".to_owned()]), "/a");
}

/// Returns the document of two sites with these keys in one directory.
fn two(a: Value, b: Value) -> (tempfile::TempDir, Value) {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("index.php"), "").unwrap();
    let site = |name: &str, keys: Value| {
        let mut site = json!({
            "hosts": format!("{name}.example"), "root": root.path(), "user": "root",
            "php": {"shared": true},
        });
        for (key, value) in keys.as_object().unwrap() {
            match (&mut site[key], value) {
                (Value::Object(own), Value::Object(more)) => own.extend(more.clone()),
                (own, value) => *own = value.clone(),
            }
        }
        site
    };
    let text = json!({"sites": {"a": site("a", a), "b": site("b", b)}}).to_string();
    let expanded = include::expand(text.as_bytes(), Path::new("/h.json"), &Files).unwrap().unwrap();
    Config::from_value(expanded.document.clone()).unwrap();
    (root, expanded.document)
}

#[test]
fn sites_that_share_php_have_one_application_and_differ_in_their_requests() {
    let a = json!({
        "environment": {"DB": {"file": "/secret"}, "COST": "5$", "TZ": "UTC"},
        "php": {"ini": {"memory_limit": "64M", "opcache.validate_timestamps": "0"}},
    });
    let b = json!({
        "environment": {"TZ": "UTC"},
        "php": {"ini": {"opcache.validate_timestamps": "0", "error_log": "/b.log"}},
        "routes": [{"match": {"uri": "/x"}, "action": {"pass": "applications/b/direct"}}],
    });
    let (root, document) = two(a, b);
    let applications = document["applications"].as_object().unwrap();
    let (name, application) = applications.iter().next().unwrap();
    assert_eq!(applications.len(), 1);
    let directory = root.path().file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with(&format!("shared:{directory}:")), "{name}");
    assert_eq!(application["environment"], json!({"TZ": "UTC"}));
    assert_eq!(application["options"], json!({"admin": {"opcache.validate_timestamps": "0"}}));
    assert_eq!(
        (&application["limits"]["fair"], &application["user"]),
        (&json!("$site"), &json!("root"))
    );
    let action = |site: &str| document["routes"][site].as_array().unwrap()[0]["action"].clone();
    assert_eq!(
        action("a"),
        json!({
            "pass": "routes/a%2Fcontent",
            "environment": {"DB": "s3cret", "COST": "5${dollar}", "HOWDAH_SITE": "a"},
            "options": {"admin": {"memory_limit": "64M"}},
        })
    );
    assert_eq!(action("b")["environment"], json!({"HOWDAH_SITE": "b"}));
    assert_eq!(action("b")["options"], json!({"admin": {"error_log": "/b.log"}}));
    let steps = document["routes"]["b/content"].as_array().unwrap();
    assert_eq!(steps[0]["action"]["pass"], format!("applications/{name}/direct"));
    let scripts = &steps.last().unwrap()["action"]["scripts"];
    assert_eq!(*scripts, format!("applications/{name}/direct"));
    for site in ["a", "b"] {
        assert_eq!(include::application_of_site(&document, site), Some(name.as_str()));
    }
}

#[test]
fn sites_that_share_php_share_the_limits_of_its_application() {
    let limits = json!({"limits": {"memory": "64M", "processes": 20}});
    let (_root, document) = two(limits.clone(), limits);
    let config = Config::from_value(document).unwrap();
    let [application] = config.applications.as_slice() else { panic!("{:?}", config.applications) };
    let limits = application.isolation.limits.as_ref().unwrap();
    assert_eq!((limits.memory, limits.processes), (Some(64 << 20), Some(20)));
    let group = application.isolation.group().unwrap().to_str().unwrap();
    assert!(group.starts_with("application-shared"), "{group}");
}

#[test]
fn sites_that_differ_in_what_a_request_cannot_change_share_no_application() {
    let names = |a: Value, b: Value| {
        let (_root, document) = two(a, b);
        document["applications"].as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(names(json!({}), json!({})).len(), 1);
    for other in [
        json!({"php": {"shared": false}}),
        json!({"php": {"version": "8.2"}}),
        json!({"php": {"processes": 3}}),
        json!({"limits": {"memory": "64M"}}),
        json!({"limits": {"cpu": 0.5}}),
        json!({"limits": {"processes": 20}}),
        json!({"php": {"ini": {"opcache.enable": "0"}}}),
        json!({"php": {"ini": {"short_open_tag": "1"}}}),
        json!({"php": {"ini": {"open_basedir": "/srv"}}}),
        json!({"environment": {"PATH": "/bin"}}),
        json!({"limits": {"mail": 3}}),
        json!({"user": "daemon"}),
        json!({"htaccess": false}),
        json!({"front_controller": false}),
    ] {
        assert_eq!(names(json!({}), other.clone()).len(), 2, "{other}");
    }
    // Without `.htaccess` files, a worker takes only the settings that it knows.
    let plain = |ini: Value| json!({"htaccess": false, "php": {"ini": ini}});
    let (two, one) = (json!({"memory_limit": "1G"}), json!({"memory_limit": "2G"}));
    assert_eq!(names(plain(two.clone()), plain(one)).len(), 1);
    assert_eq!(names(plain(two), plain(json!({"precision": "3"}))).len(), 2);
}

#[test]
fn a_site_in_worker_mode_shares_no_application() {
    let problem = problem(json!({"worker": "x.php", "php": {"shared": true}}), json!({}));
    assert!(
        problem.contains("/sites/a/php/shared: \"shared\" is not possible with \"worker\""),
        "{problem}"
    );
}
