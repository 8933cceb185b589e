//! A JSON Schema (draft 7) of the document, for editors.
//!
//! [`table`] lists the objects of the document with their keys, types and meanings. It does not
//! control which documents are accepted; a test compares its keys with those of the parser.

mod applications;
mod limits;
mod routing;
mod settings;
mod shape;
mod tls;
mod upstreams;

use serde_json::{Map, Value, json};

use shape::{Key, Shape};

/// Returns the schema of the document.
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
    for key in ["variables", "listeners", "routes", "applications", "upstreams"] {
        let section = definitions.get_mut("document");
        if let Some(section) = section.and_then(|shape| shape.get_mut("properties")?.get_mut(key)) {
            add_include(section);
        }
    }
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Howdah's configuration",
        "allOf": [{ "$ref": "#/definitions/document" }],
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

/// Returns all objects of the document.
fn table() -> impl Iterator<Item = &'static Shape> {
    [
        routing::TABLE,
        limits::TABLE,
        tls::TABLE,
        applications::TABLE,
        upstreams::TABLE,
        settings::TABLE,
    ]
    .into_iter()
    .flatten()
}

#[cfg(test)]
mod tests;
