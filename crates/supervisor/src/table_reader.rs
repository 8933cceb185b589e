//! A process that looks at the files with tables of a document, and reads them if one has changed.
//!
//! A file may be on a network drive that does not answer. Then this process waits, and no other:
//! the supervisor takes the result once the process has ended.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use howdah_sys::{process, signals, title};
use howdah_wire::bytes::{Decoder, Encode, Malformed};

use crate::memory::memory_file;
use crate::options::TableFiles;

/// Attributes of a file that change with its content, and before them those of the link that leads
/// to it; empty if there is neither.
pub(crate) type Stamp = Vec<[u64; 7]>;

/// Files and directories with the attributes that were found.
pub(crate) type Stamps = HashMap<PathBuf, Stamp>;

/// A process that looks.
#[derive(Debug)]
pub(crate) struct TableReader {
    pid: u32,
    result: File,
}

/// The result of the process.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Looked {
    /// The files on which the tables depend.
    pub(crate) files: Stamps,
    /// The document with its tables, or why they cannot be read; `None` if nothing has changed.
    pub(crate) document: Option<Result<Vec<u8>, String>>,
}

impl TableReader {
    /// Starts a process. The tables are read if a file differs from `known`, or always with `known`
    /// `None`.
    pub(crate) fn start(
        files: &TableFiles,
        document: &[u8],
        known: Option<&Stamps>,
    ) -> io::Result<TableReader> {
        let result = File::from(memory_file("tables", b"")?);
        let parent = std::process::id();
        match process::fork()? {
            process::Forked::Parent(pid) => Ok(TableReader { pid, result }),
            process::Forked::Child => {
                signals::reset();
                process::die_with_parent(Some(parent));
                title::set("howdah: tables");
                let look = || {
                    // The sockets of the server must not stay open if this process does.
                    let mut result = process::keep_only(result)?;
                    result.write_all(&look(files, document, known).encode())
                };
                let looked = catch_unwind(AssertUnwindSafe(look));
                process::exit_now(i32::from(!matches!(looked, Ok(Ok(())))));
            }
        }
    }

    /// Returns the process id.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the result of a process that has ended.
    pub(crate) fn result(self) -> io::Result<Looked> {
        let mut bytes = vec![0; usize::try_from(self.result.metadata()?.len()).unwrap_or(0)];
        self.result.read_exact_at(&mut bytes, 0)?;
        Looked::decode(&bytes).map_err(|_| io::Error::other("it has not finished"))
    }

    /// Kills the process.
    pub(crate) fn kill(&self) {
        let _ = signals::send(self.pid, signals::SIGKILL);
    }
}

fn look(files: &TableFiles, document: &[u8], known: Option<&Stamps>) -> Looked {
    let found: Stamps = { (files.watched)(document).into_iter() }
        .map(|file| {
            let found = stamp(&file);
            (file, found)
        })
        .collect();
    let has_changed = known.is_none_or(|known| {
        found.iter().any(|(file, now)| known.get(file).is_some_and(|before| before != now))
    });
    let read = has_changed.then(|| (files.read)(document));
    // An unchanged document need not be taken over.
    let read = read.filter(|read| read.as_ref().map_or(true, |read| read != document));
    Looked { files: found, document: read }
}

fn stamp(file: &Path) -> Stamp {
    let own = fs::symlink_metadata(file).ok();
    let is_link = own.as_ref().is_some_and(fs::Metadata::is_symlink);
    let target = if is_link { fs::metadata(file).ok() } else { None };
    own.into_iter().chain(target).map(|found| attributes(&found)).collect()
}

fn attributes(found: &fs::Metadata) -> [u64; 7] {
    let number = i64::cast_unsigned;
    [
        found.dev(),
        found.ino(),
        found.size(),
        number(found.mtime()),
        number(found.mtime_nsec()),
        number(found.ctime()),
        number(found.ctime_nsec()),
    ]
}

impl Looked {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.put_u32(u32::try_from(self.files.len()).unwrap_or(u32::MAX));
        for (file, stamp) in &self.files {
            bytes.put_bytes(file.as_os_str().as_bytes());
            bytes.put_u8(u8::try_from(stamp.len()).unwrap_or(u8::MAX));
            stamp.iter().flatten().for_each(|number| bytes.put_u64(*number));
        }
        match &self.document {
            None => bytes.put_u8(0),
            Some(Ok(document)) => {
                bytes.put_u8(1);
                bytes.put_bytes(document);
            }
            Some(Err(problem)) => {
                bytes.put_u8(2);
                bytes.put_bytes(problem.as_bytes());
            }
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Looked, Malformed> {
        let mut reader = Decoder(bytes);
        let mut files = HashMap::new();
        for _ in 0..reader.u32()? {
            let file = OsString::from_vec(reader.bytes()?.to_vec()).into();
            let mut stamp = Stamp::new();
            for _ in 0..reader.u8()? {
                let mut numbers = [0; 7];
                for number in &mut numbers {
                    *number = reader.u64()?;
                }
                stamp.push(numbers);
            }
            files.insert(file, stamp);
        }
        let document = match reader.u8()? {
            0 => None,
            1 => Some(Ok(reader.bytes()?.to_vec())),
            2 => Some(Err(reader.text()?.to_owned())),
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
        let file = |name: &str, stamp| (PathBuf::from(name), stamp);
        let files =
            HashMap::from([file("/a", vec![]), file("/b", vec![[1, 2, 3, 4, u64::MAX, 6, 7]; 2])]);
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
        // A link that leads nowhere, then to a file that changes, and to nothing.
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
