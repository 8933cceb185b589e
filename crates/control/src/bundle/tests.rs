use proptest::prelude::*;

use super::*;

const EC: &str = include_str!("../../testdata/ec.pem");
const RSA: &str = include_str!("../../testdata/rsa.pem");

fn detail(pem: &str) -> String {
    match describe_bundle(pem.as_bytes()) {
        Err(Refusal::InvalidCertificate { detail }) => detail,
        other => panic!("{other:?}"),
    }
}

/// The blocks of a bundle.
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
}

#[test]
fn times_have_a_day_of_two_places() {
    let day = ASN1Time::from_timestamp(1_515_144_869).unwrap();
    assert_eq!(time(day), "Jan  5 09:34:29 2018 GMT");
}

#[test]
fn the_order_of_key_and_certificates_and_text_between_them_do_not_matter() {
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
    let wrong = format!("{key}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    assert!(detail(&wrong).starts_with("certificate 1: "));
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
