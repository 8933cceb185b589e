//! What a client of HTTP/3 sends: field sections, request streams, control streams, connections.

use bytes::Bytes;
use howdah_http::h3::control::{self, Control};
use howdah_http::h3::error::{Code, ConnectionError, StreamError};
use howdah_http::h3::frames::kind;
use howdah_http::h3::message::{Event, Message};
use howdah_http::h3::qpack::table::STATIC;
use howdah_http::h3::qpack::{self, Decoder, SectionError};
use howdah_http::streams::huffman::Huffman;

/// Names and values.
pub type Lines = Vec<(Vec<u8>, Vec<u8>)>;

/// Maximum size of a section.
pub const MAX_SECTION: usize = 600;

/// A section is read alike however it is cut, as a plain reading does that has all of its bytes; and
/// what was read is read again after it was written. The first byte is the length of the pieces.
pub fn section(input: &[u8]) {
    let Some((size, input)) = input.split_first() else { return };
    let expected = plain_section(input);
    for size in [usize::from(*size).max(1), usize::MAX] {
        let mut decoder = Decoder::new(MAX_SECTION);
        let read = input.chunks(size).try_for_each(|part| decoder.read(part));
        let found = read.and_then(|()| decoder.end()).map(|section| lines(&section));
        let expected = expected.clone().map_err(|problem| match problem {
            Problem::TooLong => SectionError::TooLong,
            Problem::Invalid | Problem::Cut => SectionError::Invalid,
        });
        assert_eq!(found, expected, "{size} bytes at a time");
    }
    let Ok(fields) = expected else { return };
    let mut written = Vec::new();
    qpack::begin(&mut written);
    fields.iter().for_each(|(name, value)| qpack::put_field(name, value, &mut written));
    let small = |(name, value): (Vec<u8>, Vec<u8>)| (name.to_ascii_lowercase(), value);
    let again = plain_section(&written).map_err(|_| "what was written cannot be read");
    let expected: Lines = fields.into_iter().map(small).collect();
    assert_eq!(again, Ok(expected));
}

/// A request stream that ends after the input, and a control stream with it, are judged alike
/// however they are cut, and as plain readings do. The first byte is the length of the pieces.
pub fn streams(input: &[u8]) {
    let Some((size, input)) = input.split_first() else { return };
    for size in [usize::from(*size).max(1), usize::MAX] {
        assert_eq!(message(input, size), plain_message(input), "{size} bytes at a time");
        assert_eq!(control(input, size), plain_control(input), "{size} bytes at a time");
    }
}

fn lines(section: &qpack::Section) -> Lines {
    section.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect()
}

/// The sections of a request and its body, or the error.
pub type Found = Result<(Vec<Lines>, Vec<u8>), StreamError>;

fn message(input: &[u8], size: usize) -> Found {
    let mut message = Message::new(MAX_SECTION);
    let (mut sections, mut body) = (Vec::new(), Vec::new());
    for part in input.chunks(size) {
        let mut part = Bytes::copy_from_slice(part);
        while let Some(event) = message.next(&mut part)? {
            match event {
                Event::Frame(_) => {}
                Event::Head(section) | Event::Trailer(section) => sections.push(lines(&section)),
                Event::Data(bytes) => body.extend_from_slice(&bytes),
            }
        }
    }
    message.end().map(|()| (sections, body))
}

fn code_of(code: Code) -> StreamError {
    StreamError::Connection(ConnectionError::new(code, ""))
}

/// Compares errors by their codes.
pub fn plain_message(input: &[u8]) -> Found {
    let found = read_message(input);
    // The reason is not a part of what is compared.
    match (found, message(input, usize::MAX)) {
        (Err(StreamError::Connection(ours)), Err(StreamError::Connection(theirs)))
            if ours.code == theirs.code =>
        {
            Err(StreamError::Connection(theirs))
        }
        (found, _) => found,
    }
}

