//! Detection of malformed requests that `h2` accepts, in the header blocks of a client.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::frames::{
    CONTINUATION, END_HEADERS, Frame, HEADERS, PADDED, PRIORITY, PUSH_PROMISE, Piece,
};
use super::hpack::Reader;

/// Defect of a malformed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MalformedRequest {
    /// `:path` has a fragment (RFC 9113, 8.3.1: it is a path and a query).
    Fragment,
    /// The trailer has a pseudo-header field (RFC 9113, 8.1).
    PseudoInTrailer,
}

/// The flaws of streams that have not ended.
#[derive(Debug, Default)]
pub struct Flaws(RefCell<VecDeque<(u32, MalformedRequest)>>);

/// Maximum number of flaws kept. Streams that `h2` refuses are never forgotten otherwise.
const MAX_FLAWS: usize = 128;

impl Flaws {
    /// Returns true if the request of a stream has this flaw.
    pub fn has(&self, stream: u32, flaw: MalformedRequest) -> bool {
        self.0.borrow().contains(&(stream, flaw))
    }

    /// Forgets the flaws of a stream that has ended.
    pub fn forget(&self, stream: u32) {
        if !self.0.borrow().is_empty() {
            self.0.borrow_mut().retain(|(other, _)| *other != stream);
        }
    }

    fn add(&self, stream: u32, flaw: MalformedRequest) {
        let mut flaws = self.0.borrow_mut();
        if flaws.len() == MAX_FLAWS {
            flaws.pop_front();
        }
        flaws.push_back((stream, flaw));
    }
}

/// Passes the fields of HEADERS and CONTINUATION frames to the parser.
#[derive(Debug)]
pub struct Blocks {
    fields: Reader,
    block: Option<Block>,
    /// Highest stream number so far; HEADERS of no higher stream are a trailer.
    newest: u32,
    flaws: Rc<Flaws>,
}

/// A header block that is not complete.
#[derive(Debug, Default)]
struct Block {
    stream: u32,
    is_trailer: bool,
    /// The current frame is the last one of the block.
    is_last: bool,
    /// Payload before the fields: length of the padding, priority.
    lead: [u8; 6],
    lead_received: usize,
    lead_length: usize,
    is_padded: bool,
    /// Bytes of the payload not received yet.
    left: usize,
}

impl Blocks {
    /// Creates the parser at the start of a connection.
    pub fn new(flaws: Rc<Flaws>) -> Self {
        Blocks { fields: Reader::default(), block: None, newest: 0, flaws }
    }

    /// Handles the next piece of the input.
    pub fn take(&mut self, piece: Piece<'_>) {
        match piece {
            Piece::Head(frame) => self.begin(frame),
            Piece::Payload(bytes) => self.read(bytes),
        }
    }

    fn begin(&mut self, frame: Frame) {
        let Frame { kind, flags, stream, length } = frame;
        let is_next = self.block.as_ref().is_some_and(|block| block.stream == stream);
        match kind {
            HEADERS if self.block.is_none() => {
                let is_padded = flags & PADDED != 0;
                let priority = if flags & PRIORITY != 0 { 5 } else { 0 };
                self.block = Some(Block {
                    stream,
                    is_trailer: stream <= self.newest,
                    is_last: flags & END_HEADERS != 0,
                    lead_length: usize::from(is_padded) + priority,
                    is_padded,
                    left: length as usize,
                    ..Block::default()
                });
                self.newest = self.newest.max(stream);
            }
            CONTINUATION if is_next => {
                if let Some(block) = &mut self.block {
                    block.is_last = flags & END_HEADERS != 0;
                    block.left = length as usize;
                    (block.lead_received, block.lead_length, block.is_padded) = (0, 0, false);
                }
            }
            HEADERS | CONTINUATION | PUSH_PROMISE => return self.give_up(),
            _ if self.block.is_some() => return self.give_up(),
            _ => return,
        }
        if length == 0 {
            self.end_frame();
        }
    }

    /// Handles a part of a payload: that of HEADERS or CONTINUATION within a header block,
    /// otherwise of another frame, which is skipped.
    fn read(&mut self, bytes: &[u8]) {
        let Some(block) = &mut self.block else { return };
        let missing = block.lead_length - block.lead_received;
        let (lead, rest) = bytes.split_at(missing.min(bytes.len()));
        block.lead[block.lead_received..][..lead.len()].copy_from_slice(lead);
        block.lead_received += lead.len();
        block.left = block.left.saturating_sub(bytes.len());
        // All but the padding, which comes last.
        let padding = if block.is_padded { usize::from(block.lead[0]) } else { 0 };
        let left = block.left + rest.len();
        if !lead.is_empty() && block.lead_received == block.lead_length && left < padding {
            return self.give_up();
        }
        let fields = left.saturating_sub(padding).min(rest.len());
        if !block.depends_on_itself() {
            self.fields.read(rest.get(..fields).unwrap_or_default());
        }
        if block.left == 0 {
            self.end_frame();
        }
    }

    fn end_frame(&mut self) {
        let Some(block) = &self.block else { return };
        if block.lead_received < block.lead_length {
            return self.give_up();
        }
        if block.depends_on_itself() {
            // `h2` resets the stream without decoding the fields, so its table lacks them.
            self.block = None;
            return;
        }
        if !block.is_last {
            return;
        }
        let found = self.fields.end();
        let (stream, is_trailer) = (block.stream, block.is_trailer);
        self.block = None;
        if is_trailer && found.pseudo {
            self.flaws.add(stream, MalformedRequest::PseudoInTrailer);
        }
        if !is_trailer && found.fragment {
            self.flaws.add(stream, MalformedRequest::Fragment);
        }
    }

    /// Stops parsing, at an error for which `h2` ends the connection.
    fn give_up(&mut self) {
        self.block = None;
        self.fields.give_up();
    }
}

impl Block {
    /// Returns true if the priority names the stream itself.
    fn depends_on_itself(&self) -> bool {
        let at = usize::from(self.is_padded);
        let dependency = self.lead.get(at..at + 4).and_then(|four| four.try_into().ok());
        let dependency = dependency.map(u32::from_be_bytes).unwrap_or_default();
        self.lead_length > 1
            && self.lead_received == self.lead_length
            && dependency & (u32::MAX >> 1) == self.stream
    }
}

#[cfg(test)]
mod tests;
