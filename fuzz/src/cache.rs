//! The response cache.

use bytes::Bytes;
use howdah_cache::control::{RequestControl, ResponseControl};
use howdah_cache::directives::{MAX_SECONDS, directives as parse};
use howdah_cache::esi::{self as esi_language, Segment};
use howdah_cache::reuse::{Use, assess};
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

/// Text is in order and holds no include that is well-formed; what is between two texts is markup; addresses hold neither
/// blanks nor control bytes, and lead to paths.
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
                // What is text stays text, unless it is the inside of a comment.
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

/// What a response forbids is not stored, and a stored response is used only within its terms. The
/// first line is the status, each other one a field of the response.
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
