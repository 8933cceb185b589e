//! `response_headers` of an action: fields that it sets in responses or removes from them.

use std::time::Instant;

use bytes::Bytes;
use howdah_config::ResponseHeader;
use howdah_http::message::{ConnectionFields, FieldBlock, Request, Response};
use howdah_http::variables::{ResponseFacts, VariableSource};

/// Changes the fields of the response to a request that began to arrive at `started_at`. `server`
/// is the value of the `Server` field that the connection adds.
pub fn apply(
    changes: &[ResponseHeader],
    request: &Request,
    started_at: Instant,
    server: impl Fn() -> Bytes,
    response: &mut Response,
) {
    if changes.is_empty() {
        return;
    }
    let fields = response.fields.clone();
    let (length, server) = (response.body.len(), server());
    let added =
        ConnectionFields { server: &server, date: true, length, ..ConnectionFields::default() };
    let answer = ResponseFacts {
        status: response.status,
        fields: &fields,
        connection_fields: added,
        body_sent: 0,
        transferred: None,
    };
    let source = VariableSource { answer: Some(answer), ..VariableSource::of(request, started_at) };
    change(changes, response, &source);
}

/// Changes the fields of a response. As in Unit, only responses with a status from 200 to 399 are
/// changed, unless a change is for all, and values are expanded from the original fields. A value
/// whose variables are empty has no effect, like that of nginx's `add_header`.
pub fn change(changes: &[ResponseHeader], response: &mut Response, source: &VariableSource<'_>) {
    let usual = (200..400).contains(&response.status);
    let changes = changes.iter().filter(|change| usual || change.always);
    let changes: Vec<_> =
        changes.filter_map(|change| Some((change, new_value(change, source)?))).collect();
    if changes.is_empty() {
        return;
    }
    let before = response.fields.as_bytes().len();
    let mut lines = Vec::with_capacity(before + 64 * changes.len());
    for (name, value) in response.fields.iter() {
        if !changes.iter().any(|(change, _)| name.eq_ignore_ascii_case(change.name.as_bytes())) {
            put(&mut lines, name, value);
        }
    }
    for (change, value) in changes {
        // The connection writes `Server` and `Date` unless these flags are false.
        if change.name.eq_ignore_ascii_case("server") {
            response.adds_server = false;
        } else if change.name.eq_ignore_ascii_case("date") {
            response.adds_date = false;
        }
        if change.value.is_some() {
            put(&mut lines, change.name.as_bytes(), &value);
        }
    }
    response.fields = FieldBlock::from_lines(Bytes::from(lines));
}

/// Returns the value of a field that is set, and an empty one for a field that is removed. `None`
/// if the response keeps its own fields of the name.
fn new_value(change: &ResponseHeader, source: &VariableSource<'_>) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    let Some(template) = &change.value else { return Some(value) };
    template.expand(&mut value, |variable, out| {
        source.write(variable, out);
    });
    // A value from the request must not end the line.
    value.retain(|byte| !matches!(byte, b'\r' | b'\n' | 0));
    (!value.is_empty() || template.constant().is_some()).then_some(value)
}

fn put(lines: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, b"\r\n"] {
        lines.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use howdah_config::Template;

    use super::*;
    use howdah_http::body::Body;
    use howdah_http::fixture::request;

    fn changed(status: u16, changes: &[(&str, Option<&str>)], target: &str) -> Response {
        let changes: Vec<_> = changes
            .iter()
            .map(|(name, value)| ResponseHeader {
                name: (*name).to_owned(),
                value: value.map(|value| Template::parse(value).unwrap()),
                always: *name == "X-Always",
            })
            .collect();
        let mut response = Response::new(status, Body::Empty)
            .with("ETag", "\"1\"")
            .with("Set-Cookie", "a=1")
            .with("Set-Cookie", "b=2")
            .with("X-Powered-By", "PHP");
        let request = request(target, &[("X-From", "client")]);
        let fields = response.fields.clone();
        let answer = ResponseFacts {
            status,
            fields: &fields,
            connection_fields: ConnectionFields::default(),
            body_sent: 0,
            transferred: None,
        };
        let source =
            VariableSource { answer: Some(answer), ..VariableSource::of(&request, Instant::now()) };
        change(&changes, &mut response, &source);
        response
    }

    #[test]
    fn fields_are_added_replaced_and_taken_out_in_any_case() {
        let response = changed(
            200,
            &[("etag", None), ("set-cookie", Some("c=3")), ("X-Foo", Some("$uri $header_x_from"))],
            "/a",
        );
        assert_eq!(
            response.fields.as_bytes(),
            b"X-Powered-By: PHP\r\nset-cookie: c=3\r\nX-Foo: /a client\r\n"
        );
    }

    /// Scenario: `map $http_origin $cors` has a value for some origins only, and the application
    /// states itself which responses may be cached.
    #[test]
    fn a_value_whose_variables_are_empty_changes_nothing() {
        let changes = [
            ("Access-Control-Allow-Origin", Some("$arg_none")),
            ("X-Powered-By", Some("$arg_none$arg_other")),
            ("Server", Some("$arg_none")),
            ("ETag", Some("")),
        ];
        let response = changed(200, &changes, "/");
        let expected = b"Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Powered-By: PHP\r\nETag: \r\n";
        assert_eq!(response.fields.as_bytes(), expected);
        assert!(response.adds_server);
    }

    #[test]
    fn values_may_name_the_response_as_it_was() {
        let changes =
            [("X-Powered-By", None), ("X-Was", Some("$status $response_header_x_powered_by"))];
        let response = changed(304, &changes, "/");
        assert_eq!(response.fields.get("x-was"), Some(&b"304 PHP"[..]));
    }

    #[test]
    fn errors_keep_their_fields_but_for_what_is_for_all_statuses() {
        for status in [400, 404, 503] {
            let changes = [("ETag", None), ("X-Foo", Some("a")), ("X-Always", Some("$status"))];
            let response = changed(status, &changes, "/");
            assert!(
                response.fields.get("x-foo").is_none() && response.fields.get("etag").is_some()
            );
            assert_eq!(response.fields.get("x-always"), Some(status.to_string().as_bytes()));
        }
    }

    #[test]
    fn a_value_cannot_add_a_field() {
        let response =
            changed(200, &[("X-Foo", Some("$uri$arg_a"))], "/a%0d%0aX-Evil:1?a=%0aX-Evil:2");
        assert!(response.fields.get("X-Evil").is_none());
        assert_eq!(response.fields.get("x-foo"), Some(&b"/aX-Evil:1X-Evil:2"[..]));
    }

    #[test]
    fn the_fields_of_the_connection_can_be_replaced_too() {
        let response = changed(200, &[("Server", None), ("date", Some("today"))], "/");
        assert!(!response.adds_server && !response.adds_date);
        assert_eq!(response.fields.get("Date"), Some(&b"today"[..]));
        assert!(changed(200, &[], "/").adds_server);
    }
}
