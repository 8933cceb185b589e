//! Keys of stored responses: the parts of a request that select a response before `Vary` does.

use std::hash::{DefaultHasher, Hasher};
use std::time::Instant;

use howdah_config::Cache;
use howdah_http::message::Request;
use howdah_http::target::Target;
use howdah_http::variables::VariableSource;

use crate::search::Variance;

/// Longest key in bytes.
const MAX_KEY: usize = 16 << 10;

/// Fields that applications and frameworks take scheme, host or path from. They and [`METHODS`] are
/// part of every key: otherwise one client could choose the responses of others.
const OVERRIDES: [&str; 26] = [
    "cf-visitor",
    "cloudfront-forwarded-proto",
    "forwarded",
    "front-end-https",
    "x-arr-ssl",
    "x-forwarded-host",
    "x-forwarded-path",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-proto",
    "x-forwarded-protocol",
    "x-forwarded-scheme",
    "x-forwarded-server",
    "x-forwarded-ssl",
    "x-forwarded-uri",
    "x-host",
    "x-http-host-override",
    "x-http-path-override",
    "x-original-host",
    "x-original-uri",
    "x-original-url",
    "x-proto",
    "x-rewrite-url",
    "x-scheme",
    "x-script-name",
    "x-url-scheme",
];

/// Fields that applications and frameworks take the method from.
const METHODS: [&str; 3] = ["x-http-method", "x-http-method-override", "x-method-override"];

/// Returns the fingerprint of the client's certificate, which scripts see with its names.
pub fn certificate(request: &Request) -> Option<&[u8]> {
    let client = request.connection.handshake.as_ref()?.client.as_ref()?;
    Some(client.fingerprint.as_bytes())
}

/// Returns true for fields that applications and frameworks take the method from.
pub fn is_method(name: &[u8]) -> bool {
    METHODS.iter().any(|method| name.eq_ignore_ascii_case(method.as_bytes()))
}

/// Returns what tells a text of the configuration from another one. A key is written to disk, and
/// the text may be a password. No client chooses it, so nobody looks for two with one digest.
fn digest(text: &[u8]) -> [u8; 8] {
    let mut hasher = DefaultHasher::new();
    hasher.write(text);
    hasher.finish().to_le_bytes()
}

