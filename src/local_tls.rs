//! Certificates for development: an authority of this machine's own, and what it has issued.
//!
//! The authority is made once and is there to be trusted; its key stays where it is. The
//! certificate is made anew when it is for other names, when it grows old, or when one of the
//! files is missing. All files are readable only for who starts the server.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// Names that are always in the certificate.
const ALWAYS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// How long the certificate counts: no longer than what browsers take.
const LIFE: Duration = Duration::from_secs(397 * 86_400);
/// It is made anew in time.
const OLD: Duration = Duration::from_secs(300 * 86_400);
/// How long the authority counts.
const LIFE_OF_AUTHORITY: Duration = Duration::from_secs(3650 * 86_400);

/// Where the files are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Local {
    directory: PathBuf,
    names: Vec<String>,
}

impl Local {
    /// In the directory for the server's state, for these names beside those of this machine.
    pub fn new(state: &Path, names: &[String]) -> Local {
        let names = ALWAYS.iter().map(|name| (*name).to_owned()).chain(names.iter().cloned());
        Local { directory: state.join("local"), names: names.collect() }
    }

    /// The authority's certificate.
    pub fn authority(&self) -> PathBuf {
        self.directory.join("authority.pem")
    }

    /// The server's certificate.
    pub fn chain(&self) -> PathBuf {
        self.directory.join("certificate.pem")
    }

    /// Its key.
    pub fn key(&self) -> PathBuf {
        self.directory.join("key.pem")
    }

    /// Makes what is missing or too old.
    pub fn prepare(&self, now: SystemTime) -> Result<(), String> {
        let problem = |error: &dyn std::fmt::Display| {
            format!("no certificate can be made in {}: {error}", self.directory.display())
        };
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(&self.directory).map_err(|error| problem(&error))?;
        let key = self.authority_key(now).map_err(|error| problem(&error))?;
        if self.is_current(now) {
            return Ok(());
        }
        let (certificate, own) = self.issue(&key, now).map_err(|error| problem(&error))?;
        let names = self.names.join("\n");
        // The names come last: only if they are there, all of it is.
        let files = [(self.key(), own), (self.chain(), certificate), (self.list(), names)];
        for (path, text) in files {
            write(&path, &text).map_err(|error| problem(&error))?;
        }
        Ok(())
    }

    /// What to tell somebody who wants browsers to trust it.
    pub fn explain(&self) -> Vec<String> {
        let authority = self.authority();
        let authority = authority.display();
        vec![
            format!(
                "certificate: for {}, by an authority of this machine's own",
                self.names.join(", ")
            ),
            format!("trust it:    curl --cacert {authority} https://localhost…"),
            format!(
                "             Debian and Ubuntu: sudo cp {authority} \
                 /usr/local/share/ca-certificates/howdah-local.crt && sudo update-ca-certificates"
            ),
            format!(
                "             Firefox: Settings, Certificates, Authorities, Import {authority}; Chrome: \
                 certutil -d sql:$HOME/.pki/nssdb -A -t C,, -n howdah-local -i {authority}"
            ),
        ]
    }

    fn list(&self) -> PathBuf {
        self.directory.join("names")
    }

    fn is_current(&self, now: SystemTime) -> bool {
        let is_for =
            fs::read_to_string(self.list()).is_ok_and(|list| list == self.names.join("\n"));
        let made = |path: &Path| fs::metadata(path).and_then(|found| found.modified());
        let (Ok(own), Ok(authority)) = (made(&self.chain()), made(&self.authority())) else {
            return false;
        };
        let is_young = now.duration_since(own).is_ok_and(|age| age < OLD) || own > now;
        is_for && is_young && own >= authority && self.key().exists()
    }

    /// The authority's key; it and the certificate are made if one is missing or has run out.
    fn authority_key(&self, now: SystemTime) -> Result<KeyPair, String> {
        let path = self.directory.join("authority.key");
        let made = fs::metadata(self.authority()).and_then(|found| found.modified());
        let is_young = made.is_ok_and(|made| {
            now.duration_since(made).is_ok_and(|age| age < LIFE_OF_AUTHORITY - LIFE) || made > now
        });
        if let (true, Ok(text)) = (is_young, fs::read_to_string(&path)) {
            let key = KeyPair::from_pem(&text);
            return key.map_err(|error| format!("{}: {error}", path.display()));
        }
        let make = || -> Result<_, rcgen::Error> {
            let key = KeyPair::generate()?;
            let mut params = authority();
            params.not_before = (now - Duration::from_secs(86_400)).into();
            params.not_after = (now + LIFE_OF_AUTHORITY).into();
            let certificate = params.self_signed(&key)?;
            Ok((key, certificate))
        };
        let (key, certificate) = make().map_err(|error| error.to_string())?;
        write(&path, &key.serialize_pem()).map_err(|error| error.to_string())?;
        write(&self.authority(), &certificate.pem()).map_err(|error| error.to_string())?;
        Ok(key)
    }

    /// The certificate with its chain, and its key.
    fn issue(
        &self,
        authority_key: &KeyPair,
        now: SystemTime,
    ) -> Result<(String, String), rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(self.names.clone())?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "Howdah on this machine");
        params.not_before = (now - Duration::from_secs(86_400)).into();
        params.not_after = (now + LIFE).into();
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let issuer = authority();
        let certificate = params.signed_by(&key, &Issuer::from_params(&issuer, authority_key))?;
        Ok((certificate.pem(), key.serialize_pem()))
    }
}

/// What the authority says of itself; the same each time.
fn authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "Howdah, authority of this machine");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// A file that only this user can read; the old or the new one is there, whole.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new);
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn text(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn what_was_made_stays_until_it_is_old_or_for_other_names() {
        let state = tempfile::tempdir().unwrap();
        let (local, now) = (Local::new(state.path(), &[]), SystemTime::now());
        local.prepare(now).unwrap();
        for file in fs::read_dir(state.path().join("local")).unwrap().flatten() {
            let mode = file.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{:?}", file.file_name());
        }
        let (authority, chain) = (text(&local.authority()), text(&local.chain()));
        local.prepare(now + OLD / 2).unwrap();
        assert_eq!(text(&local.chain()), chain);
        local.prepare(now + OLD + Duration::from_secs(60)).unwrap();
        assert_ne!(text(&local.chain()), chain, "it grows old");
        let other = Local::new(state.path(), &["shop.test".to_owned()]);
        let chain = text(&local.chain());
        other.prepare(now).unwrap();
        assert_ne!(text(&local.chain()), chain, "it is for another name");
        assert_eq!(text(&local.authority()), authority, "who trusts it need not do so again");
        fs::remove_file(local.authority()).unwrap();
        other.prepare(now).unwrap();
        assert_ne!(text(&local.authority()), authority);
    }

    #[test]
    fn a_directory_that_cannot_be_written_to_is_named() {
        let problem = Local::new(Path::new("/proc/nothing"), &[]).prepare(SystemTime::now());
        assert!(problem.unwrap_err().contains("/proc/nothing/local"));
    }
}
