//! HTTPS of a site: certificates, and redirects to the one address of a page.

use howdah_config::include::SiteProblem;
use howdah_config::{Site, SiteHttps};
use serde_json::{Map, Value, json};

/// Returns the listeners with the certificate of the site; `None` without HTTPS.
pub(crate) fn listeners(site: &Site) -> Result<Option<Value>, SiteProblem> {
    let tls = match &site.https {
        SiteHttps::Off | SiteHttps::WithoutEmail => return Ok(None),
        SiteHttps::Certificate(files) => json!({"certificate": [files]}),
        SiteHttps::Acme(authority) => {
            let domains = domains(site, authority)?;
            let mut acme = authority.clone();
            acme.insert("domains".to_owned(), json!(domains));
            json!({"acme": [acme]})
        }
    };
    let listeners = site.listen_https.iter().map(|address| (address.clone(), json!({"tls": tls})));
    Ok(Some(Value::Object(listeners.collect())))
}

/// Returns the names of the certificate: without those that the authority cannot check.
fn domains(site: &Site, authority: &Map<String, Value>) -> Result<Vec<String>, SiteProblem> {
    let has_dns = authority.contains_key("dns");
    let can_check = |host: &&String| *host != "*" && (has_dns || !host.starts_with("*."));
    let domains: Vec<_> = site.hosts.iter().filter(can_check).cloned().collect();
    if domains.is_empty() {
        let problem = "no authority gives a certificate for these hosts without \"dns\"; add it \
                       to \"https\", name the files of a certificate there, or set it to false";
        return Err(SiteProblem { key: "https", problem: problem.to_owned(), because_of: None });
    }
    Ok(domains)
}

/// Returns the steps that redirect to HTTPS and to the canonical host.
pub(crate) fn redirects(site: &Site) -> Vec<Value> {
    let port = site.listen_https.first().and_then(|address| address.rsplit(':').next());
    let port = port.filter(|port| *port != "443").map(|port| format!(":{port}"));
    let port = port.unwrap_or_default();
    let host = site.canonical.as_deref().unwrap_or("$host");
    let mut steps = Vec::new();
    if site.is_encrypted() {
        steps.push(json!({
            "match": {"scheme": "http"},
            "action": {"return": 301, "location": format!("https://{host}{port}$request_uri")},
        }));
    }
    if let Some(canonical) = &site.canonical {
        let location = if site.is_encrypted() {
            format!("https://{canonical}{port}$request_uri")
        } else {
            format!("$scheme://{canonical}$request_uri")
        };
        steps.push(json!({
            "match": {"host": format!("!{canonical}")},
            "action": {"return": 301, "location": location},
        }));
    }
    steps
}
