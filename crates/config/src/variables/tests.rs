use std::path::Path;

use howdah_template::Template;
use serde_json::{Value, json};

use super::*;
use crate::{ActionKind, Config};

/// Reads a document with these variables, whose first route redirects to `location`.
fn read(variables: Value, location: &str) -> Result<Template, Error> {
    let step = json!({"action": {"return": 301, "location": location}});
    let config = Config::from_value(json!({"variables": variables, "routes": [step]}))?;
    match &config.routes[0].steps[0].action.kind {
        ActionKind::Return(answer) => Ok(answer.location.clone().expect("a location")),
        other => panic!("{other:?}"),
    }
}

/// Expands `$x`; arguments are their names, and the address is that of the test.
fn value(variables: &Value, argument: &str) -> String {
    let template = read(variables.clone(), "$x").expect("valid");
    let mut out = Vec::new();
    template.expand(&mut out, |variable, out| write(variable, argument, out));
    String::from_utf8(out).expect("text")
}

fn write(variable: &Variable, argument: &str, out: &mut Vec<u8>) {
    match variable {
        Variable::Defined(defined) => {
            defined.write(out, &|variable, out| write(variable, argument, out));
        }
        _ => out.extend_from_slice(argument.as_bytes()),
    }
}

#[test]
fn a_map_finds_texts_then_patterns_then_the_default() {
    let variables = json!({"x": {"map": "$host", "default": "none", "values": {
        "a.org": "exact", "*.org": "any $method", "~^b\\.": "expression", "": "empty",
    }}});
    for (host, expected) in [
        ("a.org", "exact"),
        ("A.ORG", "exact"),
        ("c.org", "any c.org"),
        ("b.example", "expression"),
        ("B.example", "none"),
        ("", "empty"),
        ("other", "none"),
    ] {
        assert_eq!(value(&variables, host), expected, "{host}");
    }
}

#[test]
fn a_value_has_what_groups_of_its_expression_have_captured() {
    let variables = json!({
        "inner": {"map": "$host", "values": {"~^/(..)": "<$1>"}},
        "x": {"map": "$uri", "default": "none", "values": {
            "~^/old/(.*)$": "/new/$1?$inner",
            "~^/(?<year>[0-9]+)/(x)?(?<rest>.*)$": "/$rest/$year/$1$2",
            "~(?i)^/tag/(.*)$": "/tags/$1",
            "!~^/(.)": "no path",
            "*.html": "page",
        }},
    });
    for (text, expected) in [
        ("/old/a/b", "/new/a/b?<ol>"),
        ("/old/", "/new/?<ol>"),
        ("/2024/a", "/a/2024/2024"),
        ("/2024/xa", "/a/2024/2024x"),
        ("/TAG/A b\r\n", "none"),
        ("/TAG/A b", "/tags/A b"),
        ("a", "no path"),
        ("/$1.html", "page"),
    ] {
        assert_eq!(value(&variables, text), expected, "{text}");
    }
}

#[test]
fn a_group_that_a_value_has_not_is_an_error() {
    let problem = |values: Value| {
        let variables = json!({"x": {"map": "$uri", "values": values}});
        read(variables, "$x").unwrap_err().to_string()
    };
    for values in [json!({"~^/a": "$1"}), json!({"/a": "$1"}), json!({"!~^/(a)": "$1"})] {
        let problem = problem(values);
        assert!(problem.contains("the regular expression that has the value"), "{problem}");
    }
    let problem = problem(json!({"~^/(a)": "$2"}));
    assert!(
        problem.starts_with("/variables/x/values/~^%2F(a): ") && problem.contains("$2"),
        "{problem}"
    );
}

