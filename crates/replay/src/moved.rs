//! A document that can be served beside the old server.

use std::net::{IpAddr, SocketAddr};

use serde_json::{Map, Value, json};

/// Members of `settings` through which a server does something for others than its clients.
const OUTWARD: [&str; 4] = ["cluster", "metrics", "telemetry", "usage"];

/// Members that name files to which a server writes.
const WRITTEN: [&str; 3] = ["slow_log", "stdout", "stderr"];

/// Returns a document with one listener of `document`, the one for requests of `old`, at `address`.
/// It writes no logs of sites, and asks no authority for certificates.
pub fn moved(
    document: &Value,
    old: SocketAddr,
    is_tls: bool,
    address: SocketAddr,
) -> Result<Value, String> {
    let listener = chosen(document, old, is_tls).ok_or_else(|| {
        let kind = if is_tls { "with" } else { "without" };
        format!("the document has no listener {kind} TLS, so nothing can be compared with {old}")
    })?;
    let mut moved = document.clone();
    let mut listener = listener.clone();
    if let Some(object) = listener.as_object_mut() {
        object.remove("proxy_protocol");
    }
    if let Some(tls) = listener.get_mut("tls").and_then(Value::as_object_mut) {
        tls.remove("acme");
        if let Some(name) = tls.get("certificate").and_then(stored_certificate) {
            return Err(format!(
                "the certificate \"{name}\" is in the state directory of a server, which is not read \
                 here; compare with a listener without TLS (--against http://…)"
            ));
        }
    }
    let mut listeners = Map::new();
    listeners.insert(address.to_string(), listener);
    moved["listeners"] = listeners.into();
    if let Some(settings) = moved.get_mut("settings").and_then(Value::as_object_mut) {
        settings.retain(|name, _| !OUTWARD.contains(&name.as_str()));
    }
    if let Some(object) = moved.as_object_mut() {
        object.remove("error_logs");
    }
    without_files(&mut moved);
    moved["access_log"] = json!(false);
    Ok(moved)
}

/// Returns the listener for the address of the old server.
fn chosen(document: &Value, old: SocketAddr, is_tls: bool) -> Option<&Value> {
    let listeners = document.get("listeners")?.as_object()?;
    let rank = |name: &str| {
        let (host, port) = name.rsplit_once(':')?;
        let is_port = port.parse() == Ok(old.port());
        let own: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
        let is_host = own == Some(old.ip());
        let is_any = host == "*" || own.is_some_and(|ip| ip.is_unspecified());
        Some((!is_port, !is_host, !is_any))
    };
    let of_kind = listeners.iter().filter(|(_, listener)| {
        listener.get("tls").is_some_and(|tls| tls.get("certificate").is_some()) == is_tls
    });
    let ranked = of_kind.filter_map(|(name, listener)| Some((rank(name)?, listener)));
    ranked.min_by_key(|(rank, _)| *rank).map(|(_, listener)| listener)
}

/// Returns the name of a certificate that is no file, but a bundle in a state directory.
fn stored_certificate(certificates: &Value) -> Option<&str> {
    let all = match certificates {
        Value::Array(all) => all.as_slice(),
        one => std::slice::from_ref(one),
    };
    all.iter().filter_map(Value::as_str).find(|name| !name.contains('/'))
}

/// Takes out logs, and files that another server may have open.
fn without_files(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if object.contains_key("type") {
                object.retain(|name, _| !WRITTEN.contains(&name.as_str()));
            }
            for (name, value) in object {
                match name.as_str() {
                    "access_log" => *value = json!(false),
                    "cache" | "limits" if value.is_object() => {
                        if let Some(inside) = value.as_object_mut() {
                            inside.retain(|name, _| !matches!(name.as_str(), "path" | "size"));
                            inside.remove("slow_log");
                        }
                    }
                    // Names of environment variables and settings of PHP are the site's own.
                    "environment" | "options" | "match" => {}
                    _ => without_files(value),
                }
            }
        }
        Value::Array(array) => array.iter_mut().for_each(without_files),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_of_a_state_directory_is_named() {
        let address = "127.0.0.1:443".parse().unwrap();
        let of = |certificate: Value| {
            let document = json!({
                "listeners": { "*:443": { "pass": "routes", "tls": { "certificate": certificate } } },
                "routes": [],
            });
            moved(&document, address, true, address)
        };
        assert!(of(json!(["/a.pem", "site"])).unwrap_err().contains("\"site\""));
        assert!(of(json!({ "file": "/a.pem" })).is_ok());
        assert!(of(json!("/a.pem")).is_ok());
    }

    #[test]
    fn one_listener_is_moved_and_no_log_is_written() {
        let document = json!({
            "settings": { "telemetry": {}, "http": { "idle_timeout": 5 } },
            "listeners": {
                "*:8080": { "pass": "routes/other" },
                "*:80": { "pass": "routes/a" },
                "*:443": {
                    "pass": "routes/b",
                    "tls": { "certificate": { "chain": "a" }, "acme": {} }
                }
            },
            "routes": { "a": [{ "action": {
                "pass": "applications/a",
                "access_log": "/var/log/a",
                "cache": { "path": "/var/cache", "ttl": { "200": 5 } }
            } }] },
            "applications": { "a": {
                "type": "php", "root": "/a", "limits": { "slow_log": "/b" }, "stderr": "/c"
            } },
            "access_log": "/var/log/b"
        });
        let address: SocketAddr = "127.0.0.1:4000".parse().unwrap();
        let found = moved(&document, "127.0.0.1:80".parse().unwrap(), false, address).unwrap();
        assert_eq!(
            found,
            json!({
                "settings": { "http": { "idle_timeout": 5 } },
                "listeners": { "127.0.0.1:4000": { "pass": "routes/a" } },
                "routes": { "a": [{ "action": {
                    "pass": "applications/a",
                    "access_log": false,
                    "cache": { "ttl": { "200": 5 } }
                } }] },
                "applications": { "a": { "type": "php", "root": "/a", "limits": {} } },
                "access_log": false
            })
        );
        let found = moved(&document, "10.0.0.1:443".parse().unwrap(), true, address).unwrap();
        assert_eq!(
            found["listeners"]["127.0.0.1:4000"],
            json!({ "pass": "routes/b", "tls": { "certificate": { "chain": "a" } } })
        );
        assert!(moved(&json!({}), address, false, address).is_err());
    }
}
