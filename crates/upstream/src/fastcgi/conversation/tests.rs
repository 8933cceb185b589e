use std::io::{Read, Seek, Write};
use std::os::unix::net;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use howdah_sys::log::{Level, Log};
use tokio::net::UnixStream;

use super::*;
use crate::fastcgi::messages::MAX_MESSAGE;
use crate::log_limit::LogLimit;
use crate::transfer::response_buffer::MAX_TURN_PIECES;

const TEST_TIMEOUT: Duration = Duration::from_secs(3600);

/// A conversation with a server that the test implements.
struct Both {
    conversation: Conversation<&'static str>,
    server: net::UnixStream,
    log: std::fs::File,
}

impl Both {
    fn new(limit: &Arc<LogLimit>) -> Both {
        let (ours, server) = net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let stream = Stream::B(UnixStream::from_std(ours).unwrap());
        let log = tempfile::tempfile().unwrap();
        let writer = Arc::new(Log::new(log.try_clone().unwrap().into()));
        let timeouts = Timeouts {
            send: TEST_TIMEOUT,
            first_byte: TEST_TIMEOUT,
            read: TEST_TIMEOUT,
            ..Timeouts::default()
        };
        let messages = Messages::new("site", &writer, limit);
        let upload = Upload::without_body(b"request".to_vec(), StdinRecords);
        let conversation = Conversation::new(stream, upload, &timeouts, Timer::default(), messages);
        Both { conversation, server, log }
    }

    async fn part(&mut self) -> Part {
        std::future::poll_fn(|cx| self.conversation.poll_part(cx)).await.unwrap()
    }

    fn log(&mut self) -> String {
        let mut text = String::new();
        self.log.rewind().unwrap();
        self.log.read_to_string(&mut text).unwrap();
        text
    }
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[1, kind, 0, 1, high, low, 0, 0], content].concat()
}

fn end() -> Vec<u8> {
    record(3, &[0; 8])
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test);
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn of_short_and_empty_records_few_are_taken_at_once() {
    for (kind, content, given) in [(6, &b"x"[..], 5000), (6, b"", 0), (7, b"y", 0)] {
        run(async {
            let mut both = Both::new(&Arc::default());
            both.server.write_all(&record(kind, content).repeat(5000)).unwrap();
            both.server.write_all(&end()).unwrap();
            let (mut output, mut turns) = (0, 0);
            loop {
                let woken = Arc::new(Woken::default());
                let waker = Waker::from(Arc::clone(&woken));
                match both.conversation.poll_part(&mut Context::from_waker(&waker)) {
                    Poll::Ready(Ok(Part::Output(bytes))) => {
                        assert!((1..=MAX_TURN_PIECES).contains(&bytes.len()), "{}", bytes.len());
                        output += bytes.len();
                    }
                    Poll::Ready(Ok(Part::End)) => break,
                    Poll::Ready(Err(failure)) => panic!("{failure}"),
                    Poll::Pending => {
                        turns += 1;
                        tokio::task::yield_now().await;
                    }
                }
            }
            assert_eq!(output, given);
            assert!(turns >= 5000 / MAX_TURN_PIECES, "{turns} turns for {kind} {content:?}");
        });
    }
}

#[test]
fn much_output_is_not_copied_and_all_comes_in_order() {
    run(async {
        let mut both = Both::new(&Arc::default());
        let large = vec![b'L'; 20_000];
        let answer =
            [record(6, b"a"), record(6, b"b"), record(6, &large), record(6, b"c"), end()].concat();
        both.server.write_all(&answer).unwrap();
        let mut all = Vec::new();
        let mut lengths = Vec::new();
        while let Part::Output(bytes) = both.part().await {
            lengths.push(bytes.len());
            all.extend_from_slice(&bytes);
        }
        assert_eq!(all, [b"ab", &large[..], b"c"].concat());
        assert_eq!((lengths.first(), lengths.last()), (Some(&2), Some(&1)), "{lengths:?}");
    });
}

#[test]
fn what_came_before_nonsense_is_given() {
    run(async {
        let mut both = Both::new(&Arc::default());
        both.server.write_all(&[record(6, b"before"), vec![9; 8]].concat()).unwrap();
        assert!(matches!(both.part().await, Part::Output(bytes) if bytes == "before"));
        let next = std::future::poll_fn(|cx| both.conversation.poll_part(cx)).await;
        assert!(matches!(next, Err(Failure::Malformed(_))), "{next:?}");
    });
}

#[test]
fn short_records_for_the_log_are_one_record_there() {
    run(async {
        let mut both = Both::new(&Arc::default());
        let text = "one message of a script that is sent byte by byte";
        let records: Vec<u8> = text.bytes().flat_map(|byte| record(7, &[byte])).collect();
        both.server.write_all(&[records, record(7, b"\n\n"), end()].concat()).unwrap();
        assert!(matches!(both.part().await, Part::End));
        let log = both.log();
        assert_eq!(log.lines().count(), 1, "{log}");
        assert!(log.ends_with(&format!("[error] {0}#{0} site: {text}\n", std::process::id())));
    });
}

#[test]
fn a_line_is_in_the_log_before_the_answer_ends_and_the_rest_when_it_is_cut() {
    run(async {
        let mut both = Both::new(&Arc::default());
        both.server.write_all(&record(7, b"first\nsecond")).unwrap();
        while !both.log().ends_with("site: first\n") {
            let mut cx = Context::from_waker(Waker::noop());
            assert!(both.conversation.poll_part(&mut cx).is_pending());
            tokio::task::yield_now().await;
        }
        let Both { conversation, mut log, .. } = both;
        drop(conversation);
        let mut text = String::new();
        log.rewind().unwrap();
        log.read_to_string(&mut text).unwrap();
        assert!(text.ends_with("site: second\n"), "{text}");
    });
}

#[test]
fn a_server_without_room_in_the_log_waits_and_nothing_is_lost() {
    run(async {
        let limit: Arc<LogLimit> = Arc::default();
        let elsewhere = Log::new(tempfile::tempfile().unwrap().into());
        let mut both = Both::new(&limit);
        let much = "z".repeat(1 << 20);
        while limit.wait() < Duration::from_millis(300) {
            limit.write(&elsewhere, Level::Error, format_args!("{much}"));
        }
        let sent = 20 * 60_000;
        both.server.set_nonblocking(true).unwrap();
        let flood = [record(7, &[b'f'; 60_000]).repeat(20), end()].concat();
        let mut rest = &flood[..];
        let mut before = Some(());
        loop {
            match both.server.write(rest) {
                Ok(n) => rest = &rest[n..],
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
            }
            let room_at = Instant::now() + limit.wait();
            let mut cx = Context::from_waker(Waker::noop());
            let poll = both.conversation.poll_part(&mut cx);
            assert!(both.conversation.messages.len() < 2 * MAX_MESSAGE, "it is bounded");
            if before.is_some() && Instant::now() < room_at {
                assert_eq!(both.log(), "", "there is no room yet");
            } else {
                before = None;
            }
            match poll {
                Poll::Ready(Ok(Part::End)) => break,
                Poll::Ready(other) => panic!("{other:?}"),
                Poll::Pending => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
        assert!(rest.is_empty());
        let log = both.log();
        let logged: usize = log.lines().map(|line| line.matches('f').count()).sum();
        assert_eq!(logged, sent);
        assert!(log.lines().count() <= 1 + sent / MAX_MESSAGE, "{}", log.lines().count());
    });
}
