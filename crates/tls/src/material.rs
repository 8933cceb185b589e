//! Contents of the files that TLS settings name: certificates, keys and authorities. The caller
//! reads them; this crate opens no configured file.

use std::collections::HashMap;
use std::path::PathBuf;

/// Contents by their sources.
#[derive(Default)]
pub struct CertificateFiles(HashMap<Source, Vec<u8>>);

/// Source of a certificate, key or file of authorities.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Source {
    /// Certificate bundle of this name in the certificate store.
    Stored(String),
    /// File at this path.
    File(PathBuf),
}

impl CertificateFiles {
    /// Adds the content of a source.
    pub fn add(&mut self, source: Source, text: Vec<u8>) {
        self.0.insert(source, text);
    }

    /// Returns the content of a source. Error: the missing source, and what to do.
    pub(super) fn get(&self, source: &Source) -> Result<&[u8], String> {
        self.0.get(source).map(Vec::as_slice).ok_or_else(|| match source {
            Source::Stored(name) => {
                format!("there is no certificate \"{name}\"; PUT it to /certificates/{name} first")
            }
            Source::File(path) => format!("{} was not read", path.display()),
        })
    }

    /// Returns the content of a source; `None` if it was not read.
    pub(super) fn find(&self, source: &Source) -> Option<&[u8]> {
        self.0.get(source).map(Vec::as_slice)
    }
}