/// Appends the key of a request to `key`: its producer, then the text of the template or scheme,
/// host and target as sent, of whose query `variance` may leave out a part, and the client's
/// certificate; the path and query if a route has changed them; variables and settings that routes
/// have added; fields that override any of these. Returns false if the key is too long.
pub fn write(
    settings: &Cache,
    producer: &[u8],
    request: &Request,
    started_at: Instant,
    variance: Option<&Variance>,
    key: &mut Vec<u8>,
) -> bool {
    let part = |key: &mut Vec<u8>, text: &[u8]| {
        key.extend_from_slice(&(text.len() as u64).to_le_bytes());
        key.extend_from_slice(text);
    };
    let is_sent = Target::parse(&request.target).is_ok_and(|sent| {
        sent.path(&request.target) == request.path
            && request.target.get(sent.query.clone()) == Some(&*request.query)
    });
    part(key, producer);
    if settings.esi {
        // An application answers differently to a cache that assembles pages.
        part(key, b"esi");
    }
    match &settings.key {
        Some(template) => {
            part(key, &VariableSource::of(request, started_at).expand(template));
        }
        None => {
            key.extend_from_slice(request.connection.scheme().as_bytes());
            // Applications see the field as sent, with its port and in its case.
            part(key, request.fields.get("host").unwrap_or(&request.host));
            match variance.filter(|_| is_sent).and_then(|v| Some((v, v.canonical(&request.query)?)))
            {
                None => part(key, &request.target),
                Some((variance, query)) => {
                    let end = memchr::memchr(b'?', &request.target).unwrap_or(request.target.len());
                    part(key, request.target.get(..end).unwrap_or_default());
                    variance.write(key);
                    part(key, &query);
                }
            }
            if let Some(fingerprint) = certificate(request) {
                // Scripts see the certificate of the client.
                part(key, b"certificate");
                part(key, fingerprint);
            }
        }
    }
    if !is_sent {
        part(key, &request.path);
        part(key, &request.query);
    }
    if let Some(additions) = &request.additions {
        for (name, value) in &additions.variables {
            part(key, name.as_bytes());
            if additions.constants.contains(name) {
                part(key, &digest(value));
            } else {
                part(key, value);
            }
        }
        for (name, value) in additions.settings.iter().chain(&additions.locked_settings) {
            part(key, name.as_bytes());
            part(key, &digest(value.as_bytes()));
        }
    }
    for (name, value) in request.fields.iter() {
        let [b'c' | b'C' | b'f' | b'F' | b'x' | b'X', ..] = name else { continue };
        let mut all = OVERRIDES.iter().chain(&METHODS);
        if all.any(|other| name.eq_ignore_ascii_case(other.as_bytes())) {
            part(key, &name.to_ascii_lowercase());
            part(key, value);
        }
    }
    key.len() <= MAX_KEY
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use howdah_config::Template;
    use howdah_http::fixture;
    use howdah_http::handshake::{ClientCertificate, Handshake, HostPolicy};
    use howdah_http::message::ConnectionInfo;

    use super::*;

    fn key(settings: &Cache, producer: &str, request: &Request) -> Vec<u8> {
        let mut key = Vec::new();
        assert!(write(settings, producer.as_bytes(), request, Instant::now(), None, &mut key));
        key
    }

    fn request(target: &str, fields: &[(&str, &str)]) -> Request {
        fixture::request(target, fields)
    }

    #[test]
    fn whatever_an_application_may_answer_from_tells_keys_apart() {
        let plain = Cache::default();
        let host = ("Host", "a.example");
        let base = key(&plain, "u", &request("/a?b", &[host]));
        assert_eq!(base, key(&plain, "u", &request("/a?b", &[("Accept", "x"), host])));
        let mut rewritten = request("/a?b", &[host]);
        rewritten.path = Bytes::from_static(b"/index.php");
        let mut added = request("/a?b", &[host]);
        added.additions.get_or_insert_default().set_variable("LANG", b"de".to_vec());
        let mut constant = request("/a?b", &[host]);
        constant.additions.get_or_insert_default().set_constant("LANG", b"de".to_vec());
        let setting = |value: &str, is_locked| {
            let mut request = request("/a?b", &[host]);
            let additions = request.additions.get_or_insert_default();
            additions.set_setting("error_log", value, is_locked);
            request
        };
        let mut secure = request("/a?b", &[host]);
        secure.connection =
            howdah_http::message::ConnectionInfo { tls: true, ..Default::default() }.into();
        let with_certificate = |fingerprint: &str| {
            let mut request = request("/a?b", &[host]);
            let client = ClientCertificate {
                subject: "CN=a".to_owned(),
                issuer: "CN=ca".to_owned(),
                serial: "01".to_owned(),
                fingerprint: fingerprint.to_owned(),
                pem: String::new(),
            };
            let handshake = Handshake {
                protocol: "TLSv1.3",
                cipher: "",
                server_name: String::new(),
                is_resumed: false,
                client: Some(client),
                requests_client_certificate: true,
                hosts: HostPolicy(Arc::new(|_: &str| true)),
            };
            let handshake = Some(Arc::new(handshake));
            request.connection = ConnectionInfo { handshake, ..Default::default() }.into();
            request
        };
        let certified = |fingerprint| key(&plain, "u", &with_certificate(fingerprint));
        assert_eq!(certified("aa"), certified("aa"));
        assert_ne!(certified("aa"), certified("bb"));
        for (what, other) in [
            ("certificate", with_certificate("aa")),
            ("path", request("/A?b", &[host])),
            ("query", request("/a?c", &[host])),
            ("encoding", request("/%61?b", &[host])),
            ("dots", request("/x/../a?b", &[host])),
            ("host", request("/a?b", &[("Host", "b.example")])),
            ("port", request("/a?b", &[("Host", "a.example:81")])),
            ("case of the host", request("/a?b", &[("Host", "A.example")])),
            ("rewrite", rewritten),
            ("variable", added),
            ("constant", constant),
            ("setting", setting("a", false)),
            ("locked setting", setting("a", true)),
            ("scheme", secure),
            ("X-Forwarded-Host", request("/a?b", &[host, ("X-Forwarded-Host", "evil")])),
            ("x-original-url", request("/a?b", &[host, ("x-original-url", "/b")])),
            ("Forwarded", request("/a?b", &[host, ("Forwarded", "host=evil")])),
            ("CF-Visitor", request("/a?b", &[host, ("CF-Visitor", "{}")])),
            ("X-HTTP-Method", request("/a?b", &[host, ("X-HTTP-Method", "PUT")])),
        ] {
            assert_ne!(base, key(&plain, "u", &other), "{what}");
        }
        assert_ne!(base, key(&plain, "v", &request("/a?b", &[host])));
    }

    #[test]
    fn values_of_the_configuration_are_not_readable_in_keys() {
        let with = |value: &str| {
            let mut request = request("/a", &[]);
            let additions = request.additions.get_or_insert_default();
            additions.set_constant("PASSWORD", value.as_bytes().to_vec());
            additions.set_setting("session.save_path", value, true);
            key(&Cache::default(), "u", &request)
        };
        let one = with("correct horse");
        assert!(!String::from_utf8_lossy(&one).contains("horse"));
        assert_eq!(one, with("correct horse"));
        assert_ne!(one, with("battery staple"));
    }

    #[test]
    fn parts_cannot_be_moved_from_one_to_the_next() {
        let plain = Cache::default();
        let one = key(&plain, "u", &request("/bc", &[("Host", "a")]));
        let other = key(&plain, "u", &request("/c", &[("Host", "a/b")]));
        assert_ne!(one, other);
    }

    #[test]
    fn a_template_replaces_scheme_host_and_target() {
        let template = Template::parse("$uri").unwrap();
        let settings = Cache { key: Some(template), ..Cache::default() };
        let same =
            |one: &Request, other: &Request| key(&settings, "u", one) == key(&settings, "u", other);
        let host = ("Host", "a");
        assert!(same(&request("/a?x=1", &[host]), &request("/a?x=2", &[("Host", "b")])));
        assert!(!same(&request("/a", &[host]), &request("/b", &[host])));
        assert!(!same(&request("/a", &[]), &request("/a", &[("X-Forwarded-Host", "b")])));
    }

    #[test]
    fn a_long_key_is_refused() {
        let long = request(&format!("/{}", "a".repeat(MAX_KEY)), &[]);
        assert!(!write(&Cache::default(), b"u", &long, Instant::now(), None, &mut Vec::new()));
    }
}
