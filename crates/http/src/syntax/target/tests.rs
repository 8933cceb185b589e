//! Targets: known ones, and arbitrary ones made by proptest.

use proptest::prelude::*;

use super::*;

fn path(target: &str) -> Result<String, TargetError> {
    let parsed = Target::parse(target.as_bytes())?;
    Ok(String::from_utf8_lossy(parsed.path(target.as_bytes())).into_owned())
}

#[test]
fn a_path_is_decoded_once_and_normalised() {
    for (target, expected) in [
        ("/", "/"),
        ("/?", "/"),
        ("/a/b?c/../d", "/a/b"),
        ("//a///b//", "/a/b/"),
        ("/.", "/"),
        ("/./a/./", "/a/"),
        ("/a/..", "/"),
        ("/a/../b", "/b"),
        ("/a/b/../../c/", "/c/"),
        ("/a//../b", "/b"),
        ("/...", "/..."),
        ("/.a/..b/c./d..", "/.a/..b/c./d.."),
        ("/a%2Fb%2f", "/a/b/"),
        ("/%2e/%2E%2e%2fa", "/../a"),
        ("/a/%2e%2e/b", "/b"),
        ("/%252e%252e/", "/%2e%2e/"),
        ("/a%3Fb%23c%25", "/a?b#c%"),
        ("/a%20b+c", "/a b+c"),
        ("/a\\..\\b", "/a\\..\\b"),
        ("/a;b=../c", "/a;b=../c"),
        ("/\u{e9}", "/\u{e9}"),
        ("/%c3%a9", "/\u{e9}"),
        ("/%0a", "/\n"),
    ] {
        let expected = match expected {
            "/../a" => Err(TargetError::AboveRoot),
            path => Ok(path.to_owned()),
        };
        assert_eq!(path(target), expected, "{target}");
    }
}

#[test]
fn a_path_is_copied_only_if_it_must_be_decoded_or_normalised() {
    for (target, is_copied) in [("/a/b.c?d", false), ("/a%2eb", true), ("/a//b", true)] {
        let path = Target::parse(target.as_bytes()).unwrap().path;
        assert_eq!(matches!(path, Path::Decoded(_)), is_copied, "{target}");
    }
}

#[test]
fn no_path_leads_above_the_root() {
    for target in
        ["/..", "/../", "/a/../..", "/%2e%2e", "/.%2e/a", "/a/b/../../../c", "//..", "/./.."]
    {
        assert_eq!(path(target), Err(TargetError::AboveRoot), "{target}");
    }
}

#[test]
fn what_is_no_target_is_refused() {
    for (target, error) in [
        ("", TargetError::Form),
        ("a", TargetError::Form),
        ("*", TargetError::Form),
        ("?a", TargetError::Form),
        ("/ ", TargetError::Byte),
        ("/\0", TargetError::Byte),
        ("/?\n", TargetError::Byte),
        ("/\u{7f}", TargetError::Byte),
        ("/%", TargetError::Escape),
        ("/%a", TargetError::Escape),
        ("/%g0", TargetError::Escape),
        ("/%0g", TargetError::Escape),
        ("/%+1", TargetError::Escape),
        ("/%%41", TargetError::Escape),
        ("/a%00.php", TargetError::Escape),
    ] {
        assert_eq!(path(target), Err(error), "{target}");
    }
}

#[test]
fn the_query_is_what_follows_the_first_question_mark() {
    for (target, expected) in [
        ("/a", ""),
        ("/a#b?c", ""),
        ("/a?b#c", "b"),
        ("/a?", ""),
        ("/a?b", "b"),
        ("/a?b?c=%zz", "b?c=%zz"),
        ("/%3fa?b", "b"),
    ] {
        let parsed = Target::parse(target.as_bytes()).unwrap();
        assert_eq!(&target[parsed.query], expected, "{target}");
    }
}

