//! Bodies in both directions, and malformed responses of a server.

use super::*;

#[test]
fn a_response_is_passed_on() {
    with(|| async {
        let backend = Backend::new([close(
            "HTTP/1.1 201 Made\r\nServer: x\r\nX-A: b\r\nContent-Length: 5\r\n\r\nhello",
        )])
        .await;
        let proxy = Proxy::before(&backend).await;
        let reply = proxy.get().await;
        assert!(reply.starts_with("HTTP/1.1 201 Made\r\nServer: Howdah\r\nDate: "), "{reply}");
        assert!(reply.contains("\r\nX-A: b\r\nContent-Length: 5\r\n"), "{reply}");
        assert_eq!(content(&reply), "hello");
        let seen = backend.seen.borrow();
        assert_eq!(*seen, ["GET /x HTTP/1.1\r\nConnection: close\r\nHost: a\r\n\r\n"]);
        assert_eq!(proxy.log(), "");
    });
}

#[test]
fn each_framing_of_a_body_is_understood() {
    with(|| async {
        for (answer, expected) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "abc"),
            ("HTTP/1.0 200 OK\r\n\r\nuntil the end", "until the end"),
            ("HTTP/1.1 200 OK\nContent-Length: 3\n\nabc", "abc"),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: \
                 chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: t\r\n\r\n",
                "abcde",
            ),
        ] {
            let whole = Backend::new([close(answer)]).await;
            let parts = answer.bytes().map(|byte| vec![byte]).collect();
            let pause = Duration::from_millis(1);
            let bytewise = Backend::new([Answer { parts, pause, ..close("") }]).await;
            for backend in [whole, bytewise] {
                let upstream = single(&Address::Inet(backend.address));
                let proxy = Proxy::new(upstream, timeouts()).await;
                let request = "GET / HTTP/1.0\r\n\r\n";
                assert_eq!(content(&proxy.talk(request).await), expected, "{answer}");
                assert_eq!(proxy.log(), "");
            }
        }
    });
}

#[test]
fn large_bodies_go_both_ways_at_once() {
    with(|| async {
        // Far more than all buffers hold: a peer that sends everything before it reads would block.
        let body = "0123456789abcdef".repeat(250_000);
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        for early in [true, false] {
            let backend = Backend::new([Answer { early, ..close(&answer) }]).await;
            let upstream = single(&Address::Inet(backend.address));
            let proxy = Proxy::new(upstream, timeouts()).await;
            let head = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length";
            let reply = proxy.talk(format!("{head}: {}\r\n\r\n{body}", body.len())).await;
            assert_eq!(status(&reply), 200);
            assert!(content(&reply) == body);
            let seen = backend.seen.borrow();
            assert!(early || content(&seen[0]) == body);
        }
    });
}

#[test]
fn a_chunked_request_leaves_with_its_length() {
    with(|| async {
        let backend = Backend::new([close("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")]).await;
        let proxy = Proxy::before(&backend).await;
        let head = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked";
        let reply = proxy.talk(format!("{head}\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")).await;
        assert_eq!(status(&reply), 200);
        let seen = backend.seen.borrow();
        assert!(seen[0].ends_with("\r\nContent-Length: 5\r\n\r\nabcde"), "{}", seen[0]);
        assert!(!seen[0].contains("chunked"), "{}", seen[0]);
    });
}

#[test]
fn answers_without_body_have_none() {
    with(|| async {
        for (request, answer, length) in [
            ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", Some("9")),
            ("GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", None),
            ("GET", "HTTP/1.1 204 No Content\r\n\r\n", None),
        ] {
            let backend = Backend::new([keep(answer)]).await;
            let proxy = Proxy::before(&backend).await;
            let request = format!("{request} / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            let reply = proxy.talk(request).await;
            assert_eq!(status(&reply), status(answer));
            assert_eq!(content(&reply), "");
            let found = reply.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            assert_eq!(found, length, "{reply}");
        }
    });
}

#[test]
fn interim_responses_are_passed_on_but_for_100() {
    with(|| async {
        let answer = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n\
                      HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let backend = Backend::new([close(answer)]).await;
        let proxy = Proxy::before(&backend).await;
        let reply = proxy.get().await;
        let start = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n";
        assert!(reply.starts_with(start), "{reply}");
    });
}

#[test]
fn what_is_no_response_is_answered_with_502() {
    with(|| async {
        let flood = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(100);
        let long = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "x".repeat(70_000));
        for answer in [
            "",
            "garbage",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
            "HTTP/1.1 200 OK\r\nA: b\rSet-Cookie: c=d\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nXX\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\nX",
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
            &flood,
            &long,
        ] {
            let backend = Backend::new([close(answer)]).await;
            let proxy = Proxy::before(&backend).await;
            // With HTTP/1.0 there are no interim responses.
            let reply = proxy.talk("GET /x HTTP/1.0\r\n\r\n").await;
            assert_eq!(status(&reply), 502, "{answer:?}");
            assert!(!reply.contains("Set-Cookie"), "{reply}");
            let log = proxy.log();
            let id = howdah_http::message::ShownRequestId(7);
            assert!(log.contains(&format!(" request {id}: GET /x (127.0.0.1:")), "{log}");
            assert_eq!(log.lines().count(), 1, "{log}");
        }
    });
}

