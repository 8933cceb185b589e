//! The document as a whole: accepted documents and their typed form, and refusals.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

mod application;
mod fastcgi;
mod fastcgi_listener;
mod http3;
mod jobs;
mod limit;
mod names;
mod operation;
mod routing;
mod servers;
mod settings;
mod share;
mod tls;
mod upstream_tls;

fn read(document: Value) -> Config {
    match Config::from_value(document) {
        Ok(config) => config,
        Err(error) => panic!("{error}"),
    }
}

/// Returns the line with which a document is refused.
fn refusal(document: Value) -> String {
    match Config::from_value(document) {
        Ok(_) => panic!("must be refused"),
        Err(error) => {
            let line = error.to_string();
            assert!(!line.contains('\n'), "{line}");
            line
        }
    }
}

fn action(action: Value) -> Value {
    json!({
        "routes": [{"action": action}],
        "applications": {
            "site": {"type": "php", "root": "/www"},
            "two": {"type": "php", "targets": {
                "direct": {"root": "/www"},
                "front": {"root": "/www", "script": "index.php"},
            }},
        },
    })
}

fn read_action(value: Value) -> Action {
    let mut config = read(action(value));
    Arc::unwrap_or_clone(config.routes.remove(0).steps.remove(0).action)
}

fn read_application(value: Value) -> Application {
    let mut config = read(json!({"applications": {"site": value}}));
    Arc::unwrap_or_clone(config.applications.remove(0))
}

fn refused_application(value: Value) -> String {
    refusal(json!({"applications": {"site": value}}))
}

#[test]
fn an_empty_document_serves_nothing() {
    let config = read(json!({}));
    assert!(config.listeners.is_empty() && config.routes.is_empty());
    assert_eq!(config.settings.http.idle_timeout, Duration::from_secs(180));
}

