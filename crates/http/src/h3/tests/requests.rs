//! Requests and responses.

use super::*;

#[test]
fn a_request_is_answered() {
    run(async {
        let client = Client::connect();
        let answer = client.get("/a?b=1").await;
        assert_eq!(answer.status(), Some("200"));
        assert_eq!(answer.text(), "GET|/a?b=1|a|HTTP/3.0|Some(0)||");
        let head = &answer.sections[0];
        for line in ["server: Howdah", "x-seen: 1", "content-length: 31"] {
            assert!(head.lines().any(|other| other == line), "{line}: {head}");
        }
        assert!(head.contains("\ndate: "), "{head}");
        assert_eq!(client.teller.0.records.borrow()[0].2, SendOutcome::Complete);
        // The server's control stream: its type, and SETTINGS.
        assert_eq!(client.wire.received(3)[..2], [0, 4]);
        assert_eq!(client.wire.ended(3), None);
    });
}

#[test]
fn a_body_arrives_in_any_pieces_with_its_trailer() {
    run(async {
        let client = Client::connect();
        let trailer = frame(kind::HEADERS, &section(&[("x-sum", "5")]));
        let frames = [
            head("POST", "/up", &[("content-length", "4")]),
            data(b"ab"),
            data(b""),
            frame(0x21, b"reserved"),
            data(b"cd"),
            trailer,
        ]
        .concat();
        for size in [1, 3, 1000] {
            let id = client.wire.open();
            for piece in frames.chunks(size) {
                client.wire.send(id, piece);
                yield_now().await;
            }
            client.wire.finish(id);
            let answer = client.answer(id).await;
            assert_eq!(answer.status(), Some("200"), "{answer:?}");
            let text = answer.text();
            assert!(text.ends_with("|Some(4)|abcd|x-sum: 5\r\n"), "{size}: {text}");
        }
        // Without an announced length.
        let id = client.wire.open();
        client.wire.send(id, head("POST", "/up", &[]));
        for _ in 0..3 {
            client.wire.send(id, data(b"xyz"));
            yield_now().await;
        }
        client.wire.finish(id);
        assert!(client.answer(id).await.text().ends_with("|None|xyzxyzxyz|"));
    });
}

#[test]
fn a_response_waits_for_its_client_with_one_piece() {
    run(async {
        let client = Client::connect();
        client.wire.set_window(50_000);
        let id = client.request(&[get("/large")]);
        until(|| client.wire.received(id).len() == 50_000).await;
        assert_eq!(client.wire.ended(id), None);
        // Others are sent meanwhile.
        assert_eq!(client.get("/").await.status(), Some("200"));
        client.wire.set_window(usize::MAX);
        let answer = client.answer(id).await;
        assert_eq!((answer.status(), answer.body.len()), (Some("200"), 300_000));
    });
}

#[test]
fn a_client_that_takes_nothing_loses_its_response() {
    run(async {
        let limits = Limits { send_timeout: Duration::from_millis(50), ..Limits::default() };
        let client = Client::connect_with(limits);
        client.wire.set_window(1000);
        let id = client.request(&[get("/large")]);
        let answer = client.answer(id).await;
        assert_eq!(answer.end, Some(End::Reset(Code::InternalError.number())));
        until(|| !client.teller.0.records.borrow().is_empty()).await;
        assert_eq!(client.teller.0.records.borrow()[0].2, SendOutcome::ClientGone);
    });
}

#[test]
fn pieces_of_a_producer_and_interim_responses_are_sent_as_they_come() {
    run(async {
        let client = Client::connect();
        let answer = client.get("/slow").await;
        assert_eq!((answer.status(), &*answer.text()), (Some("200"), "piece piece "));
        let answer = client.get("/hints").await;
        assert_eq!(answer.sections.len(), 2, "{answer:?}");
        assert_eq!(answer.sections[0], ":status: 103\nlink: </a.css>");
        assert_eq!(answer.status(), Some("200"));
        let expects = [("expect", "100-continue"), ("content-length", "2")];
        let id = client.wire.open();
        client.wire.send(id, head("POST", "/up", &expects));
        until(|| !client.wire.received(id).is_empty()).await;
        assert_eq!(client.answer_so_far(id).sections, [":status: 100"]);
        client.wire.send(id, data(b"ok"));
        client.wire.finish(id);
        assert!(client.answer(id).await.text().ends_with("|Some(2)|ok|"));
    });
}

