//! Variables that are used before they are defined, and those that use each other in a circle.

use std::collections::{HashMap, VecDeque};

use howdah_template::{TemplateError, split_name};
use serde_json::Value;

use crate::error::{Error, ErrorKind};

/// Explains the error of a definition that uses one that has not been read yet; returns other
/// errors as they are. `is_read` tells whether a definition has been read.
pub(super) fn explain(
    error: Error,
    name: &str,
    variables: &Value,
    is_read: impl Fn(&str) -> bool,
) -> Error {
    let is_meant = |used: &&str| {
        let unknown = TemplateError::Unknown { name: (*used).to_owned() };
        error.message() == unknown.to_string()
    };
    let mut used = uses(name, variables).into_iter().filter(|used| !is_read(used));
    let Some(used) = used.find(is_meant) else { return error };
    match way(used, name, variables) {
        Some(way) => {
            let chain: Vec<_> = way.iter().map(|name| format!("${name}")).collect();
            let chain = chain.join(", which uses ");
            let message = format!("is a circle: ${name} uses {chain}");
            let error = Error::new(ErrorKind::InvalidValue, error.path().to_owned(), message);
            error.with_hint("a definition can use only those in front of it")
        }
        None => error.with_hint(format!(
            "\"{used}\" is defined behind \"{name}\"; put it in front, as a definition can use \
             only those in front of it"
        )),
    }
}

/// Returns the shortest way from one definition to another, with both.
fn way<'v>(from: &'v str, to: &str, variables: &'v Value) -> Option<Vec<&'v str>> {
    let mut before = HashMap::from([(from, None)]);
    let mut open = VecDeque::from([from]);
    while let Some(name) = open.pop_front() {
        if name == to {
            let mut way: Vec<_> =
                std::iter::successors(Some(name), |name| *before.get(name)?).collect();
            way.reverse();
            return Some(way);
        }
        for used in uses(name, variables) {
            before.entry(used).or_insert_with(|| {
                open.push_back(used);
                Some(name)
            });
        }
    }
    None
}

/// Returns the defined variables that a definition uses.
fn uses<'v>(name: &str, variables: &'v Value) -> Vec<&'v str> {
    let Some(definitions) = variables.as_object() else { return Vec::new() };
    let Some(definition) = definitions.get(name).and_then(Value::as_object) else {
        return Vec::new();
    };
    let texts = definition.values().filter_map(Value::as_str);
    let values = definition.get("values").and_then(Value::as_object);
    let values = values.into_iter().flatten();
    let values = values.flat_map(|(key, value)| [Some(key.as_str()), value.as_str()]).flatten();
    let names = texts.chain(values).flat_map(names);
    names.filter_map(|name| Some(definitions.get_key_value(name)?.0.as_str())).collect()
}

/// Returns the names of the variables in a template.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split('$').skip(1).filter_map(|reference| Some(split_name(reference)?.0))
}
