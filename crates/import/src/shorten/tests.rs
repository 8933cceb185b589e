use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Shortens a document with these routes, and returns its routes.
fn routes(routes: Value) -> Value {
    let mut document =
        json!({ "listeners": { "*:80": { "pass": "routes/site" } }, "routes": routes });
    shorten(&mut document);
    document["routes"].take()
}

#[test]
fn a_route_with_one_way_to_it_stands_where_it_is_used() {
    let found = routes(json!({
        "php": [
            { "match": { "file": "/srv$uri" }, "action": { "pass": "applications/php" } },
            { "action": { "return": 404 } },
        ],
        "files": [{ "match": { "uri": "/a" }, "action": { "return": 204 } }],
        "site": [
            { "match": { "uri": "~\\.php$" }, "action": { "pass": "routes/php" } },
            { "action": { "pass": "routes/files" } },
        ],
    }));
    let expected = json!({ "site": [
        { "match": { "uri": "~\\.php$", "file": "/srv$uri" }, "action": { "pass": "applications/php" } },
        { "match": { "uri": "~\\.php$" }, "action": { "return": 404 } },
        { "match": { "uri": "/a" }, "action": { "return": 204 } },
        { "action": { "return": 404 } },
    ] });
    assert_eq!(found, expected);
}

#[test]
fn steps_with_which_both_routes_end_stand_once() {
    let ends = [
        json!({ "match": { "uri": "*/" }, "action": { "return": 403 } }),
        json!({ "match": { "host": "a" }, "action": { "share": "/a$uri" } }),
        json!({ "action": { "share": "/srv$uri" } }),
    ];
    let rewrite = json!({ "rewrite": "/s.php?$1", "pass": "routes/site" });
    let mut missing = vec![json!({ "match": { "uri": "~^/(.*)" }, "action": rewrite })];
    missing.extend(ends.clone());
    let mut site =
        vec![json!({ "match": { "file": "!/srv$uri" }, "action": { "pass": "routes/missing" } })];
    site.extend(ends.clone());
    let found = routes(json!({ "missing": missing, "site": site }));
    let conditions = json!({ "file": "!/srv$uri", "uri": "~^/(.*)" });
    let mut expected = vec![json!({ "match": conditions, "action": rewrite })];
    expected.extend(ends);
    assert_eq!(found, json!({ "site": expected }));
}

#[test]
fn a_route_stays_if_its_steps_would_mean_something_else() {
    let kept = json!({
        // Both conditions about the path have to hold.
        "site": [
            { "match": { "uri": "/a*" }, "action": { "pass": "routes/below" } },
            { "match": { "uri": "~^/b(.*)$" }, "action": { "pass": "routes/group" } },
            { "match": { "uri": "/c" }, "action": { "pass": "routes/options", "allow": [] } },
            { "match": { "uri": "/d" }, "action": { "pass": "routes/twice" } },
            { "match": { "uri": "/e" }, "action": { "rewrite": "/f", "pass": "routes/twice" } },
            { "match": { "uri": "/g" }, "action": { "pass": "routes/site" } },
        ],
        "below": [
            { "match": { "uri": "*.php" }, "action": { "return": 403 } },
            { "action": { "return": 204 } },
        ],
        // The group is that of the step in front, or none.
        "group": [{ "match": { "file": "/srv$uri" }, "action": { "rewrite": "/$1", "pass": "routes/site" } }],
        "options": [{ "action": { "return": 204 } }],
        "twice": [{ "match": { "method": "GET" }, "action": { "return": 204 } }],
    });
    assert_eq!(routes(kept.clone()), kept);
}

