//! Certificate bundles, each a file in a directory beside the stored configuration.
//!
//! This process does not parse them: it keeps their bytes for the router, which has no access to
//! the files. Without a directory they are kept in memory until the server ends.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use howdah_sys::log::{Level, Log};
use howdah_sys::regular_file;
use howdah_wire::messages::{put_bundles, take_bundles};

use crate::{state_format, store};

/// Certificate bundles by name.
#[derive(Default)]
pub(crate) struct Certificates {
    bundles: BTreeMap<String, Vec<u8>>,
}

impl Certificates {
    /// Loads the bundles that are stored below the state directory. A bundle that cannot be read is
    /// logged and left out.
    pub(crate) fn load(state: Option<&Path>, log: &Log) -> Certificates {
        let directory = state.map(|state| state.join("certs"));
        let mut bundles = BTreeMap::new();
        if let Some(directory) = &directory {
            let report = |path: &Path, error: io::Error| {
                log.write(
                    Level::Alert,
                    format_args!("cannot read the certificate {}: {error}", path.display()),
                );
            };
            match fs::read_dir(directory) {
                Ok(entries) => {
                    for name in entries.flatten().map(|entry| entry.file_name()) {
                        let Some(name) = name.to_str().filter(|name| is_plain(name)) else {
                            continue; // an unfinished file, or not a bundle
                        };
                        match read(&directory.join(name)) {
                            Ok(pem) => drop(bundles.insert(name.to_owned(), pem)),
                            Err(error) => report(&directory.join(name), error),
                        }
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => report(directory, error),
            }
        }
        Certificates { bundles }
    }

    /// Takes encoded bundles over from the server that has stored them. Error: they are malformed.
    pub(crate) fn inherit(bundles: &[u8]) -> Result<Certificates, String> {
        let bundles = take_bundles(bundles).map_err(|_| "malformed certificates".to_owned())?;
        let bundles = bundles.into_iter().map(|(name, pem)| (name.to_owned(), pem.to_vec()));
        Ok(Certificates { bundles: bundles.collect() })
    }

    /// Adds a bundle that was stored, or replaces one.
    pub(crate) fn insert(&mut self, name: String, pem: Vec<u8>) {
        self.bundles.insert(name, pem);
    }

    /// Removes a bundle that was deleted.
    pub(crate) fn remove(&mut self, name: &str) {
        self.bundles.remove(name);
    }

    /// Encodes the bundles whose names are wanted, for another process.
    pub(crate) fn encode(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<u8> {
        let wanted = self.bundles.iter().filter(|(name, _)| is_wanted(name));
        put_bundles(wanted.map(|(name, pem)| (name.as_str(), pem.as_slice())))
    }

    /// Returns the names of all bundles.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.bundles.keys().map(String::as_str)
    }

    /// Returns the text of a bundle.
    pub(crate) fn get(&self, name: &str) -> Option<&[u8]> {
        self.bundles.get(name).map(Vec::as_slice)
    }
}

/// Stores a bundle below the state directory; without one it is in memory only.
pub(crate) fn store(state: Option<&Path>, name: &str, pem: &[u8]) -> io::Result<()> {
    if !is_plain(name) {
        return Err(io::Error::other("not a valid certificate name"));
    }
    let Some(state) = state else { return Ok(()) };
    state_format::mark(state)?;
    store::replace(&state.join("certs"), ".new", name, pem)
}

/// Deletes a bundle below the state directory.
pub(crate) fn delete(state: Option<&Path>, name: &str) -> io::Result<()> {
    let Some(state) = state.filter(|_| is_plain(name)) else { return Ok(()) };
    let directory = state.join("certs");
    match fs::remove_file(directory.join(name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Err(_) if !directory.exists() => Ok(()),
        _ => File::open(directory)?.sync_all(),
    }
}

/// Reads a bundle that is stored below the state directory.
pub(crate) fn stored(state: &Path, name: &str) -> io::Result<Vec<u8>> {
    if is_plain(name) {
        read(&state.join("certs").join(name))
    } else {
        Err(io::Error::other("not a valid certificate name"))
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    limited(regular_file::open_no_link(path)?.0)
}

fn limited(file: File) -> io::Result<Vec<u8>> {
    regular_file::read_opened(file, MAX_LENGTH).map_err(|error| match error.kind() {
        kind @ io::ErrorKind::FileTooLarge => io::Error::new(kind, "too large for a certificate"),
        _ => error,
    })
}

/// Reads a file that a listener's `tls` names. Fails unless the content is certificates, keys
/// and lists of revoked certificates in PEM, or an OCSP response, so that the router gets no other
/// file that only root can read.
pub fn read_for_tls(path: &Path) -> io::Result<Vec<u8>> {
    if !path.is_absolute() {
        return Err(io::Error::other("the path must begin with a slash"));
    }
    let text = limited(regular_file::open_owned(path)?.0)?;
    let has = |marker: &[u8]| text.windows(marker.len()).any(|bytes| bytes == marker);
    let is_pem = [
        "-----BEGIN CERTIFICATE-----",
        "-----BEGIN TRUSTED CERTIFICATE-----",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----",
        "-----BEGIN EC PRIVATE KEY-----",
        "-----BEGIN X509 CRL-----",
    ];
    // An OCSPResponse (RFC 6960, 4.2.1) of status "successful".
    let is_ocsp = text.get(4..7) == Some(&[0x0a, 1, 0][..]) && text.starts_with(&[0x30, 0x82]);
    if is_ocsp || is_pem.iter().any(|marker| has(marker.as_bytes())) {
        Ok(text)
    } else {
        Err(io::Error::other(
            "it holds neither a certificate nor a private key (PEM, not encrypted) nor a list of \
             revoked certificates (PEM) nor an OCSP response (DER)",
        ))
    }
}

/// Returns true if a name is that of a visible file in the directory. The router checks it too, but
/// is not trusted.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.len() <= 255 && !name.starts_with('.') && !name.contains(['/', '\0'])
}

/// Maximum length of a bundle, in bytes.
pub(crate) const MAX_LENGTH: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use howdah_wire::messages::take_bundles;

    use super::*;

    fn load(state: &Path) -> (Certificates, String) {
        let file = state.join("log");
        let log = Log::new(File::create(&file).unwrap().into());
        let loaded = Certificates::load(Some(state), &log);
        (loaded, fs::read_to_string(file).unwrap())
    }

    fn names(certificates: &Certificates) -> Vec<String> {
        let bytes = certificates.encode(|_| true);
        take_bundles(&bytes).unwrap().iter().map(|(name, _)| (*name).to_owned()).collect()
    }

    #[test]
    fn what_was_stored_is_loaded_until_it_is_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let state = Some(dir.path());
        store(state, "b", b"two").unwrap();
        store(state, "a", b"one").unwrap();
        let mode = |name: &str| fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
        assert_eq!((mode("certs") & 0o777, mode("certs/a") & 0o777), (0o700, 0o600));
        let (certificates, _) = load(dir.path());
        let bytes = certificates.encode(|_| true);
        assert_eq!(take_bundles(&bytes).unwrap(), [("a", &b"one"[..]), ("b", b"two")]);
        delete(state, "a").unwrap();
        delete(state, "never there").unwrap();
        assert_eq!(names(&load(dir.path()).0), ["b"]);
    }

    #[test]
    fn no_name_leaves_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("conf.json"), "{}").unwrap();
        for name in ["", ".", "..", "../conf.json", "a/b", ".new", "a\0b"] {
            assert!(store(Some(dir.path()), name, b"").is_err(), "{name:?}");
            let _ = delete(Some(dir.path()), name);
        }
        assert!(dir.path().join("conf.json").exists() && !dir.path().join("certs").exists());
    }

    #[test]
    fn what_cannot_be_a_bundle_is_left_out_and_reported() {
        let dir = tempfile::tempdir().unwrap();
        let certs = dir.path().join("certs");
        fs::create_dir_all(certs.join("directory")).unwrap();
        fs::write(certs.join(".new"), "not finished").unwrap();
        fs::write(certs.join("good"), "pem").unwrap();
        fs::write(certs.join("large"), vec![0; MAX_LENGTH as usize + 1]).unwrap();
        std::os::unix::fs::symlink("/etc/shadow", certs.join("link")).unwrap();
        let (certificates, log) = load(dir.path());
        assert_eq!(names(&certificates), ["good"]);
        assert!(["directory", "large", "link"].iter().all(|name| log.contains(name)), "{log}");
        assert!(!log.contains(".new"));
    }

    #[test]
    fn without_a_directory_they_are_kept_in_memory() {
        let mut certificates = Certificates::default();
        store(None, "a", b"one").unwrap();
        certificates.insert("a".into(), b"one".to_vec());
        assert_eq!(names(&certificates), ["a"]);
        delete(None, "a").unwrap();
        certificates.remove("a");
        assert_eq!(certificates.encode(|_| true), b"");
    }
}
