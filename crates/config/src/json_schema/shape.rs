//! Objects, keys and types of the schema's table.

use serde_json::{Value, json};

/// An object of the document.
pub(super) struct Shape {
    pub name: &'static str,
    pub required: &'static [&'static str],
    pub keys: &'static [Key],
}

/// A key: name, type and meaning.
pub(super) struct Key(pub &'static str, pub Kind, pub &'static str);

/// The type of a value.
pub(super) enum Kind {
    /// A string.
    Text,
    /// `true` or `false`.
    Switch,
    /// `false`.
    Off,
    /// An integer with its minimum and maximum.
    Integer(i64, i64),
    /// Any number.
    Number,
    /// A string, or an array of strings.
    Texts,
    /// A string that matches this pattern.
    Matching(&'static str),
    /// One of these strings.
    Word(&'static [&'static str]),
    /// An object of the table.
    Shape(&'static str),
    /// An object with names as keys and values of this type.
    Named(&'static Kind),
    /// An array.
    Array(&'static Kind),
    /// A value of any of these types.
    Either(&'static [Kind]),
    /// `null`.
    Null,
}

use Kind::{Array, Either, Integer, Matching, Named, Null, Number, Off, Switch, Text, Texts, Word};

pub(super) const COUNT: i64 = i32::MAX as i64;
pub(super) const SECONDS: Kind = Integer(0, COUNT / 1000);
pub(super) const SIZE: Kind = Integer(0, i64::MAX);

impl Kind {
    /// Returns the JSON Schema of the type.
    pub fn schema(&self) -> Value {
        match self {
            Text => json!({ "type": "string" }),
            Switch => json!({ "type": "boolean" }),
            Off => json!({ "enum": [false] }),
            Integer(low, i64::MAX) => json!({ "type": "integer", "minimum": low }),
            Integer(low, high) => json!({ "type": "integer", "minimum": low, "maximum": high }),
            Number => json!({ "type": "number" }),
            Texts => json!({ "type": ["string", "array"], "items": { "type": "string" } }),
            Matching(pattern) => json!({ "type": "string", "pattern": pattern }),
            Word(words) => json!({ "enum": words }),
            // Beside a reference, draft 7 ignores all other keywords, including a description.
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
