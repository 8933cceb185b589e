use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern.as_bytes(), false).unwrap()
}

fn is_match(pattern: &str, subject: &str) -> bool {
    let is_match = regex(pattern).is_match(subject.as_bytes()).unwrap();
    let captures = regex(pattern).captures(subject.as_bytes()).unwrap();
    assert_eq!(is_match, captures.is_some());
    is_match
}

#[test]
fn matches_as_apache() {
    let cases = [
        (r"^index\.php$", "index.php", true),
        (r"^index\.php$", "index_php", false),
        // `$` is the end, and `.` matches line breaks.
        (r"^a$", "a\n", false),
        (r"^a.b$", "a\nb", true),
        (r"(?m)^a$", "a\nb", true),
        (r"[$]", "$", true),
        (r"[]$]x", "$x", true),
        (r"[^]$]x", "ax", true),
        (r"[[:alpha:]$]x$", "$x", true),
        (r"a\$", "a$", true),
        (r"\Q$\E$", "$", true),
        (r"\Q$\E$", "$\n", false),
        (r"a(b$|c)", "ab", true),
        (r"a$?", "a", true),
        (r"(?=a)a(?!b)", "ac", true),
        (r"(a)\1", "aa", true),
        (r"^(?<n>a)|(?<n>b)$", "b", true),
        (r"(?x) a $ # comment $", "a", true),
        (r"", "anything", true),
        (r"^/?(.*?)/*$", "a/b/", true),
        (r"(*UTF)^.$", "é", true),
        (r"^.$", "é", false),
    ];
    for (pattern, subject, expected) in cases {
        assert_eq!(is_match(pattern, subject), expected, "{pattern} on {subject:?}");
    }
    assert!(Regex::new(b"^HELLO$", true).unwrap().is_match(b"hello").unwrap());
    assert!(!Regex::new(b"(*UTF)^.$", false).unwrap().is_match(b"\xff").unwrap());
    assert!(Regex::new(b"^\xff\\\xfe[\xfd]$", false).unwrap().is_match(b"\xff\xfe\xfd").unwrap());
}

#[test]
fn captures_are_offsets() {
    let regex = regex("^(a)(b)?(c)()");
    let captures = regex.captures(b"acx").unwrap().unwrap();
    let offsets: Vec<_> = (0..6).map(|group| captures.get(group)).collect();
    assert_eq!(offsets, [Some((0, 2)), Some((0, 1)), None, Some((1, 2)), Some((2, 2)), None]);
    assert_eq!(captures.text(3, b"acx"), b"c");
    assert_eq!(captures.get(99), None);
    let many = super::Regex::new("(a)".repeat(20).as_bytes(), false).unwrap();
    assert_eq!(many.captures("a".repeat(20).as_bytes()).unwrap().unwrap().get(9), Some((8, 9)));
    assert_eq!(regex.captures_at(b"ac", 9).unwrap(), None);
}

#[test]
fn names_of_groups() {
    let regex = regex("(?<user>a)(b)(?<host>c)");
    assert_eq!(regex.names().collect::<Vec<_>>(), [(1, "user"), (3, "host")]);
    assert_eq!(regex.groups(), 3);
}

#[test]
fn broken_patterns_are_errors() {
    for pattern in ["(", "*", "a{2}{", "[", "(?<", "\\", "(*NONSENSE)", "(*LIMIT_MATCH=1", "(?C"] {
        let result = Regex::new(pattern.as_bytes(), false);
        if pattern != "a{2}{" {
            assert!(result.is_err(), "{pattern}");
        }
    }
    assert!(Regex::new(&vec![b'a'; MAX_PATTERN_BYTES + 1], false).is_err());
    assert!(Regex::new("()".repeat(MAX_GROUPS + 1).as_bytes(), false).is_err());
    // PCRE2 limits the compiled size to 64 KiB, nesting to 250.
    assert!(Regex::new(b"((((a{1,999}){1,999}){1,999}){1,999})", false).is_err());
    let nested = format!("{}{}", "(".repeat(300), ")".repeat(300));
    assert!(Regex::new(nested.as_bytes(), false).is_err());
}

