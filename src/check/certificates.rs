//! Certificates of a document that have expired or are not yet valid.

use std::path::Path;
use std::time::SystemTime;

use howdah_config::{Certificate, Config, path};
use howdah_control::validity;

/// Returns lines about certificates that are not valid at a time, each with its path. `stored`
/// returns a bundle of the certificate store.
pub(super) fn untimely(
    config: &Config,
    now: SystemTime,
    read: &dyn Fn(&Path) -> Option<Vec<u8>>,
    stored: &dyn Fn(&str) -> Option<Vec<u8>>,
) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut look = |place: &str, certificate: &Certificate| {
        let (name, text) = match certificate {
            Certificate::Files { chain, .. } => (chain.display().to_string(), read(chain)),
            Certificate::Stored(name) => (format!("\"{name}\""), stored(name)),
            // The server renews this certificate itself.
            Certificate::Managed(_) => return,
        };
        for (number, validity) in validity(&text.unwrap_or_default()).into_iter().enumerate() {
            let number = number + 1;
            let date = httpdate::fmt_http_date;
            let problem = if now > validity.until {
                format!("has expired on {}; renew it", date(validity.until))
            } else if now < validity.since {
                format!("is not valid before {}; check the clock too", date(validity.since))
            } else {
                continue;
            };
            all.push((place.to_owned(), format!("certificate {number} of {name} {problem}")));
        }
    };
    for listener in &config.listeners {
        let place = path(["listeners", listener.name.as_str(), "tls", "certificate"]);
        for certificate in listener.tls.iter().flat_map(|tls| &tls.certificates) {
            look(&place, certificate);
        }
    }
    for (place, tls) in config.upstream_tls() {
        tls.certificate.iter().for_each(|own| look(&format!("{place}/certificate"), own));
    }
    all
}
