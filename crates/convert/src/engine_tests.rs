//! Random trees: what the engine refuses, the routes do not serve.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use howdah_htaccess::config::DirConfig;
use howdah_htaccess::engine::{Base, Engine, compile};
use howdah_htaccess::record::{Connection, FileInfo, FileKind, Record};
use howdah_htaccess::world::{Broken, Later, Level, World};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::closed_tests::{answer, converted};

const DIRECTORIES: &[&str] = &["", "a", "a/b", "ab"];
const NAMES: &[&str] = &["x.txt", "s.php", "index.html", "index.php", "c.ini"];

struct Tree {
    compiled: HashMap<Vec<u8>, Arc<DirConfig>>,
}

impl World for Tree {
    fn lstat(&self, path: &[u8]) -> Option<FileInfo> {
        let path = std::str::from_utf8(path).ok()?.strip_prefix("/www")?;
        let path = path.trim_start_matches('/');
        let path = path.strip_suffix('/').unwrap_or(path);
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let kind = match DIRECTORIES.contains(&path) {
            true => FileKind::Directory,
            false if DIRECTORIES.contains(&directory) && NAMES.contains(&name) => FileKind::File,
            false => return None,
        };
        Some(FileInfo { kind, size: 1, mode: 0o755, ..FileInfo::default() })
    }

    fn stat(&self, path: &[u8]) -> Option<FileInfo> {
        self.lstat(path)
    }

    fn directives(&self, directory: &[u8]) -> Result<Option<Arc<DirConfig>>, Broken> {
        Ok(self.compiled.get(directory).cloned())
    }

    fn list(&self, _: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }

    fn read(&self, _: &[u8], _: usize) -> io::Result<Arc<[u8]>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn verify<'a>(&'a self, _: &'a [u8], _: &'a [u8]) -> Later<'a, Option<bool>> {
        Box::pin(async { Some(false) })
    }

    fn host_names<'a>(&'a self, _: &'a [u8]) -> Later<'a, Vec<Vec<u8>>> {
        Box::pin(async { Vec::new() })
    }

    fn log(&self, _: Level, _: &str) {}
}

fn asked(engine: &Engine, tree: &Tree, method: &str, path: &str) -> u16 {
    let mut record = Record {
        connection: Arc::new(Connection {
            remote_addr: b"192.0.2.1".to_vec(),
            server_addr: b"192.0.2.2".to_vec(),
            server_port: 80,
            server_name: b"site.example".to_vec(),
            document_root: b"/www".to_vec(),
            time: (1_700_000_000, 0),
            ..Connection::default()
        }),
        request_line: format!("{method} {path} HTTP/1.1").into_bytes(),
        method: method.as_bytes().to_vec(),
        protocol: b"HTTP/1.1".to_vec(),
        unparsed_uri: path.as_bytes().to_vec(),
        ..Record::default()
    };
    record.headers_in.add("Host", "site.example");
    let mut future = std::pin::pin!(engine.handle(record, tree));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(outcome) => outcome.record.status,
        std::task::Poll::Pending => panic!("the engine waits"),
    }
}

