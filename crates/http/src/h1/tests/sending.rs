//! Response bodies: all kinds, all lengths, and those with a wrong length.

use std::fs::File;
use std::io::Write;

use tokio::sync::mpsc;

use super::*;
use crate::body::Piece;

const ZERO: Duration = Duration::ZERO;

fn file(len: usize) -> (tempfile::NamedTempFile, Vec<u8>) {
    let bytes: Vec<u8> = (0..len as u32).flat_map(|n| n.to_le_bytes()).take(len).collect();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&bytes).unwrap();
    (file, bytes)
}

fn piece(file: &tempfile::NamedTempFile, offset: u64, len: u64) -> Piece {
    Piece::File { file: Arc::new(File::open(file.path()).unwrap()), offset, len }
}

/// Decodes a chunked body.
fn dechunk(mut text: &str) -> String {
    let mut body = String::new();
    loop {
        let (size, rest) = text.split_once("\r\n").expect("no chunk");
        let size = usize::from_str_radix(size, 16).expect("no size");
        body.push_str(&rest[..size]);
        text = rest[size..].strip_prefix("\r\n").expect("no end of chunk");
        if size == 0 {
            assert_eq!(text, "");
            return body;
        }
    }
}

#[test]
fn bodies_of_all_sizes_arrive_whole() {
    with_default(|server| async move {
        let mut client = server.client().await;
        for len in [0, 1, 16 * 1024, 16 * 1024 + 1, 64 * 1024, 100_000, 5_000_000] {
            let body: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
            server.answer(Bytes::from(body.clone()).into());
            client.send("GET /body HTTP/1.1\r\nHost: a\r\n\r\n").await;
            assert!(client.reply().await.body == body, "{len}");
        }
    });
}

#[test]
fn bytes_whose_length_is_not_told_are_one_chunk() {
    with_default(|server| async move {
        for len in [0, 1, 16 * 1024, 16 * 1024 + 1, 100_000] {
            let body = "x".repeat(len);
            for request in ["GET /untold HTTP/1.1", "HEAD /untold HTTP/1.1", "GET /untold HTTP/1.0"]
            {
                server.answer(Bytes::from(body.clone()).into());
                let answer =
                    server.talk(format!("{request}\r\nHost: a\r\nConnection: close\r\n\r\n")).await;
                let (head, sent) = answer.split_once("\r\n\r\n").unwrap();
                let chunked = request.ends_with("1.1") && len > 0;
                assert_eq!(
                    head.contains("\r\nTransfer-Encoding: chunked"),
                    chunked,
                    "{request} {len}"
                );
                let length = format!("\r\nContent-Length: {len}\r\n");
                assert_eq!(format!("{head}\r\n").contains(&length), !chunked, "{request} {len}");
                match (request.starts_with("HEAD"), chunked) {
                    (true, _) => assert_eq!(sent, ""),
                    (_, true) => {
                        assert!(sent == format!("{len:x}\r\n{body}\r\n0\r\n\r\n"), "{len}")
                    }
                    (_, false) => assert!(sent == body, "{len}"),
                }
            }
        }
        assert!(server.ended().iter().all(|(_, outcome)| *outcome == SendOutcome::Complete));
    });
}

#[test]
fn files_of_all_sizes_arrive_whole() {
    with_default(|server| async move {
        let mut client = server.client().await;
        for len in [1, 1000, 64 * 1024 - 1, 64 * 1024, 64 * 1024 + 1, 1_048_576, 5_000_001] {
            let (file, bytes) = file(len);
            server.answer(Body::Pieces(vec![piece(&file, 0, len as u64)]));
            client.send("GET /body HTTP/1.1\r\nHost: a\r\n\r\n").await;
            assert!(client.reply().await.body == bytes, "{len}");
        }
        assert!(server.ended().iter().all(|(_, outcome)| *outcome == SendOutcome::Complete));
    });
}

