//! Edge Side Includes: pages that are assembled from parts (W3C Note “ESI Language Specification 1.0”).
//!
//! | markup | effect |
//! | --- | --- |
//! | `<esi:include src="…" alt="…" onerror="continue"/>` | replaced by the response of another address |
//! | `<esi:remove>…</esi:remove>`, `<esi:comment text="…"/>` | removed |
//! | `<!--esi … -->` | the markers are removed; the content is processed |
//!
//! Everything else is text, also malformed markup and other elements of the language. Only a response that says so
//! with `Surrogate-Control: content="ESI/1.0"` is parsed. Parsing takes time in proportion to the page.

use std::borrow::Cow;
use std::ops::Range;

use howdah_http::message::FieldBlock;
use memchr::{memchr, memchr2, memmem};

use crate::control::{SURROGATE, values};
use crate::directives::directives;

/// Maximum number of includes of a page.
pub const MAX_INCLUDES: usize = 64;

/// Longest address of an include in bytes.
const MAX_ADDRESS: usize = 4096;

/// A part of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// Bytes of the page.
    Text(Range<usize>),
    /// The response of another address.
    Include(Include),
}

/// An include.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Include {
    /// Address.
    pub src: Vec<u8>,
    /// Address if the first one fails.
    pub alt: Option<Vec<u8>>,
    /// A failure leaves the include empty, instead of failing the page.
    pub continues: bool,
}

/// A page has more than [`MAX_INCLUDES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyIncludes;

/// Returns true if a response is to be assembled by this cache.
pub fn is_marked(fields: &FieldBlock) -> bool {
    values(fields, "surrogate-control").any(|value| {
        directives(value).any(|directive| {
            let argument = directive.argument.as_deref().unwrap_or_default();
            directive.is("content")
                && directive.is_for(SURROGATE)
                && argument.split(|byte| matches!(byte, b' ' | b';')).any(|name| name == b"ESI/1.0")
        })
    })
}

/// Returns true for the name of the field by which caches say what they can do, in any spelling that scripts take for it.
pub fn is_capability(name: &[u8]) -> bool {
    let plain = name.iter().map(|byte| match byte {
        b'_' | b'.' => b'-',
        byte => byte.to_ascii_lowercase(),
    });
    name.len() == 20 && plain.eq(*b"surrogate-capability")
}

/// Splits a page into its parts. Text is never empty, and adjacent only to what was removed.
///
/// # Errors
/// The page has too many includes.
pub fn parse(page: &[u8]) -> Result<Vec<Segment>, TooManyIncludes> {
    let mut parser = Parser {
        page,
        at: 0,
        text: 0,
        segments: Vec::new(),
        open: false,
        no_comment_ends: false,
        no_removal_ends: false,
    };
    let mut includes = 0;
    while let Some(start) = parser.next_markup() {
        match parser.markup(start) {
            None => parser.at = start + 1,
            Some((include, end)) => {
                parser.end_text(start);
                if let Some(include) = include {
                    includes += 1;
                    if includes > MAX_INCLUDES {
                        return Err(TooManyIncludes);
                    }
                    parser.segments.push(Segment::Include(include));
                }
                (parser.at, parser.text) = (end, end);
            }
        }
    }
    parser.end_text(page.len());
    Ok(parser.segments)
}

struct Parser<'p> {
    page: &'p [u8],
    /// Position of the next byte.
    at: usize,
    /// Start of the current text.
    text: usize,
    segments: Vec<Segment>,
    /// A comment `<!--esi` is open.
    open: bool,
    /// No comment ends after the current position.
    no_comment_ends: bool,
    /// No `<esi:remove>` ends after the current position.
    no_removal_ends: bool,
}

impl Parser<'_> {
    /// Returns the position of the next byte that may begin markup.
    fn next_markup(&self) -> Option<usize> {
        let rest = self.page.get(self.at..)?;
        let found = match self.open {
            true => memchr2(b'<', b'-', rest),
            false => memchr(b'<', rest),
        };
        found.map(|at| self.at + at)
    }

    fn end_text(&mut self, end: usize) {
        if self.text < end {
            self.segments.push(Segment::Text(self.text..end));
        }
    }

    /// Reads the markup at a position: its include, if it is one, and its end. `None` if it is text.
    fn markup(&mut self, start: usize) -> Option<(Option<Include>, usize)> {
        let rest = self.page.get(start..)?;
        if self.open && rest.starts_with(b"-->") {
            self.open = false;
            return Some((None, start + 3));
        }
        if !self.open && rest.starts_with(b"<!--esi") {
            // `<!--esi` is a word of its own.
            if !matches!(rest.get(7)?, b' ' | b'\t' | b'\r' | b'\n' | b'<') {
                return None;
            }
            // Without an end it is a usual comment.
            self.no_comment_ends = self.no_comment_ends || memmem::find(rest, b"-->").is_none();
            if self.no_comment_ends {
                return None;
            }
            self.open = true;
            return Some((None, start + 7));
        }
        for closing in [&b"</esi:include>"[..], b"</esi:comment>", b"</esi:remove>"] {
            if rest.starts_with(closing) {
                return Some((None, start + closing.len()));
            }
        }
        if rest.starts_with(b"<esi:remove>") {
            const END: &[u8] = b"</esi:remove>";
            let end = match self.no_removal_ends {
                true => None,
                false => memmem::find(rest, END),
            };
            self.no_removal_ends = end.is_none();
            let len = end.map_or(b"<esi:remove>".len(), |at| at + END.len());
            return Some((None, start + len));
        }
        if let Some((_, len)) = element(rest, b"<esi:comment") {
            return Some((None, start + len));
        }
        let (attributes, len) = element(rest, b"<esi:include")?;
        Some((Some(include(attributes)?), start + len))
    }
}

