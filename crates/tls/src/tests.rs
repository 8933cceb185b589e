//! Handshakes over memory, with certificates made for the test.

use std::sync::Arc;
use std::time::Duration;

use howdah_config::Tls;
use howdah_http::drain::Drain;
use howdah_http::handshake::Handshake;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    IsCa, KeyIdMethod, KeyPair, RevokedCertParams, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio_rustls::TlsConnector;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::*;
use crate::challenge_answers::ChallengeStore;

mod proofs;

/// A certificate authority that issues certificates for the tests.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority");
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Issues a bundle for the names; the first is the common name too.
    fn issue(&self, names: &[&str]) -> String {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names.clone()).unwrap();
        params.distinguished_name.push(DnType::CommonName, names.first().unwrap());
        params.distinguished_name.push(DnType::OrganizationName, "A, \"B\" & Co");
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        format!("{}{}", certificate.pem(), key.serialize_pem())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    /// Issues a list of revoked certificates, given by their bundles, that is valid until this
    /// year.
    fn revoke(&self, bundles: &[&String], until: i32) -> String {
        let revoked = bundles.iter().map(|bundle| {
            let leaf = CertificateDer::from_pem_slice(bundle.as_bytes()).unwrap();
            let (_, leaf) = X509Certificate::from_der(&leaf).unwrap();
            RevokedCertParams {
                serial_number: leaf.raw_serial().to_vec().into(),
                revocation_time: date_time_ymd(2000, 1, 1),
                reason_code: None,
                invalidity_date: None,
            }
        });
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2000, 1, 1),
            next_update: date_time_ymd(until, 1, 1),
            crl_number: 1.into(),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.0).unwrap().pem().unwrap()
    }
}

fn settings(tls: Value) -> Tls {
    let document = json!({"listeners": {"*:443": {"pass": "routes", "tls": tls}}, "routes": []});
    howdah_config::parse(document.to_string().as_bytes()).unwrap().listeners.remove(0).tls.unwrap()
}

fn material(texts: &[(&str, &str)]) -> CertificateFiles {
    let mut material = CertificateFiles::default();
    for (name, text) in texts {
        let source = if name.starts_with('/') {
            Source::File(name.into())
        } else {
            Source::Stored((*name).to_owned())
        };
        material.add(source, text.as_bytes().to_vec());
    }
    material
}

/// Builds a listener that can use all of its certificates.
fn strict(
    settings: &howdah_config::Tls,
    material: &CertificateFiles,
) -> Result<TlsListener, String> {
    let listener = TlsListener::without_unusable(settings, material)?;
    match listener.unusable().into_iter().next() {
        Some(unusable) => Err(unusable.problem),
        None => Ok(listener),
    }
}

fn listener(tls: Value, texts: &[(&str, &str)]) -> Arc<TlsListener> {
    Arc::new(strict(&settings(tls), &material(texts)).unwrap())
}

fn refusal(tls: Value, texts: &[(&str, &str)]) -> String {
    strict(&settings(tls), &material(texts)).unwrap_err()
}

/// Creates a client that trusts an authority, with or without a certificate.
fn client(authority: &Authority, bundle: Option<&str>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.0.der().clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(
        rustls::crypto::aws_lc_rs::default_provider(),
    ));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    Arc::new(match bundle {
        None => builder.with_no_client_auth(),
        Some(bundle) => {
            let chain = CertificateDer::pem_slice_iter(bundle.as_bytes()).map(Result::unwrap);
            let key = PrivateKeyDer::from_pem_slice(bundle.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain.collect(), key).unwrap()
        }
    })
}

/// Creates a store without challenges.
fn no_challenges() -> Arc<ChallengeStore> {
    ChallengeStore::new().0
}

