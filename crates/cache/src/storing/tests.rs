use howdah_config::Ignored;
use howdah_http::fixture;
use proptest::prelude::*;

use super::*;

const NOW: u64 = 1_700_000_000;
const TIMES: Times = Times { asked: NOW - 1, received: NOW, epoch: 0 };

fn block(lines: &[(&str, &str)]) -> FieldBlock {
    let mut fields = FieldBlock::default();
    lines.iter().for_each(|(name, value)| fields.push(name, value));
    fields
}

fn judged(
    settings: &Cache,
    request: &[(&str, &str)],
    status: u16,
    response: &[(&str, &str)],
) -> Result<Storable, Refusal> {
    let request = fixture::request("/a", request);
    judge(settings, &request, status, None, &block(response), TIMES)
}

fn refusal(request: &[(&str, &str)], status: u16, response: &[(&str, &str)]) -> Option<Refusal> {
    judged(&Cache::default(), request, status, response).err()
}

const FRESH: (&str, &str) = ("Cache-Control", "max-age=60");

#[test]
fn responses_for_one_user_are_not_stored() {
    let control = |value| ("Cache-Control", value);
    assert_eq!(refusal(&[], 200, &[FRESH]), None);
    assert_eq!(refusal(&[], 200, &[control("max-age=60, private")]), Some(Refusal::Private));
    assert_eq!(refusal(&[], 200, &[control("max-age=60, no-store")]), Some(Refusal::NoStore));
    assert_eq!(refusal(&[], 200, &[FRESH, ("Set-Cookie", "a=b")]), Some(Refusal::SetCookie));
    let user = [("Authorization", "Basic x")];
    assert_eq!(refusal(&user, 200, &[FRESH]), Some(Refusal::Authorization));
    for shared in ["public, max-age=60", "s-maxage=60", "must-revalidate, max-age=60"] {
        assert_eq!(refusal(&user, 200, &[control(shared)]), None, "{shared}");
    }
    let no_store = [("Cache-Control", "no-store")];
    assert_eq!(refusal(&no_store, 200, &[FRESH]), Some(Refusal::RequestNoStore));
}

/// A page for a visitor with a cookie that the configuration does not name.
#[test]
fn a_request_with_cookies_needs_a_response_that_states_its_lifetime() {
    let cookie = [("Cookie", "session=1")];
    let ttl = Cache { ttl: [(200, 60)].into(), ..Cache::default() };
    assert_eq!(judged(&ttl, &cookie, 200, &[]).err(), Some(Refusal::Cookie));
    assert!(judged(&ttl, &[], 200, &[]).is_ok());
    assert!(judged(&ttl, &cookie, 200, &[FRESH]).is_ok());
    let document = serde_json::json!({"routes": [{"action": {"proxy": "http://127.0.0.1:1",
        "cache": {"ttl": {"200": 60}, "bypass": {"cookies": {"session": "*"}}}}}]});
    let config = howdah_config::Config::from_value(document).unwrap();
    let option = config.routes[0].steps[0].action.options.cache.as_ref().unwrap();
    let other = [("Cookie", "theme=dark")];
    assert!(judged(option.settings().unwrap(), &other, 200, &[]).is_ok());
}

#[test]
fn a_response_without_a_lifetime_is_not_stored() {
    assert_eq!(refusal(&[], 200, &[]), Some(Refusal::NoLifetime));
    assert_eq!(refusal(&[], 200, &[("Cache-Control", "max-age=0")]), Some(Refusal::NoLifetime));
    assert_eq!(refusal(&[], 200, &[("ETag", "\"a\"")]), Some(Refusal::NoLifetime));
    // This response can be validated.
    let stale = [("Cache-Control", "max-age=0"), ("ETag", "\"a\"")];
    assert_eq!(refusal(&[], 200, &stale), None);
    assert_eq!(refusal(&[], 200, &[("Cache-Control", "no-cache"), ("ETag", "\"a\"")]), None);
    assert_eq!(
        refusal(&[], 200, &[("Cache-Control", "no-cache, max-age=9")]),
        Some(Refusal::NoLifetime)
    );
}