#[test]
fn methods_are_those_of_http_1_and_tunnels_are_refused() {
    run(async {
        let client = Client::connect();
        let id = client.request(&[head("HEAD", "/a", &[])]);
        let answer = client.answer(id).await;
        assert_eq!((answer.status(), answer.body.len()), (Some("200"), 0));
        assert!(answer.sections[0].contains("content-length: "));
        for (method, status) in [("get", "400"), ("CONNECT", "400"), ("PROPFIND", "200")] {
            let id = client.request(&[head(method, "/", &[])]);
            assert_eq!(client.answer(id).await.status(), Some(status), "{method}");
        }
        let connect = section(&[(":method", "CONNECT"), (":authority", "a:443")]);
        let id = client.request(&[frame(kind::HEADERS, &connect)]);
        assert_eq!(client.answer(id).await.status(), Some("405"));
        let websocket = section(&[
            (":method", "CONNECT"),
            (":protocol", "websocket"),
            (":scheme", "https"),
            (":authority", "a"),
            (":path", "/"),
        ]);
        let id = client.wire.open();
        client.wire.send(id, frame(kind::HEADERS, &websocket));
        assert_eq!(client.answer(id).await.status(), Some("501"));
    });
}

#[test]
fn an_early_answer_stops_the_upload_without_an_error() {
    run(async {
        let client = Client::connect();
        let id = client.wire.open();
        client.wire.send(id, head("POST", "/early", &[("content-length", "1000000")]));
        client.wire.send(id, data(&[b'x'; 5000]));
        let answer = client.answer(id).await;
        assert_eq!((answer.status(), &*answer.text()), (Some("413"), "too much"));
        for _ in 0..20 {
            client.wire.send(id, data(&[b'x'; 5000]));
        }
        until(|| client.wire.stop_code(id).is_some()).await;
        assert_eq!(client.wire.stop_code(id), Some(Code::NoError.number()));
        assert_eq!(client.get("/").await.status(), Some("200"), "the connection goes on");
    });
}

#[test]
fn a_client_that_cancels_ends_its_handler() {
    run(async {
        let client = Client::connect();
        let waiting = || client.teller.0.waiting.get();
        let stopped = client.request(&[get("/wait")]);
        let other = client.request(&[get("/wait")]);
        until(|| waiting() == 2).await;
        client.wire.stop(stopped);
        until(|| waiting() == 1).await;
        assert_eq!(client.wire.ended(other), None);
        client.wire.leave();
        until(|| waiting() == 0 && client.served.get()).await;
        assert!(client.teller.0.misbehaviour.borrow().is_none(), "that is no mistake");
    });
}

#[test]
fn an_upload_that_is_reset_is_an_error_of_its_body() {
    run(async {
        let client = Client::connect();
        let id = client.wire.open();
        client.wire.send(id, head("POST", "/up", &[("content-length", "50000")]));
        client.wire.send(id, data(b"half"));
        until(|| !client.teller.0.peers.borrow().is_empty()).await;
        client.wire.reset(id);
        let status = RequestError::from(BodyError::Closed).status().to_string();
        assert_eq!(client.answer(id).await.status(), Some(&*status));
    });
}

#[test]
fn requests_see_the_address_that_was_validated_last() {
    run(async {
        let client = Client::connect();
        client.get("/").await;
        client.wire.move_to(([198, 51, 100, 7], 9).into());
        client.get("/").await;
        assert_eq!(*client.teller.0.peers.borrow(), ["192.0.2.1:4433", "198.51.100.7:9"]);
    });
}

#[test]
fn a_trailer_of_a_response_is_sent_behind_its_body() {
    run(async {
        let client = Client::connect();
        let answer = client.get("/trailer").await;
        assert_eq!(answer.sections.last().map(String::as_str), Some("grpc-status: 0"));
        assert_eq!((answer.sections.len(), &*answer.text()), (2, "body"));
    });
}
