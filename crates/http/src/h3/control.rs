//! The control stream of a client (RFC 9114, 6.2.1 and 7.2), without I/O.

use bytes::Bytes;

use super::error::{Code, ConnectionError};
use super::frames::{Frame, Frames, Piece, kind};
use super::settings;
use super::varint;

/// Maximum length in bytes of a PRIORITY_UPDATE that is read; longer ones are an error.
const MAX_PRIORITY_UPDATE: usize = 256;

/// An event of the control stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The head of a frame, for its cost.
    Frame(Frame),
    /// A new priority of a request (RFC 9218, 7.2).
    Priority {
        /// Id of the request stream.
        stream: u64,
        /// Value of the field `Priority`.
        value: Vec<u8>,
    },
}

/// State of the stream.
#[derive(Debug, Default)]
pub struct Control {
    frames: Frames,
    has_settings: bool,
    /// The frame whose payload arrives, if that is not skipped.
    frame: Option<(u64, Vec<u8>)>,
    max_push: Option<u64>,
    goaway: Option<u64>,
}

impl Control {
    /// Takes bytes off `input` up to the next event. `None` if more bytes are needed.
    pub fn next(&mut self, input: &mut Bytes) -> Result<Option<Event>, ConnectionError> {
        loop {
            // A frame that is empty or complete.
            if self.frames.left() == 0
                && let Some((kind, payload)) = self.frame.take()
            {
                if let Some(event) = self.end_frame(kind, &payload)? {
                    return Ok(Some(event));
                }
                continue;
            }
            match self.frames.next(input) {
                None => return Ok(None),
                Some(Piece::Head(frame)) => {
                    self.begin_frame(frame)?;
                    return Ok(Some(Event::Frame(frame)));
                }
                Some(Piece::Payload(bytes)) => {
                    if let Some((_, payload)) = &mut self.frame {
                        payload.extend_from_slice(&bytes);
                    }
                }
            }
        }
    }

    fn begin_frame(&mut self, Frame { kind, length }: Frame) -> Result<(), ConnectionError> {
        let error = |code, reason| Err(ConnectionError::new(code, reason));
        let max = match kind {
            kind::SETTINGS if self.has_settings => {
                return error(Code::FrameUnexpected, "SETTINGS twice");
            }
            kind::SETTINGS => settings::MAX_LENGTH,
            _ if !self.has_settings => {
                return error(Code::MissingSettings, "a control stream that begins otherwise");
            }
            kind::CANCEL_PUSH | kind::GOAWAY | kind::MAX_PUSH_ID if length > 8 => {
                return error(Code::FrameError, "a frame that is longer than its id");
            }
            kind::CANCEL_PUSH | kind::GOAWAY | kind::MAX_PUSH_ID => 8,
            kind::PRIORITY_UPDATE | kind::PRIORITY_UPDATE_PUSH => MAX_PRIORITY_UPDATE,
            kind::DATA | kind::HEADERS | kind::PUSH_PROMISE => {
                return error(Code::FrameUnexpected, "a frame of requests on the control stream");
            }
            kind if kind::is_of_http_2(kind) => {
                return error(Code::FrameUnexpected, "a frame of HTTP/2");
            }
            _ => return Ok(()),
        };
        if length > max as u64 {
            return error(Code::ExcessiveLoad, "a frame that is longer than any sensible one");
        }
        self.has_settings = true;
        self.frame = Some((kind, Vec::new()));
        Ok(())
    }

