//! A world without files, and directives without a parser, for unit tests.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

use crate::config::DirConfig;
use crate::directive::{Arguments, Directive, Place};
use crate::expr::{Context, Scope};
use crate::modules::pattern::{Condition, Text};
use crate::modules::services::Services;
use crate::options::Options;
use crate::record::{Connection, FileInfo, FileKind, Record};
use crate::support::{skip_space, word, words};
use crate::world::{Broken, Later, Level, Reading, World};

/// A world of fixed files.
#[derive(Debug, Default)]
pub struct Stub {
    pub files: HashMap<Vec<u8>, Vec<u8>>,
    pub hosts: Vec<Vec<u8>>,
    pub messages: Mutex<Vec<String>>,
}

impl World for Stub {
    fn lstat(&self, path: &[u8]) -> Option<FileInfo> {
        self.stat(path)
    }

    fn stat(&self, path: &[u8]) -> Option<FileInfo> {
        let path = path.strip_suffix(b"/").unwrap_or(path);
        if let Some(content) = self.files.get(path) {
            let size = content.len() as u64;
            return Some(FileInfo {
                kind: FileKind::File,
                size,
                modified: 1_700_000_000,
                ..FileInfo::default()
            });
        }
        let is_directory = self.files.keys().any(|file| file.starts_with(&[path, b"/"].concat()));
        let directory =
            FileInfo { kind: FileKind::Directory, modified: 1_700_000_000, ..FileInfo::default() };
        is_directory.then_some(directory)
    }

    fn directives(&self, _: &[u8]) -> Result<Option<Arc<DirConfig>>, Broken> {
        Ok(None)
    }

    fn list<'a>(&'a self, directory: &'a [u8]) -> Later<'a, io::Result<Vec<Vec<u8>>>> {
        Box::pin(async move {
            let directory = [directory.strip_suffix(b"/").unwrap_or(directory), b"/"].concat();
            let below =
                self.files.keys().filter_map(|file| file.strip_prefix(directory.as_slice()));
            let mut names: Vec<Vec<u8>> = below
                .filter_map(|file| file.split(|&byte| byte == b'/').next())
                .map(<[u8]>::to_vec)
                .collect();
            names.sort();
            names.dedup();
            Ok(names)
        })
    }

    fn read<'a>(&'a self, path: &'a [u8], reading: Reading) -> Later<'a, io::Result<Arc<[u8]>>> {
        Box::pin(async move {
            let content = self.files.get(path).ok_or(io::ErrorKind::NotFound)?;
            Ok(reading.of(content.as_slice())?.into())
        })
    }

    fn verify<'a>(&'a self, password: &'a [u8], stored: &'a [u8]) -> Later<'a, Option<bool>> {
        Box::pin(async move { Some(password == stored) })
    }

    fn host_names<'a>(&'a self, _: &'a [u8]) -> Later<'a, Vec<Vec<u8>>> {
        Box::pin(async { self.hosts.clone() })
    }

    fn log(&self, _: Level, message: &str) {
        self.messages.lock().unwrap().push(message.to_string());
    }
}

impl Scope for Stub {
    fn world(&self) -> &dyn World {
        self
    }

    fn look_up_uri(&self, _: &Record, _: &[u8]) -> Record {
        Record::default()
    }

    fn look_up_file(&self, _: &Record, _: &[u8]) -> Record {
        Record::default()
    }

    fn main_uri<'r>(&'r self, _: &'r Record) -> Option<&'r [u8]> {
        None
    }
}

impl Services for Stub {
    fn holds(&self, record: &Record, condition: &Condition) -> Result<bool, String> {
        let result = condition.expr().evaluate(record, self, &mut Context::default());
        result.map_err(|error| error.to_string())
    }

    fn groups(
        &self,
        record: &Record,
        condition: &Condition,
    ) -> Result<Option<Vec<Vec<u8>>>, String> {
        Ok(self.holds(record, condition)?.then(Vec::new))
    }

    fn text(&self, record: &Record, text: &Text) -> Result<Vec<u8>, String> {
        let result = text.expr().evaluate(record, self, &mut Context::default());
        result.map(|text| text.into_owned()).map_err(|error| error.to_string())
    }
}

/// Applies lines with the directives of a module.
pub fn apply(directives: &[Directive], lines: &[&str]) -> Result<DirConfig, String> {
    let mut config = DirConfig::default();
    let place = Place {
        file: "/site/.htaccess",
        line: 1,
        directory: b"/site/",
        section: None,
        methods: None,
        options: Options::ANY,
    };
    for line in lines {
        apply_line(directives, &mut config, &place, line)?;
    }
    Ok(config)
}

/// Applies a line at a place.
pub fn apply_line(
    directives: &[Directive],
    config: &mut DirConfig,
    place: &Place<'_>,
    line: &str,
) -> Result<(), String> {
    let mut rest = line.as_bytes();
    let name = word(&mut rest);
    let directive = directives
        .iter()
        .find(|directive| name.eq_ignore_ascii_case(directive.name.as_bytes()))
        .unwrap_or_else(|| panic!("no directive {line}"));
    let rest = skip_space(rest);
    if directive.arguments == Arguments::Raw {
        return (directive.apply)(config, place, &[rest]);
    }
    let all = words(rest);
    let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    match (directive.arguments, all.as_slice()) {
        (Arguments::Each, all) => {
            all.iter().try_for_each(|word| (directive.apply)(config, place, &[*word]))
        }
        (Arguments::EachAfterFirst, [first, others @ ..]) => {
            others.iter().try_for_each(|word| (directive.apply)(config, place, &[*first, *word]))
        }
        _ => (directive.apply)(config, place, &all),
    }
}

/// Returns a request to a site with a configuration.
pub fn record(config: DirConfig) -> Record {
    let connection = Connection {
        remote_addr: b"127.0.0.1".to_vec(),
        server_addr: b"127.0.0.1".to_vec(),
        time: (1_700_000_100, 250_000),
        document_root: b"/site".to_vec(),
        ..Connection::default()
    };
    Record {
        connection: Arc::new(connection),
        method: b"GET".to_vec(),
        protocol: b"HTTP/1.1".to_vec(),
        status: 200,
        config: Arc::new(config),
        ..Record::default()
    }
}

/// Runs a future that is ready at once.
pub fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("the future waits"),
    }
}
