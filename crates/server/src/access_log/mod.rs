//! The access log: a line for each request. Each thread writes many lines at once.
//!
//! 1. When a request is over, its line is appended to its thread's [`LineBuffer`], if the condition
//!    holds. Values are escaped ([`format`](self)), so that no client can forge a line or a field.
//! 2. The lines of a thread are written with one call to a file opened for appending ([`LogFile`]):
//!    when there are many, [`MAX_DELAY`] after the first, and when the thread ends. Lines of
//!    several threads never mix.
//! 3. Log rotation replaces the file; waiting lines go to the new one.

mod buffer;
mod compiled;
mod escape;
mod file;
mod format;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use self::buffer::LineBuffer;
pub use self::compiled::AccessLog;
pub use self::file::LogFile;

/// Maximum time that a line waits to be written with others.
pub const MAX_DELAY: Duration = Duration::from_millis(10);
