//! https of `howdah serve DIR`: `--tls` for development, `--domain` with a certificate of an
//! authority.

use std::net::SocketAddr;

use howdah_supervisor::{InheritedSocket, SocketOwner as Owner};
use rustix::net::{getsockname, sockopt};
use serde_json::{Value, json};

use super::local_tls::LocalCertificate;
use crate::cli::Serve;

/// Returns the default addresses to listen on. An authority that checks a name with an IPv6 address
/// connects to that one, so a name is served over IPv6 as well.
pub fn addresses(arguments: &Serve, has_ipv6: bool) -> Vec<String> {
    let addresses: &[&str] = match (arguments.tls, arguments.domain.is_empty()) {
        (true, _) => &["127.0.0.1:8443"],
        (false, true) => &["127.0.0.1:8080"],
        (false, false) if has_ipv6 => &["*:80", "[::]:80", "*:443", "[::]:443"],
        (false, false) => &["*:80", "*:443"],
    };
    addresses.iter().map(|address| (*address).to_owned()).collect()
}

/// Returns the default addresses to listen on if the service manager has sockets for this process;
/// `None` if others are the default. One of its sockets may be for IPv4 and IPv6, and the server
/// may have no right to open one beside it.
pub fn passed_addresses(arguments: &Serve, passed: &[InheritedSocket]) -> Option<Vec<String>> {
    let is_of_unit = |socket: &&InheritedSocket| socket.owner == Owner::ServiceManager;
    if arguments.tls || arguments.domain.is_empty() || !passed.iter().any(|s| is_of_unit(&s)) {
        return None;
    }
    let mut addresses = self::addresses(arguments, true);
    addresses.retain(|address| match address.strip_prefix("[::]:") {
        Some(port) => passed.iter().filter(is_of_unit).any(|socket| is_of_ipv6(socket, port)),
        None => true,
    });
    Some(addresses)
}

/// Returns true if a passed socket is for a port of IPv6 alone.
fn is_of_ipv6(socket: &InheritedSocket, port: &str) -> bool {
    let address = getsockname(&socket.fd).ok().and_then(|any| SocketAddr::try_from(any).ok());
    let has_port = address.is_some_and(|address| address.port().to_string() == port);
    socket.name == format!("[==]={port}")
        || has_port && sockopt::ipv6_v6only(&socket.fd).unwrap_or(false)
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
        if is_plain(name) {
            listener["redirect_to_https"] = https.map_or(json!(true), |port| json!(port))
        } else {
            listener["tls"] = tls.clone()
        }
    }
}

/// Returns true if an address is for requests without TLS: on port 80.
fn is_plain(address: &str) -> bool {
    port(address) == Some(80)
}

fn port(address: &str) -> Option<u16> {
    if address.starts_with("unix:") { None } else { address.rsplit(':').next()?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv6Addr, TcpListener};
    use std::os::fd::OwnedFd;

    use super::*;

    fn document(addresses: &[impl AsRef<str>]) -> Value {
        let listeners =
            addresses.iter().map(|name| (name.as_ref().to_owned(), json!({"pass": "routes"})));
        json!({"listeners": Value::Object(listeners.collect()), "routes": []})
    }

    /// Scenario: a socket unit with `ListenStream=80`, which is for IPv4 and IPv6, or with
    /// `BindIPv6Only=ipv6-only`.
    #[test]
    fn sockets_of_a_service_manager_decide_what_a_domain_is_served_on() {
        let arguments = Serve { domain: vec!["a.org".to_owned()], ..Serve::default() };
        let passed =
            |name: &str| InheritedSocket::of_service_manager(any_socket(), name.to_owned());
        let addresses = |arguments: &Serve, passed| passed_addresses(arguments, &[passed]);
        let both = ["*:80", "*:443"].map(str::to_owned).to_vec();
        assert_eq!(addresses(&arguments, passed("howdah.socket")), Some(both));
        let named = addresses(&arguments, passed("[==]=443")).unwrap();
        assert_eq!(named, ["*:80", "*:443", "[::]:443"]);
        assert_eq!(passed_addresses(&arguments, &[]), None);
        assert_eq!(addresses(&Serve::default(), passed("")), None);
        let own = InheritedSocket { owner: Owner::Server, ..passed("") };
        assert_eq!(addresses(&arguments, own), None, "one that was stored for a restart");
    }

    #[test]
    fn a_socket_is_for_ipv6_if_it_is_not_for_ipv4_too() {
        let Ok(both) = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)) else { return };
        let port = both.local_addr().unwrap().port();
        let with = |socket: OwnedFd| InheritedSocket::of_service_manager(socket, String::new());
        if sockopt::ipv6_v6only(&both).unwrap() {
            return; // the machine is set up like that
        }
        assert!(!is_of_ipv6(&with(both.into()), &port.to_string()));
        let (family, kind) = (rustix::net::AddressFamily::INET6, rustix::net::SocketType::STREAM);
        let only = rustix::net::socket(family, kind, None).unwrap();
        sockopt::set_ipv6_v6only(&only, true).unwrap();
        rustix::net::bind(&only, &SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))).unwrap();
        assert!(is_of_ipv6(&with(only), &port.to_string()));
        assert!(!is_of_ipv6(&with(any_socket()), "1"));
    }

    fn any_socket() -> OwnedFd {
        TcpListener::bind("127.0.0.1:0").unwrap().into()
    }

    #[test]
    fn a_domain_is_served_over_tls_and_port_80_leads_there() {
        let arguments = Serve {
            domain: vec!["a.org".to_owned(), "www.a.org".to_owned()],
            email: Some("me@a.org".to_owned()),
            ..Serve::default()
        };
        assert_eq!(addresses(&arguments, false), ["*:80", "*:443"]);
        let mut all = addresses(&arguments, true);
        assert_eq!(all, ["*:80", "[::]:80", "*:443", "[::]:443"]);
        all.push("127.0.0.1:8443".to_owned());
        let mut document = document(&all);
        secure(&mut document, &arguments, None);
        let config = howdah_config::parse(document.to_string().as_bytes()).unwrap();
        let (plain, secure): (Vec<_>, Vec<_>) =
            config.listeners.iter().partition(|listener| listener.name.ends_with(":80"));
        assert_eq!((plain.len(), secure.len()), (2, 3));
        for listener in plain {
            assert!(listener.redirect_to_https == Some(443) && listener.tls.is_none());
        }
        for listener in secure {
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