fn read_message(input: &[u8]) -> Found {
    let (mut sections, mut body) = (Vec::new(), Vec::new());
    let mut rest = input;
    while !rest.is_empty() {
        let Some((kind, length, payload)) = head(rest) else {
            return Err(code_of(Code::FrameError));
        };
        let is_whole = length <= payload.len() as u64;
        let (payload, behind) = payload.split_at(payload.len().min(length as usize));
        rest = behind;
        match kind {
            kind::HEADERS if sections.len() < 2 => match plain_section(payload) {
                Ok(_) | Err(Problem::Cut) if !is_whole => {}
                Ok(fields) => sections.push(fields),
                Err(Problem::TooLong) => return Err(StreamError::TooLong),
                Err(_) => return Err(code_of(Code::QpackDecompressionFailed)),
            },
            kind::DATA if sections.len() == 1 => body.extend_from_slice(payload),
            kind::DATA | kind::HEADERS | 0x2..=0x9 | 0xd | 0xf0700 | 0xf0701 => {
                return Err(code_of(Code::FrameUnexpected));
            }
            _ => {}
        }
        if !is_whole {
            return Err(code_of(Code::FrameError));
        }
    }
    if sections.is_empty() { Err(StreamError::Incomplete) } else { Ok((sections, body)) }
}

/// The priorities of a control stream, and the code of its error.
pub type Controlled = (Vec<(u64, Vec<u8>)>, Option<Code>);

fn control(input: &[u8], size: usize) -> Controlled {
    let (mut control, mut priorities) = (Control::default(), Vec::new());
    for part in input.chunks(size) {
        let mut part = Bytes::copy_from_slice(part);
        loop {
            match control.next(&mut part) {
                Ok(None) => break,
                Ok(Some(control::Event::Frame(_))) => {}
                Ok(Some(control::Event::Priority { stream, value })) => {
                    priorities.push((stream, value));
                }
                Err(error) => return (priorities, Some(error.code)),
            }
        }
    }
    (priorities, None)
}

/// The judgement on a control stream that does not end.
pub fn plain_control(input: &[u8]) -> Controlled {
    let (mut priorities, mut has_settings) = (Vec::new(), false);
    let (mut pushes, mut goaway) = (0, u64::MAX);
    let mut rest = input;
    while let Some((kind, length, payload)) = head(rest) {
        let wrong = match kind {
            0x4 if has_settings => Some(Code::FrameUnexpected),
            0x4 => (length > 1024).then_some(Code::ExcessiveLoad),
            _ if !has_settings => Some(Code::MissingSettings),
            0x0..=0x2 | 0x5 | 0x6 | 0x8 | 0x9 => Some(Code::FrameUnexpected),
            0x3 | 0x7 | 0xd => (length > 8).then_some(Code::FrameError),
            0xf0700 | 0xf0701 => (length > 256).then_some(Code::ExcessiveLoad),
            _ => None,
        };
        if wrong.is_some() {
            return (priorities, wrong);
        }
        has_settings = true;
        if length > payload.len() as u64 {
            break;
        }
        let (payload, behind) = payload.split_at(length as usize);
        rest = behind;
        if kind == 0x4 {
            match plain_settings(payload) {
                None => continue,
                wrong => return (priorities, wrong),
            }
        }
        if !matches!(kind, 0x3 | 0x7 | 0xd | 0xf0700 | 0xf0701) {
            continue;
        }
        let Some((id, more)) = varint(payload) else {
            return (priorities, Some(Code::FrameError));
        };
        let wrong = match kind {
            0x3 | 0x7 | 0xd if !more.is_empty() => Some(Code::FrameError),
            0x3 | 0xf0701 => Some(Code::IdError),
            0x7 => (id > std::mem::replace(&mut goaway, id)).then_some(Code::IdError),
            0xd => (id < std::mem::replace(&mut pushes, id)).then_some(Code::IdError),
            _ if id % 4 != 0 => Some(Code::IdError),
            _ => {
                priorities.push((id, more.to_vec()));
                None
            }
        };
        if wrong.is_some() {
            return (priorities, wrong);
        }
    }
    (priorities, None)
}

fn plain_settings(mut payload: &[u8]) -> Option<Code> {
    let mut ids = Vec::new();
    while !payload.is_empty() {
        let Some((id, (value, rest))) =
            varint(payload).and_then(|(id, rest)| Some((id, varint(rest)?)))
        else {
            return Some(Code::FrameError);
        };
        let is_flag = matches!(id, 0x8 | 0x33);
        if matches!(id, 0x0 | 0x2..=0x5) || (is_flag && value > 1) || ids.contains(&id) {
            return Some(Code::SettingsError);
        }
        ids.push(id);
        payload = rest;
    }
    None
}

/// The type and the length of the frame that bytes begin with, and the rest.
fn head(bytes: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (kind, rest) = varint(bytes)?;
    let (length, rest) = varint(rest)?;
    Some((kind, length, rest))
}

