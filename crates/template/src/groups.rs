//! The groups of a step's regular expressions that the templates of the step may name.

use std::cell::Cell;

/// A group of a regular expression.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Group {
    /// By its number, 1 to 9.
    Number(u8),
    /// By its name, of letters and underscores.
    Name(String),
}

/// The groups that templates of a step may name: numbers from 1 to `count`, and names.
#[derive(Debug, Default)]
pub struct Groups {
    pub(crate) count: usize,
    pub(crate) names: Vec<String>,
    /// The groups belong to a pattern of a `map`, for the value of the map.
    pub(crate) is_of_map: bool,
    is_used: Cell<bool>,
}

impl Groups {
    /// Returns the highest number of a group.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns true if a group has this name.
    pub fn has_name(&self, name: &str) -> bool {
        self.names.iter().any(|other| other == name)
    }

    /// Returns the names of groups.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Returns true if they are those of a pattern of a `map`.
    pub fn are_of_map(&self) -> bool {
        self.is_of_map
    }

    /// Records that a template refers to a group.
    pub(crate) fn note_use(&self) {
        self.is_used.set(true);
    }

    /// Returns true if a template refers to a group.
    pub fn are_used(&self) -> bool {
        self.is_used.get()
    }
}
