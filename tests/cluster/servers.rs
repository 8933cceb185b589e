//! Servers of one site.

use harness::client::Response;
use harness::raw::Raw;
use harness::valkey::Valkey;
use harness::{Server, Site, eventually, merge};
use serde_json::{Value, json};

/// Starts a server of a cluster with this document.
pub fn server(cluster: &Value, document: Value) -> Server {
    let server = Site::new().controlled().serve();
    let mut whole = json!({
        "listeners": {server.address.to_string(): {"pass": "routes"}},
        "settings": {"cluster": cluster},
    });
    merge(&mut whole, document);
    server.put("/config", &whole);
    server
}

/// Starts two servers that share a Valkey, and waits until both are connected.
pub fn two(valkey: &Valkey, document: &Value) -> [Server; 2] {
    // A busy machine takes its time.
    let socket = format!("unix:{}", valkey.socket().display());
    let cluster = json!({"server": socket, "timeout": 0.5});
    let servers = [(); 2].map(|()| server(&cluster, document.clone()));
    servers.iter().for_each(connected);
    servers
}

/// Returns a member of the state of the cluster.
pub fn status(server: &Server, member: &str) -> Value {
    let status = server.control("GET", "/status/cluster", "").succeeded();
    status.pointer(member).cloned().unwrap_or(Value::Null)
}

/// Waits until a server is connected.
pub fn connected(server: &Server) {
    eventually("the server is connected", || {
        (status(server, "/connected") == json!(true)).then_some(())
    });
}

/// Waits until a server is not connected.
pub fn disconnected(server: &Server) {
    eventually("the server is not connected", || {
        (status(server, "/connected") == json!(false)).then_some(())
    });
}

/// Returns a document with a cache in front of an origin.
pub fn cached(origin: &Raw) -> Value {
    let cache = json!({"purge": "127.0.0.0/8"});
    json!({"routes": [{"action": {"proxy": origin.url(), "cache": cache}}]})
}

/// Starts an origin whose pages may be cached, and have their paths as tags.
pub fn origin() -> Raw {
    Raw::new(|connection| {
        while let Some(head) = connection.request() {
            let path = head.split_whitespace().nth(1).unwrap_or_default();
            let tag = path.replace('/', "-");
            let fields = format!("Cache-Tag: page,{tag}\r\nCache-Control: max-age=600\r\n");
            let page = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 1\r\n\r\nx");
            if !connection.send(page) {
                return;
            }
        }
    })
}

/// Sends a request without a body.
pub fn ask(server: &Server, method: &str, target: &str, fields: &str) -> Response {
    let head = format!("{method} {target} HTTP/1.1\r\nHost: a.example\r\n{fields}");
    server.send(format!("{head}Content-Length: 0\r\nConnection: close\r\n\r\n"))
}

/// Lets servers store responses.
pub fn store(servers: &[Server], targets: &[&str]) {
    for server in servers {
        for target in targets {
            ask(server, "GET", target, "");
            assert!(has(server, target), "{target}");
        }
    }
}

/// Returns true if a server has stored a response.
pub fn has(server: &Server, target: &str) -> bool {
    ask(server, "GET", target, "Cache-Control: only-if-cached\r\n").status == 200
}

/// Waits until a server has removed a response.
pub fn loses(server: &Server, target: &str) {
    eventually(&format!("{target} is purged"), || (!has(server, target)).then_some(()));
}
