//! The files without which a document was read.

use std::path::PathBuf;

use serde_json::Value;

use crate::error::Error;
use crate::node::Node;

/// A file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The file, or a pattern whose directory cannot be read.
    pub file: PathBuf,
    /// Reason why it cannot be used.
    pub reason: String,
    /// Since when, in seconds since 1970.
    pub since: u64,
    /// The content that it had before is in use.
    pub is_former: bool,
}

/// Reads `left_out`, which the server itself has written.
pub(crate) fn read_left_out(node: &Node<'_>) -> Result<Vec<LeftOut>, Error> {
    let read = |(file, about): (&str, Node<'_>)| {
        let member = |name: &str| about.value.get(name);
        Ok(LeftOut {
            file: file.into(),
            reason: member("reason").and_then(Value::as_str).unwrap_or_default().to_owned(),
            since: member("since").and_then(Value::as_u64).unwrap_or_default(),
            is_former: member("former") == Some(&Value::Bool(true)),
        })
    };
    node.members()?.map(read).collect()
}
