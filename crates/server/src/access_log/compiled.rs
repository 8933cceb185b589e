//! A configured access log, compiled: its file, the format of a line and the condition for one.

use std::sync::Arc;
use std::time::Instant;

use howdah_config::{self as config, Condition};
use howdah_http::exchange::RequestRecord;
use howdah_http::message::ConnectionInfo;
use howdah_http::variables::{ResponseFacts, VariableSource};

use super::file::LogFile;
use super::format::Format;

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

    /// Returns its file.
    pub fn file(&self) -> &Arc<LogFile> {
        &self.file
    }

    /// Returns the values of variables in the line of a request.
    pub(super) fn source<'a>(record: &'a RequestRecord<'a>) -> VariableSource<'a> {
        let connection: &ConnectionInfo = match record.request {
            // The connection's own addresses: a proxy may have sent those of the client.
            Some(request) => &request.connection,
            None => record.connection,
        };
        let answer = ResponseFacts {
            status: record.status,
            fields: record.fields,
            connection_fields: record.connection_fields,
            body_sent: record.body_sent,
        };
        let now = Instant::now();
        let started_at = now.checked_sub(record.elapsed).unwrap_or(now);
        let (request, answer) = (record.request, Some(answer));
        VariableSource { request, connection, answer, started_at, is_for_log: true }
    }

    /// Returns true if the condition for a line holds. `scratch` is reusable memory.
    pub(super) fn is_wanted(&self, source: &VariableSource<'_>, scratch: &mut Vec<u8>) -> bool {
        self.condition.as_ref().is_none_or(|condition| {
            condition.holds(scratch, |variable, out| {
                source.write(variable, out);
            })
        })
    }

    /// Appends a line.
    pub(super) fn write_line(&self, source: &VariableSource<'_>, line: &mut Vec<u8>) {
        self.format.line(source, line);
    }
}

#[cfg(test)]
impl AccessLog {
    /// Replaces the file by another one. Returns the old one.
    pub(super) fn replace_file(&mut self, file: Arc<LogFile>) -> Arc<LogFile> {
        std::mem::replace(&mut self.file, file)
    }
}
