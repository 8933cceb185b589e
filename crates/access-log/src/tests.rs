use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use howdah_config::Destination;
use howdah_http::exchange::{RequestRecord, SendOutcome};
use howdah_http::fixture::request;
use howdah_http::message::{Additions, ConnectionFields, FieldBlock, Request};
use howdah_sys::log::Log;
use proptest::prelude::*;

use super::*;

struct Logged {
    dir: tempfile::TempDir,
    log: AccessLog,
    lines: LineBuffer,
    errors: Log,
}

impl Logged {
    /// Creates a log with the format and condition of a document.
    fn new(access_log: &str) -> Self {
        let document = format!(r#"{{"access_log": {access_log}}}"#);
        let config = howdah_config::parse(document.as_bytes()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let log = AccessLog::new(&config.access_log[0], file(dir.path().join("log")));
        let null = fs::OpenOptions::new().write(true).open("/dev/null").unwrap();
        Logged { dir, log, lines: LineBuffer::default(), errors: Log::new(null.into()) }
    }

    fn add(&mut self, request: Option<&Request>) -> bool {
        let connection = howdah_http::fixture::request("/", &[]).connection;
        let mut fields = FieldBlock::default();
        fields.push("ETag", "\"1\"");
        let added =
            ConnectionFields { server: b"Howdah", length: Some(5), ..ConnectionFields::default() };
        let record = RequestRecord {
            connection: &connection,
            request,
            refused_line: b"GET",
            refusal: None,
            status: if request.is_some() { 200 } else { 400 },
            fields: &fields,
            connection_fields: added,
            received: 100,
            sent: 200,
            body_sent: 5,
            elapsed: Duration::from_millis(1234),
            outcome: SendOutcome::Complete,
        };
        self.lines.add(&self.log, &record, &self.errors)
    }

    fn written(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap()
    }
}

fn file(path: PathBuf) -> Arc<LogFile> {
    let file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    Arc::new(LogFile::new(&Destination::File("log".into()), Some(file.into())))
}

/// Returns the line of a request.
fn line(access_log: &str, target: &str, fields: &[(&str, &str)]) -> String {
    let mut logged = Logged::new(access_log);
    logged.add(Some(&request(target, fields)));
    logged.lines.flush_all(&logged.errors);
    logged.written()
}

fn formatted(format: &str, target: &str, fields: &[(&str, &str)]) -> String {
    line(&format!(r#"{{"path": "/x", "format": {format}}}"#), target, fields)
}

#[test]
fn the_default_format_is_that_of_unit() {
    let text = line(r#""/x""#, "/?blah&var=val", &[("Referer", "r"), ("X", "y")]);
    let (start, rest) = text.split_once(" - - [").unwrap();
    let (date, rest) = rest.split_once("] ").unwrap();
    assert_eq!((start, date.len()), ("127.0.0.1", 26));
    assert_eq!(rest, "\"GET /?blah&var=val HTTP/1.1\" 200 5 \"r\" \"-\"\n");
}

#[test]
fn a_refused_head_has_a_line_without_request() {
    let mut logged = Logged::new(r#""/x""#);
    logged.add(None);
    logged.lines.flush_all(&logged.errors);
    let text = logged.written();
    assert!(text.ends_with("] \"-\" 400 5 \"-\" \"-\"\n"), "{text}");
}

#[test]
fn a_format_is_text_or_json() {
    assert_eq!(formatted(r#""BLAH\t0""#, "/", &[]), "BLAH\t0\n");
    assert_eq!(formatted(r#""$uri $status $uri""#, "/a", &[]), "/a 200 /a\n");
    assert_eq!(formatted(r#""$request_time""#, "/", &[]), "1.234\n");
    assert_eq!(
        formatted(r#"{"status": "$status", "u\"ri": "a $uri\n", "none": "$arg_a"}"#, "/", &[]),
        "{\"status\":\"200\",\"u\\\"ri\":\"a /\\u000a\",\"none\":\"-\"}\n"
    );
    assert_eq!(formatted("{}", "/", &[]), "{}\n");
}

/// Scenario: `escape=json` and `escape=none` of nginx, which write nothing for an absent value.
#[test]
fn an_absent_value_has_the_text_of_the_document() {
    let of = |absent: &str, format: &str| {
        line(&format!(r#"{{"path": "/x", "absent": {absent}, "format": {format}}}"#), "/", &[])
    };
    assert_eq!(
        of(r#""""#, r#"{"args": "$args", "a": "<$arg_a>"}"#),
        "{\"args\":\"\",\"a\":\"<>\"}\n"
    );
    assert_eq!(of(r#""\"""#, r#"{"a": "$arg_a"}"#), "{\"a\":\"\\\"\"}\n");
    assert_eq!(of(r#""none""#, r#""$args $uri""#), "none /\n");
    assert_eq!(formatted(r#""$args""#, "/", &[]), "-\n");
}

#[test]
fn a_value_that_is_empty_is_not_absent() {
    assert_eq!(formatted(r#""[$header_referer]""#, "/", &[("Referer", "")]), "[]\n");
    assert_eq!(formatted(r#""[$header_referer$arg_a]""#, "/?a=", &[]), "[-]\n");
}

#[test]
fn no_client_forges_a_line_or_a_field() {
    let fields = [("User-Agent", "x\" 200 0 \"y\u{9b}\\")];
    let text = formatted(r#""\"$header_user_agent\" $uri""#, "/a%0a127.0.0.1", &fields);
    assert_eq!(text, "\"x\\x22 200 0 \\x22y\\xc2\\x9b\\x5c\" /a\\x0a127.0.0.1\n");
    let text = formatted(r#""$response_header_etag@$response_header_server""#, "/", &[]);
    assert_eq!(text, "\"1\"@Howdah\n");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// With any text of a format around the values, and any bytes of clients.
    #[test]
    fn a_request_is_one_line_and_in_json_an_object(
        around in "[ -~äß]{0,8}", agent in "[ -~\u{80}-\u{ff}]{0,20}",
        path in "(%[0-9a-f]{2}|[a-z]){0,8}",
    ) {
        let around = howdah_config::Template::escape(&around);
        let template = format!("{around}$header_user_agent{around}$uri");
        // An escape that begins with this mark would be an expression of its own.
        prop_assume!(!template.starts_with('`') && !path.contains("%00"));
        let target = format!("/{path}");
        let fields = [("User-Agent", agent.as_str())];
        let text = formatted(&serde_json::json!(template).to_string(), &target, &fields);
        prop_assert!(text.ends_with('\n') && text.lines().count() == 1, "{text:?}");
        let member = serde_json::json!({"a\"b": template, "status": "$status"}).to_string();
        let text = formatted(&member, &target, &fields);
        let read: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        prop_assert_eq!(&read["status"], "200");
        prop_assert_eq!(text.lines().count(), 1);
        prop_assert!(read.as_object().is_some_and(|all| all.len() == 2));
    }
}

#[test]
fn only_requests_that_meet_the_condition_have_a_line() {
    let is_logged = |condition: &str, target| {
        let access_log = format!(r#"{{"path": "/x", "format": "$uri", "if": "{condition}"}}"#);
        !line(&access_log, target, &[]).is_empty()
    };
    for (condition, target, logged) in [
        ("", "/", false),
        ("0", "/", false),
        ("!", "/", true),
        ("!null", "/", true),
        ("$arg_foo", "/?foo", false),
        ("$arg_foo", "/?foo=1", true),
        ("!$status", "/", false),
    ] {
        assert_eq!(is_logged(condition, target), logged, "{condition} {target}");
    }
}

#[test]
fn lines_wait_for_each_other_but_not_beyond_some_size() {
    let mut logged = Logged::new(r#"{"path": "/x", "format": "$uri"}"#);
    let request = request(&format!("/{}", "x".repeat(1000)), &[]);
    assert!(logged.add(Some(&request)), "the first");
    assert!(!logged.add(Some(&request)));
    assert_eq!(logged.written(), "");
    for _ in 0..40 {
        logged.add(Some(&request));
    }
    let written = logged.written();
    assert!(written.len() > 32_000 && written.ends_with("x\n"));
    logged.lines.flush_all(&logged.errors);
    assert_eq!(logged.written().lines().count(), 42);
    logged.lines.flush_all(&logged.errors);
    assert!(logged.add(Some(&request)), "the first again");
}

#[test]
fn lines_of_several_logs_wait_apart_and_a_log_is_let_go() {
    let mut logged = Logged::new(r#"{"path": "/x", "format": "$uri"}"#);
    let dir = tempfile::tempdir().unwrap();
    let config = howdah_config::parse(br#"{"access_log": {"path": "/y", "format": "$uri"}}"#);
    let other = AccessLog::new(&config.unwrap().access_log[0], file(dir.path().join("other")));
    assert!(logged.add(Some(&request("/a", &[]))));
    logged.log = other;
    assert!(logged.add(Some(&request("/b", &[]))), "the first of its file");
    logged.lines.flush(logged.log.file(), &logged.errors);
    assert_eq!(logged.written(), "");
    assert_eq!(fs::read_to_string(dir.path().join("other")).unwrap(), "/b\n");
    logged.lines.flush_all(&logged.errors);
    assert_eq!(logged.written(), "/a\n");
    assert_eq!(Arc::strong_count(logged.log.file()), 1);
}

#[test]
fn numbers_of_json_are_numbers_where_the_log_asks_for_them() {
    let log = r#"{"path": "/x", "numbers": true, "format": {"status": "$status", "s": "$status ",
                  "bytes": "$body_bytes_sent", "time": "$request_time", "uri": "$uri"}}"#;
    let text = line(log, "/1", &[]);
    let expected = r#"{"status":200,"s":"200 ","bytes":5,"time":1.234,"uri":"/1"}"#;
    assert_eq!(text.trim_end(), expected);
    assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
    let text = line(r#"{"path": "/x", "format": "json"}"#, "/a?b", &[("User-Agent", "\"x\"")]);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&value["status"], &value["uri"]), (&200.into(), &"/a?b".into()));
    assert_eq!(value["user_agent"], "\"x\"");
}

#[test]
fn formats_have_names() {
    let named = |name: &str| formatted(&format!("\"{name}\""), "/", &[("Referer", "r")]);
    assert!(named("combined").ends_with("\"GET / HTTP/1.1\" 200 5 \"r\" \"-\"\n"));
    let of_host = named("vhost_combined");
    assert!(of_host.starts_with("example.org:80 127.0.0.1 - - ["), "{of_host}");
    assert!(of_host.ends_with("\"GET / HTTP/1.1\" 200 200 \"r\" \"-\"\n"), "{of_host}");
    assert!(named("common").ends_with("\"GET / HTTP/1.1\" 200 5\n"));
}

#[test]
fn only_slow_failed_or_sampled_requests_have_a_line_if_the_log_says_so() {
    let is_logged =
        |only: &str| !line(&format!(r#"{{"path": "/x", "only": {only}}}"#), "/", &[]).is_empty();
    assert!(is_logged(r#"{"slow": 1.2}"#) && !is_logged(r#"{"slow": 1.3}"#));
    assert!(is_logged(r#"{"status": 200}"#) && !is_logged(r#"{"status": [400, 599]}"#));
    assert!(is_logged(r#"{"status": [400, 599], "slow": 1}"#), "one of them is sufficient");
    assert!(is_logged(r#"{"sample": 1}"#));
    let mut logged = Logged::new(r#"{"path": "/x", "format": "$uri", "only": {"sample": 0.25}}"#);
    let mut request = request("/", &[]);
    for id in 0..4000 {
        request.id = id;
        logged.add(Some(&request));
    }
    logged.lines.flush_all(&logged.errors);
    let lines = logged.written().lines().count();
    assert!((800..1200).contains(&lines), "{lines}");
}

#[test]
fn masked_arguments_are_hidden_wherever_a_url_stands() {
    let log = r#"{"path": "/x", "mask": ["token"], "format":
        "$request_line|$request_uri|$header_referer|$arg_token|$arg_a|$cookie_token|$args|$header_cookie"}"#;
    let fields = [("Referer", "https://a/?token=SECRET"), ("Cookie", "token=SECRET; b=1")];
    let text = line(log, "/?token=SECRET&a=1", &fields);
    let expected = "GET /?token=***&a=1 HTTP/1.1|/?token=***&a=1|https://a/?token=***|***|1|***|\
                    token=***&a=1|token=***; b=1\n";
    assert_eq!(text, expected);
}

/// A request of a web server over FastCGI, with these parameters.
fn of_web_server(target: &str, parameters: &[(&'static str, &'static str)]) -> Request {
    let mut request = request(target, &[("Authorization", "Basic YW5uOnNlY3JldA==")]);
    let pair = |(name, value): &(&'static str, &'static str)| {
        (Bytes::from_static(name.as_bytes()), Bytes::from_static(value.as_bytes()))
    };
    let parameters = Some(parameters.iter().map(pair).collect());
    request.additions = Some(Box::new(Additions { parameters, ..Additions::default() }));
    request
}

#[test]
fn a_line_may_have_the_form_of_php_fpm() {
    let request = of_web_server(
        "/pretty?a=b",
        &[("SCRIPT_NAME", "/a.php"), ("SCRIPT_FILENAME", "/srv/a.php"), ("X", "y \"\n")],
    );
    for (format, expected) in [
        ("%u \"%m %r%Q%q\" %s %l %f %n", "ann \"GET /a.php?a=b\" 200 0 /srv/a.php -"),
        ("%{X}e %{NONE}e %{etag}o %{none}o", "y \\x22\\x0a - \\x221\\x22 -"),
        ("%d %{mili}d %{micro}d", "1.234 1234.000 1234000"),
        ("%p %M %{mega}M %C 100%%", "- 0 0 0.00 100%"),
    ] {
        let config = format!(
            r#"{{"path": "/x", "php_fpm": {{"format": {}}}}}"#,
            serde_json::Value::from(format)
        );
        let mut logged = Logged::new(&config);
        logged.add(Some(&request));
        logged.lines.flush_all(&logged.errors);
        assert_eq!(logged.written(), format!("{expected}\n"));
    }
    let mut logged = Logged::new(r#"{"path": "/x", "php_fpm": {}}"#);
    logged.add(Some(&request));
    logged.add(None);
    logged.lines.flush_all(&logged.errors);
    let text = logged.written();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("127.0.0.1 - ann "), "{text}");
    assert!(lines[0].ends_with(" \"GET /a.php\" 200"), "{text}");
    assert!(lines[1].ends_with(" \"- \" 400"), "{text}");
}

#[test]
fn plain_requests_of_suppressed_paths_have_no_line() {
    let config = r#"{"path": "/x", "php_fpm": {"format": "%r%Q%q", "suppress_paths": ["/ping"]}}"#;
    let mut logged = Logged::new(config);
    logged.add(Some(&of_web_server("/other", &[("SCRIPT_NAME", "/ping")])));
    logged.add(Some(&of_web_server("/ping?a", &[("SCRIPT_NAME", "/ping")])));
    logged.add(Some(&of_web_server("/ping", &[("SCRIPT_NAME", "/a.php")])));
    logged.lines.flush_all(&logged.errors);
    assert_eq!(logged.written(), "/ping?a\n/a.php\n");
}
