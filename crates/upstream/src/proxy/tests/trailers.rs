//! Trailers in both directions.

use super::raw::{chunks, client, exactly, head, server};
use super::*;

/// Creates a proxy in front of a listening socket; it passes trailers of requests on if `told` is
/// true.
async fn before(told: bool) -> (TcpListener, Proxy) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut upstream = single(&Address::Inet(listener.local_addr().unwrap()));
    upstream.config.request_trailers = told;
    (listener, Proxy::new(upstream, timeouts()).await)
}

const ANSWER: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\
    X-Sum: 7\r\nContent-Length: 9\r\nSet-Cookie: a=b\r\n\r\n";

#[test]
fn a_response_keeps_its_trailer_for_a_client_that_takes_trailers() {
    with(|| async {
        let parts: Vec<Vec<u8>> = ANSWER.bytes().map(|byte| vec![byte]).collect();
        let pause = Duration::from_millis(1);
        for answer in [close(ANSWER), Answer { parts, pause, ..close("") }] {
            let backend = Backend::new([answer]).await;
            let upstream = single(&Address::Inet(backend.address));
            let proxy = Proxy::new(upstream, timeouts()).await;
            let ask = |te: &str| {
                proxy.talk(format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{te}\r\n"))
            };
            let reply = ask("TE: gzip;q=0.5, trailers\r\n").await;
            assert!(reply.contains("\r\nTransfer-Encoding: chunked\r\n"), "{reply}");
            assert!(reply.ends_with("\r\n0\r\nX-Sum: 7\r\n\r\n"), "{reply}");
            let (start, _) = reply.split_once("\r\n\r\n").unwrap();
            assert!(!start.contains("X-Sum") && !reply.contains("Set-Cookie"), "{reply}");
            let reply = ask("").await;
            assert!(reply.ends_with("abc") || reply.ends_with("\r\nc\r\n0\r\n\r\n"), "{reply}");
        }
    });
}

#[test]
fn a_request_keeps_its_trailer_behind_chunks() {
    with(|| async {
        // In memory and in a file.
        for size in [5, 18_000, 300_000] {
            let (listener, proxy) = before(true).await;
            let body = "x".repeat(size);
            let request = format!(
                "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \
                 chunked\r\n\r\n{size:x}\r\n{body}\r\n0\r\nX-Sum: 7\r\nHost: \
                 evil\r\nX-Forwarded-For: 6.6.6.6\r\nContent-Length: 1\r\n\r\n"
            );
            let asking = async {
                let mut client = client(&proxy, &request).await;
                assert!(head(&mut client).await.starts_with("HTTP/1.1 204 "));
            };
            let answering = async {
                let mut server = server(&listener).await;
                let asked = head(&mut server).await;
                assert!(asked.contains("\r\nTransfer-Encoding: chunked\r\n"), "{asked}");
                assert!(!asked.contains("Content-Length") && !asked.contains("X-Sum"), "{asked}");
                let (came, trailer) = chunks(&mut server).await;
                assert!(came == body, "{} bytes of {size}", came.len());
                assert_eq!(trailer, "X-Sum: 7\r\n");
                server.get_mut().write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
                tokio::time::sleep(Duration::from_millis(20)).await;
            };
            tokio::join!(asking, answering);
        }
    });
}

#[test]
fn a_request_whose_trailer_is_dropped_has_a_length() {
    with(|| async {
        // By default, as most servers do not support trailers; and if no field of the trailer is
        // left.
        for (told, field) in [(false, "X-Sum: 7"), (true, "Transfer-Encoding: gzip")] {
            let (listener, proxy) = before(told).await;
            let request = format!(
                "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\
                 {field}\r\n\r\n"
            );
            let _client = client(&proxy, &request).await;
            let mut server = server(&listener).await;
            let asked = head(&mut server).await;
            assert!(asked.contains("\r\nContent-Length: 1\r\n"), "{asked}");
            assert!(!asked.contains("chunked") && !asked.contains("X-Sum"), "{asked}");
            exactly(&mut server, "x").await;
        }
    });
}
