//! Replies of a mail server (RFC 5321, 4.2). The server is not trusted: lines and replies have
//! limits, and the text of them that is shown is printable.

/// Maximum length of a reply in bytes. RFC 5321, 4.5.3.1.5 permits lines of 512.
pub(crate) const MAX_REPLY_BYTES: usize = 16 * 1024;

/// Maximum length of the text in messages, in characters.
const MAX_SHOWN: usize = 300;

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The code, from 200 to 599.
    pub code: u16,
    /// The text of each line.
    pub lines: Vec<String>,
}

/// Bytes that are no reply, or a reply that is too long.
#[derive(Debug, PartialEq, Eq)]
pub struct NoReply;

impl Reply {
    /// Takes a reply from the front of the buffer; `None` if it is not complete.
    pub fn take(buffer: &mut Vec<u8>) -> Result<Option<Reply>, NoReply> {
        let (mut at, mut code, mut lines) = (0, None, Vec::new());
        while let Some(rest) = buffer.get(at..)
            && let Some(length) = rest.iter().position(|byte| *byte == b'\n')
        {
            let line = rest.get(..length).unwrap_or_default();
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let (digits, text) = line.split_at_checked(3).ok_or(NoReply)?;
            let number = std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok());
            let number: u16 = number.filter(|code| (200..600).contains(code)).ok_or(NoReply)?;
            if *code.get_or_insert(number) != number {
                return Err(NoReply);
            }
            let (is_last, text) = match text {
                [] => (true, text),
                [b' ', text @ ..] => (true, text),
                [b'-', text @ ..] => (false, text),
                _ => return Err(NoReply),
            };
            lines.push(String::from_utf8_lossy(text).into_owned());
            at += length + 1;
            if at > MAX_REPLY_BYTES {
                return Err(NoReply);
            }
            if is_last {
                buffer.drain(..at);
                return Ok(Some(Reply { code: number, lines }));
            }
        }
        if buffer.len() > MAX_REPLY_BYTES { Err(NoReply) } else { Ok(None) }
    }

    /// Returns true for a positive reply.
    pub fn is_ok(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// Returns the reply for a message.
    pub fn shown(&self) -> String {
        let text = self.lines.join(" ");
        let text: String =
            text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_SHOWN).collect();
        format!("{} {}", self.code, text.trim()).trim_end().to_owned()
    }
}

/// Extensions that a server offers (RFC 5321, 4.1.1.1).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extensions {
    /// The connection can change to TLS.
    pub starttls: bool,
    /// `8BITMIME`.
    pub eight_bit: bool,
    /// `SMTPUTF8`.
    pub utf8: bool,
    /// Maximum length of a message; `None` if it is not known.
    pub size: Option<u64>,
    /// `SIZE`, with or without a maximum.
    pub has_size: bool,
    /// `AUTH PLAIN`.
    pub auth_plain: bool,
    /// `AUTH LOGIN`.
    pub auth_login: bool,
}

impl Extensions {
    /// Reads the reply to `EHLO`.
    pub fn of(reply: &Reply) -> Extensions {
        let mut found = Extensions::default();
        for line in reply.lines.iter().skip(1) {
            let line = line.to_ascii_uppercase();
            let mut words = line.split([' ', '=']).filter(|word| !word.is_empty());
            match words.next() {
                Some("STARTTLS") => found.starttls = true,
                Some("8BITMIME") => found.eight_bit = true,
                Some("SMTPUTF8") => found.utf8 = true,
                Some("SIZE") => {
                    found.has_size = true;
                    found.size = words.next().and_then(|n| n.parse().ok()).filter(|n| *n > 0);
                }
                Some("AUTH") => words.for_each(|word| match word {
                    "PLAIN" => found.auth_plain = true,
                    "LOGIN" => found.auth_login = true,
                    _ => {}
                }),
                _ => {}
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn take(text: &str) -> Result<Option<Reply>, NoReply> {
        Reply::take(&mut text.as_bytes().to_vec())
    }

    #[test]
    fn replies_have_one_line_or_several() {
        let mut buffer = b"250-a.org\r\n250-SIZE 100\r\n250 AUTH PLAIN LOGIN\r\n354 go".to_vec();
        let reply = Reply::take(&mut buffer).unwrap().unwrap();
        assert_eq!((reply.code, reply.lines.len(), &buffer[..]), (250, 3, &b"354 go"[..]));
        let found = Extensions::of(&reply);
        assert!(found.auth_plain && found.auth_login && !found.starttls);
        assert_eq!(found.size, Some(100));
        assert_eq!(Reply::take(&mut buffer), Ok(None));
        assert_eq!(take("220\r\n").unwrap().unwrap().shown(), "220");
        assert_eq!(take("550 no\u{1b}[31m\r\n").unwrap().unwrap().shown(), "550 no [31m");
    }

    #[test]
    fn what_is_no_reply_ends_the_conversation() {
        for text in
            ["HTTP/1.1 400\r\n", "25\r\n", "250-a\r\n550 b\r\n", "250x\r\n", "999 a\r\n", "\r\n"]
        {
            assert_eq!(take(text), Err(NoReply), "{text:?}");
        }
        assert_eq!(take(&"2".repeat(MAX_REPLY_BYTES + 1)), Err(NoReply));
        assert_eq!(take(&"250-a\r\n".repeat(MAX_REPLY_BYTES)), Err(NoReply));
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_panic(bytes in any::<Vec<u8>>()) {
            let mut buffer = bytes.clone();
            if let Ok(Some(reply)) = Reply::take(&mut buffer) {
                prop_assert!(bytes.ends_with(&buffer));
                prop_assert!(!reply.shown().contains(char::is_control));
                let _ = Extensions::of(&reply);
            }
        }
    }
}
