//! SMTP on standard input and output (`sendmail -bs`), as mail libraries use it.
//!
//! Lines end with a carriage return and a line feed. A bare line feed does not: a text with
//! `<LF>.<LF>` in it would end there and continue with commands.

use crate::address::Address;
use crate::{MAX_MESSAGE_BYTES, MAX_RECIPIENTS};

/// The state of a conversation.
#[derive(Debug, Default)]
pub struct Conversation {
    /// Sender; `None` before `MAIL`, `None` inside for the empty one.
    sender: Option<Option<Address>>,
    recipients: Vec<Address>,
    /// The text so far; `None` if commands are read.
    text: Option<Vec<u8>>,
    is_too_long: bool,
}

/// The step after a line.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// No reply: the text continues.
    Continue,
    /// Answer.
    Answer(String),
    /// Submit a message, and answer with its result.
    Submit {
        /// Sender; `None` for the empty one.
        sender: Option<Address>,
        /// Recipients.
        recipients: Vec<Address>,
        /// The message.
        text: Vec<u8>,
    },
    /// Answer, and end.
    End(String),
}

/// The first line of the conversation.
pub const GREETING: &str = "220 localhost ESMTP Howdah";

impl Conversation {
    /// Takes a line without its end.
    pub fn line(&mut self, line: &[u8]) -> Step {
        if self.text.is_some() {
            return self.text_line(line);
        }
        let Ok(line) = std::str::from_utf8(line) else { return answer("501 not UTF-8") };
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match verb.to_ascii_uppercase().as_str() {
            "HELO" => answer("250 localhost"),
            "EHLO" => Step::Answer(format!(
                "250-localhost\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250 SIZE {MAX_MESSAGE_BYTES}"
            )),
            "MAIL" if self.sender.is_some() => answer("503 there is a sender already"),
            "MAIL" => match path(rest, "FROM:") {
                Some("") => self.set_sender(None),
                Some(text) => match Address::parse(text) {
                    Some(address) => self.set_sender(Some(address)),
                    None => answer("501 no address"),
                },
                None => answer("501 MAIL FROM:<address>"),
            },
            "RCPT" if self.sender.is_none() => answer("503 MAIL first"),
            "RCPT" => match path(rest, "TO:").map(Address::parse) {
                Some(Some(_)) if self.recipients.len() >= MAX_RECIPIENTS => {
                    answer("452 too many recipients")
                }
                Some(Some(address)) => {
                    self.recipients.push(address);
                    answer("250 ok")
                }
                _ => answer("501 RCPT TO:<address>"),
            },
            "DATA" if self.recipients.is_empty() => answer("503 RCPT first"),
            "DATA" => {
                self.text = Some(Vec::new());
                self.is_too_long = false;
                answer("354 end with a dot")
            }
            "RSET" => {
                self.reset();
                answer("250 ok")
            }
            "NOOP" => answer("250 ok"),
            "QUIT" => Step::End("221 bye".to_owned()),
            _ => answer("502 not supported"),
        }
    }

    fn set_sender(&mut self, sender: Option<Address>) -> Step {
        self.sender = Some(sender);
        answer("250 ok")
    }

    fn text_line(&mut self, line: &[u8]) -> Step {
        let Some(text) = &mut self.text else { return Step::Continue };
        if line == b"." {
            let text = std::mem::take(text);
            let (sender, recipients) =
                (self.sender.take().flatten(), std::mem::take(&mut self.recipients));
            let is_too_long = self.is_too_long;
            self.reset();
            return if is_too_long {
                answer("552 the message is too long")
            } else {
                Step::Submit { sender, recipients, text }
            };
        }
        self.is_too_long |= text.len() + line.len() > MAX_MESSAGE_BYTES;
        if !self.is_too_long {
            text.extend_from_slice(line.strip_prefix(b".").unwrap_or(line));
            text.extend_from_slice(b"\r\n");
        }
        Step::Continue
    }

    fn reset(&mut self) {
        *self = Conversation::default();
    }
}

fn answer(text: &str) -> Step {
    Step::Answer(text.to_owned())
}

/// Returns the address of `FROM:<address> PARAMETERS`; empty for the empty one.
fn path<'a>(text: &'a str, keyword: &str) -> Option<&'a str> {
    let (first, rest) = text.split_at_checked(keyword.len())?;
    let rest = rest.trim_start();
    let (address, parameters) = rest.strip_prefix('<')?.rsplit_once('>')?;
    let is_path = first.eq_ignore_ascii_case(keyword)
        && (parameters.is_empty() || parameters.starts_with(' '));
    is_path.then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn say(conversation: &mut Conversation, line: &str) -> String {
        match conversation.line(line.as_bytes()) {
            Step::Answer(text) | Step::End(text) => text[..3].to_owned(),
            Step::Continue => String::new(),
            Step::Submit { .. } => "submit".to_owned(),
        }
    }

    #[test]
    fn a_message_is_taken_as_libraries_give_it() {
        let mut conversation = Conversation::default();
        for (line, expected) in [
            ("EHLO [127.0.0.1]", "250"),
            ("DATA", "503"),
            ("RCPT TO:<a@a.org>", "503"),
            ("mail from: <joe@a.org> BODY=8BITMIME", "250"),
            ("MAIL FROM:<x@a.org>", "503"),
            ("RCPT TO:<a@a.org>", "250"),
            ("RCPT TO:<a@a.org>x", "501"),
            ("RCPT TO:<a b@a.org>", "501"),
            ("RCPT TO:a@a.org", "501"),
            ("STARTTLS", "502"),
            ("DATA", "354"),
            ("Subject: x", ""),
            ("", ""),
            ("..", ""),
            ("a\n.\nMAIL FROM:<b@b.org>", ""),
        ] {
            assert_eq!(say(&mut conversation, line), expected, "{line}");
        }
        let address = |text: &str| Address::parse(text).unwrap();
        let expected = Step::Submit {
            sender: Some(address("joe@a.org")),
            recipients: vec![address("a@a.org")],
            text: b"Subject: x\r\n\r\n.\r\na\n.\nMAIL FROM:<b@b.org>\r\n".to_vec(),
        };
        assert_eq!(conversation.line(b"."), expected);
        assert_eq!(say(&mut conversation, "RCPT TO:<a@a.org>"), "503", "the next message");
        assert_eq!(say(&mut conversation, "MAIL FROM:<>"), "250");
        assert_eq!(say(&mut conversation, "RSET"), "250");
        assert_eq!(say(&mut conversation, "QUIT"), "221");
    }

    #[test]
    fn a_text_that_is_too_long_is_refused_at_its_end() {
        let mut conversation = Conversation::default();
        for line in ["MAIL FROM:<>", "RCPT TO:<a@a.org>", "DATA"] {
            say(&mut conversation, line);
        }
        let line = vec![b'x'; MAX_MESSAGE_BYTES];
        assert_eq!(conversation.line(&line), Step::Continue);
        assert_eq!(conversation.line(b"x"), Step::Continue);
        assert_eq!(say(&mut conversation, "."), "552");
    }
}
