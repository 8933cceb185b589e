use serde_json::{Value, json};

use crate::error::MAX_BYTES;
use crate::{Config, Defaults, parse_with};

/// Returns the lines of all mistakes of a document.
fn mistakes(document: &Value) -> Vec<String> {
    let error = Config::from_value(document.clone()).expect_err("it has mistakes");
    error.lines(ToString::to_string).lines().map(str::to_owned).collect()
}

/// Checks the paths of all mistakes of a document.
#[track_caller]
fn assert_places(document: &Value, expected: &[&str]) {
    let lines = mistakes(document);
    let places = lines.iter().map(|line| line.split(": ").next().unwrap_or_default());
    assert_eq!(places.collect::<Vec<_>>(), expected, "{lines:#?}");
}

/// Returns a document without mistakes.
fn sound() -> Value {
    json!({
        "variables": {"tier": {"map": "$host", "values": {"a": "b"}}},
        "listeners": {"*:80": {"pass": "routes/main"}, "*:81": {"pass": "applications/a"}},
        "routes": {
            "main": [{"action": {"pass": "applications/b/x"}}, {"action": {"pass": "upstreams/u"}}],
            "other": [{"action": {"return": 200}}],
        },
        "applications": {
            "a": {"type": "php", "root": "/a"},
            "b": {"type": "php", "targets": {"x": {"root": "/b"}}},
        },
        "upstreams": {"u": {"servers": {"127.0.0.1:1": {}}}},
    })
}

#[test]
fn each_named_part_tells_its_own_mistake() {
    let mut document = sound();
    Config::from_value(document.clone()).expect("valid");
    document["variables"]["other"] = json!({"map": "$host", "values": 5});
    document["settings"] = json!({"listen_threads": 0});
    document["listeners"]["*:82"] = json!({"pass": "routes/main", "backlo": 5});
    document["listeners"]["*:83"] = json!({"pass": "routes/none"});
    document["listeners"]["*:84"] =
        json!({"pass": "routes/main", "tls": {"certificate": ["a/b", "c", "d/e"], "sessio": 1}});
    document["routes"]["main"][0]["action"]["return"] = json!(200);
    document["routes"]["main"][1]["match"] = json!({"uri": 5});
    document["routes"]["other"] = json!(7);
    document["applications"]["a"]["root"] = json!(5);
    document["applications"]["c"] = json!({"type": "fastcgi"});
    document["upstreams"]["u"]["tries"] = json!(0);
    document["upstreams"]["v"] = json!({});
    document["access_log"] = json!(5);
    document["no_such_key"] = json!(1);
    assert_places(
        &document,
        &[
            "/variables/other/values",
            "/settings/listen_threads",
            "/listeners/*:82",
            "/listeners/*:83/pass",
            "/listeners/*:84/tls/certificate/0",
            "/listeners/*:84/tls/certificate/2",
            "/listeners/*:84/tls",
            "/routes/main/0/action",
            "/routes/main/1/match/uri",
            "/routes/other",
            "/applications/a/root",
            "/applications/c",
            "/upstreams/u/tries",
            "/upstreams/v",
            "/access_log",
            "the document",
        ],
    );
}

#[test]
fn an_object_tells_all_its_unknown_keys() {
    let mut document = sound();
    let application = &mut document["applications"]["a"];
    (application["indx"], application["scrip"]) = (json!("a.php"), json!("b.php"));
    application["roo"] = json!("/c");
    let lines = mistakes(&document);
    let keys = ["indx", "scrip", "roo"].map(|key| format!("unknown key \"{key}\""));
    assert!(
        lines.len() == 3 && lines.iter().zip(&keys).all(|(l, key)| l.contains(key)),
        "{lines:#?}"
    );
}

/// A value that is wrong hides no key that is.
#[test]
fn an_object_tells_its_wrong_values_and_its_unknown_keys() {
    let mut document = sound();
    document["applications"]["a"] = json!({
        "type": "php",
        "root": "/a",
        "limits": {"timeout": "30s", "memory": "128M", "reqests": 5},
        "processes": "many",
        "pm.max_children": 5,
        "extension": "gd",
    });
    document["settings"] = json!({"http": {"idle_timeout": "5", "header_time": 5}, "smpt": {}});
    document["listeners"]["*:80"]["forwarded"] = json!({"client_ip": 5, "source": "10.0.0.0/8"});
    document["routes"]["other"][0] = json!({
        "match": {"uri": 5, "host": 6, "metod": "GET"},
        "action": {"return": 200, "response_headers": 5, "respond_headers": {}},
    });
    let all = mistakes(&document);
    let unknown: Vec<_> = all.iter().filter(|line| line.contains("unknown key")).collect();
    let keys = ["reqests", "pm.max_children", "extension", "header_time", "smpt", "metod"];
    for key in keys.iter().chain(&["respond_headers"]) {
        assert!(unknown.iter().any(|line| line.contains(key)), "{key}: {all:#?}");
    }
    for key in
        ["timeout", "memory", "processes", "idle_timeout", "client_ip", "uri", "response_headers"]
    {
        let place = format!("/{key}: ");
        assert!(all.iter().any(|line| line.contains(&place)), "{key}: {all:#?}");
    }
    assert!(!all.iter().any(|line| line.contains("is missing")), "{all:#?}");
}

