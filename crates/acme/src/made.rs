//! What is known of a certificate that an authority has made.

use std::time::{Duration, SystemTime};

use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::schedule::Validity;

/// A certificate with its key, checked.
#[derive(Debug)]
pub struct Made {
    pub validity: Validity,
    /// As [`tls::names`] has them.
    names: Vec<String>,
    pub leaf: CertificateDer<'static>,
}

impl Made {
    /// Reads a bundle (PEM); the key must be that of the first certificate.
    pub fn read(pem: &[u8]) -> Result<Made, String> {
        let certified = howdah_tls::certified(pem)?;
        let leaf = certified.cert.first().ok_or("there is no certificate in it")?;
        let (_, parsed) =
            X509Certificate::from_der(leaf).map_err(|_| "the certificate cannot be read")?;
        let time = |time: x509_parser::time::ASN1Time| {
            let seconds = u64::try_from(time.timestamp()).unwrap_or(0);
            SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.min(MOST_SECONDS))
        };
        let validity = parsed.validity();
        let validity =
            Validity { since: time(validity.not_before), until: time(validity.not_after) };
        Ok(Made { validity, names: howdah_tls::names(leaf), leaf: leaf.clone().into_owned() })
    }

    /// Whether it is for all of these names.
    pub fn covers(&self, domains: &[String]) -> bool {
        domains.iter().all(|domain| {
            let key = domain.strip_prefix('*').unwrap_or(domain);
            self.names.iter().any(|name| name == key)
        })
    }
}

/// The year 9999: times beyond are none.
const MOST_SECONDS: u64 = 253_402_300_800;

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

    fn covers(made: &Made, domains: &[&str]) -> bool {
        made.covers(&domains.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_certificate_is_for_the_names_in_it() {
        let made = Made::read(bundle(&["a.org", "*.b.org"]).as_bytes()).unwrap();
        assert!(covers(&made, &["a.org", "*.b.org"]) && covers(&made, &["a.org"]));
        assert!(!covers(&made, &["a.org", "b.org"]) && !covers(&made, &["*.a.org"]));
    }

    #[test]
    fn what_is_no_certificate_with_its_key_is_refused() {
        let (one, other) = (bundle(&["a.org"]), bundle(&["a.org"]));
        let certificate = one.split("-----BEGIN PRIVATE").next().unwrap();
        let key = other.split("-----END CERTIFICATE-----").nth(1).unwrap();
        for pem in ["", "nothing", certificate, key, &format!("{certificate}{key}")] {
            assert!(Made::read(pem.as_bytes()).is_err());
        }
    }
}
