//! Mail of scripts.
//!
//! - Message: a command line of `sendmail` and a message. No recipient ends a command, the fields
//!   that are sent read back as the same, without the secret ones, and no server finds the end of
//!   the message in its text, with any reading of line ends.
//! - Conversation: lines of SMTP on standard input. Each message has recipients, and only commands
//!   that were given.
//! - Reply: the bytes of a mail server, whole and byte by byte.

use howdah_mail::reply::{Extensions, Reply};
use howdah_sendmail::arguments::Arguments;
use howdah_sendmail::conversation::{Conversation, Step};
use howdah_sendmail::lines::{Encoder, MAX_LINE_BYTES};
use howdah_sendmail::message::{Message, Missing};
use howdah_sendmail::{address, words};

use crate::split;

const MISSING: Missing<'static> =
    Missing { from: "w@h.test", full_name: Some("W"), host: "h.test", now: 1, random: 2 };

pub fn message(input: &[u8]) {
    let (line, text) = split(input);
    let words = words::split(line).unwrap_or_default();
    let words: Vec<_> =
        words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let arguments = Arguments::parse(&words).unwrap_or_default();
    let Ok(message) = Message::parse(text, !arguments.ignores_dots) else { return };
    let mut addresses = arguments.recipients;
    addresses.extend(message.recipients().unwrap_or_default());
    addresses.extend(message.author());
    for found in &addresses {
        let text = found.as_str();
        assert!(!text.contains(['\r', '\n', '\0', '<', '>']), "{text:?}");
        assert_eq!(address::list(text).unwrap(), std::slice::from_ref(found), "{text:?}");
    }
    let name = arguments.full_name.as_deref();
    let head = message.head(&Missing { full_name: name, ..MISSING });
    let again = Message::parse(&head, false).expect("it is not longer than before");
    assert!(again.body.is_empty());
    assert_eq!(again.head(&MISSING), head);
    let lower = head.to_ascii_lowercase();
    assert!(!lower.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"bcc:")));
    assert_text(&[&head, message.body].concat());
}

fn assert_text(text: &[u8]) {
    let (mut encoder, mut whole) = (Encoder::default(), Vec::new());
    encoder.encode(text, &mut whole);
    encoder.finish(&mut whole);
    let (mut encoder, mut pieces) = (Encoder::default(), Vec::new());
    for piece in text.chunks(7) {
        encoder.encode(piece, &mut pieces);
    }
    encoder.finish(&mut pieces);
    assert_eq!(whole, pieces);
    let body = whole.strip_suffix(b".\r\n").expect("it has an end");
    for line in body.split(|byte| matches!(byte, b'\r' | b'\n')) {
        // The dot that was added does not count.
        assert!(line != b"." && line.len() <= MAX_LINE_BYTES + 1);
    }
    assert_eq!(
        body.iter().filter(|byte| **byte == b'\n').count(),
        body.windows(2).filter(|two| *two == b"\r\n").count()
    );
    assert_eq!(
        body.iter().filter(|byte| **byte == b'\r').count(),
        body.windows(2).filter(|two| *two == b"\r\n").count()
    );
}

pub fn conversation(input: &[u8]) {
    let mut conversation = Conversation::default();
    let mut given = 0;
    for line in input.split(|byte| *byte == b'\n') {
        given += usize::from(line.len() >= 4 && line[..4].eq_ignore_ascii_case(b"RCPT"));
        match conversation.line(line) {
            Step::Submit { recipients, .. } => {
                assert!(!recipients.is_empty() && recipients.len() <= given);
            }
            Step::Answer(text) | Step::End(text) => assert!(text.as_bytes()[0].is_ascii_digit()),
            Step::Continue => {}
        }
    }
}

pub fn reply(input: &[u8]) {
    let mut whole = input.to_vec();
    let taken = Reply::take(&mut whole);
    let mut buffer = Vec::new();
    for byte in input {
        buffer.push(*byte);
        match Reply::take(&mut buffer) {
            Ok(None) => {}
            Ok(Some(reply)) => {
                assert_eq!(taken, Ok(Some(reply.clone())));
                assert!(buffer.is_empty() && !reply.shown().contains(char::is_control));
                let _ = Extensions::of(&reply);
                return;
            }
            Err(problem) => return assert_eq!(taken, Err(problem)),
        }
    }
    assert_eq!(taken, Ok(None));
}
