use super::*;
use proptest::prelude::*;

const ETAG: &[u8] = b"\"5f.0-a\"";
/// Sun, 06 Nov 1994 08:49:37 GMT
const DATE: u64 = 784_111_777;
const VALIDATORS: Validators<'static> = Validators { etag: ETAG, modified: Some(DATE) };

const EARLIER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const LATER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

fn fields(pairs: &[(&str, &str)]) -> Fields {
    Fields::from_pairs(pairs.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())))
}

fn verdict(pairs: &[(&str, &str)]) -> Verdict {
    Conditions::of(&fields(pairs)).evaluate(VALIDATORS)
}

#[test]
fn a_plain_request_proceeds() {
    assert_eq!(verdict(&[("Host", "x"), ("Accept", "*/*")]), Verdict::Proceed);
}

#[test]
fn if_none_match_compares_weakly() {
    for value in [
        "\"5f.0-a\"",
        "W/\"5f.0-a\"",
        "\"x\", \"5f.0-a\"",
        "*",
        " * ",
        "\"a\",,W/\"5f.0-a\" , \"b\"",
    ] {
        assert_eq!(verdict(&[("If-None-Match", value)]), Verdict::NotModified, "{value}");
    }
    for value in [
        "\"x\"",
        "5f.0-a",
        "",
        "w/\"5f.0-a\"",
        "\"5f.0-a",
        "\"5f.0-a\"x",
        "**",
        "\"a b\", \"5f.0-a\"",
    ] {
        assert_eq!(verdict(&[("If-None-Match", value)]), Verdict::Proceed, "{value}");
    }
    assert_eq!(
        verdict(&[("if-none-match", "\"x\""), ("IF-NONE-MATCH", "\"5f.0-a\"")]),
        Verdict::NotModified
    );
}

#[test]
fn if_match_compares_strongly() {
    assert_eq!(verdict(&[("If-Match", "\"5f.0-a\"")]), Verdict::Proceed);
    assert_eq!(verdict(&[("If-Match", "*")]), Verdict::Proceed);
    for value in ["W/\"5f.0-a\"", "\"x\"", "", "garbage"] {
        assert_eq!(verdict(&[("If-Match", value)]), Verdict::Failed, "{value}");
    }
}

#[test]
fn dates_are_compared_by_the_second() {
    assert_eq!(verdict(&[("If-Modified-Since", EARLIER)]), Verdict::Proceed);
    assert_eq!(verdict(&[("If-Modified-Since", SAME)]), Verdict::NotModified);
    assert_eq!(verdict(&[("If-Modified-Since", LATER)]), Verdict::NotModified);
    assert_eq!(verdict(&[("If-Unmodified-Since", EARLIER)]), Verdict::Failed);
    assert_eq!(verdict(&[("If-Unmodified-Since", SAME)]), Verdict::Proceed);
    assert_eq!(
        verdict(&[("If-Modified-Since", "Sunday, 06-Nov-94 08:49:37 GMT")]),
        Verdict::NotModified
    );
    assert_eq!(verdict(&[("If-Modified-Since", "Sun Nov  6 08:49:37 1994")]), Verdict::NotModified);
}

#[test]
fn a_wrong_day_of_the_week_does_not_matter() {
    for value in [
        "Mon, 06 Nov 1994 08:49:37 GMT",
        "Wednesday, 06-Nov-94 08:49:37 GMT",
        "Fri Nov  6 08:49:37 1994",
    ] {
        assert_eq!(verdict(&[("If-Modified-Since", value)]), Verdict::NotModified, "{value}");
    }
}

#[test]
fn a_date_that_is_none_or_repeated_is_ignored() {
    for value in ["", "yesterday", "0", "Sun, 99 Nov 1994 08:49:37 GMT", "784111777"] {
        assert_eq!(verdict(&[("If-Modified-Since", value)]), Verdict::Proceed, "{value}");
        assert_eq!(verdict(&[("If-Unmodified-Since", value)]), Verdict::Proceed, "{value}");
    }
    assert_eq!(
        verdict(&[("If-Modified-Since", LATER), ("If-Modified-Since", LATER)]),
        Verdict::Proceed
    );
}

#[test]
fn without_a_modification_date_dates_say_nothing() {
    let request = fields(&[("If-Modified-Since", LATER), ("If-Unmodified-Since", EARLIER)]);
    let validators = Validators { etag: ETAG, modified: None };
    assert_eq!(Conditions::of(&request).evaluate(validators), Verdict::Proceed);
}

