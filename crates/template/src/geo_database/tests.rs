use proptest::prelude::*;
use serde_json::json;

use super::*;

#[path = "writer.rs"]
mod writer;

const STAMP: FileStamp = [1, 2, 3, 4];

fn sample() -> Vec<u8> {
    let germany = json!({
        "country": {"iso_code": "DE", "names": {"zh-CN": "德国"}, "in_eu": true, "id": 2921044},
        "location": {"latitude": 51.5, "offset": -1},
        "subdivisions": [{"iso_code": "BE"}],
    });
    writer::write(&[
        ("192.0.2.0/24", germany),
        ("198.51.100.7/32", json!({"country": {"iso_code": "FR"}})),
    ])
}

fn find(content: &GeoContent, address: &str, path: &str) -> Option<String> {
    content.find(address.parse().unwrap(), &GeoPath::parse(path).unwrap())
}

#[test]
fn values_of_all_kinds_are_found_by_their_path() {
    let content = GeoContent::read(sample(), STAMP).unwrap();
    for (address, path, expected) in [
        ("192.0.2.1", "country.iso_code", Some("DE")),
        ("::ffff:192.0.2.255", "country.iso_code", Some("DE")),
        ("192.0.2.1", "country.names.zh-CN", Some("德国")),
        ("192.0.2.1", "country.in_eu", Some("1")),
        ("192.0.2.1", "country.id", Some("2921044")),
        ("192.0.2.1", "location.latitude", Some("51.5")),
        ("192.0.2.1", "location.offset", Some("-1")),
        ("192.0.2.1", "subdivisions.0.iso_code", Some("BE")),
        ("192.0.2.1", "subdivisions.1.iso_code", None),
        ("192.0.2.1", "country", None),
        ("192.0.2.1", "country.iso_code.more", None),
        ("198.51.100.7", "country.iso_code", Some("FR")),
        ("198.51.100.8", "country.iso_code", None),
        ("2001:db8::1", "country.iso_code", None),
    ] {
        assert_eq!(find(&content, address, path).as_deref(), expected, "{address} {path}");
    }
    for path in ["", ".", "a..b", "a."] {
        assert_eq!(GeoPath::parse(path), None, "{path}");
    }
}

#[test]
fn every_truncated_file_is_refused_with_a_reason() {
    let whole = sample();
    for length in 0..whole.len() {
        let problem = GeoContent::read(whole[..length].to_vec(), STAMP).unwrap_err();
        assert!(problem.starts_with("it is no valid MaxMind database"), "{problem}");
    }
}

proptest! {
    #[test]
    fn no_content_causes_a_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        address in any::<u32>(),
    ) {
        let mut bytes = sample();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Ok(content) = GeoContent::read(bytes, STAMP) {
            for address in [IpAddr::from([192, 0, 2, 1]), IpAddr::from(address.to_be_bytes())] {
                let paths =
                    ["country.iso_code", "subdivisions.0.iso_code", "country", "location.offset"];
                for path in paths {
                    let _ = content.find(address, &GeoPath::parse(path).unwrap());
                }
            }
        }
    }
}
