//! Fields that select files or parts of them, and names that are never sent.

use howdah_files::conditional::{Conditions, Validators, Verdict};
use howdah_files::hidden::{has_dot_segment, is_php_source};
use howdah_files::listing::Order;
use howdah_http::encoding::{AcceptEncoding, Coding};
use howdah_http::etag::parse_entity_tags;
use howdah_http::message::Fields;
use howdah_http::range::{MAX_RANGES, Ranges, parse_range};
use howdah_http::target::Target;
use howdah_text::date::{http, parse_http};

use crate::split;

/// First line: the length of the file; second: the field's value. The parts are within the file,
/// none overlaps another, and together they are the bytes that were asked for.
pub fn range(input: &[u8]) {
    let (length, value) = split(input);
    let length: u64 = std::str::from_utf8(length).ok().and_then(|n| n.parse().ok()).unwrap_or(200);
    let parts = match parse_range(value, length) {
        Ranges::Parts(parts) => parts,
        Ranges::Unsatisfiable => {
            assert_eq!(asked(value, length), Some(Vec::new()));
            return;
        }
        Ranges::Ignored => return,
    };
    assert!((1..=MAX_RANGES).contains(&parts.len()));
    let mut sorted = parts.clone();
    sorted.sort_by_key(|part| part.start);
    assert!(sorted.iter().all(|part| part.start < part.end && part.end <= length));
    assert!(sorted.windows(2).all(|pair| pair[0].end <= pair[1].start));

    let asked = asked(value, length).expect("what is answered was well formed");
    let covers = |ranges: &[std::ops::Range<u64>], at: u64| ranges.iter().any(|r| r.contains(&at));
    let edges = asked.iter().chain(&parts).flat_map(|range| [range.start, range.end]);
    for at in edges.flat_map(|edge| [edge.saturating_sub(1), edge, edge.saturating_add(1)]) {
        assert_eq!(covers(&parts, at), covers(&asked, at), "byte {at}: {asked:?} {parts:?}");
    }
}

/// The ranges of a well-formed field that overlap the file, read plainly.
fn asked(value: &[u8], length: u64) -> Option<Vec<std::ops::Range<u64>>> {
    let text = std::str::from_utf8(value.trim_ascii()).ok()?;
    let (unit, list) = text.split_once('=')?;
    let blank = |c: char| c.is_ascii_whitespace();
    let mut specs =
        list.split(',').map(|spec| spec.trim_matches(blank)).filter(|spec| !spec.is_empty());
    let number = |digits: &str| -> Option<u64> {
        let digits = Some(digits).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
        Some(digits.parse().unwrap_or(if digits.is_empty() { 0 } else { u64::MAX }))
    };
    let ranges = specs.try_fold(Vec::new(), |mut ranges, spec| {
        let (first, last) = spec.split_once('-')?;
        let (low, high) = (number(first)?, number(last)?);
        let (start, end) = match (first, last) {
            ("", "") => return None,
            ("", _) => (length.saturating_sub(high), length),
            (_, "") => (low, length),
            _ if high < low => return None,
            _ => (low, high.saturating_add(1).min(length)),
        };
        if start < end {
            ranges.push(start..end);
        }
        Some(ranges)
    });
    ranges.filter(|_| unit.eq_ignore_ascii_case("bytes"))
}

/// Each line is a field. A selected variant is stored and was requested; it depends neither on the
/// others nor on upper and lower case.
pub fn accept_encoding(input: &[u8]) {
    let name: &[u8] = b"Accept-Encoding";
    let read = |input: &[u8]| {
        let lines = input.split(|byte| *byte == b'\n');
        AcceptEncoding::of(&Fields::from_pairs(lines.map(|value| (name, value))))
    };
    let accept = read(input);
    assert_eq!(accept, read(&input.to_ascii_lowercase()));
    assert_eq!(accept.choose(|_| false), Coding::Identity);
    let lower = String::from_utf8_lossy(input).to_ascii_lowercase();
    for stored in 0..1 << Coding::COUNT {
        let is_stored = |coding: Coding| stored >> coding.index() & 1 == 1;
        let chosen = accept.choose(is_stored);
        if chosen != Coding::Identity {
            assert!(is_stored(chosen));
            assert!(lower.contains(chosen.name()) || lower.contains('*'));
            assert_eq!(accept.choose(|coding| coding == chosen), chosen);
        } else {
            for sibling in Coding::SIBLINGS.into_iter().filter(|coding| is_stored(*coding)) {
                assert_eq!(accept.choose(|coding| coding == sibling), Coding::Identity);
            }
        }
    }
}

