//! `No-Vary-Search`: responses that do not depend on all of a query.

use serde_json::json;

use super::origin::{ask, cached, get, is_hit, origin, page};

fn application(field: &'static str) -> harness::raw::Raw {
    origin(move |head, number| {
        let target = head.split(' ').nth(1).unwrap_or_default();
        page(&format!("Cache-Control: max-age=600\r\n{field}"), format!("{target} {number}"))
    })
}

#[test]
fn queries_that_a_response_does_not_depend_on_share_it() {
    let origin = application("No-Vary-Search: key-order, params=(\"utm_source\")\r\n");
    let server = cached(&origin, json!({}));
    assert!(!is_hit(&get(&server, "/p?utm_source=a&id=1&b", "")));
    for query in ["id=1&b", "b&id=1", "b&utm_source&id=1", "utm_source=b&b&id=1&utm_source=c"] {
        let response = get(&server, &format!("/p?{query}"), "");
        assert!(is_hit(&response), "{query}");
        assert_eq!(response.text(), "/p?utm_source=a&id=1&b 0");
    }
    for query in ["id=2&b", "id=1", "id=1&b&UTM_SOURCE=1", "id=1&b=", "id=1&b&c"] {
        assert!(!is_hit(&get(&server, &format!("/p?{query}"), "")), "{query}");
    }
    assert!(!is_hit(&get(&server, "/q?id=1&b", "")));
    let plain = application("");
    let server = cached(&plain, json!({}));
    get(&server, "/p?a", "");
    assert!(!is_hit(&get(&server, "/p?b", "")));
}

#[test]
fn a_response_without_the_field_ends_its_effect() {
    let origin = origin(|_, number| {
        let field = if number == 0 { "No-Vary-Search: params\r\n" } else { "" };
        page(&format!("Cache-Control: max-age=600\r\n{field}"), number.to_string())
    });
    let server = cached(&origin, json!({"purge": "127.0.0.1"}));
    get(&server, "/?a", "");
    assert!(is_hit(&get(&server, "/?b", "")));
    ask(&server, "PURGE", "/?c", "");
    assert_eq!(get(&server, "/?d", "").text(), "1");
    assert_eq!(get(&server, "/?a", "").text(), "2");
    assert!(is_hit(&get(&server, "/?d", "")));
}

#[test]
fn one_of_the_queries_purges_and_invalidates_the_response() {
    let origin = application("No-Vary-Search: params=(\"a\")\r\n");
    let server = cached(&origin, json!({"purge": "127.0.0.1"}));
    for method in ["PURGE", "POST"] {
        get(&server, "/p?a=1", "");
        assert!(is_hit(&get(&server, "/p?a=2", "")), "{method}");
        ask(&server, method, "/p?a=3", "");
        assert!(!is_hit(&get(&server, "/p?a=2", "")), "{method}");
    }
}

/// Each of these is the parameter `id` or `i_d` to PHP: left out of the key, it would choose the
/// responses of others.
#[test]
fn names_that_applications_read_otherwise_stay_in_the_key() {
    let origin = application("No-Vary-Search: params, except=(\"id\" \"i_d\")\r\n");
    let server = cached(&origin, json!({}));
    get(&server, "/p", "");
    assert!(is_hit(&get(&server, "/p?x=1", "")));
    for query in ["%20id=5", "+id=5", "id[]=5", "id%5B%5D=5", "i.d=5", "id%00=5", "ID=5"] {
        let response = get(&server, &format!("/p?{query}"), "");
        assert!(!is_hit(&response), "{query}");
    }
    assert_eq!(get(&server, "/p", "").text(), "/p 0");
}
