//! A validator for the part of JSON Schema (draft 7) that the schema of the document uses.

use regex::Regex;
use serde_json::Value;

/// Keywords that say nothing about a value.
const ANNOTATIONS: [&str; 3] = ["$schema", "title", "description"];

/// Returns true if a value is valid. `root` is the whole schema, with the definitions.
pub fn is_valid(root: &Value, schema: &Value, value: &Value) -> bool {
    let list = |keyword: &Value| keyword.as_array().cloned().unwrap_or_default();
    schema.as_object().unwrap().iter().all(|(keyword, argument)| match keyword.as_str() {
        "allOf" => list(argument).iter().all(|one| is_valid(root, one, value)),
        "anyOf" => list(argument).iter().any(|one| is_valid(root, one, value)),
        "$ref" => {
            let pointer = argument.as_str().unwrap().strip_prefix('#').unwrap();
            is_valid(root, root.pointer(pointer).expect(pointer), value)
        }
        "enum" => list(argument).contains(value),
        "type" => match argument {
            Value::Array(types) => types.iter().any(|one| has_type(value, one)),
            one => has_type(value, one),
        },
        "pattern" => value.as_str().is_none_or(|text| {
            Regex::new(argument.as_str().unwrap()).expect("a pattern").is_match(text)
        }),
        "minimum" => value.as_f64().is_none_or(|number| number >= argument.as_f64().unwrap()),
        "maximum" => value.as_f64().is_none_or(|number| number <= argument.as_f64().unwrap()),
        "items" => list(value).iter().all(|one| is_valid(root, argument, one)),
        "required" => value.as_object().is_none_or(|members| {
            list(argument).iter().all(|name| members.contains_key(name.as_str().unwrap()))
        }),
        "properties" => value.as_object().is_none_or(|members| {
            let known = argument.as_object().unwrap().iter();
            known.into_iter().all(|(name, one)| {
                members.get(name).is_none_or(|member| is_valid(root, one, member))
            })
        }),
        "additionalProperties" => value.as_object().is_none_or(|members| {
            let known = schema.get("properties").and_then(Value::as_object);
            let is_known = |name: &String| known.is_some_and(|known| known.contains_key(name));
            let mut others = members.iter().filter(|(name, _)| !is_known(name));
            others.all(|(_, member)| match argument {
                Value::Bool(allowed) => *allowed,
                one => is_valid(root, one, member),
            })
        }),
        "definitions" => true,
        keyword => ANNOTATIONS.contains(&keyword) || panic!("the keyword {keyword:?} is new here"),
    })
}

fn has_type(value: &Value, name: &Value) -> bool {
    match name.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("the type {other:?} is new here"),
    }
}
