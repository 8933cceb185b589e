//! Patterns that routes compare with parts of a request.
//!
//! A pattern is text in which `*` stands for any bytes, or a regular expression after `~`. A
//! leading `!` negates it. Comparing does not allocate; with `*` it takes linear time: each piece
//! is matched at its leftmost place, which is always right, so there is no backtracking.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use howdah_text::percent;
use memchr::memmem::Finder;
use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::literal::{ExtractKind, Extractor};
use regex_syntax::hir::{Hir, Look, LookSet};

use crate::shown::Shown;

/// The part of a request that a pattern is compared with. It determines case and encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// The value of a query argument, decoded; the pattern is written percent-encoded.
    Argument,
    /// The value of a cookie.
    Cookie,
    /// The value of a header field; upper and lower case are the same.
    Header,
    /// The host, in lower case.
    Host,
    /// The method, in upper case.
    Method,
    /// A media type; upper and lower case are the same.
    MimeType,
    /// The query, decoded; the pattern is written percent-encoded.
    Query,
    /// The decoded path; the pattern is written percent-encoded.
    Uri,
}

/// A pattern.
#[derive(Debug, Clone)]
pub struct Pattern {
    negative: bool,
    test: Test,
}

/// A list of patterns. It accepts bytes if no negative pattern matches and, if there are positive
/// patterns, one of them matches. An empty list accepts everything.
#[derive(Debug, Clone, Default)]
pub struct Patterns {
    excluding: Vec<Pattern>,
    including: Vec<Pattern>,
}

/// Texts, one of which accepted bytes must have: keys for an index of many lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequiredTexts<'p> {
    /// The bytes equal one of the texts.
    Whole(Vec<&'p [u8]>),
    /// The bytes start with one of the texts.
    Start(Vec<&'p [u8]>),
    /// The bytes end with one of the texts.
    End(Vec<&'p [u8]>),
}

impl<'p> RequiredTexts<'p> {
    /// Returns the texts.
    pub fn texts(&self) -> impl Iterator<Item = &'p [u8]> + '_ {
        let (Self::Whole(texts) | Self::Start(texts) | Self::End(texts)) = self;
        texts.iter().copied()
    }
}

/// Reason why a string is not a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatternError {
    /// Two `*` follow each other.
    DoubleStar,
    /// A `%` is not followed by two hexadecimal digits.
    Encoding,
    /// nginx's `~*` for case-insensitive expressions, with the text behind it.
    NginxAnyCase(String),
    /// The regular expression is malformed, too large, or uses look-around or back-references.
    Regex(String),
}

#[derive(Debug, Clone)]
enum Test {
    Exact { text: Box<[u8]>, any_case: bool },
    Glob(Box<Glob>),
    Regex(Arc<Expression>),
}

/// Expressions in use, by their texts: many sites have the same ones, and each takes time and memory.
static IN_USE: Mutex<BTreeMap<String, Weak<Expression>>> = Mutex::new(BTreeMap::new());

/// A regular expression, and the texts that its matches start or end with.
#[derive(Debug, Clone)]
struct Expression {
    regex: Regex,
    starts: Vec<Box<[u8]>>,
    ends: Vec<Box<[u8]>>,
}

/// Text with at least one `*`, split at each `*`.
#[derive(Debug, Clone)]
struct Glob {
    prefix: Box<[u8]>,
    middle: Vec<Finder<'static>>,
    suffix: Box<[u8]>,
    any_case: bool,
}

impl Pattern {
    /// Reads a pattern for a part of the request.
    pub fn parse(text: &str, subject: Subject) -> Result<Pattern, PatternError> {
        let (negative, text) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let test = match text.strip_prefix('~') {
            Some(expression) => match expression.strip_prefix('*') {
                Some(rest) => return Err(PatternError::NginxAnyCase(rest.trim().to_owned())),
                None if subject == Subject::Method => {
                    Test::Regex(Expression::shared(&format!("(?i:{expression})"))?)
                }
                None => Test::Regex(Expression::shared(expression)?),
            },
            None => Test::text(text, subject)?,
        };
        Ok(Pattern { negative, test })
    }

    /// Returns true if the pattern, with its `!`, accepts these bytes.
    pub fn matches(&self, bytes: &[u8]) -> bool {
        self.test.finds(bytes) != self.negative
    }

    /// Returns the regular expression, if the pattern is one.
    pub(crate) fn regex(&self) -> Option<&Regex> {
        match &self.test {
            Test::Regex(expression) => Some(&expression.regex),
            _ => None,
        }
    }
}

impl Patterns {
    /// Adds a pattern.
    pub fn push(&mut self, pattern: Pattern) {
        if pattern.negative { self.excluding.push(pattern) } else { self.including.push(pattern) }
    }

    /// Returns true if the list accepts these bytes.
    pub fn matches(&self, bytes: &[u8]) -> bool {
        self.excluding.iter().all(|pattern| pattern.matches(bytes))
            && (self.including.is_empty()
                || self.including.iter().any(|pattern| pattern.matches(bytes)))
    }

    /// Returns true if the list accepts one of these texts for the same thing and excludes none of
    /// them.
    pub fn matches_any(&self, texts: &[&[u8]]) -> bool {
        self.excluding.iter().all(|pattern| texts.iter().all(|text| pattern.matches(text)))
            && (self.including.is_empty()
                || self
                    .including
                    .iter()
                    .any(|pattern| texts.iter().any(|text| pattern.matches(text))))
    }

    /// Returns the patterns without `!`, in order. The first match accepts.
    pub(crate) fn accepting(&self) -> impl Iterator<Item = &Pattern> + Clone {
        self.including.iter()
    }

    /// Returns texts, one of which accepted bytes must have: keys for an index of many lists.
    /// `None` if there are none or case is ignored.
    pub fn required_texts(&self) -> Option<RequiredTexts<'_>> {
        let collect = |texts: fn(&Test) -> Vec<&[u8]>| {
            let mut all = Vec::new();
            for pattern in &self.including {
                let own = texts(&pattern.test);
                if own.is_empty() {
                    return None;
                }
                all.extend(own);
            }
            (!all.is_empty()).then_some(all)
        };
        collect(Test::whole)
            .map(RequiredTexts::Whole)
            .or_else(|| collect(Test::start).map(RequiredTexts::Start))
            .or_else(|| collect(Test::end).map(RequiredTexts::End))
    }
}

