//! Pages that are assembled from parts, and attacks with them.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use harness::client::Response;
use harness::raw::Raw;
use harness::{Server, Site};
use serde_json::json;

use super::origin::{ask, cached, get, is_hit, origin, page, response};
use harness::time::Stopwatch;

const MARK: &str = "Surrogate-Control: content=\"ESI/1.0\"\r\nCache-Control: max-age=600\r\n";

/// Returns a page that asks to be assembled.
fn marked(body: impl AsRef<str>) -> String {
    page(&format!("{MARK}ETag: \"a\"\r\nLast-Modified: Tue, 14 Nov 2023 22:13:20 GMT\r\n"), body)
}

fn include(address: &str) -> String {
    format!("<esi:include src=\"{address}\"/>")
}

fn value<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines().find_map(|line| {
        let (field, value) = line.split_once(": ")?;
        field.eq_ignore_ascii_case(name).then_some(value)
    })
}

/// An application with a page of parts at `/`, and with other pages.
fn application(page_at_root: &'static str) -> Raw {
    origin(move |head, number| {
        let target = head.split(' ').nth(1).unwrap_or_default();
        match target {
            "/" => marked(page_at_root),
            "/shared" => page("Cache-Control: max-age=600\r\n", format!("shared {number}")),
            "/own" => page(
                "Set-Cookie: part=1\r\nX-Part: 1\r\n",
                format!("own {}", value(head, "Cookie").unwrap_or("nobody")),
            ),
            "/nested" => marked(format!("nested({})", include("/shared"))),
            "/loop" => marked(format!("loop({})", include("/loop"))),
            "/many" => marked(format!(
                "many({})",
                "<esi:include src='/many' onerror='continue'/>".repeat(9)
            )),
            "/coded" => page("Content-Encoding: gzip\r\n", "\u{1f}"),
            "/gone" => response("404 Not Found", "", "gone"),
            "/elsewhere" => response("302 Found", "Location: /shared\r\n", ""),
            "/large" => page("Cache-Control: max-age=600\r\n", "x".repeat(3 << 20)),
            _ => page("", format!("{target} {number}")),
        }
    })
}

fn assembling(origin: &Raw) -> Server {
    cached(origin, json!({"esi": true}))
}

fn status_and_text(response: &Response) -> (u16, String) {
    (response.status, response.text().to_owned())
}

#[test]
fn a_page_is_stored_once_and_its_parts_by_their_own_lifetimes() {
    let origin = application(
        "a<esi:include src=\"/shared\"/>b<esi:remove>c</esi:remove><!--esi d--><esi:include \
         src='/own'/>",
    );
    let server = assembling(&origin);
    let first = get(&server, "/", "Cookie: a=1\r\n");
    // The parts are asked for at the same time.
    let shared = match first.text().as_str() {
        "ashared 1b down a=1" => "shared 1",
        text => {
            assert_eq!(text, "ashared 2b down a=1");
            "shared 2"
        }
    };
    let second = get(&server, "/", "Cookie: b=2\r\n");
    assert!(is_hit(&second));
    assert_eq!(second.text(), format!("a{shared}b down b=2"));
    assert_eq!(get(&server, "/", "").text(), format!("a{shared}b down nobody"));
    for name in ["Surrogate-Control", "ETag", "Last-Modified", "Set-Cookie", "X-Part", "Age"] {
        assert_eq!(second.field(name), None, "{name}");
    }
    assert_eq!(second.field("Cache-Control"), Some("private, no-cache"));
    let asked = origin.asked();
    assert_eq!(asked.iter().filter(|head| head.starts_with("GET / ")).count(), 1);
    assert_eq!(asked.iter().filter(|head| head.starts_with("GET /shared ")).count(), 1);
    assert_eq!(value(&asked[0], "Surrogate-Capability"), Some("howdah=\"Surrogate/1.0 ESI/1.0\""));
}

#[test]
fn without_the_key_nothing_is_assembled() {
    let origin = application("a<esi:include src=\"/shared\"/>");
    let server = cached(&origin, json!({}));
    assert_eq!(get(&server, "/", "").text(), "a<esi:include src=\"/shared\"/>");
    assert_eq!(value(&origin.asked()[0], "Surrogate-Capability"), Some("howdah=\"Surrogate/1.0\""));
    let server = assembling(&origin);
    // A page that does not ask for it, such as one with a comment of a visitor, is left alone.
    let plain = self::origin(|_, _| page("", "a<esi:include src=\"/shared\"/>"));
    let server_of_plain = assembling(&plain);
    assert_eq!(get(&server_of_plain, "/", "").text(), "a<esi:include src=\"/shared\"/>");
    assert_eq!(get(&server, "/", "").text(), "ashared 2");
}

