use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::sync::Arc;

use bytes::Bytes;
use howdah_config::{Pattern, Patterns, Subject, Symlinks};
use howdah_http::body::{Body, Piece};
use howdah_http::error_status::RequestError;
use howdah_http::message::{ConnectionInfo, Fields, Response, Version};

use super::*;

mod attacks;
mod caching;
mod links;
mod swapping;

/// A document root in a temporary directory, a file server, and a manual clock. The clock is ahead
/// of the disk's, so that new files count as settled.
pub(super) struct Site {
    pub root: tempfile::TempDir,
    pub files: Files,
    pub share: Share,
    pub now: RequestTime,
}

impl Files {
    /// Returns the response with a file or the redirect to a directory.
    fn answer(
        &self,
        share: &Share,
        place: FileLocation<'_>,
        request: &Request,
        now: RequestTime,
    ) -> Result<Response, ServeOutcome> {
        match self.look_up(share, place, request, now) {
            ServeOutcome::File(file) => Ok(self.file_response(&file, request, now.wall)),
            ServeOutcome::Directory => {
                let prefix = share.options().prefix.as_ref();
                let missing = ServeOutcome::NotServed(NotServedReason::NotFound);
                redirect_to_directory(request, prefix).ok_or(missing)
            }
            other => Err(other),
        }
    }
}

impl Site {
    pub fn new(options: Options) -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("www")).unwrap();
        let share = Share::new(root.path().join("www"), options);
        let wall = SystemTime::now() + Duration::from_secs(100);
        let now = RequestTime { monotonic: Instant::now(), wall };
        Site { root, files: Files::new(Limits::default()), share, now }
    }

    pub fn plain() -> Self {
        Site::new(Options::default())
    }

    pub fn scripts() -> Self {
        let index = vec!["index.php".to_owned(), "index.html".to_owned()];
        Site::new(Options { scripts: true, index, ..Options::default() })
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.root.path().join("www").join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub fn pass(&mut self, milliseconds: u64) {
        self.now.monotonic += Duration::from_millis(milliseconds);
        self.now.wall += Duration::from_millis(milliseconds);
    }

    pub fn outcome(&self, request: &Request) -> Result<Response, ServeOutcome> {
        self.files.answer(&self.share, self.share.place(&request.path), request, self.now)
    }

    pub fn get(&self, path: impl AsRef<[u8]>, fields: &[(&str, &str)]) -> Answer {
        self.ask("GET", path, fields)
    }

    pub fn ask(
        &self,
        method: &'static str,
        path: impl AsRef<[u8]>,
        fields: &[(&str, &str)],
    ) -> Answer {
        match self.outcome(&request(method, path.as_ref(), b"", fields)) {
            Ok(response) => Answer::of(response),
            other => panic!("no response but {other:?}"),
        }
    }

    /// Returns the response without reading its body, which may have been truncated meanwhile.
    pub fn get_unread(&self, path: &str) -> Response {
        match self.outcome(&request("GET", path.as_bytes(), b"", &[])) {
            Ok(response) => response,
            other => panic!("no response but {other:?}"),
        }
    }

    pub fn missing(&self, path: impl AsRef<[u8]>) -> NotServedReason {
        match self.outcome(&request("GET", path.as_ref(), b"", &[])) {
            Err(ServeOutcome::NotServed(reason)) => reason,
            other => panic!("{} is {other:?}", path.as_ref().escape_ascii()),
        }
    }

    pub fn script(&self, method: &'static str, path: impl AsRef<[u8]>) -> (String, String) {
        match self.outcome(&request(method, path.as_ref(), b"", &[])) {
            Err(ServeOutcome::Script(script)) => {
                let name = String::from_utf8(script.script_name.to_vec()).unwrap();
                assert_eq!(*script.file, *self.path(&name[1..]));
                (name, String::from_utf8(script.path_info.to_vec()).unwrap())
            }
            other => panic!("no script but {other:?}"),
        }
    }
}

