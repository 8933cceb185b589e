//! Age and lifetime of responses (RFC 9111, 4.2).

use howdah_config::Cache;
use howdah_http::message::FieldBlock;
use howdah_text::date::parse_http;

use crate::control::{ResponseControl, values};
use crate::directives::{MAX_SECONDS, parse_seconds};

/// Longest lifetime in seconds that is derived from `Last-Modified`.
const MAX_HEURISTIC: u64 = 3600;

/// The origin of a lifetime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// `CDN-Cache-Control` or `Surrogate-Control`.
    Targeted,
    /// `s-maxage` of `Cache-Control`.
    SharedMaxAge,
    /// `max-age` of `Cache-Control`.
    MaxAge,
    /// `Expires`.
    Expires,
    /// `ttl` of the configuration.
    Configured,
    /// `Last-Modified` (RFC 9111, 4.2.2).
    Heuristic,
}

impl Source {
    /// Returns true if the response itself states its lifetime.
    pub fn is_response(self) -> bool {
        !matches!(self, Source::Configured | Source::Heuristic)
    }

    /// Returns its name, for administrators.
    pub fn name(self) -> &'static str {
        match self {
            Source::Targeted => "CDN-Cache-Control or Surrogate-Control",
            Source::SharedMaxAge => "s-maxage of Cache-Control",
            Source::MaxAge => "max-age of Cache-Control",
            Source::Expires => "Expires",
            Source::Configured => "\"ttl\" of the configuration",
            Source::Heuristic => "Last-Modified",
        }
    }
}

/// The lifetime of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime {
    /// Seconds.
    pub seconds: u64,
    /// Its origin.
    pub source: Source,
}

/// Returns the lifetime of a response that was received at `now`, in seconds since 1970. `None` if
/// it has none.
pub fn lifetime(
    control: &ResponseControl,
    fields: &FieldBlock,
    status: u16,
    settings: &Cache,
    now: u64,
) -> Option<Lifetime> {
    if let Some(seconds) = control.lifetime() {
        let source = match (control.is_targeted, control.s_maxage) {
            (true, _) => Source::Targeted,
            (false, Some(_)) => Source::SharedMaxAge,
            (false, None) => Source::MaxAge,
        };
        return Some(Lifetime { seconds, source });
    }
    let date = fields.get("date").and_then(parse_http).unwrap_or(now);
    if !control.is_targeted && !settings.ignore.expires {
        let mut all = values(fields, "expires");
        if let Some(expires) = all.next() {
            // Anything but one date is in the past (RFC 9111, 5.3).
            let expires = if all.next().is_none() { parse_http(expires) } else { None };
            let seconds = expires.unwrap_or(0).saturating_sub(date).min(MAX_SECONDS);
            return Some(Lifetime { seconds, source: Source::Expires });
        }
    }
    if let Some(seconds) = settings.ttl.get(&status)
        && !control.no_cache
    {
        return Some(Lifetime { seconds: *seconds, source: Source::Configured });
    }
    if !settings.heuristic || !(control.public || is_heuristic(status)) {
        return None;
    }
    let modified = fields.get("last-modified").and_then(parse_http)?;
    let seconds = (date.checked_sub(modified)? / 10).min(MAX_HEURISTIC);
    Some(Lifetime { seconds, source: Source::Heuristic })
}

