//! Responses for clients with a certificate.

use std::fs;
use std::sync::Arc;

use harness::client::Response;
use harness::tls::{Authority, send};
use harness::{Server, Site, free_address};
use rustls::ClientConfig;
use serde_json::json;

use super::origin::{is_hit, origin, page};

fn ask(server: &Server, client: &Arc<ClientConfig>, method: &str, fields: &str) -> Response {
    let request = format!(
        "{method} /a HTTP/1.1\r\nHost: a.example\r\n{fields}Content-Length: 0\r\nConnection: \
         close\r\n\r\n"
    );
    send(server.address, client, "a.example", &request).unwrap()
}

#[test]
fn each_certificate_has_responses_of_its_own_and_a_change_or_purge_concerns_those_of_all() {
    let authority = Authority::new();
    let (chain, key) = authority.issue(&["a.example"]);
    let origin = origin(|_, number| page("Cache-Control: max-age=600\r\n", number.to_string()));
    let site = Site::new();
    for (name, text) in [("chain.pem", &chain), ("key.pem", &key), ("ca.pem", &authority.pem())] {
        fs::write(site.data().join(name), text).unwrap();
    }
    let file = |name: &str| site.data().join(name).display().to_string();
    let tls = json!({
        "certificate": {"chain": file("chain.pem"), "key": file("key.pem")},
        "client_certificates": {"authorities": file("ca.pem")},
    });
    let address = free_address().to_string();
    let action = json!({"proxy": origin.url(), "cache": {"purge": ["127.0.0.1"]}});
    let server = site
        .with(json!({"listeners": {&address: {"tls": tls}}, "routes": [{"action": action}]}))
        .serve_at(&address);
    let clients = ["one", "two"].map(|name| authority.client(Some(&authority.issue(&[name])), &[]));
    for method in ["POST", "PURGE"] {
        let texts = clients.each_ref().map(|client| {
            let stored = ask(&server, client, "GET", "");
            assert!(!is_hit(&stored), "{stored:?}");
            let again = ask(&server, client, "GET", "");
            assert!(is_hit(&again) && again.text() == stored.text(), "{again:?}");
            again.text()
        });
        assert_ne!(texts[0], texts[1]);
        assert_eq!(ask(&server, &clients[0], method, "").status, 200);
        for client in &clients {
            let only = ask(&server, client, "GET", "Cache-Control: only-if-cached\r\n");
            assert_eq!(only.status, 504, "{method}");
        }
    }
}
