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
    /// The lines of each file that has some. A file without waiting lines is left out, so that a
    /// log that is no longer configured is closed.
    waiting: Vec<Waiting>,
    /// Memory of a file whose lines were written.
    spare: Vec<u8>,
    scratch: Vec<u8>,
}

#[derive(Debug)]
struct Waiting {
    file: Arc<LogFile>,
    text: Vec<u8>,
}

impl LineBuffer {
    /// Adds the line of a request. Returns true if it is the first one of its file that waits: the
    /// caller must call [`LineBuffer::flush`] within [`AccessLog::flush`]. Errors go to `errors`.
    pub fn add(&mut self, log: &AccessLog, record: &RequestRecord<'_>, errors: &Log) -> bool {
        let source = AccessLog::source(record);
        if !log.is_wanted(record, &source, &mut self.scratch) {
            return false;
        }
        let found = self.waiting.iter().position(|one| Arc::ptr_eq(&one.file, log.file()));
        let is_first = found.is_none();
        let index = found.unwrap_or_else(|| {
            let text = std::mem::take(&mut self.spare);
            self.waiting.push(Waiting { file: Arc::clone(log.file()), text });
            self.waiting.len() - 1
        });
        let Some(waiting) = self.waiting.get_mut(index) else { return false };
        log.write_line(record, &source, &mut waiting.text);
        if waiting.text.len() < FLUSH_BYTES {
            return is_first;
        }
        self.write(index, errors);
        false
    }

    /// Writes the waiting lines of a file.
    pub fn flush(&mut self, file: &Arc<LogFile>, errors: &Log) {
        if let Some(index) = self.waiting.iter().position(|one| Arc::ptr_eq(&one.file, file)) {
            self.write(index, errors);
        }
    }

    /// Writes all waiting lines.
    pub fn flush_all(&mut self, errors: &Log) {
        while !self.waiting.is_empty() {
            self.write(0, errors);
        }
    }

    /// Writes the lines of the file with this index.
    fn write(&mut self, index: usize, errors: &Log) {
        let Waiting { file, mut text } = self.waiting.swap_remove(index);
        file.append(&text, errors);
        text.clear();
        text.shrink_to(2 * FLUSH_BYTES);
        self.spare = text;
    }
}
