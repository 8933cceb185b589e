//! A JSON Schema (draft 7) of the document, for editors.
//!
//! [`table`] names every object of the document with its keys, their types and their meaning. The
//! reader decides what is accepted; a test compares the keys that it knows with those of the
//! table.

mod applications;
mod routing;
mod settings;
mod tls;
mod upstreams;

use serde_json::{Map, Value, json};

/// An object of the document.
struct Shape {
    name: &'static str,
    required: &'static [&'static str],
    keys: &'static [Key],
}

/// A key: name, type and meaning.
struct Key(&'static str, Kind, &'static str);

/// The type of a value.
enum Kind {
    /// A string.
    Text,
    /// `true` or `false`.
    Switch,
    /// An integer between two.
    Integer(i64, i64),
    /// Any number.
    Number,
    /// A string, or an array of strings.
    Texts,
    /// One of some strings.
    Word(&'static [&'static str]),
    /// An object of the table.
    Shape(&'static str),
    /// An object of names, each with the same type.
    Named(&'static Kind),
    /// An array.
    Array(&'static Kind),
    /// One of several types.
    Either(&'static [Kind]),
    /// `null`.
    Null,
}

use Kind::{Array, Either, Integer, Named, Null, Number, Switch, Text, Texts, Word};

const COUNT: i64 = i32::MAX as i64;
const SECONDS: Kind = Integer(0, COUNT / 1000);
const SIZE: Kind = Integer(0, i64::MAX);

/// The schema of the document that this version reads.
pub fn schema() -> Value {
    let mut definitions = Map::new();
    for shape in table() {
        let properties: Map<String, Value> = { shape.keys.iter() }
            .map(|Key(name, kind, meaning)| {
                let mut value = kind.schema();
                if let Value::Object(members) = &mut value {
                    members.insert("description".to_owned(), (*meaning).into());
                }
                ((*name).to_owned(), value)
            })
            .collect();
        let mut value = json!({
            "type": "object", "additionalProperties": false, "properties": properties,
        });
        if let (false, Value::Object(members)) = (shape.required.is_empty(), &mut value) {
            members.insert("required".to_owned(), json!(shape.required));
        }
        definitions.insert(shape.name.to_owned(), value);
    }
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Howdah's configuration",
        "allOf": [{ "$ref": "#/definitions/document" }],
        "definitions": definitions,
    })
}

impl Kind {
    fn schema(&self) -> Value {
        match self {
            Text => json!({ "type": "string" }),
            Switch => json!({ "type": "boolean" }),
            Integer(low, i64::MAX) => json!({ "type": "integer", "minimum": low }),
            Integer(low, high) => json!({ "type": "integer", "minimum": low, "maximum": high }),
            Number => json!({ "type": "number" }),
            Texts => json!({ "type": ["string", "array"], "items": { "type": "string" } }),
            Word(words) => json!({ "enum": words }),
            // Beside a reference draft 7 ignores everything, also a description.
            Kind::Shape(name) => {
                json!({ "allOf": [{ "$ref": format!("#/definitions/{name}") }] })
            }
            Named(kind) => json!({ "type": "object", "additionalProperties": kind.schema() }),
            Array(kind) => json!({ "type": "array", "items": kind.schema() }),
            Either(kinds) => {
                json!({ "anyOf": kinds.iter().map(Kind::schema).collect::<Vec<_>>() })
            }
            Null => json!({ "type": "null" }),
        }
    }
}

/// All objects of the document.
fn table() -> impl Iterator<Item = &'static Shape> {
    [routing::TABLE, tls::TABLE, applications::TABLE, upstreams::TABLE, settings::TABLE]
        .into_iter()
        .flatten()
}

#[cfg(test)]
mod tests;