pub(super) fn request(
    method: &'static str,
    path: &[u8],
    query: &[u8],
    fields: &[(&str, &str)],
) -> Request {
    Request {
        method: Bytes::from_static(method.as_bytes()),
        target: Bytes::copy_from_slice(path),
        fragment: Bytes::new(),
        path: Bytes::copy_from_slice(path),
        query: Bytes::copy_from_slice(query),
        version: Version::Http11,
        host: Bytes::from_static(b"example.com"),
        fields: Fields::from_pairs(fields.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes()))),
        connection: Arc::new(ConnectionInfo::default()),
        user: None,
        id: 1,
        error: None,
        captures: Default::default(),
        additions: None,
        handling: Default::default(),
    }
}

/// A response with its body read.
pub(super) struct Answer {
    pub response: Response,
    pub body: Vec<u8>,
}

impl Answer {
    fn of(response: Response) -> Self {
        let body = match &response.body {
            Body::Empty => Vec::new(),
            Body::Bytes(bytes) => bytes.to_vec(),
            Body::Pieces(pieces) => pieces.iter().flat_map(read).collect(),
            Body::Stream(_) => panic!("files are no streams"),
        };
        Answer { response, body }
    }

    pub fn status(&self) -> u16 {
        self.response.status
    }

    pub fn field(&self, name: &str) -> String {
        String::from_utf8(self.response.fields.get(name).unwrap_or_default().to_vec()).unwrap()
    }
}

fn read(piece: &Piece) -> Vec<u8> {
    match piece {
        Piece::Bytes(bytes) => bytes.to_vec(),
        Piece::File { file, offset, len } => {
            let mut bytes = vec![0; *len as usize];
            file.read_exact_at(&mut bytes, *offset).unwrap();
            bytes
        }
    }
}

#[test]
fn a_file_is_sent_with_its_type_and_validators() {
    let site = Site::plain();
    site.write("a.html", "hello");
    let answer = site.get("/a.html", &[]);
    assert_eq!((answer.status(), &answer.body[..]), (200, &b"hello"[..]));
    assert_eq!(answer.field("content-type"), "text/html");
    assert_eq!(answer.field("accept-ranges"), "bytes");
    assert!(answer.field("last-modified").ends_with(" GMT"));
    assert!(answer.field("etag").starts_with('"') && answer.field("etag").ends_with("-5\""));
    assert_eq!(answer.field("vary"), "");
    let head = site.ask("HEAD", "/a.html", &[]);
    assert_eq!((head.status(), head.response.body.len()), (200, Some(5)));
    assert_eq!(head.response.fields, answer.response.fields);
}

#[test]
fn a_file_without_a_known_type_has_none() {
    let site = Site::plain();
    site.write("README", "");
    let answer = site.get("/README", &[]);
    assert_eq!((answer.status(), answer.response.body.len()), (200, Some(0)));
    assert_eq!(answer.response.fields.get("content-type"), None);
}

#[test]
fn names_may_hold_any_bytes() {
    let site = Site::plain();
    let name = b" \xff\xfe;%?#\"\\.txt";
    fs::write(site.path("").join(OsStr::from_bytes(name)), "x").unwrap();
    assert_eq!(site.get([b"/", &name[..]].concat(), &[]).body, b"x");
}

#[test]
fn a_directory_answers_with_its_first_index() {
    let index = vec!["a.html".to_owned(), String::new(), "../x".to_owned(), "b.html".to_owned()];
    let mut site = Site::new(Options { index, ..Options::default() });
    site.write("d/b.html", "b");
    assert_eq!(site.get("/d/", &[]).body, b"b");
    site.write("d/a.html", "a");
    site.pass(1000);
    assert_eq!(site.get("/d/", &[]).body, b"a");
    assert_eq!(site.get("/d/", &[]).field("content-type"), "text/html");
    assert_eq!(site.missing("/"), NotServedReason::NotFound);
    fs::create_dir(site.path("a.html")).unwrap();
    site.pass(1000);
    assert_eq!(site.missing("/"), NotServedReason::NotFound);
}

