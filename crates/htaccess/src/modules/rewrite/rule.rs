//! `RewriteRule`: a pattern, a substitution, and flags.

use super::arguments::{each_flag, unknown_flag, words};
use super::condition::Condition;
use super::template::{Segment, Template};
use crate::expr::number;
use crate::regex::Regex;

/// Number of rounds after which `[N]` ends, without a number of its own.
const MAX_ROUNDS: u32 = 32_000;

/// A rule, compiled.
#[derive(Debug)]
pub(super) struct Rule {
    pub regex: Regex,
    pub is_negated: bool,
    pub conditions: Vec<Condition>,
    /// `None` for `-`, and for flags that answer at once.
    pub substitution: Option<Template>,
    /// True if the substitution begins with two slashes.
    pub has_double_slash: bool,
    pub flags: Flags,
    /// True if anything refers to a group of the pattern, of the conditions' patterns.
    pub uses_groups: bool,
    pub uses_cond_groups: bool,
    pub file: std::sync::Arc<str>,
    pub line: u32,
}

/// Flags of a rule.
#[derive(Debug, Default)]
pub(super) struct Flags {
    pub escape: Option<Escape>,
    pub is_chained: bool,
    pub cookies: Vec<Template>,
    pub discards_path_info: bool,
    pub env: Vec<Template>,
    pub ends: bool,
    pub handler: Option<Template>,
    pub mime_type: Option<Template>,
    pub is_last: bool,
    /// `N`, with its limit.
    pub rounds: Option<u32>,
    pub keeps_escapes: bool,
    pub skips_sub_requests: bool,
    pub ignores_case: bool,
    pub is_proxy: bool,
    pub passes_through: bool,
    pub appends_query: bool,
    pub discards_query: bool,
    /// The query begins at the last question mark.
    pub splits_last: bool,
    /// The substitution has no query.
    pub drops_query: bool,
    pub is_redirect: bool,
    /// True if the rule answers at once: `F`, `G`, `R=404`.
    pub answers: bool,
    /// Status of the answer or of the redirect; 0 if it is not a number.
    pub status: u16,
    pub skip: usize,
    pub allows_question_mark: bool,
    pub keeps_slashes: bool,
}

/// Escaping of back-references.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Escape {
    /// `B=`: only these.
    pub only: Option<Vec<u8>>,
    /// `BNE=`: all but these.
    pub except: Option<Vec<u8>>,
    /// `BNP`: a space is `%20`, not a plus sign.
    pub is_without_plus: bool,
    /// `BCTLS`: only spaces and control characters, and those of `B=`.
    pub is_for_controls: bool,
}

impl Rule {
    /// Parses the arguments of the directive. The error is Apache's text.
    pub fn parse(
        line: &[u8],
        conditions: Vec<Condition>,
        place: &crate::directive::Place<'_>,
    ) -> Result<Rule, String> {
        let Some(words) = words(line) else {
            let line = String::from_utf8_lossy(line);
            return Err(format!("RewriteRule: bad argument line '{line}'"));
        };
        let mut flags = Flags { status: 302, ..Flags::default() };
        if let Some(texts) = words.third {
            let mut escape = Escape::default();
            let mut escapes = false;
            each_flag(texts, |name, value| match name.first().map(u8::to_ascii_lowercase) {
                Some(b'b') => escape_flag(&mut escape, &mut escapes, name, value),
                _ => flags.set(name, value),
            })
            .map_err(|error| format!("RewriteRule: {error}"))?;
            flags.escape = escapes.then_some(escape);
        }
        let (is_negated, pattern) = match words.first {
            [b'!', pattern @ ..] => (true, pattern),
            pattern => (false, pattern),
        };
        let regex = Regex::new(pattern, flags.ignores_case).map_err(|_| {
            let pattern = String::from_utf8_lossy(pattern);
            format!("RewriteRule: cannot compile regular expression '{pattern}'")
        })?;
        let mut output = words.second;
        if let [rest @ .., b'?'] = output {
            if flags.appends_query {
                flags.splits_last = true;
            } else {
                flags.drops_query = true;
                output = rest;
            }
        } else if flags.discards_query && !output.contains(&b'?') {
            flags.drops_query = true;
        }
        let substitution =
            (words.second != b"-" && !flags.answers).then(|| Template::parse(output));
        let mut rule = Rule {
            regex,
            is_negated,
            conditions,
            substitution,
            has_double_slash: output.starts_with(b"//"),
            flags,
            uses_groups: false,
            uses_cond_groups: false,
            file: place.file.into(),
            line: place.line,
        };
        rule.uses_groups = rule.refers_to(&|segment| matches!(segment, Segment::RuleGroup(_)));
        rule.uses_cond_groups = rule.refers_to(&|segment| matches!(segment, Segment::CondGroup(_)));
        Ok(rule)
    }

