//! Private keys and the signing requests (CSR, RFC 2986) for them.

use howdah_config::AcmeKey;
use rcgen::{CertificateParams, DistinguishedName, KeyPair, RsaKeySize};

/// A new private key and its signing request.
pub(super) struct SigningRequest {
    /// Private key in PEM.
    pub key: String,
    /// Signing request in DER.
    pub csr: Vec<u8>,
}

impl SigningRequest {
    /// Generates a key. Blocks (for long with RSA); call it on a thread for blocking work.
    pub fn generate(kind: AcmeKey, domains: Vec<String>) -> Result<SigningRequest, String> {
        let generate = || -> Result<_, rcgen::Error> {
            let key = match kind {
                AcmeKey::Ecdsa => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?,
                AcmeKey::Rsa => {
                    KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048)?
                }
            };
            let mut params = CertificateParams::new(domains)?;
            params.distinguished_name = DistinguishedName::new();
            let request = params.serialize_request(&key)?;
            Ok(SigningRequest { key: key.serialize_pem(), csr: request.der().to_vec() })
        };
        generate().map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_for_the_names_and_nothing_else() {
        use x509_parser::certification_request::X509CertificationRequest;
        use x509_parser::prelude::FromDer;
        for kind in [AcmeKey::Ecdsa, AcmeKey::Rsa] {
            let names = vec!["a.org".to_owned(), "*.a.org".to_owned()];
            let request = SigningRequest::generate(kind, names).unwrap();
            assert!(request.key.contains("PRIVATE KEY"));
            let (_, csr) = X509CertificationRequest::from_der(&request.csr).unwrap();
            assert_eq!(csr.certification_request_info.subject.iter().count(), 0);
            let text = format!("{:?}", csr.requested_extensions().unwrap().collect::<Vec<_>>());
            assert!(text.contains("a.org") && text.contains("*.a.org"), "{text}");
        }
    }
}
