//! The files without which a document was read.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::pattern::is_pattern;
use crate::definitions::LEFT_OUT;
use crate::error::Error;
use crate::node::Node;

/// A file that cannot be used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// The file, or a pattern whose directory cannot be read.
    pub file: PathBuf,
    /// Reason why it cannot be used.
    pub reason: String,
    /// Since when, in seconds since 1970.
    pub since: u64,
    /// The content that it had before is in use.
    pub is_former: bool,
    /// Name of the site that the file has.
    pub site: Option<String>,
    /// A file or directory that is missing, or that makes the file useless otherwise.
    pub because_of: Option<PathBuf>,
}

impl LeftOut {
    /// Returns the member of the document about the file.
    pub(super) fn written(&self) -> Value {
        let LeftOut { file: _, reason, since, is_former, site, because_of } = self;
        let mut about = json!({"reason": reason, "since": since, "former": is_former});
        if let Some(site) = site {
            about["site"] = json!(site);
        }
        if let Some(path) = because_of {
            about["because_of"] = json!(path.to_string_lossy());
        }
        about
    }
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
            site: member("site").and_then(Value::as_str).map(str::to_owned),
            because_of: member("because_of").and_then(Value::as_str).map(PathBuf::from),
        })
    };
    node.members()?.map(read).collect()
}

/// Returns the files and directories whose change can make a file useful without which a document
/// was read.
pub fn watched_by_left_out(document: &Value) -> Vec<PathBuf> {
    let left_out = document.get(LEFT_OUT).and_then(Value::as_object);
    let mut watched = Vec::new();
    for (file, about) in left_out.into_iter().flatten() {
        let file = Path::new(file);
        // Of a pattern whose directory cannot be read, the directory.
        let above = file.parent().filter(|_| is_pattern(&file.to_string_lossy()));
        watched.push(above.unwrap_or(file).to_owned());
        watched.extend(about.get("because_of").and_then(Value::as_str).map(PathBuf::from));
    }
    watched
}
