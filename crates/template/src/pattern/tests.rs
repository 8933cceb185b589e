use proptest::prelude::*;

use super::*;

fn pattern(text: &str, subject: Subject) -> Pattern {
    Pattern::parse(text, subject).expect(text)
}

fn patterns(texts: &[&str]) -> Patterns {
    let mut patterns = Patterns::default();
    for text in texts {
        patterns.push(pattern(text, Subject::Uri));
    }
    patterns
}

#[track_caller]
fn check(text: &str, accepted: &[&str], refused: &[&str]) {
    let pattern = pattern(text, Subject::Uri);
    for bytes in accepted {
        assert!(pattern.matches(bytes.as_bytes()), "{text} must accept {bytes}");
    }
    for bytes in refused {
        assert!(!pattern.matches(bytes.as_bytes()), "{text} must refuse {bytes}");
    }
}

#[test]
fn text_without_star_must_be_the_same() {
    check("/blog", &["/blog"], &["", "/blog/", "/Blog", "x/blog"]);
    check("", &[""], &["/"]);
}

#[test]
fn a_star_stands_for_any_bytes_also_none() {
    check("*", &["", "/", "/a/b"], &[]);
    check("/a*", &["/a", "/ab", "/a/b"], &["/", "/b"]);
    check("*.php", &[".php", "/x.php"], &["/x.php/y", "php"]);
    check("/a*z", &["/az", "/a/z"], &["/a", "z", "/aza"]);
    check("*mid*", &["mid", "/amidst"], &["/mi", "/mi/d"]);
    check("/a*b*c", &["/abc", "/a-b-c", "/abcbc"], &["/acb", "/ac", "/ab"]);
}

#[test]
fn prefix_and_suffix_do_not_share_bytes() {
    check("/aa*aa", &["/aaaa", "/aaaaa"], &["/aaa", "/aa"]);
    check("ab*b*b", &["abbb"], &["abb"]);
}

#[test]
fn an_exclamation_mark_turns_the_answer_round() {
    check("!/blog", &["/", ""], &["/blog"]);
    check("!", &["/"], &[""]);
    check("!*", &[], &["", "/"]);
    check("!~^/a", &["/b"], &["/a"]);
}

#[test]
fn paths_are_written_percent_encoded_and_an_encoded_star_is_a_star() {
    check("/a%20b", &["/a b"], &["/a%20b"]);
    check("/%2A*", &["/*", "/*x"], &["/x"]);
    check("%21x", &["!x"], &["x"]);
    for text in ["%", "/%1", "%zz", "*%", "%*20"] {
        assert_eq!(
            Pattern::parse(text, Subject::Uri).map(|_| ()),
            Err(PatternError::Encoding),
            "{text}"
        );
    }
}

#[test]
fn queries_have_plus_for_space() {
    assert!(pattern("a+b%2B", Subject::Query).matches(b"a b+"));
    assert!(pattern("a+b", Subject::Uri).matches(b"a+b"));
}

#[test]
fn case_is_as_the_subject_has_it() {
    assert!(pattern("post", Subject::Method).matches(b"POST"));
    assert!(pattern("~^(post|put)$", Subject::Method).matches(b"PUT"));
    assert!(pattern("*.Example.com", Subject::Host).matches(b"www.example.com"));
    assert!(pattern("a*b*C", Subject::Header).matches(b"A-B-c"));
    assert!(pattern("text/*", Subject::MimeType).matches(b"Text/HTML"));
    assert!(!pattern("Value", Subject::Cookie).matches(b"value"));
    assert!(!pattern("Value", Subject::Argument).matches(b"value"));
}

#[test]
fn two_stars_in_a_row_are_refused() {
    for text in ["**", "!**", "a**b"] {
        assert_eq!(
            Pattern::parse(text, Subject::Method).map(|_| ()),
            Err(PatternError::DoubleStar)
        );
    }
}

#[test]
fn regular_expressions_search_in_bytes() {
    check("~^/\\d+/", &["/42/x"], &["/x/42/", "/٤/"]);
    check("~b", &["abc"], &["B"]);
    check("~(?i)^/A$", &["/a"], &["/a\n"]);
    assert!(pattern("~^/\\xff$", Subject::Uri).matches(b"/\xff"));
}

#[test]
fn unusable_regular_expressions_are_refused_in_one_line() {
    for text in ["~(", "~+a", "~[z-a]", "~(?=a)", "~(a)\\1", "~(?:(?:(?:a{100}){100}){100}){100}"] {
        let Err(PatternError::Regex(reason)) = Pattern::parse(text, Subject::Uri) else {
            panic!("{text} must be refused");
        };
        assert!(!reason.is_empty() && !reason.contains('\n'), "{text}: {reason}");
    }
}

#[test]
fn a_list_accepts_what_one_finds_and_none_excludes() {
    let list = patterns(&["/a*", "!/a/b*", "/c"]);
    for (bytes, accepted) in [("/a", true), ("/c", true), ("/a/b", false), ("/d", false)] {
        assert_eq!(list.matches(bytes.as_bytes()), accepted, "{bytes}");
    }
    let only_excluding = patterns(&["!/a", "!/b"]);
    assert!(only_excluding.matches(b"/c") && !only_excluding.matches(b"/b"));
    assert!(patterns(&[]).matches(b"/"));
}

