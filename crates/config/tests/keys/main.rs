//! The files that are generated from the tables of keys are current, and the tables agree with the
//! reader.
//!
//! `make generate` writes the files; without `GENERATE` in the environment, these tests only
//! compare them.

mod example;
mod tables;
mod validator;

use std::path::{Path, PathBuf};

use howdah_config::{Config, DOCUMENT, Key, Kind, Presence, Shape};
use serde_json::Value;

/// Keys that are read as absent, which another part of the server takes for the default; and one
/// that a preset of the example document sets.
const ABSENT: [(&str, &str); 11] = [
    ("action", "intercept_errors"),
    ("action", "pass_request_body"),
    ("action", "pass_request_headers"),
    ("application", "limit_extensions"),
    ("cache", "heuristic"),
    ("cache", "memory"),
    ("isolation", "new_privs"),
    ("smtp", "host"),
    ("smtp", "port"),
    ("smtp", "timeout"),
    ("upstream_timeouts", "tunnel"),
];

/// Returns the path of a file of the project.
fn project(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(project(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Writes a generated file, or compares it.
fn generate(name: &str, content: &str) {
    if read(name) == content {
        return;
    }
    assert!(std::env::var_os("GENERATE").is_some(), "{name} is not current; run \"make generate\"");
    std::fs::write(project(name), content).unwrap_or_else(|error| panic!("{name}: {error}"));
}

/// Returns true if documents may have the key, and the documentation describes it.
fn is_published(key: &Key) -> bool {
    !matches!(key.presence, Presence::Unavailable | Presence::Internal)
}

/// Returns true if a value has the type; of the keys of objects, only the names count.
fn accepts(kind: &Kind, value: &Value) -> bool {
    match kind {
        Kind::Text | Kind::Matching(_) => value.is_string(),
        Kind::Switch => value.is_boolean(),
        Kind::Off => *value == Value::Bool(false),
        Kind::Integer(low, high) => value.as_i64().is_some_and(|n| (*low..=*high).contains(&n)),
        Kind::Seconds(low) | Kind::Bytes(low) => value.as_i64().is_some_and(|n| n >= *low),
        Kind::Number => value.is_number(),
        Kind::Texts => accepts(&Kind::OneOrMany(&Kind::Text), value),
        Kind::Word(words) => value.as_str().is_some_and(|word| words.contains(&word)),
        Kind::Object(_) | Kind::Recursive(_) => value.as_object().is_some_and(|members| {
            let has = |name: &String| shapes(kind).iter().any(|shape| shape.key(name).is_some());
            members.keys().all(has)
        }),
        Kind::Named(kind) => {
            value.as_object().is_some_and(|members| members.values().all(|one| accepts(kind, one)))
        }
        Kind::Array(kind) => {
            value.as_array().is_some_and(|elements| elements.iter().all(|one| accepts(kind, one)))
        }
        Kind::OneOrMany(kind) => accepts(kind, value) || accepts(&Kind::Array(kind), value),
        Kind::Either(kinds) => kinds.iter().any(|kind| accepts(kind, value)),
        Kind::Null => value.is_null(),
    }
}

#[test]
fn the_schema_is_current() {
    generate("docs/howdah.schema.json", &format!("{:#}\n", howdah_config::schema()));
}

/// Editors show by the schema what is wrong: nothing of a document with every key, and every
/// misspelled key of it.
#[test]
fn the_schema_accepts_every_key_and_refuses_each_misspelled_one() {
    let schema = howdah_config::schema();
    let is_valid = |document: &Value| validator::is_valid(&schema, &schema, document);
    let document = example::document();
    assert!(is_valid(&document));
    for (shape, key, path) in example::keys(&document) {
        let (above, _) = path.rsplit_once('/').unwrap();
        let mut changed = document.clone();
        let members = changed.pointer_mut(above).unwrap().as_object_mut().unwrap();
        let value = members.shift_remove(key.name).unwrap();
        members.insert(format!("{}x", key.name), value);
        assert!(!is_valid(&changed), "{} of {}", key.name, shape.name);
    }
    for required in ["hosts", "root"] {
        let mut changed = document.clone();
        changed["sites"]["atelier"].as_object_mut().unwrap().shift_remove(required);
        assert!(!is_valid(&changed), "{required}");
    }
}

#[test]
fn the_example_has_every_key_and_is_valid() {
    let mut document = example::document();
    example::complete(&mut document);
    generate("packaging/example.json", &example::format(&document));
    Config::from_value(example::without_include(document)).expect("valid");
}

#[test]
fn the_tables_of_the_documentation_are_current_and_complete() {
    let mut described = Vec::new();
    for page in tables::pages() {
        let content = tables::with_tables(&page, &read(&page), &mut described);
        generate(&page, &content);
    }
    let all = DOCUMENT.all().into_iter().flat_map(|shape| {
        let published = shape.keys().filter(|key| is_published(key));
        published.map(move |key| (shape.name, key.name))
    });
    let missing: Vec<_> = all.filter(|key| !described.contains(key)).collect();
    assert!(missing.is_empty(), "no page has a table with {missing:?}");
}

/// A key that is in the table, but not read, would be accepted and ignored.
#[test]
fn a_value_of_another_type_is_refused_for_every_key() {
    let document = example::without_include(example::document());
    for (shape, key, path) in example::keys(&document) {
        let mut changed = document.clone();
        let value = changed.pointer_mut(&path).unwrap();
        *value = if accepts(&key.kind, &Value::Null) { 1.5.into() } else { Value::Null };
        assert!(Config::from_value(changed).is_err(), "{} of {} is not read", key.name, shape.name);
    }
}

#[test]
fn the_defaults_are_those_of_the_reader() {
    let document = example::without_include(example::document());
    let parse = |document: Value| Config::from_value(document).map(words);
    let mut wrong = Vec::new();
    for (shape, key, path) in example::keys(&document) {
        let Ok(default) = serde_json::from_str::<Value>(key.default) else { continue };
        assert!(accepts(&key.kind, &default), "{} of {}", key.name, shape.name);
        if ABSENT.contains(&(shape.name, key.name)) {
            continue;
        }
        let (mut absent, mut written) = (document.clone(), document.clone());
        let (parent, _) = path.rsplit_once('/').unwrap();
        absent.pointer_mut(parent).unwrap().as_object_mut().unwrap().shift_remove(key.name);
        *written.pointer_mut(&path).unwrap() = default;
        // Other keys may depend on this one.
        let Ok(absent) = parse(absent) else { continue };
        match parse(written) {
            Ok(written) if written == absent => {}
            Ok(_) => wrong.push(format!("{}/{}", shape.name, key.name)),
            Err(error) => wrong.push(error.to_string()),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Returns all words of a configuration. Their order varies, as a configuration has hash maps.
fn words(mut config: Config) -> Vec<String> {
    config.document = Value::Null;
    let text = format!("{config:?}");
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '.' && c != '_');
    let mut words: Vec<_> = words.map(str::to_owned).collect();
    words.sort();
    words
}

/// Returns the shapes of the objects of a type.
fn shapes(kind: &Kind) -> Vec<&'static Shape> {
    match kind {
        Kind::Either(kinds) => kinds.iter().flat_map(shapes).collect(),
        Kind::OneOrMany(kind) => shapes(kind),
        Kind::Object(shape) => vec![*shape],
        Kind::Recursive(name) => {
            DOCUMENT.all().into_iter().filter(|shape| shape.name == *name).collect()
        }
        _ => Vec::new(),
    }
}