#[test]
fn a_body_that_ends_too_soon_is_cut_for_the_client_too() {
    with(|| async {
        for (answer, end) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "\r\n\r\nabc"),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc",
                "\r\n\r\n3\r\nabc\r\n",
            ),
        ] {
            let backend = Backend::new([close(answer)]).await;
            let proxy = Proxy::before(&backend).await;
            let reply = proxy.get().await;
            assert_eq!(status(&reply), 200);
            assert!(reply.ends_with(end), "{reply}");
            assert!(proxy.log().contains("closed before the response ended"), "{}", proxy.log());
        }
    });
}

#[test]
fn a_server_that_says_nothing_is_answered_for_with_504() {
    with(|| async {
        let trickle = Answer { parts: vec![b"HTTP/1.1 ".to_vec()], ..keep("") };
        let hint = Answer { parts: vec![b"HTTP/1.1 102 P\r\n\r\n".to_vec(); 30], ..keep("") };
        for answer in [keep(""), trickle, hint] {
            let backend = Backend::new([answer]).await;
            let proxy = Proxy::within(impatient(), &backend).await;
            let reply = proxy.talk("GET / HTTP/1.0\r\n\r\n").await;
            assert_eq!(status(&reply), 504);
            assert!(proxy.log().contains("no response came in time"), "{}", proxy.log());
        }
    });
}

#[test]
fn a_body_that_stops_is_cut() {
    with(|| async {
        let answer = keep("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc");
        let brief = Timeouts { read: impatient().read, ..timeouts() };
        let proxy = Proxy::within(brief, &Backend::new([answer]).await).await;
        let reply = proxy.get().await;
        assert!(status(&reply) == 200 && reply.ends_with("\r\n\r\nabc"), "{reply}");
        assert!(proxy.log().contains("did not come in time"), "{}", proxy.log());
    });
}

#[test]
fn the_connection_ends_when_the_client_leaves() {
    with(|| async {
        let begun = keep("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc");
        for answer in [keep(""), begun] {
            let backend = Backend::new([answer]).await;
            let upstream = single(&Address::Inet(backend.address));
            let proxy = Proxy::new(upstream, timeouts()).await;
            let mut client = TcpStream::connect(proxy.address).await.unwrap();
            client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
            while backend.requests() == 0 {
                sleep(Duration::from_millis(5)).await;
            }
            sleep(Duration::from_millis(50)).await;
            assert_eq!(backend.closed.get(), 0);
            drop(client);
            let gone = async {
                while backend.closed.get() == 0 {
                    sleep(Duration::from_millis(5)).await;
                }
            };
            timeout(TEST_TIMEOUT, gone).await.expect("the connection stays");
            assert_eq!(proxy.log(), "");
        }
    });
}

#[test]
fn unix_sockets_are_asked_by_file_and_by_name() {
    with(|| async {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let name = format!("howdah-proxy-test-{}", std::process::id());
        let file = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let hidden = socket2::SockAddr::unix(format!("\0{name}")).unwrap();
        let socket =
            socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
        socket.bind(&hidden).unwrap();
        socket.listen(5).unwrap();
        for (listener, address) in
            [(file, Address::Unix(path)), (socket.into(), Address::Abstract(name))]
        {
            listener.set_nonblocking(true).unwrap();
            let listener = tokio::net::UnixListener::from_std(listener).unwrap();
            spawn_local(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    stream.read_buf(&mut head).await.unwrap();
                }
                stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nunix").await.unwrap();
            });
            let proxy = Proxy::new(single(&address), timeouts()).await;
            assert_eq!(content(&proxy.talk("GET / HTTP/1.0\r\n\r\n").await), "unix");
        }
    });
}

#[test]
fn a_full_backlog_of_a_unix_socket_is_waited_for() {
    with(|| async {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener =
            socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
        listener.bind(&socket2::SockAddr::unix(&path).unwrap()).unwrap();
        listener.listen(0).unwrap();
        let occupant = std::os::unix::net::UnixStream::connect(&path).unwrap();
        let proxy = Proxy::new(single(&Address::Unix(path)), timeouts()).await;
        spawn_local(async move {
            sleep(Duration::from_millis(100)).await;
            drop((listener.accept().unwrap(), occupant));
            listener.set_nonblocking(true).unwrap();
            let listener = tokio::net::UnixListener::from_std(listener.into()).unwrap();
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nlate").await.unwrap();
            let _ = stream.read(&mut [0; 1000]).await;
        });
        assert_eq!(content(&proxy.talk("GET / HTTP/1.0\r\n\r\n").await), "late");
    });
}
