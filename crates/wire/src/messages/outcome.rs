//! A configuration change: which applications it restarts, and its result.

use super::field::Field;
use crate::bytes::{Decoder, Encode, Malformed};

/// The applications that are restarted after a configuration change, beside those that it changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Restart {
    /// No applications.
    #[default]
    Nothing,
    /// No applications. The document was read again because of a file that has changed by itself.
    NothingAfterReading,
    /// Applications with a changed file that PHP was started from, or a changed preload or worker
    /// script.
    Changed,
    /// All.
    All,
}

impl Field for Restart {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_u8(match self {
            Restart::Nothing => 0,
            Restart::Changed => 1,
            Restart::All => 2,
            Restart::NothingAfterReading => 3,
        });
    }

    fn take(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            0 => Restart::Nothing,
            1 => Restart::Changed,
            2 => Restart::All,
            3 => Restart::NothingAfterReading,
            _ => return Err(Malformed),
        })
    }
}

/// Result of a configuration change. The texts are for administrators: one line with the problem
/// and its solution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// The configuration is applied.
    Done,
    /// A required resource is not available; the old configuration stays in use.
    NotApplied(String),
    /// The configuration could not be stored; the old one stays in use.
    NotStored(String),
    /// The configuration is applied, but an application could not be restarted.
    NotRestarted(String),
    /// The server is being upgraded; the change must be made afterwards.
    Upgrading,
}

impl Field for ChangeOutcome {
    fn put(&self, out: &mut Vec<u8>) {
        let (tag, text) = match self {
            ChangeOutcome::Done => return out.put_u8(0),
            ChangeOutcome::Upgrading => return out.put_u8(4),
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
            4 => ChangeOutcome::Upgrading,
            _ => return Err(Malformed),
        })
    }
}