/// Handshake as the server sees it, and the certificate that the client got.
type Seen = Result<(Handshake, CertificateDer<'static>), String>;

/// Performs a handshake, and lets the client read records after it, such as tickets.
async fn shake(listener: &Arc<TlsListener>, client: &Arc<ClientConfig>, name: &str) -> Seen {
    shake_at(listener, client, name, &no_challenges()).await
}

async fn shake_at(
    listener: &Arc<TlsListener>,
    client: &Arc<ClientConfig>,
    name: &str,
    challenges: &ChallengeStore,
) -> Seen {
    let (ours, theirs) = duplex(1 << 16);
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let connecting = async {
        let mut stream = TlsConnector::from(Arc::clone(client)).connect(name, theirs).await?;
        stream.write_all(b"x").await?;
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await?;
        std::io::Result::Ok(stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned())
    };
    let drain = Drain::new();
    let accepting = async {
        let draining = drain.register();
        match handshake(listener, ours, &draining, Duration::from_secs(5), challenges).await {
            HandshakeOutcome::Encrypted(mut stream, facts) => {
                let _ = stream.read_u8().await;
                let _ = stream.shutdown().await;
                Ok(facts)
            }
            HandshakeOutcome::NotTls(..) => Err("plain".to_owned()),
            HandshakeOutcome::ChallengeAnswered => Err("proved".to_owned()),
            HandshakeOutcome::Failed(error) => Err(error.to_string()),
        }
    };
    let (connected, accepted) = tokio::join!(connecting, accepting);
    match (connected, accepted) {
        (Ok(certificate), Ok(facts)) => Ok((facts, certificate)),
        (_, Err(error)) => Err(error),
        (Err(error), _) => Err(error.to_string()),
    }
}

/// Returns the common name of the certificate that a client gets.
async fn shown(listener: &Arc<TlsListener>, client: &Arc<ClientConfig>, name: &str) -> String {
    let (_, certificate) = shake(listener, client, name).await.unwrap();
    use x509_parser::prelude::FromDer;
    let (_, certificate) =
        x509_parser::certificate::X509Certificate::from_der(&certificate).unwrap();
    certificate.subject().iter_common_name().next().unwrap().as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_certificate_is_chosen_by_name_and_wildcard() {
    let authority = Authority::new();
    let a = authority.issue(&["a.example", "both.example"]);
    let b = authority.issue(&["b.example", "*.B.example", "both.example"]);
    let names = json!({"certificate": ["a", "b"]});
    let listener = listener(names, &[("a", &a), ("b", &b)]);
    // The client does not check names: it accepts any certificate.
    let client = client(&authority, None);
    for (name, expected) in
        [("a.example", "a.example"), ("X.b.example", "b.example"), ("both.example", "a.example")]
    {
        assert_eq!(shown(&listener, &client, name).await, expected, "{name}");
    }
    for name in ["x.y.b.example", "other.example"] {
        let error = shake(&listener, &client, name).await.unwrap_err();
        assert!(error.contains("BadCertificate") || error.contains("NotValidForName"), "{error}");
    }
}

#[tokio::test]
async fn changed_certificates_are_shown_from_then_on() {
    let authority = Authority::new();
    let (old, new) =
        (authority.issue(&["old", "a.example"]), authority.issue(&["new", "a.example"]));
    let files = json!({"certificate": {"chain": "/c", "key": "/k"}});
    let listener = listener(files.clone(), &[("/c", &old), ("/k", &old)]);
    let client = client(&authority, None);
    assert_eq!(shown(&listener, &client, "a.example").await, "old");
    assert!(listener.has_settings(&settings(files), &material(&[])));
    assert_eq!(listener.renew(&material(&[("/c", &old), ("/k", &old)])), (false, Vec::new()));
    // Only one of the two files is new: the old certificate stays in use.
    let (is_new, half) = listener.renew(&material(&[("/c", &new), ("/k", &old)]));
    assert!(!is_new && half[0].has_earlier, "{half:?}");
    let half = &half[0].problem;
    assert!(half.contains("belongs to another"), "{half}");
    assert_eq!(shown(&listener, &client, "a.example").await, "old");
    assert_eq!(listener.renew(&material(&[("/c", &new), ("/k", &new)])), (true, Vec::new()));
    assert_eq!(shown(&listener, &client, "a.example").await, "new");
}

#[test]
fn what_is_no_certificate_is_refused_and_no_key_is_repeated() {
    let authority = Authority::new();
    let (good, other) = (authority.issue(&["a"]), authority.issue(&["b"]));
    let key = good.split("-----BEGIN PRIVATE").nth(1).unwrap();
    let certificate = good.split("-----BEGIN PRIVATE").next().unwrap();
    let stored = json!({"certificate": "a"});
    for (text, problem) in [
        ("", "no certificate in PEM"),
        (certificate, "no private key"),
        (&good.replace("MI", "!!"), "broken PEM"),
        (&format!("-----BEGIN PRIVATE{key}"), "no certificate in PEM"),
        (&format!("{}{good}", other.split("-----BEGIN PRIVATE").next().unwrap()), "another"),
    ] {
        let line = refusal(stored.clone(), &[("a", text)]);
        assert!(line.contains(problem) && line.contains("certificate \"a\""), "{line}");
        assert!(!key.lines().skip(1).any(|secret| line.contains(secret)), "{line}");
    }
    assert!(refusal(stored, &[]).contains("PUT it to /certificates/a"));
}

#[tokio::test]
async fn clients_without_the_right_certificate_are_turned_away() {
    let (authority, strangers) = (Authority::new(), Authority::new());
    let server = authority.issue(&["a.example", "b.example", "c.example"]);
    let rules = json!({"certificate": "a", "client_certificates": [
        {"authorities": "/ca", "names": "a.example"},
        {"authorities": "/ca", "names": ["b.example"], "optional": true},
    ]});
    let ca = authority.pem();
    let listener = listener(rules, &[("a", &server), ("/ca", &ca)]);
    let bundle = authority.issue(&["user"]);
    let (with, without) = (client(&authority, Some(&bundle)), client(&authority, None));
    let stranger = client(&authority, Some(&strangers.issue(&["user"])));
    for (name, client, expected) in [
        ("a.example", &with, Some("SUCCESS")),
        ("a.example", &without, None),
        ("a.example", &stranger, None),
        ("b.example", &with, Some("SUCCESS")),
        ("b.example", &without, Some("NONE")),
        ("b.example", &stranger, None),
        ("c.example", &stranger, Some("NONE")),
    ] {
        let seen = shake(&listener, client, name).await;
        assert_eq!(seen.ok().map(|(facts, _)| facts.verified()), expected, "{name}");
    }
    let (facts, _) = shake(&listener, &with, "a.example").await.unwrap();
    let shown = facts.client.as_ref().unwrap();
    assert_eq!(shown.subject, "O=A\\, \\\"B\\\" & Co,CN=user");
    assert_eq!((shown.issuer.as_str(), shown.fingerprint.len()), ("CN=authority", 40));
    assert_eq!(shown.pem.lines().collect::<String>(), certificate_of(&bundle));
    // Other rules apply to other hosts, so they may not share the connection.
    assert!(facts.admits("a.example") && !facts.admits("b.example") && !facts.admits("c.example"));
}

#[tokio::test]
async fn a_revoked_certificate_is_turned_away_and_its_sessions_end() {
    let authority = Authority::new();
    let (server, ca) = (authority.issue(&["a.example"]), authority.pem());
    let bundles = ["one", "two"].map(|name| authority.issue(&[name]));
    let clients = bundles.each_ref().map(|bundle| client(&authority, Some(bundle)));
    let rules = json!({
        "certificate": "a", "session": {"tickets": KEY},
        "client_certificates": {"authorities": "/ca", "revoked": "/crl"},
    });
    let none = authority.revoke(&[], 2100);
    let (server, ca) = (server.as_str(), ca.as_str());
    let broken = "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n";
    // Lists that do not concern the certificates: of the past, and of another authority.
    let (expired, foreign) = (authority.revoke(&[], 2001), Authority::new().revoke(&[], 2100));
    let one = authority.revoke(&[&bundles[0]], 2100);
    let texts = |lists| [("a", server), ("/ca", ca), ("/crl", lists)];
    let before = listener(rules.clone(), &texts(none.as_str()));
    for client in &clients {
        assert!(!shake(&before, client, "a.example").await.unwrap().0.is_resumed);
        assert!(shake(&before, client, "a.example").await.unwrap().0.is_resumed);
    }
    assert!(before.has_settings(&settings(rules.clone()), &material(&texts(none.as_str()))));
    assert!(!before.has_settings(&settings(rules.clone()), &material(&texts(one.as_str()))));
    let after = listener(rules.clone(), &texts(one.as_str()));
    let refused = shake(&after, &clients[0], "a.example").await.unwrap_err();
    assert!(refused.contains("Revoked"), "{refused}");
    assert!(!shake(&after, &clients[1], "a.example").await.unwrap().0.is_resumed);
    for lists in [&expired, &foreign] {
        let listener = listener(rules.clone(), &texts(lists.as_str()));
        assert!(shake(&listener, &clients[1], "a.example").await.is_err());
    }
    for lists in ["", ca, broken] {
        let line = refusal(rules.clone(), &texts(lists));
        assert!(line.starts_with("/crl: "), "{line}");
    }
    assert!(refusal(rules, &[("a", server), ("/ca", ca)]).contains("/crl"));
}

/// Returns the certificate of a bundle, without line ends.
fn certificate_of(bundle: &str) -> String {
    let end = "-----END CERTIFICATE-----";
    let certificate = bundle.split(end).next().unwrap();
    format!("{}{end}", certificate.lines().map(str::trim_end).collect::<String>())
}

#[test]
fn authorities_that_cannot_be_read_refuse_the_configuration() {
    let server = Authority::new().issue(&["a"]);
    for optional in [true, false] {
        let rule = json!({"authorities": "/ca", "optional": optional});
        let rules = json!({"certificate": "a", "client_certificates": rule});
        for ca in ["", "nothing", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
        {
            let line = refusal(rules.clone(), &[("a", &server), ("/ca", ca)]);
            assert!(line.starts_with("/ca: "), "{line}");
        }
        assert!(refusal(rules.clone(), &[("a", &server)]).contains("/ca"));
    }
}

const KEY: &str = "U1oDTh11mMxODuw12gS0EXX1E/PkZG13cJNQ6m5+6BGlfPTjNlIEw7PSVU3X1gTE";

#[tokio::test]
async fn sessions_are_taken_up_again_only_if_that_is_wanted() {
    let authority = Authority::new();
    let server = authority.issue(&["a.example"]);
    for (session, reused) in [
        (json!({}), false),
        (json!({"tickets": true}), true),
        (json!({"tickets": KEY}), true),
        (json!({"cache_size": 8}), true),
    ] {
        for protocol in ["-TLSv1.2", "-TLSv1.3"] {
            let tls = json!({
                "certificate": "a", "session": session, "conf_commands": {"Protocol": protocol},
            });
            let listener = listener(tls, &[("a", &server)]);
            let client = client(&authority, None);
            let first = shake(&listener, &client, "a.example").await.unwrap().0;
            let second = shake(&listener, &client, "a.example").await.unwrap().0;
            assert_eq!(
                (first.is_resumed, second.is_resumed),
                (false, reused),
                "{session} {protocol}"
            );
        }
    }
}

#[tokio::test]
async fn no_session_is_taken_up_under_another_rule_about_clients() {
    let authority = Authority::new();
    let server = authority.issue(&["a.example", "b.example"]);
    let bundle = authority.issue(&["user"]);
    let ca = authority.pem();
    let texts = [("a", &*server), ("/ca", &*ca)];
    let session = json!({"tickets": KEY, "cache_size": 8});
    // The same ticket key for both, as on several machines.
    let open = listener(json!({"certificate": "a", "session": session}), &texts);
    let closed = listener(
        json!({"certificate": "a", "session": session, "client_certificates": {
            "authorities": "/ca", "names": "a.example",
        }}),
        &texts,
    );
    let client = client(&authority, Some(&bundle));
    assert!(!shake(&open, &client, "a.example").await.unwrap().0.is_resumed);
    let facts = shake(&closed, &client, "a.example").await.unwrap().0;
    assert!(!facts.is_resumed && facts.client.is_some());
    let facts = shake(&closed, &client, "a.example").await.unwrap().0;
    assert!(facts.is_resumed && facts.client.is_some(), "who the client is belongs to the session");
    assert!(!shake(&open, &client, "a.example").await.unwrap().0.is_resumed);
    // Another name of the same listener, without a rule.
    assert!(!shake(&closed, &client, "b.example").await.unwrap().0.is_resumed);
}

#[tokio::test]
async fn old_versions_and_foreign_protocols_are_turned_away() {
    let authority = Authority::new();
    let server = authority.issue(&["a.example"]);
    let listener = listener(json!({"certificate": "a"}), &[("a", &server)]);
    let mut foreign = ClientConfig::clone(&client(&authority, None));
    foreign.alpn_protocols = vec![b"ftp".to_vec()];
    let error = shake(&listener, &Arc::new(foreign), "a.example").await.unwrap_err();
    assert!(error.contains("support any known protocol"), "{error}");
    // A TLS 1.0 hello without extensions, as from `openssl s_client -tls1`.
    let hello =
        [&[22, 3, 1, 0, 45, 1, 0, 0, 41, 3, 1][..], &[7; 32], &[0, 0, 2, 0, 47, 1, 0]].concat();
    assert!(matches!(sent(&listener, &hello).await, HandshakeOutcome::Failed(_)));
}

/// Returns the outcome for a client that sends only these bytes.
async fn sent(listener: &Arc<TlsListener>, bytes: &[u8]) -> HandshakeOutcome<DuplexStream> {
    let (ours, mut theirs) = duplex(1 << 16);
    theirs.write_all(bytes).await.unwrap();
    let drain = Drain::new();
    handshake(listener, ours, &drain.register(), Duration::from_millis(300), &no_challenges()).await
}

#[tokio::test]
async fn plain_http_is_handed_back() {
    let authority = Authority::new();
    let server = authority.issue(&["a.example"]);
    let listener = listener(json!({"certificate": "a"}), &[("a", &server)]);
    let HandshakeOutcome::NotTls(_, bytes) = sent(&listener, b"GET / HTTP/1.1\r\n").await else {
        panic!()
    };
    assert_eq!(bytes, b"GET / HTTP/1.1\r\n");
}

#[tokio::test]
async fn a_handshake_that_goes_nowhere_ends_in_time() {
    let authority = Authority::new();
    let server = authority.issue(&["a.example"]);
    let listener = listener(json!({"certificate": "a"}), &[("a", &server)]);
    for bytes in [&b""[..], &[22], &[22, 3, 1, 0, 200, 1, 0, 0, 196]] {
        let HandshakeOutcome::Failed(error) = sent(&listener, bytes).await else { panic!() };
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    }
}

#[tokio::test]
async fn nothing_is_read_before_the_handshake_is_over() {
    let authority = Authority::new();
    let server = authority.issue(&["a.example"]);
    let session = json!({"tickets": true});
    let tls = json!({"certificate": "a", "session": session});
    let listener = listener(tls, &[("a", &server)]);
    assert_eq!(listener.config(None).max_early_data_size, 0, "0-RTT could be sent twice");
    let mut eager = ClientConfig::clone(&client(&authority, None));
    eager.enable_early_data = true;
    let eager = Arc::new(eager);
    for reused in [false, true] {
        let seen = shake(&listener, &eager, "a.example").await.unwrap();
        assert_eq!(seen.0.is_resumed, reused);
    }
    let name = "a.example".try_into().unwrap();
    let mut again = rustls::ClientConnection::new(Arc::clone(&eager), name).unwrap();
    assert!(again.early_data().is_none(), "the session that was kept allows none");
}

#[test]
fn http_3_has_the_certificates_and_rules_of_the_listener() {
    let authority = Authority::new();
    let rule = json!({"authorities": "/ca.pem", "names": ["admin.test"]});
    let tls = json!({
        "certificate": "a", "refuse_unknown_names": true, "client_certificates": rule,
    });
    let bundle = authority.issue(&["a.test", "admin.test"]);
    let listener = listener(tls, &[("a", &bundle), ("/ca.pem", &authority.pem())]);
    let chosen = |name| listener.choose_http3(name).map(|choice| (choice.rule, choice.config));
    let (rule, config) = chosen("A.test").unwrap();
    assert_eq!((rule, &*config.alpn_protocols), (None, &[b"h3".to_vec()][..]));
    let (rule, admin) = chosen("admin.test").unwrap();
    assert_eq!(rule, Some(0));
    assert!(!Arc::ptr_eq(&config, &admin));
    assert_eq!(chosen("other.test").err(), Some(112));
}
