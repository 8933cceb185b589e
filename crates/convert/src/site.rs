//! What goes into a conversion, and what comes out.

use serde_json::Value;

use crate::notes::{Kind, Note};

/// A `.htaccess` file.
#[derive(Debug)]
pub struct File {
    /// Path of its directory below the root, without slashes at both ends; empty for the root.
    pub directory: Vec<u8>,
    /// Path of the file, for messages.
    pub path: String,
    /// Content, or the reason why it cannot be read.
    pub content: Result<Vec<u8>, String>,
}

/// A site to convert.
pub struct Site<'a> {
    /// Absolute path of the document root.
    pub root: &'a str,
    /// Address of the listener.
    pub listener: &'a str,
    /// All files below the root, in any order.
    pub files: &'a [File],
    /// True if the site has scripts of PHP.
    pub has_php: bool,
    /// Returns true if there is something at an absolute path.
    pub exists: &'a dyn Fn(&[u8]) -> bool,
}

/// Result of a conversion.
#[derive(Debug)]
pub struct Conversion {
    /// The document.
    pub document: Value,
    /// What differs from the files, by file and line.
    pub notes: Vec<Note>,
}

impl Conversion {
    /// Returns true if every directive was converted.
    pub fn is_complete(&self) -> bool {
        self.notes.iter().all(|note| note.kind == Kind::Remark)
    }
}
