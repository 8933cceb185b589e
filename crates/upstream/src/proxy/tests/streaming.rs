//! Bodies that are streamed to a server.

use std::io::ErrorKind;

use super::raw::{chunks, client, end, exactly, head, server};
use super::*;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Creates a proxy that streams bodies, in front of a listening socket.
async fn before(timeouts: Timeouts, change: impl FnOnce(&mut Upstream)) -> (TcpListener, Proxy) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut upstream = single(&Address::Inet(listener.local_addr().unwrap()));
    upstream.config.request_buffering = false;
    change(&mut upstream);
    (listener, Proxy::new(upstream, timeouts).await)
}

/// Returns the head of a request whose body has this framing.
fn post(framing: &str) -> String {
    format!("POST /x HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n")
}

#[test]
fn a_body_goes_on_as_it_comes() {
    with(|| async {
        let (listener, proxy) = before(timeouts(), |_| ()).await;
        for second in [false, true] {
            // Part of the body that arrives with the head; may be empty.
            let start = if second { "abc" } else { "" };
            let mut client = client(&proxy, &(post("Content-Length: 6") + start)).await;
            let mut server = server(&listener).await;
            let asked = head(&mut server).await;
            assert!(asked.contains("\r\nContent-Length: 6\r\n"), "{asked}");
            exactly(&mut server, start).await;
            for piece in ["abc", "def"].into_iter().skip(usize::from(second)) {
                client.write_all(piece.as_bytes()).await.unwrap();
                exactly(&mut server, piece).await;
            }
            server.write_all(OK.as_bytes()).await.unwrap();
            let answer = head(&mut client).await;
            assert!(!answer.contains("Connection: close"), "{answer}");
            exactly(&mut client, "ok").await;
        }
    });
}

#[test]
fn a_body_of_unknown_length_goes_on_in_chunks() {
    with(|| async {
        for told in [false, true] {
            let (listener, proxy) =
                before(timeouts(), |upstream| upstream.config.request_trailers = told).await;
            let mut client = client(&proxy, &post("Transfer-Encoding: chunked")).await;
            let mut server = server(&listener).await;
            let asked = head(&mut server).await;
            assert!(asked.contains("\r\nTransfer-Encoding: chunked\r\n"), "{asked}");
            assert!(!asked.contains("Content-Length"), "{asked}");
            for piece in ["3;x=y\r\nabc\r\n", "4\r\ndefg\r\n"] {
                client.write_all(piece.as_bytes()).await.unwrap();
                exactly(&mut server, &piece.replace(";x=y", "")).await;
            }
            client.write_all(b"0\r\nX-Sum: 7\r\nHost: evil\r\n\r\n").await.unwrap();
            let trailer = if told { "X-Sum: 7\r\n" } else { "" };
            assert_eq!(chunks(&mut server).await, (String::new(), trailer.to_owned()));
            server.write_all(OK.as_bytes()).await.unwrap();
            assert!(head(&mut client).await.starts_with("HTTP/1.1 200 "));
            exactly(&mut client, "ok").await;
        }
    });
}

#[test]
fn a_client_that_waits_is_told_to_go_on() {
    with(|| async {
        let (listener, proxy) = before(timeouts(), |_| ()).await;
        let framing = "Content-Length: 3\r\nExpect: 100-continue";
        let mut client = client(&proxy, &post(framing)).await;
        let mut server = server(&listener).await;
        let asked = head(&mut server).await;
        assert!(!asked.to_lowercase().contains("expect"), "{asked}");
        assert_eq!(head(&mut client).await, "HTTP/1.1 100 Continue\r\n\r\n");
        client.write_all(b"abc").await.unwrap();
        exactly(&mut server, "abc").await;
        // The interim response of the server is not passed on: the proxy sends its own.
        server.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.unwrap();
        server.write_all(OK.as_bytes()).await.unwrap();
        assert!(head(&mut client).await.starts_with("HTTP/1.1 200 "));
        exactly(&mut client, "ok").await;
    });
}

#[test]
fn an_answer_that_comes_before_the_body_ends_the_servers_connection() {
    with(|| async {
        // The client's connection stays open if the end of the body is known.
        for (framing, ends) in [("Content-Length: 9", false), ("Transfer-Encoding: chunked", true)]
        {
            let (listener, proxy) =
                before(timeouts(), |upstream| upstream.config.keepalive = 4).await;
            let mut client = client(&proxy, &post(framing)).await;
            let mut server = server(&listener).await;
            head(&mut server).await;
            server.write_all(b"HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno").await.unwrap();
            let answer = head(&mut client).await;
            assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
            assert_eq!(answer.contains("\r\nConnection: close\r\n"), ends, "{answer}");
            exactly(&mut client, "no").await;
            end(&mut server).await;
            if ends {
                end(&mut client).await;
            }
        }
    });
}