/// An application that is told of a cache with ESI sends markup. If a client could tell it so, the
/// next visitors would get that markup from the cache.
#[test]
fn clients_cannot_claim_the_capability_of_a_cache() {
    let origin = origin(|head, _| page("Cache-Control: max-age=600\r\n", head));
    for cache in [json!({}), json!({"esi": true}), json!({"bypass": {"uri": "/*"}})] {
        let server = cached(&origin, cache);
        for name in ["Surrogate-Capability", "surrogate_capability"] {
            let text = get(&server, &format!("/{name}"), &format!("{name}: evil=\"ESI/1.0\"\r\n"));
            assert!(!text.text().contains("evil"), "{}", text.text());
        }
    }
}

#[test]
fn parts_may_have_parts_and_a_page_that_includes_itself_ends() {
    let origin = application("");
    let server = assembling(&origin);
    assert_eq!(get(&server, "/nested", "").text(), "nested(shared 1)");
    let response = get(&server, "/loop", "");
    assert_eq!(response.status, 502);
    let before = origin.asked().len();
    let response = get(&server, "/many", "Cache-Control: no-store\r\n");
    assert_eq!(response.status, 502, "{response:?}");
    assert!(origin.asked().len() - before <= 65);
}

#[test]
fn a_part_that_fails_fails_the_page_unless_it_says_otherwise() {
    for (body, expected) in [
        ("a<esi:include src='/gone'/>", None),
        ("a<esi:include src='/elsewhere'/>", None),
        ("a<esi:include src='/coded'/>", None),
        ("a<esi:include src='/gone' alt='/own'/>", Some("aown nobody")),
        ("a<esi:include src='/gone' alt='/gone'/>", None),
        ("a<esi:include src='/gone' alt='/gone' onerror='continue'/>b", Some("ab")),
    ] {
        let origin = application(body);
        let server = assembling(&origin);
        let response = get(&server, "/", "");
        match expected {
            Some(text) => assert_eq!(status_and_text(&response), (200, text.to_owned()), "{body}"),
            None => assert_eq!(response.status, 502, "{body}"),
        }
    }
}

#[test]
fn a_page_with_its_parts_has_a_limited_size() {
    let origin = application("<esi:include src='/large'/><esi:include src='/large'/>");
    let server = cached(&origin, json!({"esi": true, "max_object": 8 << 20}));
    assert_eq!(get(&server, "/", "").body.len(), 6 << 20);
    let six: &str = Box::leak("<esi:include src='/large' onerror='continue'/>".repeat(6).into());
    let origin = application(six);
    let server = cached(&origin, json!({"esi": true, "max_object": 8 << 20}));
    assert_eq!(get(&server, "/", "").status, 502);
}

/// Only paths of the client's own host are asked for, through the same routes, with its own rights.
#[test]
fn addresses_lead_nowhere_that_the_client_could_not_go() {
    for address in [
        "http://127.0.0.1:1/",
        "//evil/",
        "own",
        "http://a.example@evil/own",
        "/../own",
        "/%zz",
        "file:///etc/passwd",
    ] {
        let body: &str = Box::leak(format!("a{}", include(address)).into());
        let origin = application(body);
        let response = get(&assembling(&origin), "/", "");
        assert_eq!(response.status, 502, "{address}");
        assert_eq!(origin.asked().len(), 1, "{address}");
    }
    let origin = application("a<esi:include src='http://a.example/own'/>");
    assert_eq!(get(&assembling(&origin), "/", "").text(), "aown nobody");
    let origin =
        application("a<esi:include src='/secret'/><esi:include src='/inner' onerror='continue'/>");
    let proxy = json!({"proxy": origin.url(), "cache": {"esi": true}});
    let mut inner = proxy.clone();
    inner["internal"] = json!(true);
    let routes = json!([
        {"match": {"uri": "/secret"}, "action": {"return": 403}},
        {"match": {"uri": "/inner"}, "action": inner},
        {"action": proxy},
    ]);
    let server = Site::new().with(json!({"routes": routes})).serve();
    assert_eq!(get(&server, "/", "").status, 502);
    assert!(origin.asked().iter().all(|head| head.starts_with("GET / ")));
}

#[test]
fn an_address_adds_no_field_to_a_request() {
    let origin = application("<esi:include src=\"/x%0d%0aX-Evil:%201?a=%0d%0aX-Evil:%201\"/>");
    let response = get(&assembling(&origin), "/", "");
    assert_eq!(response.status, 200);
    assert!(origin.asked().iter().all(|head| value(head, "X-Evil").is_none()));
    let origin = application("a<esi:include src=\"/x\r\nX-Evil: 1\"/>");
    let response = get(&assembling(&origin), "/", "");
    assert_eq!((response.status, origin.asked().len()), (200, 1));
}