#[test]
fn many_stars_take_no_more_than_one_pass() {
    let text = "a*".repeat(1000) + "b";
    let bytes = vec![b'a'; 1 << 20];
    let start = std::time::Instant::now();
    assert!(!pattern(&text, Subject::Uri).matches(&bytes));
    assert!(!pattern(&text.replace("b", "c*d"), Subject::Uri).matches(&bytes));
    // Backtracking would take practically for ever; the bound allows for busy machines.
    assert!(start.elapsed().as_secs() < 60);
}

/// Reference implementation of `*`.
fn naive(pattern: &[u8], bytes: &[u8]) -> bool {
    match (pattern.split_first(), bytes.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) if naive(rest, bytes) => true,
        (Some((b'*', _)), Some((_, tail))) => naive(pattern, tail),
        (Some((p, rest)), Some((b, tail))) if p == b => naive(rest, tail),
        _ => false,
    }
}

proptest! {
    #[test]
    fn stars_mean_what_backtracking_finds(text in "(\\*?[ab]){0,5}\\*?", bytes in "[abAB]{0,14}") {
        let sensitive = pattern(&text, Subject::Cookie).matches(bytes.as_bytes());
        let expected = naive(text.as_bytes(), bytes.as_bytes());
        prop_assert_eq!(sensitive, expected, "{} {}", &text, &bytes);
        let any_case = pattern(&text, Subject::Header).matches(bytes.as_bytes());
        prop_assert_eq!(any_case, naive(text.as_bytes(), bytes.to_ascii_lowercase().as_bytes()));
    }

    #[test]
    fn no_pattern_and_no_bytes_make_it_panic(
        text in any::<String>(), bytes in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        for subject in [Subject::Uri, Subject::Header, Subject::Query] {
            if let Ok(pattern) = Pattern::parse(&text, subject) {
                pattern.matches(&bytes);
            }
        }
    }
}

#[test]
fn landmarks_are_what_every_accepted_text_has() {
    let landmarks = |list: &[&str]| match patterns(list).required_texts() {
        None => "none".to_owned(),
        Some(RequiredTexts::Whole(texts)) => format!("whole {}", shown(&texts)),
        Some(RequiredTexts::Start(texts)) => format!("start {}", shown(&texts)),
        Some(RequiredTexts::End(texts)) => format!("end {}", shown(&texts)),
    };
    fn shown(texts: &[&[u8]]) -> String {
        texts.iter().map(|text| String::from_utf8_lossy(text)).collect::<Vec<_>>().join(" ")
    }
    assert_eq!(landmarks(&["/a", "/%62", "!/c"]), "whole /a /b");
    assert_eq!(landmarks(&["/a", "/b*", "/c*d"]), "start /a /b /c");
    assert_eq!(landmarks(&["/a", "*.b", "/c*d"]), "end /a .b d");
    for none in [&[][..], &["!/a"], &["~/a"], &["*"], &["/a*", "*b"], &["/a", "~b"]] {
        assert_eq!(landmarks(none), "none", "{none:?}");
    }
    let header = Pattern::parse("a", Subject::Header).expect("a pattern");
    let mut patterns = Patterns::default();
    patterns.push(header);
    assert_eq!(patterns.required_texts(), None, "upper and lower case are the same");
}

#[test]
fn anchored_expressions_demand_a_start_or_an_end() {
    let landmarks = |text: &str| {
        let mut patterns = Patterns::default();
        patterns.push(Pattern::parse(text, Subject::Uri).expect(text));
        patterns.required_texts().map(|landmarks| {
            let texts: Vec<_> = landmarks.texts().map(String::from_utf8_lossy).collect();
            let start = matches!(landmarks, RequiredTexts::Start(_));
            format!("{}{}", if start { '^' } else { '$' }, texts.join("|"))
        })
    };
    for (text, expected) in [
        (
            "~^/blog/[0-9]+",
            Some(
                "^/blog/0|/blog/1|/blog/2|/blog/3|/blog/4|/blog/5|/blog/6|/blog/7|/blog/8|/blog/9",
            ),
        ),
        ("~^/(a|bc)/", Some("^/a/|/bc/")),
        (r"~^/a\.b*", Some("^/a.b|/a.")),
        (r"~\.(php|phtml)$", Some("$.php|.phtml")),
        (r"~^/x.*\.gif$", Some("^/x")),
        ("~/blog", None),
        ("~^", None),
        ("~^/?a", Some("^/a|a")),
        ("~^/a|b", None),
        ("~(?m)^/a", None),
        ("!~^/a", None),
    ] {
        assert_eq!(landmarks(text).as_deref(), expected, "{text}");
    }
}

proptest! {
    #[test]
    fn what_an_expression_finds_has_its_landmarks(
        expression in r"\^?[ab]{0,2}([*+?]|\(a\|b[*]?\)|\[ab\]|\.|\\\.)?[ab|]{0,2}\$?",
        text in "[ab.]{0,5}",
    ) {
        let Ok(pattern) = Pattern::parse(&format!("~{expression}"), Subject::Uri) else {
            return Ok(());
        };
        let mut patterns = Patterns::default();
        patterns.push(pattern);
        if patterns.matches(text.as_bytes()) && let Some(landmarks) = patterns.required_texts() {
            let has = |landmark: &[u8]| match &landmarks {
                RequiredTexts::Whole(_) => text.as_bytes() == landmark,
                RequiredTexts::Start(_) => text.as_bytes().starts_with(landmark),
                RequiredTexts::End(_) => text.as_bytes().ends_with(landmark),
            };
            prop_assert!(landmarks.texts().any(has), "{} {} {:?}", expression, text, landmarks);
        }
    }
}
