//! A world over a real temporary directory, for tests.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::config::DirConfig;
use crate::engine::{Action, Base, Engine, Outcome, Script, compile};
use crate::modules::testing::now;
use crate::record::{Connection, FileInfo, FileKind, Record};
use crate::world::{Broken, FileRule, Later, Level, Reading, World};

/// Site in a temporary directory; removed at the end.
pub(crate) struct Site {
    root: PathBuf,
    pub(crate) engine: Engine,
    files: RefCell<HashMap<Vec<u8>, Compiled>>,
    pub(crate) messages: RefCell<Vec<String>>,
    /// Directives are not known yet, and directories are noted.
    pub(crate) is_pending: Cell<bool>,
    pub(crate) asked: RefCell<Vec<String>>,
    /// Path of the root in URLs.
    pub(crate) prefix: Cell<&'static str>,
}

/// Content and compiled form of a file.
type Compiled = (Vec<u8>, Arc<DirConfig>);

impl Site {
    /// Makes a site of files, given as path and content. A path with a slash at its end is a
    /// directory.
    pub(crate) fn new(files: &[(&str, &str)]) -> Site {
        Site::with_base(Base::default(), files)
    }

    pub(crate) fn with_base(base: Base, files: &[(&str, &str)]) -> Site {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("htaccess-{}-{number}", std::process::id());
        let root = std::env::temp_dir().join(name);
        fs::create_dir_all(&root).unwrap();
        let site = Site {
            root: root.canonicalize().unwrap(),
            engine: Engine::new(base).unwrap(),
            files: RefCell::default(),
            messages: RefCell::default(),
            is_pending: Cell::default(),
            asked: RefCell::default(),
            prefix: Cell::default(),
        };
        for (path, content) in files {
            site.write(path, content);
        }
        site
    }

    pub(crate) fn write(&self, path: &str, content: &str) {
        let full = self.root.join(path);
        if path.ends_with('/') {
            return fs::create_dir_all(full).unwrap();
        }
        fs::create_dir_all(full.parent().unwrap()).unwrap();
        fs::write(full, content).unwrap();
    }

    pub(crate) fn link(&self, target: &str, path: &str) {
        std::os::unix::fs::symlink(target, self.root.join(path)).unwrap();
    }

    pub(crate) fn root(&self) -> &str {
        self.root.to_str().unwrap()
    }

    /// Sends a request: method and target, then header fields.
    pub(crate) fn send(&self, request: &str, headers: &[(&str, &str)]) -> Answer {
        let (method, target) = request.split_once(' ').unwrap_or(("GET", request));
        let mut record = Record {
            connection: Arc::new(Connection {
                remote_addr: b"127.0.0.1".to_vec(),
                remote_port: 40_000,
                server_addr: b"127.0.0.1".to_vec(),
                server_port: 80,
                server_name: b"site.example".to_vec(),
                document_root: self.root.as_os_str().as_bytes().to_vec(),
                prefix: self.prefix.get().into(),
                time: (1_700_000_000, 0),
                ..Connection::default()
            }),
            request_line: format!("{method} {target} HTTP/1.1").into_bytes(),
            method: method.as_bytes().to_vec(),
            protocol: b"HTTP/1.1".to_vec(),
            unparsed_uri: target.as_bytes().to_vec(),
            ..Record::default()
        };
        record.headers_in.add("Host", "site.example");
        for (name, value) in headers {
            record.headers_in.add(*name, *value);
        }
        let mut outcome = now(self.engine.handle(record, self));
        self.engine.finish(&mut outcome.record, &outcome.action, self);
        Answer(outcome)
    }

    pub(crate) fn get(&self, target: &str) -> Answer {
        self.send(&format!("GET {target}"), &[])
    }

    /// Returns the status and the answer: a file's or script's name below the root.
    pub(crate) fn summary(&self, request: &str) -> String {
        let request =
            if request.starts_with('/') { format!("GET {request}") } else { request.into() };
        self.send(&request, &[]).summary(self)
    }

    fn local(&self, path: &[u8]) -> String {
        let path = String::from_utf8_lossy(path);
        path.strip_prefix(self.root()).unwrap_or(&path).to_owned()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// An answer after its head is finished.
pub(crate) struct Answer(pub(crate) Outcome);

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.0.record.status
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let value = self.0.record.headers_out.get(name.as_bytes());
        value.map(|value| String::from_utf8_lossy(value).into_owned())
    }

