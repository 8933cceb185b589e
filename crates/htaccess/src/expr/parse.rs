//! Parser of expressions.

use std::sync::Arc;

use super::context::MAX_EXPRESSION_BYTES;
use super::lex::{self, Operator, Token};
use super::tree::{Comparison, Cond, Function, Order, Test, Wildcard, Word};
use super::variable::Variable;
use crate::regex::Regex;
use crate::support::Subnet;

/// Maximum depth of parentheses, negations and functions.
const MAX_DEPTH: u32 = 64;

/// Parses a condition.
pub(super) fn condition(source: &[u8]) -> Result<Cond, String> {
    let mut parser = Parser::new(source, lex::condition)?;
    let root = parser.any(0);
    parser.finish(root)
}

/// Parses a text with variables.
pub(super) fn text(source: &[u8]) -> Result<Word, String> {
    let mut parser = Parser::new(source, lex::text)?;
    let root = parser.string(&Token::End, 0);
    parser.finish(root)
}

struct Parser {
    tokens: std::vec::IntoIter<Token>,
    next: Token,
    /// First reason why a name or an operand is wrong. Apache continues to parse.
    reason: Option<String>,
}

/// A syntax error, or a token that is an error (empty text).
type Parsed<T> = Result<T, String>;

impl Parser {
    fn new(source: &[u8], lexer: fn(&[u8]) -> Vec<Token>) -> Result<Parser, String> {
        if source.len() > MAX_EXPRESSION_BYTES {
            return Err("String too long".to_owned());
        }
        let mut tokens = lexer(source).into_iter();
        let next = tokens.next().unwrap_or(Token::End);
        Ok(Parser { tokens, next, reason: None })
    }

    fn finish<T>(mut self, root: Parsed<T>) -> Result<T, String> {
        let root = match root {
            Ok(_) if self.next != Token::End => self.unexpected(),
            root => root,
        };
        match (root, self.reason) {
            (Ok(root), None) => Ok(root),
            (Ok(_), Some(reason)) => Err(reason),
            (Err(error), Some(reason)) if error.is_empty() => Err(reason),
            (Err(error), Some(reason)) => Err(format!("{error}: {reason}")),
            (Err(error), None) => Err(error),
        }
    }

    fn advance(&mut self) -> Token {
        std::mem::replace(&mut self.next, self.tokens.next().unwrap_or(Token::End))
    }

    fn take_operator(&mut self, operator: Operator) -> bool {
        let is_next = self.next == Token::Operator(operator);
        if is_next {
            self.advance();
        }
        is_next
    }

    fn expect(&mut self, token: Token) -> Parsed<()> {
        if self.next == token {
            self.advance();
            return Ok(());
        }
        self.unexpected()
    }

    fn unexpected<T>(&mut self) -> Parsed<T> {
        let name = self.next.name();
        if let Token::Error(reason) = &self.next {
            self.reason = Some(reason.clone());
        }
        Err(format!("syntax error, unexpected {name}"))
    }

    /// A token that is an error where a condition or a text could be: only its reason is told.
    fn error_token<T>(&mut self) -> Parsed<T> {
        let error = self.unexpected();
        if self.reason.is_some() && matches!(self.next, Token::Error(_)) {
            return Err(String::new());
        }
        error
    }

    fn deeper(depth: u32) -> Parsed<u32> {
        if depth >= MAX_DEPTH { Err("Recursion limit reached".to_owned()) } else { Ok(depth + 1) }
    }

    fn any(&mut self, depth: u32) -> Parsed<Cond> {
        let depth = Parser::deeper(depth)?;
        let first = self.all(depth)?;
        if self.next != Token::Operator(Operator::Or) {
            return Ok(first);
        }
        let mut conditions = vec![first];
        while self.take_operator(Operator::Or) {
            conditions.push(self.all(depth)?);
        }
        Ok(Cond::Any(conditions))
    }

    fn all(&mut self, depth: u32) -> Parsed<Cond> {
        let first = self.not(depth)?;
        if self.next != Token::Operator(Operator::And) {
            return Ok(first);
        }
        let mut conditions = vec![first];
        while self.take_operator(Operator::And) {
            conditions.push(self.not(depth)?);
        }
        Ok(Cond::All(conditions))
    }

    fn not(&mut self, depth: u32) -> Parsed<Cond> {
        let mut is_negated = false;
        while self.take_operator(Operator::Not) {
            is_negated = !is_negated;
        }
        let condition = self.simple(depth)?;
        Ok(if is_negated { Cond::Not(Box::new(condition)) } else { condition })
    }

    fn simple(&mut self, depth: u32) -> Parsed<Cond> {
        match &self.next {
            Token::Operator(Operator::True) => {
                self.advance();
                Ok(Cond::Constant(true))
            }
            Token::Operator(Operator::False) => {
                self.advance();
                Ok(Cond::Constant(false))
            }
            Token::Operator(Operator::Character(b'(')) => {
                self.advance();
                let condition = self.any(depth)?;
                self.expect(Token::Operator(Operator::Character(b')')))?;
                Ok(condition)
            }
            Token::Unary(_) => {
                let Token::Unary(name) = self.advance() else { return self.unexpected() };
                let word = self.word(depth)?;
                Ok(self.unary(&name, word))
            }
            Token::Error(_) => self.error_token(),
            _ => self.comparison(depth),
        }
    }

