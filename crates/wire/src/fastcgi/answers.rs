//! What an application answers to one request at a time.

use super::{End, Kind, Part, Records};
use crate::bytes::Malformed;

/// A part of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer<'a> {
    /// Bytes of the response. None: an empty record, which means nothing here; so every record costs
    /// a call, and who calls can tell how many there are.
    Stdout(&'a [u8]),
    /// Bytes for the log.
    Stderr(&'a [u8]),
    /// The answer is complete. Nothing may follow before the next request.
    End(End),
}

/// Reads the answer to one request. Records that answer nobody (another request, a question about
/// capabilities) are an error: only this request was sent.
#[derive(Debug)]
pub struct Answers {
    records: Records,
    id: u16,
    end: [u8; 8],
    have: u8,
}

impl Answers {
    /// To the request of this number.
    pub fn new(id: u16) -> Self {
        Answers { records: Records::default(), id, end: [0; 8], have: 0 }
    }

    /// Takes the next part from the front of `input`; `None` if more is needed. After
    /// [`Answer::End`] the padding of its record may still be to come: call on until `None`.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Answer<'a>>, Malformed> {
        while let Some((kind, id, part)) = self.records.next(input)? {
            if id != self.id {
                return Err(Malformed);
            }
            match (Kind::from_byte(kind), part) {
                (Some(Kind::Stdout), Part::Content(bytes)) => {
                    return Ok(Some(Answer::Stdout(bytes)));
                }
                (Some(Kind::Stderr), Part::Content(bytes)) => {
                    return Ok(Some(Answer::Stderr(bytes)));
                }
                (Some(Kind::Stdout | Kind::Stderr), Part::End(0)) => {
                    return Ok(Some(Answer::Stdout(&[])));
                }
                (Some(Kind::Stdout | Kind::Stderr), Part::End(_)) => {}
                (Some(Kind::EndRequest), Part::Content(bytes)) => {
                    for byte in bytes {
                        *self.end.get_mut(usize::from(self.have)).ok_or(Malformed)? = *byte;
                        self.have += 1;
                    }
                }
                (Some(Kind::EndRequest), Part::End(_)) if self.have == 8 => {
                    self.have = 0;
                    return Ok(Some(Answer::End(End::decode(self.end)?)));
                }
                _ => return Err(Malformed),
            }
        }
        Ok(None)
    }

    /// Whether the last record has come in full, with its padding.
    pub fn is_between(&self) -> bool {
        self.records.is_between()
    }
}