/// Patterns that explode, with settings in front of them that could raise the limits.
#[test]
fn explosions_end_as_overruns_whatever_a_pattern_sets() {
    let settings = [
        "",
        "(*LIMIT_MATCH=4000000000)",
        "(*NO_JIT)(*LIMIT_DEPTH=4000000000)(*LIMIT_MATCH=4000000000)",
        "(*UTF)(*LIMIT_MATCH=4000000000)(*LIMIT_RECURSION=4000000000)",
        "(*LIMIT_HEAP=4000000000)(*NO_START_OPT)(*LIMIT_MATCH=4294967290)",
        "(*NO_AUTO_POSSESS)",
    ];
    let patterns =
        ["(a+)+$", "(a|aa)+$", "^(a|a?)+$", "a*a*a*a*a*a*a*a*a*a*b", "(?:(a+)+)+c", "((a*)*)*b"];
    for setting in settings {
        for pattern in patterns {
            for length in [60, 500, 4000, 60_000] {
                let pattern = format!("{setting}{pattern}");
                let regex = Regex::new(pattern.as_bytes(), false).unwrap();
                let subject = format!("{}!", "a".repeat(length));
                let start = Instant::now();
                let _ = regex.is_match(subject.as_bytes());
                let captures = regex.captures(subject.as_bytes());
                let time = start.elapsed();
                assert!(time < Duration::from_secs(60), "{pattern} on {length}: {time:?}");
                if length == 4000 && pattern.ends_with("+$") {
                    assert_eq!(captures, Err(Overrun), "{pattern}");
                }
            }
        }
    }
}

#[test]
fn deep_matches_that_exceed_the_stack_of_jit_are_interpreted() {
    let regex = regex("^(?:(a)|b)*$");
    assert!(regex.is_match("ab".repeat(5000).as_bytes()).unwrap());
    assert!(regex.captures("ab".repeat(5000).as_bytes()).unwrap().is_some());
}

#[test]
fn subjects_have_a_maximum_length() {
    assert_eq!(regex("a").is_match(&vec![b'a'; MAX_SUBJECT_BYTES + 1]), Err(Overrun));
    assert!(regex("a").is_match(&vec![b'a'; MAX_SUBJECT_BYTES]).unwrap());
}

proptest! {
    #[test]
    fn any_pattern_and_subject_are_survived(
        pattern in proptest::collection::vec(
            prop_oneof![Just(b'('), Just(b')'), Just(b'*'), Just(b'+'), Just(b'['), Just(b']'), Just(b'$'),
                Just(b'^'), Just(b'\\'), Just(b'Q'), Just(b'E'), Just(b'?'), Just(b'a'), Just(b':'), Just(b'<'),
                any::<u8>()], 0..24),
        subject in proptest::collection::vec(any::<u8>(), 0..64),
        ignores_case: bool,
    ) {
        if let Ok(regex) = Regex::new(&pattern, ignores_case) {
            let captures = regex.captures(&subject);
            if let Ok(Some(captures)) = captures {
                for group in 0..12 {
                    captures.text(group, &subject);
                }
            }
        }
    }
}

/// `cargo test --release -p howdah-htaccess -- --ignored --nocapture cost_of`
#[test]
#[ignore = "measures"]
fn cost_of_a_match() {
    let patterns =
        [(r"^index\.php$", "index.php"), (r"^index\.php$", "2024/05/hello-world"), (".", "x/y")];
    for (pattern, subject) in patterns {
        let regex = regex(pattern);
        let rounds = 1_000_000;
        let start = Instant::now();
        for _ in 0..rounds {
            std::hint::black_box(regex.is_match(std::hint::black_box(subject.as_bytes()))).unwrap();
        }
        let is_match = start.elapsed() / rounds;
        let start = Instant::now();
        for _ in 0..rounds {
            std::hint::black_box(regex.captures(std::hint::black_box(subject.as_bytes()))).unwrap();
        }
        println!("{pattern} on {subject}: {is_match:?}, captures {:?}", start.elapsed() / rounds);
    }
}
