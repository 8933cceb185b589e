use super::*;
use crate::modules::mime::{self, Types};
use crate::modules::testing::{Stub, apply_line, now, record};
use crate::options::Options;

struct Files<'a> {
    stub: &'a Stub,
    types: Types,
}

impl Lookup for Files<'_> {
    fn lookup<'a>(&'a self, record: &'a Record, name: &'a [u8]) -> Later<'a, Option<Candidate>> {
        Box::pin(async move {
            let mut sub = record.clone();
            let end = memchr::memrchr(b'/', &record.filename).unwrap() + 1;
            sub.filename = [&record.filename[..end], name].concat();
            sub.file = self.stub.stat(&sub.filename).unwrap_or_default();
            let status = if sub.file.kind == FileKind::None { 404 } else { 200 };
            let found = mime::type_checker(&mut sub, &self.types);
            Some(Candidate { record: sub, status, exceptions: found.exceptions })
        })
    }
}

fn request(
    lines: &[&str],
    path: &str,
    fields: &[(&str, &str)],
    files: &[(&str, &str)],
) -> (Stub, Record) {
    let mut config = DirConfig::default();
    let place = Place {
        file: "/site/.htaccess",
        line: 1,
        directory: b"/site/",
        section: None,
        methods: None,
        options: Options::ANY,
    };
    let base = ["LanguagePriority en de fr", "ForceLanguagePriority Prefer Fallback"];
    for line in base {
        apply_line(DIRECTIVES, &mut config, &place, line).unwrap();
    }
    let mut child = DirConfig::default();
    for line in lines {
        apply_line(DIRECTIVES, &mut child, &place, line).unwrap();
    }
    config = config.merged(&child);
    for line in [
        "AddLanguage en .en",
        "AddLanguage fr .fr",
        "AddLanguage de .de",
        "AddEncoding x-gzip .gz",
        "RemoveType .gz",
    ] {
        apply_line(mime::DIRECTIVES, &mut config, &place, line).unwrap();
    }
    let mut stub = Stub::default();
    for (name, content) in files {
        stub.files.insert(format!("/site{name}").into(), content.as_bytes().to_vec());
    }
    let mut record = record(config);
    record.uri = path.into();
    record.filename = format!("/site{path}").into();
    for (name, value) in fields {
        record.headers_in.set(*name, *value);
    }
    (stub, record)
}

fn chosen(
    lines: &[&str],
    path: &str,
    fields: &[(&str, &str)],
    files: &[(&str, &str)],
) -> (String, String) {
    let (stub, mut record) = request(lines, path, fields, files);
    let lookup = Files { stub: &stub, types: Types::built_in() };
    let result = match now(type_checker(&mut record, &stub, &lookup, true)) {
        Ok(Multiviews::Declined) => "declined".to_string(),
        Ok(Multiviews::Chosen(sub)) => lossy(sub.filename.strip_prefix(b"/site").unwrap()),
        Err(status) => status.to_string(),
    };
    (result, record.err_headers_out.get(b"Vary").map_or(String::new(), lossy))
}

const VARIANTS: &[(&str, &str)] =
    &[("/d.html.en", "english"), ("/d.html.fr", "francais"), ("/d.html.de", "d"), ("/d.css", "c")];

#[test]
fn variants_are_chosen_as_by_apache() {
    for (lines, path, fields, expected) in [
        (vec![], "/d", vec![], "/d.html.en"),
        (vec![], "/d", vec![("Accept-Language", "fr")], "/d.html.fr"),
        (vec![], "/d", vec![("Accept-Language", "fr;q=0.5, de")], "/d.html.de"),
        (vec![], "/d", vec![("Accept-Language", "fr-CA")], "/d.html.fr"),
        (vec![], "/d", vec![("Accept", "text/css")], "/d.css"),
        (vec![], "/d", vec![("Accept", "image/png")], "406"),
        (vec!["ForceLanguagePriority None"], "/d.html", vec![("Accept-Language", "xx")], "406"),
        (vec![], "/d.html", vec![("Accept-Language", "xx")], "/d.html.en"),
        (vec![], "/d", vec![("Negotiate", "trans")], "300"),
        (vec![], "/d", vec![("Negotiate", "1.0")], "300"),
        (vec![], "/d", vec![("Negotiate", "*")], "/d.html.en"),
        (vec![], "/e", vec![], "declined"),
        (vec!["LanguagePriority fr"], "/d", vec![], "/d.html.fr"),
    ] {
        let (found, _) = chosen(&lines, path, &fields, VARIANTS);
        assert_eq!(found, expected, "{lines:?} {path} {fields:?}");
    }
    assert_eq!(chosen(&[], "/q", &[], &[("/q.qq", "1")]).0, "404");
    assert_eq!(chosen(&[], "/d", &[], VARIANTS).1, "negotiate, accept, accept-language");
}

/// Answers of the real Apache for three languages of a page.
#[test]
fn languages_are_chosen_as_by_apache() {
    let files: Vec<_> = VARIANTS.iter().filter(|(name, _)| *name != "/d.css").copied().collect();
    for (lines, language, expected) in [
        (vec![], "fr-CA", "/d.html.fr"),
        (vec![], "en-US,en;q=0.5", "/d.html.en"),
        (vec![], "*;q=0.1, de", "/d.html.de"),
        (vec![], "de;q=0, fr;q=0.1", "/d.html.fr"),
        (vec!["LanguagePriority fr"], "", "/d.html.fr"),
        (vec!["ForceLanguagePriority Fallback"], "", "/d.html.de"),
        (vec!["ForceLanguagePriority None"], "", "/d.html.de"),
    ] {
        let fields: Vec<_> =
            [("Accept-Language", language)].into_iter().filter(|_| !language.is_empty()).collect();
        let (found, vary) = chosen(&lines, "/d", &fields, &files);
        assert_eq!(found, expected, "{lines:?} {language}");
        assert_eq!(vary, "negotiate, accept-language");
    }
    assert_eq!(chosen(&[], "/d.en", &[], &files).0, "declined");
}

