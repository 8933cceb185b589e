//! A request and its surroundings for tests.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use super::Scope;
use crate::config::DirConfig;
use crate::record::{Connection, FileInfo, FileKind, Record};
use crate::world::{Broken, Later, Level, Reading, World};

/// Files by their paths; those with a slash at the end are directories.
#[derive(Default)]
pub(crate) struct Fake {
    pub files: BTreeMap<Vec<u8>, FileInfo>,
    pub log: RefCell<Vec<String>>,
    pub main_uri: Option<Vec<u8>>,
    pub maps: bool,
}

impl Fake {
    pub fn new(paths: &[&str]) -> Fake {
        let mut fake = Fake::default();
        for path in paths {
            let kind = if path.ends_with('/') { FileKind::Directory } else { FileKind::File };
            let path = path.trim_end_matches('/').as_bytes().to_vec();
            let info = FileInfo { kind, size: 3, mode: 0o644, ..FileInfo::default() };
            fake.files.insert(path, info);
        }
        fake
    }

    fn find(&self, path: &[u8]) -> Option<FileInfo> {
        let path = path.strip_suffix(b"/").unwrap_or(path);
        self.files.get(path).copied()
    }
}

impl World for Fake {
    fn lstat(&self, path: &[u8]) -> Option<FileInfo> {
        self.find(path)
    }

    fn stat(&self, path: &[u8]) -> Option<FileInfo> {
        self.find(path)
    }

    fn directives(&self, _: &[u8]) -> Result<Option<Arc<DirConfig>>, Broken> {
        Ok(None)
    }

    fn list<'a>(&'a self, _: &'a [u8]) -> Later<'a, io::Result<Vec<Vec<u8>>>> {
        Box::pin(async move { Ok(Vec::new()) })
    }

    fn read<'a>(&'a self, _: &'a [u8], _: Reading) -> Later<'a, io::Result<Arc<[u8]>>> {
        Box::pin(async move { Err(io::ErrorKind::NotFound.into()) })
    }

    fn verify<'a>(&'a self, _: &'a [u8], _: &'a [u8]) -> Later<'a, Option<bool>> {
        Box::pin(async { Some(false) })
    }

    fn host_names<'a>(&'a self, _: &'a [u8]) -> Later<'a, Vec<Vec<u8>>> {
        Box::pin(async { Vec::new() })
    }

    fn log(&self, _: Level, message: &str) {
        self.log.borrow_mut().push(message.to_owned());
    }
}

impl Scope for Fake {
    fn world(&self) -> &dyn World {
        self
    }

    fn look_up_uri(&self, record: &Record, uri: &[u8]) -> Record {
        let path = [record.connection.document_root.as_slice(), uri].concat();
        let mut found = self.look_up_file(record, &path);
        found.uri = uri.to_vec();
        found
    }

    fn look_up_file(&self, record: &Record, path: &[u8]) -> Record {
        let file = self.find(path).unwrap_or_default();
        let status = if path.ends_with(b"denied") { 403 } else { 200 };
        let filename = path.to_vec();
        let is_sub_request = true;
        Record {
            connection: Arc::clone(&record.connection),
            filename,
            file,
            status,
            is_sub_request,
            ..Record::default()
        }
    }

    fn main_uri<'r>(&'r self, _: &'r Record) -> Option<&'r [u8]> {
        self.main_uri.as_deref()
    }

    fn map(&self, name: &[u8], key: &[u8]) -> Option<Vec<u8>> {
        (self.maps && name == b"lower").then(|| key.to_ascii_lowercase())
    }
}

/// A request for `/x.txt?q=1` in `/www`.
pub(crate) fn record() -> Record {
    let connection = Connection {
        remote_addr: b"127.0.0.1".to_vec(),
        remote_port: 4711,
        server_addr: b"192.0.2.1".to_vec(),
        server_port: 80,
        server_name: b"site.test".to_vec(),
        server_admin: b"[no address given]".to_vec(),
        server_software: b"Apache".to_vec(),
        document_root: b"/www".to_vec(),
        // 2026-11-24 04:47:31, a Tuesday.
        time: (1_795_495_651, 0),
        ..Connection::default()
    };
    let mut record = Record {
        connection: Arc::new(connection),
        request_line: b"GET /x.txt?q=1 HTTP/1.1".to_vec(),
        method: b"GET".to_vec(),
        protocol: b"HTTP/1.1".to_vec(),
        unparsed_uri: b"/x.txt?q=1".to_vec(),
        uri: b"/x.txt".to_vec(),
        args: Some(b"q=1".to_vec()),
        filename: b"/www/x.txt".to_vec(),
        file: FileInfo { kind: FileKind::File, size: 1, mode: 0o644, ..FileInfo::default() },
        status: 200,
        ..Record::default()
    };
    record.headers_in.add("Host", "site.test");
    record.headers_in.add("Cookie", "a=b");
    record.headers_in.add("User-Agent", "probe");
    record.env.add("FROM_ENV", "environment");
    record.notes.add("from_note", "note");
    record
}
