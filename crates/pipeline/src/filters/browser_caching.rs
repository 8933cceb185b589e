//! `expires`, `cache_control` and `fingerprinted` of an action: the time for which browsers keep a
//! response.
//!
//! A response that has `Expires` or `Cache-Control` from an application keeps its own fields: only
//! the application knows whose the response is.

use howdah_config::Expiry;
use howdah_http::message::{Request, Response};
use howdah_routing::snapshot::effects::Caching;
use howdah_sys::clock;
use howdah_sys::clock::wall_seconds;
use howdah_text::date;

/// Fields of a response.
#[derive(Debug, Default, PartialEq, Eq)]
struct CacheFields {
    expires: Option<u64>,
    control: String,
}

/// Value of `Cache-Control` for files that do not change: a year.
const IMMUTABLE: &str = "max-age=31536000, immutable";

/// The end of the year 2037, and ten years in seconds: nginx's `max`.
const MAX: (u64, &str) = (2_145_916_555, "max-age=315360000");

/// Directives that contradict a time.
const OWN_TIMES: [&str; 3] = ["max-age", "no-cache", "no-store"];

/// Adds the fields to the response.
pub fn apply(caching: Caching<'_>, request: &Request, response: &mut Response) {
    let Caching { expires, directives, fingerprinted } = caching;
    if (expires.is_none() && directives.is_none() && fingerprinted.is_none())
        || !(matches!(response.status, 200 | 201 | 204 | 206 | 301..=304 | 307 | 308)
            || super::refuses_range(response))
        || response.fields.get("cache-control").is_some()
        || response.fields.get("expires").is_some()
    {
        return;
    }
    let is_fingerprinted = response.file.is_some()
        && fingerprinted.is_some_and(|fingerprinted| fingerprinted.matches(&request.path));
    if is_fingerprinted {
        response.fields.push("Cache-Control", IMMUTABLE);
        return;
    }
    let file = response.file.as_deref();
    let own_type = || response.fields.get("content-type").unwrap_or_default();
    let content_type = file.map_or_else(own_type, |file| &file.media_type);
    let expiry = expires.and_then(|expires| expires.get(content_type)).copied();
    let directives = directives.and_then(|directives| directives.get(content_type));
    let modified = || match file {
        Some(file) => file.modified,
        None => date::parse_http(response.fields.get("last-modified")?),
    };
    let now = wall_seconds();
    let fields = fields(expiry, directives.map(String::as_str), now, modified);
    if let Some(expires) = fields.expires {
        response.fields.push("Expires", date::http(expires));
    }
    if !fields.control.is_empty() {
        response.fields.push("Cache-Control", fields.control);
    }
}

/// Computes the fields at a time in seconds since 1970.
fn fields(
    expiry: Option<Expiry>,
    directives: Option<&str>,
    now: u64,
    modified: impl FnOnce() -> Option<u64>,
) -> CacheFields {
    let after = |base: u64, seconds: i64| base.saturating_add_signed(seconds);
    let until = |end: u64| i64::try_from(i128::from(end) - i128::from(now)).unwrap_or(0);
    // As in nginx, a negative time makes caches ask at once, whenever the file was modified.
    let age = |end: u64, is_negative: bool| match until(end) {
        age if age < 0 || is_negative => "no-cache".to_owned(),
        age => format!("max-age={age}"),
    };
    let (expires, control) = match expiry {
        None | Some(Expiry::Off) => (None, String::new()),
        Some(Expiry::Epoch) => (Some(1), "no-cache".to_owned()),
        Some(Expiry::Max) => (Some(MAX.0), MAX.1.to_owned()),
        Some(Expiry::Accessed(seconds)) => {
            let end = after(now, seconds);
            (Some(end), age(end, seconds < 0))
        }
        Some(Expiry::Modified(seconds)) => {
            let end = after(modified().unwrap_or(now), seconds);
            (Some(end), age(end, seconds < 0))
        }
        Some(Expiry::Daily(time)) => {
            let end = next_daily(now, clock::utc_offset(now), time);
            (Some(end), age(end, false))
        }
    };
    let Some(directives) = directives else { return CacheFields { expires, control } };
    let has_own = directives.split(',').any(|directive| {
        let name = directive.split('=').next().unwrap_or_default().trim();
        OWN_TIMES.iter().any(|own| name.eq_ignore_ascii_case(own))
    });
    if has_own || control.is_empty() {
        CacheFields { expires: None, control: directives.to_owned() }
    } else {
        CacheFields { expires, control: format!("{control}, {directives}") }
    }
}