impl Test {
    fn text(text: &str, subject: Subject) -> Result<Test, PatternError> {
        if text.contains("**") {
            return Err(PatternError::DoubleStar);
        }
        // Split before decoding: an encoded `*` is a literal one.
        let mut pieces = Vec::new();
        for piece in text.split('*') {
            pieces.push(subject.normalise(piece).ok_or(PatternError::Encoding)?);
        }
        let any_case = matches!(subject, Subject::Header | Subject::MimeType);
        let mut pieces = pieces.into_iter();
        // Splitting gives at least one piece.
        let prefix = pieces.next().unwrap_or_default().into_boxed_slice();
        let Some(suffix) = pieces.next_back() else {
            return Ok(Test::Exact { text: prefix, any_case });
        };
        let middle = pieces.map(|piece| Finder::new(&piece).into_owned()).collect();
        Ok(Test::Glob(Box::new(Glob {
            prefix,
            middle,
            suffix: suffix.into_boxed_slice(),
            any_case,
        })))
    }

    /// Returns the text that matches, if there is only one.
    fn whole(&self) -> Vec<&[u8]> {
        match self {
            Test::Exact { text, any_case: false } => vec![text],
            _ => Vec::new(),
        }
    }

    /// Returns the texts that matches start with; none if they are not known.
    fn start(&self) -> Vec<&[u8]> {
        match self {
            Test::Glob(glob) if !glob.any_case && !glob.prefix.is_empty() => vec![&glob.prefix],
            Test::Regex(expression) => expression.starts.iter().map(|text| &**text).collect(),
            test => test.whole(),
        }
    }

    /// Returns the texts that matches end with; none if they are not known.
    fn end(&self) -> Vec<&[u8]> {
        match self {
            Test::Glob(glob) if !glob.any_case && !glob.suffix.is_empty() => vec![&glob.suffix],
            Test::Regex(expression) => expression.ends.iter().map(|text| &**text).collect(),
            test => test.whole(),
        }
    }

    fn finds(&self, bytes: &[u8]) -> bool {
        match self {
            Test::Exact { text, any_case } => equal(bytes, text, *any_case),
            Test::Glob(glob) => glob.finds(bytes),
            Test::Regex(expression) => expression.regex.is_match(bytes),
        }
    }
}

impl Glob {
    fn finds(&self, bytes: &[u8]) -> bool {
        // Prefix and suffix must not overlap, so the suffix is compared with the rest.
        let Some((head, rest)) = bytes.split_at_checked(self.prefix.len()) else { return false };
        let Some(end) = rest.len().checked_sub(self.suffix.len()) else { return false };
        let Some((mut rest, tail)) = rest.split_at_checked(end) else { return false };
        if !equal(head, &self.prefix, self.any_case) || !equal(tail, &self.suffix, self.any_case) {
            return false;
        }
        for piece in &self.middle {
            let needle = piece.needle();
            let found = if !self.any_case {
                piece.find(rest)
            } else if needle.is_empty() {
                Some(0)
            } else {
                rest.windows(needle.len()).position(|w| w.eq_ignore_ascii_case(needle))
            };
            let Some(after) = found.and_then(|at| rest.get(at + needle.len()..)) else {
                return false;
            };
            rest = after;
        }
        true
    }
}

