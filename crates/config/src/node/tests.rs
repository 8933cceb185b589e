use serde_json::json;

use super::*;
use crate::Config;
use crate::key::{COUNT, Kind, SECONDS};

static THING: Shape = Shape {
    name: "thing",
    parts: &[&[
        Key::new("path", Kind::Text, "Path").required(),
        Key::new("paths", Kind::Texts, "Further paths").default("[]"),
        Key::new("count", Kind::Integer(2, 4), "Count").default("3"),
        Key::new("time", Kind::Seconds(1), "Time").default("60"),
        Key::new("bytes", Kind::Bytes(5), "Bytes"),
        Key::switch("on", true, "On"),
        Key::switch("off", false, "Off"),
        Key::new("depth", Kind::Integer(0, 9), "Depth").beside("count"),
        Key::new("old", Kind::Text, "Of Unit").unavailable(),
        Key::new("origin", Kind::Text, "Origin").internal(),
    ]],
};

/// Calls `read` with the root of a document. All errors that were kept are appended to its error.
fn reading<T>(
    document: Value,
    read: impl Fn(&Node<'_>) -> Result<T, Error>,
) -> Result<T, Vec<String>> {
    let mistakes = Mistakes::default();
    let scope = Scope {
        definitions: Definitions::of(&document),
        defaults: Defaults::default(),
        groups: &Groups::default(),
        variables: &DefinedVariables::default(),
        mistakes: &mistakes,
    };
    let read = read(&Node::root(&document, &scope));
    mistakes.finish(read).map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

/// Returns the only error of a document.
fn refused<T: fmt::Debug>(document: Value, read: impl Fn(&Node<'_>) -> Result<T, Error>) -> String {
    let mut errors = reading(document, read).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors.remove(0)
}

#[test]
fn a_path_percent_encodes_what_would_end_a_step_or_a_line() {
    let document = json!({"applications": {"a/%\n\u{7f}\u{85}é": {"type": "x"}}});
    let error = Config::from_value(document).expect_err("there is no such type");
    assert_eq!(error.path(), "/applications/a%2F%25%0A%7F%C2%85é/type");
}

#[test]
fn a_number_at_an_end_of_its_range_is_accepted_and_the_next_one_refused() {
    let most = u32::try_from(COUNT).unwrap();
    for number in [7, most] {
        assert_eq!(reading(json!(number), |node| node.count(7)), Ok(number));
    }
    for number in [6, i64::from(most) + 1] {
        let line = refused(json!(number), |node| node.count(7));
        assert!(line.contains(&format!("between 7 and 2147483647, but is {number}")), "{line}");
    }
    for bytes in [5, i64::MAX] {
        assert_eq!(reading(json!(bytes), |node| node.size(5)), Ok(bytes.unsigned_abs()));
    }
    let line = refused(json!(4), |node| node.size(5));
    assert!(line.ends_with("must be 5 or more, but is 4"), "{line}");
    let most = SECONDS.unsigned_abs();
    for seconds in [1, most] {
        let time = Duration::from_secs(seconds);
        assert_eq!(reading(json!(seconds), |node| node.seconds(1)), Ok(time));
    }
    for seconds in [0, most + 1] {
        let line = refused(json!(seconds), |node| node.seconds(1));
        assert!(line.contains("must be between 1 and 2147483, but is"), "{line}");
    }
}

#[test]
fn the_hint_is_the_value_that_was_written_as_a_text() {
    let wrong = |text: &str, allowed: &str| {
        refused(json!(text), |node| Err::<(), _>(node.wrong_type(allowed)))
    };
    for (text, allowed, meant) in [
        ("12", "an integer", "12"),
        ("-3", "a number or false", "-3"),
        ("On", "true or false", "true"),
        ("0", "a boolean or an object", "false"),
    ] {
        let line = wrong(text, allowed);
        assert!(line.ends_with(&format!("write {meant}, without quotes")), "{line}");
    }
    for (text, allowed) in [("12", "an object"), ("x", "an integer"), ("on", "an array")] {
        assert!(!wrong(text, allowed).contains("write"), "{text} {allowed}");
    }
    for (text, meant) in [("2m", "120"), ("1h", "3600")] {
        let line = refused(json!(text), |node| node.seconds(0));
        assert!(line.ends_with(&format!("write {meant}, without quotes or a unit")), "{line}");
    }
    let line = refused(json!("2m"), |node| node.size(0));
    assert!(line.ends_with("write 2097152, without quotes or a unit"), "{line}");
}

#[test]
fn a_name_has_a_character_and_no_null() {
    assert_eq!(reading(json!("a b"), |node| node.text().map(str::to_owned)), Ok("a b".to_owned()));
    for text in ["", "a\0"] {
        refused(json!(text), |node| node.text().map(str::to_owned));
    }
}

#[test]
fn a_directory_is_absolute_and_does_not_lead_up() {
    let directory = |text: &str| reading(json!(text), |node| node.directory(text));
    assert_eq!(directory("//a/./b/"), Ok("/a/b".into()));
    for text in ["a", "/a/../b", "..", ""] {
        assert!(directory(text).is_err(), "{text}");
    }
}

#[test]
fn an_absent_key_has_the_default_of_the_table() {
    let read = |document| {
        reading(document, |node| {
            let object = node.object(&THING)?;
            let strings = |node: &Node<'_>| Ok(node.strings()?.count());
            Ok((
                object.switch("on")?,
                object.switch("off")?,
                object.integer_or_default::<u8>("count")?,
                object.seconds_or_default("time")?.as_secs(),
                object.read_or_default("paths", strings)?,
            ))
        })
    };
    assert_eq!(read(json!({})), Ok((true, false, 3, 60, 0)));
    let all = json!({"on": false, "off": true, "count": 4, "time": 1, "paths": "/a"});
    assert_eq!(read(all), Ok((false, true, 4, 1, 1)));
    let wrong = read(json!({"count": 5, "time": 0, "paths": 1, "on": 1})).unwrap_err();
    let paths: Vec<_> = wrong.iter().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(paths, ["/on", "/count", "/time", "/paths"]);
}

#[test]
fn a_value_obeys_the_range_of_the_table() {
    let number = |document, key: &'static str| {
        reading(document, |node| node.object(&THING)?.required_integer::<u8>(key))
    };
    assert_eq!(number(json!({"count": 2}), "count"), Ok(2));
    for count in [1, 5] {
        let line = number(json!({"count": count}), "count").unwrap_err().remove(0);
        assert!(line.contains("between 2 and 4"), "{line}");
    }
    let bytes =
        |bytes: u64| reading(json!({"bytes": bytes}), |node| node.object(&THING)?.bytes("bytes"));
    assert_eq!(bytes(5), Ok(Some(5)));
    assert!(bytes(4).unwrap_err()[0].contains("5 or more"));
}

#[test]
fn a_missing_key_is_named_or_the_one_that_was_mistyped() {
    let missing = |document| {
        refused(document, |node| node.object(&THING)?.required("path").map(|node| node.place()))
    };
    assert_eq!(missing(json!({})), "the document: \"path\" is missing");
    // It is a key of its own.
    assert!(missing(json!({"paths": "/a"})).ends_with("\"path\" is missing"));
    let line = missing(json!({"pathh": "/a"}));
    assert!(line.contains("unknown key \"pathh\"") && line.ends_with("\"path\"?"), "{line}");
    let either = |document| {
        refused(document, |node| Err::<(), _>(node.object(&THING)?.missing(&["path", "time"])))
    };
    assert!(either(json!({})).ends_with("one of \"path\" or \"time\" is missing"));
}

#[test]
fn each_key_that_is_not_allowed_is_refused() {
    let end = |document| reading(document, |node| node.object(&THING)?.end());
    let allowed = json!({"path": "/", "count": 2, "depth": 1, "origin": "x"});
    assert_eq!(end(allowed), Ok(()));
    let errors = end(json!({"depth": 1, "cuont": 2, "zzzzzz": 3})).unwrap_err();
    assert_eq!(errors.len(), 3, "{errors:?}");
    let of = |name: &str| {
        let quoted = format!("unknown key \"{name}\"");
        errors.iter().find(|line| line.contains(&quoted)).unwrap_or_else(|| panic!("{name}"))
    };
    assert!(of("cuont").ends_with("did you mean \"count\"?"));
    // Neither keys beside an absent one nor those of the server itself.
    let all =
        "allowed here: \"path\", \"paths\", \"count\", \"time\", \"bytes\", \"on\" or \"off\"";
    assert!(of("zzzzzz").ends_with(all), "{errors:?}");
    assert!(of("depth").contains("unknown key"));
    let errors = end(json!({"old": "x"})).unwrap_err();
    assert!(errors[0].contains("\"old\" is not available"), "{errors:?}");
}

#[test]
fn words_are_joined_as_in_a_sentence() {
    assert_eq!(quoted(&[]), "");
    assert_eq!(quoted(&["a"]), "\"a\"");
    assert_eq!(quoted(&["a", "b"]), "\"a\" or \"b\"");
    assert_eq!(quoted(&["a", "b", "c"]), "\"a\", \"b\" or \"c\"");
}

#[test]
fn an_element_is_named_by_its_index() {
    let line = refused(json!([1, "x"]), |node| {
        node.elements()?
            .map(|element| element.boolean().or(element.integer(1..=1).map(|_| true)))
            .collect::<Result<Vec<_>, _>>()
    });
    assert!(line.starts_with("/1: element 1 must be"), "{line}");
}
