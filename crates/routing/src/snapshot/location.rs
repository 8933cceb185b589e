//! `location` of a `return`: text that becomes a URI reference.

use std::ops::Range;

use howdah_config::{Part, Template, Variable};
use howdah_http::variables::VariableSource;
use howdah_text::{hex, percent};

/// A part of a location.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    /// Text of the document.
    Text,
    /// The value of a variable: a `?`, `#` or `%` in it keeps its literal meaning.
    Decoded,
    /// A part of the target of the request, as it was sent: it is encoded, and a `?` in its query
    /// is a legal character.
    Sent,
}

/// Expands a template to an encoded location. Each value of a variable is encoded by itself, so
/// that it can neither begin the query or the fragment, nor be decoded twice.
pub fn expand(template: &Template, source: &VariableSource<'_>) -> Vec<u8> {
    let mut text = Vec::new();
    let mut pieces = Vec::with_capacity(template.parts().len());
    for part in template.parts() {
        let start = text.len();
        let piece = match part {
            Part::Literal(literal) => {
                text.extend_from_slice(literal.as_bytes());
                Piece::Text
            }
            Part::Variable(variable) => {
                source.write(variable, &mut text);
                piece(variable, template.parts().len() == 1)
            }
        };
        pieces.push((start..text.len(), piece));
    }
    encode_pieces(&text, &pieces)
}

/// Returns the kind of a variable's value; `is_all` if the template has no other part.
fn piece(variable: &Variable, is_all: bool) -> Piece {
    match variable {
        Variable::RequestUri | Variable::Arguments => Piece::Sent,
        // The document's own text, a `?`, and a host that was checked or encoded when it was
        // parsed.
        Variable::Defined(_) | Variable::HasArguments | Variable::Host => Piece::Text,
        // `$header_referer` alone is the URL of another page.
        Variable::Header(_) | Variable::Argument(_) | Variable::Cookie(_) if is_all => Piece::Text,
        _ => Piece::Decoded,
    }
}

/// Encodes a location as Unit does. An encoded location stays as it is. In any other one, each byte
/// that no URI contains is escaped, including the percent sign, and each `?` and `#` that would not
/// start the query or the fragment. No value can end the header field.
pub fn encode(location: &[u8]) -> Vec<u8> {
    encode_pieces(location, &[(0..location.len(), Piece::Text)])
}

/// Encodes the pieces of a location, in order. Whether it is encoded already is up to the pieces of
/// text.
fn encode_pieces(location: &[u8], pieces: &[(Range<usize>, Piece)]) -> Vec<u8> {
    let pieces = || {
        pieces
            .iter()
            .map(|(range, piece)| (location.get(range.clone()).unwrap_or_default(), *piece))
    };
    let mut delimiters = Delimiters::default();
    let encoded = pieces().all(|(text, piece)| match piece {
        Piece::Text => is_encoded(text, &mut delimiters),
        Piece::Decoded => true,
        Piece::Sent => {
            text.iter().for_each(|byte| _ = delimiters.take(*byte));
            true
        }
    });
    let mut out = Vec::with_capacity(location.len() + 16);
    let mut delimiters = Delimiters::default();
    for (text, piece) in pieces() {
        for (index, &byte) in text.iter().enumerate() {
            let stays = is_legal(byte)
                || match piece {
                    Piece::Text => encoded || delimiters.take(byte),
                    Piece::Decoded => false,
                    Piece::Sent => {
                        delimiters.take(byte) || byte == b'?' || is_escape(text.get(index..))
                    }
                };
            if stays { out.push(byte) } else { percent::push(byte, &mut out) }
        }
    }
    out
}

/// Returns true if a text starts with a percent sign and two hexadecimal digits.
fn is_escape(text: Option<&[u8]>) -> bool {
    text.and_then(|text| text.strip_prefix(b"%")).and_then(hex::byte).is_some()
}

