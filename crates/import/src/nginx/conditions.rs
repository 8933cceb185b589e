//! Conditions of `if`.

use serde_json::{Value, json};

use super::context::Place;
use super::convert::Converter;
use super::pcre::{self, NO_EQUIVALENT};
use super::reader::Directive;
use super::state::{Captures, State};
use super::steps::object;
use super::template::Template;
use super::variables::{Object, Reason};

/// A condition.
#[derive(Debug)]
pub struct Condition {
    /// The conditions of a step.
    pub matches: Object,
    /// The comparison of a text, unless the condition is about files.
    pub test: Option<Test>,
    /// The expression whose groups have values then.
    pub captures: Option<Captures>,
}

/// A comparison of a text with patterns, the first of which that matches counts.
#[derive(Debug)]
pub struct Test {
    /// The text that is compared, with variables.
    pub subject: Template,
    /// Patterns in the grammar of a document, each with true if the condition holds for its texts.
    pub patterns: Vec<(String, bool)>,
    /// True if the condition holds for texts that no pattern matches.
    pub otherwise: bool,
}

impl Test {
    /// Makes the definition of a variable with one value if the condition holds, and another one
    /// if it does not.
    pub fn definition(&self, yes: &Template, no: &Template) -> Value {
        // A `$1` in a value would be a group of the pattern.
        let value = |holds: bool| if holds { yes.render() } else { no.render() };
        let values: Object = self
            .patterns
            .iter()
            .map(|(pattern, holds)| (pattern.clone(), value(*holds).into()))
            .collect();
        json!({ "map": self.subject.render(), "values": values, "default": value(self.otherwise) })
    }
}

impl<'t> Converter<'_> {
    /// Reads the condition of an `if`.
    pub fn condition(
        &mut self,
        directive: &'t Directive,
        place: &Place<'t>,
        state: &State,
    ) -> Result<Condition, Reason> {
        let words = words(directive);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            [file, name] if file.trim_start_matches('!').starts_with('-') => {
                self.file_condition(file, name, place, state)
            }
            [name] if name.starts_with('$') => {
                let subject = self.value(name, place, state)?;
                let test =
                    Test { subject, patterns: vec![("~^0?$".to_owned(), false)], otherwise: true };
                Ok(self.tested("is_set", test, None))
            }
            [name, sign, value] if name.starts_with('$') => {
                let subject = self.value(name, place, state)?;
                self.comparison(name, subject, sign, value, place, state)
            }
            _ => Err("the condition is none of nginx's".to_owned()),
        }
    }

    fn comparison(
        &mut self,
        name: &str,
        subject: Template,
        sign: &str,
        value: &str,
        place: &Place<'t>,
        state: &State,
    ) -> Result<Condition, Reason> {
        let is_positive = !sign.starts_with('!');
        let negation = if is_positive { "" } else { "!" };
        if matches!(sign, "=" | "!=") {
            let value = self.value(value, place, state)?;
            let Some(value) = value.constant() else {
                return Err("two values of a request are not compared".to_owned());
            };
            let pattern = format!("~^{}$", pcre::escape(value));
            let is_plain = !value.is_empty()
                && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
            let matches = match name {
                "$request_method" if is_plain => {
                    Some(object([("method", format!("{negation}{value}").into())]))
                }
                "$host" if is_plain => Some(object([(
                    "host",
                    format!("{negation}{}", value.to_ascii_lowercase()).into(),
                )])),
                "$scheme" if matches!(value, "http" | "https") => {
                    let is_https = (value == "https") == is_positive;
                    Some(object([("scheme", if is_https { "https" } else { "http" }.into())]))
                }
                _ => None,
            };
            let test =
                Test { subject, patterns: vec![(pattern, is_positive)], otherwise: !is_positive };
            return Ok(match matches {
                Some(matches) => Condition { matches, test: Some(test), captures: None },
                None => self.tested("is_equal", test, None),
            });
        }
        let any_case = match sign {
            "~" | "!~" => false,
            "~*" | "!~*" => true,
            _ => return Err(format!("\"{sign}\" is no comparison of nginx")),
        };
        let expression = pcre::convert(value, any_case).ok_or(NO_EQUIVALENT)?;
        let mut patterns: Vec<_> = expression
            .excluded
            .iter()
            .map(|excluded| (format!("~{excluded}"), !is_positive))
            .collect();
        patterns.push((format!("~{}", expression.text), is_positive));
        let captures = is_positive.then(|| Captures {
            subject: subject.clone(),
            expression: expression.clone(),
            is_direct: false,
        });
        let test = Test { subject, patterns, otherwise: !is_positive };
        let is_path = test.subject.only_variable() == Some("uri");
        if is_path && (is_positive || expression.excluded.is_empty()) {
            let matches =
                super::steps::uri(format!("{negation}~{}", expression.text), &expression.excluded);
            return Ok(Condition { matches, test: Some(test), captures });
        }
        Ok(self.tested("is_like", test, captures))
    }

    /// Makes a condition of a comparison.
    fn tested(&mut self, hint: &str, test: Test, captures: Option<Captures>) -> Condition {
        let name = self.define(hint, test.definition(&Template::text("1"), &Template::default()));
        let matches = object([("if", format!("${name}").into())]);
        Condition { matches, test: Some(test), captures }
    }

    fn file_condition(
        &mut self,
        sign: &str,
        name: &str,
        place: &Place<'t>,
        state: &State,
    ) -> Result<Condition, Reason> {
        let (negation, letter) = match sign.strip_prefix('!') {
            Some(letter) => ("!", letter),
            None => ("", sign),
        };
        let key = match letter {
            "-f" => "file",
            "-d" => "directory",
            "-e" => "exists",
            "-x" => "executable",
            _ => return Err(format!("\"{sign}\" is no test of nginx")),
        };
        let name = self.value(name, place, state)?;
        if !name.beginning().starts_with('/') {
            return Err("a request would choose the whole name of a file".to_owned());
        }
        let matches = object([(key, format!("{negation}{}", name.render()).into())]);
        Ok(Condition { matches, test: None, captures: None })
    }
}

/// Returns the words of a condition without its parentheses.
fn words(directive: &Directive) -> Vec<String> {
    let mut words = directive.args.clone();
    if let Some(first) = words.first_mut() {
        *first = first.strip_prefix('(').unwrap_or(first).to_owned();
    }
    if words.first().is_some_and(String::is_empty) && words.len() > 1 {
        words.remove(0);
    }
    if let Some(last) = words.last_mut() {
        *last = last.strip_suffix(')').unwrap_or(last).to_owned();
    }
    if words.last().is_some_and(String::is_empty)
        && words.len() > 1
        && directive.args.last().is_some_and(|last| last == ")")
    {
        words.pop();
    }
    words
}
