//! A file in place of a mail server, for development: messages are appended to it in the form that
//! mail programs read (mbox).

use std::fs::File;
use std::io::{self, Write};

/// Appends a message. `from` is the sender of its envelope.
pub(crate) fn append(
    file: &mut File,
    from: &str,
    recipients: &[String],
    date: &str,
    text: &[u8],
) -> io::Result<()> {
    file.write_all(&entry(from, recipients, date, text))
}

fn entry(from: &str, recipients: &[String], date: &str, text: &[u8]) -> Vec<u8> {
    let from = if from.is_empty() { "MAILER-DAEMON" } else { from };
    let mut entry = format!("From {from} {date}\n").into_bytes();
    for recipient in recipients {
        entry.extend_from_slice(format!("X-Envelope-To: {recipient}\n").as_bytes());
    }
    for line in text.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let is_quoted = line.iter().position(|byte| *byte != b'>');
        if is_quoted.is_some_and(|at| line[at..].starts_with(b"From ")) {
            entry.push(b'>');
        }
        entry.extend_from_slice(line);
        entry.push(b'\n');
    }
    if text.ends_with(b"\n") {
        entry.pop();
    }
    entry.push(b'\n');
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_begins_another_message() {
        let text = b"Subject: x\r\n\r\nFrom me\r\n>From you\r\n";
        let entry = entry("", &["a@a.org".to_owned()], "Thu Nov 27 2026", text);
        let expected = "From MAILER-DAEMON Thu Nov 27 2026\nX-Envelope-To: a@a.org\nSubject: x\n\n\
                        >From me\n>>From you\n\n";
        assert_eq!(String::from_utf8(entry).unwrap(), expected);
    }
}
