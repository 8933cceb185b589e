//! Trusted authorities: those of the system, or those of a configured file.

use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// Files with the system's trusted authorities, by distribution.
const SYSTEM_FILES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Returns the path of the system's file that exists, or else Debian's path.
pub fn system_file() -> &'static Path {
    let mut existing = SYSTEM_FILES.into_iter().map(Path::new).filter(|path| path.exists());
    existing.next().unwrap_or(Path::new(SYSTEM_FILES[0]))
}

/// Returns the error for a file of certificates or keys that cannot be read; for the system's file,
/// with the package to install.
pub fn unreadable(path: &str, error: &str) -> String {
    let advice = if SYSTEM_FILES.contains(&path) { "; install ca-certificates" } else { "" };
    format!("{path} cannot be read: {error}{advice}")
}

/// Parses the system's file. Certificates that the TLS library cannot parse are skipped.
pub fn system(text: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_slice_iter(text).filter_map(Result::ok);
    match roots.add_parsable_certificates(certificates) {
        (0, _) => Err(NO_CERTIFICATE.to_owned()),
        _ => Ok(roots),
    }
}

/// Parses a configured file of certificates. Error: broken PEM, or no certificate.
pub fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>();
    match all.map_err(|_| "there is broken PEM in it".to_owned())? {
        none if none.is_empty() => Err(NO_CERTIFICATE.to_owned()),
        all => Ok(all),
    }
}

/// Returns the trusted authorities of a configured file. Error: a certificate that is not an
/// authority's.
pub fn users(certificates: Vec<CertificateDer<'_>>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for (index, certificate) in certificates.into_iter().enumerate() {
        let added = roots.add(certificate);
        added.map_err(|error| format!("certificate {}: {error}", index + 1))?;
    }
    Ok(roots)
}

const NO_CERTIFICATE: &str = "there is no certificate in PEM form in it";

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
