//! Lines of one thread that wait to be written together.

use std::sync::Arc;

use howdah_http::exchange::RequestRecord;
use howdah_sys::log::Log;

use super::compiled::AccessLog;
use super::file::LogFile;

/// Size at which lines are written without further delay.
const FLUSH_BYTES: usize = 32 << 10;

/// Lines of one thread that wait to be written.
#[derive(Debug, Default)]
pub struct LineBuffer {
    text: Vec<u8>,
    /// Their file; `None` if no line waits, so that a log that is no longer configured is closed.
    file: Option<Arc<LogFile>>,
    scratch: Vec<u8>,
}

impl LineBuffer {
    /// Adds the line of a request. Returns true if it is the first one that waits: the caller must
    /// call [`LineBuffer::flush`] within [`super::MAX_DELAY`]. Errors go to `errors`.
    pub fn add(&mut self, log: &AccessLog, record: &RequestRecord<'_>, errors: &Log) -> bool {
        let source = AccessLog::source(record);
        if !log.is_wanted(&source, &mut self.scratch) {
            return false;
        }
        if self.file.as_ref().is_some_and(|file| !Arc::ptr_eq(file, log.file())) {
            self.flush(errors);
        }
        let is_first = self.file.is_none();
        if is_first {
            self.file = Some(Arc::clone(log.file()));
        }
        log.write_line(&source, &mut self.text);
        if self.text.len() < FLUSH_BYTES {
            return is_first;
        }
        self.flush(errors);
        false
    }

    /// Writes the waiting lines.
    pub fn flush(&mut self, errors: &Log) {
        if let Some(file) = self.file.take() {
            file.append(&self.text, errors);
            self.text.clear();
            self.text.shrink_to(2 * FLUSH_BYTES);
        }
    }
}
