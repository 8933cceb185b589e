//! Rewrites with a query, as scripts see them, compared with nginx.

use harness::backends::Backend;
use harness::{Server, Site};
use serde_json::{Value, json};

/// Rewrites, as the text of nginx and of Howdah.
const REWRITES: [(&str, &str); 7] = [
    ("/plain", "/s.php"),
    ("/added", "/s.php?a=1&b=2"),
    ("/whole", "/s.php?a=1?"),
    ("/empty", "/s.php?"),
    ("/twice", "/s.php?a=1??"),
    ("/captured/(.*)", "/s.php?file=$1"),
    ("/both/(.*)/x", "/s.php?a=$1&b=c"),
];

/// Candidates behind the path of the request.
const TRIED: [(&str, &str); 3] =
    [("/args", "/s.php?q=1&$args"), ("/is-args", "/s.php$is_args$args"), ("/none", "/s.php?")];

const TARGETS: [&str; 14] = [
    "/plain?z=%202&y",
    "/plain",
    "/added?z=2",
    "/added",
    "/whole?z=2",
    "/empty?z=2",
    "/twice?z=2",
    "/captured/2020/a%20b%26c%3Dd%2Be%25%3F.jpg?z=%26",
    "/both/%C3%A9%23/x",
    "/both/a/x?b=%2B",
    "/args?a=b&c",
    "/args",
    "/is-args?a=%26",
    "/none?a=b",
];

fn howdah() -> Server {
    let site = Site::script("s.php", "echo $_SERVER['QUERY_STRING'];");
    let root = site.root().display().to_string();
    let mut steps: Vec<Value> = Vec::new();
    for (from, to) in REWRITES {
        let action = json!({"rewrite": to, "pass": "applications/site"});
        steps.push(json!({"match": {"uri": format!("~^{from}")}, "action": action}));
    }
    for (from, to) in TRIED {
        let share = format!("{root}$uri");
        let action = json!({"share": share, "try": ["$uri", to], "scripts": "applications/site"});
        steps.push(json!({"match": {"uri": from}, "action": action}));
    }
    steps.push(json!({"action": {"return": 404}}));
    site.with(json!({"routes": steps})).serve()
}

#[test]
fn a_query_of_a_rewrite_is_set_added_and_kept_as_in_nginx() {
    let mut directives = "location = /s.php { return 200 \"$args\"; }\n".to_owned();
    for (from, to) in REWRITES {
        directives += &format!("rewrite ^{from} {to} last;\n");
    }
    for (from, to) in TRIED {
        directives += &format!("location = {from} {{ try_files $uri {to}; }}\n");
    }
    let nginx = Backend::nginx_with(&[], "", &directives);
    let server = howdah();
    for target in TARGETS {
        let ours = server.get(target);
        let theirs = harness::client::Client::connect(nginx.address).get(target);
        assert_eq!(ours.status, 200, "{target}: {ours:?}");
        assert_eq!(ours.text(), theirs.text(), "{target}");
    }
}

#[test]
fn a_path_in_a_query_adds_no_argument() {
    let site = Site::script("index.php", "echo json_encode($_GET);");
    let share = format!("{}$uri", site.root().display());
    let action = json!({
        "share": share, "try": ["$uri", "/index.php?q=$uri&$args"], "scripts": "applications/site",
    });
    let server = site.with(json!({"routes": [{"action": action}]})).serve();
    for (target, expected) in [
        ("/node/1?page=2", json!({"q": "/node/1", "page": "2"})),
        ("/a%26admin=1%23%3F+%2B", json!({"q": "/a&admin=1#?++"})),
        ("/a%0d%0ab", json!({"q": "/a\r\nb"})),
    ] {
        let text = server.get(target).text();
        let seen: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(seen, expected, "{target}");
    }
}

#[test]
fn conditions_and_other_servers_see_the_new_query() {
    let python = Backend::python();
    let routes = json!([
        // The query has been decoded for this condition.
        {"match": {"arguments": {"old": "1"}},
         "action": {"rewrite": "/echo?new=%20$arg_old&step=2?", "pass": "routes"}},
        {"match": {"arguments": {"new": " 1"}, "query": "new= 1&step=2"},
         "action": {"proxy": python.url()}},
        {"action": {"return": 404}},
    ]);
    let server = Site::new().with(json!({"routes": routes})).serve();
    let response = server.get("/?old=1");
    let seen: Value = serde_json::from_str(&response.text()).expect("JSON");
    assert_eq!(seen["line"], json!("GET /echo?new=%201&step=2 HTTP/1.1"));
}
