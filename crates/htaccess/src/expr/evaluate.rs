//! Evaluation of expressions.

use std::borrow::Cow;
use std::cmp::Ordering;

use howdah_text::base64;
use howdah_text::wildcard::{self, Rules};

use super::context::{Context, Failure, MAX_TEXT_BYTES};
use super::scope::Scope;
use super::tree::{Comparison, Cond, Function, Order, Wildcard, Word};
use super::variable::Variable;
use super::{address, ascii, functions, operators};
use crate::record::Record;
use crate::support::client_address;
use crate::work;

/// An expression and a request.
pub(super) struct Evaluation<'a, 'c> {
    pub record: &'a Record,
    pub scope: &'a dyn Scope,
    pub context: &'c mut Context,
}

type Evaluated<'a> = Result<Cow<'a, [u8]>, Failure>;

impl<'a> Evaluation<'a, '_> {
    pub fn condition(&mut self, condition: &'a Cond) -> Result<bool, Failure> {
        Ok(match condition {
            Cond::Constant(value) => *value,
            Cond::Not(condition) => !self.condition(condition)?,
            Cond::Any(conditions) => {
                for condition in conditions {
                    if self.condition(condition)? {
                        return Ok(true);
                    }
                }
                false
            }
            Cond::All(conditions) => {
                for condition in conditions {
                    if !self.condition(condition)? {
                        return Ok(false);
                    }
                }
                true
            }
            Cond::Compare(left, comparison, right) => {
                let (left, right) = (self.word(left)?, self.word(right)?);
                compare(&left, *comparison, &right)
            }
            Cond::In(word, list) => {
                let word = self.word(word)?;
                // From the last one on, as by Apache: `Vary` has the fields up to the one that
                // matches.
                if work::must_stop() {
                    return Err(Failure::Overrun);
                }
                for element in list.iter().rev() {
                    if self.word(element)? == word {
                        return Ok(true);
                    }
                }
                false
            }
            Cond::Match { word, regex, is_negated } => {
                let word = self.word(word)?;
                let is_match = if regex.groups() == 0 {
                    regex.is_match(&word)?
                } else {
                    let captures = regex.captures(&word)?;
                    self.context.groups.captures = captures.unwrap_or(crate::regex::Captures::NONE);
                    self.context.groups.subject =
                        if captures.is_some() { word.into_owned() } else { Vec::new() };
                    captures.is_some()
                };
                is_match != *is_negated
            }
            Cond::Test(test, word) => {
                let word = self.word(word)?;
                if work::must_stop() {
                    return Err(Failure::Overrun);
                }
                operators::test(*test, &word, self.record, self.scope)
            }
            Cond::Wildcard(kind, text, pattern) => {
                let (text, pattern) = (self.word(text)?, self.word(pattern)?);
                let rules = Rules {
                    has_classes: true,
                    has_escapes: true,
                    is_path: *kind == Wildcard::Path,
                    ignores_case: *kind == Wildcard::IgnoreCase,
                };
                wildcard::matches(&pattern, &text, rules)
            }
            Cond::IpMatch(word, network) => {
                address::read(&self.word(word)?).is_some_and(|address| network.contains(address))
            }
            Cond::Client(network) => {
                client_address(self.record).is_some_and(|address| network.contains(address))
            }
        })
    }

    pub fn word(&mut self, word: &'a Word) -> Evaluated<'a> {
        Ok(match word {
            Word::Text(text) => Cow::Borrowed(text),
            Word::Variable(variable) => {
                if let Variable::Header(name) = variable {
                    self.varies_by(name.as_bytes());
                }
                variable.value(self.record, self.scope)
            }
            Word::Group(number) => {
                let groups = &self.context.groups;
                Cow::Owned(groups.captures.text(usize::from(*number), &groups.subject).to_vec())
            }
            Word::Concat(words) => {
                let mut text = Vec::new();
                for word in words {
                    text.extend_from_slice(&self.word(word)?);
                    if text.len() > MAX_TEXT_BYTES {
                        return Err(Failure::Other("String too long".to_owned()));
                    }
                }
                Cow::Owned(text)
            }
            Word::Call(function, argument) => {
                let argument = self.word(argument)?;
                if argument.len() > MAX_TEXT_BYTES {
                    return Err(Failure::Other("String too long".to_owned()));
                }
                if work::must_stop() {
                    return Err(Failure::Overrun);
                }
                self.call(*function, argument)
            }
        })
    }

    fn call(&mut self, function: Function, argument: Cow<'a, [u8]>) -> Cow<'a, [u8]> {
        let (record, scope) = (self.record, self.scope);
        let found: Option<&'a [u8]> = match function {
            Function::OsEnv => return Cow::Owned(scope.environment(&argument).unwrap_or_default()),
            Function::Env => {
                match record.notes.get(&argument).or_else(|| record.env.get(&argument)) {
                    None => return Cow::Owned(scope.environment(&argument).unwrap_or_default()),
                    found => found,
                }
            }
            Function::Response => {
                let headers = record.headers_out.get(&argument);
                headers.or_else(|| record.err_headers_out.get(&argument))
            }
            Function::Request => {
                self.varies_by(&argument);
                record.headers_in.get(&argument)
            }
            Function::RequestWithoutVary => record.headers_in.get(&argument),
            Function::Note => record.notes.get(&argument),
            Function::RequestEnv => record.env.get(&argument),
            Function::ToLower => return Cow::Owned(functions::change_case(argument, false)),
            Function::ToUpper => return Cow::Owned(functions::change_case(argument, true)),
            Function::Escape => return Cow::Owned(crate::uri::escaped(&argument)),
            Function::Unescape => return Cow::Owned(functions::unescape(&argument)),
            Function::Base64 => return Cow::Owned(base64::encode(&argument).into_bytes()),
            Function::Unbase64 => return Cow::Owned(functions::unbase64(&argument)),
            Function::Sha1 => return Cow::Owned(functions::sha1(&argument)),
            Function::Md5 => return Cow::Owned(functions::md5(&argument)),
            Function::Ldap => return Cow::Owned(functions::ldap(&argument)),
            Function::Ssl => return Cow::Owned(scope.ssl(record, &argument).unwrap_or_default()),
        };
        Cow::Borrowed(found.unwrap_or_default())
    }

    fn varies_by(&mut self, name: &[u8]) {
        // RFC 9110, section 12.5.5: every response depends on the host.
        if name.eq_ignore_ascii_case(b"Host") || self.context.vary.len() > MAX_TEXT_BYTES {
            return;
        }
        if !self.context.vary.is_empty() {
            self.context.vary.extend_from_slice(b", ");
        }
        self.context.vary.extend_from_slice(name);
    }
}

fn compare(left: &[u8], comparison: Comparison, right: &[u8]) -> bool {
    let (order, ordering) = match comparison {
        Comparison::Number(order) => (order, ascii::number(left).cmp(&ascii::number(right))),
        Comparison::Text(order) => (order, left.cmp(right)),
    };
    match order {
        Order::Equal => ordering == Ordering::Equal,
        Order::NotEqual => ordering != Ordering::Equal,
        Order::Less => ordering == Ordering::Less,
        Order::LessOrEqual => ordering != Ordering::Greater,
        Order::Greater => ordering == Ordering::Greater,
        Order::GreaterOrEqual => ordering != Ordering::Less,
    }
}
