use proptest::prelude::*;

use super::*;

const EC: &str = include_str!("../../testdata/ec.pem");
const ED25519: &str = include_str!("../../testdata/ed25519.pem");
const RSA: &str = include_str!("../../testdata/rsa.pem");

fn detail(pem: &str) -> String {
    match describe_bundle(pem.as_bytes()) {
        Err(Refusal::InvalidCertificate { detail }) => detail,
        other => panic!("{other:?}"),
    }
}

fn describe_bundle(pem: &[u8]) -> Result<Value, Refusal> {
    Bundle::read(pem.to_vec()).map(|bundle| bundle.description)
}

/// Splits a bundle into its PEM blocks.
fn blocks(pem: &str) -> Vec<String> {
    pem.split("-----BEGIN ").skip(1).map(|block| format!("-----BEGIN {block}")).collect()
}

#[test]
fn a_bundle_is_shown_with_units_names() {
    let root = json!({"common_name": "root", "country": "DE", "organization": "Example"});
    let described = describe_bundle(EC.as_bytes()).unwrap();
    let expected = json!({
        "key": "ECDH",
        "chain": [
            {
                "subject": {
                    "common_name": "example.org",
                    "alt_names": ["example.org", "www.example.org"],
                    "country": "FR",
                    "state_or_province": "Ile de France",
                    "locality": "Paris",
                    "organization": "Exemple",
                    "department": "Web"
                },
                "issuer": root,
                "validity": {
                    "since": "Nov 20 16:36:23 2026 GMT",
                    "until": "Oct 27 16:36:23 2126 GMT"
                }
            },
            {
                "subject": root,
                "issuer": root,
                "validity": {
                    "since": "Nov 20 16:36:23 2026 GMT",
                    "until": "Oct 27 16:36:23 2126 GMT"
                }
            }
        ]
    });
    assert_eq!(described, expected);
    let members = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(members(&described["chain"][0]["subject"])[..2], ["common_name", "alt_names"]);
    assert_eq!(describe_bundle(RSA.as_bytes()).unwrap()["key"], "RSA (2048 bits)");
    assert_eq!(describe_bundle(ED25519.as_bytes()).unwrap()["key"], "unknown");
}

#[test]
fn times_have_a_day_of_two_places() {
    let day = ASN1Time::from_timestamp(1_515_144_869).unwrap();
    assert_eq!(time(day), "Jan  5 09:34:29 2018 GMT");
}

#[test]
fn the_place_of_the_key_and_text_between_the_blocks_do_not_matter() {
    let parts = blocks(EC);
    let other = format!("one\n{}two\r\n{}\u{0}\n{}", parts[1], parts[2], parts[0]);
    assert_eq!(describe_bundle(other.as_bytes()), describe_bundle(EC.as_bytes()));
}

