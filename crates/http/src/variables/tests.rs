use std::rc::Rc;
use std::sync::Arc;

use howdah_template::{Template, UpstreamVariable};

use super::*;
use crate::fixture::request;
use crate::handling::Facts;

fn value(template: &str, source: &VariableSource<'_>) -> String {
    String::from_utf8(source.expand(&Template::parse(template).unwrap())).unwrap()
}

#[test]
fn each_variable_of_a_request_has_its_value() {
    let fields = [("Foo-Bar", "b"), ("foo-bar", "second"), ("Cookie", "a=1; foo=la; foo=2")];
    let request = request("/a%20b/../c%20d?foo=1&f%6Fo=h+h", &fields);
    let source = VariableSource::of(&request, Instant::now());
    for (template, expected) in [
        ("$header_foo_bar$cookie_foo$arg_foo", "blah h"),
        ("${uri}path${dollar}dollar", "/c dpath$dollar"),
        ("$request_uri", "/a%20b/../c%20d?foo=1&f%6Fo=h+h"),
        ("$request_line", "GET /a%20b/../c%20d?foo=1&f%6Fo=h+h HTTP/1.1"),
        ("$method $host $remote_addr", "GET example.org 127.0.0.1"),
        ("$body_bytes_sent", "0"),
        ("$status$response_header_etag$header_x$cookie_x$arg_x$arg_Foo", ""),
    ] {
        assert_eq!(value(template, &source), expected, "{template}");
    }
    let time = value("$request_time", &source);
    assert!(time.starts_with("0.0") && time.len() == 5, "{time}");
    assert!(value("$time_local", &source).len() >= 26);
}

#[test]
fn facts_about_the_connection_and_the_machine_have_their_values() {
    let mut request = request("/a?b=%20c", &[]);
    request.user = Some("eve".into());
    request.handling = Handling::new(3);
    request.connection = Arc::new(ConnectionInfo {
        number: 17,
        tls: true,
        peer: Some(([127, 0, 0, 1], 5).into()),
        local: Some(([127, 0, 0, 2], 8443).into()),
        ..ConnectionInfo::default()
    });
    let source = VariableSource::of(&request, Instant::now());
    for (template, expected) in [
        ("$args$is_args$query_string", "b=%20c?b=%20c"),
        ("$remote_user $remote_port", "eve 5"),
        ("$server_addr:$server_port $server_protocol", "127.0.0.2:8443 HTTP/1.1"),
        ("$https $scheme", "on https"),
        ("$connection $connection_requests", "17 3"),
        ("$request_length$bytes_sent$application$php_time$queue_time", ""),
        ("$upstream_addr$upstream_status$upstream_response_time$upstream_cache_status", ""),
    ] {
        assert_eq!(value(template, &source), expected, "{template}");
    }
    assert_eq!(value("$hostname", &source), howdah_sys::machine::name());
    let msec = value("$msec", &source);
    assert!(msec.len() >= 14 && msec.as_bytes()[msec.len() - 4] == b'.', "{msec}");
    let time = value("$time_iso8601", &source);
    assert!(time.len() == 25 && time.as_bytes()[10] == b'T', "{time}");
}

/// Facts that have this value for `$php_time`, and for `$upstream_status` the number.
#[derive(Debug)]
struct Known(Fact<'static>);

impl Facts for Known {
    fn value(&self, variable: &Variable) -> Option<Fact<'_>> {
        match (variable, self.0) {
            (Variable::PhpTime, value) => Some(value),
            (Variable::Upstream(UpstreamVariable::Status), Fact::Number(_)) => Some(self.0),
            _ => None,
        }
    }
}

#[test]
fn facts_of_handlers_have_their_values() {
    let request = request("/", &[]);
    let source = VariableSource::of(&request, Instant::now());
    let time = Fact::Time(Duration::from_micros(1_234_567));
    request.handling.add_step(Rc::new(Known(Fact::Number(502))));
    request.handling.add_step(Rc::new(Known(time)));
    assert_eq!(value("$upstream_status $upstream_addr", &source), "502, - -, -");
    let blog: Arc<str> = "blog".into();
    request.handling.set_runner(Arc::clone(&blog), None);
    assert_eq!(value("$application$php_time", &source), "blog");
    for (fact, written) in [(time, "1.234"), (Fact::Number(7), "7"), (Fact::Text("x"), "x")] {
        request.handling.set_runner(Arc::clone(&blog), Some(Arc::new(Known(fact))));
        assert_eq!(value("$php_time$queue_time", &source), written);
    }
    request.handling.set_cache_status(Some("EXPIRED"));
    assert_eq!(value("$upstream_cache_status", &source), "EXPIRED");
}