#[test]
fn a_network_is_found_by_address() {
    let variables = json!({"x": {"geo": "$remote_addr", "default": "far", "values": {
        "10.0.0.0/8": "inside", "10.1.0.0/16": "near", "10.1.2.3": "self", "fd00::/8": "six",
    }}});
    for (address, expected) in [
        ("10.200.0.1", "inside"),
        ("10.1.9.9", "near"),
        ("10.1.2.3", "self"),
        ("::ffff:10.1.2.3", "self"),
        ("fd12::1", "six"),
        ("192.0.2.1", "far"),
        ("unix:", "far"),
        ("", "far"),
    ] {
        assert_eq!(value(&variables, address), expected, "{address}");
    }
}

#[test]
fn shares_have_about_their_size_and_a_visitor_keeps_his() {
    let variables =
        json!({"x": {"split": "$remote_addr", "values": {"a": 10, "b": 0.5}, "default": "c"}});
    let mut counts = HashMap::new();
    for visitor in 0..4000 {
        let found = value(&variables, &format!("10.0.{}.{}", visitor / 256, visitor % 256));
        assert_eq!(found, value(&variables, &format!("10.0.{}.{}", visitor / 256, visitor % 256)));
        *counts.entry(found).or_insert(0) += 1;
    }
    assert!((300..500).contains(&counts["a"]), "{counts:?}");
    assert!((1..60).contains(&counts["b"]) && counts["c"] > 3400, "{counts:?}");
}

#[test]
fn a_definition_uses_those_in_front_of_it() {
    let variables = json!({
        "side": {"map": "$arg_a", "values": {"1": "left"}, "default": "right"},
        "x": {"map": "$side", "values": {"left": "$side!"}, "default": "?"},
    });
    assert_eq!((value(&variables, "1"), value(&variables, "2")), ("left!".into(), "?".into()));
    let error = read(
        json!({
            "x": {"map": "$side", "values": {}}, "side": {"map": "$uri", "values": {}},
        }),
        "/",
    );
    let error = error.unwrap_err().to_string();
    assert!(
        error.starts_with(
            "/variables/x/map: Unknown variable \"$side\"; \"side\" is defined behind"
        )
    );
}

#[test]
fn definitions_in_a_circle_are_named_in_their_order() {
    let map = |source: &str| json!({"map": source, "values": {}});
    for (variables, place, chain) in [
        (json!({"x": map("$x")}), "/variables/x/map", "$x uses $x"),
        (
            json!({"z": map("$uri"), "x": map("a${y}$z"), "y": map("$x")}),
            "/variables/x/map",
            "$x uses $y, which uses $x",
        ),
        (
            json!({
                "x": {"map": "$uri", "values": {"a": "$left"}},
                "left": map("$right"),
                "right": {"split": "$uri", "values": {"$x": 50, "": 50}},
            }),
            "/variables/x/values/a",
            "$x uses $left, which uses $right, which uses $x",
        ),
    ] {
        let error = read(variables, "/").unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "{place}: is a circle: {chain}; a definition can use only those in front of it"
            )
        );
    }
    // The circle of others is no problem of this definition.
    let error = read(json!({"x": map("$y"), "y": map("$z"), "z": map("$y")}), "/").unwrap_err();
    assert!(error.to_string().contains("\"y\" is defined behind \"x\""), "{error}");
    let error = read(json!({"x": map("$nothing$y"), "y": map("$x")}), "/").unwrap_err();
    assert!(error.to_string().contains("Unknown variable \"$nothing\""), "{error}");
}

#[test]
fn definitions_do_not_multiply_without_bound() {
    let mut variables = serde_json::Map::new();
    let mut last = "uri".to_owned();
    for letter in 'a'..='k' {
        let twice = format!("${last}${last}");
        variables.insert(letter.to_string(), json!({"map": twice, "values": {}, "default": twice}));
        last = letter.to_string();
    }
    let error = read(variables.into(), "/").unwrap_err().to_string();
    assert!(error.contains("more than 1000 variables"), "{error}");
}