#[test]
fn neighbours_with_one_action_become_one_step() {
    let found = routes(json!({ "site": [
        { "match": { "uri": "/a" }, "action": { "return": 403 } },
        { "match": { "uri": ["~^/b", "/a"] }, "action": { "return": 403 } },
        { "match": { "uri": ["/c", "!/d"] }, "action": { "return": 403 } },
        { "match": { "uri": "~^/e(.)" }, "action": { "return": 301, "location": "/$1" } },
        { "match": { "uri": "~^/f(.)" }, "action": { "return": 301, "location": "/$1" } },
        { "match": { "host": "g" }, "action": { "share": "/srv$uri" } },
        { "action": { "share": "/srv$uri" } },
        { "match": { "uri": "/never" }, "action": { "return": 204 } },
    ] }));
    let expected = json!({ "site": [
        { "match": { "uri": ["/a", "~^/b"] }, "action": { "return": 403 } },
        { "match": { "uri": ["/c", "!/d"] }, "action": { "return": 403 } },
        { "match": { "uri": "~^/e(.)" }, "action": { "return": 301, "location": "/$1" } },
        { "match": { "uri": "~^/f(.)" }, "action": { "return": 301, "location": "/$1" } },
        { "action": { "share": "/srv$uri" } },
    ] });
    assert_eq!(found, expected);
}

#[test]
fn the_same_routes_have_one_name_wherever_it_stands() {
    let mut document = json!({
        "listeners": { "*:80": { "pass": "routes/hosts" } },
        "routes": {
            "b": [
                { "match": { "uri": "/x" }, "action": { "return": 204 } },
                { "action": { "rewrite": "/x", "pass": "routes/b" } },
            ],
            "a": [
                { "match": { "uri": "/x" }, "action": { "return": 204 } },
                { "action": { "rewrite": "/x", "pass": "routes/a" } },
            ],
            "kept": [{ "action": { "pass": "routes/a" } }],
            "longer": [{ "action": { "return": 204 } }],
            "short": [{ "action": { "return": 204 } }],
            "hosts": [{ "action": { "pass": "routes/a" } }],
        },
        "applications": { "php": {
            "type": "php",
            "internal_redirect": "routes/b",
            "named_redirects": { "@a": "routes/a", "@l": "routes/longer", "@s": "routes/short" },
        } },
        "error_logs": { "kept": "/var/log/kept" },
    });
    shorten(&mut document);
    assert_eq!(document["listeners"]["*:80"]["pass"], "routes/b");
    assert_eq!(document["applications"]["php"]["named_redirects"]["@a"], "routes/b");
    let names: Vec<&String> = document["routes"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["b", "short", "kept"]);
}

#[test]
fn variables_of_all_requests_to_a_server_stand_in_its_application() {
    let to = |application: &str, environment: Value| json!({ "action": { "pass": application, "environment": environment } });
    let mut document = json!({
        "listeners": { "*:80": { "pass": "routes/site" } },
        "routes": { "site": [
            to("applications/a", json!({ "SERVER_NAME": "x", "A": "1", "B": "$uri" })),
            to("applications/a/other", json!({ "SERVER_NAME": "x", "A": "2", "B": "$uri" })),
            to("applications/b", json!({ "SERVER_NAME": "x" })),
            { "action": { "share": "/srv$uri", "scripts": "applications/b" } },
            to("applications/c", json!({ "SERVER_NAME": "x" })),
        ] },
        "applications": {
            "a": { "type": "fastcgi", "params": { "S": "h" } },
            "b": { "type": "fastcgi" },
            "c": { "type": "php" },
        },
    });
    let before = document.clone();
    parameters::share(&mut document);
    assert_eq!(document["applications"]["a"]["params"], json!({ "S": "h", "SERVER_NAME": "x" }));
    let step = |number: usize| document["routes"]["site"][number].clone();
    assert_eq!(step(0), to("applications/a", json!({ "A": "1", "B": "$uri" })));
    assert_eq!(step(1), to("applications/a/other", json!({ "A": "2", "B": "$uri" })));
    for number in [2, 3, 4] {
        assert_eq!(step(number), before["routes"]["site"][number]);
    }
}

