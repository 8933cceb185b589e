//! The result of a change of the configuration.

use super::field::Field;
use crate::bytes::{Malformed, Put, Take};

/// The result of a change of the configuration. The texts are for administrators: one line that
/// says what is wrong and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is the running configuration.
    Done,
    /// A resource that it needs is not available; the old configuration runs.
    NotApplied(String),
    /// It could not be stored; the old configuration runs.
    NotStored(String),
    /// It is the running configuration, but an application could not be restarted.
    NotRestarted(String),
}

impl Field for Outcome {
    fn put(&self, out: &mut Vec<u8>) {
        let (tag, text) = match self {
            Outcome::Done => return out.put_u8(0),
            Outcome::NotApplied(text) => (1, text),
            Outcome::NotStored(text) => (2, text),
            Outcome::NotRestarted(text) => (3, text),
        };
        out.put_u8(tag);
        text.put(out);
    }

    fn take(from: &mut Take<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            0 => Outcome::Done,
            1 => Outcome::NotApplied(String::take(from)?),
            2 => Outcome::NotStored(String::take(from)?),
            3 => Outcome::NotRestarted(String::take(from)?),
            _ => return Err(Malformed),
        })
    }
}
