//! Exit status of a process.

use super::field::Field;
use crate::bytes::{Decoder, Encode, Malformed};

/// Exit status of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The process returned this status.
    Status(u8),
    /// A signal killed the process.
    Signal(u8),
    /// The kernel killed the process because memory had run out.
    OutOfMemory,
    /// The supervisor killed the process because those of its application exceeded their limits.
    OverLimit,
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Exit::Status(status) => write!(f, "exited with status {status}"),
            Exit::Signal(signal) => write!(f, "exited on signal {signal}"),
            Exit::OutOfMemory => f.write_str(
                "exited on signal 9: out of memory, in its control group or in the machine",
            ),
            Exit::OverLimit => f.write_str(
                "exited on signal 9: the processes of its application exceeded \
                 isolation/limits",
            ),
        }
    }
}

impl Field for Exit {
    fn put(&self, out: &mut Vec<u8>) {
        let (kind, value) = match self {
            Exit::Status(status) => (0, *status),
            Exit::Signal(signal) => (1, *signal),
            Exit::OutOfMemory => (2, 0),
            Exit::OverLimit => (3, 0),
        };
        out.put_u8(kind);
        out.put_u8(value);
    }
    fn take(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        match (from.u8()?, from.u8()?) {
            (0, status) => Ok(Exit::Status(status)),
            (1, signal) => Ok(Exit::Signal(signal)),
            (2, 0) => Ok(Exit::OutOfMemory),
            (3, 0) => Ok(Exit::OverLimit),
            _ => Err(Malformed),
        }
    }
}
