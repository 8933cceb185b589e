//! The frames of a request stream (RFC 9114, 4.1 and 7.2), without I/O: HEADERS, DATA, and HEADERS
//! again as a trailer.

use bytes::Bytes;

use super::error::{Code, ConnectionError, StreamError};
use super::frames::{Frame, Frames, Piece, kind};
use super::qpack::{Decoder, Section, SectionError};

/// An event of a request stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// The type and length of a frame, for its cost.
    Frame(Frame),
    /// The head of the request.
    Head(Section),
    /// A part of the body, not empty.
    Data(Bytes),
    /// The trailer.
    Trailer(Section),
}

/// State of a request stream.
#[derive(Debug)]
pub struct Message {
    frames: Frames,
    stage: Stage,
    /// The section that arrives.
    section: Option<Decoder>,
    /// The payload of the frame is part of the body.
    is_data: bool,
    /// Maximum size of a section.
    max_section: usize,
    /// Announced length of the body that did not arrive yet; `None` if it is not announced.
    left: Option<u64>,
}

/// Part of the message that was received last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Nothing,
    Head,
    Trailer,
}

impl Message {
    /// Creates the state at the start of a stream. Sections have at most `max_section` bytes, as RFC
    /// 9114, 4.2.2 counts them.
    pub fn new(max_section: usize) -> Self {
        let (frames, stage) = (Frames::default(), Stage::Nothing);
        Message { frames, stage, section: None, is_data: false, max_section, left: None }
    }

    /// Sets the length of the body that the head announces.
    pub fn announce(&mut self, length: Option<u64>) {
        self.left = length;
    }

    /// Takes bytes off `input` up to the next event. `None` if more bytes are needed.
    pub fn next(&mut self, input: &mut Bytes) -> Result<Option<Event>, StreamError> {
        loop {
            // A section that is empty or complete.
            if self.frames.left() == 0
                && let Some(section) = self.section.take()
            {
                let section = section.end().map_err(section_error)?;
                return match std::mem::replace(&mut self.stage, Stage::Trailer) {
                    Stage::Nothing => {
                        self.stage = Stage::Head;
                        Ok(Some(Event::Head(section)))
                    }
                    _ => Ok(Some(Event::Trailer(section))),
                };
            }
            match self.frames.next(input) {
                None => return Ok(None),
                Some(Piece::Head(frame)) => {
                    self.begin_frame(frame)?;
                    return Ok(Some(Event::Frame(frame)));
                }
                Some(Piece::Payload(bytes)) if self.is_data => {
                    if let Some(left) = &mut self.left {
                        let rest = left.checked_sub(bytes.len() as u64);
                        *left = rest.ok_or(StreamError::Malformed)?;
                    }
                    return Ok(Some(Event::Data(bytes)));
                }
                Some(Piece::Payload(bytes)) => {
                    if let Some(section) = &mut self.section {
                        section.read(&bytes).map_err(section_error)?;
                    }
                }
            }
        }
    }

    /// Checks that the stream may end here.
    pub fn end(&self) -> Result<(), StreamError> {
        if self.frames.is_open() {
            let reason = "a stream that ends within a frame";
            return Err(ConnectionError::new(Code::FrameError, reason).into());
        }
        match (self.stage, self.left) {
            (Stage::Nothing, _) => Err(StreamError::Incomplete),
            (_, None | Some(0)) => Ok(()),
            _ => Err(StreamError::Malformed),
        }
    }

    fn begin_frame(&mut self, Frame { kind, length }: Frame) -> Result<(), StreamError> {
        self.is_data = false;
        let unexpected = |reason| Err(ConnectionError::new(Code::FrameUnexpected, reason).into());
        match (kind, self.stage) {
            (kind::HEADERS, Stage::Nothing | Stage::Head) => {
                self.section = Some(Decoder::new(self.max_section));
                Ok(())
            }
            (kind::DATA, Stage::Head) => {
                self.is_data = true;
                match self.left {
                    Some(left) if length > left => Err(StreamError::Malformed),
                    _ => Ok(()),
                }
            }
            (kind::DATA, Stage::Nothing) => unexpected("DATA before HEADERS"),
            (kind::DATA | kind::HEADERS, _) => unexpected("a frame behind the trailer"),
            (kind::CANCEL_PUSH | kind::SETTINGS | kind::GOAWAY | kind::MAX_PUSH_ID, _)
            | (kind::PRIORITY_UPDATE | kind::PRIORITY_UPDATE_PUSH, _) => {
                unexpected("a frame of the control stream on a request stream")
            }
            (kind::PUSH_PROMISE, _) => unexpected("PUSH_PROMISE of a client"),
            (kind, _) if kind::is_of_http_2(kind) => unexpected("a frame of HTTP/2"),
            _ => Ok(()),
        }
    }
}

