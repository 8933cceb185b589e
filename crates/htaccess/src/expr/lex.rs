//! Divides an expression into tokens, as Apache's scanner does: its states are a stack, and the
//! longest token wins.

/// A piece of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Digits(Vec<u8>),
    Name(Vec<u8>),
    Text(Vec<u8>),
    Regex {
        pattern: Vec<u8>,
        ignores_case: bool,
    },
    Group(u8),
    Unary(Vec<u8>),
    Binary(Vec<u8>),
    StringBegin,
    StringEnd,
    VariableBegin,
    VariableEnd,
    /// `==`, `-eq`, `&&`, `{` and so on.
    Operator(Operator),
    /// Text that cannot be a token, with the reason.
    Error(String),
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    And,
    Or,
    Not,
    True,
    False,
    Concat,
    In,
    Match,
    NoMatch,
    NumberEq,
    NumberNe,
    NumberLt,
    NumberLe,
    NumberGt,
    NumberGe,
    TextEq,
    TextNe,
    TextLt,
    TextLe,
    TextGt,
    TextGe,
    Character(u8),
}

impl Token {
    /// Name in Apache's messages.
    pub fn name(&self) -> String {
        let name = match self {
            Token::Digits(_) => "T_DIGIT",
            Token::Name(_) => "T_ID",
            Token::Text(_) => "T_STRING",
            Token::Regex { ignores_case: false, .. } => "T_REGEX",
            Token::Regex { ignores_case: true, .. } => "T_REGEX_I",
            Token::Group(_) => "T_REGEX_BACKREF",
            Token::Unary(_) => "T_OP_UNARY",
            Token::Binary(_) => "T_OP_BINARY",
            Token::StringBegin => "T_STR_BEGIN",
            Token::StringEnd => "T_STR_END",
            Token::VariableBegin => "T_VAR_BEGIN",
            Token::VariableEnd => "T_VAR_END",
            Token::Operator(operator) => return operator.name(),
            Token::Error(_) => "T_ERROR",
            Token::End => "$end",
        };
        name.to_owned()
    }
}

impl Operator {
    fn name(self) -> String {
        let name = match self {
            Operator::And => "T_OP_AND",
            Operator::Or => "T_OP_OR",
            Operator::Not => "T_OP_NOT",
            Operator::True => "T_TRUE",
            Operator::False => "T_FALSE",
            Operator::Concat => "T_OP_CONCAT",
            Operator::In => "T_OP_IN",
            Operator::Match => "T_OP_REG",
            Operator::NoMatch => "T_OP_NRE",
            Operator::NumberEq => "T_OP_EQ",
            Operator::NumberNe => "T_OP_NE",
            Operator::NumberLt => "T_OP_LT",
            Operator::NumberLe => "T_OP_LE",
            Operator::NumberGt => "T_OP_GT",
            Operator::NumberGe => "T_OP_GE",
            Operator::TextEq => "T_OP_STR_EQ",
            Operator::TextNe => "T_OP_STR_NE",
            Operator::TextLt => "T_OP_STR_LT",
            Operator::TextLe => "T_OP_STR_LE",
            Operator::TextGt => "T_OP_STR_GT",
            Operator::TextGe => "T_OP_STR_GE",
            Operator::Character(byte) => return format!("'{}'", char::from(byte)),
        };
        name.to_owned()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Initial,
    /// In quotes; the whole source of a text has no quote.
    Text {
        quote: Option<u8>,
    },
    /// Behind `%{`.
    Variable,
    /// Behind `%{name:`.
    Argument,
}

/// Divides a condition into tokens.
pub(super) fn condition(source: &[u8]) -> Vec<Token> {
    tokens(source, State::Initial)
}

/// Divides a text with variables into tokens.
pub(super) fn text(source: &[u8]) -> Vec<Token> {
    tokens(source, State::Text { quote: None })
}

fn tokens(source: &[u8], state: State) -> Vec<Token> {
    let mut lexer = Lexer { rest: source, states: vec![state], text: Vec::new() };
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next();
        let is_last = matches!(token, Token::End | Token::Error(_));
        tokens.push(token);
        if is_last {
            tokens.push(Token::End);
            return tokens;
        }
    }
}

