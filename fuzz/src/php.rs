//! Requests to scripts, and their responses.

use std::path::Path as FilePath;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes as Buffer;
use howdah_cgi::head::ScriptHead;
use howdah_cgi::head::{check, interim_fields};
use howdah_cgi::params as cgi_params;
use howdah_cgi::target::{Script, Target as PhpSite};
use howdah_config::PhpTarget;
use howdah_http::h1::head::{Parse, parse_head};
use howdah_http::limits::Limits;
use howdah_http::message::{ConnectionInfo, FieldBlock, Fields, Request};
use howdah_http::spool::Spool;
use howdah_http::target::Target;
use howdah_php_pool::pending::{Event, Next, PendingResponse};
use howdah_wire::frame::{Head, Kind, Log, RequestUsage};
use howdah_wire::request::{Params, RequestHeader, decode_params};

use crate::{Bytes, split};

fn site(script: Option<&str>) -> PhpSite {
    let target = PhpTarget {
        name: None,
        root: "/site".into(),
        script: script.map(str::to_owned),
        index: "index.php".to_owned(),
        prefix: None,
    };
    PhpSite::new(&target, Arc::default())
}

/// A target. A script that runs lies in the root, is named by the path as it is, and is followed by
/// path information only if its name ends in `.php`.
pub fn script(input: &[u8]) {
    let Ok(target) = Target::parse(input) else { return };
    let path = Buffer::copy_from_slice(target.path(input));
    let script = site(None).script(&path).expect("no prefix");
    found(&script, &path);
    let fixed = site(Some("app.php")).script(&path).expect("no prefix");
    assert_eq!((&fixed.name[..], &fixed.path_info[..]), (&b"/app.php"[..], &b""[..]));
    assert_eq!(&*fixed.file, FilePath::new("/site/app.php"));
}

fn found(script: &Script, path: &[u8]) {
    let whole = [&script.name[..], &script.path_info].concat();
    assert!(whole == path || whole == [path, b"index.php"].concat());
    assert!(script.path_info.is_empty() || script.name.ends_with(b".php"));
    assert!(script.path_info.is_empty() || script.path_info.starts_with(b"/"));
    let name = String::from_utf8_lossy(&script.name);
    assert!(script.file.starts_with("/site"));
    assert!(
        !script.file.components().any(|part| part == std::path::Component::ParentDir),
        "{name}"
    );
    assert!(!script.name.contains(&0));
}

/// A request head. Its parameters read back, none of them is there twice, and fields cannot take
/// the name of any other.
pub fn params(input: &[u8]) {
    let Parse::Complete(head, _) = parse_head(input, &Limits::default()) else { return };
    let script = site(None).script(&head.path).expect("no prefix");
    found(&script, &head.path);
    let request = Request {
        method: head.method,
        target: head.target,
        fragment: Default::default(),
        path: head.path,
        query: head.query,
        version: head.version,
        host: head.host,
        fields: head.fields,
        connection: Arc::new(ConnectionInfo::default()),
        user: None,
        id: 1,
        error: None,
        captures: Default::default(),
        additions: None,
        handling: Default::default(),
    };
    let names = names(&request, &script);
    let is_field = |name: &Vec<u8>| name.starts_with(b"HTTP_");
    let (fields, own): (Vec<_>, Vec<_>) = names.into_iter().partition(is_field);
    assert!(fields.len() <= request.fields.len());
    assert!(!fields.contains(&b"HTTP_PROXY".to_vec()));
    assert!(fields.windows(2).all(|pair| pair[0] != pair[1]), "a field is there twice");
    let legal = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
    assert!(fields.iter().flatten().all(legal));
    // No field adds to the parameters of the server, or removes one.
    let bare = Request { fields: Fields::default(), ..request };
    assert_eq!(self::names(&bare, &script), own);
}

/// The names of a request's parameters, sorted.
fn names(request: &Request, script: &Script) -> Vec<Vec<u8>> {
    let mut params = Params::default();
    cgi_params::write(&mut params, request, script, None, 7, None);
    let fixed = RequestHeader::new(&params, 0, 1, 7, 0);
    let mut names = Vec::new();
    let rest = decode_params(params.as_bytes(), fixed.params, |name, value| {
        assert!(!name.contains(&0) && !value.contains(&0));
        names.push(name.to_vec());
    });
    assert_eq!(rest, Ok(&b""[..]));
    names.sort();
    names
}