#[test]
fn a_file_larger_than_the_socket_takes_at_once_arrives_whole() {
    with_default(|server| async move {
        let mut client = server.client().await;
        let (file, bytes) = file(32 << 20);
        server.answer(Body::Pieces(vec![piece(&file, 0, bytes.len() as u64)]));
        client.send("GET /body HTTP/1.1\r\nHost: a\r\n\r\n").await;
        sleep(Duration::from_millis(200)).await; // until the socket is full
        assert!(client.reply().await.body == bytes);
    });
}

#[test]
fn a_file_that_is_not_cached_arrives_whole() {
    with_default(|server| async move {
        for len in [30_000, 3_000_000] {
            let (file, bytes) = file(len);
            file.as_file().sync_all().unwrap();
            let advice = rustix::fs::Advice::DontNeed;
            rustix::fs::fadvise(file.as_file(), 0, None, advice).unwrap();
            server.answer(Body::Pieces(vec![piece(&file, 0, len as u64)]));
            let mut client = server.client().await;
            client.send("GET /body HTTP/1.1\r\nHost: a\r\n\r\n").await;
            assert!(client.reply().await.body == bytes, "{len}");
        }
    });
}

#[test]
fn a_file_arrives_whole_where_the_kernel_cannot_send_it() {
    with_default(|server| async move {
        let (file, bytes) = file(1_000_000);
        server.answer(Body::Pieces(vec![piece(&file, 0, 1_000_000)]));
        let (mut client, stream) = tokio::net::UnixStream::pair().unwrap();
        let (site, draining) = (Rc::clone(&server.site), server.drain.register());
        let info = Arc::new(ConnectionInfo { tls: true, ..ConnectionInfo::default() });
        spawn_local(async move { serve(stream, info, &*site, draining).await });
        let request = "GET /body HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        client.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        assert!(answer.ends_with(&bytes));
        server.emptied().await;
    });
}

#[test]
fn pieces_of_files_and_memory_arrive_in_order() {
    with_default(|server| async move {
        let (file, bytes) = file(3_000_000);
        let pieces = vec![
            Piece::Bytes(Bytes::from_static(b"first")),
            piece(&file, 10, 100),
            Piece::Bytes(vec![b'x'; 50_000].into()),
            piece(&file, 1000, 2_500_000),
            Piece::Bytes(Bytes::from_static(b"last")),
        ];
        let expected =
            [b"first", &bytes[10..110], &[b'x'; 50_000], &bytes[1000..2_501_000], b"last"].concat();
        server.answer(Body::Pieces(pieces));
        let mut client = server.client().await;
        client.send("GET /body HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(client.reply().await.body == expected);
        assert_eq!(client.reply().await.text(), "hello\n");
    });
}

#[test]
fn a_file_that_shrinks_ends_the_connection() {
    with_default(|server| async move {
        for (len, left) in [(1000, 500), (200_000, 100_000), (3_000_000, 1_500_000), (70_000, 0)] {
            let (file, bytes) = file(len);
            server.answer(Body::Pieces(vec![piece(&file, 0, len as u64)]));
            file.as_file().set_len(left as u64).unwrap();
            let mut client = server.client().await;
            client.send("GET /body HTTP/1.1\r\nHost: a\r\n\r\n").await;
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
            let reply = client.head().await;
            assert_eq!(reply.field("Content-Length"), Some(len.to_string().as_str()));
            while client.read().await > 0 {}
            assert!(client.received.len() <= left && bytes.starts_with(&client.received), "{len}");
            assert_eq!(server.ended().pop(), Some((200, SendOutcome::BodyFailed)));
        }
        server.emptied().await;
    });
}

/// A stream of the pieces that a test sends.
struct Told(mpsc::UnboundedReceiver<String>);

impl BodyStream for Told {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        self.0.poll_recv(cx).map(|item| item.map(|item| Ok(item.into())))
    }

    fn len(&self) -> Option<u64> {
        None
    }
}

