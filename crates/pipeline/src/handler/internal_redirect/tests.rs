use std::sync::Arc;

use howdah_config::{self as config, Config, ScriptSources};
use howdah_files::{Files, RequestTime};
use howdah_http::body::Body;
use howdah_http::error_status::RequestError;
use howdah_http::{fixture, respond};
use howdah_routing::snapshot::delegations::{Delegation, Delegations, Instruction, Producer};

use super::*;

fn response(status: u16, fields: &[(&str, &str)]) -> Response {
    fields.iter().fold(Response::new(status, Body::Empty), |response, (name, value)| {
        response.with(name, value)
    })
}

fn lines(response: &Response) -> String {
    String::from_utf8(response.fields.as_bytes().to_vec()).unwrap()
}

#[test]
fn no_client_sees_what_is_meant_for_the_server() {
    let mut answer = response(
        200,
        &[
            ("X-Accel-Redirect", "/a"),
            ("A", "b"),
            ("x-sendfile", "/srv/a"),
            ("X-ACCEL-Limit-Rate", "1"),
            ("X-Accel-Charset", "utf-8"),
            ("X-Sendfile-Type", "c"),
        ],
    );
    let wishes = take_internal_fields(&mut answer);
    assert_eq!(lines(&answer), "A: b\r\n");
    let expected = InternalFields { redirect: Some("/a".into()), file: Some("/srv/a".into()) };
    assert_eq!(wishes, expected);
}

#[test]
fn a_wish_counts_only_where_the_configuration_grants_it() {
    let document = serde_json::json!({
        "routes": {"files": []},
        "applications": {
            "both": {
                "type": "php", "root": "/", "internal_redirect": "routes/files", "sendfile": "/srv",
            },
            "none": {"type": "fastcgi", "server": "127.0.0.1:1", "root": "/"},
        },
        "upstreams": {
            "redirects": {"servers": {}, "internal_redirect": "routes/files"},
            "names": {"servers": {}, "named_redirects": {"@files": "routes/files"}},
            "sends": {"servers": {}, "sendfile": ["/srv/"]},
        },
    });
    let config = Config::from_value(document).unwrap();
    let delegations = Delegations::new(&config, &ScriptSources::new(&config), &Arc::default());
    let granted = |by, redirect: Option<&'static str>, file: Option<&'static str>| {
        let wishes =
            InternalFields { redirect: redirect.map(Bytes::from), file: file.map(Bytes::from) };
        match delegations.grant(wishes, by) {
            Ok(Some(Instruction::Redirect(..))) => "redirect",
            Ok(Some(Instruction::Named(..))) => "named",
            Ok(Some(Instruction::NoRoute(..))) => "no route",
            Ok(Some(Instruction::File(..))) => "file",
            Ok(None) => "none",
            Err(_) => "refused",
        }
    };
    let (path, file) = (Some("/a"), Some("/srv/a"));
    for (by, expected) in [
        (Producer::Application("both"), ["redirect", "file", "redirect", "none"]),
        (Producer::Application("none"), ["refused", "refused", "refused", "none"]),
        (Producer::Application("redirects"), ["refused", "refused", "refused", "none"]),
        (Producer::Upstream("upstreams/redirects"), ["redirect", "refused", "redirect", "none"]),
        (Producer::Upstream("upstreams/sends"), ["refused", "file", "file", "none"]),
        (Producer::Upstream("upstreams/both"), ["refused", "refused", "refused", "none"]),
        (Producer::Upstream("http://sends"), ["refused", "refused", "refused", "none"]),
    ] {
        let got = [(path, None), (None, file), (path, file), (None, None)];
        assert_eq!(got.map(|(path, file)| granted(by, path, file)), expected, "{by:?}");
    }
    let names = Producer::Upstream("upstreams/names");
    for (name, expected) in [
        ("@files", "named"),
        ("@file", "no route"),
        ("@files/", "no route"),
        ("files", "no route"),
        ("/", "no route"),
    ] {
        assert_eq!(granted(names, Some(name), None), expected, "{name}");
        let other = granted(Producer::Upstream("upstreams/sends"), Some(name), None);
        assert_eq!(other, "refused", "{name}");
    }
}

#[test]
fn a_named_route_gets_the_request_without_its_body() {
    let mut asked =
        fixture::request("/x%20y?y=z", &[("Content-Length", "3"), ("Range", "bytes=0-")]);
    asked.method = Bytes::from_static(b"POST");
    let request = named_request(&asked);
    assert_eq!(
        (&*request.path, &*request.query, &*request.method),
        (&b"/x y"[..], &b"y=z"[..], &b"POST"[..])
    );
    assert_eq!(request.fields.iter().map(|(name, _)| name).collect::<Vec<_>>(), [b"Range"]);
}

