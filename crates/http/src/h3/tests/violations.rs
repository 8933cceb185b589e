//! What the standard forbids, with the code that it demands.

use super::*;

/// Sends frames on a request stream, and its end. Returns the code of the connection's end.
async fn on_request(frames: &[Vec<u8>]) -> Option<u64> {
    let client = Client::connect();
    let id = client.request(frames);
    until(|| client.wire.closed().is_some() || client.wire.ended(id).is_some()).await;
    // The rest of the stream is read behind the response.
    for _ in 0..50 {
        yield_now().await;
    }
    let code = client.wire.closed().map(|(code, _)| code);
    if code.is_some() {
        until(|| client.served.get()).await;
        assert!(client.teller.0.misbehaviour.borrow().is_some(), "it is logged");
    }
    code
}

/// Sends bytes on unidirectional streams of a new connection. Returns the code.
async fn on_streams(streams: &[&[u8]]) -> Option<u64> {
    let client = Client::connect_with(Limits::default());
    for bytes in streams {
        let id = client.wire.open_uni();
        client.wire.send(id, bytes);
    }
    for _ in 0..50 {
        yield_now().await;
    }
    let code = client.wire.closed().map(|(code, _)| code);
    if code.is_none() {
        assert_eq!(client.get("/").await.status(), Some("200"), "the connection goes on");
    }
    code
}

/// Type and payload.
type ControlFrame<'a> = (u64, &'a [u8]);

