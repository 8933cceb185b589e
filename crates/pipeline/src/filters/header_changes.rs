//! `response_headers` of an action: fields that it sets in responses, adds to them, edits or removes.

use std::borrow::Cow;
use std::time::Instant;

use bytes::Bytes;
use howdah_config::{HeaderChange, ResponseHeader, Substitution, Template, Variable};
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

/// Changes the fields of a response, one change after the other. As in Unit, only responses with a
/// status from 200 to 399, and refused ranges of files, are changed, unless a change is for all, and values are expanded from the
/// original fields. A value whose variables are empty has no effect, like that of nginx's
/// `add_header`.
pub fn change(changes: &[ResponseHeader], response: &mut Response, source: &VariableSource<'_>) {
    let usual = (200..400).contains(&response.status) || super::refuses_range(response);
    let mut changes = changes.iter().filter(|change| usual || change.always).peekable();
    if changes.peek().is_none() {
        return;
    }
    let original = response.fields.clone();
    let mut fields = Fields(original.iter().map(|(n, v)| (n.into(), v.into())).collect());
    for header in changes {
        fields.change(header, response, source);
    }
    let length = fields.0.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    let mut lines = Vec::with_capacity(length);
    for (name, value) in &fields.0 {
        for part in [name, &b": "[..], value, b"\r\n"] {
            lines.extend_from_slice(part);
        }
    }
    response.fields = FieldBlock::from_lines(Bytes::from(lines));
}

/// Names and values of fields, in order.
struct Fields<'r>(Vec<(Text<'r>, Text<'r>)>);

type Text<'r> = Cow<'r, [u8]>;

impl<'r> Fields<'r> {
    fn change(
        &mut self,
        header: &'r ResponseHeader,
        response: &mut Response,
        source: &VariableSource<'_>,
    ) {
        let name = header.name.as_str();
        match &header.change {
            HeaderChange::Remove => {
                take_over(name, response);
                self.remove(name);
            }
            HeaderChange::Set(templates) => {
                let mut values = values(templates, source).peekable();
                if values.peek().is_some() {
                    take_over(name, response);
                    self.remove(name);
                    values.for_each(|value| self.add(name, value));
                }
            }
            HeaderChange::Add(templates) => {
                values(templates, source).for_each(|value| self.add(name, value));
            }
            HeaderChange::Append(templates) => {
                for value in values(templates, source) {
                    self.take_connection_field(name, response, source);
                    match self.first_mut(name) {
                        Some(first) => {
                            let first = first.to_mut();
                            first.extend_from_slice(b", ");
                            first.extend_from_slice(&value);
                        }
                        None => self.add(name, value),
                    }
                }
            }
            HeaderChange::Default(templates) => {
                if !self.has(name) && !is_added(name, response) {
                    values(templates, source).for_each(|value| self.add(name, value));
                }
            }
            HeaderChange::Edit { substitution, all } => {
                self.take_connection_field(name, response, source);
                self.edit(name, substitution, *all, source);
            }
        }
    }

    /// Replaces matches in each field of the name.
    fn edit(
        &mut self,
        name: &str,
        substitution: &Substitution,
        all: bool,
        source: &VariableSource<'_>,
    ) {
        let value = |variable: &Variable, out: &mut Vec<u8>| {
            source.write(variable, out);
        };
        for (_, text) in self.0.iter_mut().filter(|(other, _)| is_same(other, name)) {
            if let Some(edited) = substitution.apply(text, all, &value) {
                *text = Cow::Owned(without_line_ends(edited));
            }
        }
    }

    /// Makes `Server` or `Date`, which the connection writes otherwise, a field like others.
    fn take_connection_field(
        &mut self,
        name: &str,
        response: &mut Response,
        source: &VariableSource<'_>,
    ) {
        if is_added(name, response) {
            let mut value = Vec::new();
            source.write(&Variable::ResponseHeader(name.to_ascii_lowercase()), &mut value);
            take_over(name, response);
            if !value.is_empty() {
                self.0.push((name.as_bytes().to_vec().into(), value.into()));
            }
        }
    }

    fn add(&mut self, name: &'r str, value: Vec<u8>) {
        self.0.push((name.as_bytes().into(), value.into()));
    }

    fn remove(&mut self, name: &str) {
        self.0.retain(|(other, _)| !is_same(other, name));
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(other, _)| is_same(other, name))
    }

    fn first_mut(&mut self, name: &str) -> Option<&mut Text<'r>> {
        self.0.iter_mut().find(|(other, _)| is_same(other, name)).map(|(_, value)| value)
    }
}

/// Returns the values that fields get, without those whose variables are empty.
fn values(templates: &[Template], source: &VariableSource<'_>) -> impl Iterator<Item = Vec<u8>> {
    templates.iter().filter_map(|template| {
        let mut value = Vec::new();
        template.expand(&mut value, |variable, out| {
            source.write(variable, out);
        });
        let value = without_line_ends(value);
        (!value.is_empty() || template.constant().is_some()).then_some(value)
    })
}