    fn refers_to(&self, has: &impl Fn(&Segment) -> bool) -> bool {
        let flags = &self.flags;
        let own = self.substitution.iter().chain(&flags.env).chain(&flags.cookies);
        let mut templates = own.chain(&flags.handler).chain(&flags.mime_type);
        templates.any(|template| template.any(has))
            || self.conditions.iter().any(|condition| condition.input.any(has))
    }
}

fn escape_flag(
    escape: &mut Escape,
    escapes: &mut bool,
    name: &[u8],
    value: &[u8],
) -> Result<(), String> {
    match name.to_ascii_lowercase().as_slice() {
        b"b" | b"backrefescaping" => {
            *escapes = true;
            if !value.is_empty() {
                escape.only = Some(value.to_vec());
            }
        }
        b"bne" if value.is_empty() => {
            return Err("flag 'BNE' wants a list of characters (i.e. [BNE=...])".to_owned());
        }
        b"bne" => escape.except = Some(value.to_vec()),
        b"bnp" | b"backrefernoplus" => escape.is_without_plus = true,
        b"bctls" => {
            *escapes = true;
            escape.is_for_controls = true;
        }
        _ => return Err(unknown_flag(name)),
    }
    Ok(())
}

impl Flags {
    fn set(&mut self, name: &[u8], value: &[u8]) -> Result<(), String> {
        match name.to_ascii_lowercase().as_slice() {
            b"c" | b"chain" => self.is_chained = true,
            b"co" | b"cookie" => self.cookies.push(Template::parse(value)),
            b"d" | b"dpi" | b"discardpath" => self.discards_path_info = true,
            // Apache ignores unknown flags with this letter.
            [b'd', ..] => {}
            b"e" | b"env" => self.env.push(Template::parse(value)),
            b"end" => self.ends = true,
            b"f" | b"forbidden" => self.answer(403),
            b"g" | b"gone" => self.answer(410),
            b"h" | b"handler" => self.handler = Some(Template::parse(value)),
            b"l" | b"last" => self.is_last = true,
            b"ne" | b"noescape" => self.keeps_escapes = true,
            b"n" | b"next" => {
                let most = u32::try_from(number(value).clamp(0, i64::from(MAX_ROUNDS)));
                self.rounds = Some(if value.is_empty() { MAX_ROUNDS } else { most.unwrap_or(0) });
            }
            b"ns" | b"nosubreq" => self.skips_sub_requests = true,
            b"nc" | b"nocase" => self.ignores_case = true,
            b"p" | b"proxy" => self.is_proxy = true,
            b"pt" | b"passthrough" => self.passes_through = true,
            b"qsa" | b"qsappend" => self.appends_query = true,
            b"qsd" | b"qsdiscard" => self.discards_query = true,
            b"qsl" | b"qslast" => self.splits_last = true,
            b"r" | b"redirect" => self.redirect(value)?,
            b"s" | b"skip" => self.skip = usize::try_from(number(value)).unwrap_or(0),
            b"t" | b"type" => self.mime_type = Some(Template::parse(value)),
            // Only rules of the server itself look at the file system.
            b"unsafeprefixstat" => {}
            b"unsafeallow3f" => self.allows_question_mark = true,
            b"unc" => self.keeps_slashes = true,
            _ => return Err(unknown_flag(name)),
        }
        Ok(())
    }

    fn redirect(&mut self, value: &[u8]) -> Result<(), String> {
        self.is_redirect = true;
        let status = match value.to_ascii_lowercase().as_slice() {
            b"" => return Ok(()),
            b"permanent" => 301,
            b"temp" => 302,
            b"seeother" => 303,
            [b'0'..=b'9', ..] => {
                let status = u16::try_from(number(value)).unwrap_or(0);
                if !is_known_status(status) {
                    let value = String::from_utf8_lossy(value);
                    return Err(format!("invalid HTTP response code '{value}' for flag 'R'"));
                }
                status
            }
            _ => 0,
        };
        self.answers |= status != 0 && !(300..400).contains(&status);
        self.status = status;
        Ok(())
    }

    fn answer(&mut self, status: u16) {
        self.answers = true;
        self.status = status;
    }
}

/// Returns true if Apache has a reason phrase for a status.
fn is_known_status(status: u16) -> bool {
    matches!(
        status,
        100..=102
            | 200..=208
            | 226
            | 300..=305
            | 307..=308
            | 400..=417
            | 421..=424
            | 426
            | 428..=429
            | 431
            | 451
            | 500..=508
            | 510..=511
    )
}