impl Subject {
    /// Converts a piece of a pattern to the form of the request's part. `None`: malformed encoding.
    fn normalise(self, piece: &str) -> Option<Vec<u8>> {
        match self {
            Subject::Cookie | Subject::Header => Some(piece.as_bytes().to_vec()),
            Subject::Host | Subject::MimeType => Some(piece.as_bytes().to_ascii_lowercase()),
            Subject::Method => Some(piece.as_bytes().to_ascii_uppercase()),
            Subject::Uri => percent::decode(piece.as_bytes()),
            Subject::Argument | Subject::Query => percent::decode_form(piece.as_bytes()),
        }
    }
}

fn equal(bytes: &[u8], text: &[u8], any_case: bool) -> bool {
    if text.is_empty() {
        // An empty box has no memory: some processors take 60 ns to compare zero bytes at its
        // address.
        return bytes.is_empty();
    }
    if any_case { bytes.eq_ignore_ascii_case(text) } else { bytes == text }
}

impl Expression {
    /// Returns the expression with this text, compiled unless it is in use.
    fn shared(text: &str) -> Result<Arc<Expression>, PatternError> {
        let mut in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = in_use.get(text).and_then(Weak::upgrade) {
            return Ok(known);
        }
        let new = Arc::new(Expression::new(text)?);
        if in_use.len().is_power_of_two() {
            in_use.retain(|_, known| known.strong_count() > 0);
        }
        in_use.insert(text.to_owned(), Arc::downgrade(&new));
        Ok(new)
    }

    /// Compiles an expression that works on bytes, with ASCII classes, as PCRE does without its UTF
    /// mode.
    fn new(expression: &str) -> Result<Expression, PatternError> {
        /// Maximum memory of one expression: `\w{1000}` is far below, `(a{1000}){1000}` exceeds
        /// it.
        const MAX_COMPILED_BYTES: usize = 1 << 20;
        let regex = RegexBuilder::new(expression)
            .unicode(false)
            .size_limit(MAX_COMPILED_BYTES)
            .dfa_size_limit(MAX_COMPILED_BYTES)
            .build()
            .map_err(|error| {
                // A syntax error shows the expression over several lines and ends with the reason.
                let text = error.to_string();
                let reason = text.lines().next_back().unwrap_or_default().trim();
                PatternError::Regex(reason.trim_start_matches("error: ").to_owned())
            })?;
        let parsed = ParserBuilder::new().unicode(false).utf8(false).build().parse(expression);
        let Ok(parsed) = parsed else {
            return Ok(Expression { regex, starts: Vec::new(), ends: Vec::new() });
        };
        let properties = parsed.properties();
        let anchored = |looks: LookSet, look: Look, kind: ExtractKind| {
            if looks.contains(look) { literals(&parsed, kind) } else { Vec::new() }
        };
        let starts = anchored(properties.look_set_prefix(), Look::Start, ExtractKind::Prefix);
        let ends = anchored(properties.look_set_suffix(), Look::End, ExtractKind::Suffix);
        Ok(Expression { regex, starts, ends })
    }
}

/// Returns the texts that matches of an expression start or end with; none if there are more than
/// `MAX_LITERALS` or one is empty.
fn literals(expression: &Hir, kind: ExtractKind) -> Vec<Box<[u8]>> {
    const MAX_LITERALS: usize = 16;
    let found = Extractor::new().kind(kind).limit_total(MAX_LITERALS).extract(expression);
    let literals = found.literals().unwrap_or_default();
    if literals.iter().any(|literal| literal.is_empty()) {
        Vec::new()
    } else {
        literals.iter().map(|literal| literal.as_bytes().into()).collect()
    }
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PatternError::DoubleStar => f.write_str("must not have two \"*\" in a row"),
            PatternError::Encoding => f.write_str(
                "must have two hexadecimal digits after each \"%\"; write %25 for \"%\"",
            ),
            PatternError::NginxAnyCase(expression) => write!(
                f,
                "begins with nginx's \"~*\"; write \"~(?i){}\" for upper and lower case alike",
                // As it is written in JSON.
                Shown(&expression.replace('\\', "\\\\"))
            ),
            PatternError::Regex(reason) => write!(f, "is no usable regular expression: {reason}"),
        }
    }
}

impl std::error::Error for PatternError {}

#[cfg(test)]
mod tests;
