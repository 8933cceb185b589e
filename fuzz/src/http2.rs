//! Frames and header blocks of HTTP/2, looked at on their way to `h2`.

use std::rc::Rc;

use howdah_http::h2::blocks::{Blocks, Flaws, MalformedRequest};
use howdah_http::h2::frames::{Frames, Piece};
use howdah_http::h2::hpack::STATIC;
use howdah_http::streams::huffman::Huffman;

/// Flaws are found alike however the frames are cut, and are those that a reading finds which puts
/// each block together and decodes all of its texts. The first byte is the length of the pieces.
pub fn blocks(input: &[u8]) {
    let Some((size, input)) = input.split_first() else { return };
    // More frames could have more flaws than are kept.
    let input = &input[..input.len().min(1500)];
    let (streams, expected) = plain(input);
    for size in [usize::from(*size).max(1), usize::MAX] {
        let flaws = Rc::new(Flaws::default());
        let (mut frames, mut blocks) = (Frames::new(0), Blocks::new(Rc::clone(&flaws)));
        for part in input.chunks(size) {
            frames.read(part, |piece| blocks.take(piece));
        }
        for stream in &streams {
            for flaw in [MalformedRequest::Fragment, MalformedRequest::PseudoInTrailer] {
                let is_expected = expected.contains(&(*stream, flaw));
                assert_eq!(flaws.has(*stream, flaw), is_expected, "stream {stream}: {flaw:?}");
            }
        }
    }
}

/// The streams of all heads, and the flaws that they have.
fn plain(input: &[u8]) -> (Vec<u32>, Vec<(u32, MalformedRequest)>) {
    let (mut streams, mut found) = (Vec::new(), Vec::new());
    let mut table = Table { entries: Vec::new(), room: 4096 };
    let mut open: Option<(u32, bool, Vec<u8>)> = None;
    let (mut rest, mut newest) = (input, 0);
    while let Some((frame, payload)) = head(rest) {
        let Piece::Head(frame) = frame else { break };
        let Some(whole) = payload.get(..frame.length as usize) else { break };
        rest = &payload[whole.len()..];
        streams.push(frame.stream);
        let (kind, flags) = (frame.kind, frame.flags);
        match (kind, open.take()) {
            (1, None) => {
                let Some(fields) = fields(whole, flags) else { return (streams, found) };
                let is_trailer = frame.stream <= newest;
                newest = newest.max(frame.stream);
                let priority = usize::from(flags & 8 != 0);
                let own = &(frame.stream.to_be_bytes())[..];
                let names = whole
                    .get(priority..priority + 4)
                    .map(|four| [four[0] & 0x7f, four[1], four[2], four[3]].to_vec());
                if flags & 32 != 0 && names.as_deref() == Some(own) {
                    continue;
                }
                open = Some((frame.stream, is_trailer, fields.to_vec()));
            }
            (9, Some((stream, is_trailer, mut block))) if stream == frame.stream => {
                block.extend_from_slice(whole);
                open = Some((stream, is_trailer, block));
            }
            (1 | 5 | 9, _) | (_, Some(_)) => return (streams, found),
            _ => continue,
        }
        if flags & 4 == 0 {
            continue;
        }
        let Some((stream, is_trailer, block)) = open.take() else { continue };
        let Some(lines) = table.decode(&block) else { return (streams, found) };
        let is_pseudo = |line: &(Vec<u8>, Vec<u8>)| line.0.first() == Some(&b':');
        let has_fragment =
            |line: &(Vec<u8>, Vec<u8>)| line.0.starts_with(b":pa") && line.1.contains(&b'#');
        match is_trailer {
            true if lines.iter().any(is_pseudo) => {
                found.push((stream, MalformedRequest::PseudoInTrailer))
            }
            false if lines.iter().any(has_fragment) => {
                found.push((stream, MalformedRequest::Fragment))
            }
            _ => {}
        }
    }
    (streams, found)
}

/// The head that bytes begin with, and the rest.
fn head(bytes: &[u8]) -> Option<(Piece<'_>, &[u8])> {
    let (head, rest) = bytes.split_at_checked(9)?;
    let mut found = None;
    Frames::new(0).read(head, |piece| found = Some(piece));
    Some((found?, rest))
}

/// The fields in a payload of HEADERS, without padding and priority.
fn fields(payload: &[u8], flags: u8) -> Option<&[u8]> {
    let (padding, rest) = if flags & 8 != 0 {
        payload.split_first().map(|(length, rest)| (usize::from(*length), rest))?
    } else {
        (0, payload)
    };
    let rest = if flags & 32 != 0 { rest.get(5..)? } else { rest };
    rest.get(..rest.len().checked_sub(padding)?)
}

struct Table {
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    room: usize,
}

impl Table {
    fn decode(&mut self, mut block: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut lines = Vec::new();
        while let Some(&first) = block.first() {
            if first & 0xe0 == 0x20 {
                self.room = number(&mut block, 5)?;
                if self.room > 4096 {
                    return None;
                }
                self.evict();
                continue;
            }
            if first & 0x80 != 0 {
                lines.push(self.entry(number(&mut block, 7)?)?);
                continue;
            }
            let is_kept = first & 0x40 != 0;
            let name = match number(&mut block, if is_kept { 6 } else { 4 })? {
                0 => text(&mut block)?,
                index => self.entry(index)?.0,
            };
            let line = (name, text(&mut block)?);
            if is_kept {
                self.entries.insert(0, line.clone());
                self.evict();
            }
            lines.push(line);
        }
        Some(lines)
    }

    fn entry(&self, index: usize) -> Option<(Vec<u8>, Vec<u8>)> {
        let index = index.checked_sub(1)?;
        match STATIC.get(index) {
            Some(name) => Some((name.as_bytes().to_vec(), Vec::new())),
            None => self.entries.get(index - STATIC.len()).cloned(),
        }
    }

    fn evict(&mut self) {
        let size = |(name, value): &(Vec<u8>, Vec<u8>)| name.len() + value.len() + 32;
        while self.entries.iter().map(size).sum::<usize>() > self.room {
            self.entries.pop();
        }
    }
}

/// Takes a number with a prefix of so many bits, and at most four bytes behind it.
fn number(block: &mut &[u8], bits: u32) -> Option<usize> {
    let most = (1usize << bits) - 1;
    let (first, rest) = block.split_first()?;
    *block = rest;
    let mut value = usize::from(*first) & most;
    if value < most {
        return Some(value);
    }
    for place in 0..4 {
        let (byte, rest) = block.split_first()?;
        *block = rest;
        value += usize::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn text(block: &mut &[u8]) -> Option<Vec<u8>> {
    let is_coded = block.first()? & 0x80 != 0;
    let length = number(block, 7)?;
    let (text, rest) = block.split_at_checked(length)?;
    *block = rest;
    if !is_coded {
        return Some(text.to_vec());
    }
    let (mut huffman, mut decoded) = (Huffman::default(), Vec::new());
    text.iter().for_each(|byte| huffman.decode(*byte, |byte| decoded.push(byte)));
    huffman.end(|byte| decoded.push(byte));
    Some(decoded)
}
