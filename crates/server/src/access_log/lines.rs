//! A thread's lines that wait to be written.

use std::sync::Arc;

use howdah_http::exchange::Finished;
use howdah_sys::log::Log;

use super::{AccessLog, LogFile, source};

/// So many bytes are written at once, whatever the time.
const ENOUGH: usize = 32 << 10;

/// Lines of one thread.
#[derive(Debug, Default)]
pub struct Lines {
    text: Vec<u8>,
    /// Where they go; kept only while there are some, so that a log that is no longer configured
    /// is closed.
    file: Option<Arc<LogFile>>,
    scratch: Vec<u8>,
}

impl Lines {
    /// Adds the line of a request. `true` if it is the first one, so that the caller must see to
    /// it that [`Lines::flush`] is called in a while.
    pub fn add(&mut self, log: &AccessLog, record: &Finished<'_>, errors: &Log) -> bool {
        let source = source(record);
        let holds = log.condition.as_ref().is_none_or(|condition| {
            condition.holds(&mut self.scratch, |variable, out| {
                source.write(variable, out);
            })
        });
        if !holds {
            return false;
        }
        if self.file.as_ref().is_some_and(|file| !Arc::ptr_eq(file, &log.file)) {
            self.flush(errors);
        }
        let first = self.file.is_none();
        if first {
            self.file = Some(Arc::clone(&log.file));
        }
        log.format.line(&source, &mut self.text);
        if self.text.len() < ENOUGH {
            return first;
        }
        self.flush(errors);
        false
    }

    /// Writes what waits.
    pub fn flush(&mut self, errors: &Log) {
        if let Some(file) = self.file.take() {
            file.append(&self.text, errors);
            self.text.clear();
            self.text.shrink_to(2 * ENOUGH);
        }
    }
}