#[test]
fn a_directory_without_slash_is_redirected_within_the_site() {
    let site = Site::plain();
    for name in ["dir", "d$r", "a b", "ф", "x%41", "\\evil.com", "a?b", "q\"<>"] {
        fs::create_dir(site.path(name)).unwrap();
    }
    let location =
        |path: &str, query: &[u8]| match site.outcome(&request("GET", path.as_bytes(), query, &[]))
        {
            Ok(response) => {
                assert_eq!(response.status, 301);
                assert_eq!(response.fields.get("content-type"), None);
                String::from_utf8(response.fields.get("location").unwrap().to_vec()).unwrap()
            }
            other => panic!("{other:?}"),
        };
    assert_eq!(location("/dir", b""), "/dir/");
    assert_eq!(location("/dir", b"a=b&c=%20/?"), "/dir/?a=b&c=%20/?");
    assert_eq!(location("/dir", b"\r\nX: y\xff"), "/dir/?%0D%0AX:%20y%FF");
    assert_eq!(location("/d$r", b""), "/d$r/");
    assert_eq!(location("/a b", b""), "/a%20b/");
    assert_eq!(location("/ф", b""), "/%D1%84/");
    assert_eq!(location("/x%41", b""), "/x%2541/");
    assert_eq!(location("/\\evil.com", b""), "/%5Cevil.com/");
    assert_eq!(location("/a?b", b""), "/a%3Fb/");
    assert_eq!(location("/q\"<>", b""), "/q%22%3C%3E/");
    assert_eq!(site.missing("//dir"), NotServedReason::NotFound);
}

#[test]
fn a_share_that_names_a_directory_itself_shows_its_index_if_it_ends_with_a_slash() {
    let site = Site::plain();
    site.write("d/index.html", "index");
    let serve = |place: &'static str, path: &'static str| {
        let place = FileLocation { path: place.as_bytes(), ..site.share.place(b"/") };
        let request = request("GET", path.as_bytes(), b"", &[]);
        match site.files.answer(&site.share, place, &request, site.now) {
            Ok(response) => Answer::of(response),
            outcome => panic!("{outcome:?}"),
        }
    };
    assert_eq!(serve("/d/", "/any/").body, b"index");
    assert_eq!(serve("/d/", "/any").body, b"index");
    // Without the slash the result is as in Unit.
    assert_eq!(serve("/d", "/any").field("location"), "/any/");
    assert_eq!(serve("/d", "/any/").field("location"), "/any//");
    assert_eq!(serve("/d", "/").field("location"), "//");
}

#[test]
fn only_get_and_head_read_files() {
    let (site, scripts) = (Site::plain(), Site::scripts());
    site.write("a.html", "a");
    scripts.write("d/a.html", "a");
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "get"] {
        for outcome in [
            site.outcome(&request(method, b"/a.html", b"", &[])),
            scripts.outcome(&request(method, b"/d/a.html", b"", &[])),
            scripts.outcome(&request(method, b"/d", b"", &[])),
        ] {
            let Err(ServeOutcome::NotServed(reason)) = outcome else { panic!("{outcome:?}") };
            assert_eq!(RequestError::from(reason).status(), 405);
        }
    }
}

#[test]
fn types_are_checked_for_files_but_not_for_an_index() {
    let mut types = Patterns::default();
    types.push(Pattern::parse("application/xml", Subject::MimeType).unwrap());
    let site = Site::new(Options { types: Some(types), ..Options::default() });
    site.write("index.html", "index");
    site.write("a.xml", "xml");
    site.write("x.php", "<?php");
    assert_eq!(site.get("/", &[]).body, b"index");
    assert_eq!(site.get("/a.xml", &[]).body, b"xml");
    for path in ["/index.html", "/nothing.html", "/x.php"] {
        assert_eq!(site.missing(path), NotServedReason::TypeNotAllowed);
    }
}