/// The number that bytes begin with, and the rest.
pub fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let length = 1usize << (bytes.first()? >> 6);
    let (number, rest) = bytes.split_at_checked(length)?;
    let all = number.iter().fold(0u64, |all, byte| all << 8 | u64::from(*byte));
    Some((all & (u64::MAX >> (66 - 8 * length)), rest))
}

/// Reason why a section cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// It cannot be decoded.
    Invalid,
    /// It is longer than permitted.
    TooLong,
    /// It ends within a line.
    Cut,
}

/// Reads a section whose bytes are all there.
pub fn plain_section(mut bytes: &[u8]) -> Result<Lines, Problem> {
    let (mut lines, mut left) = (Lines::new(), MAX_SECTION);
    let first = number(&mut bytes, 8)?;
    if first != 0 {
        return Err(Problem::Invalid);
    }
    if bytes.first().ok_or(Problem::Cut)? & 0x80 != 0 {
        return Err(Problem::Invalid);
    }
    number(&mut bytes, 7)?;
    while let Some(first) = bytes.first() {
        let take = |left: &mut usize, count: usize| {
            *left = left.checked_sub(count).ok_or(Problem::TooLong)?;
            Ok(())
        };
        let entry = |index: u64| {
            let entry = usize::try_from(index).ok().and_then(|index| STATIC.get(index));
            entry.ok_or(Problem::Invalid)
        };
        let name = match first >> 4 {
            0b1100..=0b1111 => {
                let (name, value) = entry(number(&mut bytes, 6)?)?;
                take(&mut left, name.len() + value.len() + 32)?;
                lines.push((name.as_bytes().to_vec(), value.as_bytes().to_vec()));
                continue;
            }
            0b0101 | 0b0111 => {
                let (name, _) = entry(number(&mut bytes, 4)?)?;
                take(&mut left, name.len())?;
                name.as_bytes().to_vec()
            }
            0b0010 | 0b0011 => text(&mut bytes, 3, &mut left)?,
            _ => return Err(Problem::Invalid),
        };
        take(&mut left, 32)?;
        lines.push((name, text(&mut bytes, 7, &mut left)?));
    }
    Ok(lines)
}

/// Takes a number with a prefix of so many bits.
fn number(bytes: &mut &[u8], bits: u32) -> Result<u64, Problem> {
    let most = (1u64 << bits) - 1;
    let (first, rest) = bytes.split_first().ok_or(Problem::Cut)?;
    *bytes = rest;
    let mut value = u128::from(u64::from(*first) & most);
    if value < u128::from(most) {
        return Ok(value as u64);
    }
    for place in 0..9 {
        let (byte, rest) = bytes.split_first().ok_or(Problem::Cut)?;
        *bytes = rest;
        value += u128::from(byte & 0x7f) << (7 * place);
        if value >= 1 << 62 {
            return Err(Problem::Invalid);
        }
        if byte & 0x80 == 0 {
            return Ok(value as u64);
        }
    }
    // A tenth byte is one too many, whatever it is.
    if bytes.is_empty() { Err(Problem::Cut) } else { Err(Problem::Invalid) }
}

/// Takes a string whose length has a prefix of so many bits.
fn text(bytes: &mut &[u8], bits: u32, left: &mut usize) -> Result<Vec<u8>, Problem> {
    let is_coded = bytes.first().ok_or(Problem::Cut)? & 1 << bits != 0;
    let length = number(bytes, bits)?;
    if !is_coded && length > *left as u64 {
        return Err(Problem::TooLong);
    }
    let is_whole = length <= bytes.len() as u64;
    let (text, rest) = bytes.split_at(bytes.len().min(length as usize));
    *bytes = rest;
    let (mut decoded, mut is_valid) = (text.to_vec(), true);
    if is_coded {
        let mut huffman = Huffman::default();
        decoded.clear();
        text.iter().for_each(|byte| huffman.decode(*byte, |byte| decoded.push(byte)));
        if decoded.len() > *left {
            return Err(Problem::TooLong);
        }
        if is_whole {
            is_valid = huffman.end(|byte| decoded.push(byte));
        }
    }
    match left.checked_sub(decoded.len()) {
        _ if !is_whole => Err(Problem::Cut),
        _ if !is_valid => Err(Problem::Invalid),
        None => Err(Problem::TooLong),
        Some(rest) => {
            *left = rest;
            Ok(decoded)
        }
    }
}
