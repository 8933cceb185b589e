//! Parsing of queries and cookies.
//!
//! As in Unit, a query is split at `&` and each piece at its first `=`; then `%XX` is decoded and
//! `+` becomes a space. An invalid escape is kept as it is. Nothing here fails.

use howdah_template::php_name::is_known_as;
use howdah_text::percent::decoded_form;

/// Returns the value of the last argument with this name, also one that PHP makes this name; still
/// encoded.
pub fn argument<'q>(query: &'q [u8], name: &[u8]) -> Option<&'q [u8]> {
    query.rsplit(|byte| *byte == b'&').find_map(|pair| {
        let (found, value) = split(pair);
        let is_plain = |byte: &u8| !matches!(byte, b'%' | b'+' | b'.' | b'[');
        let is_found = if found.iter().all(is_plain) {
            found == name
        } else {
            is_known_as(&decoded_form(found).collect::<Vec<_>>(), name)
        };
        is_found.then_some(value)
    })
}

/// Iterates over the names and values of a `Cookie` field, without blanks before a name and after a
/// value. Text without `=` is the name of a cookie without a value, as for PHP, if `takes_bare` is
/// true; otherwise it is no cookie, as in Unit.
pub fn cookies(field: &[u8], takes_bare: bool) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
    field.split(|byte| *byte == b';').filter_map(move |pair| {
        let (name, value) = match memchr::memchr(b'=', pair) {
            Some(equals) => (pair.get(..equals)?, pair.get(equals + 1..)?),
            None if takes_bare && !pair.trim_ascii().is_empty() => (pair, &b""[..]),
            None => return None,
        };
        Some((name.trim_ascii_start(), value.trim_ascii_end()))
    })
}

fn split(pair: &[u8]) -> (&[u8], &[u8]) {
    let equals = memchr::memchr(b'=', pair).unwrap_or(pair.len());
    let (name, rest) = pair.split_at(equals); // `equals` is an index in `pair`, or its length
    (name, rest.get(1..).unwrap_or_default())
}

/// A query that is decoded at most once per request, into memory that is reused.
#[derive(Debug, Default)]
pub struct Query {
    decoded: bool,
    text: Vec<u8>,
    /// Ranges of each name and value in the text.
    arguments: Vec<Argument>,
}

#[derive(Debug, Clone, Copy)]
struct Argument {
    start: usize,
    equals: usize,
    end: usize,
}

impl Query {
    /// Removes the query, and keeps up to 16 KiB of memory.
    pub fn clear(&mut self) {
        /// Room for any query within the default limits.
        const KEPT: usize = 16 << 10;
        self.decoded = false;
        self.text.clear();
        self.text.shrink_to(KEPT);
        self.arguments.clear();
        self.arguments.shrink_to(KEPT / size_of::<Argument>());
    }

    /// Returns the whole query, decoded.
    pub fn text(&mut self, query: &[u8]) -> &[u8] {
        self.decode(query);
        &self.text
    }

