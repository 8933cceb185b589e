//! `$upstream_cache_status`, compared with nginx.

use std::thread::sleep;
use std::time::Duration;

use harness::backends::Backend;
use harness::client::{Client, Response};
use harness::raw::Raw;
use harness::{Server, Site, eventually};
use serde_json::json;

use super::origin::{origin, page, response};

/// A page that nginx, which counts whole seconds, and Howdah consider stale after this time.
const UNTIL_STALE: Duration = Duration::from_millis(2_200);

/// Time that the origin takes to refresh a page.
const REFRESH: Duration = Duration::from_millis(1_500);

/// An origin whose pages behave as their paths say.
fn pages() -> Raw {
    origin(|head, number| {
        let target = head.split(' ').nth(1).unwrap();
        let is_again = |number: usize| number >= FIRST_REQUESTS;
        match target {
            "/fresh" => page("Cache-Control: max-age=600\r\n", "fresh"),
            "/private" => page("Cache-Control: private\r\n", "private"),
            "/same" if head.to_ascii_lowercase().contains("if-none-match: \"a\"") => {
                response("304 Not Modified", "Cache-Control: max-age=600\r\nETag: \"a\"\r\n", "")
            }
            "/same" => page("Cache-Control: max-age=1\r\nETag: \"a\"\r\n", "same"),
            "/failing" if is_again(number) => response("500 Internal Server Error", "", ""),
            "/refreshed" if is_again(number) => {
                sleep(REFRESH);
                page("Cache-Control: max-age=600\r\n", "new")
            }
            "/refreshed" => page("Cache-Control: max-age=1, stale-while-revalidate=600\r\n", "old"),
            _ if is_again(number) => page("Cache-Control: max-age=600\r\n", "new"),
            _ => page("Cache-Control: max-age=1\r\n", "old"),
        }
    })
}

/// Requests before the pages become stale.
const FIRST: [(&str, &str); 10] = [
    ("GET", "/fresh"),
    ("GET", "/fresh"),
    ("HEAD", "/fresh"),
    ("SKIP", "/fresh"),
    ("POST", "/other"),
    ("GET", "/private"),
    ("GET", "/same"),
    ("GET", "/failing"),
    ("GET", "/refreshed"),
    ("GET", "/expired"),
];

/// Number of the first requests that reach the origin.
const FIRST_REQUESTS: usize = 8;

/// Requests for stale pages.
const THEN: [(&str, &str); 8] = [
    ("GET", "/private"),
    ("GET", "/expired"),
    ("GET", "/expired"),
    ("GET", "/same"),
    ("GET", "/same"),
    ("GET", "/failing"),
    ("GET", "/refreshed"),
    ("GET", "/refreshed"),
];

fn ask(client: &mut Client, method: &str, target: &str) -> Response {
    let (method, skip) = match method {
        "SKIP" => ("GET", "X-Skip: 1\r\n"),
        _ => (method, ""),
    };
    client.send(format!(
        "{method} {target} HTTP/1.1\r\nHost: a.example\r\n{skip}Content-Length: 0\r\n\r\n"
    ));
    if method == "HEAD" { client.head_response() } else { client.response() }
}

/// Returns the words for the requests, each with the status of the origin.
fn words(connect: impl Fn() -> Client) -> Vec<String> {
    // nginx gives up a refresh when the client that has started it leaves.
    let mut clients = Vec::new();
    let mut word = |(method, target): (&str, &str)| {
        let mut client = connect();
        let answer = ask(&mut client, method, target);
        clients.push(client);
        format!("{method} {target} {}", answer.field("X-Word").unwrap_or_default())
    };
    let mut words: Vec<_> = FIRST.into_iter().map(&mut word).collect();
    sleep(UNTIL_STALE);
    words.extend(THEN.into_iter().map(&mut word));
    sleep(REFRESH);
    eventually("the page is refreshed", || {
        let answer = ask(&mut connect(), "GET", "/refreshed");
        (answer.text() == "new").then(|| words.push(answer.field("X-Word").unwrap().to_owned()))
    });
    words
}

fn howdah(origin: &Raw) -> Server {
    let cache = json!({"bypass": {"headers": {"X-Skip": "1"}}, "stale_if_error": 600});
    Site::new()
        .with(json!({"routes": [{"action": {
            "proxy": origin.url(),
            "cache": cache,
            "response_headers": {"X-Word": "$upstream_cache_status $upstream_status"},
        }}]}))
        .serve()
}

#[test]
fn the_cache_says_what_it_did_in_the_words_of_nginx() {
    let theirs = pages();
    let nginx = Backend::nginx_cache(
        &theirs.url(),
        "proxy_cache pages;
         proxy_cache_bypass $http_x_skip;
         proxy_cache_revalidate on;
         proxy_cache_use_stale http_500;
         proxy_cache_background_update on;
         add_header X-Word \"$upstream_cache_status $upstream_status\" always;",
    );
    let ours = pages();
    let server = howdah(&ours);
    let expected = std::thread::scope(|scope| {
        let expected = scope.spawn(|| words(|| Client::connect(nginx.address)));
        let found = words(|| server.connect());
        let expected = expected.join().unwrap();
        assert_eq!(found, expected);
        expected
    });
    // All words of nginx have come.
    for word in ["MISS", "HIT", "BYPASS", "EXPIRED", "REVALIDATED", "STALE", "UPDATING"] {
        assert!(expected.iter().any(|line| line.contains(word)), "{word} {expected:?}");
    }
}
