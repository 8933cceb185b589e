//! `rewrite`: replaces the path of the request, and its query.
//!
//! As in Unit, the template expands to a percent-encoded target, and scripts still see the original
//! one. Unlike in Unit, values of variables are not decoded a second time. `$request_uri` and
//! `$args` are inserted as they were sent; all other values are encoded, so that a doubly encoded
//! `%3F` or `%2e` can neither end a path nor climb out of it, and a `&` cannot add an argument to a
//! query.

use bytes::Bytes;
use howdah_config::{Part, QueryChange, Rewrite, Template, Variable};
use howdah_http::target::{Target, TargetError};
use howdah_http::variables::VariableSource;
use howdah_text::percent;

/// Maximum length of an expanded template in bytes. A request can be rewritten many times, and its
/// path can grow each time.
const MAX_TARGET_BYTES: usize = 64 << 10;

/// Maximum length of an expanded template in the log, in bytes: it may be the client's.
const MAX_SHOWN_BYTES: usize = 200;

/// Reason why the expanded template is not a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewriteError {
    /// Not a request target.
    Target(TargetError),
    /// Longer than the maximum.
    TooLong,
}

impl std::fmt::Display for RewriteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            RewriteError::Target(error) => error.reason(),
            RewriteError::TooLong => "it is longer than 64 KiB",
        })
    }
}

/// Expands the path and the query of a rewrite. The query is `None` if it does not change.
pub fn target(
    rewrite: &Rewrite,
    source: &VariableSource<'_>,
) -> Result<(Bytes, Option<Bytes>), RewriteError> {
    Ok((path(&rewrite.path, source)?, query(&rewrite.query, source)?))
}

/// Expands a template to a path, normalised like that of a request; empty if the expansion is
/// empty.
fn path(template: &Template, source: &VariableSource<'_>) -> Result<Bytes, RewriteError> {
    // The path of the request is normalised already.
    if let [Part::Variable(Variable::Uri)] = template.parts() {
        return Ok(source.request.map(|request| request.path.clone()).unwrap_or_default());
    }
    let target = expand(template, source);
    if target.is_empty() {
        return Ok(Bytes::new());
    }
    if target.len() > MAX_TARGET_BYTES {
        return Err(RewriteError::TooLong);
    }
    let parsed = Target::parse(&target).map_err(RewriteError::Target)?;
    Ok(Bytes::copy_from_slice(parsed.path(&target)))
}

/// Returns the text that a rewrite expands to for the log: on one line, shortened.
pub fn shown(rewrite: &Rewrite, source: &VariableSource<'_>) -> String {
    let target = expand(&rewrite.path, source);
    let beginning = target.get(..MAX_SHOWN_BYTES);
    let text = String::from_utf8_lossy(beginning.unwrap_or(&target));
    let text = text.escape_debug();
    match beginning {
        Some(_) => format!("\"{text}…\" ({} bytes)", target.len()),
        None => format!("\"{text}\""),
    }
}

/// Expands a template to a percent-encoded target.
fn expand(template: &Template, source: &VariableSource<'_>) -> Vec<u8> {
    let mut target = Vec::new();
    for part in template.parts() {
        match part {
            Part::Literal(literal) => escape(literal.as_bytes(), b"", &mut target),
            Part::Variable(Variable::RequestUri) => {
                source.write(&Variable::RequestUri, &mut target);
            }
            Part::Variable(variable) => {
                let mut value = Vec::new();
                source.write(variable, &mut value);
                escape(&value, b"%?#", &mut target);
            }
        }
    }
    target
}