/// First line: status and reason; then header lines, each ended by the byte 0x1E since they may
/// hold any other. The accepted lines are fields, and none frames a message.
pub fn response(input: &[u8]) {
    let (first, rest) = split(input);
    let status = first.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, reason) = first.split_at(status);
    let status = std::str::from_utf8(digits).ok().and_then(|n| n.parse().ok()).unwrap_or(200);
    let lines: Vec<Buffer> =
        rest.split(|byte| *byte == 0x1e).map(Buffer::copy_from_slice).collect();
    let reason = Buffer::copy_from_slice(reason);
    let head = ScriptHead { status, reason, lines: lines.clone() };
    fields(&interim_fields(&head), lines.len());
    let Ok(checked) = check(&head) else { return };
    assert!((200..=599).contains(&checked.status));
    let control = |byte: &u8| matches!(byte, 0..=8 | 10..=31 | 0x7f);
    assert!(!checked.reason.iter().flatten().any(control));
    fields(&checked.fields, lines.len());
    if let Some(length) = checked.length {
        let digits = length.to_string();
        let announced = lines.iter().any(|line| {
            let line = String::from_utf8_lossy(line);
            let value = line.split_once(':').map(|(_, value)| value.trim());
            value.is_some_and(|value| {
                value.trim_start_matches('0') == digits.trim_start_matches('0')
            })
        });
        assert!(announced, "nobody announced {length}");
    }
}

fn fields(block: &FieldBlock, most: usize) {
    let bytes = block.as_bytes();
    assert!(bytes.is_empty() || bytes.ends_with(b"\r\n"));
    let mut text = b"GET / HTTP/1.0\r\n".to_vec();
    text.extend_from_slice(bytes);
    text.extend_from_slice(b"\r\n");
    let mut own = vec![httparse::EMPTY_HEADER; most + 1];
    let mut parsed = httparse::Request::new(&mut own);
    assert_eq!(parsed.parse(&text), Ok(httparse::Status::Complete(text.len())));
    assert!(parsed.headers.len() <= most);
    for field in parsed.headers.iter() {
        let name = field.name.to_ascii_lowercase();
        let framing = ["connection", "content-length", "transfer-encoding", "upgrade", "status"];
        assert!(!framing.contains(&name.as_str()), "{name}");
    }
    let pairs = parsed.headers.iter().map(|field| field.name.as_bytes());
    assert!(block.iter().map(|(name, _)| name).eq(pairs));
}

/// Frames as a worker may write them: kind, then length and payload. One head and the body in its
/// order are passed on, and nothing after an invalid frame.
pub fn answer(input: &[u8]) {
    let mut input = Bytes(input);
    let mut pending = PendingResponse::new(Spool::new(std::env::temp_dir().into()), Vec::new());
    let mut cx = Context::from_waker(Waker::noop());
    let (mut heads, mut body, mut taken, mut ended) = (0, Vec::new(), Vec::new(), false);
    while let Some(kind) = input.byte() {
        if kind == b'?' {
            take(&mut pending, &mut cx, &mut taken);
            continue;
        }
        let length = input.byte().unwrap_or(0);
        let payload = input.take(usize::from(length));
        let kind = if kind.is_ascii_digit() { kind - b'0' } else { kind };
        let Ok(event) = pending.frame(kind, payload) else { break };
        match Kind::from_byte(kind) {
            None => panic!("kind {kind} was taken"),
            Some(Kind::Head) => {
                heads += 1;
                assert!(heads == 1 && !ended && Head::decode(payload).is_ok());
            }
            Some(Kind::Body) => {
                assert!(heads == 1 && !ended);
                body.extend_from_slice(payload);
            }
            Some(Kind::End) => {
                assert_eq!(heads, 1);
                ended = true;
            }
            Some(Kind::Done) => {
                assert!(ended);
                assert_eq!(Ok(event), RequestUsage::decode(payload).map(Event::Done));
                break;
            }
            Some(Kind::Log) => {
                let log = Log::decode(payload).expect("a log frame that was taken");
                assert_eq!(log.more, event == Event::None);
            }
            Some(Kind::Samples) => assert!(matches!(event, Event::Samples(_))),
            Some(Kind::Purge) => assert!(matches!(event, Event::Purge { .. })),
            Some(Kind::Descriptors) => assert_eq!(event, Event::SendDescriptors),
            Some(Kind::Informational | Kind::Flush) => assert_eq!(event, Event::None),
            Some(Kind::Status) => assert_eq!(event, Event::SendStatus),
            Some(Kind::Output) => assert_eq!(event, Event::TakeOutput),
        }
    }
    take(&mut pending, &mut cx, &mut taken);
    if heads == 1 {
        assert_eq!(taken, body);
    } else {
        assert!(taken.is_empty());
    }
}

/// Takes all that has come, as the connection does.
fn take(pending: &mut PendingResponse, cx: &mut Context<'_>, body: &mut Vec<u8>) {
    loop {
        match pending.poll_head(cx) {
            Poll::Ready(Next::Interim(_) | Next::Head(_)) => {}
            Poll::Ready(Next::Failed(failure)) => panic!("{failure:?}"),
            Poll::Pending => break,
        }
    }
    while let Poll::Ready(Some(part)) = pending.poll_body(cx) {
        body.extend_from_slice(&part.expect("memory does not fail"));
    }
}