/// A value from the request must not end the line.
fn without_line_ends(mut value: Vec<u8>) -> Vec<u8> {
    value.retain(|byte| !matches!(byte, b'\r' | b'\n' | 0));
    value
}

/// Returns true if the connection writes the field.
fn is_added(name: &str, response: &Response) -> bool {
    (name.eq_ignore_ascii_case("server") && response.adds_server)
        || (name.eq_ignore_ascii_case("date") && response.adds_date)
}

/// Keeps the connection from writing the field.
fn take_over(name: &str, response: &mut Response) {
    if name.eq_ignore_ascii_case("server") {
        response.adds_server = false;
    } else if name.eq_ignore_ascii_case("date") {
        response.adds_date = false;
    }
}

fn is_same(name: &[u8], other: &str) -> bool {
    name.eq_ignore_ascii_case(other.as_bytes())
}

#[cfg(test)]
mod tests {
    use howdah_config::DefinedVariables;
    use howdah_http::body::Body;
    use howdah_http::fixture::request;

    use super::*;

    fn changed(status: u16, changes: &[(&str, Option<&str>)], target: &str) -> Response {
        let change = |value: &Option<&str>| match value {
            Some(value) => HeaderChange::Set(templates(&[value])),
            None => HeaderChange::Remove,
        };
        let changes: Vec<_> = changes.iter().map(|(name, value)| (*name, change(value))).collect();
        changed_by(status, &changes, target)
    }

    fn templates(values: &[&str]) -> Vec<Template> {
        values.iter().map(|value| Template::parse(value).unwrap()).collect()
    }

    fn edit(expression: &str, replacement: &str, all: bool) -> HeaderChange {
        let variables = DefinedVariables::default();
        let substitution = Substitution::parse(expression, replacement, &variables).unwrap();
        HeaderChange::Edit { substitution, all }
    }

    fn changed_by(status: u16, changes: &[(&str, HeaderChange)], target: &str) -> Response {
        let changes: Vec<_> = changes
            .iter()
            .map(|(name, change)| ResponseHeader {
                name: (*name).to_owned(),
                change: change.clone(),
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
        let connection_fields =
            ConnectionFields { server: b"Howdah", date: true, ..ConnectionFields::default() };
        let answer = ResponseFacts {
            status,
            fields: &fields,
            connection_fields,
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

    #[test]
    fn fields_are_added_beside_those_of_the_response() {
        let changes = [
            ("set-cookie", HeaderChange::Add(templates(&["c=3", "$arg_none", "d=$arg_d"]))),
            ("X-New", HeaderChange::Add(templates(&["1"]))),
            ("etag", HeaderChange::Default(templates(&["no"]))),
            ("X-New", HeaderChange::Default(templates(&["no"]))),
            ("Link", HeaderChange::Default(templates(&["<a>", "<b>"]))),
            ("Server", HeaderChange::Default(templates(&["no"]))),
        ];
        let response = changed_by(200, &changes, "/?d=4");
        let expected = b"ETag: \"1\"\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Powered-By: PHP\r\n\
                         set-cookie: c=3\r\nset-cookie: d=4\r\nX-New: 1\r\nLink: <a>\r\nLink: <b>\r\n";
        assert_eq!(response.fields.as_bytes(), expected);
        assert!(response.adds_server);
    }

    /// Scenario: `Header append Vary …` of Apache, which joins to the first field.
    #[test]
    fn values_are_appended_to_the_first_field() {
        let changes = [
            ("set-cookie", HeaderChange::Append(templates(&["x", "$arg_none"]))),
            ("Vary", HeaderChange::Append(templates(&["Origin", "Cookie"]))),
            ("Server", HeaderChange::Append(templates(&["mine"]))),
        ];
        let response = changed_by(200, &changes, "/");
        let expected = b"ETag: \"1\"\r\nSet-Cookie: a=1, x\r\nSet-Cookie: b=2\r\n\
                         X-Powered-By: PHP\r\nVary: Origin, Cookie\r\nServer: Howdah, mine\r\n";
        assert_eq!(response.fields.as_bytes(), expected);
        assert!(!response.adds_server && response.adds_date);
    }

    #[test]
    fn each_field_of_a_name_is_edited() {
        let changes = [
            ("Set-Cookie", edit("~^(.*)$", "$1; Secure", false)),
            ("set-cookie", edit("~[ab]", "<$uri>", true)),
            ("etag", edit("~\"", "", true)),
            ("X-Powered-By", edit("~Zend", "no", true)),
            ("X-None", edit("~.*", "no", false)),
            ("server", edit("~(?i)how", "W", false)),
        ];
        let response = changed_by(200, &changes, "/%0d%0aX:");
        let expected = b"ETag: 1\r\nSet-Cookie: </X:>=1; Secure\r\nSet-Cookie: </X:>=2; Secure\r\n\
                         X-Powered-By: PHP\r\nserver: Wdah\r\n";
        assert_eq!(response.fields.as_bytes(), expected);
        assert!(!response.adds_server);
        assert!(
            changed_by(404, &changes, "/").fields.get("etag").is_some_and(|tag| tag == b"\"1\"")
        );
    }
}