/// Returns the query that replaces that of the request, if any.
fn query(change: &QueryChange, source: &VariableSource<'_>) -> Result<Option<Bytes>, RewriteError> {
    let (template, is_prepended) = match change {
        QueryChange::Keep => return Ok(None),
        QueryChange::Replace(template) => (template, false),
        QueryChange::Prepend(template) => (template, true),
    };
    let mut query = Vec::new();
    for part in template.parts() {
        match part {
            Part::Literal(literal) => escape(literal.as_bytes(), b"", &mut query),
            Part::Variable(variable @ (Variable::Arguments | Variable::RequestUri)) => {
                source.write(variable, &mut query);
            }
            Part::Variable(variable) => {
                let mut value = Vec::new();
                source.write(variable, &mut value);
                encode(&value, |byte| byte >= 0x80 || b"%&+?#".contains(&byte), &mut query);
            }
        }
    }
    let sent = source.request.map(|request| &*request.query).unwrap_or_default();
    if is_prepended && !sent.is_empty() {
        query.push(b'&');
        query.extend_from_slice(sent);
    }
    if query.len() > MAX_TARGET_BYTES { Err(RewriteError::TooLong) } else { Ok(Some(query.into())) }
}

/// Appends text to `out`. Percent-encodes the bytes in `also` and those that a target cannot
/// contain.
fn escape(text: &[u8], also: &[u8], out: &mut Vec<u8>) {
    encode(text, |byte| also.contains(&byte), out);
}