#[test]
fn errors_are_stored_only_if_they_say_so() {
    for status in [400, 403, 404, 500, 502, 503, 504] {
        assert_eq!(refusal(&[], status, &[]), Some(Refusal::NoLifetime), "{status}");
        assert_eq!(refusal(&[], status, &[FRESH]), None, "{status}");
    }
    assert_eq!(refusal(&[], 206, &[FRESH]), Some(Refusal::Partial));
    assert_eq!(refusal(&[], 304, &[FRESH]), Some(Refusal::Partial));
    let understand = [("Cache-Control", "max-age=60, must-understand, no-store")];
    assert_eq!(refusal(&[], 599, &understand), Some(Refusal::NotUnderstood));
    assert_eq!(refusal(&[], 404, &understand), None);
}

#[test]
fn streams_and_responses_for_no_other_request_are_not_stored() {
    let stream = ("Content-Type", "Text/Event-Stream; charset=utf-8");
    assert_eq!(refusal(&[], 200, &[FRESH, stream]), Some(Refusal::EventStream));
    assert_eq!(refusal(&[], 200, &[FRESH, ("Vary", "*")]), Some(Refusal::VaryAll));
    let tags = "x,".repeat(2000) + &(0..2000).map(|n| format!("t{n},")).collect::<String>();
    assert_eq!(refusal(&[], 200, &[FRESH, ("Cache-Tag", &tags)]), Some(Refusal::TooManyTags));
}

#[test]
fn fields_of_the_connection_and_withheld_ones_are_not_stored() {
    let response = [
        ("Cache-Control", "max-age=60, no-cache=\"Set-Cookie, x-secret\""),
        ("Set-Cookie", "a=b"),
        ("X-Secret", "1"),
        ("Age", "3"),
        ("Keep-Alive", "5"),
        ("Proxy-Authenticate", "Basic"),
        ("X-Kept", "1"),
        ("Set-Cookie2", "kept"),
    ];
    let entry = judged(&Cache::default(), &[], 200, &response).unwrap().with_body(Bytes::new());
    let names: Vec<_> =
        entry.fields.iter().map(|(n, _)| String::from_utf8_lossy(n).into_owned()).collect();
    assert_eq!(names, ["Date", "Cache-Control", "X-Kept", "Set-Cookie2"]);
    assert_eq!(entry.terms.initial_age, 4); // Age, and a second of delay
    let ignoring =
        Cache { ignore: Ignored { set_cookie: true, ..Ignored::default() }, ..Cache::default() };
    let stored = judged(&ignoring, &[], 200, &[FRESH, ("Set-Cookie", "a=b")]).unwrap();
    assert!(stored.with_body(Bytes::new()).fields.get("set-cookie").is_none());
}

#[test]
fn stale_use_is_allowed_by_the_response_or_the_configuration_unless_forbidden() {
    let settings =
        Cache { stale_if_error: Some(50), stale_while_revalidate: Some(40), ..Cache::default() };
    let terms = |settings: &Cache, control: &str| {
        let response = [("Cache-Control", control)];
        let entry = judged(settings, &[], 200, &response).unwrap().with_body(Bytes::new());
        (entry.terms.stale_while_revalidate, entry.terms.stale_if_error, entry.terms.may_be_stale)
    };
    let own = "max-age=9, stale-while-revalidate=1, stale-if-error=2";
    assert_eq!(terms(&settings, "max-age=9"), (40, 50, true));
    assert_eq!(terms(&settings, own), (1, 2, true));
    assert_eq!(terms(&settings, "s-maxage=9"), (40, 50, false));
    assert_eq!(terms(&Cache::default(), "max-age=9"), (0, 0, true));
    let forbidden = [own, ", must-revalidate"].concat();
    assert_eq!(terms(&settings, &forbidden), (0, 0, false));
}

