//! The access log: a line for each request.
//!
//! 1. When a request is over, its line is appended to its thread's [`LineBuffer`], if the log wants
//!    one ([`AccessLog`]). Values are masked (`howdah_http::mask`) and escaped (`escape`), so that
//!    no client can forge a line or a field.
//! 2. The lines of a thread are written with one call to a file opened for appending ([`LogFile`]):
//!    when there are many, some time after the first ([`AccessLog::flush`]), and when the thread
//!    ends. Lines of several threads never mix. To a syslog server and to the journal, each line is
//!    a datagram (`datagram`); those that it does not take yet wait in memory (`backlog`).
//! 3. Log rotation replaces the file; waiting lines go to the new one.
//!
//! The files and sockets are opened elsewhere: the router has not the right to.
#![forbid(unsafe_code)]

mod backlog;
mod buffer;
mod compiled;
mod datagram;
mod escape;
mod file;
mod format;
mod php_fpm;
mod secrets;

#[cfg(test)]
mod tests;

pub use self::backlog::Sent;
pub use self::buffer::LineBuffer;
pub use self::compiled::{AccessLog, compile};
pub use self::file::{LogFile, LogFiles};
pub use self::secrets::secrets;