fn control(frames: &[ControlFrame<'_>]) -> Vec<u8> {
    let frames: Vec<_> = frames.iter().map(|(kind, payload)| frame(*kind, payload)).collect();
    [&[0][..], &frames.concat()].concat()
}

const SETTINGS: ControlFrame<'_> = (kind::SETTINGS, &[]);

#[test]
fn a_body_of_another_length_than_announced_is_malformed() {
    run(async {
        // The second handler does not read the body.
        for path in ["/up", "/early"] {
            let with = |length: &str| head("POST", path, &[("content-length", length)]);
            let twice = [("content-length", "3"), ("content-length", "3")];
            for frames in [
                vec![with("4"), data(b"abc")],
                vec![with("2"), data(b"abc")],
                vec![with("3")],
                vec![with("0"), data(b"a")],
                vec![with("+3"), data(b"abc")],
                vec![head("POST", path, &twice), data(b"abc")],
                vec![head("GET", path, &[("content-length", "3")])],
                vec![with("3"), data(b"abc"), frame(kind::HEADERS, &section(&[(":path", "/")]))],
                vec![with("3"), data(b"abc"), frame(kind::HEADERS, &section(&[("te", "gzip")]))],
            ] {
                let client = Client::connect();
                let id = client.request(&frames);
                let answer = client.answer(id).await;
                assert_eq!(answer.status(), Some("400"), "{frames:x?}: {answer:?}");
                assert!(client.wire.closed().is_none());
            }
        }
        // The end of a short body may come later.
        for path in ["/up", "/early"] {
            let client = Client::connect();
            let id = client.wire.open();
            client.wire.send(id, head("POST", path, &[("content-length", "5")]));
            client.wire.send(id, data(b"abc"));
            for _ in 0..20 {
                yield_now().await;
            }
            client.wire.finish(id);
            assert_eq!(client.answer(id).await.status(), Some("400"), "{path}");
        }
        // The error is known only when the handler has begun.
        let client = Client::connect();
        let id = client.wire.open();
        client.wire.send(id, head("POST", "/up", &[("content-length", "50000")]));
        client.wire.send(id, data(b"abc"));
        until(|| !client.teller.0.peers.borrow().is_empty()).await;
        client.wire.finish(id);
        let answer = client.answer(id).await;
        assert_eq!(answer.end, Some(End::Reset(Code::MessageError.number())));
        assert_eq!(client.teller.0.records.borrow()[0].0, 400);
    });
}

#[test]
fn a_malformed_head_is_refused_and_the_connection_goes_on() {
    run(async {
        let client = Client::connect();
        for more in [
            ("connection", "close"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "x"),
            ("te", "gzip"),
            ("X-A", "1"),
            ("x-a", "1\r\nx-b: 2"),
            (":status", "200"),
            (":path", "/other"),
            ("host", "other"),
        ] {
            let id = client.request(&[head("GET", "/", &[more])]);
            assert_eq!(client.answer(id).await.status(), Some("400"), "{more:?}");
        }
        for fields in [
            &[(":method", "GET"), (":authority", "a"), (":path", "/")][..],
            &[(":method", "GET"), (":scheme", "https"), ("x", "1"), (":path", "/")],
            &[(":method", "GET"), (":scheme", "https"), (":authority", "u@a"), (":path", "/")],
        ] {
            let id = client.request(&[frame(kind::HEADERS, &section(fields))]);
            assert_eq!(client.answer(id).await.status(), Some("400"), "{fields:?}");
        }
        assert_eq!(client.get("/").await.status(), Some("200"));
        assert!(client.teller.0.misbehaviour.borrow().is_none());
    });
}

#[test]
fn a_head_that_is_too_long_is_refused_while_it_arrives() {
    run(async {
        let client = Client::connect();
        let id = client.wire.open();
        let mut bytes = vec![1, 0x80, 0xff, 0xff, 0xff]; // HEADERS of 16 MB
        bytes.extend_from_slice(&[0, 0]);
        bytes.extend_from_slice(&[0xd1; 5000]);
        client.wire.send(id, bytes);
        assert_eq!(client.answer(id).await.status(), Some("431"));
        assert_eq!(client.wire.stop_code(id), Some(Code::NoError.number()));
        let many: Vec<_> = (0..150).map(|_| ("x", "1")).collect();
        let id = client.request(&[head("GET", "/", &many)]);
        assert_eq!(client.answer(id).await.status(), Some("431"));
        assert_eq!(client.get("/").await.status(), Some("200"));
    });
}

#[test]
fn frames_in_the_wrong_place_end_the_connection() {
    run(async {
        let trailer = frame(kind::HEADERS, &section(&[("x", "1")]));
        let unexpected = Some(Code::FrameUnexpected.number());
        for path in ["/", "/early"] {
            let head = head("POST", path, &[]);
            for frames in [
                vec![data(b"x"), head.clone()],
                vec![head.clone(), trailer.clone(), data(b"x")],
                vec![head.clone(), data(b"y"), trailer.clone(), trailer.clone()],
            ] {
                assert_eq!(on_request(&frames).await, unexpected, "{path} {frames:x?}");
            }
            for kind in [0x2, 0x3, 0x4, 0x5, 0x6, 0x7, 0x8, 0x9, 0xd, 0xf0700] {
                let frames = [head.clone(), frame(kind, &[0])];
                assert_eq!(on_request(&frames).await, unexpected, "{path} {kind:x}");
            }
        }
        let whole = [get("/"), data(b"abc")].concat();
        for end in [1, 5, get("/").len() + 1, whole.len() - 1] {
            let cut = [whole[..end].to_vec()];
            assert_eq!(on_request(&cut).await, Some(Code::FrameError.number()), "{end}");
        }
        for section in [&[0, 0, 0x80][..], &[1, 0, 0xd1], &[], &[0, 0, 0x51, 0x81, 0]] {
            let failed = Some(Code::QpackDecompressionFailed.number());
            assert_eq!(on_request(&[frame(kind::HEADERS, section)]).await, failed, "{section:x?}");
        }
    });
}

#[test]
fn a_stream_that_ends_before_its_head_is_incomplete() {
    run(async {
        let client = Client::connect();
        for bytes in [Vec::new(), frame(0x21, b"reserved")] {
            let id = client.request(&[bytes]);
            let end = client.answer(id).await.end;
            assert_eq!(end, Some(End::Reset(Code::RequestIncomplete.number())));
        }
        assert_eq!(client.get("/").await.status(), Some("200"));
    });
}

#[test]
fn unidirectional_streams_are_those_of_a_client_and_each_exists_once() {
    run(async {
        let creation = Some(Code::StreamCreationError.number());
        let settings = control(&[SETTINGS]);
        assert_eq!(on_streams(&[&settings, &[2], &[3, 0x40], &[0x40]]).await, None);
        assert_eq!(on_streams(&[&settings, &settings]).await, creation);
        assert_eq!(on_streams(&[&settings, &[2], &[2]]).await, creation);
        assert_eq!(on_streams(&[&settings, &[3], &[3]]).await, creation);
        assert_eq!(on_streams(&[&settings, &[1, 0]]).await, creation);
        // Other types are refused and ignored.
        let client = Client::connect();
        for bytes in [&[0x21][..], &[0x40, 0x54, 1, 2, 3], &[0xc0, 0, 0, 0, 0, 0, 0, 99]] {
            let id = client.wire.open_uni();
            client.wire.send(id, bytes);
            until(|| client.wire.stop_code(id).is_some()).await;
            assert_eq!(client.wire.stop_code(id), creation);
        }
        assert_eq!(client.get("/").await.status(), Some("200"));
    });
}

#[test]
fn streams_that_the_connection_needs_stay_open() {
    run(async {
        let settings = control(&[SETTINGS]);
        for (bytes, is_reset) in [
            (&settings[..], true),
            (&settings, false),
            (&settings[..2], false),
            (&[2], false),
            (&[2], true),
            (&[3], false),
        ] {
            let client = Client::connect_with(Limits::default());
            let id = client.wire.open_uni();
            client.wire.send(id, bytes);
            for _ in 0..20 {
                yield_now().await;
            }
            if is_reset {
                client.wire.reset(id)
            } else {
                client.wire.finish(id)
            }
            assert_eq!(client.code().await, Some(Code::ClosedCriticalStream.number()));
        }
        // A stream that ends before its type.
        let client = Client::connect();
        let id = client.wire.open_uni();
        client.wire.send(id, [0x40]);
        client.wire.finish(id);
        assert_eq!(client.get("/").await.status(), Some("200"));
    });
}

#[test]
fn frames_of_the_control_stream_are_checked() {
    run(async {
        let max_push = kind::MAX_PUSH_ID;
        let cases: &[(&[ControlFrame<'_>], Code)] = &[
            (&[(kind::GOAWAY, &[0])], Code::MissingSettings),
            (&[(0x21, b"x")], Code::MissingSettings),
            (&[SETTINGS, SETTINGS], Code::FrameUnexpected),
            (&[(kind::SETTINGS, &[2, 0])], Code::SettingsError),
            (&[(kind::SETTINGS, &[6, 0, 6, 0])], Code::SettingsError),
            (&[(kind::SETTINGS, &[6])], Code::FrameError),
            (&[SETTINGS, (max_push, &[5]), (max_push, &[4])], Code::IdError),
            (&[SETTINGS, (kind::CANCEL_PUSH, &[0])], Code::IdError),
            (&[SETTINGS, (kind::GOAWAY, &[0]), (kind::GOAWAY, &[4])], Code::IdError),
            (&[SETTINGS, (kind::GOAWAY, &[0, 0])], Code::FrameError),
            (&[SETTINGS, (max_push, &[])], Code::FrameError),
            (&[SETTINGS, (kind::DATA, b"x")], Code::FrameUnexpected),
            (&[SETTINGS, (kind::HEADERS, &[0, 0])], Code::FrameUnexpected),
            (&[SETTINGS, (0x6, &[])], Code::FrameUnexpected),
            (&[SETTINGS, (kind::PRIORITY_UPDATE, &[2])], Code::IdError),
            (&[SETTINGS, (kind::PRIORITY_UPDATE, &[0x41, 0x90])], Code::IdError),
        ];
        for (frames, code) in cases {
            let found = on_streams(&[&control(frames)]).await;
            assert_eq!(found, Some(code.number()), "{frames:x?}");
        }
        let good = [SETTINGS, (max_push, &[5]), (0x21, &[0; 100]), (kind::GOAWAY, &[0])];
        assert_eq!(on_streams(&[&control(&good)]).await, None);
    });
}

#[test]
fn instructions_of_qpack_are_read() {
    run(async {
        let encoder = Some(Code::QpackEncoderStreamError.number());
        let decoder = Some(Code::QpackDecoderStreamError.number());
        for (bytes, code) in [
            (&[2, 0x3f, 0xe1, 0x1f][..], encoder),
            (&[2, 0xc0, 1, b'x'], encoder),
            (&[2, 0x00], encoder),
            (&[2, 0x20], None),
            (&[3, 0x80], decoder),
            (&[3, 0x00], decoder),
            (&[3, 0x01], decoder),
            (&[3, 0x44], None),
        ] {
            assert_eq!(on_streams(&[bytes]).await, code, "{bytes:x?}");
        }
    });
}