#[test]
fn a_304_updates_the_fields_but_those_of_the_content() {
    let response = [
        ("Cache-Control", "max-age=1"),
        ("ETag", "\"a\""),
        ("X-Test", "old"),
        ("X-Only-Old", "1"),
        ("Content-Encoding", "br"),
    ];
    let entry =
        judged(&Cache::default(), &[], 200, &response).unwrap().with_body(Bytes::from("body"));
    let request = fixture::request("/a", &[]);
    let news = block(&[
        ("Cache-Control", "max-age=60"),
        ("ETag", "W/\"a\""),
        ("X-Test", "new"),
        ("Content-Encoding", "gzip"),
        ("Content-Length", "99"),
        ("Date", "Tue, 14 Nov 2023 22:13:10 GMT"),
    ]);
    let updated = update(&entry, &Cache::default(), &request, &news, TIMES).unwrap();
    let get =
        |name| updated.fields.get(name).map(|value| String::from_utf8_lossy(value).into_owned());
    assert_eq!(get("x-test").as_deref(), Some("new"));
    assert_eq!(get("x-only-old").as_deref(), Some("1"));
    assert_eq!(get("content-encoding").as_deref(), Some("br"));
    assert_eq!(get("etag").as_deref(), Some("\"a\""));
    assert_eq!(get("content-length"), None);
    assert_eq!(get("date").as_deref(), Some("Tue, 14 Nov 2023 22:13:10 GMT"));
    assert_eq!((updated.terms.lifetime, &**updated.body.memory().unwrap()), (60, &b"body"[..]));
    let forbidden = block(&[("Cache-Control", "no-store")]);
    let refused = update(&entry, &Cache::default(), &request, &forbidden, TIMES);
    assert_eq!(refused.err(), Some(Refusal::NoStore));
}

proptest! {
    /// A response with these directives is not stored for others, whichever others it has.
    #[test]
    fn nothing_outweighs_a_prohibition(
        directives in prop::collection::vec(
            prop::sample::select(vec!["public", "max-age=9", "s-maxage=9", "immutable",
                "x=\"private\""]), 0..5),
        prohibition in prop::sample::select(vec!["private", "no-store", "Private", "no-STORE"]),
        at in 0usize..5,
        status in prop::sample::select(vec![200u16, 301, 404, 500]),
    ) {
        let mut directives = directives;
        directives.insert(at.min(directives.len()), prohibition);
        let value = directives.join(", ");
        prop_assert!(refusal(&[], status, &[("Cache-Control", &value)]).is_some());
    }

    #[test]
    fn no_cookie_is_stored(
        lines in prop::collection::vec(
            ("(?i)[a-z-]{1,9}|set-cookie|cache-control", "[ -~]{0,20}"), 0..6),
        ignores in any::<bool>(),
    ) {
        let settings = Cache {
            ttl: [(200, 9)].into(),
            ignore: Ignored { set_cookie: ignores, ..Ignored::default() },
            ..Cache::default()
        };
        let lines: Vec<_> = lines.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        if let Ok(stored) = judged(&settings, &[], 200, &lines) {
            prop_assert!(stored.with_body(Bytes::new()).fields.get("set-cookie").is_none());
        }
    }
}

#[test]
fn a_response_to_head_is_about_the_stored_one_or_shows_another() {
    let lines = [("Cache-Control", "max-age=60"), ("ETag", "\"a\""), ("Last-Modified", "x")];
    let entry = crate::testing::entry("/a", &lines, "body");
    let compared = |lines: &[(&str, &str)], length| {
        let mut fields = FieldBlock::default();
        lines.iter().for_each(|(name, value)| fields.push(name, value));
        compare_head(&entry, &fields, length)
    };
    assert_eq!(compared(&[("ETag", "\"a\"")], Some(4)), HeadMatch::Same);
    assert_eq!(compared(&[("ETag", "\"b\"")], None), HeadMatch::Other);
    assert_eq!(compared(&[("ETag", "\"a\"")], Some(5)), HeadMatch::Other);
    assert_eq!(compared(&[("ETag", "\"a\""), ("Last-Modified", "y")], None), HeadMatch::Other);
    assert_eq!(compared(&[], Some(4)), HeadMatch::Unknown);
}
