//! Patterns of a document.

use howdah_template::{Pattern, Patterns, Subject};

use crate::error::Error;
use crate::node::Node;

/// Reads a pattern or an array of patterns.
pub(crate) fn read(node: &Node<'_>, subject: Subject) -> Result<Patterns, Error> {
    let mut patterns = Patterns::default();
    for element in node.strings()? {
        let pattern = Pattern::parse(element.string()?, subject);
        patterns.push(pattern.map_err(|error| element.invalid(error))?);
    }
    Ok(patterns)
}
