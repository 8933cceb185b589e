//! The secret of HTTP/3: from it, routers derive the keys of connection ids, stateless resets and tokens.
//!
//! It is in the file `http3.key` of the state directory once a configuration has HTTP/3: a server that
//! starts again resets the connections of the former one at once, which clients otherwise learn of after
//! their timeouts. Without a state directory it is that of the process.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use howdah_sys::regular_file;
use howdah_text::hex;

use crate::store;

const FILE: &str = "http3.key";

/// Name of the temporary file.
const NEW: &str = "http3.key.new";

/// Length of the secret in bytes.
const LENGTH: usize = 32;

/// Maximum length of the file, in bytes.
const MAX_LENGTH: u64 = 4096;

/// The secret.
pub(crate) struct Http3Secret {
    text: String,
    is_stored: bool,
}

impl Http3Secret {
    /// Reads the secret of a state directory, or makes one. Error: the file cannot be read, and the
    /// secret is that of the process.
    pub(crate) fn new(state: Option<&Path>) -> (Http3Secret, Option<io::Error>) {
        let (stored, error) = match state.map(read).transpose() {
            Ok(stored) => (stored.flatten(), None),
            Err(error) => (None, Some(error)),
        };
        // What cannot be read is left for the administrator to look at.
        let is_stored = stored.is_some() || error.is_some();
        match stored.map_or_else(make, Ok) {
            Ok(text) => (Http3Secret { text, is_stored }, error),
            // Routers make one each.
            Err(error) => (Http3Secret { text: String::new(), is_stored: true }, Some(error)),
        }
    }

    /// Stores the secret if a document has HTTP/3.
    pub(crate) fn store_for(&mut self, document: &[u8], state: Option<&Path>) -> io::Result<()> {
        let has_http3 = || document.windows(7).any(|part| part == b"\"http3\"");
        let Some(state) = state.filter(|_| !self.is_stored && has_http3()) else { return Ok(()) };
        // A failure is reported once.
        self.is_stored = true;
        store::replace(state, NEW, FILE, format!("{}\n", self.text).as_bytes())
    }

    /// Takes over the secret of the server that this one replaces: it reads the ids of its connections.
    pub(crate) fn inherit(&mut self, text: &str) {
        if !text.is_empty() {
            text.clone_into(&mut self.text);
        }
    }

    /// Returns the secret in hexadecimal; empty if the system gives no random bytes.
    pub(crate) fn expose(&self) -> &str {
        &self.text
    }
}

fn make() -> io::Result<String> {
    let mut bytes = [0; LENGTH];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map(|()| hex::lower(&bytes))
}

/// Reads the file; `None` if there is none.
fn read(state: &Path) -> io::Result<Option<String>> {
    let path = state.join(FILE);
    let text = match regular_file::read(&path, MAX_LENGTH) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let text = text.trim_ascii();
    if text.len() == 2 * LENGTH && text.iter().all(u8::is_ascii_hexdigit) {
        return Ok(Some(String::from_utf8_lossy(text).into_owned()));
    }
    Err(io::Error::other(format!(
        "{} is not a key of {LENGTH} bytes in hexadecimal; remove it, and the server makes another",
        path.display()
    )))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_is_stored_once_a_document_has_http3() {
        let dir = tempfile::tempdir().unwrap();
        let state = Some(dir.path());
        let (mut secret, error) = Http3Secret::new(state);
        assert!(error.is_none());
        secret.store_for(br#"{"http2": true}"#, state).unwrap();
        assert!(!dir.path().join(FILE).exists());
        secret.store_for(br#"{"http3": true}"#, state).unwrap();
        let mode = dir.path().join(FILE).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let (again, _) = Http3Secret::new(state);
        assert_eq!(again.expose(), secret.expose());
        assert_ne!(Http3Secret::new(None).0.expose(), secret.expose());
    }

    #[test]
    fn a_damaged_file_is_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let (state, path) = (Some(dir.path()), dir.path().join(FILE));
        std::fs::write(&path, "no key").unwrap();
        let (mut secret, error) = Http3Secret::new(state);
        assert!(error.unwrap().to_string().contains("remove it"));
        secret.store_for(br#"{"http3": true}"#, state).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"no key");
        assert_eq!(secret.expose().len(), 64);
    }
}
