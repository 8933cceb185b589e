//! HTTPS of a site: certificates, and redirects to the one address of a page.

use std::net::Ipv4Addr;

use howdah_config::include::SiteProblem;
use howdah_config::{Site, SiteHttps, has_dns};
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

/// Returns the parts of the listeners with the key of the site that each comes from.
pub(crate) fn places(site: &Site) -> Vec<(Vec<String>, Vec<String>)> {
    let parts: &[(&[&str], &[&str])] = match &site.https {
        SiteHttps::Off | SiteHttps::WithoutEmail => &[],
        SiteHttps::Certificate(_) => &[
            (&["certificate", "0"], &["https"]),
            (&["certificate", "0", "chain"], &["https", "certificate"]),
        ],
        SiteHttps::Acme(_) => {
            &[(&["acme", "0"], &["https"]), (&["acme", "0", "domains"], &["hosts"])]
        }
    };
    let owned = |path: &[&str]| path.iter().map(|step| (*step).to_owned()).collect::<Vec<_>>();
    let of_listener = |address: &String| {
        let above = owned(&["listeners", address, "tls"]);
        let place = move |(part, key): &(&[&str], &[&str])| {
            ([above.as_slice(), &owned(part)].concat(), owned(key))
        };
        parts.iter().map(place).collect::<Vec<_>>()
    };
    site.listen_https.iter().flat_map(of_listener).collect()
}

/// Returns the names of the certificate: without those that the authority cannot check.
fn domains(site: &Site, authority: &Map<String, Value>) -> Result<Vec<String>, SiteProblem> {
    let domains = site.hosts.iter().filter(|host| can_be_checked(host, authority));
    let domains: Vec<_> = domains.cloned().collect();
    if domains.is_empty() {
        let problem = "no authority gives a certificate for these hosts without \"dns\"; add it \
                       to \"https\", name the files of a certificate there, or set it to false";
        return Err(SiteProblem {
            key: vec!["https".to_owned()],
            problem: problem.to_owned(),
            because_of: None,
        });
    }
    Ok(domains)
}

/// Returns a note about hosts that get no certificate, if there are any.
pub(crate) fn note(site: &Site) -> Option<String> {
    let without = without_certificate(site);
    (!without.is_empty()).then(|| {
        format!(
            "the authority gives no certificate for {} without \"dns\"; requests for them stay \
             without encryption",
            without.join(", ")
        )
    })
}

/// Returns the hosts for which the authority gives no certificate.
fn without_certificate(site: &Site) -> Vec<&str> {
    let SiteHttps::Acme(authority) = &site.https else { return Vec::new() };
    let hosts = site.hosts.iter().filter(|host| !can_be_checked(host, authority));
    hosts.map(String::as_str).collect()
}

/// Returns true if an authority can check that a host is of this server.
fn can_be_checked(host: &str, authority: &Map<String, Value>) -> bool {
    let has_dns = authority.contains_key("dns") && authority.get("challenges").is_none_or(has_dns);
    let is_address = host.parse::<Ipv4Addr>().is_ok();
    host != "*" && !is_address && (has_dns || !host.starts_with("*."))
}

/// Returns the steps that redirect to HTTPS and to the canonical host.
pub(crate) fn redirects(site: &Site) -> Vec<Value> {
    let port = site.listen_https.first().and_then(|address| address.rsplit(':').next());
    let port = port.filter(|port| *port != "443").map(|port| format!(":{port}"));
    let port = port.unwrap_or_default();
    let host = site.canonical.as_deref().unwrap_or("$host");
    let mut steps = Vec::new();
    if site.is_encrypted() {
        let mut conditions = json!({"scheme": "http"});
        let without = without_certificate(site);
        if site.canonical.is_none() && !without.is_empty() {
            let hosts = site.hosts.iter().filter(|host| !without.contains(&host.as_str()));
            conditions["host"] = hosts.cloned().collect();
        }
        steps.push(json!({
            "match": conditions,
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
