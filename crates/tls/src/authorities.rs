//! Who may issue certificates: those whom the system trusts, or those of a file of the user's.

use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// Where distributions keep the certificates that all programs trust.
const SYSTEM: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The system's file; where there is none, the name that it would have on Debian.
pub fn system_file() -> &'static Path {
    let mut there = SYSTEM.into_iter().map(Path::new).filter(|path| path.exists());
    there.next().unwrap_or(Path::new(SYSTEM[0]))
}

/// Why a file with certificates or keys is not read, and what helps if it is the system's.
pub fn unreadable(path: &str, error: &str) -> String {
    let advice = if SYSTEM.contains(&path) { "; install ca-certificates" } else { "" };
    format!("{path} cannot be read: {error}{advice}")
}

/// Those of the system's file, which may have some that no library reads.
pub fn system(text: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_slice_iter(text).filter_map(Result::ok);
    match roots.add_parsable_certificates(certificates) {
        (0, _) => Err(NONE.to_owned()),
        _ => Ok(roots),
    }
}

/// The certificates in a user's file, which has at least one.
pub fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>();
    match all.map_err(|_| "there is broken PEM in it".to_owned())? {
        none if none.is_empty() => Err(NONE.to_owned()),
        all => Ok(all),
    }
}

/// Those of a user's file: each of the certificates must be one of an authority.
pub fn users(certificates: Vec<CertificateDer<'_>>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for (index, certificate) in certificates.into_iter().enumerate() {
        let added = roots.add(certificate);
        added.map_err(|error| format!("certificate {}: {error}", index + 1))?;
    }
    Ok(roots)
}

const NONE: &str = "there is no certificate in PEM form in it";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_systems_certificates_it_is_said_what_to_install() {
        let system = system_file().display().to_string();
        assert!(unreadable(&system, "gone").ends_with("gone; install ca-certificates"));
        assert_eq!(unreadable("/a.pem", "gone"), "/a.pem cannot be read: gone");
    }
}
