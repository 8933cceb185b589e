//! Values of the variables that templates name.

use howdah_config::{Template, Variable};

use crate::message::Request;

/// Expands a template for a request. Variables of the response are empty at this time.
pub fn expand(template: &Template, request: &Request) -> Vec<u8> {
    let mut out = Vec::new();
    template.expand(&mut out, |variable, out| write(variable, request, out));
    out
}

/// Appends the value of a variable.
pub fn write(variable: &Variable, request: &Request, out: &mut Vec<u8>) {
    match variable {
        Variable::Argument(name) => {
            if let Some(value) = argument(&request.query, name.as_bytes()) {
                decode_argument(value, out);
            }
        }
        Variable::Cookie(name) => {
            let cookies = request.fields.get_all("cookie").flat_map(cookies);
            let found = cookies.filter(|(n, _)| *n == name.as_bytes()).last();
            out.extend_from_slice(found.map(|(_, value)| value).unwrap_or_default());
        }
        Variable::Header(name) => {
            out.extend_from_slice(request.fields.get(name).unwrap_or_default());
        }
        Variable::Host => out.extend_from_slice(&request.host),
        Variable::Method => out.extend_from_slice(&request.method),
        Variable::RemoteAddress => match request.connection.peer {
            Some(peer) => {
                out.extend_from_slice(peer.ip().to_canonical().to_string().as_bytes());
            }
            None => out.extend_from_slice(b"unix:"),
        },
        Variable::RequestId => out.extend_from_slice(format!("{:032x}", request.id).as_bytes()),
        Variable::RequestLine => {
            let version = request.version.as_str().as_bytes();
            for part in [&request.method, &b" "[..], &request.target, b" ", version] {
                out.extend_from_slice(part);
            }
        }
        Variable::RequestUri => out.extend_from_slice(&request.target),
        Variable::Uri => out.extend_from_slice(&request.path),
        Variable::BodyBytesSent
        | Variable::RequestTime
        | Variable::ResponseHeader(_)
        | Variable::Status
        | Variable::TimeLocal => {}
    }
}

/// Names and values of a `Cookie` field.
fn cookies(field: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    field.split(|b| *b == b';').filter_map(|pair| {
        let pair = pair.trim_ascii();
        let equals = memchr::memchr(b'=', pair)?;
        Some((&pair[..equals], &pair[equals + 1..]))
    })
}

/// The last argument of this name, still encoded.
fn argument<'a>(query: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    query.rsplit(|b| *b == b'&').find_map(|pair| {
        let equals = memchr::memchr(b'=', pair).unwrap_or(pair.len());
        (&pair[..equals] == name).then(|| pair.get(equals + 1..).unwrap_or_default())
    })
}

/// Percent-decodes; `+` is a space, as in forms. What is no escape stands for itself.
fn decode_argument(value: &[u8], out: &mut Vec<u8>) {
    let mut rest = value;
    while let [first, after @ ..] = rest {
        rest = after;
        let digit = |byte: Option<&u8>| byte.and_then(|b| (*b as char).to_digit(16));
        match (first, digit(after.first()), digit(after.get(1))) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                rest = &after[2..];
            }
            (b'+', _, _) => out.push(b' '),
            _ => out.push(*first),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_decoded_and_the_last_one_counts() {
        assert_eq!(argument(b"a=1&b=2&a=3", b"a"), Some(&b"3"[..]));
        assert_eq!(argument(b"a&b=2", b"a"), Some(&b""[..]));
        assert_eq!(argument(b"ab=1", b"a"), None);
        let mut out = Vec::new();
        decode_argument(b"a+b%20c%zz%4", &mut out);
        assert_eq!(out, b"a b c%zz%4");
    }

    #[test]
    fn cookies_are_taken_apart() {
        let found: Vec<_> = cookies(b"a=1; b=2=3;c").collect();
        assert_eq!(found, [(&b"a"[..], &b"1"[..]), (b"b", b"2=3")]);
    }
}
