//! Memory of requests that do not arrive as a whole: heads and bodies are driven to their limits.
//! Meanwhile another client is served, and in the end all is given back.

use harness::client::Client;
use harness::{Server, Site, allow_many_files, eventually, free_address};
use serde_json::json;

use super::unsent::{MIB, memory, temporary_files};

/// Returns the first 30 KB of a head.
fn head_without_end() -> String {
    let fields: String = (0..5).map(|n| format!("X-{n}: {}\r\n", "v".repeat(6000))).collect();
    format!("GET /a.txt HTTP/1.1\r\nHost: a\r\n{fields}")
}

#[test]
fn heads_that_do_not_arrive_as_a_whole_have_a_limit() {
    allow_many_files();
    let server = Site::new().open_files(10_000).file("a.txt", "other").serve();
    server.get("/a.txt");
    let (before, head) = (memory(&server), head_without_end());
    // The responses count 32 KiB each, and a listener has 64 MiB.
    let mut clients: Vec<Client> = (0..2400)
        .map(|_| {
            let mut client = Client::connect(server.address);
            let _ = client.try_send(&head);
            client
        })
        .collect();
    let closed = |clients: &[Client]| clients.iter().filter(|client| client.has_data()).count();
    eventually("the others are closed", || (closed(&clients) == 2400 - 2048).then_some(()));
    let grown = memory(&server).saturating_sub(before) / MIB;
    assert!(grown < 64 + 32, "{grown} MiB");
    assert_eq!(server.get("/a.txt").text(), "other");
    server.wait_for_log("requests that have not arrived or wait take 64 MiB");
    // Heads that arrive later as a whole are answered.
    clients.retain(|client| !client.has_data());
    for client in &mut clients {
        client.send("\r\n");
    }
    assert!(clients.iter_mut().all(|client| client.response().status == 200));
    let mut again = Client::connect(server.address);
    again.send(&head);
    again.send("\r\n");
    assert_eq!(again.response().status, 200, "the memory was given back");
}

/// Sends a part of the body of a request, as a client that a proxy names.
fn begin(server: &Server, client: &str) -> Client {
    let mut connection = Client::connect(server.address);
    let part = "b".repeat(100_000);
    connection.send(format!(
        "POST /index.php HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {client}\r\nContent-Length: \
         100001\r\n\r\n{part}"
    ));
    connection
}

#[test]
fn bodies_that_do_not_arrive_as_a_whole_go_to_files_beyond_the_memory_of_a_client() {
    allow_many_files();
    let address = free_address().to_string();
    let forwarded = json!({ "client_ip": "X-Forwarded-For", "source": ["127.0.0.0/8"] });
    let server = Site::script("index.php", "echo strlen(file_get_contents('php://input'));")
        .open_files(10_000)
        .with(json!({
            "settings": { "http": { "body_buffer_size": 200 << 10 } },
            "listeners": { &address: { "forwarded": forwarded } },
        }))
        .serve_at(&address);
    server.get("/index.php");
    for _ in 0..2 {
        let mut clients: Vec<Client> = (0..250).map(|_| begin(&server, "192.0.2.1")).collect();
        assert_eq!(temporary_files(&server), 0, "there is memory for these");
        clients.extend((0..150).map(|_| begin(&server, "192.0.2.1")));
        // The responses count 112 KiB each, and a client has 32 MiB.
        let files = 400 - 32 * 1024 / 112;
        eventually("the others are in files", || (temporary_files(&server) == files).then_some(()));
        let mut other = begin(&server, "192.0.2.2");
        other.send("e");
        assert_eq!(other.response().text(), "100001");
        assert_eq!(temporary_files(&server), files, "another client has its own memory");
        for client in &mut clients {
            client.send("e");
            assert_eq!(client.response().text(), "100001");
        }
        eventually("all is given back", || (temporary_files(&server) == 0).then_some(()));
    }
}
