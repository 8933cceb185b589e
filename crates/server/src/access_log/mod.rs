//! The access log: a line for each request, written by each thread in pieces of many lines.
//!
//! 1. When a request is over, its line is put in its thread's memory ([`Lines`]), if the
//!    condition holds. Values are escaped ([`format`](self)), so that no client can forge a line
//!    or a field of one.
//! 2. Lines leave together, with one write to a file opened for appending ([`LogFile`]): when
//!    there are many, [`DELAY`] after the first, and when the thread ends. Lines of several
//!    threads never mix.
//! 3. Log rotation exchanges the file behind; what waits goes to the new one.

mod escape;
mod file;
mod format;
mod lines;

use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_config::{self as config, Condition};
use howdah_http::exchange::Finished;
use howdah_http::message::ConnectionInfo;
use howdah_http::variables::{Answer, Source};

use self::format::Format;

pub use self::file::LogFile;
pub use self::lines::Lines;

/// How long a line may wait for others to be written with.
pub const DELAY: Duration = Duration::from_millis(10);

/// A compiled access log.
#[derive(Debug)]
pub struct AccessLog {
    file: Arc<LogFile>,
    format: Format,
    condition: Option<Condition>,
}

impl AccessLog {
    /// Compiles the log of a configuration, for an open file.
    pub fn new(config: &config::AccessLog, file: Arc<LogFile>) -> Self {
        let (format, condition) = (Format::new(&config.format), config.condition.clone());
        AccessLog { file, format, condition }
    }

    /// Its file.
    pub fn file(&self) -> &Arc<LogFile> {
        &self.file
    }
}

/// What the variables of a line are taken from.
fn source<'a>(record: &'a Finished<'a>) -> Source<'a> {
    let connection: &ConnectionInfo = match record.request {
        // Its own: a proxy may have told more about the client.
        Some(request) => &request.connection,
        None => record.connection,
    };
    let answer = Answer {
        status: record.status,
        fields: record.fields,
        added: record.added,
        body_sent: record.body_sent,
    };
    let now = Instant::now();
    let begun = now.checked_sub(record.elapsed).unwrap_or(now);
    let (request, answer) = (record.request, Some(answer));
    Source { request, connection, answer, begun, is_for_log: true }
}

#[cfg(test)]
mod tests;