#[test]
fn broken_definitions_are_refused_with_their_place() {
    for (variables, path, message) in [
        (json!({"x": {}}), "/variables/x", "\"split\" or \"secure_link\" is missing"),
        (json!({"x": {"secure_link": "$uri"}}), "/variables/x", "\"md5\" or \"secret\" is missing"),
        (
            json!({"x": {"secure_link": "$uri", "md5": "$1"}}),
            "/variables/x/md5",
            "no regular expression here has a group",
        ),
        (
            json!({"x": {"secure_link": "$uri", "md5": "a", "secret": "b"}}),
            "/variables/x/secret",
            "must not stand beside \"md5\"",
        ),
        (
            json!({"x": {"secure_link": "$uri", "md5": "a", "values": {}}}),
            "/variables/x/values",
            "must not stand beside \"secure_link\"",
        ),
        (json!({"x": {"map": "$uri", "values": {}, "md5": "a"}}), "/variables/x", "md5"),
        (json!({"x": {"map": "$uri"}}), "/variables/x", "\"values\" is missing"),
        (
            json!({"x": {"map": "$uri", "geo": "$uri", "values": {}}}),
            "/variables/x",
            "must have just one",
        ),
        (json!({"x1": {"map": "$uri", "values": {}}}), "/variables/x1", "letters and \"_\""),
        (json!({"uri": {"map": "$uri", "values": {}}}), "/variables/uri", "exists already"),
        (json!({"arg_x": {"map": "$uri", "values": {}}}), "/variables/arg_x", "exists already"),
        (json!({"x": {"map": "$no", "values": {}}}), "/variables/x/map", "Unknown variable"),
        (
            json!({"x": {"map": "$uri", "values": {"~(": "a"}}}),
            "/variables/x/values/~(",
            "no usable regular expression",
        ),
        (
            json!({"x": {"geo": "$remote_addr", "values": {"10/8": "a"}}}),
            "/variables/x/values/10%2F8",
            "an address or a network",
        ),
        (
            json!({"x": {"split": "$uri", "values": {"a": "10%"}}}),
            "/variables/x/values/a",
            "a number of percent",
        ),
        (
            json!({"x": {"split": "$uri", "values": {"a": 60, "b": 41}}}),
            "/variables/x/values/b",
            "more than 100 percent",
        ),
    ] {
        let error = read(variables, "/").expect_err(message);
        assert_eq!(error.path(), path, "{error}");
        assert!(error.to_string().contains(message), "{error}");
    }
    let hint = read(json!({"backend": {"map": "$uri", "values": {}}}), "$backent").unwrap_err();
    assert!(hint.to_string().contains("did you mean \"$backend\"?"), "{hint}");
}

#[test]
fn documents_name_a_database_and_a_path() {
    let document = |variable: Value| json!({"variables": {"x": variable}});
    let good = json!({"geo": "$remote_addr", "database": "/geo/a.mmdb", "path": "a.b"});
    let config = Config::from_value(document(good)).unwrap();
    let [(place, database)] = config.geo_databases.as_slice() else { panic!("{config:?}") };
    assert_eq!(
        (place.as_str(), &*database.file),
        ("/variables/x/database", Path::new("/geo/a.mmdb"))
    );
    assert!(Arc::ptr_eq(database, &GeoDatabase::at(Path::new("/geo/a.mmdb"))));
    assert_eq!(config.router_paths()[0].path, "/variables/x/database");
    for (variable, problem) in [
        (json!({"geo": "$uri", "database": "a.mmdb", "path": "a"}), "/variables/x/database: "),
        (json!({"geo": "$uri", "database": "/a.mmdb"}), "\"path\""),
        (json!({"geo": "$uri", "database": "/a.mmdb", "path": "a..b"}), "/variables/x/path: "),
        (json!({"geo": "$uri", "database": "/a.mmdb", "path": "a", "values": {}}), "\"values\""),
        (json!({"map": "$uri", "database": "/a.mmdb", "path": "a"}), "\"values\""),
        (json!({"geo": "$uri", "path": "a", "values": {}}), "\"path\""),
    ] {
        let error = Config::from_value(document(variable.clone())).unwrap_err().to_string();
        assert!(error.contains(problem), "{variable}: {error}");
    }
}
