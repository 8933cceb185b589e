//! `match`: the conditions of a step.

use crate::error::Error;
use crate::node::Node;
use crate::pattern::{Patterns, Subject};

/// Conditions that must all hold; an absent one always holds.
#[derive(Debug, Clone, Default)]
pub struct Match {
    /// The decoded, normalised path.
    pub uri: Option<Patterns>,
}

impl Match {
    pub(crate) fn read(node: &Node<'_>) -> Result<Match, Error> {
        let object = node.object()?;
        let uri = object.read("uri", |uri| Patterns::read(uri, Subject::Uri))?;
        object.end()?;
        Ok(Match { uri })
    }
}