fn one_of(list: &[&'static str]) -> impl Strategy<Value = &'static str> + use<> {
    prop::sample::select(list.to_vec())
}

fn access() -> impl Strategy<Value = String> {
    let lines = [
        "Require all denied",
        "Require all granted",
        "Require ip 10.0.0.0/8",
        "Require method GET",
        "Require not method POST",
        "Order deny,allow\nDeny from all",
        "Order allow,deny\nAllow from all",
        "Require env BAD",
    ];
    one_of(&lines).prop_map(|line| format!("{line}\n"))
}

fn rule() -> impl Strategy<Value = String> {
    let conditions = [
        "",
        "",
        "RewriteCond %{REQUEST_FILENAME} !-f\n",
        "RewriteCond %{REQUEST_FILENAME} -f\n",
        "RewriteCond %{REQUEST_FILENAME} !-d\n",
        "RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\n",
        "RewriteCond %{REQUEST_FILENAME} -f [OR]\nRewriteCond %{REQUEST_FILENAME} -d\n",
        "RewriteCond %{REQUEST_FILENAME} -d\n",
        "RewriteCond %{HTTP:X-K} !-f\n",
        "RewriteCond %{REQUEST_METHOD} GET\n",
        "RewriteCond %{REQUEST_URI} index\n",
        "RewriteCond %{REQUEST_URI} !\\.txt$\n",
        "RewriteCond %{THE_REQUEST} GET\n",
    ];
    let patterns = [
        "\\.txt$",
        "^index\\.php$",
        "index",
        "!^$",
        "^$",
        "\\.(php|ini)$",
        "^b/",
        "!\\.php$",
        ".",
        "(^|/)c\\.ini$",
        "^(?!a).*\\.txt$",
        "^x",
        "!.",
        "^(.+)$",
    ];
    let actions = [
        "- [F]",
        "- [F]",
        "- [R=404]",
        "nosuch [L]",
        "/nosuch [L]",
        "/nosuch",
        "- [L]",
        "- [S=1]",
        "- [N=1]",
        "x.txt [L]",
        "/index.php [L]",
        "c.ini",
        "- [END]",
    ];
    (one_of(&conditions), one_of(&patterns), one_of(&actions)).prop_map(
        |(condition, pattern, action)| format!("{condition}RewriteRule {pattern} {action}\n"),
    )
}

fn other() -> impl Strategy<Value = String> {
    let lines = [
        "RewriteEngine On",
        "RewriteEngine Off",
        "RewriteOptions Inherit",
        "RewriteOptions InheritBefore",
        "RewriteOptions InheritDown",
        "Options -FollowSymLinks",
        "DirectoryIndex s.php",
        "DirectoryIndex index.php",
        "Redirect 403 /a/index.php",
        "Redirect 404 /a/x.txt",
        "RedirectMatch 403 (?i)\\.PHP",
        "RedirectMatch 404 ^/a/(.*)\\.html$",
        "RedirectMatch 403 ^/(?!a)",
        "SetEnvIf Host example BAD",
    ];
    one_of(&lines).prop_map(|line| format!("{line}\n"))
}

fn section() -> impl Strategy<Value = String> {
    let names = [
        ("<Files \"*.txt\">", "</Files>"),
        ("<Files index.php>", "</Files>"),
        ("<FilesMatch \"\\.(ini|php)$\">", "</FilesMatch>"),
        ("<FilesMatch \"^[^.]+\">", "</FilesMatch>"),
        ("<Limit GET>", "</Limit>"),
        ("<LimitExcept POST>", "</LimitExcept>"),
        ("<If \"%{REQUEST_URI} =~ /x/\">", "</If>"),
    ];
    let rules = rule().prop_map(|rule| format!("RewriteEngine On\n{rule}"));
    let inner = prop_oneof![3 => access(), 1 => rules];
    (prop::sample::select(names.to_vec()), inner)
        .prop_map(|((start, end), inner)| format!("{start}\n{inner}{end}\n"))
}

fn file() -> impl Strategy<Value = String> {
    let part = prop_oneof![access(), rule(), rule(), other(), section()];
    let switch = one_of(&["RewriteEngine On\n", "", ""]);
    (switch, prop::collection::vec(part, 0..4))
        .prop_map(|(switch, parts)| format!("{switch}{}", parts.concat()))
}

/// The same trees in each run; `PROPTEST_RNG_SEED` and `PROPTEST_CASES` search further.
fn settings() -> ProptestConfig {
    let mut settings = ProptestConfig::default();
    if std::env::var_os("PROPTEST_CASES").is_none() {
        settings.cases = 192;
    }
    if settings.rng_seed == RngSeed::Random {
        settings.rng_seed = RngSeed::Fixed(1);
    }
    settings
}

proptest! {
    #![proptest_config(settings())]
    #[test]
    fn what_the_engine_refuses_is_not_served(
        root in file(), a in file(), b in prop::option::of(file()),
    ) {
        let files: Vec<(&str, &str)> =
            [("", root.as_str()), ("a", &a)].into_iter().chain(b.as_deref().map(|b| ("a/b", b))).collect();
        let engine = Engine::new(Base::default()).unwrap();
        let mut tree = Tree { compiled: HashMap::new() };
        for (directory, content) in &files {
            let path = match directory.is_empty() {
                true => b"/www/".to_vec(),
                false => format!("/www/{directory}/").into_bytes(),
            };
            let compiled = compile(content.as_bytes(), b"f", &path, engine.base(), &|_| true);
            let Ok(compiled) = compiled else { return Ok(()) };
            tree.compiled.insert(path, Arc::new(compiled));
        }
        let document = converted(&files).document;
        for directory in DIRECTORIES {
            for name in NAMES.iter().chain([&""]) {
                let path = match directory.is_empty() {
                    true => format!("/{name}"),
                    false => format!("/{directory}/{name}"),
                };
                for method in ["GET", "POST"] {
                    let before = asked(&engine, &tree, method, &path);
                    if matches!(before, 403 | 404) {
                        let (after, served) = answer(&document, "main", method, &path, 0);
                        // The content of a path that the files serve is not closed.
                        let is_open = served != path
                            && asked(&engine, &tree, method, &served) == 200;
                        prop_assert!(
                            after != 200 || is_open,
                            "{} {} was {}\n{}---\n{}---\n{:?}\n{:#}",
                            method, path, before, root, a, b, document
                        );
                    }
                }
            }
        }
    }
}
