use proptest::prelude::*;

use super::*;

/// Shows segments: text as it is, includes in brackets.
fn shown(page: &str) -> String {
    let segments = parse(page.as_bytes()).unwrap();
    let show = |segment: &Segment| match segment {
        Segment::Text(range) => page[range.clone()].to_owned(),
        Segment::Include(Include { src, alt, continues }) => {
            let text = |address: &[u8]| String::from_utf8_lossy(address).into_owned();
            let alt = alt.as_ref().map(|alt| format!("|{}", text(alt))).unwrap_or_default();
            format!("[{}{alt}{}]", text(src), if *continues { "?" } else { "" })
        }
    };
    segments.iter().map(show).collect()
}

#[test]
fn includes_removals_and_comments_are_found() {
    for (page, expected) in [
        ("a<esi:include src=\"/b\"/>c", "a[/b]c"),
        ("<esi:include src='/b' alt=\"/c\" onerror=\"continue\" />", "[/b|/c?]"),
        ("<esi:include\n src = \"/b?x=1&amp;y=&quot;\" ></esi:include>", "[/b?x=1&y=\"]"),
        ("<esi:include src=\"http://a.example/b\"/>", "[http://a.example/b]"),
        (
            "<esi:include src=\"/_fragment?_hash=a%3D&_path=b%26c\" />",
            "[/_fragment?_hash=a%3D&_path=b%26c]",
        ),
        ("a<esi:remove>b<esi:include src=\"/b\"/></esi:remove>c", "ac"),
        ("a<esi:comment text=\"b\"/>c", "ac"),
        ("a<!--esi b<esi:include src=\"/b\"/>-->c-->", "a b[/b]c-->"),
        ("<!--esi a--><!--esi b-->", " a b"),
    ] {
        assert_eq!(shown(page), expected, "{page}");
    }
}

#[test]
fn everything_else_is_text() {
    for page in [
        "",
        "a < b <!-- c --> -->",
        "<!--esilent-->",
        "<!--esi a",
        "<esi:include/>",
        "<esi:include src=\"\"/>",
        "<esi:include src=\"/a b\"/>",
        "<esi:include src=\"/a\r\nX: y\"/>",
        "<esi:include src=/b/>",
        "<esi:include src=\"/b/>",
        "<esi:include src=\"/b\"",
        "<esi:includes src=\"/b\"/>",
        "<esi:include src=\"/<b>\"/>",
        "<ESI:include src=\"/b\"/>",
        "<esi:vars>$(HTTP_COOKIE)</esi:vars>",
        "&lt;esi:include src=\"/b\"/&gt;",
    ] {
        assert_eq!(shown(page), page);
    }
    let long = format!("<esi:include src=\"/{}\"/>", "a".repeat(MAX_ADDRESS));
    assert_eq!(shown(&long), long);
    assert_eq!(shown("a<esi:remove>b"), "ab");
}

#[test]
fn a_page_has_a_limited_number_of_includes() {
    let page = "<esi:include src=\"/b\"/>".repeat(MAX_INCLUDES);
    assert_eq!(parse(page.as_bytes()).map(|segments| segments.len()), Ok(MAX_INCLUDES));
    assert_eq!(
        parse(format!("{page}<esi:include src=\"/b\"/>").as_bytes()),
        Err(TooMuch::Includes)
    );
}

#[test]
fn a_page_has_a_limited_number_of_elements() {
    let page = "a<esi:remove></esi:remove>".repeat(MAX_MARKUP);
    assert_eq!(parse(page.as_bytes()).map(|segments| segments.len()), Ok(MAX_MARKUP));
    assert_eq!(parse(format!("{page}</esi:remove>").as_bytes()), Err(TooMuch::Markup));
}

/// Each of these made the parser look at the rest of the page again and again, or at each byte of
/// it at once.
#[test]
fn hostile_pages_take_short_steps_and_as_many_as_their_length_permits() {
    const LENGTH: usize = 4 << 20;
    for part in [
        "<esi:remove>",
        "<!--esi ",
        "<esi:include src=\"",
        "<esi:include src='/' ",
        "<esi:include a='' b",
        "<!--esi --> esi",
        "<esi:",
        "esi",
        "<",
        "--",
    ] {
        let page = part.repeat(LENGTH / part.len());
        let (mut parser, mut steps) = (Parser::new(page.as_bytes()), 1);
        while parser.step() == Ok(false) {
            steps += 1;
        }
        assert!(steps <= LENGTH / 3 / STEP_WORDS + LENGTH / STEP_BYTES + 2, "{part}: {steps}");
        let words = memmem::find_iter(page.as_bytes(), b"esi").count();
        assert!(steps > words.min(MAX_MARKUP) / STEP_WORDS, "{part}: {steps}");
    }
}