    pub(crate) fn text(&self) -> Option<String> {
        match &self.0.action {
            Action::Error(page) => {
                page.text.as_deref().map(|text| String::from_utf8_lossy(text).into_owned())
            }
            Action::Page(text) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        }
    }

    pub(crate) fn script(&self) -> &Script {
        match &self.0.action {
            Action::Script(script) => script,
            other => panic!("no script: {other:?}"),
        }
    }

    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        let variables = &self.script().variables;
        let found = variables.iter().find(|(known, _)| known == name.as_bytes());
        found.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    }

    pub(crate) fn summary(&self, site: &Site) -> String {
        let status = self.status();
        match &self.0.action {
            Action::File => format!("{status} file {}", site.local(&self.0.record.filename)),
            Action::Script(script) => format!(
                "{status} script {}{}",
                site.local(&script.filename),
                String::from_utf8_lossy(&script.path_info)
            ),
            Action::Page(_) => format!("{status} page"),
            Action::Options => format!("{status} options"),
            Action::Error(_) => match self.header("Location") {
                Some(location) => format!("{status} {location}"),
                None => format!("{status}"),
            },
        }
    }
}

fn path_of(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

fn info(metadata: &Metadata) -> FileInfo {
    let kind = match metadata.file_type() {
        kind if kind.is_file() => FileKind::File,
        kind if kind.is_dir() => FileKind::Directory,
        _ => FileKind::Other,
    };
    FileInfo {
        kind,
        is_link: metadata.file_type().is_symlink(),
        size: metadata.size(),
        modified: metadata.mtime(),
        accessed: metadata.atime(),
        mode: metadata.mode(),
        user: metadata.uid(),
        group: metadata.gid(),
    }
}

impl World for Site {
    fn lstat(&self, path: &[u8]) -> Option<FileInfo> {
        fs::symlink_metadata(path_of(path)).ok().as_ref().map(info)
    }

    fn stat(&self, path: &[u8]) -> Option<FileInfo> {
        fs::metadata(path_of(path)).ok().as_ref().map(info)
    }

    fn directives(&self, directory: &[u8]) -> Result<Option<Arc<DirConfig>>, Broken> {
        assert!(directory.ends_with(b"/"));
        if self.is_pending.get() {
            self.asked.borrow_mut().push(self.local(directory));
            return Err(Broken::pending());
        }
        let path = [directory, b".htaccess"].concat();
        let Ok(bytes) = fs::read(path_of(&path)) else { return Ok(None) };
        if let Some((known, config)) = self.files.borrow().get(directory)
            && *known == bytes
        {
            return Ok(Some(config.clone()));
        }
        let exists = |path: &[u8]| path_of(path).exists();
        let config = compile(&bytes, &path, directory, self.engine.base(), &exists)?;
        let config = Arc::new(config);
        self.files.borrow_mut().insert(directory.to_vec(), (bytes, config.clone()));
        Ok(Some(config))
    }

    fn list<'a>(&'a self, directory: &'a [u8]) -> Later<'a, io::Result<Vec<Vec<u8>>>> {
        Box::pin(async move {
            fs::read_dir(path_of(directory))?
                .map(|entry| entry.map(|entry| entry.file_name().into_vec()))
                .collect()
        })
    }

    fn read<'a>(&'a self, path: &'a [u8], reading: Reading) -> Later<'a, io::Result<Arc<[u8]>>> {
        Box::pin(async move { Ok(reading.of(fs::File::open(path_of(path))?)?.into()) })
    }

    fn is_source(&self, path: &[u8]) -> bool {
        let name = path_of(path).file_name().unwrap_or_default().to_string_lossy();
        [".php", ".pht", ".phar"].iter().any(|part| name.contains(part))
    }

    fn rule(&self, path: &[u8]) -> FileRule {
        match self.local(path).split('/').nth(1) {
            Some("uploads") => FileRule::NotRun,
            Some("closed") => FileRule::Closed,
            Some("hidden") => FileRule::Hidden,
            _ => FileRule::Open,
        }
    }

    fn verify<'a>(&'a self, password: &'a [u8], stored: &'a [u8]) -> Later<'a, Option<bool>> {
        Box::pin(async move { Some(password == stored) })
    }

    fn host_names<'a>(&'a self, _: &'a [u8]) -> Later<'a, Vec<Vec<u8>>> {
        Box::pin(async { vec![b"localhost".to_vec()] })
    }

    fn log(&self, _: Level, message: &str) {
        self.messages.borrow_mut().push(message.to_owned());
    }
}