#[test]
fn a_body_and_its_answer_go_on_side_by_side() {
    with(|| async {
        for buffering in [true, false] {
            let (listener, proxy) =
                before(timeouts(), |upstream| upstream.config.buffering = buffering).await;
            let mut client = client(&proxy, &post("Transfer-Encoding: chunked")).await;
            let mut server = server(&listener).await;
            head(&mut server).await;
            let answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            server.write_all(answer).await.unwrap();
            head(&mut client).await;
            for number in 0..5 {
                let piece = format!("1\r\n{number}\r\n");
                client.write_all(piece.as_bytes()).await.unwrap();
                exactly(&mut server, &piece).await;
                server.write_all(piece.as_bytes()).await.unwrap();
                exactly(&mut client, &piece).await;
            }
            client.write_all(b"0\r\n\r\n").await.unwrap();
            exactly(&mut server, "0\r\n\r\n").await;
            server.write_all(b"0\r\n\r\n").await.unwrap();
            exactly(&mut client, "0\r\n\r\n").await;
            end(&mut client).await;
        }
    });
}

#[test]
fn a_body_that_breaks_off_ends_the_servers_connection() {
    with(|| async {
        // Before the response and during it; the client leaves, or sends a malformed chunk.
        for (answered, nonsense) in [(false, false), (false, true), (true, false), (true, true)] {
            let (listener, proxy) = before(timeouts(), |_| ()).await;
            let start = post("Transfer-Encoding: chunked") + "3\r\nabc\r\n";
            let mut client = client(&proxy, &start).await;
            let mut server = server(&listener).await;
            head(&mut server).await;
            exactly(&mut server, "3\r\nabc\r\n").await;
            if answered {
                server.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n").await.unwrap();
                head(&mut client).await;
            }
            if nonsense {
                client.write_all(b"nonsense").await.unwrap();
                if !answered {
                    let answer = head(&mut client).await;
                    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
                }
            } else {
                drop(client);
            }
            end(&mut server).await;
            assert_eq!(proxy.log(), "", "nothing is wrong with the server");
        }
    });
}

#[test]
fn a_server_that_takes_no_more_of_a_body_is_answered_for_with_504() {
    with(|| async {
        let (listener, proxy) = before(impatient(), |_| ()).await;
        let mut client = client(&proxy, &post("Content-Length: 1000000000")).await;
        let _server = server(&listener).await;
        let piece = vec![b'x'; 1 << 20];
        let sending = async {
            loop {
                if let Err(error) = client.write_all(&piece).await {
                    return error.kind();
                }
            }
        };
        // The upload ends when the time for the response is over.
        let kind = timeout(TEST_TIMEOUT * 3, sending).await.expect("the connection ends");
        assert!(matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{kind}");
        assert_eq!(*proxy.statuses.borrow(), [504]);
        assert!(proxy.log().contains("the request could not be sent in time"), "{}", proxy.log());
    });
}

#[test]
fn a_client_that_pauses_costs_the_server_no_time() {
    with(|| async {
        // Longer than a busy machine takes for the answer.
        let limit = Duration::from_secs(3);
        let patience = Timeouts { first_byte: limit, read: limit, ..timeouts() };
        let (listener, proxy) = before(patience, |_| ()).await;
        let mut client = client(&proxy, &post("Content-Length: 2")).await;
        let mut server = server(&listener).await;
        head(&mut server).await;
        for piece in ["a", "b"] {
            sleep(limit * 4 / 3).await;
            client.write_all(piece.as_bytes()).await.unwrap();
            exactly(&mut server, piece).await;
        }
        server.write_all(OK.as_bytes()).await.unwrap();
        assert!(head(&mut client).await.starts_with("HTTP/1.1 200 "));
    });
}

#[test]
fn a_body_is_never_sent_to_a_second_server() {
    with(|| async {
        let (one, two) = (Backend::new([close("")]).await, Backend::new([close("")]).await);
        let mut upstream = several(&[&one, &two], 2, 0);
        upstream.config.request_buffering = false;
        let proxy = Proxy::new(upstream, timeouts()).await;
        let asked = post("Connection: close\r\nContent-Length: 3") + "abc";
        assert_eq!(status(&proxy.talk(asked.replace("POST", "PUT")).await), 502);
        assert_eq!(one.requests() + two.requests(), 1);
    });
}

#[test]
fn a_server_that_is_not_there_costs_nothing_of_a_body() {
    with(|| async {
        let two = Backend::new([close(OK)]).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let one = Backend { address: listener.local_addr().unwrap(), ..two.clone() };
        drop(listener);
        let mut upstream = several(&[&one, &two], 2, 0);
        upstream.config.request_buffering = false;
        let proxy = Proxy::new(upstream, timeouts()).await;
        for _ in 0..2 {
            let asked = post("Connection: close\r\nContent-Length: 3") + "abc";
            assert_eq!(status(&proxy.talk(asked).await), 200);
        }
        assert!(
            two.seen.borrow().iter().all(|seen| seen.ends_with("\r\n\r\nabc")),
            "{:?}",
            two.seen
        );
    });
}
