//! Proofs of names to an authority, and certificates on demand.

use super::*;

/// Creates a client that accepts every certificate, as authorities do when they check a proof, and
/// offers these protocols.
fn looking(protocols: &[&str]) -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let trusting = Arc::new(Trusting(provider));
    let mut config =
        builder.dangerous().with_custom_certificate_verifier(trusting).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}

#[derive(Debug)]
struct Trusting(Arc<rustls::crypto::CryptoProvider>);

impl rustls::client::danger::ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    // The library does not know the critical extension of the proof's certificate.
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Returns the certificate that proves a name, as an authority sees it.
async fn proof_of(
    listener: &Arc<TlsListener>,
    challenges: &ChallengeStore,
    name: &str,
) -> Option<CertificateDer<'static>> {
    let (ours, theirs) = duplex(1 << 16);
    let drain = Drain::new();
    let draining = drain.register();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let connecting = async {
        let connector = TlsConnector::from(looking(&["acme-tls/1"]));
        let mut stream = connector.connect(name, theirs).await.ok()?;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"acme-tls/1"[..]));
        let mut rest = Vec::new();
        let _ = stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await;
        stream.read_to_end(&mut rest).await.unwrap();
        assert!(rest.is_empty(), "the connection is for the proof alone");
        Some(stream.get_ref().1.peer_certificates()?.first()?.clone().into_owned())
    };
    let accepting = handshake(listener, ours, &draining, Duration::from_secs(10), challenges);
    let (seen, shaken) = tokio::join!(connecting, accepting);
    assert_eq!(seen.is_some(), matches!(shaken, HandshakeOutcome::ChallengeAnswered));
    seen
}

#[tokio::test]
async fn a_name_is_proved_to_who_asks_for_the_proof_and_only_while_it_is_needed() {
    let authority = Authority::new();
    let server = authority.issue(&["a.example"]);
    let acme = json!({"certificate": "a", "acme": {"domains": "b.example"}});
    let listener = listener(acme, &[("a", &server)]);
    let challenges = no_challenges();
    assert!(proof_of(&listener, &challenges, "b.example").await.is_none());
    let published = challenges.publish_tls_alpn("b.example", &[7; 32]).unwrap();
    let proof = proof_of(&listener, &challenges, "b.example").await.unwrap();
    use x509_parser::prelude::FromDer;
    let (_, parsed) = x509_parser::certificate::X509Certificate::from_der(&proof).unwrap();
    let identifier =
        parsed.extensions().iter().find(|e| e.oid.to_id_string() == "1.3.6.1.5.5.7.1.31");
    let identifier = identifier.unwrap();
    assert!(identifier.critical && identifier.value == [&[4, 32][..], &[7; 32]].concat());
    assert_eq!(names(&proof), ["b.example"]);
    // A client that does not offer the protocol gets the normal certificate, and other names have
    // no proof.
    let seen =
        shake_at(&listener, &client(&authority, None), "a.example", &challenges).await.unwrap();
    assert_ne!(seen.1, proof);
    assert!(proof_of(&listener, &challenges, "a.example").await.is_none());
    let mixed = looking(&["acme-tls/1", "http/1.1"]);
    let seen = shake_at(&listener, &mixed, "b.example", &challenges).await.unwrap();
    assert_ne!(seen.1, proof);
    drop(published);
    assert!(proof_of(&listener, &challenges, "b.example").await.is_none());
}

#[tokio::test]
async fn without_a_certificate_nothing_is_shown_until_there_is_one() {
    let authority = Authority::new();
    let settings = settings(json!({"acme": {"domains": "a.example"}}));
    let listener = Arc::new(strict(&settings, &material(&[])).unwrap());
    let client = client(&authority, None);
    assert!(shake(&listener, &client, "a.example").await.is_err());
    assert_eq!(listener.in_use(), []);
    let server = authority.issue(&["a.example"]);
    let there = material(&[("acme:a.example", &server)]);
    assert_eq!(listener.renew(&there), (true, Vec::new()));
    assert_eq!(shown(&listener, &client, "a.example").await, "a.example");
    assert_eq!(listener.renew(&there), (false, Vec::new()));
    let in_use = listener.in_use();
    assert_eq!(
        (in_use[0].name.as_str(), in_use[0].names.as_slice()),
        ("acme:a.example", &["a.example".to_owned()][..])
    );
}

#[tokio::test]
async fn certificates_on_demand_are_for_their_names_and_have_a_limit() {
    let authority = Authority::new();
    let on_demand = json!({"ask": "http://127.0.0.1:1/", "max": 2});
    let tls = json!({"certificate": "a", "acme": {"on_demand": on_demand}});
    let own = authority.issue(&["a.example"]);
    let listener = listener(tls, &[("a", &own)]);
    let client = client(&authority, None);
    assert!(
        listener.on_demand_settings("a.example").is_none()
            && listener.on_demand_settings("").is_none()
    );
    for name in ["b.example", "c.example", "b.example"] {
        listener.add(authority.issue(&[name]).as_bytes()).unwrap();
        assert!(listener.on_demand_settings(name).is_none());
        assert_eq!(shown(&listener, &client, name).await, name);
    }
    assert!(listener.on_demand_settings("d.example").is_some());
    assert!(listener.add(authority.issue(&["d.example"]).as_bytes()).is_err());
    assert_eq!(shown(&listener, &client, "a.example").await, "a.example");
}
