//! Benchmarks a request through all phases and the head of its response, in memory: the cost of
//! directives beside the look-ups on the disk. The rules of WordPress are to cost less than 3 µs:
//! compare `rules of WordPress` with `no rules`.

use std::collections::HashMap;
use std::future::Future;
use std::hint::black_box;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use criterion::{Criterion, criterion_group, criterion_main};
use howdah_htaccess::config::DirConfig;
use howdah_htaccess::engine::{self, Base, Engine};
use howdah_htaccess::record::{Connection, FileInfo, FileKind, Record};
use howdah_htaccess::table::Table;
use howdah_htaccess::world::{Broken, Later, Level, Reading, World};

/// The rules that WordPress writes.
const WORDPRESS: &str = r"
# BEGIN WordPress
<IfModule mod_rewrite.c>
RewriteEngine On
RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
RewriteBase /
RewriteRule ^index\.php$ - [L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule . /index.php [L]
</IfModule>
# END WordPress
";

/// Files and compiled directives in memory.
struct Memory {
    files: HashMap<&'static str, FileKind>,
    directives: HashMap<Vec<u8>, Arc<DirConfig>>,
}

impl Memory {
    fn new(rules: &[(&str, &str)]) -> Memory {
        let (file, directory) = (FileKind::File, FileKind::Directory);
        let files = [
            ("/www", directory),
            ("/www/index.php", file),
            ("/www/logo.png", file),
            ("/www/a", directory),
            ("/www/a/b", directory),
            ("/www/a/b/c", directory),
            ("/www/a/b/c/d", directory),
            ("/www/a/b/c/d/small.txt", file),
        ];
        let base = Base::default();
        let compile = |(directory, text): &(&str, &str)| {
            let path = format!("{directory}.htaccess");
            let (directory, path) = (directory.as_bytes(), path.as_bytes());
            let config = engine::compile(text.as_bytes(), path, directory, &base, &|_| false);
            (directory.to_vec(), Arc::new(config.expect("valid directives")))
        };
        Memory { files: files.into(), directives: rules.iter().map(compile).collect() }
    }
}

impl World for Memory {
    fn lstat(&self, path: &[u8]) -> Option<FileInfo> {
        let path = std::str::from_utf8(path).ok()?;
        let kind = *self.files.get(path.strip_suffix('/').unwrap_or(path))?;
        Some(FileInfo { kind, size: 13, ..FileInfo::default() })
    }

    fn stat(&self, path: &[u8]) -> Option<FileInfo> {
        self.lstat(path)
    }

    fn directives(&self, directory: &[u8]) -> Result<Option<Arc<DirConfig>>, Broken> {
        Ok(self.directives.get(directory).cloned())
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

    fn addresses<'a>(&'a self, _: &'a [u8]) -> Later<'a, Vec<IpAddr>> {
        Box::pin(async { Vec::new() })
    }

    fn log(&self, _: Level, _: &str) {}
}

/// A request as a browser sends it.
fn record(target: &str) -> Record {
    let mut headers_in = Table::default();
    for (name, value) in [
        ("Host", "www.example.com"),
        ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"),
        ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
        ("Accept-Language", "en-US,en;q=0.5"),
        ("Accept-Encoding", "gzip, deflate, br, zstd"),
        ("Connection", "keep-alive"),
        ("Cookie", "wordpress_test_cookie=WP%20Cookie%20check"),
    ] {
        headers_in.add(name, value);
    }
    Record {
        connection: Arc::new(Connection {
            remote_addr: b"192.0.2.1".to_vec(),
            server_name: b"www.example.com".to_vec(),
            server_port: 80,
            server_software: b"Howdah".to_vec(),
            document_root: b"/www".to_vec(),
            ..Connection::default()
        }),
        request_line: format!("GET {target} HTTP/1.1").into_bytes(),
        method: b"GET".to_vec(),
        protocol: b"HTTP/1.1".to_vec(),
        unparsed_uri: target.as_bytes().to_vec(),
        headers_in,
        ..Record::default()
    }
}

/// Takes a request through its phases. The benchmark never waits.
fn answer(engine: &Engine, memory: &Memory, record: Record) -> Record {
    let mut task = Context::from_waker(Waker::noop());
    let Poll::Ready(mut outcome) = pin!(engine.handle(record, memory)).poll(&mut task) else {
        panic!("a request waits")
    };
    engine.finish(&mut outcome.record, &outcome.action, memory);
    *outcome.record
}

fn requests(criterion: &mut Criterion) {
    const NESTED: [(&str, &str); 5] = [
        ("/www/", "Header set X-Directory-root 1"),
        ("/www/a/", "Header set X-Directory-a 1"),
        ("/www/a/b/", "Header set X-Directory-b 1"),
        ("/www/a/b/c/", "Header set X-Directory-c 1"),
        ("/www/a/b/c/d/", "Header set X-Directory-d 1"),
    ];
    const BLOG: [(&str, &str); 1] = [("/www/", WORDPRESS)];
    let engine = Engine::new(Base::default()).expect("the base");
    for (name, rules, target) in [
        ("a picture: no rules", &[][..], "/logo.png"),
        ("a picture: rules of WordPress", &BLOG, "/logo.png"),
        ("a page: no rules", &[], "/index.php"),
        ("a page: rules of WordPress", &BLOG, "/index.php"),
        ("a page by its permalink: rules of WordPress", &BLOG, "/2026/05/hello-world/"),
        ("a file below five directories: no rules", &[], "/a/b/c/d/small.txt"),
        ("a file below five directories: a rule in each", &NESTED, "/a/b/c/d/small.txt"),
    ] {
        let memory = Memory::new(rules);
        assert_eq!(answer(&engine, &memory, record(target)).status, 200, "{name}");
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| answer(&engine, &memory, black_box(record(target))));
        });
    }
    criterion.bench_function("the request itself", |bencher| {
        bencher.iter(|| black_box(record("/logo.png")));
    });
}

criterion_group!(benches, requests);
criterion_main!(benches);