#[test]
fn a_stream_is_chunked_as_it_comes() {
    with_default(|server| async move {
        let (items, told) = mpsc::unbounded_channel();
        server.answer(Body::Stream(Box::new(Told(told))));
        let mut client = server.client().await;
        client.send("GET /body HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
        // The head does not wait for the body, nor a chunk for the next one.
        assert_eq!(client.head().await.field("Transfer-Encoding"), Some("chunked"));
        items.send("a".to_owned()).unwrap();
        assert_eq!(client.bytes(6).await, b"1\r\na\r\n");
        let large = "x".repeat(100_000);
        for item in [large.clone(), "b".to_owned()] {
            items.send(item).unwrap();
        }
        drop(items);
        assert_eq!(dechunk(&client.rest().await), format!("{large}b"));
    });
}

#[test]
fn a_stream_to_http_1_0_ends_with_the_connection() {
    with_default(|server| async move {
        server.answer(Body::Stream(Box::new(Script::new(None, ZERO, &["a", "b"]))));
        let answer = server.talk("GET /body HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(!head.contains("Connection"), "{head}");
        assert!(!head.contains("Content-Length") && !head.contains("Transfer-Encoding"), "{head}");
        assert_eq!(body, "ab");
    });
}

#[test]
fn a_body_longer_than_announced_is_cut() {
    with_default(|server| async move {
        let mut client = server.client().await;
        for items in [&["abcdef"][..], &["ab", "cdef"], &["abc", "def"]] {
            server.answer(Body::Stream(Box::new(Script::new(Some(3), ZERO, items))));
            client.send("GET /body HTTP/1.1\r\nHost: a\r\n\r\n").await;
            assert_eq!(client.reply().await.text(), "abc");
        }
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(client.reply().await.text(), "hello\n");
    });
}

#[test]
fn a_body_shorter_than_announced_ends_the_connection() {
    with_default(|server| async move {
        server.answer(Body::Stream(Box::new(Script::new(Some(30), ZERO, &["abc"]))));
        let answer = server.talk("GET /body HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(answer.contains("Content-Length: 30\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\nabc"), "{answer}");
        assert_eq!(server.ended(), [(200, SendOutcome::BodyFailed)]);
    });
}

#[test]
fn a_stream_that_fails_is_cut_where_the_client_can_see_it() {
    with_default(|server| async move {
        let mut script = Script::new(None, ZERO, &["abc"]);
        script.items.push_back(Err(io::Error::other("the script died")));
        server.answer(Body::Stream(Box::new(script)));
        let answer = server.talk("GET /body HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(answer.ends_with("\r\n\r\n3\r\nabc\r\n"), "{answer}");
        assert_eq!(server.ended(), [(200, SendOutcome::BodyFailed)]);
    });
}

#[test]
fn a_stream_ends_when_its_client_leaves() {
    with_default(|server| async move {
        let script = Script::new(None, Duration::from_secs(60), &["never"]);
        let dropped = Rc::clone(&script.dropped);
        server.answer(Body::Stream(Box::new(script)));
        let mut client = server.client().await;
        client.send("GET /body HTTP/1.1\r\nHost: a\r\n\r\n").await;
        client.head().await;
        drop(client);
        server.emptied().await;
        assert!(dropped.get());
        assert_eq!(server.ended(), [(200, SendOutcome::ClientGone)]);
    });
}

#[test]
fn a_stream_waits_for_its_client_with_bounded_memory() {
    struct Endless(Rc<Cell<usize>>);
    impl BodyStream for Endless {
        fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
            self.0.set(self.0.get() + 10_000);
            Poll::Ready(Some(Ok(Bytes::from(vec![b'x'; 10_000]))))
        }
        fn len(&self) -> Option<u64> {
            None
        }
    }
    with_default(|server| async move {
        let taken = Rc::new(Cell::new(0));
        server.answer(Body::Stream(Box::new(Endless(Rc::clone(&taken)))));
        let mut client = server.client().await;
        client.send("GET /body HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let rest = async {
            let mut before = 0;
            while taken.get() == 0 || taken.get() != before {
                before = taken.get();
                sleep(Duration::from_millis(300)).await;
            }
        };
        let rests = timeout(TEST_TIMEOUT, rest).await;
        rests.expect("more and more is taken from the stream while the client reads nothing");
        // Other connections are served meanwhile.
        let mut other = server.client().await;
        other.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(other.reply().await.status, 200);
        drop(client);
        drop(other);
        server.emptied().await;
    });
}
