//! Orders to jobs.

use super::field::Field;
use crate::bytes::{Decoder, Encode, Malformed};

/// An order to a job of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobOrder {
    /// Start it now.
    Run,
    /// Start no process of it any more.
    Pause,
    /// End a pause.
    Resume,
}

impl Field for JobOrder {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_u8(match self {
            JobOrder::Run => 0,
            JobOrder::Pause => 1,
            JobOrder::Resume => 2,
        });
    }

    fn take(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            0 => JobOrder::Run,
            1 => JobOrder::Pause,
            2 => JobOrder::Resume,
            _ => return Err(Malformed),
        })
    }
}
