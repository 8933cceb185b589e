//! The texts that TLS settings name: certificates, keys and authorities. The caller reads them; this
//! crate opens no file of a configuration.

use std::collections::HashMap;
use std::path::PathBuf;

/// Texts by their sources.
#[derive(Default)]
pub struct CertificateFiles(HashMap<Source, Vec<u8>>);

/// The source of a text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Source {
    /// A certificate bundle of this name in the certificate store.
    Stored(String),
    /// A file.
    File(PathBuf),
}

impl CertificateFiles {
    /// Adds a text.
    pub fn add(&mut self, source: Source, text: Vec<u8>) {
        self.0.insert(source, text);
    }

    /// A text. Error: what is missing, and what to do.
    pub(super) fn get(&self, source: &Source) -> Result<&[u8], String> {
        self.0.get(source).map(Vec::as_slice).ok_or_else(|| match source {
            Source::Stored(name) => {
                format!("there is no certificate \"{name}\"; PUT it to /certificates/{name} first")
            }
            Source::File(path) => format!("{} was not read", path.display()),
        })
    }

    /// A text; `None` if it was not read.
    pub(super) fn find(&self, source: &Source) -> Option<&[u8]> {
        self.0.get(source).map(Vec::as_slice)
    }
}