/// Appends text to `out`. Percent-encodes the bytes that `also` accepts and those that a target
/// cannot contain.
fn encode(text: &[u8], also: impl Fn(u8) -> bool, out: &mut Vec<u8>) {
    percent::encode(text, |byte| !matches!(byte, 0..=b' ' | 0x7f) && !also(byte), out);
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use proptest::prelude::*;

    use super::*;
    use howdah_http::fixture::request;

    fn rewritten(template: &str, target: &str) -> Result<String, TargetError> {
        let template = Template::parse(template).unwrap();
        let request = request(target, &[]);
        match path(&template, &VariableSource::of(&request, Instant::now())) {
            Ok(path) => Ok(String::from_utf8(path.to_vec()).unwrap()),
            Err(RewriteError::Target(error)) => Err(error),
            Err(RewriteError::TooLong) => panic!("too long"),
        }
    }

    #[test]
    fn a_path_is_taken_as_if_it_had_been_sent() {
        for (template, target, path) in [
            ("/new", "/", "/new"),
            ("/foo%2Fbar/./x/../y//z", "/", "/foo/bar/y/z"),
            ("${uri}a", "/", "/a"),
            ("/$host", "/", "/example.org"),
            ("${request_uri}o%6F", "/%66", "/foo"),
            ("${request_uri}/x", "/a?b", "/a"),
            ("/new?some", "/foo?arg=val", "/new"),
            ("/new#some", "/", "/new"),
            ("/a b", "/", "/a b"),
            ("", "/", ""),
        ] {
            assert_eq!(rewritten(template, target).as_deref(), Ok(path), "{template}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        assert_eq!(rewritten("new", "/"), Err(TargetError::Form));
        assert_eq!(rewritten("$arg_p", "/?p=x"), Err(TargetError::Form));
        assert_eq!(rewritten("/%", "/"), Err(TargetError::Escape));
        assert_eq!(rewritten("/$arg_p", "/?p=../../x"), Err(TargetError::AboveRoot));
        assert_eq!(rewritten("/$arg_p", "/?p=%00"), Err(TargetError::Escape));
    }

    fn rewritten_query(text: &str, target: &str) -> String {
        let template = |text: &str| Template::parse(text).unwrap();
        let change = match text.strip_suffix('?') {
            Some(text) => QueryChange::Replace(template(text)),
            None => QueryChange::Prepend(template(text)),
        };
        let request = request(target, &[]);
        let new = query(&change, &VariableSource::of(&request, Instant::now())).unwrap();
        String::from_utf8(new.expect("a query").to_vec()).unwrap()
    }

    #[test]
    fn a_query_is_replaced_or_put_in_front() {
        for (text, target, query) in [
            ("a=1", "/x?z=2", "a=1&z=2"),
            ("a=1", "/x", "a=1"),
            ("a=1?", "/x?z=2", "a=1"),
            ("?", "/x?z=2", ""),
            ("q=$uri&$args?", "/x?z=2", "q=/x&z=2"),
            ("q=$uri&$args?", "/x", "q=/x&"),
            ("q=$request_uri?", "/%41?b=c", "q=/%41?b=c"),
            ("a b=\u{e9}", "/", "a%20b=\u{e9}"),
        ] {
            assert_eq!(rewritten_query(text, target), query, "{text} {target}");
        }
    }

    #[test]
    fn a_value_adds_no_argument_to_a_query() {
        assert_eq!(rewritten_query("q=$uri?", "/a%26b%20c%2Bd%25"), "q=/a%26b%20c%2Bd%25");
        assert_eq!(rewritten_query("q=$arg_p?", "/?p=a%26b=c%23+d"), "q=a%26b=c%23%20d");
        assert_eq!(rewritten_query("q=$uri?", "/%0d%0aX%3a"), "q=/%0D%0AX:");
    }

    #[test]
    fn a_query_does_not_grow_without_bound() {
        let change = QueryChange::Prepend(Template::parse("a=$args").unwrap());
        let mut request = request("/x?bcd", &[]);
        let error = loop {
            match query(&change, &VariableSource::of(&request, Instant::now())) {
                Ok(query) => request.query = query.expect("a query"),
                Err(error) => break error,
            }
        };
        assert_eq!(error, RewriteError::TooLong);
        assert!(request.query.len() <= MAX_TARGET_BYTES);
    }

    #[test]
    fn a_value_is_not_decoded_twice() {
        assert_eq!(rewritten("/x$uri.html", "/a%3Fb").as_deref(), Ok("/x/a?b.html"));
        assert_eq!(rewritten("/x$uri", "/%252e%252e/a").as_deref(), Ok("/x/%2e%2e/a"));
        assert_eq!(rewritten("/x/$arg_p", "/?p=a%2523b").as_deref(), Ok("/x/a%23b"));
        assert_eq!(rewritten("/x/$arg_p/y", "/?p=a%0d%0ab").as_deref(), Ok("/x/a\r\nb/y"));
    }

    #[test]
    fn a_path_does_not_grow_without_bound() {
        let template = Template::parse("$uri$uri").unwrap();
        let mut request = request("/x", &[]);
        let error = loop {
            match path(&template, &VariableSource::of(&request, Instant::now())) {
                Ok(path) => request.path = path,
                Err(error) => break error,
            }
        };
        assert_eq!((error, request.path.len()), (RewriteError::TooLong, MAX_TARGET_BYTES));
    }

    proptest! {
        #[test]
        fn a_query_of_a_value_is_that_value(path in "/[a-c&+%?#= \\n]{1,12}") {
            let encoded: String =
                path.bytes().skip(1).map(|byte| format!("%{byte:02x}")).collect();
            let query = rewritten_query("q=$uri", &format!("/{encoded}?x=y"));
            let value = howdah_http::query::argument(query.as_bytes(), b"q").expect("the argument");
            let value: Vec<u8> = percent::decoded_form(value).collect();
            prop_assert_eq!(value, path.into_bytes());
            let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
            prop_assert!(query.bytes().all(is_plain));
        }

        #[test]
        fn no_value_leads_out_of_the_directory_before_it(value in "[./%?#a-f0-9\\\\]{0,24}") {
            let query: String = value.bytes().map(|byte| format!("%{byte:02x}")).collect();
            match rewritten("/base/$arg_p", &format!("/?p={query}")) {
                Ok(path) => {
                    prop_assert!(path.starts_with('/'));
                    prop_assert!(!path.split('/').any(|segment| matches!(segment, "." | "..")));
                }
                Err(error) => prop_assert_eq!(error, TargetError::AboveRoot),
            }
        }
    }
}
