//! Validity periods of certificates.

use std::time::{Duration, SystemTime};

use x509_parser::certificate::X509Certificate;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

/// The validity period of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// Not valid before this time.
    pub since: SystemTime,
    /// Not valid after this time.
    pub until: SystemTime,
}

/// Returns the validity of the certificates in a PEM text, in order, up to the first that cannot be
/// read.
pub fn validity(pem: &[u8]) -> Vec<Validity> {
    let blocks = Pem::iter_from_buffer(pem).map_while(Result::ok);
    let certificates =
        blocks.filter(|block| matches!(block.label.as_str(), "CERTIFICATE" | "X509 CERTIFICATE"));
    let read = |block: Pem| {
        let (_, certificate) = X509Certificate::from_der(&block.contents).ok()?;
        let validity = certificate.validity();
        Some(Validity { since: time(validity.not_before), until: time(validity.not_after) })
    };
    certificates.map_while(read).collect()
}

/// Converts a time, clamped to the years 1970 to 9999, which HTTP dates can express.
fn time(time: ASN1Time) -> SystemTime {
    const END_OF_9999: u64 = 253_402_300_799;
    let seconds = u64::try_from(time.timestamp()).unwrap_or(0).min(END_OF_9999);
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_certificate_of_a_bundle_has_its_validity() {
        let bundle = crate::Bundle::read(include_bytes!("../testdata/ec.pem").to_vec()).unwrap();
        let chain = bundle.description()["chain"].as_array().unwrap().len();
        let found = validity(include_bytes!("../testdata/ec.pem"));
        assert_eq!(found.len(), chain);
        assert!(found.iter().all(|validity| validity.since < validity.until), "{found:?}");
    }

    #[test]
    fn what_is_no_certificate_has_no_validity() {
        let block = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for text in ["", "nothing", "-----BEGIN CERTIFICATE-----\nAA", block] {
            assert_eq!(validity(text.as_bytes()), [], "{text}");
        }
    }
}
