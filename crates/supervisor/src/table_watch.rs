//! Files with tables of the configuration, which are read again when they change.

use std::io;
use std::time::{Duration, Instant};

use crate::options::TableFiles;
use crate::table_reader::{Looked, Stamps, TableReader};

/// Interval between two looks at the files.
const INTERVAL: Duration = Duration::from_secs(5);

/// Time after which a look that has not ended is reported.
const SLOW_LOOK: Duration = Duration::from_secs(15);

/// The state of the files on which the running configuration depends.
#[derive(Debug)]
pub struct TableWatch {
    /// The files at the last look.
    files: Stamps,
    /// Number of the document.
    generation: u64,
    /// The document may have other files.
    is_outdated: bool,
    /// A change was not taken over.
    must_read: bool,
    look: Option<Look>,
    looked: Option<(u64, Looked)>,
    /// The document with its changed tables, until the control process asks for it.
    document: Option<(u64, Result<Vec<u8>, String>)>,
    /// Time of the next look; `None` if there are no files.
    due: Option<Instant>,
}

/// A look that has not ended.
#[derive(Debug)]
struct Look {
    reader: TableReader,
    generation: u64,
    begun_at: Instant,
    is_reported: bool,
}

impl Default for TableWatch {
    fn default() -> TableWatch {
        TableWatch {
            files: Stamps::new(),
            generation: 0,
            is_outdated: true,
            must_read: false,
            look: None,
            looked: None,
            document: None,
            due: None,
        }
    }
}

impl TableWatch {
    /// Returns the time of the next step.
    pub fn due(&self) -> Option<Instant> {
        match &self.look {
            Some(look) => (!look.is_reported).then(|| look.begun_at + SLOW_LOOK),
            None => self.due,
        }
    }

    /// Returns the process id of a look.
    pub fn pid(&self) -> Option<u32> {
        self.look.as_ref().map(|look| look.reader.pid())
    }

    /// Ends a look.
    pub fn kill(&self) {
        if let Some(look) = &self.look {
            look.reader.kill();
        }
    }

    /// Another document runs. Files that it shares with the last one keep their state: they may
    /// have changed while the document was being applied.
    pub fn document_changed(&mut self) {
        self.generation += 1;
        self.is_outdated = true;
    }

    /// Begins a look if it is time.
    pub fn begin_if_due(
        &mut self,
        now: Instant,
        document: &[u8],
        files: &TableFiles,
    ) -> io::Result<()> {
        if std::mem::take(&mut self.is_outdated) {
            self.due = (files.has_tables)(document).then_some(now);
            // A file may have been mended since the document was read.
            self.must_read |= (files.has_left_out)(document);
            if self.due.is_none() {
                self.files.clear();
            }
        }
        let is_due = self.due.is_some_and(|due| due <= now);
        if self.look.is_some() || self.looked.is_some() || !is_due {
            return Ok(());
        }
        self.due = Some(now + INTERVAL);
        let known = (!self.must_read).then_some(&self.files);
        let reader = TableReader::start(files, document, known)?;
        let generation = self.generation;
        self.look = Some(Look { reader, generation, begun_at: now, is_reported: false });
        Ok(())
    }

    /// Looks later, if it is time.
    pub fn postpone(&mut self, now: Instant) {
        if self.due.is_some_and(|due| due <= now) {
            self.due = Some(now + INTERVAL);
        }
    }

    /// Returns true once for a look that takes long.
    pub fn is_slow(&mut self, now: Instant) -> bool {
        let slow = self.look.as_mut().filter(|look| {
            !look.is_reported && now.saturating_duration_since(look.begun_at) >= SLOW_LOOK
        });
        slow.map(|look| look.is_reported = true).is_some()
    }

    /// Takes the result of a look whose process has ended. `None` if the process was not one.
    pub fn ended(&mut self, pid: u32) -> Option<io::Result<()>> {
        let look = self.look.take_if(|look| look.reader.pid() == pid)?;
        let generation = look.generation;
        Some(look.reader.result().map(|looked| self.looked = Some((generation, looked))))
    }

    /// Takes over the result of a look. Returns true if tables have changed, and are to be taken
    /// over.
    pub fn has_changed(&mut self, now: Instant) -> bool {
        let Some((generation, looked)) = self.looked.take() else { return false };
        if generation != self.generation {
            // The look was at another document.
            self.due = self.due.map(|_| now);
            return false;
        }
        self.files = looked.files;
        self.must_read = false;
        let Some(document) = looked.document else { return false };
        self.document = Some((generation, document));
        true
    }

    /// Returns the document with its changed tables; `None` if another document runs by now.
    pub fn document(&mut self) -> Option<Result<Vec<u8>, String>> {
        let (generation, document) = self.document.clone()?;
        if generation == self.generation {
            return Some(document);
        }
        // The next look reads the tables of the document that runs.
        self.document = None;
        self.must_read = true;
        None
    }

    /// Forgets the document with the tables, which has been taken over or refused.
    pub fn is_taken_over(&mut self) {
        self.document = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked(document: Option<&str>) -> Looked {
        let document = document.map(|text| Ok(text.as_bytes().to_vec()));
        Looked { files: Stamps::new(), document }
    }

    #[test]
    fn a_change_is_taken_over_once() {
        let (mut watch, now) = (TableWatch::default(), Instant::now());
        watch.looked = Some((0, looked(None)));
        assert!(!watch.has_changed(now));
        watch.looked = Some((0, looked(Some("new"))));
        assert!(watch.has_changed(now) && !watch.has_changed(now));
        assert_eq!(watch.document(), Some(Ok(b"new".to_vec())));
        watch.is_taken_over();
        assert_eq!(watch.document(), None);
        assert!(!watch.must_read);
    }

    #[test]
    fn tables_of_an_earlier_document_are_not_taken_over() {
        let (mut watch, now) = (TableWatch::default(), Instant::now());
        watch.looked = Some((0, looked(Some("old"))));
        watch.document_changed();
        assert!(!watch.has_changed(now));
        watch.looked = Some((1, looked(Some("new"))));
        assert!(watch.has_changed(now));
        watch.document_changed();
        assert_eq!(watch.document(), None, "it has changed since");
        assert!(watch.must_read, "the next look reads the tables anyway");
    }
}