#[test]
fn a_fragment_is_for_logs_alone() {
    let request = Request { fragment: "#c?d".into(), ..request("/a?b", &[]) };
    let source = VariableSource::of(&request, Instant::now());
    let template = "$request_line $request_uri $uri $arg_d";
    assert_eq!(value(template, &source), "GET /a?b HTTP/1.1 /a?b /a ");
    let logged = VariableSource { is_for_log: true, ..source };
    assert_eq!(value(template, &logged), "GET /a?b#c?d HTTP/1.1 /a?b#c?d /a ");
}

#[test]
fn an_absent_value_is_not_an_empty_one() {
    let request = request("/?empty=", &[("Referer", "")]);
    let source = VariableSource::of(&request, Instant::now());
    let present = |name: &str| {
        let template = Template::parse(name).unwrap();
        let mut present = false;
        template.expand(&mut Vec::new(), |variable, out| present = source.write(variable, out));
        present
    };
    assert!(present("$arg_empty") && present("$header_referer") && present("$host"));
    assert!(!present("$arg_other") && !present("$header_user_agent") && !present("$status"));
    let refused = VariableSource { request: None, ..source };
    let mut out = Vec::new();
    for variable in [Variable::RequestLine, Variable::Host, Variable::Uri, Variable::Method] {
        assert!(!refused.write(&variable, &mut out));
    }
    assert!(refused.write(&Variable::RemoteAddress, &mut out));
}

#[test]
fn a_response_has_its_fields_and_those_of_the_connection() {
    let request = request("/", &[]);
    let mut fields = FieldBlock::default();
    fields.push("ETag", "\"x\"");
    fields.push("X_Under-Score", "u");
    fields.push("etag", "second");
    let added = ConnectionFields {
        server: b"Howdah",
        date: true,
        length: Some(5),
        chunked: false,
        connection: "close",
    };
    let answer = ResponseFacts {
        status: 7,
        fields: &fields,
        connection_fields: added,
        body_sent: 5,
        transferred: Some((6, 7)),
    };
    let source =
        VariableSource { answer: Some(answer), ..VariableSource::of(&request, Instant::now()) };
    let text = value(
        "$status@$body_bytes_sent@$response_header_etag@$response_header_x_under_score@\
         $response_header_server@$response_header_content_length@$response_header_connection@\
         $response_header_transfer_encoding",
        &source,
    );
    assert_eq!(text, "007@5@\"x\"@u@Howdah@5@close@");
    assert!(value("$response_header_date", &source).ends_with("GMT"));
}

#[test]
fn a_unix_socket_has_a_name_of_its_own() {
    let mut request = request("/", &[]);
    let info = ConnectionInfo::default();
    request.connection = std::sync::Arc::new(info);
    assert_eq!(value("$remote_addr", &VariableSource::of(&request, Instant::now())), "unix:");
}

#[test]
fn a_request_is_known_by_128_bits_that_tell_nothing() {
    let id = |number: u64| {
        let request = Request { id: number, ..request("/", &[]) };
        value("$request_id", &VariableSource::of(&request, Instant::now()))
    };
    let ids: std::collections::HashSet<_> = (0..1000).map(id).collect();
    assert_eq!(ids.len(), 1000);
    assert!(
        ids.iter().all(|id| id.len() == 32 && id.bytes().all(|b| b"0123456789abcdef".contains(&b)))
    );
    assert_eq!(id(7), id(7), "the same wherever it is asked for");
    // Each digit takes all values, so none belongs to a counter.
    for place in 0..32 {
        let digits: std::collections::HashSet<_> =
            ids.iter().map(|id| &id[place..=place]).collect();
        assert_eq!(digits.len(), 16, "digit {place}");
    }
}