/// The answer to a request, as its status.
fn answer(document: &Value, path: &str, host: &str) -> String {
    let mut path = path.to_owned();
    let mut target = document["listeners"]["*:80"]["pass"].as_str().unwrap().to_owned();
    for _ in 0..60 {
        let steps = &document["routes"][target.strip_prefix("routes/").unwrap()];
        let Value::Array(steps) = steps else { return format!("no {target}") };
        let holds = |step: &&Value| {
            holds(&step["match"]["uri"], &path) && holds(&step["match"]["host"], host)
        };
        let Some(step) = steps.iter().find(holds) else { return "404".to_owned() };
        let action = &step["action"];
        if let Some(rewrite) = action["rewrite"].as_str() {
            rewrite.clone_into(&mut path);
        }
        match action["pass"].as_str() {
            Some(pass) => pass.clone_into(&mut target),
            None => return action["return"].to_string(),
        }
    }
    "loop".to_owned()
}

fn holds(patterns: &Value, text: &str) -> bool {
    let all: Vec<&str> = match patterns {
        Value::Null => return true,
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    };
    let accepts = |pattern: &str| match pattern.strip_suffix('*') {
        Some(start) => text.starts_with(start),
        None => text == pattern,
    };
    let (excluded, accepted): (Vec<&str>, Vec<&str>) =
        all.iter().partition(|text| text.starts_with('!'));
    !excluded.iter().any(|text| accepts(&text[1..]))
        && (accepted.is_empty() || accepted.iter().any(|pattern| accepts(pattern)))
}

const PATHS: [&str; 5] = ["/", "/a", "/a/b", "/b", "/c"];

fn any_conditions() -> impl Strategy<Value = Value> {
    let pattern = prop::sample::select(vec!["/", "/a", "/a*", "/b", "/*", "!/a", "!/b*"]);
    let uri = prop_oneof![
        Just(Value::Null),
        pattern.clone().prop_map(Value::from),
        prop::collection::vec(pattern, 1..4).prop_map(Value::from),
    ];
    let host = prop::sample::select(vec![Value::Null, "x".into(), "y".into(), json!(["x", "y"])]);
    (uri, host).prop_map(|(uri, host)| {
        let all: Object = [("uri", uri), ("host", host)]
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.to_owned(), value))
            .collect();
        all.into()
    })
}

fn any_action() -> impl Strategy<Value = Value> {
    let target = || (0..6_usize).prop_map(|number| format!("routes/r{number}"));
    let path = prop::sample::select(PATHS.to_vec());
    prop_oneof![
        prop::sample::select(vec![204, 403, 404]).prop_map(|status| json!({ "return": status })),
        target().prop_map(|pass| json!({ "pass": pass })),
        (path, target()).prop_map(|(rewrite, pass)| json!({ "rewrite": rewrite, "pass": pass })),
    ]
}

proptest! {
    #[test]
    fn the_answers_are_the_same(
        routes in prop::collection::vec(
            prop::collection::vec((any_conditions(), any_action()), 0..5),
            6,
        ),
    ) {
        let steps = |steps: Vec<(Value, Value)>| -> Value {
            let step = |(conditions, action): (Value, Value)| {
                if conditions.as_object().is_some_and(Object::is_empty) {
                    json!({ "action": action })
                } else {
                    json!({ "match": conditions, "action": action })
                }
            };
            steps.into_iter().map(step).collect()
        };
        let routes: Object = routes
            .into_iter()
            .enumerate()
            .map(|(number, all)| (format!("r{number}"), steps(all)))
            .collect();
        let before = json!({ "listeners": { "*:80": { "pass": "routes/r0" } }, "routes": routes });
        let mut after = before.clone();
        shorten(&mut after);
        for path in PATHS {
            for host in ["x", "y", "z"] {
                prop_assert_eq!(answer(&after, path, host), answer(&before, path, host), "{} {}", path, host);
            }
        }
    }
}
