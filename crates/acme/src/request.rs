//! Parameters of a request for one certificate.

use howdah_config::{Acme, AcmeChallenge};
use instant_acme::CertificateIdentifier;

/// A request for one certificate.
pub(super) struct CertificateRequest<'a> {
    pub acme: &'a Acme,
    pub domains: &'a [String],
    /// Type of challenge that proves the names.
    pub challenge: AcmeChallenge,
    /// Certificate that the new one replaces (RFC 9773, 5), for the authority that issued it.
    pub replaces: Option<CertificateIdentifier<'static>>,
}

impl CertificateRequest<'_> {
    /// Returns true if the certificate will be for this name; an authorization names a wildcard
    /// without its `*.` (RFC 8555, 7.1.4).
    pub fn includes(&self, domain: &str) -> bool {
        self.domains.iter().any(|own| own.strip_prefix("*.").unwrap_or(own) == domain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_name_than_the_wanted_is_not_proved() {
        let acme = r#"{"listeners": {"*:443": {"pass": "routes", "tls":
            {"acme": {"domains": ["*.a.org", "b.org"], "dns": {"program": "/p"}}}}},
            "routes": []}"#;
        let mut config = howdah_config::parse(acme.as_bytes()).unwrap();
        let acme = config.listeners.remove(0).tls.unwrap().acme.remove(0);
        let request = CertificateRequest {
            acme: &acme,
            domains: &acme.domains,
            challenge: AcmeChallenge::Dns,
            replaces: None,
        };
        assert!(request.includes("a.org") && request.includes("b.org"));
        assert!(!request.includes("c.org") && !request.includes("x.a.org"));
    }
}
