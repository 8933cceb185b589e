//! The response cache.

use bytes::Bytes;
use howdah_cache::control::{RequestControl, ResponseControl};
use howdah_cache::directives::{MAX_SECONDS, directives as parse};
use howdah_cache::disk::journal;
use howdah_cache::disk::record::{self, PREFIX, Prefix};
use howdah_cache::entry::Content;
use howdah_cache::esi::{self as esi_language, Segment};
use howdah_cache::reuse::{Use, assess};
use howdah_cache::space::layout::{Header, Line, sum};
use howdah_cache::storing::{Times, judge};
use howdah_cache::structured;
use howdah_config::Cache;
use howdah_http::fixture;
use howdah_http::message::FieldBlock;

const NOW: u64 = 1_700_000_000;

/// Directives are parts of the value, and no number exceeds the limit. A dictionary of structured
/// fields is read or refused.
pub fn directives(input: &[u8]) {
    let mut length = 0;
    for directive in parse(input) {
        assert!(!directive.name.is_empty());
        assert!(directive.seconds() <= MAX_SECONDS);
        length += directive.name.len() + directive.argument.as_ref().map_or(0, |a| a.len());
    }
    assert!(length <= input.len());
    for (key, _) in structured::dictionary(input).unwrap_or_default() {
        assert!(input.windows(key.len()).any(|window| window == key));
    }
}

/// With any contents of a cache's file: an object that is read would be written as the same bytes,
/// and one without a valid checksum is not read. An accepted description is the one that describes
/// its response.
pub fn disk(input: &[u8]) {
    let bytes = input.get(1..).unwrap_or_default();
    match input.first().map(|kind| kind % 4) {
        Some(0) => {
            if let Some(header) = Header::decode(bytes) {
                assert!(bytes.starts_with(&header.encode()));
            }
            if let Some(line) = Line::decode(bytes, 7) {
                assert!(bytes.starts_with(&line.encode(7)));
            }
        }
        Some(1) => {
            let half = [journal::header(1), bytes.to_vec()].concat();
            assert_eq!(journal::generation(&half), Some(1));
            let Some((records, end)) = journal::read(&half, 1) else { return };
            let mut again = journal::header(1);
            records.iter().for_each(|record| journal::frame(record, 1, &mut again));
            assert_eq!(again, half[..end]);
        }
        Some(2) => {
            // With a checksum that is right, all that follows it counts.
            let mut half = journal::header(1);
            let length = 0xA5C3_0000 | (bytes.len() as u32 & 0xFFFF);
            half.extend_from_slice(&length.to_le_bytes());
            let sum = sum(&[&1u64.to_le_bytes(), &length.to_le_bytes(), bytes]);
            half.extend_from_slice(&sum.to_le_bytes());
            half.extend_from_slice(bytes);
            let Some((records, _)) = journal::read(&half, 1) else { return };
            let mut again = journal::header(1);
            records.iter().for_each(|record| journal::frame(record, 1, &mut again));
            assert_eq!(journal::read(&again, 1).map(|(found, _)| found), Some(records));
        }
        _ => {
            let content = Content::from(Bytes::from_static(b"content"));
            let Some(stored) = record::decode(bytes, content.clone()) else { return };
            let encoded = record::encode(1, &stored.key, &stored.owner, &stored.entry, 2);
            let encoded = encoded.expect("it was that long");
            let prefix = Prefix::decode(&encoded).expect("a prefix");
            let description = &encoded[PREFIX..];
            assert!(prefix.is_of(&encoded, description));
            let again = record::decode(description, content).expect("a description");
            assert_eq!(format!("{:?}", again.entry), format!("{:?}", stored.entry));
            // No line is added to a response.
            let lines = stored.entry.fields.as_bytes();
            assert!(!lines.windows(4).any(|end| end == b"\r\n\r\n") && !lines.starts_with(b"\r\n"));
        }
    }
}

/// Text is in order and holds no include that is well-formed; between two texts there is markup;
/// addresses hold neither blanks nor control bytes, and lead to paths.
pub fn esi(input: &[u8]) {
    let Ok(segments) = esi_language::parse(input) else { return };
    let mut end = 0;
    for segment in &segments {
        match segment {
            Segment::Text(range) => {
                assert!(end <= range.start && range.start < range.end && range.end <= input.len());
                let skipped = &input[end..range.start];
                assert!(
                    skipped.is_empty() || skipped.starts_with(b"<") || skipped.starts_with(b"-->")
                );
                // Text stays text, unless it is the inside of a comment.
                let again = esi_language::parse(&input[range.clone()]).unwrap_or_default();
                let is_text = again.iter().all(|segment| matches!(segment, Segment::Text(_)));
                assert!(is_text, "{:?}", String::from_utf8_lossy(&input[range.clone()]));
                end = range.end;
            }
            Segment::Include(include) => {
                let addresses = [Some(&include.src), include.alt.as_ref()];
                for address in addresses.into_iter().flatten() {
                    assert!(address.iter().all(|byte| *byte > b' ' && *byte != 0x7f));
                    if let Some(target) = esi_language::target(address, b"h") {
                        assert!(target.starts_with(b"/") && !target.starts_with(b"//"));
                        assert!(!target.contains(&b'#'));
                    }
                }
            }
        }
    }
}

/// A response that forbids it is not stored, and a stored response is used only within its terms.
/// The first line is the status, each other one a field of the response.
pub fn rules(input: &[u8]) {
    let mut lines = input.split(|byte| *byte == b'\n');
    let status = lines.next().and_then(|line| std::str::from_utf8(line).ok()?.parse().ok());
    let mut fields = FieldBlock::default();
    for line in lines {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = line.split_at(colon);
        if let Ok(name) = std::str::from_utf8(name)
            && !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        {
            fields.push(name, &value[1..]);
        }
    }
    let settings = Cache { ttl: [(200, 60)].into(), ..Cache::default() };
    let request = fixture::request("/a?b", &[]);
    let times = Times { asked: NOW, received: NOW, epoch: 0 };
    let status = status.filter(|status| (200..600).contains(status)).unwrap_or(200);
    let Ok(stored) = judge(&settings, &request, status, None, &fields, times) else { return };
    let control = ResponseControl::of(&fields, settings.ignore);
    assert!(!control.private && (!control.no_store || control.must_understand));
    let entry = stored.with_body(Bytes::new());
    for name in ["set-cookie", "age", "connection"] {
        assert!(entry.fields.get(name).is_none(), "{name}");
    }
    for name in &control.withheld {
        let name = String::from_utf8_lossy(name);
        assert!(name.eq_ignore_ascii_case("date") || entry.fields.get(&name).is_none(), "{name}");
    }
    let any = RequestControl::default();
    for after in [0, 1, 60, 100_000, u64::MAX - NOW] {
        match assess(&entry, &any, None, NOW + after) {
            Use::Fresh => assert!(after < entry.terms.lifetime && !control.no_cache),
            Use::WhileRevalidating => assert!(!control.must_revalidate),
            Use::AfterValidation { on_error } => assert!(!on_error || !control.must_revalidate),
            Use::Stale => panic!("no request has asked for that"),
        }
    }
}