#[test]
fn a_removal_may_take_the_end_of_a_comment() {
    assert_eq!(shown("<!--esi a<esi:remove>--></esi:remove>b-->c<!--esi d-->"), " abc d");
    assert_eq!(shown("<!--esi a<esi:remove>--></esi:remove>b<!--esi c"), " ab<!--esi c");
}

#[test]
fn only_pages_that_say_so_are_assembled() {
    for (value, expected) in [
        ("content=\"ESI/1.0\"", true),
        ("max-age=60, content=\"ESI/1.0\"", true),
        ("no-store, content=\"Other/1 ESI/1.0\"", true),
        ("content=\"ESI/1.0 ESI-INV/1.0\";howdah", false),
        ("content=ESI/1.0;howdah", true),
        ("content=ESI/1.0;other", false),
        ("content=\"ESI/1.01\"", false),
        ("max-age=60", false),
        ("x=\"content=ESI/1.0\"", false),
    ] {
        let mut fields = FieldBlock::default();
        fields.push("Surrogate-Control", value);
        assert_eq!(is_marked(&fields), expected, "{value}");
    }
}

#[test]
fn addresses_are_paths_of_the_same_host() {
    let host = b"a.example:81";
    for (address, expected) in [
        ("/b?c", Some("/b?c")),
        ("http://a.example:81/b#d", Some("/b")),
        ("https://A.example:81/b", Some("/b")),
        ("http://a.example/b", None),
        ("http://a.example:81.evil/b", None),
        ("http://evil@a.example:81/b", None),
        ("http://a.example:81@evil/b", None),
        ("http://a.example:81", None),
        ("http://a.example:81?b", None),
        ("//evil/b", None),
        ("http://a.example:81//evil/b", None),
        ("b", None),
        ("file:///etc/passwd", None),
        ("http:///b", None),
    ] {
        assert_eq!(target(address.as_bytes(), host), expected.map(str::as_bytes), "{address}");
    }
    assert_eq!(target(b"http:///b", b""), None);
}

#[test]
fn no_spelling_of_the_capability_is_overlooked() {
    assert!(is_capability(b"Surrogate-Capability") && is_capability(b"surrogate_CAPABILITY"));
    assert!(!is_capability(b"Surrogate-Control") && !is_capability(b"Surrogate-Capability2"));
}

/// A part of a page, and its expected text.
fn piece() -> impl Strategy<Value = (String, String)> {
    let address = "/[a-z?=%.]{0,12}";
    prop_oneof![
        "[a-z >&\"'=/-]{0,20}".prop_map(|text| {
            let text = text.replace("-->", "");
            (text.clone(), text)
        }),
        address.prop_map(|a| (format!("<esi:include src=\"{a}\"/>"), format!("[{a}]"))),
        (address, address).prop_map(|(a, b)| {
            let markup =
                format!("<esi:include alt='{b}'  src='{a}' onerror='continue'></esi:include>");
            (markup, format!("[{a}|{b}?]"))
        }),
        "[a-z<>]{0,9}".prop_map(|text| (format!("<esi:remove>{text}</esi:remove>"), String::new())),
        "[a-z]{0,9}".prop_map(|text| (format!("<esi:comment text=\"{text}\"/>"), String::new())),
        "[a-z<]{0,9}".prop_map(|text| (format!("<!--esi {text}-->"), format!(" {text}"))),
    ]
}

proptest! {
    #[test]
    fn pages_of_known_parts_are_read_as_written(parts in prop::collection::vec(piece(), 0..12)) {
        let page: String = parts.iter().map(|(markup, _)| markup.as_str()).collect();
        let expected: String = parts.iter().map(|(_, shown)| shown.as_str()).collect();
        prop_assert_eq!(shown(&page), expected);
    }

    #[test]
    fn text_is_in_order_and_without_overlap(
        page in "([a-z<>\"'=/ -]|<esi:include src=\"/|\"/>|<esi:remove>|</esi:remove>|<!--esi \
                 |-->){0,40}"
    ) {
        let mut end = 0;
        for segment in parse(page.as_bytes()).unwrap_or_default() {
            if let Segment::Text(range) = segment {
                prop_assert!(end <= range.start && range.start < range.end);
                prop_assert!(range.end <= page.len());
                end = range.end;
            }
        }
    }

    #[test]
    fn addresses_that_are_accepted_hold_no_line_break(address: Vec<u8>) {
        let page = [b"<esi:include src=\"", &address[..], b"\"/>"].concat();
        for segment in parse(&page).unwrap_or_default() {
            if let Segment::Include(include) = segment {
                prop_assert!(include.src.iter().all(|byte| *byte > b' '));
            }
        }
    }
}