#[test]
fn conditions_decide_before_ranges() {
    let site = Site::plain();
    site.write("a.txt", "0123456789");
    let full = site.get("/a.txt", &[]);
    let (etag, modified) = (full.field("etag"), full.field("last-modified"));
    let same = site.get("/a.txt", &[("If-None-Match", &etag), ("Range", "bytes=0-1")]);
    assert_eq!((same.status(), same.response.body.len()), (304, Some(0)));
    assert_eq!(same.response.fields.iter().count(), 1);
    assert_eq!(same.field("etag"), etag);
    assert_eq!(site.get("/a.txt", &[("If-Modified-Since", &modified)]).status(), 304);
    assert_eq!(site.get("/a.txt", &[("If-Match", "\"x\""), ("Range", "bytes=0-1")]).status(), 412);
    let part = site.get("/a.txt", &[("If-Range", &etag), ("Range", "bytes=2-3")]);
    assert_eq!((part.status(), &part.body[..]), (206, &b"23"[..]));
    let part = site.get("/a.txt", &[("If-Range", &modified), ("Range", "bytes=2-3")]);
    assert_eq!(part.status(), 206);
    let whole = site.get("/a.txt", &[("If-Range", "\"x\""), ("Range", "bytes=2-3")]);
    assert_eq!((whole.status(), &whole.body[..]), (200, &b"0123456789"[..]));
}

#[test]
fn ranges_are_cut_from_memory_and_from_open_files() {
    let large: Vec<u8> = (0..400_000u32).map(|n| (n % 251) as u8).collect();
    let site = Site::plain();
    site.write("small.txt", &large[..1000]);
    site.write("large.txt", &large);
    for (path, size) in [("/small.txt", 1000), ("/large.txt", 400_000)] {
        assert_eq!(site.get(path, &[]).body, &large[..size]);
        let part = site.get(path, &[("Range", "bytes=10-19")]);
        assert_eq!((part.status(), &part.body[..]), (206, &large[10..20]));
        assert_eq!(part.field("content-range"), format!("bytes 10-19/{size}"));
        assert_eq!(part.field("content-type"), "text/plain");
        let none = site.get(path, &[("Range", "bytes=400000-")]);
        assert_eq!((none.status(), none.field("content-range")), (416, format!("bytes */{size}")));
        let head = site.ask("HEAD", path, &[("Range", "bytes=10-19")]);
        assert_eq!((head.status(), head.response.body.len()), (200, Some(size as u64)));
        let parts = site.get(path, &[("Range", "bytes=0-1,-2")]);
        assert_eq!(parts.status(), 206);
        let media_type = parts.field("content-type");
        let boundary = media_type.strip_prefix("multipart/byteranges; boundary=").unwrap();
        let mut wanted = Vec::new();
        wanted.extend_from_slice(
            format!(
                "\r\n--{boundary}\r\nContent-type: text/plain\r\nContent-range: bytes \
                     0-1/{size}\r\n\r\n"
            )
            .as_bytes(),
        );
        wanted.extend_from_slice(&large[..2]);
        wanted.extend_from_slice(
            format!(
                "\r\n--{boundary}\r\nContent-type: text/plain\r\nContent-range: bytes \
                     {}-{}/{size}\r\n\r\n",
                size - 2,
                size - 1
            )
            .as_bytes(),
        );
        wanted.extend_from_slice(&large[size - 2..size]);
        wanted.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        assert_eq!(parts.body, wanted);
        let again = site.get(path, &[("Range", "bytes=0-1,-2")]).field("content-type");
        assert_ne!(media_type, again, "boundaries must not repeat");
    }
}

#[test]
fn a_large_file_is_not_read_into_memory() {
    let site = Site::plain();
    let file = fs::File::create(site.path("large")).unwrap();
    file.set_len(8 << 30).unwrap();
    let Ok(response) = site.outcome(&request("GET", b"/large", b"", &[])) else { panic!() };
    let Body::Pieces(pieces) = &response.body else { panic!("{:?}", response.body) };
    assert!(matches!(pieces[..], [Piece::File { offset: 0, len: 0x2_0000_0000, .. }]));
    let fields = [("Range", "bytes=0-0,4294967296-4294967297,-1")];
    assert_eq!(site.get("/large", &fields).status(), 206);
}

