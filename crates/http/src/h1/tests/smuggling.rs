//! Requests whose boundaries two servers could read differently.

use super::*;

const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";

/// Sends a request with another one hidden in it. Checks that it is refused, that the connection is
/// closed, and that neither request is handled.
async fn refused(server: &Server, status: u16, head: &str, body: &str) {
    let request = format!("{head}\r\n\r\n{body}{HIDDEN}");
    let answer = server.talk(&request).await;
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {answer:?}");
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{request:?}: {answer:?}");
    assert!(answer.contains("Connection: close\r\n"), "{request:?}: {answer:?}");
    assert!(!server.seen().iter().any(|line| line.contains("hidden")), "{request:?}");
}

#[test]
fn two_framings_of_one_body_are_refused() {
    with_default(|server| async move {
        let post = "POST /echo HTTP/1.1\r\nHost: a\r\n";
        for fields in [
            "Content-Length: 5\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked\r\nContent-Length: 5",
            "transfer-encoding: CHUNKED\r\ncontent-length: 0",
            "Content-Length: 5\r\nTransfer-Encoding: identity",
            "Content-Length: 5\r\nTransfer-Encoding:",
            "Content-Length: 5\r\nContent-Length: 5",
            "Content-Length: 5\r\nContent-Length: 6",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
            "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
            "Content-Length : 5",
            "Transfer-Encoding : chunked",
            "Content-Length:\r\n 5",
            "Transfer-Encoding:\r\n chunked",
            " Transfer-Encoding: chunked",
            "X: y\nTransfer-Encoding: chunked",
            "X: y\rTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked\0",
            "Transfer-Encoding: \u{b}chunked",
            "Transfer-Encoding\u{b}: chunked",
            "Content-Length: 5\0",
        ] {
            refused(&server, 400, &format!("{post}{fields}"), "0\r\n\r\n").await;
        }
        assert!(server.seen().is_empty());
    });
}

#[test]
fn a_length_that_is_no_decimal_number_is_refused() {
    with_default(|server| async move {
        for length in [
            "",
            "+5",
            "-5",
            "5,5",
            "5, 5",
            "0x5",
            "5x",
            "5 5",
            "5.0",
            "5e1",
            "\"5\"",
            "five",
            "18446744073709551616",
            "99999999999999999999999",
            "\u{0665}",
        ] {
            let head = format!("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {length}");
            refused(&server, 400, &head, "12345").await;
        }
        assert!(server.seen().is_empty());
    });
}

#[test]
fn a_coding_other_than_chunked_is_refused() {
    with_default(|server| async move {
        for coding in [
            "",
            "identity",
            "gzip",
            "gzip, chunked",
            "chunked, gzip",
            "chunked, chunked",
            "chunked,",
            ",chunked",
            "xchunked",
            "chunkedx",
            "\"chunked\"",
            "chunked;q=1",
            "chunked chunked",
            "'chunked'",
        ] {
            let head = format!("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: {coding}");
            refused(&server, 501, &head, "0\r\n\r\n").await;
        }
        let head = "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked";
        refused(&server, 400, head, "0\r\n\r\n").await;
        let head = "POST /echo HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: gzip";
        refused(&server, 400, head, "0\r\n\r\n").await;
        assert!(server.seen().is_empty());
    });
}

/// Chunked bodies that some servers accept and others refuse.
const BAD_CHUNKS: &[&str] = &[
    "5 5\r\nhello\r\n0\r\n\r\n",
    "5 \r\nhello\r\n0\r\n\r\n",
    " 5\r\nhello\r\n0\r\n\r\n",
    "+5\r\nhello\r\n0\r\n\r\n",
    "-5\r\nhello\r\n0\r\n\r\n",
    "0x5\r\nhello\r\n0\r\n\r\n",
    "5_0\r\nhello\r\n0\r\n\r\n",
    "\r\nhello\r\n0\r\n\r\n",
    "g\r\nhello\r\n0\r\n\r\n",
    "5\nhello\r\n0\r\n\r\n",
    "5\rhello\r\n0\r\n\r\n",
    "5\r\nhello\n0\r\n\r\n",
    "5\r\nhello0\r\n\r\n",
    "5\r\nhelloX\r\n0\r\n\r\n",
    "5\r\nhell\r\n0\r\n\r\n",
    "5\r\nhello\r\n0\n\r\n",
    "5\r\nhello\r\n0\r\n\n",
    "5\0\r\nhello\r\n0\r\n\r\n",
    "5;\0\r\nhello\r\n0\r\n\r\n",
    "5;a=\0\r\nhello\r\n0\r\n\r\n",
    "5;a=\"\0\"\r\nhello\r\n0\r\n\r\n",
    "5;a\nb\r\nhello\r\n0\r\n\r\n",
    "5;a\rb\r\nhello\r\n0\r\n\r\n",
    "5;\r\nhello\r\n0\r\n\r\n",
    "5;;a\r\nhello\r\n0\r\n\r\n",
    "5;a=\r\nhello\r\n0\r\n\r\n",
    "5;a=\"b\r\nhello\r\n0\r\n\r\n",
    "5;a b\r\nhello\r\n0\r\n\r\n",
    "00000000000000005\r\nhello\r\n0\r\n\r\n",
    "10000000000000005\r\nhello\r\n0\r\n\r\n",
    "5\r\nhello\r\n0\r\nnot a field\r\n\r\n",
    "5\r\nhello\r\n0\r\n folded: x\r\n\r\n",
    "5\r\nhello\r\n0\r\na : b\r\n\r\n",
    "5\r\nhello\r\n0\r\na: b\n\r\n",
    "5\r\nhello\r\n0\r\na: \0\r\n\r\n",
];

