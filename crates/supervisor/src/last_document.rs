//! The document that was served last, kept in the state directory.
//!
//! A server whose document cannot be used at a start serves this one. The file begins with a line
//! that names the document's source: several servers may have had the same directory.

use std::io;
use std::path::Path;
use std::time::SystemTime;

use howdah_sys::regular_file;

use crate::store::{self, MAX_DOCUMENT};

const FILE: &str = "served.json";

/// Name of the temporary file.
const NEW: &str = "served.json.new";

const START: &str = "// served by howdah from ";

/// A document that was served.
#[derive(Debug, PartialEq, Eq)]
pub struct LastDocument {
    /// The document.
    pub document: Vec<u8>,
    /// Time at which it was taken into use.
    pub since: SystemTime,
}

/// Keeps a document from a source.
pub(crate) fn save(state: &Path, origin: &str, document: &[u8]) -> io::Result<()> {
    let line = first_line(origin);
    store::replace(state, NEW, FILE, &[line.as_bytes(), document].concat())
}

/// Returns the document from a source that was served last; `None` if none was kept, or it cannot
/// be read.
pub fn load(state: &Path, origin: &str) -> Option<LastDocument> {
    let path = state.join(FILE);
    let text = regular_file::read(&path, MAX_DOCUMENT).ok()?;
    let document = text.strip_prefix(first_line(origin).as_bytes())?.to_vec();
    let since = path.metadata().and_then(|found| found.modified()).ok()?;
    Some(LastDocument { document, since })
}

fn first_line(origin: &str) -> String {
    format!("{START}{}\n", origin.replace('\n', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_kept_with_its_source() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("state");
        assert_eq!(load(&state, "/a.json"), None);
        save(&state, "/a.json", b"{}").unwrap();
        assert_eq!(load(&state, "/a.json").unwrap().document, b"{}");
        assert_eq!(load(&state, "/b.json"), None);
        for text in ["", "{}", "// served by howdah from /a.jso"] {
            std::fs::write(state.join(FILE), text).unwrap();
            assert_eq!(load(&state, "/a.json"), None, "{text}");
        }
    }
}