    fn comparison(&mut self, depth: u32) -> Parsed<Cond> {
        let word = Box::new(self.word(depth)?);
        let comparison = match &self.next {
            Token::Binary(_) => {
                let Token::Binary(name) = self.advance() else { return self.unexpected() };
                let other = self.word(depth)?;
                return Ok(self.binary(&name, *word, other));
            }
            Token::Operator(operator) => match operator {
                Operator::Match | Operator::NoMatch => {
                    let is_negated = *operator == Operator::NoMatch;
                    self.advance();
                    return self.regex(word, is_negated);
                }
                Operator::In => {
                    self.advance();
                    return Ok(Cond::In(word, self.list(depth)?));
                }
                Operator::NumberEq => Comparison::Number(Order::Equal),
                Operator::NumberNe => Comparison::Number(Order::NotEqual),
                Operator::NumberLt => Comparison::Number(Order::Less),
                Operator::NumberLe => Comparison::Number(Order::LessOrEqual),
                Operator::NumberGt => Comparison::Number(Order::Greater),
                Operator::NumberGe => Comparison::Number(Order::GreaterOrEqual),
                Operator::TextEq => Comparison::Text(Order::Equal),
                Operator::TextNe => Comparison::Text(Order::NotEqual),
                Operator::TextLt => Comparison::Text(Order::Less),
                Operator::TextLe => Comparison::Text(Order::LessOrEqual),
                Operator::TextGt => Comparison::Text(Order::Greater),
                Operator::TextGe => Comparison::Text(Order::GreaterOrEqual),
                _ => return self.unexpected(),
            },
            _ => return self.unexpected(),
        };
        self.advance();
        Ok(Cond::Compare(word, comparison, Box::new(self.word(depth)?)))
    }

    fn regex(&mut self, word: Box<Word>, is_negated: bool) -> Parsed<Cond> {
        if !matches!(self.next, Token::Regex { .. }) {
            return self.unexpected();
        }
        let Token::Regex { pattern, ignores_case } = self.advance() else {
            return self.unexpected();
        };
        let regex = Regex::new(&pattern, ignores_case);
        let regex = regex.map_err(|_| "Failed to compile regular expression".to_owned())?;
        Ok(Cond::Match { word, regex: Arc::new(regex), is_negated })
    }

    fn list(&mut self, depth: u32) -> Parsed<Vec<Word>> {
        if let Token::Name(name) = &self.next {
            let name = String::from_utf8_lossy(name).into_owned();
            self.advance();
            self.expect(Token::Operator(Operator::Character(b'(')))?;
            self.word(depth)?;
            self.expect(Token::Operator(Operator::Character(b')')))?;
            self.refuse(format!("List-returning function '{name}' does not exist"));
            return Ok(Vec::new());
        }
        self.expect(Token::Operator(Operator::Character(b'{')))?;
        let mut words = vec![self.word(depth)?];
        while self.take_operator(Operator::Character(b',')) {
            words.push(self.word(depth)?);
        }
        self.expect(Token::Operator(Operator::Character(b'}')))?;
        Ok(words)
    }