#[test]
fn the_first_mistake_stays_the_error() {
    let document = json!({"listeners": {"x": {}}, "routes": [{}, {}]});
    let error = Config::from_value(document).expect_err("it has mistakes");
    assert_eq!((error.path(), error.others().len()), ("/listeners/x", 2));
    assert!(!error.to_string().contains('\n'));
    let alone = Config::from_value(json!({"routes": [{}]})).expect_err("it has a mistake");
    assert_eq!(alone.others(), []);
    assert_eq!(alone.lines(ToString::to_string), alone.to_string());
}

#[test]
fn a_part_with_a_mistake_makes_no_other_part_wrong() {
    let mut document = sound();
    document["routes"]["other"][0]["action"] = json!({"return": 301, "location": "/$tier"});
    for (pointer, value, place) in [
        ("/applications/a/type", json!("pph"), "/applications/a/type"),
        ("/applications/a", json!(5), "/applications/a"),
        ("/applications/b", json!(5), "/applications/b"),
        ("/applications/b/targets", json!(5), "/applications/b/targets"),
        ("/applications/b/targets/x", json!(5), "/applications/b/targets/x"),
        ("/applications/b/targets/x/root", json!(5), "/applications/b/targets/x/root"),
        ("/applications", json!([]), "/applications"),
        ("/upstreams/u/servers", json!(5), "/upstreams/u/servers"),
        ("/upstreams", json!(null), "/upstreams"),
        ("/routes/main", json!(5), "/routes/main"),
        ("/routes/main/0", json!({}), "/routes/main/0"),
        ("/routes", json!(5), "/routes"),
        ("/variables/tier/values", json!(5), "/variables/tier/values"),
        ("/variables/tier", json!(5), "/variables/tier"),
        ("/variables", json!(5), "/variables"),
    ] {
        let mut document = document.clone();
        *document.pointer_mut(pointer).expect(pointer) = value;
        assert_places(&document, &[place]);
    }
    // A name of a variable that cannot be one.
    document["variables"]["x1"] = json!({"map": "$host", "values": {}});
    document["routes"]["other"][0]["action"]["location"] = json!("/$x1");
    assert_places(&document, &["/variables/x1"]);
}

#[test]
fn a_mistyped_section_is_one_mistake() {
    for (section, mistyped) in
        [("applications", "aplications"), ("routes", "route"), ("upstreams", "upstrems")]
    {
        let mut document = sound();
        let members = document.as_object_mut().expect("an object");
        let value = members.remove(section).expect(section);
        members.insert(mistyped.to_owned(), value);
        let lines = mistakes(&document);
        assert_eq!(lines.len(), 1, "{lines:#?}");
        assert!(lines[0].contains(&format!("did you mean \"{section}\"")), "{lines:#?}");
    }
    // The keys that a document may have are not taken for another one.
    let keys = ["variables", "settings", "listeners", "access_log", "included"];
    for section in ["applications", "routes", "upstreams"] {
        for key in keys.iter().chain(&["applications", "routes", "upstreams"]) {
            let found = crate::suggest::nearest(key, [section]);
            assert!(found.is_none() || *key == section, "{key}, {section}");
        }
    }
}

#[test]
fn a_name_that_is_not_defined_is_told_once() {
    let mut document = sound();
    for port in 1000..1050 {
        document["listeners"][format!("*:{port}")] = json!({"pass": "applications/none"});
    }
    document["listeners"]["*:2000"] = json!({"pass": "applications/nothing"});
    assert_places(&document, &["/listeners/*:1000/pass", "/listeners/*:2000/pass"]);
}

#[test]
fn parts_that_do_not_agree_are_told_as_well() {
    let cache = |size: u64| json!({"return": 200, "cache": {"name": "c", "size": size}});
    let document = json!({
        "listeners": {"*:80": {"pass": "routes"}, "0.0.0.0:80": {"pass": "routes"}},
        "routes": [{"action": cache(10 << 20)}, {"action": cache(20 << 20)}, {}],
    });
    let lines = mistakes(&document);
    assert!(lines.iter().any(|line| line.contains("the same address")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("/routes/2: ")), "{lines:#?}");
}

#[test]
fn twenty_mistakes_are_shown_and_the_reading_ends_at_a_limit() {
    let steps = |count: usize| json!({ "routes": vec![json!({}); count] });
    let last = |count| mistakes(&steps(count)).last().cloned().unwrap_or_default();
    assert_eq!(mistakes(&steps(20)).len(), 20);
    assert_eq!(mistakes(&steps(21)).len(), 21);
    assert_eq!(last(21), "and 1 more");
    assert_eq!(last(99), "and 79 more");
    for count in [100, 101, 100_000] {
        assert_eq!(last(count), "and at least 80 more");
    }
    // Long names.
    let long = |length: usize| {
        let routes = vec![json!([{}]); 90].into_iter().enumerate();
        let name = |(index, route)| (format!("{}{index}", "x".repeat(length)), route);
        json!({"routes": Value::Object(routes.map(name).collect())})
    };
    for length in [300, 3000, 30_000] {
        let error = Config::from_value(long(length)).expect_err("it has mistakes");
        let text = error.lines(ToString::to_string);
        assert!(text.len() < MAX_BYTES + length + 500, "{length}: {}", text.len());
    }
    let lines = mistakes(&long(300));
    assert!(lines.len() == 21 && lines[20].starts_with("and at least "), "{lines:#?}");
}

#[test]
fn a_syntax_error_is_alone() {
    let error = parse_with(b"{\"routes\": [{}, {},", &Defaults::default()).expect_err("no JSON");
    assert_eq!(error.others(), []);
}
