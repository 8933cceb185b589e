use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::error::ErrorKind;

fn refused(text: impl AsRef<[u8]>) -> Error {
    let text = text.as_ref();
    let error = parse(text).expect_err(&String::from_utf8_lossy(text));
    assert_eq!(error.kind(), ErrorKind::Syntax);
    error
}

#[test]
fn values_of_every_type_are_read() {
    let text = br#" { "a": [null, true, false, 0, -1, 1.5, "x"], "b": {}, "c": [] } "#;
    let value = parse(text).expect("valid");
    assert_eq!(value, json!({"a": [null, true, false, 0, -1, 1.5, "x"], "b": {}, "c": []}));
}

#[test]
fn a_string_that_is_not_closed_is_reported_where_it_begins() {
    for text in
        ["{\n \"a\": \"b}\n}", "{\n \"a\": \"b", "{\n \"a\": \"\\\"\r\n", "{\n \"a\": \"b\\\\\n\""]
    {
        let error = refused(text);
        let told = error.to_string();
        assert!(
            told.starts_with("line 2, column 7: the string that begins here is not closed"),
            "{told}"
        );
    }
    assert!(refused("\"a\tb\"").to_string().contains("control character"));
}

#[test]
fn members_keep_their_order() {
    let value = parse(br#"{"z": 1, "a": 2, "m": 3}"#).expect("valid");
    assert_eq!(value.to_string(), r#"{"z":1,"a":2,"m":3}"#);
}

#[test]
fn comments_stand_where_white_space_may() {
    let text = b"\xef\xbb\xbf// bridge \
                 \xef\t\x08\n{ /* a ** / */ \"//x\" /**/ : // y\n 1 /* */, \"/*\": 2 }\n/* \xff */";
    assert_eq!(parse(text).expect("valid"), json!({"//x": 1, "/*": 2}));
}

#[test]
fn a_comment_must_end() {
    for text in ["/{}", "//{}", "{} /", "/*{}", "{} /*", "{} /*/", "{}//", "{/", "[1/"] {
        refused(text);
    }
    assert!(parse(b"{}//\n").is_ok());
}

#[test]
fn a_comma_may_follow_the_last_member_or_element() {
    assert_eq!(parse(br#"{"a": [1, 2,], }"#).expect("valid"), json!({"a": [1, 2]}));
    for text in ["{,}", "[,]", "[1,,]", r#"{"a":1,,}"#, ","] {
        refused(text);
    }
}

#[test]
fn a_member_must_not_be_named_twice() {
    let error = refused("{\"a\": 1,\n \"b\": {\"a\": 1, \"\\u0061\": 2}}");
    let at = error.position().expect("a position");
    assert_eq!((at.line, at.column, at.offset), (2, 16, 24));
}

#[test]
fn escapes_are_decoded() {
    let text = br#""\"\\\/\n\r\t\b\f\u00e9\uD83d\ude00 \u0000""#;
    assert_eq!(parse(text).expect("valid"), json!("\"\\/\n\r\t\u{8}\u{c}é😀 \0"));
}

#[test]
fn broken_strings_are_refused() {
    for text in [
        r#"""#,
        r#""\"#,
        r#""\""#,
        r#""\x""#,
        r#""\u12""#,
        r#""\u12g4""#,
        r#""\ud800""#,
        r#""\ud800x""#,
        r#""\udc00""#,
        r#""\ud800\u0041""#,
        r#""\ud800\"#,
        r#""\ud800\u""#,
        "\"\n\"",
        "\"\0\"",
        "'a'",
    ] {
        refused(text);
    }
    refused(b"\"\xff\"");
    refused(b"\"\xc3\"");
    // The place is that of the first byte that is wrong.
    let error = refused(b"[\"ab\xff\"]");
    assert_eq!(error.position().map(|place| place.offset), Some(4));
    // Three bytes that would encode a surrogate, and an overlong slash.
    refused(b"\"\xed\xa0\x80\"");
    refused(b"\"\xc0\xaf\"");
}

#[test]
fn numbers_that_come_to_an_integer_are_integers() {
    for (text, number) in
        [("2e2", 200), ("20.0", 20), ("-0", 0), ("1E+2", 100), ("9223372036854775807", i64::MAX)]
    {
        assert_eq!(parse(text.as_bytes()).expect(text).as_i64(), Some(number), "{text}");
    }
    assert_eq!(parse(b"80.1").expect("valid").as_i64(), None);
}

#[test]
fn broken_and_huge_numbers_are_refused() {
    for text in [
        "00",
        "001",
        "-",
        "-01",
        "+1",
        ".5",
        "1.",
        "1.e2",
        "1e",
        "1e+",
        "0x10",
        "1a",
        "1 2",
        "--1",
        "1.2.3",
        "9223372036854775808",
        "-9223372036854775809",
        "1e400",
        "1e19",
        "NaN",
        "Infinity",
    ] {
        refused(text);
    }
    // Ten thousand digits take linear time.
    refused("9".repeat(10_000));
}

#[test]
fn cut_texts_are_refused_at_their_end() {
    let whole = r#"{"a": [1, {"b": "c\u0041"}, true], "d": null}"#;
    for end in 0..whole.len() {
        let error = refused(&whole[..end]);
        let at = error.position().expect("a position").offset;
        assert!(at <= end, "{end}: {error}");
    }
    assert!(parse(whole.as_bytes()).is_ok());
}

#[test]
fn columns_count_characters() {
    let error = refused("{\n  \"é😀\": x}");
    let at = error.position().expect("a position");
    assert_eq!((at.line, at.column), (2, 9));
    assert!(error.to_string().starts_with("line 2, column 9: a value is expected here"), "{error}");
}

#[test]
fn a_value_is_found_by_its_path() {
    let text = "\u{feff} { // first\n \"a\" : [\"x\", \
                {\"b\": 1, \"c\" :2,}, [3, [4]] ,],\n \"\\u00e9\": 5}";
    let found = |path: &[&str]| {
        let path: Vec<String> = path.iter().map(|&step| step.to_owned()).collect();
        let position = find(text.as_bytes(), &path)?;
        let rest = &text[position.offset..];
        Some(rest.split([',', ']', '}']).next().unwrap_or_default().trim())
    };
    for (path, expected) in [
        (&["a", "0"][..], "\"x\""),
        (&["a", "1", "b"], "1"),
        (&["a", "1", "c"], "2"),
        (&["a", "2", "0"], "3"),
        (&["a", "2", "1", "0"], "4"),
        (&["\u{e9}"], "5"),
    ] {
        assert_eq!(found(path), Some(expected), "{path:?}");
    }
    assert_eq!(find(text.as_bytes(), &[]).map(|place| (place.line, place.column)), Some((1, 3)));
    for path in
        [&["b"][..], &["a", "3"], &["a", "b"], &["a", "0", "0"], &["a", "1", "0"], &["\u{e9}", "0"]]
    {
        assert_eq!(found(path), None, "{path:?}");
    }
}

#[test]
fn nesting_a_hundred_thousand_deep_is_an_error_and_no_stack_overflow() {
    for (open, close) in [("[", "]"), (r#"{"a":"#, "}"), ("[{\"a\":", "}]")] {
        let text = open.repeat(100_000) + "1" + &close.repeat(100_000);
        let error = refused(text);
        assert!(error.message().contains("128"), "{error}");
    }
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(parse(nested(MAX_DEPTH).as_bytes()).is_ok());
    refused(nested(MAX_DEPTH + 1));
    // The limit applies to the depth of nesting, not to the number of arrays.
    assert!(parse(("[".to_owned() + &"[],".repeat(1000) + "]").as_bytes()).is_ok());
}

#[test]
fn a_text_of_a_hundred_megabytes_is_refused() {
    refused(vec![b' '; 100 << 20]);
    let padded = |length: usize| [b"{}".to_vec(), vec![b' '; length - 2]].concat();
    assert!(parse(&padded(MAX_SIZE)).is_ok());
    let error = refused(padded(MAX_SIZE + 2));
    assert!(error.message().contains("16 MiB"), "{error}");
}

#[test]
fn more_than_a_million_values_are_refused() {
    refused("[".to_owned() + &"0,".repeat(MAX_VALUES) + "]");
    assert!(parse(("[".to_owned() + &"0,".repeat(MAX_VALUES - 1) + "]").as_bytes()).is_ok());
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..8)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Returns true if two trees are equal, with whole doubles converted to integers.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|((k, a), (l, b))| k == l && same(a, b))
        }
        (a, b) => a == b,
    }
}

proptest! {
    #[test]
    fn what_another_writer_writes_is_read(value in any_value()) {
        let text = serde_json::to_vec_pretty(&value).expect("writable");
        prop_assert!(same(&parse(&text).expect("valid"), &value));
    }

    #[test]
    fn comments_change_nothing(value in any_value(), comment in "[^*/\n]{0,20}") {
        // Lines of the pretty form do not split strings.
        let text = serde_json::to_string_pretty(&value).expect("writable");
        let line = text.replace('\n', &format!("// {comment}\n"));
        let block = text.replace('\n', &format!("/* {comment}\n*/"));
        prop_assert!(same(&parse((line + "\n").as_bytes()).expect("valid"), &value));
        prop_assert!(same(&parse(block.as_bytes()).expect("valid"), &value));
    }

    #[test]
    fn strict_json_is_accepted_and_nothing_is_misread(
        text in r#"[\[\]{}:,"\\ntrue0-9.eE+\-/* \n]{0,24}"#,
    ) {
        if let Ok(strict) = serde_json::from_str::<Value>(&text) {
            match parse(text.as_bytes()) {
                Ok(value) => prop_assert!(same(&value, &strict)),
                // serde_json takes the last of two members of one name, and numbers beyond 64 bits.
                Err(error) => prop_assert!(
                    error.message().contains("two members") || error.message().contains("64-bit"),
                    "{text}: {error}"
                ),
            }
        }
    }

    #[test]
    fn no_bytes_make_it_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&text);
    }
}
