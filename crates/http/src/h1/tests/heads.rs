//! Heads as clients send them, well formed and not.

use super::*;

/// Returns the status of the response to a request on a new connection.
async fn status(server: &Server, request: impl AsRef<[u8]>) -> u16 {
    let mut client = server.client().await;
    client.send(request).await;
    client.head().await.status
}

#[test]
fn a_request_reaches_the_handler_as_it_was_sent() {
    with_default(|server| async move {
        let mut client = server.client().await;
        client
            .send(
                "GET /facts/../facts?a=%20&b=c?d HTTP/1.1\r\nHOST:\t EXAMPLE.com.:8080 \r\n\
                 X-Empty:\r\nx-CASE: a \tb\t \r\nCookie: \u{e9}\r\n\r\n",
            )
            .await;
        assert_eq!(
            client.reply().await.text(),
            "GET /facts/../facts?a=%20&b=c?d /facts a=%20&b=c?d example.com\n\
             HOST=EXAMPLE.com.:8080\nX-Empty=\nx-CASE=a \\tb\nCookie=\\xc3\\xa9\n"
        );
    });
}

#[test]
fn an_absolute_target_gives_the_host() {
    with_default(|server| async move {
        let mut client = server.client().await;
        client
            .send("GET HTTP://Real.example:81/facts?q HTTP/1.1\r\nHost: other.example\r\n\r\n")
            .await;
        assert_eq!(
            client.reply().await.text(),
            "GET /facts?q /facts q real.example\nHost=Real.example:81\n"
        );
        // Without the field the host is added for scripts and other servers.
        client
            .send(
                "GET http://Real.example:81/facts HTTP/1.0\r\nA: b\r\nConnection: \
                   keep-alive\r\n\r\n",
            )
            .await;
        assert_eq!(
            client.reply().await.text(),
            "GET /facts /facts  real.example\nHost=Real.example:81\nA=b\nConnection=keep-alive\n"
        );
        client.send("GET http://a HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(client.reply().await.status, 200);
        client.send("GET http://a?b HTTP/1.0\r\nConnection: close\r\n\r\n").await;
        assert_eq!(client.reply().await.status, 200);
        assert_eq!(server.seen().last().unwrap(), "GET /");
    });
}

#[test]
fn a_host_that_can_be_read_in_two_ways_is_refused() {
    with_default(|server| async move {
        for fields in [
            "",
            "Host: a\r\nHost: a\r\n",
            "Host: a\r\nhost: b\r\n",
            "Host: user@a\r\n",
            "Host: a:80:80\r\n",
            "Host: a:junk\r\n",
            "Host: a:99999\r\n",
            "Host: a b\r\n",
            "Host: a/b\r\n",
            "Host: a\\b\r\n",
            "Host: a?b\r\n",
            "Host: secret.test:x@evil\r\n",
            "Host: [::1\r\n",
            "Host: a..b\r\n",
            "Host: \u{e9}\r\n",
            "Host : a\r\n",
        ] {
            let request = format!("GET / HTTP/1.1\r\n{fields}\r\n");
            assert_eq!(status(&server, &request).await, 400, "{request:?}");
        }
        for line in [
            "GET http://user@a/ HTTP/1.1\r\nHost: a",
            "GET http://a:b/ HTTP/1.1\r\nHost: a",
            "GET http://a#b/ HTTP/1.1\r\nHost: a",
            "GET http://a\\b/ HTTP/1.1\r\nHost: a",
            "GET http://user@a/ HTTP/1.0",
            "GET http:///x HTTP/1.1\r\nHost: a",
            "GET http:// HTTP/1.1\r\nHost: a",
            "GET http://a/ HTTP/1.1",
            "GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: a",
            "GET http://a/ HTTP/1.1\r\nHost: user@a",
            "GET ftp://a/ HTTP/1.1\r\nHost: a",
            "GET a HTTP/1.1\r\nHost: a",
        ] {
            assert_eq!(status(&server, format!("{line}\r\n\r\n")).await, 400, "{line:?}");
        }
        assert!(server.seen().is_empty());
        assert_eq!(status(&server, "GET / HTTP/1.0\r\n\r\n").await, 200);
        assert_eq!(status(&server, "GET / HTTP/1.1\r\nHost:\r\n\r\n").await, 200);
    });
}

#[test]
fn a_lenient_reading_takes_what_unit_takes() {
    let limits = Limits { strict: false, ..Limits::default() };
    with_server(limits, |server| async move {
        for (head, seen) in [
            ("GET /facts HTTP/1.1\r\n", "GET /facts /facts  \n"),
            ("GET   /facts   HTTP/1.1\r\n", "GET /facts /facts  \n"),
            ("GET / a /../facts?b c HTTP/1.1\r\n", "GET /%20a%20/../facts?b%20c /facts b%20c \n"),
            ("GET /facts? HTTP/1.1 HTTP/1.0\r\n", "GET /facts?%20HTTP/1.1 /facts %20HTTP/1.1 \n"),
            (
                "GET /facts HTTP/1.1\r\nA: b\r\nHost: #A?b:80\r\n",
                "GET /facts /facts  #a?b\nHost=%23A%3Fb:80\nA=b\n",
            ),
            (
                "GET /facts HTTP/1.1\r\nhost: Secret.test:x@evil\r\n",
                "GET /facts /facts  secret.test\nHost=Secret.test\n",
            ),
            ("GET http://b/facts HTTP/1.1\r\n", "GET /facts /facts  b\nHost=b\n"),
            ("GET /facts#/../x HTTP/1.1\r\n", "GET /facts /facts  \n"),
            ("GET /facts?a#b?c HTTP/1.1\r\n", "GET /facts?a /facts a \n"),
            ("GET http://b/facts?a# b HTTP/1.1\r\n", "GET /facts?a /facts a b\nHost=b\n"),
        ] {
            let mut client = server.client().await;
            client.send(format!("{head}\r\n")).await;
            assert_eq!(client.reply().await.text(), seen, "{head:?}");
        }
        for head in [
            "GET  HTTP/1.1\r\n",
            "GET / HTTP/1.1 \r\n",
            "GET /\t/ HTTP/1.1\r\n",
            "GET /#\t HTTP/1.1\r\n",
            "GET /#\x01 HTTP/1.1\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n",
            "GET / HTTP/1.1\r\nHost: a/b\r\n",
            "GET / HTTP/1.1\r\nHost: a b\r\n",
            "GET http://a b/ HTTP/1.1\r\nHost: a\r\n",
            "GET http://a@b/ HTTP/1.1\r\nHost: a\r\n",
            "GET http://a#/../b HTTP/1.1\r\nHost: a\r\n",
            "GET http://a/ HTTP/1.1\r\nHost: a/b\r\n",
            "GET #/x HTTP/1.1\r\nHost: a\r\n",
        ] {
            assert_eq!(status(&server, format!("{head}\r\n")).await, 400, "{head:?}");
        }
    });
}

#[test]
fn a_malformed_head_is_refused_and_the_connection_ends() {
    with_default(|server| async move {
        for head in [
            &b"GET / HTTP/1.1\r\nHost: a\r\nA: b\rC: d\r\n\r\n"[..],
            b"GET / HTTP/1.1\rHost: a\r\n\r\n",
            b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET /  HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET /\tHTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
            b" GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET / x HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET / http/1.1\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.10\r\nHost: a\r\n\r\n",
            b"GET /\r\n\r\n",
            b"GET\r\n\r\n",
            b"G(T / HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET * HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\n b: c\r\n\r\n",
            b"GET / HTTP/1.1\r\n Host: a\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n\tc\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nA : b\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nA\t: b\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nA\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nA b: c\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nA\xe9: c\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nA: b\0c\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nA: b\x7f\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nA: \x1f\r\n\r\n",
            b"\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            b"\n\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ] {
            let answer = server.talk([head, b"GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
            let answer = answer.await;
            let head = head.escape_ascii();
            assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{head}: {answer}");
            assert!(answer.contains("\r\nConnection: close\r\n"), "{head}: {answer}");
            assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{head}: {answer}");
        }
        assert!(server.seen().is_empty());
    });
}

#[test]
fn what_is_no_http_1_is_refused_at_once() {
    with_default(|server| async move {
        // None of these is followed by an empty line.
        for (bytes, expected) in [
            (&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], 400),
            (b"GET /\r\n", 400),
            (b"PRI * HTTP/2.0\r\n", 505),
            (b"GET / HTTP/2.0\r\n", 505),
            (b"GET / HTTP/0.9\r\n", 505),
            (b"SSH-2.0-OpenSSH_9.2\r\n", 400),
        ] {
            assert_eq!(status(&server, bytes).await, expected, "{}", bytes.escape_ascii());
        }
    });
}

#[test]
fn a_line_may_end_in_a_line_feed_alone_unless_the_body_is_chunked() {
    with_default(|server| async move {
        for head in ["GET / HTTP/1.1\nHost: a\n\n", "\nGET / HTTP/1.1\r\nHost: a\n\r\n"] {
            assert_eq!(status(&server, head).await, 200, "{head:?}");
        }
        let chunked = "POST / HTTP/1.1\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
        assert_eq!(status(&server, chunked).await, 400);
    });
}

#[test]
fn connect_is_refused_and_options_for_the_server_is_not() {
    with_default(|server| async move {
        assert_eq!(status(&server, "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n").await, 405);
        assert_eq!(status(&server, "CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n").await, 405);
        assert!(server.seen().is_empty());
        assert_eq!(status(&server, "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").await, 200);
        assert_eq!(server.seen(), ["OPTIONS /"]);
    });
}

#[test]
fn an_empty_line_or_two_before_a_request_are_overlooked() {
    with_default(|server| async move {
        let mut client = server.client().await;
        client.send("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(client.reply().await.status, 200);
        client.send("\r").await;
        client.send("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(client.reply().await.status, 200);
    });
}

#[test]
fn fields_whose_names_php_would_fold_are_left_out_unless_wanted() {
    let request = "GET /facts HTTP/1.1\r\nHost: a\r\nRemote_User: x\r\nRemote.User: y\r\n\
                   Content_Length: 5\r\nTransfer.Encoding: chunked\r\n!a: z\r\nB-1: c\r\n\r\n";
    with_default(|server| async move {
        let mut client = server.client().await;
        client.send(request).await;
        assert_eq!(client.reply().await.text(), "GET /facts /facts  a\nHost=a\nB-1=c\n");
    });
    let limits = Limits { discard_unsafe_fields: false, ..Limits::default() };
    with_server(limits, |server| async move {
        let mut client = server.client().await;
        client.send(request).await;
        assert_eq!(client.reply().await.text().lines().count(), 8);
    });
}

#[test]
fn a_target_that_leads_nowhere_safe_is_refused() {
    with_default(|server| async move {
        for (target, expected) in [
            ("/..", 400),
            ("/a/../..", 400),
            ("/%2e%2e/", 400),
            ("/a%2f..%2f../b", 400),
            ("/%", 400),
            ("/%4", 400),
            ("/%zz", 400),
            ("/%00", 400),
            ("/a#", 400),
            ("/a#/../private/s", 400),
            ("/a?b#c", 400),
            ("http://a/b#c", 400),
            ("/a?%zz", 200),
            ("/a%23b", 200),
            ("/a/b/../../", 200),
            ("/\u{e9}", 200),
        ] {
            let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(status(&server, request).await, expected, "{target}");
        }
    });
}