/// Adds a query, as it was sent, to an encoded location: before its fragment, and after its own
/// query. Bytes that no URI contains are escaped.
pub fn with_query(location: &[u8], query: &[u8]) -> Vec<u8> {
    if query.is_empty() {
        return location.to_vec();
    }
    let hash = memchr::memchr(b'#', location).unwrap_or(location.len());
    let (target, fragment) = location.split_at(hash); // index in `location`, or its length
    let mut out = Vec::with_capacity(location.len() + query.len() + 1);
    out.extend_from_slice(target);
    out.push(if target.contains(&b'?') { b'&' } else { b'?' });
    percent::encode(query, |byte| is_legal(byte) || matches!(byte, b'%' | b'?'), &mut out);
    out.extend_from_slice(fragment);
    out
}

fn is_encoded(location: &[u8], delimiters: &mut Delimiters) -> bool {
    let mut rest = location;
    while let [first, after @ ..] = rest {
        rest = match (first, after) {
            (b'%', [_, _, beyond @ ..]) if hex::byte(after).is_some() => beyond,
            (&byte, after) if is_legal(byte) || delimiters.take(byte) => after,
            _ => return false,
        };
    }
    true
}

/// Returns true for unreserved and reserved characters (RFC 3986, 2.2 and 2.3) except for the
/// delimiters.
fn is_legal(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~:/[]@!$&'()*+,;=".contains(&byte)
}

/// Delimiters `?` and `#` that may still come; the query does not start within the fragment.
#[derive(Debug, Default)]
struct Delimiters {
    query: bool,
    fragment: bool,
}

