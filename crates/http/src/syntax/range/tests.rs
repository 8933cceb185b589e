// Some lists really have one range.
#![allow(clippy::single_range_in_vec_init)]

use super::*;
use proptest::prelude::*;

fn parts(ranges: &[Range<u64>]) -> Ranges {
    Ranges::Parts(ranges.to_vec())
}

#[test]
fn ranges_are_read_as_the_rfc_writes_them() {
    assert_eq!(parse_range(b"bytes=0-499", 10_000), parts(&[0..500]));
    assert_eq!(parse_range(b"bytes=500-999", 10_000), parts(&[500..1000]));
    assert_eq!(parse_range(b"bytes=-500", 10_000), parts(&[9500..10_000]));
    assert_eq!(parse_range(b"bytes=9500-", 10_000), parts(&[9500..10_000]));
    assert_eq!(parse_range(b"bytes=0-0,-1", 10_000), parts(&[0..1, 9999..10_000]));
    assert_eq!(
        parse_range(b"bytes= 0-999 , 4500-5499,,-1000", 10_000),
        parts(&[0..1000, 4500..5500, 9000..10_000])
    );
    assert_eq!(parse_range(b"Bytes=0-99999", 10), parts(&[0..10]));
    assert_eq!(parse_range(b"bytes=-99", 10), parts(&[0..10]));
}

#[test]
fn order_stays_unless_ranges_overlap() {
    assert_eq!(parse_range(b"bytes=5-6,0-1", 10), parts(&[5..7, 0..2]));
    assert_eq!(parse_range(b"bytes=5-6,0-1,1-3", 10), parts(&[0..4, 5..7]));
    assert_eq!(parse_range(b"bytes=0-4,5-9", 10), parts(&[0..5, 5..10]));
    assert_eq!(parse_range(b"bytes=0-5,5-9", 10), parts(&[0..10]));
}

#[test]
fn malformed_fields_are_ignored() {
    for value in [
        "",
        "bytes",
        "bytes=",
        "bytes=,",
        "bytes=-",
        "bytes=a-b",
        "bytes=1",
        "bytes=2-1",
        "bytes=+1-2",
        "bytes=1-2-3",
        "bytes=--1",
        "bytes=0-1,x",
        "items=0-1",
        "bytes=0x1-2",
        "bytes 0-1",
        "bytes=1 -2",
    ] {
        assert_eq!(parse_range(value.as_bytes(), 100), Ranges::Ignored, "{value}");
    }
}

#[test]
fn ranges_past_the_end_are_unsatisfiable() {
    for value in ["bytes=100-", "bytes=100-200", "bytes=-0", "bytes=200-,300-"] {
        assert_eq!(parse_range(value.as_bytes(), 100), Ranges::Unsatisfiable, "{value}");
    }
    assert_eq!(parse_range(b"bytes=200-,5-9", 100), parts(&[5..10]));
    assert_eq!(parse_range(b"bytes=0-", 0), Ranges::Unsatisfiable);
    assert_eq!(parse_range(b"bytes=-5", 0), Ranges::Ignored);
}

/// Attack class 28: no arithmetic wraps, and many overlapping ranges have no cost.
#[test]
fn huge_and_many_ranges_are_harmless() {
    let huge = "9".repeat(40);
    assert_eq!(parse_range(format!("bytes=0-{huge}").as_bytes(), 10), parts(&[0..10]));
    assert_eq!(parse_range(format!("bytes=-{huge}").as_bytes(), 10), parts(&[0..10]));
    assert_eq!(parse_range(format!("bytes={huge}-").as_bytes(), 10), Ranges::Unsatisfiable);
    assert_eq!(parse_range(b"bytes=0-18446744073709551615", u64::MAX), parts(&[0..u64::MAX]));
    assert_eq!(
        parse_range(b"bytes=-9223372036854775807,-9223372036854775609", 1000),
        parts(&[0..1000])
    );
    let many = vec!["0-"; 1000].join(",");
    assert_eq!(parse_range(format!("bytes={many}").as_bytes(), 10), Ranges::Ignored);
    let some = vec!["0-"; MAX_RANGES].join(",");
    assert_eq!(parse_range(format!("bytes={some}").as_bytes(), 10), parts(&[0..10]));
}

proptest! {
    #[test]
    fn parts_lie_within_the_length_and_never_overlap(
        specs in prop::collection::vec(
            (any::<u16>(), prop::option::of(any::<u16>()), any::<bool>()), 1..20),
        length in 0u64..70_000,
    ) {
        let list: Vec<String> = specs.iter().map(|(a, b, suffix)| match (suffix, b) {
            (true, _) => format!("-{a}"),
            (false, Some(b)) => format!("{a}-{}", u32::from(*a) + u32::from(*b)),
            (false, None) => format!("{a}-"),
        }).collect();
        let mut wanted = vec![false; length as usize];
        for (a, b, suffix) in &specs {
            let a = u64::from(*a);
            let part = match (suffix, b) {
                (true, _) => length.saturating_sub(a)..length,
                (false, Some(b)) => a.min(length)..(a + u64::from(*b) + 1).min(length),
                (false, None) => a.min(length)..length,
            };
            wanted[part.start as usize..part.end as usize].fill(true);
        }
        match parse_range(format!("bytes={}", list.join(",")).as_bytes(), length) {
            Ranges::Parts(parts) => {
                let mut sent = vec![false; length as usize];
                for part in parts {
                    prop_assert!(part.start < part.end && part.end <= length);
                    for byte in &mut sent[part.start as usize..part.end as usize] {
                        prop_assert!(!*byte, "a byte is sent twice");
                        *byte = true;
                    }
                }
                prop_assert_eq!(sent, wanted);
            }
            Ranges::Unsatisfiable => prop_assert!(!wanted.contains(&true)),
            Ranges::Ignored => prop_assert_eq!(length, 0),
        }
    }

    #[test]
    fn no_value_makes_the_parser_fail(
        value in prop::collection::vec(any::<u8>(), 0..80), length in any::<u64>(),
    ) {
        if let Ranges::Parts(parts) = parse_range(&[b"bytes=", &value[..]].concat(), length) {
            prop_assert!(!parts.is_empty() && parts.len() <= MAX_RANGES);
            prop_assert!(parts.iter().all(|p| p.start < p.end && p.end <= length));
        }
        parse_range(&value, length);
    }
}
