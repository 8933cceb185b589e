//! Decodes the response of an application to one request at a time.

use super::records::{End, Kind, Part, Records};
use crate::bytes::Malformed;

/// Part of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer<'a> {
    /// Bytes of the response; empty for an empty record, so that the caller can count records.
    Stdout(&'a [u8]),
    /// Bytes for the log.
    Stderr(&'a [u8]),
    /// The response is complete.
    End(End),
}

/// Decodes the response to one request. Records for another request, and records that do not belong
/// to a response, are an error.
#[derive(Debug)]
pub struct Answers {
    records: Records,
    id: u16,
    end: [u8; 8],
    have: u8,
}

impl Answers {
    /// Creates a decoder for the request with this id.
    pub fn new(id: u16) -> Self {
        Answers { records: Records::default(), id, end: [0; 8], have: 0 }
    }

    /// Takes the next part from the front of `input`; `None` if all of `input` is consumed. After
    /// [`Answer::End`] the padding of its record may follow: the caller continues until `None`.
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

    /// Returns true between two records: the last one is complete, including its padding.
    pub fn is_record_complete(&self) -> bool {
        self.records.is_record_complete()
    }
}