    fn end_frame(&mut self, kind: u64, payload: &[u8]) -> Result<Option<Event>, ConnectionError> {
        if kind == kind::SETTINGS {
            return settings::check(payload).map(|()| None);
        }
        let error = |code, reason| Err(ConnectionError::new(code, reason));
        let Some((id, rest)) = varint::read(payload) else {
            return error(Code::FrameError, "a frame without its id");
        };
        let has_rest = !rest.is_empty() && kind < kind::PRIORITY_UPDATE;
        match kind {
            _ if has_rest => error(Code::FrameError, "a frame that is longer than its id"),
            kind::PRIORITY_UPDATE if !id.is_multiple_of(4) => {
                error(Code::IdError, "the priority of a stream that has no request")
            }
            kind::PRIORITY_UPDATE => Ok(Some(Event::Priority { stream: id, value: rest.to_vec() })),
            kind::CANCEL_PUSH | kind::PRIORITY_UPDATE_PUSH => {
                error(Code::IdError, "a push that was not promised")
            }
            kind::MAX_PUSH_ID if self.max_push.is_some_and(|before| id < before) => {
                error(Code::IdError, "MAX_PUSH_ID that shrinks")
            }
            kind::MAX_PUSH_ID => {
                self.max_push = Some(id);
                Ok(None)
            }
            _ if self.goaway.is_some_and(|before| id > before) => {
                error(Code::IdError, "GOAWAY with a greater id than before")
            }
            _ => {
                self.goaway = Some(id);
                Ok(None)
            }
        }
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

    /// Returns the priorities and the code of the error, however the bytes are cut.
    fn read(bytes: &[u8]) -> (Vec<(u64, Vec<u8>)>, Option<Code>) {
        let with = |size| {
            let (mut control, mut priorities) = (Control::default(), Vec::new());
            for part in bytes.chunks(size) {
                let mut input = Bytes::copy_from_slice(part);
                loop {
                    match control.next(&mut input) {
                        Ok(Some(Event::Frame(_))) => {}
                        Ok(Some(Event::Priority { stream, value })) => {
                            priorities.push((stream, value));
                        }
                        Ok(None) => break,
                        Err(error) => return (priorities, Some(error.code)),
                    }
                }
            }
            (priorities, None)
        };
        let whole = with(usize::MAX);
        assert_eq!(with(1), whole);
        whole
    }

    fn code(frames: &[(u64, &[u8])]) -> Option<Code> {
        let bytes: Vec<_> = frames.iter().map(|(kind, payload)| frame(*kind, payload)).collect();
        read(&bytes.concat()).1
    }

    const SETTINGS: (u64, &[u8]) = (kind::SETTINGS, &[]);

    #[test]
    fn settings_come_first_and_once() {
        assert_eq!(code(&[SETTINGS]), None);
        assert_eq!(code(&[(kind::SETTINGS, &[0x6, 0x10])]), None);
        assert_eq!(code(&[SETTINGS, SETTINGS]), Some(Code::FrameUnexpected));
        for first in [kind::GOAWAY, kind::MAX_PUSH_ID, kind::DATA, 0x21, kind::PRIORITY_UPDATE] {
            assert_eq!(code(&[(first, &[0]), SETTINGS]), Some(Code::MissingSettings), "{first:x}");
        }
        assert_eq!(code(&[(kind::SETTINGS, &[0x2, 0])]), Some(Code::SettingsError));
        assert_eq!(code(&[(kind::SETTINGS, &[0x6])]), Some(Code::FrameError));
        assert_eq!(code(&[(kind::SETTINGS, &[0x21; 2000])]), Some(Code::ExcessiveLoad));
    }

    #[test]
    fn frames_of_requests_and_of_http_2_are_unexpected() {
        for kind in [kind::DATA, kind::HEADERS, kind::PUSH_PROMISE, 0x2, 0x6, 0x8, 0x9] {
            assert_eq!(code(&[SETTINGS, (kind, &[])]), Some(Code::FrameUnexpected), "{kind:x}");
        }
        for kind in [0x21, 0x1f * 7 + 0x21, 0xabcd] {
            assert_eq!(code(&[SETTINGS, (kind, &[0; 5000]), (kind, &[])]), None, "{kind:x}");
        }
    }

    #[test]
    fn ids_move_in_one_direction_and_pushes_are_never_cancelled() {
        let push = |ids: &[u8]| -> Option<Code> {
            let frames: Vec<_> = ids.iter().map(|id| frame(kind::MAX_PUSH_ID, &[*id])).collect();
            read(&[frame(kind::SETTINGS, &[]), frames.concat()].concat()).1
        };
        assert_eq!(push(&[0, 0, 5, 60]), None);
        assert_eq!(push(&[5, 4]), Some(Code::IdError));
        let goaway = |ids: &[u8]| -> Option<Code> {
            let frames: Vec<_> = ids.iter().map(|id| frame(kind::GOAWAY, &[*id])).collect();
            read(&[frame(kind::SETTINGS, &[]), frames.concat()].concat()).1
        };
        assert_eq!(goaway(&[60, 60, 5, 0]), None);
        assert_eq!(goaway(&[5, 6]), Some(Code::IdError));
        assert_eq!(code(&[SETTINGS, (kind::CANCEL_PUSH, &[0])]), Some(Code::IdError));
        let promised = [SETTINGS, (kind::MAX_PUSH_ID, &[9]), (kind::CANCEL_PUSH, &[3])];
        assert_eq!(code(&promised), Some(Code::IdError));
    }

    #[test]
    fn an_id_fills_its_frame() {
        for kind in [kind::CANCEL_PUSH, kind::GOAWAY, kind::MAX_PUSH_ID] {
            for payload in [&[][..], &[0x40], &[0, 0], &[0x40, 0, 0], &[0; 9], &[0; 100]] {
                let found = code(&[SETTINGS, (kind, payload)]);
                assert_eq!(found, Some(Code::FrameError), "{kind:x} {payload:x?}");
            }
        }
        assert_eq!(code(&[SETTINGS, (kind::GOAWAY, &[0x40, 0x00])]), None);
    }

    #[test]
    fn priorities_are_of_request_streams() {
        let update = frame(kind::PRIORITY_UPDATE, b"\x08u=1, i");
        let bytes = [frame(kind::SETTINGS, &[]), update, frame(0x21, b"x")].concat();
        assert_eq!(read(&bytes), (vec![(8, b"u=1, i".to_vec())], None));
        for (kind, payload, expected) in [
            (kind::PRIORITY_UPDATE, &[][..], Code::FrameError),
            (kind::PRIORITY_UPDATE, b"\x02u=1", Code::IdError),
            (kind::PRIORITY_UPDATE, b"\x07", Code::IdError),
            (kind::PRIORITY_UPDATE_PUSH, b"\x00u=1", Code::IdError),
            (kind::PRIORITY_UPDATE, &[0; 1000], Code::ExcessiveLoad),
        ] {
            assert_eq!(code(&[SETTINGS, (kind, payload)]), Some(expected), "{kind:x} {payload:x?}");
        }
    }
}
