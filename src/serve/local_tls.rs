//! Certificates for development: a local authority and a certificate that it has issued.
//!
//! The authority is created once, so that browsers can be made to trust it. The certificate is
//! renewed when the names change, when it is old, or when a file is missing. Only the user that
//! starts the server can read the files.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// Names of this machine, which are always in the certificate.
const OWN_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Lifetime of the certificate: the maximum that browsers accept.
const LIFETIME: Duration = Duration::from_secs(397 * 86_400);
/// Age at which the certificate is renewed.
const RENEWAL_AGE: Duration = Duration::from_secs(300 * 86_400);
/// Lifetime of the authority's certificate.
const AUTHORITY_LIFETIME: Duration = Duration::from_secs(3650 * 86_400);

/// The directory of the files, and the names in the certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalCertificate {
    directory: PathBuf,
    names: Vec<String>,
}

impl LocalCertificate {
    /// Creates the description for a subdirectory of the state directory. `names` are added to
    /// those of this machine.
    pub fn new(state: &Path, names: &[String]) -> LocalCertificate {
        let names = OWN_NAMES.iter().map(|name| (*name).to_owned()).chain(names.iter().cloned());
        LocalCertificate { directory: state.join("local"), names: names.collect() }
    }

    /// Returns the file of the authority's certificate.
    pub fn authority(&self) -> PathBuf {
        self.directory.join("authority.pem")
    }

    /// Returns the file of the server's certificate.
    pub fn chain(&self) -> PathBuf {
        self.directory.join("certificate.pem")
    }

    /// Returns the file of the server's key.
    pub fn key(&self) -> PathBuf {
        self.directory.join("key.pem")
    }

    /// Creates files that are missing or too old.
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
        // The names are written last: they show that all files are complete.
        let files = [(self.key(), own), (self.chain(), certificate), (self.list(), names)];
        for (path, text) in files {
            write(&path, &text).map_err(|error| problem(&error))?;
        }
        Ok(())
    }

    /// Returns lines for the terminal that explain how to make browsers trust the authority.
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
                "             Firefox: Settings, Certificates, Authorities, Import {authority}; \
                 Chrome: certutil -d sql:$HOME/.pki/nssdb -A -t C,, -n howdah-local -i {authority}"
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
        let is_young = now.duration_since(own).is_ok_and(|age| age < RENEWAL_AGE) || own > now;
        is_for && is_young && own >= authority && self.key().exists()
    }

    /// Returns the authority's key. Creates key and certificate if one is missing or the
    /// certificate is too old.
    fn authority_key(&self, now: SystemTime) -> Result<KeyPair, String> {
        let path = self.directory.join("authority.key");
        let made = fs::metadata(self.authority()).and_then(|found| found.modified());
        let is_young = made.is_ok_and(|made| {
            now.duration_since(made).is_ok_and(|age| age < AUTHORITY_LIFETIME - LIFETIME)
                || made > now
        });
        if let (true, Ok(text)) = (is_young, fs::read_to_string(&path)) {
            let key = KeyPair::from_pem(&text);
            return key.map_err(|error| format!("{}: {error}", path.display()));
        }
        let make = || -> Result<_, rcgen::Error> {
            let key = KeyPair::generate()?;
            let mut params = authority();
            params.not_before = (now - Duration::from_secs(86_400)).into();
            params.not_after = (now + AUTHORITY_LIFETIME).into();
            let certificate = params.self_signed(&key)?;
            Ok((key, certificate))
        };
        let (key, certificate) = make().map_err(|error| error.to_string())?;
        write(&path, &key.serialize_pem()).map_err(|error| error.to_string())?;
        write(&self.authority(), &certificate.pem()).map_err(|error| error.to_string())?;
        Ok(key)
    }

    /// Issues a certificate. Returns it and its key, in PEM.
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
        params.not_after = (now + LIFETIME).into();
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let issuer = authority();
        let certificate = params.signed_by(&key, &Issuer::from_params(&issuer, authority_key))?;
        Ok((certificate.pem(), key.serialize_pem()))
    }
}

/// Returns the parameters of the authority's certificate.
fn authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "Howdah, authority of this machine");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// Replaces a file atomically with a file that only this user can read.
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
        let (local, now) = (LocalCertificate::new(state.path(), &[]), SystemTime::now());
        local.prepare(now).unwrap();
        for file in fs::read_dir(state.path().join("local")).unwrap().flatten() {
            let mode = file.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{:?}", file.file_name());
        }
        let (authority, chain) = (text(&local.authority()), text(&local.chain()));
        local.prepare(now + RENEWAL_AGE / 2).unwrap();
        assert_eq!(text(&local.chain()), chain);
        local.prepare(now + RENEWAL_AGE + Duration::from_secs(60)).unwrap();
        assert_ne!(text(&local.chain()), chain, "it grows old");
        let other = LocalCertificate::new(state.path(), &["shop.test".to_owned()]);
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
        let problem =
            LocalCertificate::new(Path::new("/proc/nothing"), &[]).prepare(SystemTime::now());
        assert!(problem.unwrap_err().contains("/proc/nothing/local"));
    }
}
