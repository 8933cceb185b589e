//! Expressions, compiled.

use std::sync::Arc;

use super::variable::Variable;
use crate::regex::Regex;
use crate::support::Subnet;

/// A condition.
#[derive(Debug, Clone)]
pub(super) enum Cond {
    Constant(bool),
    Not(Box<Cond>),
    Any(Vec<Cond>),
    All(Vec<Cond>),
    Compare(Box<Word>, Comparison, Box<Word>),
    In(Box<Word>, Vec<Word>),
    Match {
        word: Box<Word>,
        regex: Arc<Regex>,
        is_negated: bool,
    },
    Test(Test, Box<Word>),
    Wildcard(Wildcard, Box<Word>, Box<Word>),
    IpMatch(Box<Word>, Subnet),
    /// Address of the client.
    Client(Subnet),
}

impl Cond {
    /// Returns true if a sub-request may be part of the condition (`-U`, `-F`).
    pub fn looks_up(&self) -> bool {
        match self {
            Cond::Not(inner) => inner.looks_up(),
            Cond::Any(all) | Cond::All(all) => all.iter().any(Cond::looks_up),
            Cond::Test(test, _) => matches!(test, Test::AllowedFile | Test::AllowedUrl),
            _ => false,
        }
    }
}

/// A text, with parts that depend on the request.
#[derive(Debug, Clone)]
pub(super) enum Word {
    Text(Vec<u8>),
    Variable(Variable),
    Group(u8),
    Concat(Vec<Word>),
    Call(Function, Box<Word>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Number(Order),
    Text(Order),
}

/// Operator with one operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Test {
    NotEmpty,
    Empty,
    IsTrue,
    Directory,
    Exists,
    File,
    NotEmptyFile,
    Link,
    Executable,
    /// A file that the client may have.
    AllowedFile,
    /// A URL that the client may have.
    AllowedUrl,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wildcard {
    Path,
    Text,
    IgnoreCase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    OsEnv,
    Env,
    Response,
    Request,
    RequestWithoutVary,
    Note,
    RequestEnv,
    ToLower,
    ToUpper,
    Escape,
    Unescape,
    Base64,
    Unbase64,
    Sha1,
    Md5,
    Ldap,
    Ssl,
}