/// Returns true for statuses whose responses may have a heuristic lifetime (RFC 9110, 15.1).
fn is_heuristic(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// Returns the age of a response at its arrival (RFC 9111, 4.2.3), in seconds. `delay` is the time
/// between request and response, `now` the arrival in seconds since 1970. The age is infinite
/// (`u64::MAX`) if `Age` is malformed.
pub fn initial_age(fields: &FieldBlock, delay: u64, now: u64) -> u64 {
    let date = fields.get("date").and_then(parse_http).unwrap_or(now);
    let apparent = now.saturating_sub(date);
    let mut ages = values(fields, "age");
    let stated = match (ages.next(), ages.next()) {
        (None, _) => 0,
        (Some(age), None) => match parse_age(age) {
            Some(age) => age,
            None => return u64::MAX,
        },
        (Some(_), Some(_)) => return u64::MAX,
    };
    apparent.max(stated.saturating_add(delay))
}

/// Parses the value of `Age`. Of a list, the first member counts (RFC 9111, 5.1), unless a cache
/// has repeated it: then the true age is not known.
fn parse_age(value: &[u8]) -> Option<u64> {
    let mut members = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let first = members.next()?;
    if members.any(|member| member == first) {
        return None;
    }
    parse_seconds(first)
}

#[cfg(test)]
mod tests {
    use howdah_text::date::http as http_date;

    use proptest::prelude::*;

    use super::*;

    const NOW: u64 = 1_700_000_000;

    fn fields(lines: &[(&str, String)]) -> FieldBlock {
        let mut fields = FieldBlock::default();
        lines.iter().for_each(|(name, value)| fields.push(name, value));
        fields
    }

    fn read(status: u16, lines: &[(&str, String)], settings: &Cache) -> Option<Lifetime> {
        let fields = fields(lines);
        let control = ResponseControl::of(&fields, settings.ignore);
        lifetime(&control, &fields, status, settings, NOW)
    }

    fn stated(lines: &[(&str, String)]) -> Option<u64> {
        read(200, lines, &Cache::default()).map(|lifetime| lifetime.seconds)
    }

    #[test]
    fn expires_counts_from_the_date_of_the_response() {
        let at = |offset: i64| http_date(NOW.saturating_add_signed(offset));
        let expires = |at: String| ("Expires", at);
        assert_eq!(stated(&[expires(at(60))]), Some(60));
        assert_eq!(stated(&[expires(at(60)), ("Date", at(-40))]), Some(100));
        assert_eq!(stated(&[expires(at(60)), ("Date", at(120))]), Some(0));
        assert_eq!(stated(&[expires(at(60)), ("Date", "x".into())]), Some(60));
        assert_eq!(stated(&[expires(at(-60))]), Some(0));
        assert_eq!(stated(&[expires("0".into())]), Some(0));
        assert_eq!(stated(&[expires(at(60)), expires(at(60))]), Some(0));
        assert_eq!(stated(&[expires(at(60)), ("Cache-Control", "max-age=7".into())]), Some(7));
        assert_eq!(stated(&[]), None);
        // For a shared cache only the field for shared caches counts.
        assert_eq!(stated(&[expires(at(60)), ("CDN-Cache-Control", "public".into())]), None);
    }

    #[test]
    fn a_configured_lifetime_is_for_responses_that_state_none() {
        let settings = Cache { ttl: [(200, 30), (404, 5)].into(), ..Cache::default() };
        let configured = |seconds| Some(Lifetime { seconds, source: Source::Configured });
        assert_eq!(read(200, &[], &settings), configured(30));
        assert_eq!(read(404, &[], &settings), configured(5));
        assert_eq!(read(500, &[], &settings), None);
        let no_cache = [("Cache-Control", "no-cache".into())];
        assert_eq!(read(200, &no_cache, &settings), None);
        let zero = [("Cache-Control", "max-age=0".into())];
        assert_eq!(read(200, &zero, &settings).unwrap().seconds, 0);
    }

    #[test]
    fn a_heuristic_lifetime_is_a_tenth_of_the_age_of_the_content() {
        let modified = |age: u64| [("Last-Modified", http_date(NOW - age))];
        let heuristic = |status, age| read(status, &modified(age), &Cache::default());
        assert_eq!(heuristic(200, 1000).unwrap().seconds, 100);
        assert_eq!(heuristic(404, 1_000_000).unwrap().seconds, MAX_HEURISTIC);
        for status in [201, 202, 302, 307, 400, 403, 500, 502, 503, 504, 599] {
            assert_eq!(heuristic(status, 1000), None, "{status}");
        }
        let public = [("Cache-Control", "public".into()), ("Last-Modified", http_date(NOW - 99))];
        assert_eq!(read(599, &public, &Cache::default()).unwrap().seconds, 9);
        let off = Cache { heuristic: false, ..Cache::default() };
        assert_eq!(read(200, &modified(1000), &off), None);
    }

    #[test]
    fn an_age_is_at_least_that_of_the_date_and_a_malformed_one_is_infinite() {
        let age = |lines: &[(&str, &str)], delay| {
            let lines: Vec<_> = lines.iter().map(|(n, v)| (*n, (*v).to_owned())).collect();
            initial_age(&fields(&lines), delay, NOW)
        };
        let date = http_date(NOW - 50);
        assert_eq!(age(&[], 0), 0);
        assert_eq!(age(&[("Date", &date)], 0), 50);
        assert_eq!(age(&[("Age", "30")], 2), 32);
        assert_eq!(age(&[("Age", "30"), ("Date", &date)], 2), 50);
        assert_eq!(age(&[("Age", "5, old")], 0), 5);
        for malformed in ["-1", "1.5", "old", "old, 0", "0, 0", "0;a", ""] {
            assert_eq!(age(&[("Age", malformed)], 0), u64::MAX, "{malformed}");
        }
        assert_eq!(age(&[("Age", "0"), ("Age", "0")], 0), u64::MAX);
    }

    proptest! {
        #[test]
        fn no_lifetime_exceeds_the_limit(value: Vec<u8>, status in 200u16..600) {
            let mut block = FieldBlock::default();
            block.push("Cache-Control", &value);
            block.push("Expires", &value);
            let control = ResponseControl::of(&block, Default::default());
            let found = lifetime(&control, &block, status, &Cache::default(), NOW);
            prop_assert!(found.is_none_or(|found| found.seconds <= MAX_SECONDS));
        }
    }
}