/// Returns the next time with this many seconds since midnight, of a clock that is `offset` seconds
/// ahead of UTC.
fn next_daily(now: u64, offset: i64, time: u32) -> u64 {
    const DAY: i64 = 86_400;
    let local = i64::try_from(now).unwrap_or(0).saturating_add(offset);
    let midnight = local - local.rem_euclid(DAY);
    let today = midnight + i64::from(time);
    let next = if today > local { today } else { today + DAY };
    u64::try_from(next.saturating_sub(offset)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use bytes::Bytes;
    use howdah_config::{ActionKind, Config};
    use howdah_http::body::Body;
    use howdah_http::fixture::request;
    use howdah_http::message::FileFacts;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    const NOW: u64 = 1_700_000_000;

    fn at(expiry: Expiry, directives: Option<&str>, modified: Option<u64>) -> (u64, String) {
        let CacheFields { expires, control } = fields(Some(expiry), directives, NOW, || modified);
        (expires.unwrap_or(0), control)
    }

    #[test]
    fn times_give_the_fields_of_nginx() {
        let control = |text: &str| text.to_owned();
        assert_eq!(at(Expiry::Off, None, None), (0, control("")));
        assert_eq!(at(Expiry::Epoch, None, None), (1, control("no-cache")));
        assert_eq!(at(Expiry::Max, None, None), (MAX.0, control("max-age=315360000")));
        assert_eq!(at(Expiry::Accessed(60), None, None), (NOW + 60, control("max-age=60")));
        assert_eq!(at(Expiry::Accessed(0), None, None), (NOW, control("max-age=0")));
        assert_eq!(at(Expiry::Accessed(-1), None, None), (NOW - 1, control("no-cache")));
        let modified = Some(NOW - 100);
        assert_eq!(at(Expiry::Modified(160), None, modified), (NOW + 60, control("max-age=60")));
        assert_eq!(at(Expiry::Modified(60), None, modified), (NOW - 40, control("no-cache")));
        assert_eq!(at(Expiry::Modified(60), None, None), (NOW + 60, control("max-age=60")));
        assert_eq!(at(Expiry::Modified(-60), None, Some(NOW + 90)).1, "no-cache");
    }

    #[test]
    fn directives_follow_the_age_or_replace_it() {
        let minute = Expiry::Accessed(60);
        assert_eq!(at(minute, Some("public"), None).1, "max-age=60, public");
        assert_eq!(
            at(minute, Some("private, No-Store"), None),
            (0, "private, No-Store".to_owned())
        );
        assert_eq!(at(minute, Some("max-age=5"), None), (0, "max-age=5".to_owned()));
        assert_eq!(at(Expiry::Off, Some("public"), None), (0, "public".to_owned()));
    }

    fn sent(action: Value, path: &str, mut response: Response) -> String {
        let mut whole = json!({"share": "/www$uri"});
        whole.as_object_mut().unwrap().extend(action.as_object().cloned().unwrap());
        let config = Config::from_value(json!({"routes": [{"action": whole}]})).unwrap();
        let action = &config.routes[0].steps[0].action;
        assert!(matches!(action.kind, ActionKind::Share(_)));
        let caching = &action.options.caching;
        let caching = Caching {
            expires: caching.expires.as_ref(),
            directives: caching.directives.as_ref(),
            fingerprinted: caching.fingerprinted.as_ref(),
        };
        apply(caching, &request(path, &[]), &mut response);
        String::from_utf8(response.fields.as_bytes().to_vec()).unwrap()
    }

    fn file(status: u16, media_type: &'static str) -> Response {
        let facts = FileFacts {
            media_type: Bytes::from_static(media_type.as_bytes()),
            modified: None,
            in_kernel: Default::default(),
        };
        Response { file: Some(Rc::new(facts)), ..Response::new(status, Body::Empty) }
    }

    #[test]
    fn a_304_and_a_416_have_the_fields_of_the_file() {
        let action = json!({"cache_control": {"text/css": "a", "*": "b"}});
        assert_eq!(sent(action.clone(), "/x", file(304, "text/css")), "Cache-Control: a\r\n");
        assert_eq!(sent(action.clone(), "/x", file(200, "")), "Cache-Control: b\r\n");
        assert_eq!(sent(action.clone(), "/x", file(416, "text/css")), "Cache-Control: a\r\n");
        assert_eq!(sent(action, "/x", file(404, "text/css")), "");
    }

    #[test]
    fn fields_of_an_application_stay() {
        let action = json!({"expires": "1d", "fingerprinted": true});
        for (name, value) in [("Cache-Control", "private"), ("expires", "0")] {
            let own = Response::new(200, Body::Empty).with(name, value);
            assert_eq!(sent(action.clone(), "/x", own), format!("{name}: {value}\r\n"));
        }
        let other = Response::new(200, Body::Empty).with("Content-Type", "text/html");
        assert!(sent(action, "/x", other).contains("Cache-Control: max-age=86400\r\n"));
    }

    #[test]
    fn only_files_are_recognised_by_fingerprints() {
        let action = json!({"fingerprinted": true});
        let path = "/app.3f9a1c2b.js";
        let expected = format!("Cache-Control: {IMMUTABLE}\r\n");
        assert_eq!(sent(action.clone(), path, file(200, "text/javascript")), expected);
        assert_eq!(sent(action.clone(), "/app.js", file(200, "text/javascript")), "");
        assert_eq!(sent(action, path, Response::new(200, Body::Empty)), "");
    }

    proptest! {
        #[test]
        fn the_next_time_of_a_day_is_within_a_day(
            now in 200_000_u64..5_000_000_000, offset in -50_000_i64..50_000, time in 0_u32..86_400,
        ) {
            let next = next_daily(now, offset, time);
            prop_assert!(next > now && next - now <= 86_400);
            let local = i64::try_from(next).unwrap() + offset;
            prop_assert_eq!(local.rem_euclid(86_400), i64::from(time));
        }

        #[test]
        fn no_time_panics(seconds: i64, modified: Option<u64>, now: u64) {
            for expiry in [Expiry::Accessed(seconds), Expiry::Modified(seconds)] {
                fields(Some(expiry), None, now, || modified);
            }
        }
    }
}
