//! The tokens of a configuration file of nginx.
//!
//! Words end at white space, `;` and `{`; a `{` behind a `$` belongs to the word. Quotation marks
//! count at the start of a word alone, and so does `#`. `\"`, `\'` and `\\` lose their backslash,
//! `\t`, `\r` and `\n` are these characters, and any other backslash stays.

use std::path::Path;

use crate::Error;

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// A name or an argument.
    Word(String),
    /// `;`
    Semicolon,
    /// `{`
    Open,
    /// `}`
    Close,
    /// The end of the file.
    End,
}

/// Maximum length of a word in bytes (nginx: 4096).
const MAX_WORD_BYTES: usize = 1 << 16;

/// Reads the tokens of a text.
#[derive(Debug)]
pub struct Lexer<'t> {
    file: &'t Path,
    text: &'t [u8],
    at: usize,
    line: u32,
    /// A quoted word has just ended, so no other word may follow without a space.
    is_after_quote: bool,
}

impl<'t> Lexer<'t> {
    /// Reads a text that begins at this line of a file.
    pub fn new(file: &'t Path, text: &'t str, line: u32) -> Self {
        Self { file, text: text.as_bytes(), at: 0, line, is_after_quote: false }
    }

    /// Returns the next token and the line on which it begins.
    pub fn next(&mut self) -> Result<(Token, u32), Error> {
        loop {
            let Some(byte) = self.peek() else { return Ok((Token::End, self.line)) };
            let line = self.line;
            if std::mem::take(&mut self.is_after_quote)
                && !matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b';' | b'{' | b')')
            {
                return Err(self.error(line, format!("unexpected {:?}", char::from(byte))));
            }
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => self.skip(),
                b'#' => {
                    while self.peek().is_some_and(|byte| byte != b'\n') {
                        self.at += 1;
                    }
                }
                b';' => {
                    self.at += 1;
                    return Ok((Token::Semicolon, line));
                }
                b'{' => {
                    self.at += 1;
                    return Ok((Token::Open, line));
                }
                b'}' => {
                    self.at += 1;
                    return Ok((Token::Close, line));
                }
                b'"' | b'\'' => return self.quoted(byte),
                _ => return self.word(),
            }
        }
    }

    /// Skips a block of another language (Lua) behind its `{`, up to the `}` that ends it.
    pub fn skip_foreign_block(&mut self, opened_at: u32) -> Result<(), Error> {
        let mut depth = 1_u32;
        let mut quote = None;
        while let Some(byte) = self.peek() {
            match (byte, quote) {
                (b'\\', Some(_)) => self.skip(),
                (_, Some(open)) if byte == open || byte == b'\n' => quote = None,
                (_, Some(_)) => {}
                (b'"' | b'\'', None) => quote = Some(byte),
                (b'-', None) if self.text.get(self.at + 1) == Some(&b'-') => {
                    while self.peek().is_some_and(|byte| byte != b'\n') {
                        self.at += 1;
                    }
                    continue;
                }
                (b'{', None) => depth += 1,
                (b'}', None) => depth -= 1,
                _ => {}
            }
            if self.peek().is_some() {
                self.skip();
            }
            if depth == 0 {
                return Ok(());
            }
        }
        Err(self.error(opened_at, "the block that begins here has no end"))
    }

    fn quoted(&mut self, quote: u8) -> Result<(Token, u32), Error> {
        let line = self.line;
        self.at += 1;
        let start = self.at;
        while let Some(byte) = self.peek() {
            if byte == quote {
                let word = self.unescaped(start, line)?;
                self.at += 1;
                self.is_after_quote = true;
                return Ok((Token::Word(word), line));
            }
            self.skip();
            if byte == b'\\' && self.peek().is_some() {
                self.skip();
            }
        }
        Err(self.error(line, "the quotation mark that begins here has no end"))
    }

    fn word(&mut self) -> Result<(Token, u32), Error> {
        let (start, line) = (self.at, self.line);
        let mut is_variable = false;
        while let Some(byte) = self.peek() {
            if byte == b'{' && is_variable {
                is_variable = false;
                self.at += 1;
                continue;
            }
            is_variable = byte == b'$';
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | b';' | b'{' => break,
                b'\\' => {
                    self.at += 1;
                    if self.peek().is_some() {
                        self.skip();
                    }
                }
                _ => self.at += 1,
            }
        }
        Ok((Token::Word(self.unescaped(start, line)?), line))
    }

    /// Returns the text from a place up to here without its escapes.
    fn unescaped(&self, start: usize, line: u32) -> Result<String, Error> {
        let bytes = &self.text[start..self.at.min(self.text.len())];
        if bytes.len() > MAX_WORD_BYTES {
            return Err(self.error(line, "the parameter that begins here is too long"));
        }
        let mut out = Vec::with_capacity(bytes.len());
        let mut left = bytes.iter().copied().peekable();
        while let Some(byte) = left.next() {
            let escaped = match (byte, left.peek()) {
                (b'\\', Some(b'"')) => b'"',
                (b'\\', Some(b'\'')) => b'\'',
                (b'\\', Some(b'\\')) => b'\\',
                (b'\\', Some(b't')) => b'\t',
                (b'\\', Some(b'r')) => b'\r',
                (b'\\', Some(b'n')) => b'\n',
                _ => {
                    out.push(byte);
                    continue;
                }
            };
            left.next();
            out.push(escaped);
        }
        // Cut at ASCII characters, so this is UTF-8 as the whole text is.
        String::from_utf8(out).map_err(|_| self.error(line, "the text is not UTF-8"))
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip(&mut self) {
        if self.peek() == Some(b'\n') {
            self.line = self.line.saturating_add(1);
        }
        self.at += 1;
    }

    fn error(&self, line: u32, message: impl Into<String>) -> Error {
        Error::at(self.file, line, message)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Result<Vec<(String, u32)>, Error> {
        let mut lexer = Lexer::new(Path::new("x"), text, 1);
        let mut found = Vec::new();
        loop {
            match lexer.next()? {
                (Token::End, _) => return Ok(found),
                (Token::Word(word), line) => found.push((word, line)),
                (Token::Semicolon, line) => found.push((";".to_owned(), line)),
                (Token::Open, line) => found.push(("{".to_owned(), line)),
                (Token::Close, line) => found.push(("}".to_owned(), line)),
            }
        }
    }

    fn texts(text: &str) -> Vec<String> {
        words(text).unwrap().into_iter().map(|(word, _)| word).collect()
    }

    #[test]
    fn words_end_at_spaces_semicolons_and_braces() {
        assert_eq!(texts("a b;c{d}"), ["a", "b", ";", "c", "{", "d}"]);
        assert_eq!(texts("a ${b}c{ }"), ["a", "${b}c", "{", "}"]);
        assert_eq!(texts("a b#c; # d\n e"), ["a", "b#c", ";", "e"]);
        assert_eq!(texts("if ($a = \"b\") {"), ["if", "($a", "=", "b", ")", "{"]);
    }

    #[test]
    fn quotes_and_backslashes_are_nginx_s() {
        assert_eq!(
            texts(r#"a "b \"c\" \. \\d" 'e"f' g\"h;"#),
            ["a", r#"b "c" \. \d"#, "e\"f", "g\"h", ";"]
        );
        assert_eq!(texts("a b\\;c;"), ["a", "b\\;c", ";"]);
        assert!(words("a \"b\"c;").is_err());
        assert_eq!(words("x;\n \"a\nb").unwrap_err().line, Some(2));
    }

    #[test]
    fn lines_are_those_on_which_words_begin() {
        let found = words("a\n  'b\nc' d\n;").unwrap();
        let lines: Vec<_> = found.into_iter().map(|(_, line)| line).collect();
        assert_eq!(lines, [1, 2, 3, 4]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[ab \\n;{}\"'\\\\$#()é]{0,60}") {
            let _ = words(&text);
        }
    }
}
