use super::*;
use crate::engine::{Base, Engine};
use crate::modules::mime::{self, Types};
use crate::modules::negotiation::Candidate;
use crate::modules::testing::{Stub, apply, now, record};
use crate::world::{Reading, World};

#[test]
fn errors_are_those_of_apache() {
    for (line, expected) in [
        ("IndexOptions Fancy", "Invalid directory indexing option"),
        (
            "IndexOptions None FancyIndexing",
            "Cannot combine other IndexOptions keywords with 'None'",
        ),
        ("IndexOptions +None", "Cannot combine '+' or '-' with 'None' keyword"),
        ("IndexOptions NameWidth=3", "NameWidth value must be greater than 5"),
        ("IndexOptions -NameWidth=9", "Cannot combine '-' with NameWidth=n"),
        ("IndexOptions NameWidth", "NameWidth with no value may only appear as '-NameWidth'"),
        ("IndexOrderDefault Up Name", "First keyword must be 'Ascending' or 'Descending'"),
        (
            "IndexOrderDefault Ascending Time",
            "Second keyword must be 'Name', 'Date', 'Size', or 'Description'",
        ),
        ("AddIcon (A,b c", "missing closing paren"),
    ] {
        assert_eq!(apply(DIRECTIVES, &[line]).unwrap_err(), expected, "{line}");
    }
}

#[test]
fn options_without_a_sign_replace_those_of_the_parent() {
    let config = |line: &str| apply(DIRECTIVES, &[line]).unwrap().of::<Config>().clone();
    let base = Config::default().merged(&config("IndexOptions FancyIndexing HTMLTable"));
    for (line, expected) in [
        ("IndexOptions +IgnoreCase", FANCY | TABLE | IGNORE_CASE),
        ("IndexOptions -HTMLTable", FANCY),
        ("IndexOptions XHTML", XHTML),
        ("IndexOptions NameWidth=*", FANCY | TABLE),
    ] {
        assert_eq!(base.merged(&config(line)).options & !UNSET, expected, "{line}");
    }
    let table =
        base.merged(&config("IndexOptions +IgnoreCase")).merged(&config("IndexOptions +XHTML"));
    assert_eq!(table.options & !UNSET, FANCY | TABLE | IGNORE_CASE | XHTML);
}

struct Site<'a> {
    stub: &'a Stub,
    types: Types,
}

impl Lookup for Site<'_> {
    fn lookup<'a>(&'a self, record: &'a Record, name: &'a [u8]) -> Later<'a, Option<Candidate>> {
        Box::pin(async move {
            let mut sub = record.clone();
            let end = memchr::memrchr(b'/', &record.filename).unwrap() + 1;
            sub.filename = [&record.filename[..end], name].concat();
            sub.file = self.stub.stat(&sub.filename)?;
            sub.content_type = None;
            let found = mime::type_checker(&mut sub, &self.types);
            Some(Candidate { record: sub, status: 200, exceptions: found.exceptions })
        })
    }
}

impl Directory for Site<'_> {
    fn insert<'a>(&'a self, record: &'a Record, uri: &'a [u8]) -> Later<'a, Insert> {
        Box::pin(async move {
            let name = uri.split(|&byte| byte == b'?').next().unwrap();
            let Some(candidate) = self.lookup(record, name).await else { return Insert::None };
            let Ok(content) = self.stub.read(&candidate.record.filename, Reading::All(1000)).await
            else {
                return Insert::None;
            };
            match candidate.record.content_type.as_deref() {
                Some(b"text/html") => Insert::Html(content.to_vec()),
                Some(name) if name.starts_with(b"text/") => Insert::Plain(content.to_vec()),
                _ => Insert::None,
            }
        })
    }

    fn signature(&self, _: &Record) -> Vec<u8> {
        Vec::new()
    }
}

fn site() -> Stub {
    let mut stub = Stub::default();
    for (name, content) in [
        ("a.html", "<title>A\nt</title>x".to_string()),
        ("B.txt", "y".repeat(2000)),
        ("c10.gif", "z".repeat(100)),
        ("c9.gif", "1".into()),
        ("sub/x", "1".into()),
        ("d&\"é.tar.gz", "g".repeat(12345)),
        ("z y", String::new()),
        (".hid", "1".into()),
        (".htaccess", String::new()),
        ("long-name-that-is-longer-than-the-column.zip", "1".repeat(1_500_000)),
    ] {
        stub.files.insert(format!("/site/{name}").into(), content.into());
    }
    stub
}

/// Listings of the real Apache for the same files.
#[test]
fn listings_are_those_of_apache_byte_for_byte() {
    let all = include_str!("listings.txt");
    for case in all.split("=== ").skip(1) {
        let mut parts = case.splitn(5, '\n');
        let mut next = || parts.next().unwrap();
        let (name, target, content_type, lines, expected) =
            (next(), next(), next(), next(), next());
        let mut stub = site();
        match name {
            "txt" => {
                stub.files.insert(b"/site/h.txt".to_vec(), b"<&x>\n".to_vec());
                stub.files.insert(b"/site/r.html".to_vec(), b"<p>R\n".to_vec());
            }
            "htm" => {
                stub.files.insert(b"/site/h.html".to_vec(), b"<p>H\n".to_vec());
            }
            _ => {}
        }
        let lines: Vec<&str> = lines.split(" | ").filter(|line| !line.is_empty()).collect();
        let mut config = (*Engine::new(Base::default()).unwrap().site.config).clone();
        config = config.merged(&apply(DIRECTIVES, &lines).unwrap());
        let mut record = record(config);
        let (path, query) =
            target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        record.uri = path.into();
        record.args = query.map(|query| query.as_bytes().to_vec());
        record.filename = format!("/site{path}").into();
        record.file = stub.stat(&record.filename).unwrap();
        let server = Site { stub: &stub, types: Types::built_in() };
        let page = now(handle(&mut record, &stub, &server, true)).unwrap();
        let page = String::from_utf8(page).unwrap();
        for (ours, theirs) in page.lines().zip(expected.lines()) {
            assert_eq!(ours, theirs, "{name}");
        }
        assert_eq!(page, expected.strip_suffix('\n').unwrap(), "{name}");
        assert_eq!(record.content_type.as_deref(), Some(content_type.as_bytes()), "{name}");
    }
}