/// The stored page is markup: no part of it may reach a client, and no validator of it means the
/// assembled page.
#[test]
fn conditions_and_ranges_are_not_about_the_stored_page() {
    let origin = application("a<esi:include src=\"/shared\"/>b");
    let server = assembling(&origin);
    for _ in 0..2 {
        for fields in [
            "If-None-Match: \"a\"\r\n",
            "If-None-Match: *\r\n",
            "If-Modified-Since: Wed, 01 Jan 2098 00:00:00 GMT\r\n",
            "Range: bytes=0-9\r\n",
            "Accept-Encoding: identity\r\nRange: bytes=0-9\r\nIf-Range: \"a\"\r\n",
        ] {
            let response = get(&server, "/", fields);
            assert_eq!(response.status, 200, "{fields}");
            assert!(response.text().starts_with("ashared"), "{fields} {}", response.text());
        }
    }
    let head = ask(&server, "HEAD", "/", "");
    assert!(
        head.status == 200
            && head.field("ETag").is_none()
            && head.field("Content-Length").is_none()
    );
}

/// Each part waits until all six were asked for.
#[test]
fn parts_are_asked_for_at_the_same_time_and_stay_in_order() {
    let arrived = Arc::new((Mutex::new(0), Condvar::new()));
    let origin = origin(move |head, _| {
        let target = head.split(' ').nth(1).unwrap_or_default();
        if target == "/" {
            let parts: String = (0..6)
                .map(|number| format!("{number}={};", include(&format!("/{number}"))))
                .collect();
            return marked(parts);
        }
        let (count, changed) = &*arrived;
        let mut count = count.lock().unwrap();
        *count += 1;
        changed.notify_all();
        let all = |count: &mut usize| *count < 6;
        let (_count, waited) =
            changed.wait_timeout_while(count, harness::time::patience(), all).unwrap();
        page("", format!("{target} {}", if waited.timed_out() { "alone" } else { "together" }))
    });
    let text = get(&assembling(&origin), "/", "").text();
    let expected: String = (0..6).map(|number| format!("{number}=/{number} together;")).collect();
    assert_eq!(text, expected);
}

#[test]
fn a_page_asks_for_a_limited_number_of_parts_at_once() {
    let state = Arc::new(Mutex::new((0usize, 0usize)));
    let of_origin = Arc::clone(&state);
    let origin = origin(move |head, _| {
        let target = head.split(' ').nth(1).unwrap_or_default();
        match target {
            "/" => return marked("<esi:include src='/nested'/>".repeat(4)),
            "/nested" => return marked("<esi:include src='/part'/>".repeat(10)),
            _ => {}
        }
        {
            let (now, most) = &mut *of_origin.lock().unwrap();
            *now += 1;
            *most = (*most).max(*now);
        }
        harness::time::sleep(Duration::from_millis(100));
        of_origin.lock().unwrap().0 -= 1;
        page("", "x")
    });
    assert_eq!(get(&assembling(&origin), "/", "").text(), "x".repeat(40));
    let most = state.lock().unwrap().1;
    assert!((2..=6).contains(&most), "{most}");
}

/// A part that fails is replaced by its second address, by nothing, or ends the page, regardless of
/// the others.
#[test]
fn a_part_that_fails_early_waits_for_no_other() {
    let slow = "<esi:include src='/slow'/>";
    for (failing, expected) in [
        ("<esi:include src='/gone' alt='/other'/>", Some("other slow")),
        ("<esi:include src='/gone' onerror='continue'/>", Some("slow")),
        ("<esi:include src='/gone'/>", None),
    ] {
        let page_at_root: &str = Box::leak(format!("{failing}{slow}").into());
        let origin = origin(move |head, _| match head.split(' ').nth(1).unwrap_or_default() {
            "/" => marked(page_at_root),
            "/gone" => response("500 Oops", "", "gone"),
            "/other" => page("", "other "),
            _ => {
                std::thread::sleep(Duration::from_secs(if expected.is_some() { 1 } else { 20 }));
                page("", "slow")
            }
        });
        let started_at = Stopwatch::start();
        let response = get(&assembling(&origin), "/", "");
        match expected {
            Some(text) => assert_eq!(status_and_text(&response), (200, text.to_owned())),
            None => assert_eq!(response.status, 502),
        }
        assert!(started_at.elapsed() < Duration::from_secs(10), "{failing}");
    }
}

/// Files of any age and size are parts, through the routes of the host, but no files that routes do
/// not give.
#[test]
fn files_are_parts() {
    let parts = ["/files/new.html", "/files/large.html", "/files/new.html"];
    let origin = application(Box::leak(parts.map(include).concat().into()));
    let proxy = json!({"proxy": origin.url(), "cache": {"esi": true}});
    let large = "large".repeat(200 << 10);
    let site = Site::new().file("files/new.html", "<b>new</b>").file("files/large.html", &large);
    let share = json!({"share": format!("{}$uri", site.root().display())});
    let routes = json!([
        {"match": {"uri": "/files/*"}, "action": share},
        {"match": {"uri": "/bad"}, "action": {"return": 404}},
        {"action": proxy},
    ]);
    let server = site.with(json!({"routes": routes})).serve();
    for fields in ["", "Range: bytes=0-1\r\n", "If-None-Match: *\r\nAccept-Encoding: gzip\r\n"] {
        let response = get(&server, "/", fields);
        assert_eq!(response.status, 200);
        assert_eq!(response.text(), format!("<b>new</b>{large}<b>new</b>"), "{fields}");
    }
}
