//! Checks the head of a script's response.
//!
//! Header lines come from a worker and are untrusted: a line that is not a valid field is dropped,
//! and so are fields that frame the message or belong to the connection.

use bytes::Bytes;
use howdah_http::body_length::content_length;
use howdah_http::message::FieldBlock;
use howdah_text::token::is_token;
use howdah_wire::frame::Head;

/// Fields of scripts that are dropped: hop-by-hop fields (RFC 9110, 7.6.1), those that the
/// connection writes itself, and CGI's `Status`.
const DROPPED_FIELDS: [&str; 10] = [
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "proxy-connection",
    "server",
    "status",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Maximum number of variables that are taken from a head. The worker's shim sends at most 4,096
/// bytes.
const MAX_VARIABLES: usize = 512;

/// Status and header lines of a script's response, not checked yet.
#[derive(Debug, PartialEq, Eq)]
pub struct ScriptHead {
    /// Status code.
    pub status: u16,
    /// Reason phrase, or empty.
    pub reason: Bytes,
    /// Lines `Name: value`.
    pub lines: Vec<Bytes>,
}

/// Checked head of a script's response.
#[derive(Debug, PartialEq, Eq)]
pub struct CheckedHead {
    /// Status code, 200 to 599.
    pub status: u16,
    /// Reason phrase, if it is not the registered one.
    pub reason: Option<Bytes>,
    /// Fields.
    pub fields: FieldBlock,
    /// `Content-Length`.
    pub length: Option<u64>,
    /// Variables that the script has set for the server.
    pub variables: Vec<(Bytes, Bytes)>,
}

/// Checks a head. Error: the problem, for the log.
pub fn check(head: &ScriptHead) -> Result<CheckedHead, &'static str> {
    // As nginx, which also passes on statuses without a meaning in RFC 9110.
    if !(200..=999).contains(&head.status) {
        return Err("the script set a status that is not within 200 to 999");
    }
    let (fields, length) = check_lines(&head.lines);
    let reason = (!head.reason.is_empty()
        && head.reason.iter().all(|b| matches!(b, b'\t' | b' '..=b'~' | 0x80..)))
    .then(|| head.reason.clone());
    let variables = head
        .lines
        .iter()
        .filter_map(|line| Head::variable(line))
        .take(MAX_VARIABLES)
        .map(|(name, value)| (Bytes::copy_from_slice(name), Bytes::copy_from_slice(value)))
        .collect();
    Ok(CheckedHead { status: head.status, reason, fields, length, variables })
}

/// Checks a head for a web server that passes it on to its client (FastCGI). The web server frames
/// the message, so the fields for that are left to it, as by PHP-FPM.
pub fn check_for_server(head: &ScriptHead) -> Result<CheckedHead, &'static str> {
    let mut checked = check(head)?;
    let mut block = Vec::with_capacity(head.lines.iter().map(|line| line.len() + 2).sum());
    for (name, value) in head.lines.iter().filter_map(|line| split(line)) {
        if !name.eq_ignore_ascii_case(b"status") {
            block.extend_from_slice(&[name, b": ", value, b"\r\n"].concat());
        }
    }
    (checked.fields, checked.length) = (FieldBlock::from_lines(block.into()), None);
    Ok(checked)
}

/// Returns the fields of an interim response.
pub fn interim_fields(head: &ScriptHead) -> FieldBlock {
    check_lines(&head.lines).0
}

