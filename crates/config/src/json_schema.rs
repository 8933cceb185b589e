//! A JSON Schema (draft 7) of the document, for editors, from the tables of its keys.

use serde_json::{Map, Value, json};

use crate::config::DOCUMENT;
use crate::key::{Key, Kind, Presence, SECONDS, Shape};

/// Returns the schema of the document.
pub fn schema() -> Value {
    let mut definitions = Map::new();
    for shape in DOCUMENT.all() {
        definitions.insert(shape.name.to_owned(), shape_schema(shape));
    }
    for key in ["variables", "listeners", "routes", "applications", "upstreams", "streams", "mail"]
    {
        let section = definitions.get_mut(DOCUMENT.name);
        if let Some(section) = section.and_then(|shape| shape.get_mut("properties")?.get_mut(key)) {
            add_include(section);
        }
    }
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Howdah's configuration",
        "allOf": [reference(DOCUMENT.name)],
        "definitions": definitions,
    })
}

/// Adds `include` to objects of names.
fn add_include(section: &mut Value) {
    let alternatives = section.get_mut("anyOf").and_then(Value::as_array_mut);
    alternatives.into_iter().flatten().for_each(add_include);
    if let Some(members) = section.as_object_mut()
        && members.contains_key("additionalProperties")
    {
        let include = json!({
            "type": ["string", "array"], "items": { "type": "string" },
            "description": "Files with members of this object, such as \"conf.d/*.json\"",
        });
        members.insert("properties".to_owned(), json!({ "include": include }));
    }
}

fn shape_schema(shape: &Shape) -> Value {
    let is_published =
        |key: &&Key| !matches!(key.presence, Presence::Unavailable | Presence::Internal);
    let mut properties = Map::new();
    for key in shape.keys().filter(is_published) {
        let mut value = kind_schema(&key.kind);
        if let Value::Object(members) = &mut value {
            members.insert("description".to_owned(), description(key).into());
        }
        properties.insert(key.name.to_owned(), value);
    }
    let mut value = json!({
        "type": "object", "additionalProperties": false, "properties": properties,
    });
    let required = shape.keys().filter(|key| key.presence == Presence::Required);
    let required: Vec<_> = required.map(|key| key.name).collect();
    if let (false, Value::Object(members)) = (required.is_empty(), &mut value) {
        members.insert("required".to_owned(), json!(required));
    }
    value
}

/// Returns the meaning of a key as plain text.
fn description(key: &Key) -> String {
    let text = key.about.replace("`\"", "\"").replace("\"`", "\"").replace('`', "\"");
    match key.beside {
        Some(other) => format!("With \"{other}\": {text}"),
        None => text,
    }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/definitions/{name}") })
}

fn kind_schema(kind: &Kind) -> Value {
    match kind {
        Kind::Text => json!({ "type": "string" }),
        Kind::Switch => json!({ "type": "boolean" }),
        Kind::Off => json!({ "enum": [false] }),
        Kind::Integer(low, i64::MAX) | Kind::Bytes(low) => {
            json!({ "type": "integer", "minimum": low })
        }
        Kind::Integer(low, high) => json!({ "type": "integer", "minimum": low, "maximum": high }),
        Kind::Seconds(low) => json!({ "type": "integer", "minimum": low, "maximum": SECONDS }),
        Kind::Number => json!({ "type": "number" }),
        Kind::Texts => json!({ "type": ["string", "array"], "items": { "type": "string" } }),
        Kind::Matching(pattern) => json!({ "type": "string", "pattern": pattern }),
        Kind::Word(words) => json!({ "enum": words }),
        // Beside a reference, draft 7 ignores all other keywords, including a description.
        Kind::Object(shape) => json!({ "allOf": [reference(shape.name)] }),
        Kind::Recursive(name) => json!({ "allOf": [reference(name)] }),
        Kind::Named(kind) => json!({ "type": "object", "additionalProperties": kind_schema(kind) }),
        Kind::Array(kind) => json!({ "type": "array", "items": kind_schema(kind) }),
        Kind::OneOrMany(kind) => {
            let one = kind_schema(kind);
            json!({ "anyOf": [one, { "type": "array", "items": one }] })
        }
        Kind::Either(kinds) => {
            json!({ "anyOf": kinds.iter().map(kind_schema).collect::<Vec<_>>() })
        }
        Kind::Null => json!({ "type": "null" }),
    }
}