    /// Iterates over the names and values of the arguments, decoded, without empty pieces.
    pub fn arguments(
        &mut self,
        query: &[u8],
    ) -> impl Iterator<Item = (&[u8], &[u8])> + Clone + use<'_> {
        self.decode(query);
        self.arguments.iter().map(|argument| {
            let name = self.text.get(argument.start..argument.equals).unwrap_or_default();
            (name, self.text.get(argument.equals + 1..argument.end).unwrap_or_default())
        })
    }

    fn decode(&mut self, query: &[u8]) {
        if std::mem::replace(&mut self.decoded, true) || query.is_empty() {
            return;
        }
        for (index, pair) in query.split(|byte| *byte == b'&').enumerate() {
            if index > 0 {
                self.text.push(b'&');
            }
            let (name, value) = split(pair);
            let start = self.text.len();
            self.text.extend(decoded_form(name));
            let equals = self.text.len();
            if name.len() < pair.len() {
                self.text.push(b'=');
                self.text.extend(decoded_form(value));
            }
            let end = self.text.len();
            if !name.is_empty() || !value.is_empty() {
                self.arguments.push(Argument { start, equals, end });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn arguments(query: &str) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut scratch = Query::default();
        scratch.arguments(query.as_bytes()).map(|(n, v)| (text(n), text(v))).collect()
    }

    #[test]
    fn arguments_are_split_before_they_are_decoded() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(arguments("a=1%26b%3D2&c"), [pair("a", "1&b=2"), pair("c", "")]);
        assert_eq!(arguments("%3D=="), [pair("=", "=")]);
        assert_eq!(arguments("==="), [pair("", "==")]);
        assert_eq!(arguments("&&&foo&&="), [pair("foo", "")]);
        assert_eq!(arguments("%=%&+x=y+"), [pair("%", "%"), pair(" x", "y ")]);
        assert_eq!(arguments(""), []);
    }

    #[test]
    fn the_last_argument_of_a_name_counts() {
        assert_eq!(argument(b"a=1&b=2&a=3", b"a"), Some(&b"3"[..]));
        assert_eq!(argument(b"a=1&%61=2", b"a"), Some(&b"2"[..]));
        assert_eq!(argument(b"a&b=2", b"a"), Some(&b""[..]));
        assert_eq!(argument(b"ab=1&A=2", b"a"), None);
        for query in
            [&b"a_b=1"[..], b"a.b=1", b"a+b=1", b"+a_b=1", b"a[b=1", b"a_b[]=1", b"a_b%00=1"]
        {
            assert_eq!(argument(query, b"a_b"), Some(&b"1"[..]));
        }
    }

    #[test]
    fn cookies_are_taken_apart() {
        let field = b" a=1; b=2=3 ;c ; ;; =x";
        let found: Vec<_> = cookies(field, false).collect();
        assert_eq!(found, [(&b"a"[..], &b"1"[..]), (b"b", b"2=3"), (b"", b"x")]);
        let found: Vec<_> = cookies(field, true).collect();
        assert_eq!(found, [(&b"a"[..], &b"1"[..]), (b"b", b"2=3"), (b"c ", b""), (b"", b"x")]);
    }

    #[test]
    fn one_query_leaves_nothing_for_the_next() {
        let mut scratch = Query::default();
        assert_eq!(scratch.text(b"a%3Db"), b"a=b");
        assert_eq!(scratch.text(b"ignored, as it is decoded already"), b"a=b");
        scratch.clear();
        assert_eq!(scratch.arguments(b"c=d").collect::<Vec<_>>(), [(&b"c"[..], &b"d"[..])]);
    }

    #[test]
    fn a_long_query_does_not_keep_its_memory() {
        let capacities = |arguments: usize| {
            let mut scratch = Query::default();
            scratch.text(&b"a&".repeat(arguments));
            scratch.clear();
            (scratch.text.capacity(), scratch.arguments.capacity() * size_of::<Argument>())
        };
        let kept = 1 << 10..=16 << 10;
        for (text, arguments) in [capacities(600), capacities(60_000)] {
            assert!(kept.contains(&text) && kept.contains(&arguments), "{text} {arguments}");
        }
    }

    proptest! {
        #[test]
        fn the_decoded_text_is_the_same_whole_or_in_pieces(query: Vec<u8>) {
            let mut scratch = Query::default();
            let whole: Vec<u8> = decoded_form(&query).collect();
            prop_assert_eq!(scratch.text(&query), &whole[..]);
        }

        #[test]
        fn an_argument_that_is_found_is_the_last_of_the_list(query in "[ab=&%+0-9]{0,40}") {
            let mut scratch = Query::default();
            let last = scratch
                .arguments(query.as_bytes())
                .filter(|(name, _)| is_known_as(name, b"a"))
                .last()
                .map(|(_, value)| value.to_vec());
            let found = argument(query.as_bytes(), b"a").map(|value| decoded_form(value).collect());
            prop_assert_eq!(found, last);
        }
    }
}