/// Each line is a field, `name: value`. Preconditions are decided by those fields alone that
/// RFC 9110, 13.2.2, lets decide; tags and dates read back.
pub fn conditional(input: &[u8]) {
    let fields: Vec<(&[u8], &[u8])> = input
        .split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            Some((&line[..colon], line[colon + 1..].trim_ascii()))
        })
        .collect();
    let validators = Validators { etag: b"\"2ebcf5d1.0-c8\"", modified: Some(784_111_777) };
    let found = verdict(&fields, validators, b"");
    let has = |wanted: &[u8]| fields.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
    match found {
        Verdict::Proceed => {}
        Verdict::Failed => assert!(has(b"if-match") || has(b"if-unmodified-since")),
        Verdict::NotModified => assert!(has(b"if-none-match") || has(b"if-modified-since")),
    }
    for (tag, date) in
        [(&b"if-match"[..], &b"if-unmodified-since"[..]), (b"if-none-match", b"if-modified-since")]
    {
        if has(tag) {
            assert_eq!(verdict(&fields, validators, date), found);
        }
    }
    assert_eq!(verdict(&fields, validators, b"range"), found);

    let fields_read = Fields::from_pairs(fields.iter().copied());
    if let Some(range) = Conditions::of(&fields_read).range(validators, 784_111_778) {
        let mut ranges = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"range"));
        assert_eq!(ranges.next().map(|(_, value)| *value), Some(range));
        assert_eq!(ranges.next(), None);
    }
    for (_, value) in fields {
        tags(value);
        if let Some(seconds) = parse_http(value) {
            assert_eq!(parse_http(http(seconds).as_bytes()), Some(seconds));
        }
    }
}

/// The result of all fields but those of one name.
fn verdict(fields: &[(&[u8], &[u8])], validators: Validators<'_>, without: &[u8]) -> Verdict {
    let kept = fields.iter().filter(|(name, _)| !name.eq_ignore_ascii_case(without));
    Conditions::of(&Fields::from_pairs(kept.copied())).evaluate(validators)
}

fn tags(list: &[u8]) {
    let mut written = Vec::new();
    let mut count = 0;
    for tag in parse_entity_tags(list) {
        let [b'"', inner @ .., b'"'] = tag.opaque else { panic!("no quotes: {tag:?}") };
        assert!(!inner.iter().any(|byte| *byte <= b' ' || matches!(byte, b'"' | 0x7f)));
        assert!(tag.matches_weakly(tag.opaque) && tag.matches_strongly(tag.opaque) != tag.weak);
        let marker: &[u8] = if tag.weak { b", W/" } else { b", " };
        written.extend_from_slice(marker);
        written.extend_from_slice(tag.opaque);
        count += 1;
    }
    assert!(count <= list.len() / 2);
    assert!(parse_entity_tags(&written).eq(parse_entity_tags(list).take(count)));
}

/// A path. No disguise of a name makes it less hidden, nothing that runs as a script is sent as a
/// file, and no dot name gets through.
pub fn hidden(input: &[u8]) {
    let source = is_php_source(input);
    assert_eq!(is_php_source(&input.to_ascii_uppercase()), source);
    if input.to_ascii_lowercase().ends_with(b".php") {
        assert!(source);
        for suffix in ["~", ".", ".bak", ".swp", ".orig", "#", "s", "5", " "] {
            assert!(is_php_source(&[input, suffix.as_bytes()].concat()), "{suffix}");
        }
    }
    if let Ok(text) = std::str::from_utf8(input) {
        let wide = text.chars().map(|character| match character {
            '!'..='~' => char::from_u32(u32::from(character) + 0xfee0).unwrap_or(character),
            other => other,
        });
        assert_eq!(is_php_source(wide.collect::<String>().as_bytes()), source);
        let dashed = text.chars().flat_map(|character| [character, '\u{ad}']);
        assert_eq!(is_php_source(dashed.collect::<String>().as_bytes()), source);
    }

    let path = [b"/", input].concat();
    let Ok(target) = Target::parse(&path) else { return };
    let path = target.path(&path);
    let dotted = path[1..].split(|byte| *byte == b'/').enumerate().any(|(place, segment)| {
        segment.starts_with(b".") && !(place == 0 && segment == b".well-known")
    });
    assert!(!dotted || has_dot_segment(path));
}

/// The order of a listing that a query asks for: the last words count, and nothing else.
pub fn listing_order(input: &[u8]) {
    let order = Order::of_query(input);
    let parts = || input.split(|byte| *byte == b'&');
    let last = |words: &[&'static str]| {
        parts().rev().find_map(|part| words.iter().find(|word| word.as_bytes() == part)).copied()
    };
    let by = last(&["sort=name", "sort=size", "sort=time"]).unwrap_or("sort=name");
    let direction = last(&["order=asc", "order=desc"]).unwrap_or("order=asc");
    assert_eq!(format!("sort={}", order.by.word()), by);
    assert_eq!(order.is_descending, direction == "order=desc");
    assert_eq!(Order::of_query(format!("{by}&{direction}").as_bytes()), order);
}