#[test]
fn each_refusal_has_a_reason_of_its_own() {
    use TargetError::*;
    let reasons = [Form, Byte, Escape, AboveRoot].map(TargetError::reason);
    assert!(reasons.iter().all(|reason| reason.contains("path") || reason.contains("target")));
    let distinct: std::collections::HashSet<_> = reasons.into_iter().collect();
    assert_eq!(distinct.len(), 4);
}

/// Slow reference implementation: decodes all, splits, and keeps a stack of segments.
fn model(path: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::new();
    let mut at = 0;
    while at < path.len() {
        if path[at] == b'%' {
            let digits = std::str::from_utf8(path.get(at + 1..at + 3)?).ok()?;
            if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return None;
            }
            decoded.push(u8::from_str_radix(digits, 16).ok().filter(|byte| *byte != 0)?);
            at += 3;
        } else {
            decoded.push(path[at]);
            at += 1;
        }
    }
    let mut stack: Vec<&[u8]> = Vec::new();
    let segments: Vec<&[u8]> = decoded.split(|byte| *byte == b'/').skip(1).collect();
    for segment in &segments {
        match *segment {
            b"" | b"." => {}
            b".." => drop(stack.pop()?),
            segment => stack.push(segment),
        }
    }
    let mut out = Vec::new();
    for segment in &stack {
        out.push(b'/');
        out.extend_from_slice(segment);
    }
    if stack.is_empty() || matches!(segments.last(), Some(&(b"" | b"." | b".."))) {
        out.push(b'/');
    }
    Some(out)
}

fn likely_target() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        Just("/"),
        Just("."),
        Just(".."),
        Just("//"),
        Just("%2e"),
        Just("%2F"),
        Just("%"),
        Just("%41"),
        Just("%00"),
        Just("%c3"),
        Just("a"),
        Just("b.php"),
        Just("?"),
        Just("\u{e9}"),
        Just("%25"),
        Just("2e"),
        Just("#"),
        Just(" "),
    ];
    proptest::collection::vec(part, 0..12)
        .prop_map(|parts| ["/", &parts.concat()].concat().into_bytes())
}

fn any_target() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![likely_target(), proptest::collection::vec(any::<u8>(), 0..40)]
}

proptest! {
    #[test]
    fn a_path_is_what_the_slow_way_makes_of_it(target in any_target()) {
        match Target::parse(&target) {
            Ok(parsed) => {
                let path = &target[..memchr::memchr2(b'?', b'#', &target).unwrap_or(target.len())];
                let expected = model(path);
                prop_assert_eq!(Some(parsed.path(&target)), expected.as_deref());
            }
            Err(TargetError::Escape | TargetError::AboveRoot) => {
                let path = &target[..memchr::memchr2(b'?', b'#', &target).unwrap_or(target.len())];
                prop_assert_eq!(model(path), None);
            }
            Err(TargetError::Form) => prop_assert_ne!(target.first(), Some(&b'/')),
            Err(TargetError::Byte) => {
                prop_assert!(target.iter().any(|b| *b <= b' ' || *b == 0x7f));
            }
        }
    }

    #[test]
    fn a_path_is_absolute_and_has_no_segment_of_dots(target in any_target()) {
        if let Ok(parsed) = Target::parse(&target) {
            let path = parsed.path(&target);
            prop_assert_eq!(path.first(), Some(&b'/'));
            prop_assert!(!path.contains(&0));
            let mut segments: Vec<_> = path[1..].split(|byte| *byte == b'/').collect();
            if segments.last() == Some(&&b""[..]) {
                segments.pop();
            }
            prop_assert!(!segments.iter().any(|segment| matches!(*segment, b"" | b"." | b"..")));
        }
    }

    #[test]
    fn a_path_encoded_again_is_the_same_path(target in any_target()) {
        if let Ok(parsed) = Target::parse(&target) {
            let path = parsed.path(&target);
            let encoded: String = path
                .iter()
                .map(|byte| match byte {
                    b'/' => "/".to_owned(),
                    byte => format!("%{byte:02x}"),
                })
                .collect();
            let again = Target::parse(encoded.as_bytes()).unwrap();
            prop_assert_eq!(again.path(encoded.as_bytes()), path);
        }
    }
}
