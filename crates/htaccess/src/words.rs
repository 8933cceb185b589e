//! Words of a line, as Apache's `ap_getword_conf` divides it.

use crate::support::{is_space, skip_space};

/// Words of a line, from the left.
#[derive(Debug, Clone)]
pub(crate) struct Words<'a> {
    rest: &'a [u8],
}

impl<'a> Words<'a> {
    pub(crate) fn new(line: &'a [u8]) -> Words<'a> {
        Words { rest: line }
    }

    /// The rest of the line. White space after a word that was taken is gone.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Takes a word; it is empty at the end of the line, or if it is a pair of quotes.
    ///
    /// A word ends at white space, or at the closing quote if it begins with one; a quote that is
    /// never closed reaches to the end of the line. A backslash stands before a backslash, and
    /// before the quote inside of quotes; everywhere else it is a character.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let line = skip_space(self.rest);
        let quote = line.first().copied().filter(|byte| matches!(byte, b'"' | b'\''));
        let body = if quote.is_some() { &line[1..] } else { line };
        let escapes =
            |at: usize| body.get(at + 1).is_some_and(|&next| next == b'\\' || Some(next) == quote);
        let mut word = Vec::new();
        let mut at = 0;
        while let Some(&byte) = body.get(at) {
            if Some(byte) == quote || quote.is_none() && is_space(byte) {
                break;
            }
            if byte == b'\\' && escapes(at) {
                at += 1;
            }
            word.push(body[at]);
            at += 1;
        }
        let mut rest = &body[at..];
        if quote.is_some() && !rest.is_empty() {
            rest = &rest[1..];
        }
        self.rest = skip_space(rest);
        word
    }

    /// Takes all words up to the first empty one.
    pub(crate) fn all(mut self) -> Vec<Vec<u8>> {
        let mut words = Vec::new();
        loop {
            let word = self.take();
            if word.is_empty() {
                return words;
            }
            words.push(word);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(line: &str) -> Vec<String> {
        let all = Words::new(line.as_bytes()).all();
        all.into_iter().map(|word| String::from_utf8(word).unwrap()).collect()
    }

    #[test]
    fn quotes_keep_white_space() {
        assert_eq!(words(r#"a "b c" 'd "e'"#), ["a", "b c", "d \"e"]);
    }

    #[test]
    fn a_word_ends_at_the_closing_quote() {
        assert_eq!(words(r#""a"b c"d e""#), ["a", "b", "c\"d", "e\""]);
    }

    #[test]
    fn an_open_quote_is_accepted() {
        assert_eq!(words("\"a b"), ["a b"]);
    }

    #[test]
    fn a_backslash_escapes_itself_and_the_quote_only() {
        assert_eq!(words(r#"\d\\w "\"\d\\" 'it\'s' \"x"#), [r"\d\w", r#""\d\"#, "it's", r#"\"x"#]);
    }

    proptest! {
        #[test]
        fn any_line_is_consumed(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut words = Words::new(&line);
            let mut rounds = 0;
            while !words.rest().is_empty() {
                words.take();
                rounds += 1;
                prop_assert!(rounds <= line.len());
            }
        }
    }
}
