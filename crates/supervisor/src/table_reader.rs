//! Looks at the files with tables of a document, and reads them if one has changed: a task of the
//! processes of [`file_helpers`](crate::file_helpers), as a file may be on a network drive that
//! does not answer.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use howdah_wire::bytes::{Decoder, Encode, Malformed};

use crate::file_helper::file_progress;
use crate::memory::read_memory_file;
use crate::options::TableFiles;
use crate::store::MAX_DOCUMENT;

/// Maximum length of a result: a document and the names of its files.
const MAX_RESULT: u64 = 2 * MAX_DOCUMENT;

/// Files and directories, each with a hash of the attributes that change with its content and of
/// those of the link that leads to it.
pub(crate) type Stamps = HashMap<PathBuf, u64>;

/// The result of a look.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Looked {
    /// The files on which the tables depend.
    pub(crate) files: Stamps,
    /// The document with its tables, or why they cannot be read; `None` if they are unchanged.
    pub(crate) document: Option<Result<Vec<u8>, String>>,
}

/// Looks at the files. The tables are read if a file differs from `known`, or always with `known`
/// `None`.
pub(crate) fn look(files: &TableFiles, document: &[u8], known: Option<&Stamps>) -> Looked {
    let watched = (files.watched)(document).into_iter();
    let found: Stamps = watched.map(|file| (file.clone(), stamp(&file))).collect();
    let has_changed = known.is_none_or(|known| {
        found.iter().any(|(file, now)| known.get(file).is_some_and(|before| before != now))
    });
    let read = has_changed.then(|| (files.read)(document));
    // An unchanged document need not be taken over.
    let read = read.filter(|read| read.as_ref().map_or(true, |read| read != document));
    Looked { files: found, document: read }
}

fn stamp(file: &Path) -> u64 {
    file_progress(&file.display().to_string());
    let own = fs::symlink_metadata(file).ok();
    let is_link = own.as_ref().is_some_and(fs::Metadata::is_symlink);
    let target = if is_link { fs::metadata(file).ok() } else { None };
    let mut hasher = DefaultHasher::new();
    for found in own.iter().chain(&target) {
        (found.dev(), found.ino(), found.size()).hash(&mut hasher);
        (found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()).hash(&mut hasher);
    }
    hasher.finish()
}

impl Looked {
    /// Encodes the result for [`Looked::read`].
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.put_u32(u32::try_from(self.files.len()).unwrap_or(u32::MAX));
        for (file, stamp) in &self.files {
            bytes.put_bytes(file.as_os_str().as_bytes());
            bytes.put_u64(*stamp);
        }
        let (kind, text) = match &self.document {
            None => (0, &[][..]),
            Some(Ok(document)) => (1, document.as_slice()),
            Some(Err(problem)) => (2, problem.as_bytes()),
        };
        bytes.put_u8(kind);
        bytes.put_bytes(text);
        bytes
    }

    /// Reads the result of a look that has ended.
    pub(crate) fn read(file: OwnedFd) -> Result<Looked, String> {
        let bytes = read_memory_file(vec![file], MAX_RESULT).map_err(|error| error.to_string())?;
        Looked::decode(&bytes).map_err(|_| "the result is malformed".to_owned())
    }

    fn decode(bytes: &[u8]) -> Result<Looked, Malformed> {
        let mut reader = Decoder(bytes);
        let mut files = Stamps::new();
        for _ in 0..reader.u32()? {
            let file = OsString::from_vec(reader.bytes()?.to_vec());
            files.insert(file.into(), reader.u64()?);
        }
        let document = match (reader.u8()?, reader.bytes()?) {
            (0, []) => None,
            (1, document) => Some(Ok(document.to_vec())),
            (2, problem) => Some(Err(String::from_utf8_lossy(problem).into_owned())),
            _ => return Err(Malformed),
        };
        reader.end()?;
        Ok(Looked { files, document })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_arrives_as_it_was_found() {
        let files = HashMap::from([("/a".into(), 0), ("/b".into(), u64::MAX)]);
        for document in [None, Some(Ok(b"{}".to_vec())), Some(Err("no file".to_owned()))] {
            let looked = Looked { files: files.clone(), document };
            let bytes = looked.encode();
            assert_eq!(Looked::decode(&bytes), Ok(looked));
            for end in 0..bytes.len() {
                assert!(Looked::decode(&bytes[..end]).is_err(), "{end}");
            }
        }
    }

    #[test]
    fn tables_are_read_if_a_file_has_changed() {
        let directory = tempfile::tempdir().unwrap();
        let document = directory.path().to_str().unwrap().as_bytes().to_vec();
        let files = TableFiles {
            has_tables: |_| true,
            has_left_out: |_| false,
            watched: |document| {
                let directory = PathBuf::from(OsString::from_vec(document.to_vec()));
                vec![directory.join("a"), directory.join("b")]
            },
            read: Box::new(|_| Ok(b"read".to_vec())),
        };
        let a = directory.path().join("a");
        fs::write(&a, "1").unwrap();
        let mut known = Stamps::new();
        let reads = |known: &mut Stamps| {
            let looked = look(&files, &document, Some(known));
            *known = looked.files;
            looked.document.is_some()
        };
        assert!(!reads(&mut known), "a new document has been read");
        assert!(!reads(&mut known));
        fs::write(&a, "12").unwrap();
        assert!(reads(&mut known));
        assert!(!reads(&mut known));
        fs::write(directory.path().join("b"), "").unwrap();
        assert!(reads(&mut known));
        fs::remove_file(&a).unwrap();
        assert!(reads(&mut known));
        // A link without a target, then with a file that changes, and without a target again.
        let target = directory.path().join("target");
        std::os::unix::fs::symlink(&target, &a).unwrap();
        assert!(reads(&mut known));
        fs::write(&target, "1").unwrap();
        assert!(reads(&mut known));
        fs::write(&target, "12").unwrap();
        assert!(reads(&mut known) && !reads(&mut known));
        fs::remove_file(&target).unwrap();
        assert!(reads(&mut known));
        fs::remove_file(&a).unwrap();
        assert!(reads(&mut known) && !reads(&mut known));
        assert!(look(&files, &document, None).document.is_some());
    }
}