#[test]
fn types_are_chosen_as_by_apache() {
    let files = [("/q.html", "a"), ("/q.txt", "bb")];
    for (accept, expected) in [
        ("", "/q.html"),
        ("text/*;q=0.3, text/plain", "/q.txt"),
        ("text/html;q=0.9,*/*;q=0.8", "/q.html"),
    ] {
        let fields: Vec<_> =
            [("Accept", accept)].into_iter().filter(|_| !accept.is_empty()).collect();
        assert_eq!(chosen(&[], "/q", &fields, &files).0, expected, "{accept}");
    }
}

#[test]
fn encodings_need_to_be_accepted() {
    let files = [("/q.html", "12345"), ("/q.html.gz", "1")];
    let gzip = [("Accept-Encoding", "gzip")];
    assert_eq!(chosen(&[], "/q", &[], &files).0, "/q.html");
    assert_eq!(chosen(&[], "/q", &gzip, &files).0, "/q.html.gz");
}

#[test]
fn lists_name_all_variants() {
    let (stub, mut record) = request(&[], "/d", &[("Accept", "image/png")], VARIANTS);
    let lookup = Files { stub: &stub, types: Types::built_in() };
    assert_eq!(now(type_checker(&mut record, &stub, &lookup, true)).unwrap_err(), 406);
    let alternates = lossy(record.err_headers_out.get(b"Alternates").unwrap());
    assert!(
        alternates.starts_with(
            "{\"d.css\" 1 {type text/css} {length 1}}, {\"d.html.de\" 1 \
             {type text/html} {language de} {length 1}}"
        ),
        "{alternates}"
    );
    assert_eq!(record.err_headers_out.get(b"TCN"), Some(&b"list"[..]));
    let list = lossy(record.notes.get(b"variant-list").unwrap());
    assert!(
        list.contains(
            "<li><a href=\"d.html.de\">d.html.de</a> , type text/html, language de</li>\n"
        ),
        "{list}"
    );
}

fn mapped(map: &str, fields: &[(&str, &str)]) -> Result<Map, u16> {
    let mut files = VARIANTS.to_vec();
    files.push(("/m.var", map));
    let (stub, mut record) = request(&[], "/m.var", fields, &files);
    let lookup = Files { stub: &stub, types: Types::built_in() };
    now(handle_map(&mut record, &stub, &lookup))
}

#[test]
fn maps_name_files_and_have_content() {
    let map = "# map\nURI: d.html.en\nContent-type: text/html\nContent-language: en\n\nURI: \
               d.html.fr\nContent-type: text/html;qs=0.8\nContent-language: fr\nDescription: \"x \
               y\"\n";
    assert_eq!(mapped(map, &[]), Ok(Map::Redirect(b"/d.html.en".to_vec())));
    assert_eq!(
        mapped(map, &[("Accept-Language", "fr")]),
        Ok(Map::Redirect(b"/d.html.en".to_vec()))
    );
    assert_eq!(mapped(map, &[("Accept", "image/png")]), Err(406));
    let bodies = "Content-type: text/html; charset=utf-8\nContent-language: \
                  en\nBody:----x----\nHello\nworld\n----x----\n\nContent-language: \
                  fr\nContent-type: text/html\nBody:--y--\nBonjour\n--y--\n";
    assert_eq!(mapped(bodies, &[("Accept-Language", "fr")]), Ok(Map::Body(b"Bonjour\n".to_vec())));
    assert_eq!(
        mapped(bodies, &[("Accept-Language", "en")]),
        Ok(Map::Body(b"Hello\nworld\n".to_vec()))
    );
    assert_eq!(mapped("bad\n", &[]), Err(500));
    assert_eq!(mapped("\n", &[]), Err(406));
    assert_eq!(mapped("URI: nothing\nContent-type: text/html\n", &[]), Err(404));
}

#[test]
fn an_encoding_gets_the_name_of_the_client() {
    for (accepted, encoding, expected) in
        [("gzip", "x-gzip", "gzip"), ("x-gzip", "gzip", "x-gzip"), ("br", "x-gzip", "x-gzip")]
    {
        let mut record = record(DirConfig::default());
        record.headers_in.set("Accept-Encoding", accepted);
        record.content_encoding = Some(encoding.into());
        fixup(&mut record);
        assert_eq!(record.content_encoding.as_deref(), Some(expected.as_bytes()), "{accepted}");
    }
}

#[test]
fn errors_are_those_of_apache() {
    use crate::modules::testing::apply;
    for (line, expected) in [
        (
            "ForceLanguagePriority None Prefer",
            "Cannot combine ForceLanguagePriority options None and Prefer",
        ),
        (
            "ForceLanguagePriority Prefer None",
            "Cannot combine ForceLanguagePriority options with None",
        ),
        ("ForceLanguagePriority x", "Invalid ForceLanguagePriority option x"),
    ] {
        assert_eq!(apply(DIRECTIVES, &[line]).unwrap_err(), expected, "{line}");
    }
}