#[test]
fn a_path_is_taken_apart_like_that_of_a_client() {
    let mut asked = fixture::request("/x?y=z", &[("Content-Length", "3"), ("Range", "bytes=0-")]);
    asked.method = Bytes::from_static(b"POST");
    for (uri, path, query) in [
        ("/a/b?c=d", "/a/b", "c=d"),
        ("/a%20b/%C3%A9", "/a b/é", ""),
        ("/a b#c", "/a b#c", ""),
        ("//a/./b", "/a/b", ""),
        ("/a%3Fb", "/a?b", ""),
        ("/a%252e%252e/b", "/a%2e%2e/b", ""),
    ] {
        let request = request(&asked, uri.as_bytes()).expect(uri);
        assert_eq!((&*request.path, &*request.query), (path.as_bytes(), query.as_bytes()));
        assert_eq!(request.method, "GET");
        assert_eq!(request.fields.iter().map(|(name, _)| name).collect::<Vec<_>>(), [b"Range"]);
    }
    for uri in [
        "",
        "a",
        "@named",
        "?a",
        "http://a/b",
        "/a/../b",
        "/a/%2e%2e/b",
        "/a/..",
        "/a%2f..%2fb",
        "/a%00b",
        "/a\0b",
        "/%",
        "/a\rb",
    ] {
        assert!(request(&asked, uri.as_bytes()).is_none(), "{uri:?}");
    }
    asked.method = Bytes::from_static(b"HEAD");
    assert_eq!(request(&asked, b"/a").unwrap().method, "HEAD");
}

#[test]
fn a_file_lies_below_a_directory_of_the_configuration() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    for directory in ["files", "files/sub", "filesystem"] {
        std::fs::create_dir(path(directory)).unwrap();
    }
    for file in ["secret", "files/a b", "files/sub/c", "filesystem/d", "files/e.php", "files/.f"] {
        std::fs::write(path(file), file).unwrap();
    }
    std::os::unix::fs::symlink(path("secret"), path("files/out")).unwrap();
    std::os::unix::fs::symlink("../secret", path("files/up")).unwrap();
    std::os::unix::fs::symlink("sub/c", path("files/in")).unwrap();
    let config =
        config::Delegation { directories: vec![path("files")], ..config::Delegation::default() };
    let delegation = Delegation::new(&config, &ScriptSources::default(), &Arc::default());
    let cache = Files::new(howdah_files::Limits::default());
    let now =
        RequestTime { monotonic: std::time::Instant::now(), wall: std::time::SystemTime::now() };
    let status = |name: &str| {
        let name = format!("{}/{name}", root.path().display());
        delegation.send(name.as_bytes(), &cache, &fixture::request("/", &[]), now).status
    };
    for name in ["files/a b", "files/a%20b", "files/sub/c", "files//sub/c", "files/in"] {
        assert_eq!(status(name), 200, "{name}");
    }
    for name in [
        "secret",
        "files/../secret",
        "files/%2e%2e/secret",
        "files/sub/../../secret",
        "filesystem/d",
        "files",
        "files/",
        "files/sub",
        "files/sub/",
        "files/e.php",
        "files/.f",
        "files/a b\0",
        "files/a b%00",
        "files/a%2520b",
        "files/none",
        "files/out",
        "files/up",
    ] {
        assert!(matches!(status(name), 403 | 404), "{name}: {}", status(name));
    }
    let send = |name: &[u8]| delegation.send(name, &cache, &fixture::request("/", &[]), now).status;
    assert_eq!([send(b""), send(b"files/sub/c"), send(b"/etc/passwd")], [404; 3]);
}

#[test]
fn what_an_answer_says_about_the_content_stays() {
    let first = || {
        response(
            201,
            &[
                ("Content-Type", "application/zip"),
                ("Set-Cookie", "a=1"),
                ("Content-Disposition", "attachment"),
                ("Cache-Control", "private"),
                ("Set-Cookie", "b=2"),
                ("ETag", "\"application\""),
                ("X-Powered-Producer", "PHP"),
            ],
        )
    };
    let file = |status, media_type| {
        response(status, &[("Content-Type", media_type), ("ETag", "\"file\""), ("Set-Cookie", "c")])
    };
    let mut joined = first();
    merge(&mut joined, file(200, "text/plain"));
    assert_eq!(joined.status, 200);
    assert_eq!(
        lines(&joined),
        "Content-Type: application/zip\r\nSet-Cookie: a=1\r\nContent-Disposition: attachment\r\n\
         Cache-Control: private\r\nSet-Cookie: b=2\r\nETag: \"file\"\r\nSet-Cookie: c\r\n"
    );
    let mut joined = first();
    merge(&mut joined, file(206, "multipart/byteranges; boundary=x"));
    let media_type = joined.fields.get("content-type").unwrap();
    assert_eq!(media_type, b"multipart/byteranges; boundary=x");
    let mut joined = first();
    merge(&mut joined, respond::refuse(RequestError::NotFound));
    assert_eq!(lines(&joined), "Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Type: text/html\r\n");
}