/// Returns the valid fields, and the length if the script sent one. A `Content-Length` that is not
/// a number, or several different ones, are ignored, as in the peers.
fn check_lines(lines: &[Bytes]) -> (FieldBlock, Option<u64>) {
    let mut block = Vec::with_capacity(lines.iter().map(|line| line.len() + 2).sum());
    let mut lengths = Vec::new();
    for (name, value) in lines.iter().filter_map(|line| split(line)) {
        if name.eq_ignore_ascii_case(b"content-length") {
            lengths.push(content_length(value));
        }
        let nothing = value.is_empty() && name.eq_ignore_ascii_case(b"content-type");
        if nothing || DROPPED_FIELDS.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
        {
            continue;
        }
        block.extend_from_slice(name);
        block.extend_from_slice(b": ");
        block.extend_from_slice(value);
        block.extend_from_slice(b"\r\n");
    }
    let length = match lengths.as_slice() {
        [first, rest @ ..] if rest.iter().all(|length| length == first) => *first,
        _ => None,
    };
    (FieldBlock::from_lines(block.into()), length)
}

/// Splits a line into name and value; `None` if it is not a field (RFC 9110, 5.1 and 5.5).
fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr::memchr(b':', line)?;
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    let text = |b: &u8| matches!(b, b'\t' | b' '..=b'~' | 0x80..);
    (is_token(name) && value.iter().all(text)).then_some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_no_fields_and_their_number_is_limited() {
        let lines: Vec<Bytes> = (0..600).map(|n| format!("\x01env:N{n}=a: b").into()).collect();
        let head = check(&ScriptHead { status: 200, reason: Bytes::new(), lines }).unwrap();
        assert_eq!(head.fields, FieldBlock::default());
        assert_eq!(head.variables.len(), MAX_VARIABLES);
        assert_eq!(head.variables[7], ("N7".into(), "a: b".into()));
    }

    fn checked(status: u16, lines: &[&'static str]) -> Result<CheckedHead, &'static str> {
        let lines = lines.iter().map(|line| Bytes::from_static(line.as_bytes())).collect();
        check(&ScriptHead { status, reason: Bytes::new(), lines })
    }

    #[test]
    fn fields_keep_their_order_and_case() {
        let head = checked(200, &["X-Powered-By: PHP", "set-cookie:a=b", "Set-Cookie: c=d"]);
        let expected = b"X-Powered-By: PHP\r\nset-cookie: a=b\r\nSet-Cookie: c=d\r\n";
        assert_eq!(head.unwrap().fields.as_bytes(), expected);
    }

    #[test]
    fn a_line_cannot_add_a_field_or_frame_the_message() {
        let lines = [
            "A: b\r\nEvil: 1",
            "B: c\nEvil: 1",
            "no field",
            ": empty",
            "spa ce: x",
            "Transfer-Encoding: chunked",
            "Connection: close",
            "Status: 500",
            "NUL: \0",
        ];
        assert_eq!(checked(200, &lines).unwrap().fields.as_bytes(), b"");
    }

    #[test]
    fn a_web_server_gets_the_fields_that_frame_the_message() {
        let lines =
            ["Content-Length: 3", "Connection: close", "Date: x", "Status: 500", "A: b\nC: d"];
        let lines = lines.iter().map(|line| Bytes::from_static(line.as_bytes())).collect();
        let head = check_for_server(&ScriptHead { status: 201, reason: Bytes::new(), lines });
        let head = head.unwrap();
        let expected = b"Content-Length: 3\r\nConnection: close\r\nDate: x\r\n";
        assert_eq!((head.fields.as_bytes(), head.status, head.length), (&expected[..], 201, None));
    }

    #[test]
    fn an_announced_length_must_be_one_number() {
        assert_eq!(checked(200, &["Content-Length: 3"]).unwrap().length, Some(3));
        for lines in [&["Content-Length: 3", "Content-Length: 4"][..], &["Content-Length: -1"]] {
            assert_eq!(checked(200, lines).unwrap().length, None);
        }
    }

    #[test]
    fn an_empty_content_type_is_none() {
        assert_eq!(checked(200, &["Content-Type:", "A:"]).unwrap().fields.as_bytes(), b"A: \r\n");
    }

    #[test]
    fn a_status_outside_of_the_final_ones_is_refused() {
        assert!(checked(100, &[]).is_err() && checked(0, &[]).is_err());
        assert!(checked(1000, &[]).is_err() && checked(999, &[]).is_ok());
    }
}
