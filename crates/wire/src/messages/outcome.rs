//! The result of a change of the configuration.

use super::field::Field;
use crate::bytes::{Decoder, Encode, Malformed};

/// The result of a change of the configuration. The texts are for administrators: one line that
/// says what is wrong and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// It is the running configuration.
    Done,
    /// A resource that it needs is not available; the old configuration runs.
    NotApplied(String),
    /// It could not be stored; the old configuration runs.
    NotStored(String),
    /// It is the running configuration, but an application could not be restarted.
    NotRestarted(String),
}

impl Field for ChangeOutcome {
    fn put(&self, out: &mut Vec<u8>) {
        let (tag, text) = match self {
            ChangeOutcome::Done => return out.put_u8(0),
            ChangeOutcome::NotApplied(text) => (1, text),
            ChangeOutcome::NotStored(text) => (2, text),
            ChangeOutcome::NotRestarted(text) => (3, text),
        };
        out.put_u8(tag);
        text.put(out);
    }

    fn take(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            0 => ChangeOutcome::Done,
            1 => ChangeOutcome::NotApplied(String::take(from)?),
            2 => ChangeOutcome::NotStored(String::take(from)?),
            3 => ChangeOutcome::NotRestarted(String::take(from)?),
            _ => return Err(Malformed),
        })
    }
}