#[test]
fn the_accepted_sibling_stands_in_for_its_file() {
    let mut site = Site::plain();
    site.write("a.js", "plain");
    site.write("a.js.br", "brotli!");
    site.write("a.js.gz", "gz");
    fs::create_dir(site.path("a.js.zst")).unwrap();
    let mut tags = Vec::new();
    for (accept, coding, body) in [
        ("", "", "plain"),
        ("gzip, deflate, br, zstd", "br", "brotli!"),
        ("zstd, gzip", "gzip", "gz"),
        ("zstd", "", "plain"),
    ] {
        for _ in 0..2 {
            let answer = site.get("/a.js", &[("Accept-Encoding", accept)]);
            assert_eq!(
                (answer.status(), answer.field("content-encoding")),
                (200, coding.to_owned())
            );
            assert_eq!(answer.body, body.as_bytes());
            assert_eq!(answer.field("content-type"), "text/javascript");
            assert_eq!(answer.field("vary"), "Accept-Encoding");
            let same = [("Accept-Encoding", accept), ("If-None-Match", &answer.field("etag"))];
            let same = site.get("/a.js", &same);
            assert_eq!((same.status(), same.field("vary")), (304, "Accept-Encoding".to_owned()));
            tags.push(answer.field("etag"));
        }
    }
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 3, "{tags:?}");
    let part = site.get("/a.js", &[("Accept-Encoding", "br"), ("Range", "bytes=-1")]);
    assert_eq!((part.status(), part.field("content-range")), (206, "bytes 6-6/7".to_owned()));
    assert_eq!((part.field("content-encoding"), &part.body[..]), ("br".to_owned(), &b"!"[..]));
    let past = SystemTime::now() - Duration::from_secs(1000);
    fs::File::options().write(true).open(site.path("a.js.br")).unwrap().set_modified(past).unwrap();
    site.pass(1000);
    let answer = site.get("/a.js", &[("Accept-Encoding", "br, gzip;q=0.1")]);
    assert_eq!(answer.field("content-encoding"), "gzip", "an older sibling is out of date");
}

#[test]
fn times_that_have_no_form_do_not_fail() {
    let site = Site::plain();
    let epoch = SystemTime::UNIX_EPOCH;
    let day = Duration::from_secs(86_400);
    for (name, time) in
        [("before", epoch - day), ("epoch", epoch), ("after", epoch + day * 100_000)]
    {
        site.write(name, name);
        fs::File::options().write(true).open(site.path(name)).unwrap().set_modified(time).unwrap();
    }
    assert_eq!(site.get("/before", &[]).field("last-modified"), "");
    assert_eq!(site.get("/epoch", &[]).field("last-modified"), "Thu, 01 Jan 1970 00:00:00 GMT");
    assert_eq!(
        site.get("/after", &[]).field("last-modified"),
        howdah_text::date::http_of(site.now.wall)
    );
}

#[test]
fn scripts_are_found_by_name_prefix_and_index() {
    let site = Site::scripts();
    site.write("index.php", "<?php");
    site.write("dir.php/a.html", "a");
    site.write("dir.php/x.php", "<?php");
    site.write("app/index.php", "<?php");
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    for method in ["GET", "HEAD", "POST", "DELETE", "PROPFIND"] {
        assert_eq!(site.script(method, "/index.php"), pair("/index.php", ""));
        assert_eq!(site.script(method, "/"), pair("/index.php", ""));
        assert_eq!(site.script(method, "/app/"), pair("/app/index.php", ""));
        assert_eq!(site.script(method, "/index.php/"), pair("/index.php", "/"));
        assert_eq!(site.script(method, "/index.php/a.php/.b"), pair("/index.php", "/a.php/.b"));
        assert_eq!(site.script(method, "/dir.php/x.php/y"), pair("/dir.php/x.php", "/y"));
    }
    assert_eq!(site.get("/dir.php/a.html", &[]).body, b"a");
    assert_eq!(site.get("/dir.php", &[]).field("location"), "/dir.php/");
    assert_eq!(site.missing("/none.php"), NotServedReason::NotFound);
    assert_eq!(site.missing("/none.php/x"), NotServedReason::NotFound);
    assert_eq!(site.missing("/dir.php/"), NotServedReason::NotFound);
}