struct Lexer<'a> {
    rest: &'a [u8],
    states: Vec<State>,
    /// Text so far, in quotes or in an argument.
    text: Vec<u8>,
}

const UNTERMINATED: &str = "Unterminated string or variable";

impl Lexer<'_> {
    fn next(&mut self) -> Token {
        match self.states.last().copied().unwrap_or(State::Initial) {
            State::Initial => self.initial(),
            State::Text { quote } => self.text(Some(quote)),
            State::Variable => self.variable(),
            State::Argument => self.text(None),
        }
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        let (taken, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        taken.to_vec()
    }

    /// Reads text in quotes, or an argument (`None`), to the next special character.
    fn text(&mut self, quote: Option<Option<u8>>) -> Token {
        loop {
            let special = match self.rest {
                [] if quote == Some(None) => {
                    self.states.clear();
                    return Token::Text(std::mem::take(&mut self.text));
                }
                [] | [b'\n', ..] => return Token::Error(UNTERMINATED.to_owned()),
                [b'%', b'{', ..] => Token::VariableBegin,
                [b'$', digit @ b'0'..=b'9', ..] => Token::Group(digit - b'0'),
                [b'}', ..] if quote.is_none() => Token::VariableEnd,
                [byte, ..] if quote == Some(Some(*byte)) => Token::StringEnd,
                [b'\\', ..] => {
                    if let Err(error) = self.escape() {
                        return Token::Error(error);
                    }
                    continue;
                }
                // Apache's process ends here.
                [byte @ (b'"' | b'\''), ..] if quote.is_none() => {
                    return Token::Error(format!("Parse error near '{}'", char::from(*byte)));
                }
                [byte, ..] => {
                    self.text.push(*byte);
                    self.rest = &self.rest[1..];
                    continue;
                }
            };
            if !self.text.is_empty() {
                return Token::Text(std::mem::take(&mut self.text));
            }
            match special {
                Token::VariableBegin => {
                    self.take(2);
                    self.states.push(State::Variable);
                }
                Token::Group(_) => drop(self.take(2)),
                _ => {
                    self.take(1);
                    self.states.pop();
                    if self.states.is_empty() {
                        self.states.push(State::Initial);
                    }
                }
            }
            return special;
        }
    }

    /// Reads an escape behind its backslash.
    fn escape(&mut self) -> Result<(), String> {
        let after = &self.rest[1..];
        let digits = after.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let octal = after.iter().take(3).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
        if digits > octal {
            return Err("Bad escape sequence".to_owned());
        }
        if octal > 0 {
            let value =
                after[..octal].iter().fold(0u32, |sum, digit| sum * 8 + u32::from(digit - b'0'));
            self.take(1 + octal);
            let byte =
                u8::try_from(value).map_err(|_| "Escape sequence out of bound".to_owned())?;
            // Apache's strings end at a NUL.
            if byte != 0 {
                self.text.push(byte);
            }
            return Ok(());
        }
        let byte = match after.first() {
            None => return Err("Parse error near '\\'".to_owned()),
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(byte) => *byte,
        };
        self.text.push(byte);
        self.take(2);
        Ok(())
    }

    fn variable(&mut self) -> Token {
        match self.rest {
            [] => Token::Error(UNTERMINATED.to_owned()),
            [b'\n', ..] => Token::Error(UNTERMINATED.to_owned()),
            [byte, ..] if byte.is_ascii_alphabetic() => {
                Token::Name(self.take(name_length(self.rest)))
            }
            [b'}', ..] => {
                self.take(1);
                self.states.pop();
                Token::VariableEnd
            }
            [b':', ..] => {
                self.take(1);
                self.states.pop();
                self.states.push(State::Argument);
                Token::Operator(Operator::Character(b':'))
            }
            [byte, ..] => {
                Token::Error(format!("Invalid character in variable name '{}'", char::from(*byte)))
            }
        }
    }

    fn initial(&mut self) -> Token {
        while let [b' ' | b'\t' | b'\n', rest @ ..] = self.rest {
            self.rest = rest;
        }
        let (length, operator) = match self.rest {
            [] => return Token::End,
            [quote @ (b'"' | b'\''), ..] => {
                self.states.push(State::Text { quote: Some(*quote) });
                self.take(1);
                return Token::StringBegin;
            }
            [b'%', b'{', ..] => {
                self.take(2);
                self.states.push(State::Variable);
                return Token::VariableBegin;
            }
            [b'$', digit @ b'0'..=b'9', ..] => {
                self.take(2);
                return Token::Group(digit - b'0');
            }
            [b'/', ..] => return self.regex(1),
            [b'=', b'~', ..] => (2, Operator::Match),
            [b'!', b'~', ..] => (2, Operator::NoMatch),
            [b'=', b'=', ..] => (2, Operator::TextEq),
            [b'!', b'=', ..] => (2, Operator::TextNe),
            [b'<', b'=', ..] => (2, Operator::TextLe),
            [b'>', b'=', ..] => (2, Operator::TextGe),
            [b'&', b'&', ..] => (2, Operator::And),
            [b'|', b'|', ..] => (2, Operator::Or),
            [b'=', ..] => (1, Operator::TextEq),
            [b'<', ..] => (1, Operator::TextLt),
            [b'>', ..] => (1, Operator::TextGt),
            [b'!', ..] => (1, Operator::Not),
            [b'.', ..] => (1, Operator::Concat),
            [byte @ (b'(' | b')' | b'{' | b'}' | b',' | b':'), ..] => {
                (1, Operator::Character(*byte))
            }
            [b'-', b'0'..=b'9', ..] | [b'0'..=b'9', ..] => {
                let digits = self.rest[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                return Token::Digits(self.take(1 + digits));
            }
            [b'-', byte, ..] if byte.is_ascii_alphabetic() || *byte == b'_' => {
                return self.dashed();
            }
            [byte, ..] if byte.is_ascii_alphabetic() => return self.word(),
            [byte, ..] => {
                return Token::Error(format!("Parse error near '{}'", char::from(*byte)));
            }
        };
        self.take(length);
        Token::Operator(operator)
    }

    fn dashed(&mut self) -> Token {
        let length = name_length(&self.rest[1..]);
        let name = self.take(1 + length).split_off(1);
        match name.as_slice() {
            [_] => Token::Unary(name),
            b"in" => Token::Operator(Operator::In),
            b"eq" => Token::Operator(Operator::NumberEq),
            b"ne" => Token::Operator(Operator::NumberNe),
            b"ge" => Token::Operator(Operator::NumberGe),
            b"le" => Token::Operator(Operator::NumberLe),
            b"gt" => Token::Operator(Operator::NumberGt),
            b"lt" => Token::Operator(Operator::NumberLt),
            _ => Token::Binary(name),
        }
    }

    fn word(&mut self) -> Token {
        let length = name_length(self.rest);
        if let [b'm', delimiter, ..] = self.rest
            && b"/#$%^,;:_?|-!.'\"".contains(delimiter)
            && length <= 2
            && (length == 1 || *delimiter == b'_')
        {
            return self.regex(2);
        }
        let name = self.take(length);
        let operator = match name.as_slice() {
            b"and" => Operator::And,
            b"or" => Operator::Or,
            b"not" => Operator::Not,
            b"lt" => Operator::NumberLt,
            b"le" => Operator::NumberLe,
            b"gt" => Operator::NumberGt,
            b"ge" => Operator::NumberGe,
            b"ne" => Operator::NumberNe,
            b"eq" => Operator::NumberEq,
            b"in" => Operator::In,
            b"true" => Operator::True,
            b"false" => Operator::False,
            _ => return Token::Name(name),
        };
        Token::Operator(operator)
    }

    /// Reads a pattern up to its delimiter, which a backslash does not escape.
    fn regex(&mut self, prefix: usize) -> Token {
        let delimiter = self.rest[prefix - 1];
        let Some(length) = memchr::memchr(delimiter, &self.rest[prefix..]) else {
            self.rest = &[];
            return Token::End;
        };
        let pattern = self.take(prefix + length + 1)[prefix..prefix + length].to_vec();
        let ignores_case = self.rest.first() == Some(&b'i');
        if ignores_case {
            self.take(1);
        }
        Token::Regex { pattern, ignores_case }
    }
}

fn name_length(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count()
}