fn section_error(error: SectionError) -> StreamError {
    match error {
        SectionError::Invalid => {
            let reason = "a field section that cannot be decoded";
            ConnectionError::new(Code::QpackDecompressionFailed, reason).into()
        }
        SectionError::TooLong => StreamError::TooLong,
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::put_head;
    use super::*;

    fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_head(kind, payload.len(), &mut bytes);
        [&bytes, payload].concat()
    }

    /// The result of a stream: its sections and its body, or the error.
    type Found = Result<(Vec<String>, Vec<u8>), StreamError>;

    fn with(bytes: &[u8], length: Option<u64>, size: usize) -> Found {
        let mut message = Message::new(1000);
        let (mut sections, mut body) = (Vec::new(), Vec::new());
        for part in bytes.chunks(size) {
            let mut input = Bytes::copy_from_slice(part);
            while let Some(event) = message.next(&mut input)? {
                match event {
                    Event::Frame(_) => {}
                    Event::Head(section) | Event::Trailer(section) => {
                        message.announce(length);
                        let names = section.iter().map(|(name, _)| String::from_utf8_lossy(name));
                        sections.push(names.collect::<Vec<_>>().join(" "));
                    }
                    Event::Data(bytes) => body.extend_from_slice(&bytes),
                }
            }
        }
        message.end().map(|()| (sections, body))
    }

    fn read(frames: &[Vec<u8>], length: Option<u64>) -> Found {
        let bytes = frames.concat();
        let whole = with(&bytes, length, usize::MAX);
        for size in [1, 2, 7] {
            assert_eq!(with(&bytes, length, size), whole, "{size} bytes at a time");
        }
        whole
    }

    fn code(frames: &[Vec<u8>]) -> Option<Code> {
        match read(frames, None) {
            Err(StreamError::Connection(error)) => Some(error.code),
            _ => None,
        }
    }

    /// A head with `:method`.
    fn head() -> Vec<u8> {
        frame(kind::HEADERS, &[0, 0, 0xd1])
    }

    /// A trailer with `etag`.
    fn trailer() -> Vec<u8> {
        frame(kind::HEADERS, &[0, 0, 0x57, 0])
    }

    fn data(bytes: &[u8]) -> Vec<u8> {
        frame(kind::DATA, bytes)
    }

    fn reserved() -> Vec<u8> {
        frame(0x21 + 0x1f * 9, b"anything")
    }

    #[test]
    fn a_message_is_a_head_a_body_and_a_trailer() {
        let both = |sections: &[&str], body: &[u8]| {
            Ok((sections.iter().map(|one| one.to_string()).collect::<Vec<_>>(), body.to_vec()))
        };
        assert_eq!(read(&[head()], None), both(&[":method"], b""));
        let frames = [reserved(), head(), data(b"ab"), data(b""), reserved(), data(b"cd")];
        assert_eq!(read(&frames, None), both(&[":method"], b"abcd"));
        let frames = [head(), data(b"x"), trailer(), reserved()];
        assert_eq!(read(&frames, None), both(&[":method", "etag"], b"x"));
        assert_eq!(read(&[head(), trailer()], None), both(&[":method", "etag"], b""));
    }

    #[test]
    fn frames_in_the_wrong_place_end_the_connection() {
        for frames in [
            vec![data(b"x"), head()],
            vec![data(b"")],
            vec![head(), trailer(), data(b"x")],
            vec![head(), trailer(), data(b"")],
            vec![head(), trailer(), trailer()],
            vec![head(), data(b"x"), trailer(), reserved(), trailer()],
        ] {
            assert_eq!(code(&frames), Some(Code::FrameUnexpected), "{frames:x?}");
        }
        let kinds = [0x2, 0x3, 0x4, 0x5, 0x6, 0x7, 0x8, 0x9, 0xd, 0xf0700, 0xf0701];
        for other in kinds.map(|kind| frame(kind, &[0])) {
            for frames in [
                vec![other.clone()],
                vec![head(), other.clone()],
                vec![head(), data(b"x"), other.clone()],
                vec![head(), trailer(), other.clone()],
            ] {
                assert_eq!(code(&frames), Some(Code::FrameUnexpected), "{frames:x?}");
            }
        }
    }

    #[test]
    fn a_stream_does_not_end_within_a_frame_or_before_its_head() {
        let whole = [head(), data(b"abc"), trailer()].concat();
        let ends = [head().len(), head().len() + 5, whole.len()];
        for end in 1..=whole.len() {
            let found = code(&[whole[..end].to_vec()]);
            let expected = if ends.contains(&end) { None } else { Some(Code::FrameError) };
            assert_eq!(found, expected, "{end} bytes");
        }
        assert_eq!(read(&[], None), Err(StreamError::Incomplete));
        assert_eq!(read(&[reserved()], None), Err(StreamError::Incomplete));
    }

    #[test]
    fn sections_that_cannot_be_decoded_end_the_connection() {
        for section in [&[][..], &[0], &[1, 0], &[0, 0, 0x80], &[0, 0, 0x51]] {
            let failed = Some(Code::QpackDecompressionFailed);
            assert_eq!(code(&[frame(kind::HEADERS, section)]), failed, "{section:x?}");
            let trailer = frame(kind::HEADERS, section);
            assert_eq!(code(&[head(), data(b"x"), trailer]), failed, "{section:x?}");
        }
        let long = frame(kind::HEADERS, &[&[0, 0][..], &[0xd1; 100]].concat());
        assert_eq!(read(std::slice::from_ref(&long), None), Err(StreamError::TooLong));
        assert_eq!(read(&[head(), long], None), Err(StreamError::TooLong));
    }

    #[test]
    fn the_body_has_the_announced_length() {
        let body = [head(), data(b"ab"), data(b""), data(b"c")];
        assert!(read(&body, Some(3)).is_ok());
        for wrong in [0, 1, 2, 4, u64::MAX] {
            assert_eq!(read(&body, Some(wrong)), Err(StreamError::Malformed), "{wrong}");
        }
        assert!(read(&[head()], Some(0)).is_ok());
        assert_eq!(read(&[head()], Some(1)), Err(StreamError::Malformed));
        assert_eq!(read(&[head(), trailer()], Some(1)), Err(StreamError::Malformed));
    }
}