#[test]
fn a_malformed_chunk_is_refused_whoever_reads_the_body() {
    with_default(|server| async move {
        for body in BAD_CHUNKS {
            let head = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked";
            refused(&server, 400, head, body).await;
            // If the handler does not read the body, there may be one response, but no more.
            let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked";
            refused(&server, 200, head, body).await;
        }
    });
}

#[test]
fn legal_extensions_and_trailers_change_nothing() {
    with_default(|server| async move {
        for body in [
            "5\r\nhello\r\n0\r\n\r\n",
            "0005\r\nhello\r\n000\r\n\r\n",
            "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
            "5;a\r\nhello\r\n0;b\r\n\r\n",
            "5;a=b;c=d\r\nhello\r\n0\r\n\r\n",
            "5 ; a = \"b;\\\"\t\\\\\" ; c\r\nhello\r\n0\r\n\r\n",
            "5\r\nhello\r\n0\r\nContent-Length: 7\r\nHost: b\r\n\r\n",
            "0000000000000005\r\nhello\r\n0\r\nA:\r\n\r\n",
        ] {
            let mut client = server.client().await;
            let head = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
            client.send(format!("{head}{body}GET /next HTTP/1.1\r\nHost: a\r\n\r\n")).await;
            assert_eq!(client.reply().await.text(), "hello", "{body:?}");
            assert_eq!(client.reply().await.status, 200);
        }
        assert_eq!(server.seen().iter().filter(|line| *line == "GET /next").count(), 8);
    });
}

#[test]
fn extensions_and_trailers_are_bounded() {
    with_default(|server| async move {
        let head = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked";
        let long = "x".repeat(9000);
        refused(&server, 400, head, &format!("5;{long}\r\nhello\r\n0\r\n\r\n")).await;
        refused(&server, 400, head, &format!("0\r\n{long}: x\r\n\r\n")).await;
        refused(&server, 400, head, &format!("{}0\r\n\r\n", "1;abcdefgh\r\nx\r\n".repeat(2000)))
            .await;
        refused(&server, 400, head, &format!("0\r\n{}\r\n", "a: b\r\n".repeat(5000))).await;
    });
}

#[test]
fn an_unread_body_is_never_taken_for_a_request() {
    with_default(|server| async move {
        // CL.0: a request with a body for a handler that reads none.
        let mut client = server.client().await;
        let inner = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";
        let length = inner.len();
        for method in ["GET", "HEAD", "POST", "DELETE", "OPTIONS"] {
            client
                .send(format!(
                    "{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{inner}"
                ))
                .await;
            assert_eq!(client.head().await.status, 200);
            if method != "HEAD" {
                client.bytes(6).await;
            }
        }
        // TE.0: the chunk has not arrived when the response is sent.
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n27\r\n").await;
        assert_eq!(client.head().await.field("Connection"), Some("close"));
        client.send(format!("{inner}\r\n0\r\n\r\n{inner}")).await;
        client.rest().await;
        // A long body that arrives late.
        let mut client = server.client().await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n").await;
        assert_eq!(client.head().await.field("Connection"), Some("close"));
        client.send(inner.repeat(20000)).await;
        client.rest().await;
        // A short body that arrives late is discarded, and the connection is kept.
        let mut client = server.client().await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 36\r\n\r\n").await;
        assert_eq!(client.reply().await.field("Connection"), None);
        client.send(format!("{inner:36}GET /next HTTP/1.1\r\nHost: a\r\n\r\n")).await;
        assert_eq!(client.reply().await.status, 200);
        let seen = server.seen();
        assert!(!seen.iter().any(|line| line.contains("hidden")), "{seen:?}");
        assert_eq!(seen.last().unwrap(), "GET /next");
    });
}

#[test]
fn a_body_that_was_only_expected_is_never_taken_for_a_request() {
    with_default(|server| async move {
        // After a final response the client may send the body or not, so the connection cannot be
        // kept.
        let answer = server
            .talk(format!(
                "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n\
                 {HIDDEN}"
            ))
            .await;
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
        assert_eq!(server.seen(), ["POST /"]);
    });
}