    fn word(&mut self, depth: u32) -> Parsed<Word> {
        let first = self.part(depth)?;
        if self.next != Token::Operator(Operator::Concat) {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.take_operator(Operator::Concat) {
            parts.push(self.part(depth)?);
        }
        Ok(Word::Concat(parts))
    }

    fn part(&mut self, depth: u32) -> Parsed<Word> {
        let depth = Parser::deeper(depth)?;
        match &self.next {
            Token::Digits(digits) => {
                let word = Word::Text(digits.clone());
                self.advance();
                Ok(word)
            }
            Token::StringBegin => {
                self.advance();
                if self.next == Token::StringEnd {
                    self.advance();
                    return Ok(Word::Text(Vec::new()));
                }
                let word = self.string(&Token::StringEnd, depth)?;
                self.expect(Token::StringEnd)?;
                Ok(word)
            }
            Token::Group(_) | Token::VariableBegin => self.reference(depth),
            Token::Name(name) => {
                let name = name.clone();
                self.advance();
                self.expect(Token::Operator(Operator::Character(b'(')))?;
                let argument = self.word(depth)?;
                self.expect(Token::Operator(Operator::Character(b')')))?;
                Ok(self.call(&name, argument))
            }
            _ => self.unexpected(),
        }
    }

    /// Reads the parts of a text up to a token.
    fn string(&mut self, end: &Token, depth: u32) -> Parsed<Word> {
        let mut parts = Vec::new();
        while self.next != *end {
            match &self.next {
                Token::Text(text) => {
                    let text = text.clone();
                    self.advance();
                    // The scanner ends a text with an empty part.
                    if !text.is_empty() || parts.is_empty() {
                        parts.push(Word::Text(text));
                    }
                }
                Token::Group(_) | Token::VariableBegin => parts.push(self.reference(depth)?),
                Token::Error(_) => return self.error_token(),
                _ => return self.unexpected(),
            }
        }
        match parts.len() {
            0 => self.unexpected(),
            1 => Ok(parts.remove(0)),
            _ => Ok(Word::Concat(parts)),
        }
    }

    /// Reads `$1`, `%{NAME}` or `%{function:…}`.
    fn reference(&mut self, depth: u32) -> Parsed<Word> {
        let depth = Parser::deeper(depth)?;
        if let Token::Group(number) = self.next {
            self.advance();
            return Ok(Word::Group(number));
        }
        self.expect(Token::VariableBegin)?;
        let Token::Name(name) = &self.next else { return self.unexpected() };
        let name = name.clone();
        self.advance();
        if self.take_operator(Operator::Character(b':')) {
            let argument = self.string(&Token::VariableEnd, depth)?;
            self.expect(Token::VariableEnd)?;
            return Ok(self.call(&name, argument));
        }
        self.expect(Token::VariableEnd)?;
        match Variable::of_expression(&name) {
            Some(variable) => Ok(Word::Variable(variable)),
            None => {
                let name = String::from_utf8_lossy(&name);
                self.refuse(format!("Variable '{name}' does not exist"));
                Ok(Word::Text(Vec::new()))
            }
        }
    }

    fn refuse(&mut self, reason: String) {
        self.reason = Some(reason);
    }

    fn call(&mut self, name: &[u8], argument: Word) -> Word {
        let function = match name.to_ascii_lowercase().as_slice() {
            b"osenv" => Function::OsEnv,
            b"env" => Function::Env,
            b"resp" => Function::Response,
            b"req" | b"http" => Function::Request,
            b"note" => Function::Note,
            b"reqenv" => Function::RequestEnv,
            b"req_novary" => Function::RequestWithoutVary,
            b"tolower" => Function::ToLower,
            b"toupper" => Function::ToUpper,
            b"escape" => Function::Escape,
            b"unescape" => Function::Unescape,
            b"base64" => Function::Base64,
            b"unbase64" => Function::Unbase64,
            b"sha1" => Function::Sha1,
            b"md5" => Function::Md5,
            b"ldap" => Function::Ldap,
            b"ssl" => Function::Ssl,
            restricted @ (b"file" | b"filesize") => {
                let name = String::from_utf8_lossy(restricted);
                self.refuse(format!("{name} not available in restricted context"));
                return Word::Text(Vec::new());
            }
            _ => {
                let name = String::from_utf8_lossy(name);
                self.refuse(format!("Function '{name}' does not exist"));
                return Word::Text(Vec::new());
            }
        };
        Word::Call(function, Box::new(argument))
    }

    fn unary(&mut self, name: &[u8], word: Word) -> Cond {
        let test = match name {
            b"n" => Test::NotEmpty,
            b"z" => Test::Empty,
            b"T" => Test::IsTrue,
            b"d" => Test::Directory,
            b"e" => Test::Exists,
            b"f" => Test::File,
            b"s" => Test::NotEmptyFile,
            b"L" | b"h" => Test::Link,
            b"x" => Test::Executable,
            b"F" => Test::AllowedFile,
            b"U" | b"A" => Test::AllowedUrl,
            b"R" => return self.network("R", &word).map_or(Cond::Constant(false), Cond::Client),
            _ => {
                let name = String::from_utf8_lossy(name);
                self.refuse(format!("Unary operator '-{name}' does not exist"));
                return Cond::Constant(false);
            }
        };
        Cond::Test(test, Box::new(word))
    }

    fn binary(&mut self, name: &[u8], word: Word, other: Word) -> Cond {
        let kind = match name.to_ascii_lowercase().as_slice() {
            b"ipmatch" => {
                let network = self.network("ipmatch", &other);
                return network.map_or(Cond::Constant(false), |network| {
                    Cond::IpMatch(Box::new(word), network)
                });
            }
            b"fnmatch" => Wildcard::Path,
            b"strmatch" => Wildcard::Text,
            b"strcmatch" => Wildcard::IgnoreCase,
            _ => {
                let name = String::from_utf8_lossy(name);
                self.refuse(format!("Binary operator '-{name}' does not exist"));
                return Cond::Constant(false);
            }
        };
        Cond::Wildcard(kind, Box::new(word), Box::new(other))
    }

    fn network(&mut self, name: &str, word: &Word) -> Option<Subnet> {
        let Word::Text(text) = word else {
            self.refuse(format!("-{name} requires subnet/netmask as constant argument"));
            return None;
        };
        let network = Subnet::parse(text).ok();
        if network.is_none() {
            self.refuse("parsing of subnet/netmask failed".to_owned());
        }
        network
    }
}
