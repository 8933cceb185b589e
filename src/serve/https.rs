//! https of `howdah serve DIR`: `--tls` for development, `--domain` with a certificate of an
//! authority.

use serde_json::{Value, json};

use super::local_tls::LocalCertificate;
use crate::cli::Serve;

/// Returns the default addresses to listen on.
pub fn addresses(arguments: &Serve) -> Vec<String> {
    let addresses: &[&str] = match (arguments.tls, arguments.domain.is_empty()) {
        (true, _) => &["127.0.0.1:8443"],
        (false, true) => &["127.0.0.1:8080"],
        (false, false) => &["*:80", "*:443"],
    };
    addresses.iter().map(|address| (*address).to_owned()).collect()
}

/// Adds TLS to the listeners of a document, or on port 80 a redirect to https, according to the
/// options.
pub fn secure(document: &mut Value, arguments: &Serve, local: Option<&LocalCertificate>) {
    let tls = match local {
        Some(local) => json!({"certificate": {"chain": local.chain(), "key": local.key()}}),
        None if arguments.domain.is_empty() => return,
        None => {
            let mut acme = json!({"domains": arguments.domain});
            for (key, value) in [("email", &arguments.email), ("servers", &arguments.acme)] {
                if let Some(value) = value {
                    acme[key] = json!(value);
                }
            }
            json!({"acme": acme})
        }
    };
    let Some(listeners) = document.get_mut("listeners").and_then(Value::as_object_mut) else {
        return;
    };
    let https = listeners.keys().find(|name| !is_plain(name)).and_then(|name| port(name));
    for (name, listener) in listeners {
        match is_plain(name) {
            true => listener["redirect_to_https"] = https.map_or(json!(true), |port| json!(port)),
            false => listener["tls"] = tls.clone(),
        }
    }
}

/// Returns true if an address is for requests without TLS: on port 80.
fn is_plain(address: &str) -> bool {
    port(address) == Some(80)
}

fn port(address: &str) -> Option<u16> {
    match address.starts_with("unix:") {
        true => None,
        false => address.rsplit(':').next()?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(addresses: &[&str]) -> Value {
        let listeners =
            addresses.iter().map(|name| ((*name).to_owned(), json!({"pass": "routes"})));
        json!({"listeners": Value::Object(listeners.collect()), "routes": []})
    }

    #[test]
    fn a_domain_is_served_over_tls_and_port_80_leads_there() {
        let arguments = Serve {
            domain: vec!["a.org".to_owned(), "www.a.org".to_owned()],
            email: Some("me@a.org".to_owned()),
            ..Serve::default()
        };
        assert_eq!(addresses(&arguments), ["*:80", "*:443"]);
        let mut document = document(&["*:80", "*:443", "127.0.0.1:8443"]);
        secure(&mut document, &arguments, None);
        let config = howdah_config::parse(document.to_string().as_bytes()).unwrap();
        assert_eq!(config.listeners[0].redirect_to_https, Some(443));
        assert!(config.listeners[0].tls.is_none());
        for listener in &config.listeners[1..] {
            let acme = &listener.tls.as_ref().unwrap().acme[0];
            assert_eq!((acme.domains.len(), acme.email.as_deref()), (2, Some("me@a.org")));
        }
    }

    #[test]
    fn without_the_options_nothing_is_changed() {
        let mut changed = document(&["*:80"]);
        secure(&mut changed, &Serve::default(), None);
        assert_eq!(changed, document(&["*:80"]));
    }
}
