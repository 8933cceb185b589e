//! Fills in a template for a request.

use std::borrow::Cow;

use howdah_text::hex;

use super::pass::Pass;
use super::rule::Escape;
use super::template::{Lookup, Segment, Template};
use crate::expr::{Scope, Variable};
use crate::record::Record;
use crate::regex::Overrun;

/// Maximum length of a text that a template makes, in bytes.
const MAX_TEXT_BYTES: usize = 65_536;

/// Origin of a question mark.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Mark {
    #[default]
    None,
    /// The rule has it.
    Own,
    /// A group or a variable has it.
    Foreign,
}

/// Options of the expansion of a template.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Style<'a> {
    pub escape: Option<&'a Escape>,
    /// The last question mark is looked at, not the first.
    pub wants_last_mark: bool,
}

impl Pass<'_, '_> {
    /// Returns a template's text; a template of one segment is not copied.
    pub fn text<'s>(&'s self, template: &'s Template) -> Result<Cow<'s, [u8]>, Overrun> {
        match template.segments.as_slice() {
            [] => Ok(Cow::Borrowed(b"")),
            [segment] => self.segment(segment, Style::default()),
            _ => Ok(Cow::Owned(self.expand(template, Style::default())?.0)),
        }
    }

    /// Returns a template's text, and where its first (or last) question mark comes from.
    pub fn expand(
        &self,
        template: &Template,
        style: Style<'_>,
    ) -> Result<(Vec<u8>, Mark), Overrun> {
        let mut text = Vec::with_capacity(64);
        let mut mark = Mark::None;
        for segment in &template.segments {
            let part = self.segment(segment, style)?;
            if mark == Mark::None || style.wants_last_mark {
                match segment {
                    Segment::Literal { has_question_mark: true, .. } => mark = Mark::Own,
                    Segment::Literal { .. } => {}
                    _ if part.contains(&b'?') => mark = Mark::Foreign,
                    _ => {}
                }
            }
            if text.len() + part.len() > MAX_TEXT_BYTES {
                return Err(Overrun);
            }
            text.extend_from_slice(&part);
        }
        Ok((text, mark))
    }

    fn segment<'s>(
        &'s self,
        segment: &'s Segment,
        style: Style<'_>,
    ) -> Result<Cow<'s, [u8]>, Overrun> {
        let group = match segment {
            Segment::Literal { text, .. } => return Ok(Cow::Borrowed(text)),
            Segment::Lookup(lookup) => {
                let value = self.look_up(lookup, self.record);
                return if value.len() > MAX_TEXT_BYTES { Err(Overrun) } else { Ok(value) };
            }
            Segment::Map { name, key, default } => {
                let key = self.expand(key, style)?.0;
                return Ok(Cow::Owned(match self.scope.map(name, &key) {
                    Some(value) if value.len() > MAX_TEXT_BYTES => return Err(Overrun),
                    Some(value) => value,
                    None => self.expand(default, style)?.0,
                }));
            }
            Segment::RuleGroup(number) => self.rule_groups.text(usize::from(*number), self.path()),
            Segment::CondGroup(number) => {
                self.cond_groups.text(usize::from(*number), &self.cond_subject)
            }
        };
        Ok(match style.escape {
            Some(escape) => Cow::Owned(escape.apply(group)),
            None => Cow::Borrowed(group),
        })
    }

    fn look_up<'s>(&'s self, lookup: &'s Lookup, record: &'s Record) -> Cow<'s, [u8]> {
        let scope = self.scope;
        match lookup {
            Lookup::Nothing => Cow::Borrowed(b""),
            Lookup::Variable(Variable::Header(name)) => self.header(record, name.as_bytes()),
            Lookup::Header(name) => self.header(record, name),
            Lookup::Variable(variable) => variable.value(record, scope),
            Lookup::Env(name) => match record.notes.get(name).or_else(|| record.env.get(name)) {
                Some(value) => Cow::Borrowed(value),
                None => Cow::Owned(scope.environment(name).unwrap_or_default()),
            },
            Lookup::Ssl(name) => Cow::Owned(scope.ssl(record, name).unwrap_or_default()),
            Lookup::AheadUrl(_) | Lookup::AheadFile(_) if !may_look_up(scope, record) => {
                Cow::Borrowed(b"")
            }
            Lookup::AheadUrl(inner) => {
                let found = match self.path() {
                    path if path.starts_with(b"/") => scope.look_up_uri(record, path),
                    path => {
                        let base = self.config.base.as_deref().unwrap_or(&self.config.directory);
                        scope.look_up_uri(record, &[base, path].concat())
                    }
                };
                Cow::Owned(self.look_up(inner, &found).into_owned())
            }
            Lookup::AheadFile(inner) => {
                let found = match self.path() {
                    // The path of the file is not known for a URL.
                    path if path.starts_with(b"/") => scope.look_up_uri(record, path),
                    path => {
                        let path = [self.config.directory.as_slice(), path].concat();
                        scope.look_up_file(record, &path)
                    }
                };
                Cow::Owned(self.look_up(inner, &found).into_owned())
            }
        }
    }

    fn header<'s>(&'s self, record: &'s Record, name: &[u8]) -> Cow<'s, [u8]> {
        let Some(value) = record.headers_in.get(name) else { return Cow::Borrowed(b"") };
        if !name.eq_ignore_ascii_case(b"Host") {
            let mut vary = self.vary_now.borrow_mut();
            if vary.len() < MAX_TEXT_BYTES {
                if !vary.is_empty() {
                    vary.extend_from_slice(b", ");
                }
                vary.extend_from_slice(name);
            }
        }
        Cow::Borrowed(value)
    }
}

/// Returns false in a sub-request for the path of its main request, which would recurse.
pub(super) fn may_look_up(scope: &dyn Scope, record: &Record) -> bool {
    !record.is_sub_request || scope.main_uri(record).is_some_and(|main| main != record.uri)
}

impl Escape {
    /// Escapes a group.
    fn apply(&self, text: &[u8]) -> Vec<u8> {
        let mut escaped = Vec::with_capacity(text.len());
        let lists =
            |list: &Option<Vec<u8>>, byte| list.as_ref().is_some_and(|list| list.contains(&byte));
        for &byte in text {
            let is_control = byte <= b' ' || byte == 127;
            let is_escaped = if self.is_for_controls { is_control } else { self.only.is_none() };
            let is_escaped = is_escaped || lists(&self.only, byte);
            if !is_escaped
                || lists(&self.except, byte)
                || byte.is_ascii_alphanumeric()
                || byte == b'_'
            {
                escaped.push(byte);
            } else if byte == b' ' && !self.is_without_plus {
                escaped.push(b'+');
            } else {
                escaped.push(b'%');
                escaped.extend(hex::lower_digits(byte));
            }
        }
        escaped
    }
}
