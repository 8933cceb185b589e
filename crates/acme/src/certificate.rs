//! Reads certificates that an authority has issued.

use std::time::{Duration, SystemTime};

use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::schedule::Validity;

/// An issued certificate: the facts that decide when it is renewed.
#[derive(Debug)]
pub(super) struct IssuedCertificate {
    pub validity: Validity,
    /// DNS names in the form of [`howdah_tls::names`].
    names: Vec<String>,
    /// Certificate of the server, without its chain.
    pub leaf: CertificateDer<'static>,
}

impl IssuedCertificate {
    /// Parses a bundle of certificate chain and private key (PEM). The key must belong to the first
    /// certificate.
    pub fn parse(pem: &[u8]) -> Result<IssuedCertificate, String> {
        let certified = howdah_tls::certified(pem)?;
        let leaf = certified.cert.first().ok_or("there is no certificate in it")?;
        let (_, parsed) =
            X509Certificate::from_der(leaf).map_err(|_| "the certificate cannot be read")?;
        let time = |time: x509_parser::time::ASN1Time| {
            let seconds = u64::try_from(time.timestamp()).unwrap_or(0);
            SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.min(MAX_UNIX_TIME))
        };
        let validity = parsed.validity();
        let validity =
            Validity { not_before: time(validity.not_before), not_after: time(validity.not_after) };
        let names = howdah_tls::names(leaf);
        Ok(IssuedCertificate { validity, names, leaf: leaf.clone().into_owned() })
    }

    /// Returns true if the certificate is valid for all of these domains.
    pub fn covers(&self, domains: &[String]) -> bool {
        domains.iter().all(|domain| {
            let key = domain.strip_prefix('*').unwrap_or(domain);
            self.names.iter().any(|name| name == key)
        })
    }
}

/// End of the year 9999, in seconds since 1970 (RFC 5280, 4.1.2.5).
const MAX_UNIX_TIME: u64 = 253_402_300_800;

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn bundle(names: &[&str]) -> String {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        certificate.pem() + &key.serialize_pem()
    }

    fn covers(issued: &IssuedCertificate, domains: &[&str]) -> bool {
        issued.covers(&domains.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_certificate_is_for_the_names_in_it() {
        let issued = IssuedCertificate::parse(bundle(&["a.org", "*.b.org"]).as_bytes()).unwrap();
        assert!(covers(&issued, &["a.org", "*.b.org"]) && covers(&issued, &["a.org"]));
        assert!(!covers(&issued, &["a.org", "b.org"]) && !covers(&issued, &["*.a.org"]));
    }

    #[test]
    fn what_is_no_certificate_with_its_key_is_refused() {
        let (one, other) = (bundle(&["a.org"]), bundle(&["a.org"]));
        let certificate = one.split("-----BEGIN PRIVATE").next().unwrap();
        let key = other.split("-----END CERTIFICATE-----").nth(1).unwrap();
        for pem in ["", "nothing", certificate, key, &format!("{certificate}{key}")] {
            assert!(IssuedCertificate::parse(pem.as_bytes()).is_err());
        }
    }
}
