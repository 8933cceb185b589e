//! Certificates of a document that have expired, expire soon or are not yet valid.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use howdah_config::{Certificate, Config, path};
use howdah_control::validity;
use howdah_router::check::TlsProblem;
use howdah_text::date;
use howdah_tls::{Untimely, Validity};

/// Returns lines about certificates that are not valid at a time, or will soon not be, each with
/// its path. `stored` returns a bundle of the certificate store.
pub(super) fn untimely(
    config: &Config,
    now: SystemTime,
    read: &dyn Fn(&Path) -> Option<Vec<u8>>,
    stored: &dyn Fn(&str) -> Option<Vec<u8>>,
) -> Vec<TlsProblem> {
    let mut all = Vec::new();
    let mut look = |place: &str, part: &str, certificate: &Certificate| {
        let (name, text) = match certificate {
            Certificate::Files { chain, .. } => (chain.display().to_string(), read(chain)),
            Certificate::Stored(name) => (format!("\"{name}\""), stored(name)),
            // The server renews this certificate itself.
            Certificate::Managed(_) => return,
        };
        for (number, found) in validity(&text.unwrap_or_default()).into_iter().enumerate() {
            let number = number + 1;
            let seconds =
                |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            let validity = Validity { since: seconds(found.since), until: seconds(found.until) };
            let (since, until) = (date::http_of(found.since), date::http_of(found.until));
            let problem = match validity.problem(seconds(now)) {
                Some(Untimely::Expired) => format!("has expired on {until}; renew it"),
                Some(Untimely::NotYet) => {
                    format!("is not valid before {since}; check the clock too")
                }
                Some(Untimely::Soon) => format!("expires on {until}; renew it"),
                None => continue,
            };
            let problem = format!("certificate {number} of {name} {problem}");
            all.push(TlsProblem { place: place.to_owned(), part: part.to_owned(), problem });
        }
    };
    for listener in &config.listeners {
        let place = path(["listeners", listener.key.as_str(), "tls", "certificate"]);
        let certificates = listener.tls.iter().flat_map(|tls| &tls.certificates);
        for (number, certificate) in certificates.enumerate() {
            look(&place, &format!("{place}/{number}"), certificate);
        }
    }
    for (place, tls) in config.upstream_tls() {
        let place = format!("{place}/certificate");
        tls.certificate.iter().for_each(|own| look(&place, &place, own));
    }
    all
}
