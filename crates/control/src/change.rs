//! Changes of a document.

use serde_json::Value;

use crate::path::{Path, index};
use crate::refusal::Refusal;

/// A change of the configuration.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Add an element at the end of an array.
    Append {
        /// The path of the array.
        path: Path,
        /// The element.
        value: Value,
    },
    /// Remove a value; the root becomes an empty object.
    Delete {
        /// The path of the value.
        path: Path,
    },
    /// Replace a value, add a member to an object, or add an element to an array at the index
    /// behind its last.
    Put {
        /// The path of the value. All but its last step must exist.
        path: Path,
        /// The value.
        value: Value,
    },
}

impl Change {
    /// Returns the path that the change is about.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Change::Append { path, .. } | Change::Delete { path } | Change::Put { path, .. } => {
                path
            }
        }
    }

    /// Changes a document. An error leaves it unchanged.
    pub(crate) fn apply(self, document: &mut Value) -> Result<(), Refusal> {
        match self {
            Change::Append { path, value } => append(document, &path, value),
            Change::Delete { path } => delete(document, &path),
            Change::Put { path, value } => put(document, &path, value),
        }
    }
}

fn append(document: &mut Value, path: &Path, value: Value) -> Result<(), Refusal> {
    match descend(document, path.steps())? {
        Value::Array(elements) => {
            elements.push(value);
            Ok(())
        }
        _ => Err(Refusal::NotAnArray),
    }
}

fn delete(document: &mut Value, path: &Path) -> Result<(), Refusal> {
    let Some((last, parents)) = path.steps().split_last() else {
        *document = Value::Object(serde_json::Map::new());
        return Ok(());
    };
    match descend(document, parents)? {
        Value::Object(members) => {
            // Not `remove`, which would put the last member in the place of this one.
            members.shift_remove(last).map(drop).ok_or(Refusal::NoSuchValue)
        }
        Value::Array(elements) => {
            let found = index(last).filter(|&index| index < elements.len());
            elements.remove(found.ok_or(Refusal::NoSuchValue)?);
            Ok(())
        }
        _ => Err(Refusal::NoSuchValue),
    }
}

fn put(document: &mut Value, path: &Path, value: Value) -> Result<(), Refusal> {
    let Some((last, parents)) = path.steps().split_last() else {
        *document = value;
        return Ok(());
    };
    match descend(document, parents)? {
        Value::Object(members) => {
            members.insert(last.clone(), value);
            Ok(())
        }
        Value::Array(elements) => {
            let index = index(last).ok_or(Refusal::NoSuchValue)?;
            let length = elements.len();
            match elements.get_mut(index) {
                Some(element) => *element = value,
                None if index == length => elements.push(value),
                None => return Err(Refusal::NoSuchValue),
            }
            Ok(())
        }
        _ => Err(Refusal::NoSuchValue),
    }
}

fn descend<'a>(document: &'a mut Value, steps: &[String]) -> Result<&'a mut Value, Refusal> {
    let found = steps.iter().try_fold(document, |value, step| match value {
        Value::Object(members) => members.get_mut(step),
        Value::Array(elements) => elements.get_mut(index(step)?),
        _ => None,
    });
    found.ok_or(Refusal::NoSuchValue)
}