impl Delimiters {
    fn take(&mut self, byte: u8) -> bool {
        match byte {
            b'?' if !self.fragment => !std::mem::replace(&mut self.query, true),
            b'#' => !std::mem::replace(&mut self.fragment, true),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(location: &str) -> String {
        String::from_utf8(encode(location.as_bytes())).unwrap()
    }

    #[test]
    fn a_query_is_added_where_it_belongs() {
        for (location, query, expected) in [
            ("/a", "", "/a"),
            ("/a", "b=%20c", "/a?b=%20c"),
            ("/a?x#f?", "b", "/a?x&b#f?"),
            ("#f", "b?c", "?b?c#f"),
            ("/a", "b#\r\n\"", "/a?b%23%0D%0A%22"),
        ] {
            let added = with_query(location.as_bytes(), query.as_bytes());
            assert_eq!(String::from_utf8(added).unwrap(), expected);
        }
    }

    #[test]
    fn a_location_becomes_a_uri() {
        for (location, expected) in [
            ("", ""),
            (":/?#[]@!&'()*+,;=", ":/?#[]@!&'()*+,;="),
            ("path$$", "path$$"),
            ("???", "?%3F%3F"),
            ("##?#?", "#%23%3F%23%3F"),
            ("??##", "?%3F#%23"),
            ("/?##?", "/?#%23%3F"),
            (" \"%<>\\^`{|}", "%20%22%25%3C%3E%5C%5E%60%7B%7C%7D"),
            ("\0\u{18}\u{1f} !", "%00%18%1F%20!"),
            ("\u{7f}н₽", "%7F%D0%BD%E2%82%BD"),
            ("a\r\nSet-Cookie: x", "a%0D%0ASet-Cookie:%20x"),
        ] {
            assert_eq!(encoded(location), expected, "{location:?}");
        }
    }

    #[test]
    fn what_is_encoded_stays_as_it_is() {
        for location in ["%20", "/%20?%20#%20", "https://example.org/a%2Fb?c=%E2%82%BD"] {
            assert_eq!(encoded(location), location);
        }
        assert_eq!(encoded(" %20"), "%20%2520");
        assert_eq!(encoded("%20%2"), "%2520%252");
    }

    #[test]
    fn what_was_captured_keeps_its_meaning() {
        let around = |before: &str, captured: &str, after: &str| {
            let text = [before, captured, after].concat();
            let (start, end) = (before.len(), before.len() + captured.len());
            let pieces = [
                (0..start, Piece::Text),
                (start..end, Piece::Decoded),
                (end..text.len(), Piece::Text),
            ];
            String::from_utf8(encode_pieces(text.as_bytes(), &pieces)).unwrap()
        };
        for (before, captured, after, expected) in [
            ("/n/", "a/b", "", "/n/a/b"),
            ("/n/", "a%20b?c#d", "?x=%20", "/n/a%2520b%3Fc%23d?x=%20"),
            ("/n/ ", "a%b", "?x#y", "/n/%20a%25b?x#y"),
            ("/n/%", "41", "", "/n/%2541"),
            ("/n/", "a\r\nSet-Cookie: x", "", "/n/a%0D%0ASet-Cookie:%20x"),
            ("", "", "", ""),
        ] {
            assert_eq!(around(before, captured, after), expected);
        }
    }

    /// Scenario: `https://$host$request_uri`, or `/login?to=$request_uri`.
    #[test]
    fn what_was_sent_is_not_encoded_again() {
        let sent = |before: &str, sent: &str| {
            let text = [before, sent].concat();
            let pieces = [(0..before.len(), Piece::Text), (before.len()..text.len(), Piece::Sent)];
            String::from_utf8(encode_pieces(text.as_bytes(), &pieces)).unwrap()
        };
        for (before, target, expected) in [
            ("https://a.example", "/b?c=%20", "https://a.example/b?c=%20"),
            ("https://a.example", "/b?c=d?e&f=%2F", "https://a.example/b?c=d?e&f=%2F"),
            ("/login?to=", "/b?c=d&e=%20", "/login?to=/b?c=d&e=%20"),
            ("/a b?to=", "/b?c=%20", "/a%20b?to=/b?c=%20"),
            ("/a%20b?to=", "/b%2?c=%zz%", "/a%20b?to=/b%252?c=%25zz%25"),
            ("/a", "/b#c\r\n\"#", "/a/b#c%0D%0A%22%23"),
            ("/a#f?", "/b?c", "/a#f%3F/b?c"),
        ] {
            assert_eq!(sent(before, target), expected, "{before}{target}");
        }
    }

    #[test]
    fn values_of_variables_stay_what_they_are() {
        use howdah_http::fixture;
        use std::time::Instant;

        let mut request = fixture::request("/", &[("X-A", "a?b#c%41"), ("Cookie", "c=d?e")]);
        request.path = "/x?y#z%23".into();
        request.query = "q=1?2&n=%3Fa".into();
        let at = |text: &str| {
            let template = Template::parse(text).unwrap();
            let source = VariableSource::of(&request, Instant::now());
            String::from_utf8(expand(&template, &source)).unwrap()
        };
        for (template, expected) in [
            ("https://new$uri", "https://new/x%3Fy%23z%2523"),
            ("https://new$uri?$args", "https://new/x%3Fy%23z%2523?q=1?2&n=%3Fa"),
            ("https://new$uri$is_args$args", "https://new/x%3Fy%23z%2523?q=1?2&n=%3Fa"),
            ("$uri", "/x%3Fy%23z%2523"),
            ("/to?n=$arg_n&h=$header_x_a&c=$cookie_c", "/to?n=%3Fa&h=a%3Fb%23c%2541&c=d%3Fe"),
            ("$header_x_a", "a?b#c%41"),
            ("/a b$uri", "/a%20b/x%3Fy%23z%2523"),
        ] {
            assert_eq!(at(template), expected, "{template}");
        }
    }

    proptest! {
        #[test]
        fn the_result_is_encoded_whatever_went_in(location: Vec<u8>) {
            let out = encode(&location);
            prop_assert!(is_encoded(&out, &mut Delimiters::default()));
            prop_assert!(out.is_ascii() && !out.iter().any(u8::is_ascii_control));
            prop_assert_eq!(encode(&out), out);
        }
    }
}