#[test]
fn what_is_no_bundle_is_refused_with_the_reason() {
    let parts = blocks(EC);
    let (key, certificate) = (parts[0].as_str(), parts[1].as_str());
    assert!(detail("").contains("no private key"));
    assert!(detail("blah").contains("no private key"));
    assert!(detail(certificate).contains("no private key"));
    assert!(detail(key).contains("no certificate"));
    assert!(detail(&format!("{key}{key}{certificate}")).contains("more than one"));
    assert!(detail(&EC.replace(" PRIVATE", " ENCRYPTED PRIVATE")).contains("openssl pkey"));
    assert!(detail(&EC.replace("PRIVATE KEY", "DH PARAMETERS")).contains("\"DH PARAMETERS\""));
    assert!(detail(&EC.replace("-----END CERTIFICATE-----", "")).contains("PEM"));
    let encrypted = key.replace("KEY-----\nM", "KEY-----\nProc-Type: 4,ENCRYPTED\nM");
    assert!(detail(&format!("{encrypted}{certificate}")).contains("openssl pkey"));
    let wrong =
        format!("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n{certificate}");
    assert_eq!(detail(&wrong), "its private key cannot be read");
    let wrong = format!("{key}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    assert!(detail(&wrong).starts_with("certificate 1: "));
}

#[test]
fn a_key_must_be_that_of_the_first_certificate() {
    let (ec, rsa, ed25519) = (blocks(EC), blocks(RSA), blocks(ED25519));
    let rsa = vec![rsa[1].clone(), rsa[0].clone()];
    for (key, certificate) in [(&ec, &rsa), (&rsa, &ec), (&ed25519, &ec), (&ec, &ed25519)] {
        let detail = detail(&[key[0].as_str(), &certificate[1]].concat());
        assert_eq!(detail, "its private key does not belong to its first certificate");
    }
    let other = "its private key does not belong to its first certificate";
    assert_eq!(detail(&[OTHER_EC_KEY, &ec[1]].concat()), other);
    let swapped = [ec[0].as_str(), &ec[2], &ec[1]].concat();
    assert!(detail(&swapped).starts_with("its private key belongs to certificate 2"));
}

#[test]
fn a_key_is_recognised_without_its_public_part_and_with_a_compressed_one() {
    let certificate = &blocks(EC)[1];
    for key in [BARE_EC_KEY, COMPRESSED_EC_KEY] {
        assert!(describe_bundle([key, certificate].concat().as_bytes()).is_ok());
    }
}

#[test]
fn certificates_must_lead_from_each_one_to_its_issuer() {
    let ec = blocks(EC);
    let detail = detail(&[ec[0].as_str(), &ec[1], &ec[2], &ec[1]].concat());
    assert!(detail.starts_with("certificate 2 was not issued by certificate 3"), "{detail}");
}

#[test]
fn a_key_is_not_shown_by_mistake() {
    let shown = format!("{:?}", Bundle::read(RSA.into()).unwrap());
    assert!(shown.contains("RSA (2048 bits)") && !shown.contains("MII"), "{shown}");
}

#[test]
fn a_bundle_of_unreasonable_size_is_refused() {
    assert!(detail(&format!("{RSA}{}", "x".repeat(MAX_BUNDLE))).contains("1024 KiB"));
}

proptest! {
    #[test]
    fn no_damaged_bundle_makes_it_panic(
        damage in prop::collection::vec((0..EC.len(), any::<u8>()), 1..8),
        end in 0..EC.len(),
    ) {
        let mut pem = EC.as_bytes().to_vec();
        for (at, byte) in damage {
            pem[at] = byte;
        }
        let _ = describe_bundle(&pem);
        let _ = describe_bundle(&pem[..end]);
    }
}

const BARE_EC_KEY: &str = "\
-----BEGIN EC PRIVATE KEY-----
MDECAQEEII3gW5PSam7IsdnL8O9r2Oiugg+L+Ei6uYQlLGAa3iwGoAoGCCqGSM49
AwEH
-----END EC PRIVATE KEY-----
";

const COMPRESSED_EC_KEY: &str = "\
-----BEGIN EC PRIVATE KEY-----
MFcCAQEEII3gW5PSam7IsdnL8O9r2Oiugg+L+Ei6uYQlLGAa3iwGoAoGCCqGSM49
AwEHoSQDIgADjXH5qW7sBS2WhRK+zrkV+fAJaeI9mZrE92vrtZd5LHs=
-----END EC PRIVATE KEY-----
";

const OTHER_EC_KEY: &str = "\
-----BEGIN EC PARAMETERS-----
BggqhkjOPQMBBw==
-----END EC PARAMETERS-----
-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIJe8HSOqLsBOphb5EfePWBIUHYDt5JRElUZpRg/1QXJwoAoGCCqGSM49
AwEHoUQDQgAEaP6OlVEXhCoI1IntbRL14vEbAi2ZFatwRhvOMKPJL1wWVt+ohuV4
YOiRzVHwPQcoxawe89P+ATqnW7Kaouw67w==
-----END EC PRIVATE KEY-----
";