#[test]
fn the_document_is_kept_as_written() {
    let text = br#"{"routes": [], /* later */ "listeners": {},}"#;
    let config = parse(text).expect("valid");
    assert_eq!(config.document.to_string(), r#"{"routes":[],"listeners":{}}"#);
}

#[test]
fn a_document_that_is_no_object_is_refused() {
    assert_eq!(
        refusal(json!([])),
        "the document: the configuration must be an object, but is an array"
    );
}

#[test]
fn unknown_keys_are_refused_with_the_nearest_known_one() {
    assert_eq!(
        refusal(json!({"listenrs": {}})),
        "the document: unknown key \"listenrs\"; did you mean \"listeners\"?"
    );
    assert_eq!(
        refusal(action(json!({"shaer": "/www$uri"}))),
        "/routes/0/action: unknown key \"shaer\"; did you mean \"share\"?"
    );
    let colour = refusal(action(json!({"return": 200, "colour": 1})));
    let start =
        "/routes/0/action: unknown key \"colour\"; allowed here: \"return\", \"location\", ";
    assert!(colour.starts_with(start), "{colour}");
    assert_eq!(
        refused_application(json!({"type": "php", "rot": "/www"})),
        "/applications/site: unknown key \"rot\"; did you mean \"root\"?"
    );
}

#[test]
fn paths_in_messages_are_paths_of_the_control_api() {
    let document = json!({"routes": {"a/b%": [{"action": {"return": "x"}}]}});
    assert_eq!(
        refusal(document),
        "/routes/a%2Fb%25/0/action/return: \"return\" must be an integer, but is the string \"x\""
    );
}

#[test]
fn messages_stay_one_short_line_whatever_the_document_holds() {
    let odd = json!({"applications": {"a\nb": {"type": "php", "root": "/"}},
        "routes": [{"action": {"pass": ""}}]});
    for pass in ["applications/a\rb", "applications/other", "applications/a\nb/x\n"] {
        let mut document = odd.clone();
        document["routes"][0]["action"]["pass"] = json!(pass);
        refusal(document);
    }
    let line = refusal(action(json!({"return": "a\nb\u{1b}[31m".repeat(1000)})));
    assert!(line.len() < 500, "{line}");
}

#[test]
fn listeners_have_an_address_and_a_target() {
    let config = read(json!({
        "listeners": {
            "*:80": {"pass": "routes", "backlog": 64},
            "unix:@x": {"pass": "applications/a%2Fb", "backlog": -1},
            "[::1]:80": {"application": "a/b"},
        },
        "routes": [],
        "applications": {"a/b": {"type": "php", "root": "/"}},
    }));
    let [tcp, abstract_, six] = config.listeners.as_slice() else { panic!("three listeners") };
    assert_eq!((tcp.name.as_str(), tcp.backlog), ("*:80", Some(64)));
    assert_eq!(tcp.pass, Pass::Fixed(Target::Route(None)));
    assert_eq!((&abstract_.address, abstract_.backlog), (&Address::Abstract("x".to_owned()), None));
    assert_eq!(abstract_.pass, six.pass);
}

#[test]
fn broken_listeners_are_refused() {
    for (listeners, message) in [
        (
            json!({"127.0.0.1": {"pass": "routes"}}),
            "/listeners/127.0.0.1: \"127.0.0.1\" must end with a port",
        ),
        (json!({"*:80": {}}), "/listeners/*:80: \"pass\" is missing"),
        (
            json!({"*:80": {"pass": "routes"}, "0.0.0.0:80": {"pass": "routes"}}),
            "is the same address as \"*:80\"",
        ),
        (
            json!({"*:80": {"pass": "routes", "backlog": -2}}),
            "must be between -1 and 2147483647, but is -2",
        ),
        (json!({"*:80": {"pass": "routes", "application": "x"}}), "there is no application \"x\""),
        (json!({"*:80": "routes"}), "must be an object, but is the string \"routes\""),
        (json!([]), "\"listeners\" must be an object, but is an array"),
    ] {
        let line = refusal(json!({"listeners": listeners, "routes": []}));
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn what_is_passed_to_must_exist() {
    for (pass, message) in [
        ("applications/sit", "there is no application \"sit\"; did you mean \"site\"?"),
        ("applications/other", "there is no application \"other\"; defined: \"site\" or \"two\""),
        (
            "applications/two/frnt",
            "application \"two\" has no target \"frnt\"; did you mean \"front\"?",
        ),
        ("applications/site/x", "application \"site\" has no target \"x\""),
        ("routes/main", "\"routes\" is an array, so it has no names; write \"routes\" alone"),
        ("upstreams/u", "there is no upstream \"u\""),
        ("blog", "\"blog\" names nothing that takes requests; write \"routes\""),
        ("site", "\"site\" names nothing that takes requests; write \"applications/site\""),
        ("", "\"\" names nothing that takes requests"),
        ("%", "\"%\" names nothing"),
        ("$hst", "Unknown variable \"$hst\"; did you mean \"$host\"?"),
    ] {
        let line = refusal(action(json!({"pass": pass})));
        assert!(line.starts_with("/routes/0/action/pass: ") && line.contains(message), "{line}");
    }
    for (scripts, message) in [
        ("site", "; write \"applications/site\""),
        ("blog", "; write \"applications/NAME\" or \"applications/NAME/TARGET\""),
        ("routes", "must name an application; write \"applications/NAME\" or"),
    ] {
        let line = refusal(action(json!({"share": "/www$uri", "scripts": scripts})));
        assert!(line.starts_with("/routes/0/action/scripts: ") && line.contains(message), "{line}");
    }
    let named = json!({"routes": {"a": [{"action": {"pass": "routes"}}]}});
    assert!(refusal(named).contains("write \"routes/NAME\""));
    let none = json!({"listeners": {"*:80": {"pass": "routes"}}});
    assert!(refusal(none).contains("the document has no \"routes\""));
}

#[test]
fn a_pass_with_variables_is_decided_per_request() {
    let ActionKind::Pass(Pass::Variable(template)) =
        read_action(json!({"pass": "applications/$host"})).kind
    else {
        panic!("a template");
    };
    assert_eq!(template.parts().len(), 2);
}

#[test]
fn routes_may_pass_to_each_other_in_a_circle() {
    // As in Unit: rewriting may lead out of a loop; the server counts the passes of a request.
    read(json!({"routes": {"a": [{"action": {"pass": "routes/b"}}],
            "b": [{"action": {"pass": "routes/a"}}]}}));
}

#[test]
fn conditions_are_patterns() {
    let config =
        read(json!({"routes": [{"match": {"uri": ["/a*", "!/a/b"]}, "action": {"return": 200}}]}));
    let uri = config.routes[0].steps[0].conditions.uri.as_ref().expect("a condition");
    assert!(uri.matches(b"/a/c") && !uri.matches(b"/a/b"));
    for (uri, message) in [
        (
            json!(1),
            "/routes/0/match/uri: \"uri\" must be a string or an array of strings, but is the \
             number 1",
        ),
        (json!(["x", 1]), "/routes/0/match/uri/1: element 1 must be a string"),
        (json!("**"), "must not have two \"*\" in a row"),
        (json!("~("), "\"uri\" is no usable regular expression: unclosed group"),
        (json!(["/", "%"]), "/routes/0/match/uri/1: element 1 must have two hexadecimal digits"),
    ] {
        let line = refusal(json!({"routes": [{"match": {"uri": uri}, "action": {"return": 200}}]}));
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn an_action_has_just_one_kind() {
    assert!(
        refusal(action(json!({"return": 200, "share": "/x"})))
            .contains("has \"return\" and \"share\"")
    );
    assert!(refusal(action(json!({}))).contains("one of \"pass\", \"return\""));
    assert!(refusal(json!({"routes": [{}]})).contains("/routes/0: \"action\" is missing"));
    let bare = refusal(json!({"routes": [{"share": "/www$uri"}]}));
    assert!(bare.contains("\"action\" is missing; write \"action\": {\"share\": ...}"), "{bare}");
    assert!(
        refusal(action(json!({"pass": "routes", "index": "x"}))).contains("unknown key \"index\"")
    );
}

#[test]
fn a_return_has_a_status_and_maybe_a_location() {
    let ActionKind::Return(answer) =
        read_action(json!({"return": 301, "location": "https://$host$request_uri"})).kind
    else {
        panic!("a return");
    };
    assert_eq!(answer.status, 301);
    assert_eq!(answer.location.expect("a location").parts().len(), 3);
    for status in [json!("200"), json!([]), json!(80.1), json!(1000), json!(-1), json!(null)] {
        assert!(
            refusal(action(json!({"return": status}))).starts_with("/routes/0/action/return: ")
        );
    }
    for location in [json!(0), json!([]), json!("$hos"), json!("$hostblah")] {
        let line = refusal(action(json!({"return": 301, "location": location})));
        assert!(line.starts_with("/routes/0/action/location: "), "{line}");
    }
}

#[test]
fn what_this_version_lacks_is_refused_and_not_ignored() {
    let document =
        json!({"applications": {"site": {"type": "php", "root": "/", "limits": {"shm": 1}}}});
    let error = Config::from_value(document).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(
        error.to_string(),
        "/applications/site/limits/shm: \"shm\" is not available in this version of Howdah"
    );
}

#[test]
fn fallbacks_nest_only_as_deep_as_the_text_may() {
    let text = r#"{"routes":[{"action":"#.to_owned()
        + &r#"{"share":"/x","fallback":"#.repeat(50_000)
        + r#"{"return":404}"#
        + &"}".repeat(50_000)
        + "}]}";
    let error = parse(text.as_bytes()).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Syntax);
}

#[test]
fn large_documents_are_read_in_proportion() {
    let steps: Vec<Value> = (0..20_000)
        .map(|n| {
            json!({"match": {"uri": format!("/{n}/*")}, "action": {"pass": format!("routes/r{n}")}})
        })
        .collect();
    let mut routes = serde_json::Map::new();
    for n in 0..20_000 {
        routes.insert(format!("r{n}"), json!([]));
    }
    routes.insert("main".to_owned(), Value::from(steps));
    let start = std::time::Instant::now();
    read(json!({"routes": routes}));
    // A linear search for each name would take far longer.
    assert!(start.elapsed() < Duration::from_secs(20));
}

/// Generates documents that are nearly valid, so that more than the first key is read.
fn nearly_a_document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2..1000_i64).prop_map(Value::from),
        prop::sample::select(vec![
            "",
            "routes",
            "applications/a",
            "applications/a/b",
            "routes/a",
            "php",
            "php 8",
            "/www$uri",
            "$",
            "!~(",
            "%",
            "*:80",
            "\0",
            "**"
        ])
        .prop_map(Value::from),
    ];
    let key = prop::sample::select(vec![
        "listeners",
        "routes",
        "applications",
        "settings",
        "a",
        "b",
        "*:80",
        "pass",
        "action",
        "match",
        "uri",
        "share",
        "fallback",
        "return",
        "location",
        "type",
        "root",
        "targets",
        "processes",
        "http",
        "index",
        "types",
        "static",
        "mime_types",
        "scripts",
        "script",
        "options",
        "admin",
        "environment",
        "limits",
    ]);
    leaf.prop_recursive(7, 64, 6, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            4 => prop::collection::vec((key.clone(), inner), 0..6).prop_map(|members| {
                let members = members.into_iter().map(|(key, value)| (key.to_owned(), value));
                Value::Object(members.collect())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(text in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&text);
    }

    #[test]
    fn no_document_makes_it_panic_and_every_refusal_is_one_line(document in nearly_a_document()) {
        if let Err(error) = Config::from_value(document) {
            prop_assert!(!error.to_string().contains('\n'));
        }
    }
}

#[test]
fn every_example_of_the_documentation_is_a_valid_document() {
    let pages = pages(&["hosting.md", "sites.md", "panels.md"]);
    let mut examples = 0;
    for block in pages.iter().flat_map(|page| page.split("```json\n").skip(1)) {
        let (example, _) = block.split_once("```").expect("a closed block");
        let mut example = json::parse(example.as_bytes()).expect("JSON");
        examples += 1;
        if example.get("hosts").is_some() {
            Site::read("site", &example, &Value::Null, &[]).expect("a site");
            continue;
        }
        if let Some(defaults) = example.as_object_mut().and_then(|all| all.remove("defaults")) {
            Site::check_defaults(&defaults).expect("defaults");
        }
        example.as_object_mut().and_then(|all| all.remove("sites"));
        read(example);
    }
    assert!(examples >= 6);
}

/// Returns the pages of the documentation about the document, and these ones.
pub(crate) fn pages(others: &[&str]) -> Vec<String> {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let of_objects = std::fs::read_dir(docs.join("configuration")).expect("the pages of objects");
    let of_objects = of_objects.map(|entry| entry.expect("a page").path());
    let others = others.iter().chain(&["configuration.md"]).map(|name| docs.join(name));
    let read = |path| std::fs::read_to_string(path).expect("the pages are in docs/");
    of_objects.chain(others).map(read).collect()
}