#[test]
fn tags_take_precedence_over_dates() {
    let tag = "\"5f.0-a\"";
    assert_eq!(
        verdict(&[("If-Modified-Since", LATER), ("If-None-Match", "\"x\"")]),
        Verdict::Proceed
    );
    assert_eq!(
        verdict(&[("If-Modified-Since", EARLIER), ("If-None-Match", tag)]),
        Verdict::NotModified
    );
    assert_eq!(verdict(&[("If-Unmodified-Since", EARLIER), ("If-Match", tag)]), Verdict::Proceed);
    assert_eq!(verdict(&[("If-None-Match", tag), ("If-Match", "\"x\"")]), Verdict::Failed);
    assert_eq!(verdict(&[("If-None-Match", tag), ("If-Match", tag)]), Verdict::NotModified);
    assert_eq!(
        verdict(&[("If-Unmodified-Since", EARLIER), ("If-None-Match", tag)]),
        Verdict::Failed
    );
}

#[test]
fn if_range_voids_the_range_unless_it_matches_strongly() {
    let range = |value: &str, now| {
        let request = fields(&[("Range", "bytes=0-1"), ("If-Range", value)]);
        Conditions::of(&request).range(VALIDATORS, now).is_some()
    };
    assert!(range("\"5f.0-a\"", DATE));
    assert!(range(SAME, DATE + 1));
    assert!(!range(SAME, DATE), "a date of this very second may still change its meaning");
    for value in ["W/\"5f.0-a\"", "\"x\"", "*", "", EARLIER, LATER, "\"5f.0-a\", \"5f.0-a\""] {
        assert!(!range(value, DATE + 100), "{value}");
    }
}

#[test]
fn a_repeated_range_is_ignored() {
    let request = fields(&[("Range", "bytes=0-1"), ("Range", "bytes=2-3")]);
    assert_eq!(Conditions::of(&request).range(VALIDATORS, DATE), None);
    let request = fields(&[("Range", "bytes=0-1")]);
    assert_eq!(Conditions::of(&request).range(VALIDATORS, DATE), Some(&b"bytes=0-1"[..]));
}

/// The order of RFC 9110, 13.2.2, as an independent table of its steps.
fn by_the_rfc(
    if_match: Option<bool>,
    unmodified: Option<bool>,
    none_match: Option<bool>,
    modified: Option<bool>,
) -> Verdict {
    if if_match == Some(false) || (if_match.is_none() && unmodified == Some(false)) {
        return Verdict::Failed;
    }
    if none_match == Some(false) || (none_match.is_none() && modified == Some(false)) {
        return Verdict::NotModified;
    }
    Verdict::Proceed
}

proptest! {
    #[test]
    fn every_combination_follows_the_order_of_the_rfc(
        if_match in prop::option::of(any::<bool>()),
        unmodified in prop::option::of(any::<bool>()),
        none_match in prop::option::of(any::<bool>()),
        modified in prop::option::of(any::<bool>()),
    ) {
        let mut pairs = Vec::new();
        if let Some(holds) = if_match {
            pairs.push(("If-Match", if holds { "\"5f.0-a\"" } else { "\"x\"" }));
        }
        if let Some(holds) = unmodified {
            pairs.push(("If-Unmodified-Since", if holds { SAME } else { EARLIER }));
        }
        if let Some(holds) = none_match {
            pairs.push(("If-None-Match", if holds { "\"x\"" } else { "\"5f.0-a\"" }));
        }
        if let Some(holds) = modified {
            pairs.push(("If-Modified-Since", if holds { EARLIER } else { SAME }));
        }
        prop_assert_eq!(verdict(&pairs), by_the_rfc(if_match, unmodified, none_match, modified));
    }

    #[test]
    fn written_tags_are_read_back(
        tags in prop::collection::vec((any::<bool>(), "[!#-~]{0,8}"), 0..6),
    ) {
        let list: Vec<String> = tags.iter()
            .map(|(weak, tag)| format!("{}\"{tag}\"", if *weak { "W/" } else { "" })).collect();
        let list = list.join(" , ");
        let read: Vec<(bool, String)> = parse_entity_tags(list.as_bytes())
            .map(|tag| {
                let opaque = &tag.opaque[1..tag.opaque.len() - 1];
                (tag.weak, String::from_utf8_lossy(opaque).into_owned())
            })
            .collect();
        prop_assert_eq!(read, tags);
    }

    #[test]
    fn no_value_makes_the_parsers_fail(value in prop::collection::vec(any::<u8>(), 0..60)) {
        prop_assert!(parse_entity_tags(&value).count() <= value.len());
        if_range_holds(&value, VALIDATORS, DATE);
    }
}
