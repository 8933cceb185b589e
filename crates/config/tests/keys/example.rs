//! The example document: every key has a value in it.
//!
//! The example is written by hand, as its parts must be valid together. A new key gets a value in
//! the first object that may have it; a key that is gone is taken out.

use std::fmt::Write;

use howdah_config::{DOCUMENT, Key, Kind, Presence, Shape};
use serde_json::{Map, Value};

use crate::{accepts, is_published, read, shapes};

/// Maximum width of a line.
const WIDTH: usize = 100;

pub fn document() -> Value {
    serde_json::from_str(&read("packaging/example.json")).expect("JSON")
}

pub fn without_include(mut document: Value) -> Value {
    for replaced in ["include", "sites", "defaults"] {
        document.as_object_mut().unwrap().shift_remove(replaced);
    }
    document
}

/// Returns the first occurrence of each key, as a JSON pointer.
pub fn keys(document: &Value) -> Vec<(&'static Shape, &'static Key, String)> {
    let mut found: Vec<(&'static Shape, &'static Key, String)> = Vec::new();
    visit(&Kind::Object(&DOCUMENT), document, String::new(), &mut |shape, members, path| {
        for name in members.keys() {
            let Some(key) = shape.key(name) else { continue };
            if !found.iter().any(|(other, old, _)| (other.name, old.name) == (shape.name, key.name))
            {
                found.push((shape, key, format!("{path}/{}", escaped(name))));
            }
        }
    });
    found
}

/// Takes unknown keys out of the document, and adds those that are missing.
pub fn complete(document: &mut Value) {
    let mut unknown = Vec::new();
    visit(&Kind::Object(&DOCUMENT), document, String::new(), &mut |shape, members, path| {
        let names = members.keys().filter(|name| shape.key(name).is_none());
        unknown.extend(names.map(|name| (path.to_owned(), name.clone())));
    });
    for (path, name) in unknown {
        document.pointer_mut(&path).unwrap().as_object_mut().unwrap().shift_remove(&name);
    }
    for shape in DOCUMENT.all() {
        for key in shape.keys().filter(|key| is_published(key)) {
            let is_there = keys(document)
                .iter()
                .any(|(other, old, _)| (other.name, old.name) == (shape.name, key.name));
            if !is_there {
                add(document, shape, key);
            }
        }
    }
}

fn add(document: &mut Value, shape: &Shape, key: &Key) {
    let mut place = None;
    visit(&Kind::Object(&DOCUMENT), document, String::new(), &mut |other, members, path| {
        let fits = key.beside.is_none_or(|beside| members.contains_key(beside));
        if place.is_none() && other.name == shape.name && fits {
            place = Some(path.to_owned());
        }
    });
    let value = value_of(key).filter(|_| key.presence != Presence::Kind);
    let (Some(place), Some(value)) = (place, value) else {
        panic!("add \"{}\" of {} to packaging/example.json by hand", key.name, shape.name)
    };
    let object = document.pointer_mut(&place).unwrap().as_object_mut().unwrap();
    object.insert(key.name.to_owned(), value);
}

/// Returns a value of a key: the default, any one if the type has only valid ones, or the text that
/// the meaning gives as an example.
fn value_of(key: &Key) -> Option<Value> {
    if let Kind::Switch = key.kind {
        return Some((key.default != "true").into());
    }
    let default = serde_json::from_str(key.default).ok();
    default.filter(|default| accepts(&key.kind, default)).or(match key.kind {
        Kind::Integer(low, _) | Kind::Seconds(low) | Kind::Bytes(low) => Some(low.max(1).into()),
        Kind::Word(words) => words.first().map(|word| (*word).into()),
        Kind::Text | Kind::Texts => {
            let (_, rest) = key.about.split_once("such as `")?;
            serde_json::from_str(rest.split('`').next()?).ok()
        }
        _ => None,
    })
}

/// Calls a function with each object that has a shape, and its path.
fn visit(
    kind: &Kind,
    value: &Value,
    path: String,
    found: &mut impl FnMut(&'static Shape, &Map<String, Value>, &str),
) {
    match (kind, value) {
        (Kind::Either(kinds), _) if shapes(kind).is_empty() || !value.is_object() => {
            let fitting = kinds.iter().find(|kind| accepts(kind, value));
            if let Some(kind) = fitting.or(kinds.iter().find(|kind| !shapes(kind).is_empty())) {
                visit(kind, value, path, found);
            }
        }
        (Kind::OneOrMany(kind) | Kind::Array(kind), Value::Array(elements)) => {
            for (index, element) in elements.iter().enumerate() {
                visit(kind, element, format!("{path}/{index}"), found);
            }
        }
        (Kind::Named(kind), Value::Object(members)) => {
            for (name, member) in members {
                visit(kind, member, format!("{path}/{}", escaped(name)), found);
            }
        }
        (_, Value::Object(members)) => {
            let misfits = |shape: &&&Shape| {
                let fits = |(name, value): (&String, &Value)| {
                    shape.key(name).is_some_and(|key| accepts(&key.kind, value))
                };
                members.iter().filter(|member| !fits(*member)).count()
            };
            let Some(shape) = shapes(kind).iter().min_by_key(misfits).copied() else { return };
            found(shape, members, &path);
            for (name, member) in members {
                if let Some(key) = shape.key(name) {
                    visit(&key.kind, member, format!("{path}/{}", escaped(name)), found);
                }
            }
        }
        _ => {}
    }
}

/// Escapes a step of a JSON pointer.
fn escaped(step: &str) -> String {
    step.replace('~', "~0").replace('/', "~1")
}

/// Formats the document: short values on one line.
pub fn format(document: &Value) -> String {
    let mut text = String::new();
    write_value(&mut text, document, 0);
    text.push('\n');
    text
}

fn write_value(text: &mut String, value: &Value, indent: usize) {
    let start = text.rfind('\n').map_or(0, |at| at + 1);
    let line = on_one_line(value);
    let is_short = text.len() - start + line.len() < WIDTH && depth(value) < 3;
    let (open, close, members): (_, _, Vec<(String, &Value)>) = match value {
        Value::Object(members) if !is_short => {
            ('{', '}', members.iter().map(|(key, value)| (format!("{key:?}: "), value)).collect())
        }
        Value::Array(elements) if !is_short => {
            ('[', ']', elements.iter().map(|value| (String::new(), value)).collect())
        }
        _ => return text.push_str(&line),
    };
    text.push(open);
    let inner = indent + 4;
    for (index, (key, value)) in members.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(text, "{comma}\n{:inner$}{key}", "").unwrap();
        write_value(text, value, inner);
    }
    write!(text, "\n{:indent$}{close}", "").unwrap();
}

fn on_one_line(value: &Value) -> String {
    match value {
        Value::Object(members) if members.is_empty() => "{}".to_owned(),
        Value::Object(members) => {
            let member =
                |(key, value): (&String, &Value)| format!("{key:?}: {}", on_one_line(value));
            format!("{{ {} }}", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        Value::Array(elements) => {
            format!("[{}]", elements.iter().map(on_one_line).collect::<Vec<_>>().join(", "))
        }
        scalar => scalar.to_string(),
    }
}

/// Returns how deep objects are nested.
fn depth(value: &Value) -> usize {
    match value {
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        Value::Array(elements) => elements.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
