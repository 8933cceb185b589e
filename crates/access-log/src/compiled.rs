//! A configured access log, compiled: its file, the format of a line and the requests with a line.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use howdah_config::{self as config, Condition, FpmLog, LogFormat, Only};
use howdah_http::exchange::RequestRecord;
use howdah_http::message::ConnectionInfo;
use howdah_http::variables::{ResponseFacts, VariableSource};

use super::file::{LogFile, LogFiles};
use super::format::Format;
use super::php_fpm;

/// A compiled access log.
#[derive(Debug)]
pub struct AccessLog {
    file: Arc<LogFile>,
    format: Format,
    condition: Option<Condition>,
    only: Option<Only>,
    php_fpm: Option<FpmLog>,
    flush: Duration,
}

/// Compiles the access logs of a document, a listener or an action. A log whose file is not open is
/// left out.
pub fn compile(logs: &[config::AccessLog], files: &LogFiles) -> Arc<[AccessLog]> {
    let compiled = |log: &config::AccessLog| {
        files.get(&log.destination).map(|file| AccessLog::new(log, Arc::clone(file)))
    };
    logs.iter().filter_map(compiled).collect()
}

impl AccessLog {
    /// Compiles a log of a configuration, for an open file.
    pub fn new(config: &config::AccessLog, file: Arc<LogFile>) -> Self {
        AccessLog {
            file,
            format: Format::new(&config.format, &config.absent, &config.mask),
            condition: config.condition.clone(),
            only: config.only.clone(),
            php_fpm: match &config.format {
                LogFormat::PhpFpm(log) => Some(log.clone()),
                LogFormat::Text(_) | LogFormat::Json(_) => None,
            },
            flush: config.flush,
        }
    }

    /// Returns its file.
    pub fn file(&self) -> &Arc<LogFile> {
        &self.file
    }

    /// Returns the maximum time that a line waits to be written with others.
    pub fn flush(&self) -> Duration {
        self.flush
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
            transferred: Some((record.received, record.sent)),
        };
        let now = Instant::now();
        let started_at = now.checked_sub(record.elapsed).unwrap_or(now);
        let (request, answer) = (record.request, Some(answer));
        VariableSource { request, connection, answer, started_at, is_for_log: true }
    }

    /// Returns true if the request has a line. `scratch` is reusable memory.
    pub(super) fn is_wanted(
        &self,
        record: &RequestRecord<'_>,
        source: &VariableSource<'_>,
        scratch: &mut Vec<u8>,
    ) -> bool {
        self.only.as_ref().is_none_or(|only| is_one_of(only, record))
            && self.php_fpm.as_ref().is_none_or(|log| !php_fpm::is_suppressed(log, record))
            && self.condition.as_ref().is_none_or(|condition| {
                condition.holds(scratch, |variable, out| {
                    source.write(variable, out);
                })
            })
    }

    /// Appends a line.
    pub(super) fn write_line(
        &self,
        record: &RequestRecord<'_>,
        source: &VariableSource<'_>,
        line: &mut Vec<u8>,
    ) {
        self.format.line(record, source, line);
    }
}

fn is_one_of(only: &Only, record: &RequestRecord<'_>) -> bool {
    only.slow.is_some_and(|slow| record.elapsed >= slow)
        || only.status.is_some_and(|(low, high)| (low..=high).contains(&record.status))
        || only.sample.is_some_and(|part| is_in_sample(part, record))
}

/// Returns true for a random part of the requests. A client cannot choose whether its request is in
/// the sample: the request's number is hashed with a random key.
fn is_in_sample(part: f64, record: &RequestRecord<'_>) -> bool {
    static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    let number = record.request.map_or(record.received, |request| request.id);
    let hash = KEY.hash_one((number, record.elapsed));
    // The upper 32 bits as a fraction of 1, which a double holds exactly.
    f64::from((hash >> 32) as u32) / 4_294_967_296.0 < part
}
