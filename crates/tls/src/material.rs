//! Contents of the files that TLS settings name: certificates, keys and authorities. The caller
//! reads them; this crate opens no configured file.

use std::collections::HashMap;
use std::path::PathBuf;

/// Contents by their sources.
#[derive(Default)]
pub struct CertificateFiles(HashMap<Source, Result<Vec<u8>, String>>);

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
        self.0.insert(source, Ok(text));
    }

    /// Records why a source cannot be read.
    pub fn fail(&mut self, source: Source, problem: String) {
        self.0.insert(source, Err(problem));
    }

    /// Returns the content of a source. Error: the missing source, and the remedy.
    pub(super) fn get(&self, source: &Source) -> Result<&[u8], String> {
        match (self.0.get(source), source) {
            (Some(Ok(text)), _) => Ok(text),
            (Some(Err(problem)), _) => Err(problem.clone()),
            (None, Source::Stored(name)) => Err(format!(
                "there is no certificate \"{name}\"; PUT it to /certificates/{name} first"
            )),
            (None, Source::File(path)) => Err(format!("{} was not read", path.display())),
        }
    }

    /// Returns the content of a source; `None` if it was not read.
    pub(super) fn find(&self, source: &Source) -> Option<&[u8]> {
        self.0.get(source)?.as_deref().ok()
    }
}
