//! An origin that answers with a function of the test, and a server with a cache in front of it.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use harness::client::Response;
use harness::raw::Raw;
use harness::{Server, Site};
use serde_json::{Value, json};

/// Starts an origin. `answer` gets the head of each request, and the number of requests before it.
pub fn origin(answer: impl Fn(&str, usize) -> String + Send + Sync + 'static) -> Raw {
    let count = AtomicUsize::new(0);
    Raw::new(move |connection| {
        while let Some(head) = connection.request() {
            let answer = answer(&head, count.fetch_add(1, Relaxed));
            if !connection.send(answer) {
                return;
            }
        }
    })
}

/// Returns a response with these field lines.
pub fn page(fields: &str, body: impl AsRef<str>) -> String {
    response("200 OK", fields, body)
}

/// Returns a response with this status and these field lines.
pub fn response(status: &str, fields: &str, body: impl AsRef<str>) -> String {
    let body = body.as_ref();
    format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len())
}

/// Starts a server with this cache in front of the origin.
pub fn cached(origin: &Raw, cache: Value) -> Server {
    Site::new().with(json!({"routes": [action(origin, cache)]})).serve()
}

/// Starts a server with a control API and this cache in front of the origin.
pub fn controlled(origin: &Raw, cache: Value) -> Server {
    let server = Site::new().controlled().serve();
    let document = json!({
        "listeners": {server.address.to_string(): {"pass": "routes"}},
        "routes": [action(origin, cache)],
    });
    server.put("/config", &document);
    server
}

fn action(origin: &Raw, cache: Value) -> Value {
    json!({"action": {"proxy": origin.url(), "cache": cache}})
}

/// Sends a GET request with these field lines.
pub fn get(server: &Server, target: &str, fields: &str) -> Response {
    ask(server, "GET", target, fields)
}

/// Sends a request without a body.
pub fn ask(server: &Server, method: &str, target: &str, fields: &str) -> Response {
    let request = format!(
        "{method} {target} HTTP/1.1\r\nHost: a.example\r\n{fields}Connection: close\r\n\r\n"
    );
    let mut client = server.connect();
    client.send(request);
    if method == "HEAD" { client.head_response() } else { client.response() }
}

/// Returns true if a response is from the cache.
pub fn is_hit(response: &Response) -> bool {
    response.field("Cache-Status").is_some_and(|status| status.starts_with("Howdah; hit"))
}

/// Four pages to purge.
pub const TARGETS: [&str; 4] = ["/", "/blog/a", "/blog/a?b=1", "/shop/a"];

/// Returns the stored ones of the four pages.
pub fn left(server: &Server) -> Vec<&'static str> {
    let only = "Cache-Control: only-if-cached\r\n";
    TARGETS.into_iter().filter(|target| get(server, target, only).status == 200).collect()
}
