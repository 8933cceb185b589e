//! Apache's directives: the parser of a `.htaccess`, its expressions, and a whole request.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use howdah_htaccess::base::Base;
use howdah_htaccess::config::DirConfig;
use howdah_htaccess::engine::Engine;
use howdah_htaccess::outcome::Action;
use howdah_htaccess::parse::{self, review};
use howdah_htaccess::record::{Connection, FileInfo, FileKind, Record};
use howdah_htaccess::table::Table;
use howdah_htaccess::world::{Broken, Later, Level, Reading, World};

use crate::split;

/// Directory of the site.
const ROOT: &[u8] = b"/site";

/// A file that is taken has no directive that can break it later; an error names a line of the
/// file.
pub fn parser(input: &[u8]) {
    let base = Base::default();
    let exists = |_: &[u8]| false;
    let compiled = parse::compile(input, b"/site/.htaccess", b"/site/", &base, &exists);
    let review = review::review(input, b"/site/.htaccess", b"/site/", &base, &exists);
    match compiled {
        Ok(config) => {
            assert_eq!(review.error, None);
            // Merging with itself is the case of nested directories.
            let _ = config.merged(&config);
        }
        Err(broken) => {
            assert!(broken.message.starts_with("/site/.htaccess: line "), "{}", broken.message);
            assert_eq!(review.error.map(|error| error.message), Some(broken.message));
        }
    }
    let lines = input.iter().filter(|byte| **byte == b'\n').count() + 1;
    for line in review.directives.iter().chain(&review.denials) {
        assert!((line.number as usize) <= lines && !line.text.contains('\n'));
    }
}

/// An expression that is taken can be evaluated, in a condition and in a text.
pub fn expression(input: &[u8]) {
    let mut text = b"RewriteEngine On\nRewriteCond expr \"".to_vec();
    text.extend(input.iter().filter(|byte| !b"\"\n\r\0".contains(byte)));
    text.extend_from_slice(b"\"\nRewriteRule . /a.txt\n<If \"");
    text.extend(input.iter().filter(|byte| !b"\"\n\r\0".contains(byte)));
    text.extend_from_slice(b"\">\nHeader set X-A \"expr=%{REQUEST_URI}\"\n</If>\n");
    answer(&text, b"", b"GET /b.txt?x=1", b"Host: a.example");
}

/// With any two files and any request: the answer is a file or a script below the root, a page or
/// an error, and no field of its head can break the head.
pub fn request(input: &[u8]) {
    let (root, rest) = split(input);
    let (sub, rest) = split(rest);
    let (line, field) = split(rest);
    answer(&lines(root), &lines(sub), line, field);
}

/// Returns the lines of a file that stands on one line, with `\n` between them.
fn lines(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.windows(2).position(|window| window == b"\\n") {
        out.extend_from_slice(&rest[..at]);
        out.push(b'\n');
        rest = &rest[at + 2..];
    }
    out.extend_from_slice(rest);
    out
}

fn answer(root: &[u8], sub: &[u8], line: &[u8], field: &[u8]) {
    let Ok(engine) = Engine::new(Base::default()) else { panic!("the base is valid") };
    let site = Site { engine: &engine, root, sub };
    let (method, target) = match line.iter().position(|byte| *byte == b' ') {
        Some(space) => (&line[..space], &line[space + 1..]),
        None => (&b"GET"[..], line),
    };
    let mut headers = Table::default();
    headers.set("Host", "a.example");
    if let Some(colon) = field.iter().position(|byte| *byte == b':') {
        headers.set(&field[..colon], field[colon + 1..].trim_ascii());
    }
    let connection = Connection {
        remote_addr: b"192.0.2.1".to_vec(),
        server_addr: b"192.0.2.2".to_vec(),
        server_port: 80,
        server_name: b"a.example".to_vec(),
        document_root: ROOT.to_vec(),
        ..Connection::default()
    };
    let record = Record {
        connection: Arc::new(connection),
        request_line: [line, b" HTTP/1.1"].concat(),
        method: method.to_vec(),
        protocol: b"HTTP/1.1".to_vec(),
        unparsed_uri: target.to_vec(),
        headers_in: headers,
        ..Record::default()
    };
    let work = async {
        let outcome = engine.handle(record, &site).await;
        let mut record = outcome.record;
        engine.finish(&mut record, &outcome.action, &site);
        (record, outcome.action)
    };
    let Poll::Ready((record, action)) = pin!(work).poll(&mut Context::from_waker(Waker::noop()))
    else {
        panic!("nothing to wait for");
    };
    match &action {
        Action::File => assert!(record.filename.starts_with(ROOT), "{:?}", record.filename),
        Action::Script(script) => {
            assert!(script.filename.starts_with(ROOT), "{:?}", script.filename)
        }
        Action::Page(_) | Action::Options | Action::Error(_) => {}
    }
    if !record.is_head_invalid {
        for (name, value) in record.headers_out.iter() {
            let breaks = |byte: &u8| matches!(byte, b'\r' | b'\n' | 0);
            assert!(!name.iter().any(breaks) && !value.iter().any(breaks), "{name:?}: {value:?}");
        }
    }
}

/// A site in memory: two files with directives, texts, a script, and a directory.
struct Site<'a> {
    engine: &'a Engine,
    root: &'a [u8],
    sub: &'a [u8],
}

impl World for Site<'_> {
    fn lstat(&self, path: &[u8]) -> Option<FileInfo> {
        let below = path.strip_prefix(ROOT)?;
        let kind = match below.strip_suffix(b"/").unwrap_or(below) {
            b"" | b"/sub" => FileKind::Directory,
            b"/a.txt" | b"/index.php" | b"/sub/a.html" | b"/sub/a.html.fr" | b"/pass" => {
                FileKind::File
            }
            b"/fifo" => FileKind::Other,
            _ => return None,
        };
        Some(FileInfo { kind, size: 13, mode: 0o644, ..FileInfo::default() })
    }

    fn stat(&self, path: &[u8]) -> Option<FileInfo> {
        self.lstat(path)
    }

    fn directives(&self, directory: &[u8]) -> Result<Option<Arc<DirConfig>>, Broken> {
        let bytes = match directory {
            b"/site/" => self.root,
            b"/site/sub/" => self.sub,
            _ => return Ok(None),
        };
        let exists = |path: &[u8]| self.lstat(path).is_some();
        let compiled = parse::compile(bytes, b"file", directory, self.engine.base(), &exists);
        compiled.map(|config| Some(Arc::new(config)))
    }

    fn list<'a>(&'a self, _: &'a [u8]) -> Later<'a, io::Result<Vec<Vec<u8>>>> {
        Box::pin(async move {
            Ok([&b"a.html"[..], b"a.html.fr", b"<b>.txt"].map(<[u8]>::to_vec).to_vec())
        })
    }

    fn read<'a>(&'a self, _: &'a [u8], reading: Reading) -> Later<'a, io::Result<Arc<[u8]>>> {
        Box::pin(async move {
            let text = b"user:secret\ngroup: user\nURI: a.html\nContent-type: text/html; qs=0.5\n";
            Ok(reading.of(text.as_slice())?.into())
        })
    }

    fn verify<'a>(&'a self, password: &'a [u8], stored: &'a [u8]) -> Later<'a, Option<bool>> {
        Box::pin(async move { Some(password == stored) })
    }

    fn host_names<'a>(&'a self, _: &'a [u8]) -> Later<'a, Vec<Vec<u8>>> {
        Box::pin(async { vec![b"client.example".to_vec()] })
    }

    fn log(&self, _: Level, _: &str) {}
}