#[test]
fn a_script_is_named_by_its_url_and_not_by_its_host_directory() {
    let site = Site::scripts();
    site.write("x.php/app/i.php", "<?php");
    site.write("x.php/index.php", "<?php");
    let name = site.path("x.php/app/i.php/info");
    let name = name.as_os_str().as_bytes();
    let fixed = site.path("").as_os_str().len();
    let place = FileLocation::split(name, fixed, Some(fixed + "x.php".len()), b"").unwrap();
    let request = request("GET", b"/app/i.php/info", b"", &[]);
    match site.files.answer(&site.share, place, &request, site.now) {
        Err(ServeOutcome::Script(script)) => {
            assert_eq!(
                (&*script.script_name, &*script.path_info),
                (&b"/app/i.php"[..], &b"/info"[..])
            );
            assert_eq!(*script.file, *site.path("x.php/app/i.php"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn well_known_is_allowed_where_the_url_starts() {
    let site = Site::plain();
    site.write("host/.well-known/token", "token");
    site.write("host/.git/.well-known", "");
    let serve = |url: &'static str| {
        let path = format!("/host{url}");
        let place = FileLocation { url_offset: "/host".len(), ..site.share.place(path.as_bytes()) };
        site.files.answer(&site.share, place, &request("GET", url.as_bytes(), b"", &[]), site.now)
    };
    assert!(matches!(serve("/.well-known/token"), Ok(Response { status: 200, .. })));
    assert!(matches!(
        serve("/.git/.well-known"),
        Err(ServeOutcome::NotServed(NotServedReason::NotFound))
    ));
}

#[test]
fn a_script_need_not_be_readable_for_the_router() {
    let site = Site::scripts();
    site.write("a.php", "<?php");
    fs::set_permissions(site.path("a.php"), fs::Permissions::from_mode(0o000)).unwrap();
    assert_eq!(site.script("GET", "/a.php").0, "/a.php");
}

#[test]
fn without_permission_a_file_is_forbidden_and_a_directory_still_one() {
    // Root reads every file, unless the thread drops that capability.
    let mut sets = rustix::thread::capabilities(None).unwrap();
    sets.effective = rustix::thread::CapabilitySet::empty();
    rustix::thread::set_capabilities(None, sets).unwrap();
    let site = Site::plain();
    site.write("a.txt", "a");
    site.write("d/index.html", "d");
    fs::set_permissions(site.path("a.txt"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(site.path("d"), fs::Permissions::from_mode(0o311)).unwrap();
    assert_eq!(site.missing("/a.txt"), NotServedReason::Denied);
    assert_eq!(site.get("/d", &[]).status(), 301);
    assert_eq!(site.get("/d/", &[]).body, b"d");
}

#[test]
fn only_regular_files_are_sent_and_none_blocks() {
    let site = Site::new(Options { symlinks: Symlinks::All, ..Options::default() });
    let path = site.path("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o666.into(), 0)
        .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(site.path("socket")).unwrap();
    symlink("/dev/zero", site.path("zero")).unwrap();
    for path in ["/fifo", "/socket", "/zero"] {
        assert_eq!(site.missing(path), NotServedReason::NotFound, "{path}");
    }
}

#[test]
fn no_more_files_are_kept_open_than_allowed() {
    let open = |site: &Site| {
        let entries = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let targets = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
        targets.filter(|target| target.starts_with(site.root.path()) && target.is_file()).count()
    };
    for most in [0, 1, 5] {
        let mut site = Site::plain();
        let limits = Limits { bytes: 1 << 20, body: 10, open: most, ..Limits::default() };
        site.files = Files::new(limits);
        for n in 0..20 {
            site.write(&format!("{n}"), "longer than what is kept in memory");
            assert_eq!(site.get(format!("/{n}"), &[]).status(), 200);
        }
        let kept = open(&site);
        assert!(kept <= most && kept + 1 >= most, "{kept} of {most}");
    }
}