/// The attributes of an element: names and raw values.
type Attributes<'p> = Vec<(&'p [u8], &'p [u8])>;

/// Reads an element without content whose markup begins with `start`. Returns its attributes and its length. Values
/// have no `<` and `>`, so that the next one of them ends any malformed element.
fn element<'p>(markup: &'p [u8], start: &[u8]) -> Option<(Attributes<'p>, usize)> {
    let inner = markup.strip_prefix(start)?;
    let len = memchr2(b'<', b'>', inner).filter(|at| inner.get(*at) == Some(&b'>'))?;
    let inner = inner.get(..len)?;
    if !matches!(inner.first(), None | Some(b' ' | b'\t' | b'\r' | b'\n' | b'/')) {
        return None;
    }
    let mut rest = inner.strip_suffix(b"/").unwrap_or(inner).trim_ascii();
    let mut attributes = Vec::new();
    while !rest.is_empty() {
        let equals = memchr(b'=', rest)?;
        let name = rest.get(..equals)?.trim_ascii();
        let value = rest.get(equals + 1..)?.trim_ascii_start();
        let (quote @ (b'"' | b'\''), value) = value.split_first()? else { return None };
        let end = memchr(*quote, value)?;
        if name.is_empty() || !name.iter().all(|byte| byte.is_ascii_alphanumeric()) {
            return None;
        }
        attributes.push((name, value.get(..end)?));
        rest = value.get(end + 1..)?.trim_ascii();
    }
    Some((attributes, start.len() + len + 1))
}

/// Returns the include of its attributes. `None` without a usable address.
fn include(attributes: Attributes<'_>) -> Option<Include> {
    let value = |wanted: &[u8]| {
        attributes.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value)
    };
    let address = |value: &[u8]| {
        let text = unescape(value.trim_ascii()).into_owned();
        let is_usable = !text.is_empty() && text.len() <= MAX_ADDRESS;
        (is_usable && text.iter().all(|byte| *byte > b' ' && *byte != 0x7f)).then_some(text)
    };
    Some(Include {
        src: address(value(b"src")?)?,
        alt: value(b"alt").and_then(address),
        continues: value(b"onerror") == Some(b"continue"),
    })
}

/// Replaces the references of XML that an address may have.
fn unescape(value: &[u8]) -> Cow<'_, [u8]> {
    const REFERENCES: [(&[u8], u8); 4] =
        [(b"&amp;", b'&'), (b"&quot;", b'"'), (b"&apos;", b'\''), (b"&#039;", b'\'')];
    if memchr(b'&', value).is_none() {
        return Cow::Borrowed(value);
    }
    let mut text = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((&byte, after)) = rest.split_first() {
        let reference = REFERENCES.iter().find(|(reference, _)| rest.starts_with(reference));
        let (byte, length) = reference.map_or((byte, 1), |(name, byte)| (*byte, name.len()));
        text.push(byte);
        rest = rest.get(length..).unwrap_or(after);
    }
    Cow::Owned(text)
}

/// Returns the target of an address on this host: path and query. `None` for any other address, such as one of another
/// host or one relative to a page.
pub fn target<'a>(address: &'a [u8], host: &[u8]) -> Option<&'a [u8]> {
    let target = match address.strip_prefix(b"http://").or(address.strip_prefix(b"https://")) {
        None => address,
        Some(rest) => {
            let end = memchr2(b'/', b'?', rest).unwrap_or(rest.len());
            let (authority, target) = rest.split_at_checked(end)?;
            (!host.is_empty() && authority.eq_ignore_ascii_case(host)).then_some(target)?
        }
    };
    // Of a fragment, servers know nothing.
    let target = target.get(..memchr(b'#', target).unwrap_or(target.len()))?;
    // `//host/path` names another host.
    (target.starts_with(b"/") && !target.starts_with(b"//")).then_some(target)
}

#[cfg(test)]
#[path = "esi_tests.rs"]
mod tests;
