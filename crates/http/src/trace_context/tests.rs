use proptest::prelude::*;

use super::*;

const ID: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

fn parse(text: &str) -> Option<(String, String, u8)> {
    let parent = Parent::parse(text.as_bytes())?;
    Some((parent.id.to_string(), parent.span.to_string(), parent.flags))
}

#[test]
fn a_parent_is_read_as_the_specification_has_it() {
    let known = |flags| Some((ID.to_owned(), SPAN.to_owned(), flags));
    for (flags, expected) in [("00", 0), ("01", 1), ("03", 3), ("ff", 3), ("09", 1)] {
        assert_eq!(parse(&format!("00-{ID}-{SPAN}-{flags}")), known(expected), "{flags}");
    }
    // A later version may have further parts.
    for later in ["", "-", "-what-the-future-brings"] {
        assert_eq!(parse(&format!("cc-{ID}-{SPAN}-01{later}")), known(1), "{later}");
    }
}

#[test]
fn a_malformed_parent_is_none() {
    let zero_id = format!("00-{}-{SPAN}-01", "0".repeat(32));
    let zero_span = format!("00-{ID}-{}-01", "0".repeat(16));
    for text in [
        "",
        "00",
        &zero_id,
        &zero_span,
        &format!("ff-{ID}-{SPAN}-01"),
        &format!("00-{ID}-{SPAN}-01-more"),
        &format!("00-{ID}-{SPAN}-01."),
        &format!("cc-{ID}-{SPAN}-01.more"),
        &format!("00-{ID}-{SPAN}-1"),
        &format!("00-{ID}-{SPAN}-0X"),
        &format!("00-{ID}-{SPAN}_01"),
        &format!("00-{}-{SPAN}-01", ID.to_uppercase()),
        &format!("0A-{ID}-{SPAN}-01"),
        &format!("00-{}-{SPAN}-01", ID.replace('0', "g")),
        &format!("00-{ID}0-{}-01", &SPAN[1..]),
        &format!(" 00-{ID}-{SPAN}-01"),
        &format!("00-{ID}-{SPAN}-01 "),
        &format!("00-{ID}-{SPAN}-01,00-{ID}-{SPAN}-01"),
    ] {
        assert_eq!(parse(text), None, "{text}");
    }
}

fn join(values: &[&str]) -> Option<String> {
    let joined = join_state(values.iter().map(|value| value.as_bytes()))?;
    Some(String::from_utf8(joined).unwrap())
}

#[test]
fn members_of_several_fields_are_one_list() {
    for (values, expected) in [
        (&["a=1"][..], Some("a=1")),
        (&[" a=1 ,\tb=2 ", "", "c=3"], Some("a=1,b=2,c=3")),
        (&["a=1,,b=2,"], Some("a=1,b=2")),
        (&["t61@r-o_j*o/=x y"], Some("t61@r-o_j*o/=x y")),
        (&[], None),
        (&[" , "], None),
    ] {
        assert_eq!(join(values).as_deref(), expected, "{values:?}");
    }
}

#[test]
fn a_malformed_list_is_none() {
    let long = format!("{}=1", "a".repeat(257));
    let many: Vec<_> = (0..33).map(|number| format!("k{number}=1")).collect();
    for value in
        ["a", "a=", "=1", "A=1", "a b=1", "a=1,a=2", "a=b=c", "a=\u{e9}", &long, &many.join(",")]
    {
        assert_eq!(join(&[value]), None, "{value}");
    }
    assert!(join(&[&many[..32].join(",")]).is_some());
}

#[test]
fn the_last_members_of_a_long_list_are_left_out() {
    let member = |key: char| format!("{key}={}", "x".repeat(200));
    let (a, b, c) = (member('a'), member('b'), member('c'));
    assert_eq!(join(&[&a, &b, &c, "d=1"]), Some(format!("{a},{b}")));
}

#[test]
fn a_ratio_takes_its_part_of_all_ids() {
    let id = |low: u64| {
        let mut bytes = [1; 16];
        bytes[8..].copy_from_slice(&low.to_be_bytes());
        TraceId::new(bytes).unwrap()
    };
    let takes = |ratio, low| Tracing::new(ratio, true).takes(id(low));
    assert!(!takes(0.0, 0) && takes(1.0, u64::MAX) && takes(1.0, 0));
    assert!(takes(0.5, u64::MAX / 2 - 1) && !takes(0.5, u64::MAX / 2 + 2));
    assert!(takes(0.01, u64::MAX / 101) && !takes(0.01, u64::MAX / 99));
}

proptest! {
    #[test]
    fn any_parent_reads_back(id: [u8; 16], span: [u8; 8], flags in 0u8..4) {
        let (Some(id), Some(span)) = (TraceId::new(id), SpanId::new(span)) else { return Ok(()) };
        let text = format!("00-{id}-{span}-{flags:02x}");
        prop_assert_eq!(Parent::parse(text.as_bytes()), Some(Parent { id, span, flags }));
    }

    #[test]
    fn no_bytes_make_the_parser_fail(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = Parent::parse(&bytes);
    }

    #[test]
    fn a_list_that_is_passed_on_is_bounded_and_well_formed(
        values in prop::collection::vec("[a-c=, \t0-9@*]{0,40}", 0..40),
    ) {
        if let Some(joined) = join_state(values.iter().map(|value| value.as_bytes())) {
            prop_assert!(joined.len() <= MAX_STATE_BYTES);
            prop_assert_eq!(join_state([&joined[..]].into_iter()), Some(joined.clone()));
        }
    }
}
