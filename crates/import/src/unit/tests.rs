use std::fs;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn imported(text: &str) -> Result<Import, Error> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("conf.json");
    fs::write(&path, text).unwrap();
    import(&path, &Options::default(), &mut Source::default())
}

fn from_value(value: &Value) -> Import {
    imported(&serde_json::to_string_pretty(value).unwrap()).unwrap()
}

/// Names of the members with a status.
fn with(import: &Import, status: Status) -> Vec<String> {
    import.report.with_status(status).map(|entry| entry.directive.clone()).collect()
}

#[test]
fn a_document_for_php_is_kept() {
    let document = json!({
        "listeners": { "*:80": { "pass": "routes" } },
        "routes": [
            { "match": { "uri": "*.php" }, "action": { "pass": "applications/blog/direct" } },
            { "action": { "share": "/www$uri", "fallback": { "pass": "applications/blog/index" } } }
        ],
        "applications": { "blog": {
            "type": "php 8.2",
            "processes": { "max": 4 },
            "options": { "admin": { "memory_limit": "64M" } },
            "targets": {
                "direct": { "root": "/www" }, "index": { "root": "/www", "script": "index.php" }
            }
        } }
    });
    let import = from_value(&document);
    assert_eq!(import.document, document);
    assert_eq!(
        with(&import, Status::Changed),
        ["routes/1/action/share", "routes/1/action/fallback", "applications/blog/type"]
    );
    assert_eq!(import.report.entries().len(), 26);
    assert_eq!(import.report.entries()[1].line, 3);
    assert_eq!(import.report.with_status(Status::NotConverted).count(), 0);
}

#[test]
fn other_languages_are_closed_wherever_requests_are_passed_to_them() {
    let import = from_value(&json!({
        "listeners": {
            "*:80": { "pass": "routes" },
            "*:81": { "pass": "applications/py" },
            "*:82": { "application": "a/b" },
            "*:83": { "pass": "applications/blog" }
        },
        "routes": [
            { "match": { "uri": "/py/*" }, "action": { "pass": "applications/py/target" } },
            { "action": {
                "share": "/www$uri",
                "fallback": { "pass": "applications/a%2Fb", "response_headers": { "X-A": "b" } }
            } }
        ],
        "applications": {
            "py": { "type": "python 3.11", "path": "/www", "module": "wsgi" },
            "a/b": { "type": "external", "executable": "/app" },
            "blog": { "type": "php", "root": "/www" }
        }
    }));
    let closed = json!({ "return": 503 });
    assert_eq!(
        import.document["listeners"],
        json!({
            "*:80": { "pass": "routes/main" },
            "*:81": { "pass": "routes/closed" },
            "*:82": { "pass": "routes/closed" },
            "*:83": { "pass": "applications/blog" }
        })
    );
    assert_eq!(
        import.document["routes"],
        json!({
            "main": [
                { "match": { "uri": "/py/*" }, "action": closed },
                { "action": { "share": "/www$uri", "fallback": closed } }
            ],
            "closed": [{ "action": closed }]
        })
    );
    assert_eq!(import.document["applications"].as_object().unwrap().len(), 1);
    assert_eq!(
        with(&import, Status::NotConverted),
        [
            "listeners/*:81/pass",
            "listeners/*:82/application",
            "routes/0/action/pass",
            "routes/1/action/fallback/pass",
            "routes/1/action/fallback/response_headers",
            "routes/1/action/fallback/response_headers/X-A",
            "applications/py",
            "applications/py/type",
            "applications/py/path",
            "applications/py/module",
            "applications/a%2Fb",
            "applications/a%2Fb/type",
            "applications/a%2Fb/executable",
        ]
    );
}

#[test]
fn conditions_and_actions_that_are_refused_close_their_step() {
    let import = from_value(&json!({
        "listeners": { "*:80": { "pass": "routes/a" } },
        "routes": { "a": [
            {
                "match": { "uri": "~^/(?!public)", "host": "a" },
                "action": { "share": "/www$uri" }
            },
            { "match": { "uri": "/b" }, "action": { "return": 404, "no_such_key": 1 } },
            { "action": { "share": "/www$uri", "response_headers": { "X-A": "`${host}`", "B": "c" } } }
        ] }
    }));
    let steps = import.document["routes"]["a"].as_array().unwrap();
    assert_eq!(steps[0], json!({ "match": { "host": "a" }, "action": { "return": 503 } }));
    assert_eq!(steps[1], json!({ "match": { "uri": "/b" }, "action": { "return": 503 } }));
    assert!(howdah_config::Config::from_value(import.document.clone()).is_ok());
    let not_converted = with(&import, Status::NotConverted);
    for path in ["routes/a/0/match/uri", "routes/a/0/action/share", "routes/a/1/action/return"] {
        assert!(not_converted.contains(&path.to_owned()), "{path}");
    }
}

#[test]
fn keys_of_unit_that_howdah_refuses_are_taken_out() {
    let import = from_value(&json!({
        "settings": { "http": { "websocket": { "read_timeout": 60 }, "idle_timeout": 5 }, "js_module": "a" },
        "listeners": { "*:80": { "pass": "applications/a" } },
        "applications": { "a": { "type": "php", "root": "/www", "limits": { "shm": 1024, "requests": 5 } } }
    }));
    assert_eq!(
        import.document,
        json!({
            "settings": { "http": { "idle_timeout": 5 } },
            "listeners": { "*:80": { "pass": "applications/a" } },
            "applications": { "a": { "type": "php", "root": "/www", "limits": { "requests": 5 } } }
        })
    );
    assert_eq!(
        with(&import, Status::NotConverted),
        [
            "settings/http/websocket",
            "settings/http/websocket/read_timeout",
            "settings/js_module",
            "applications/a/limits/shm",
        ]
    );
}

#[test]
fn the_answer_of_the_whole_api_has_the_document_in_a_member() {
    let import = from_value(&json!({
        "certificates": { "a": { "key": "RSA" } },
        "config": { "listeners": { "*:80": { "pass": "routes" } }, "routes": [] },
        "status": { "requests": { "total": 1 } }
    }));
    assert_eq!(
        import.document,
        json!({ "listeners": { "*:80": { "pass": "routes" } }, "routes": [] })
    );
    let converted = ["config", "config/listeners", "config/listeners/*:80"];
    assert_eq!(with(&import, Status::Converted)[..3], converted);
    assert_eq!(with(&import, Status::NotNeeded).len(), 6);
}

#[test]
fn a_text_that_is_no_document_is_an_error_with_its_line() {
    for (text, line) in [("{\n\"a\": [\n", Some(3)), ("[]", Some(1)), ("{\n\"a\" 1}", Some(2))] {
        assert_eq!(imported(text).unwrap_err().line, line, "{text}");
    }
}

/// Objects that resemble parts of documents.
fn document() -> impl Strategy<Value = Value> {
    let names = "(listeners|routes|applications|upstreams|settings|access_log|\\*:80|pass|match|uri\
                 |action|return|share|fallback|type|root|servers|limits|tls|http|0|a)";
    let texts = "(routes|routes/a|applications/a|upstreams/a|php|python|/a\\$uri|~\\(\\?!a\\)|a)";
    let leaf =
        prop_oneof![texts.prop_map(Value::from), (0..600).prop_map(Value::from), Just(Value::Null)];
    leaf.prop_recursive(6, 60, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names, inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_is_imported_is_a_document(value in document()) {
        if let Ok(import) = imported(&value.to_string()) {
            prop_assert!(howdah_config::Config::from_value(import.document).is_ok());
        }
    }
}
