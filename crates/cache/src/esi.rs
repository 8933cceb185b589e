//! Edge Side Includes: pages that are assembled from parts (W3C Note “ESI Language Specification
//! 1.0”).
//!
//! | markup | effect |
//! | --- | --- |
//! | `<esi:include src="…" alt="…" onerror="continue"/>` | replaced by another response |
//! | `<esi:remove>…</esi:remove>`, `<esi:comment text="…"/>` | removed |
//! | `<!--esi … -->` | the markers are removed; the content is processed |
//!
//! Everything else is text, also malformed markup and other elements of the language. Only a
//! response that says so with `Surrogate-Control: content="ESI/1.0"` is parsed. Parsing takes time
//! in proportion to the page.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use howdah_http::message::FieldBlock;
use memchr::{memchr, memchr2, memmem};

use crate::control::{SURROGATE, values};
use crate::directives::directives;

/// Maximum number of includes of a page.
pub const MAX_INCLUDES: usize = 64;

/// Longest address of an include in bytes.
const MAX_ADDRESS: usize = 4096;

/// Maximum number of elements and markers of a page.
pub const MAX_MARKUP: usize = 4096;

/// Longest element in bytes; a longer one is text.
const MAX_ELEMENT_BYTES: usize = 64 << 10;

/// Number of bytes, and of words that may be markup, after which a step ends.
const STEP_BYTES: usize = 128 << 10;
const STEP_WORDS: usize = 1024;

/// End of a comment.
const COMMENT_END: &[u8] = b"-->";

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

/// Reason why a page is not assembled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TooMuch {
    /// More than [`MAX_INCLUDES`] includes.
    Includes,
    /// More than [`MAX_MARKUP`] elements and markers.
    Markup,
}

impl fmt::Display for TooMuch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TooMuch::Includes => write!(f, "more than {MAX_INCLUDES} parts"),
            TooMuch::Markup => write!(f, "more than {MAX_MARKUP} elements of ESI"),
        }
    }
}

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

/// Returns true for the name of the field by which caches state their capabilities, in any spelling
/// that scripts take for it.
pub fn is_capability(name: &[u8]) -> bool {
    let plain = name.iter().map(|byte| match byte {
        b'_' | b'.' => b'-',
        byte => byte.to_ascii_lowercase(),
    });
    name.len() == 20 && plain.eq(*b"surrogate-capability")
}

/// Splits a page into its parts. Text is never empty, and no two parts of text are adjacent unless
/// something was removed between them.
///
/// # Errors
/// The page has too many elements.
pub fn parse(page: &[u8]) -> Result<Vec<Segment>, TooMuch> {
    let mut parser = Parser::new(page);
    while !parser.step()? {}
    Ok(parser.into_segments())
}

/// A page that is split into its parts in steps, so that others have their turn between them.
#[derive(Debug)]
pub struct Parser<'p> {
    page: &'p [u8],
    /// Position of the next byte.
    at: usize,
    /// Start of the current text.
    text: usize,
    segments: Vec<Segment>,
    includes: usize,
    markup: usize,
    /// End of the open comment `<!--esi`; the length of the page if it has lost its end to a
    /// removal.
    comment_end: Option<usize>,
    /// No comment ends after the current position.
    no_comment_ends: bool,
    /// No `<esi:remove>` ends after the current position.
    no_removal_ends: bool,
}

impl<'p> Parser<'p> {
    /// Begins with a page.
    pub fn new(page: &'p [u8]) -> Parser<'p> {
        Parser {
            page,
            at: 0,
            text: 0,
            segments: Vec::new(),
            includes: 0,
            markup: 0,
            comment_end: None,
            no_comment_ends: false,
            no_removal_ends: false,
        }
    }

    /// Continues for at most a fraction of a millisecond, or to the next word `esi`. Returns true
    /// at the end of the page.
    ///
    /// # Errors
    /// The page has too many elements.
    pub fn step(&mut self) -> Result<bool, TooMuch> {
        let stop = self.at.saturating_add(STEP_BYTES);
        for _ in 0..STEP_WORDS {
            if self.at >= stop {
                return Ok(false);
            }
            let Some((start, next)) = self.next_word() else {
                self.end_text(self.page.len());
                self.at = self.page.len();
                return Ok(true);
            };
            self.at = next;
            let Some((include, end)) = start.and_then(|start| self.markup(start)) else { continue };
            self.end_text(start.unwrap_or(next));
            self.markup += 1;
            if self.markup > MAX_MARKUP {
                return Err(TooMuch::Markup);
            }
            if let Some(include) = include {
                self.includes += 1;
                if self.includes > MAX_INCLUDES {
                    return Err(TooMuch::Includes);
                }
                self.segments.push(Segment::Include(include));
            }
            (self.at, self.text) = (end, end);
        }
        Ok(false)
    }

    /// Returns the parts that were found.
    pub fn into_segments(self) -> Vec<Segment> {
        self.segments
    }

    /// Returns where the next markup may begin, which has the word `esi` in it or ends a comment,
    /// and the position after the word. `None` as the first: the word is text.
    fn next_word(&mut self) -> Option<(Option<usize>, usize)> {
        let find =
            |word: &[u8]| memmem::find(self.page.get(self.at..)?, word).map(|at| self.at + at);
        if self.comment_end.is_some_and(|end| end < self.at) {
            self.comment_end = Some(find(COMMENT_END).unwrap_or(self.page.len()));
        }
        let word = find(b"esi");
        if let Some(end) = self.comment_end.filter(|end| *end < word.unwrap_or(self.page.len())) {
            return Some((Some(end), end + COMMENT_END.len()));
        }
        let (before, after) = self.page.split_at_checked(word?)?;
        let begins = [&b"<"[..], b"</", b"<!--"].into_iter().find(|begin| before.ends_with(begin));
        let start = begins.filter(|begin| begin.len() > 2 || after.starts_with(b"esi:"));
        Some((start.map(|begin| before.len() - begin.len()), before.len() + b"esi".len()))
    }

    fn end_text(&mut self, end: usize) {
        if self.text < end {
            self.segments.push(Segment::Text(self.text..end));
        }
    }

    /// Reads the markup at a position: its include, if it is one, and its end. `None` if it is
    /// text.
    fn markup(&mut self, start: usize) -> Option<(Option<Include>, usize)> {
        let rest = self.page.get(start..)?;
        if self.comment_end == Some(start) {
            self.comment_end = None;
            return Some((None, start + COMMENT_END.len()));
        }
        if self.comment_end.is_none() && rest.starts_with(b"<!--esi") {
            // `<!--esi` is a word of its own.
            if !matches!(rest.get(7)?, b' ' | b'\t' | b'\r' | b'\n' | b'<') {
                return None;
            }
            // Without an end it is a usual comment.
            if self.no_comment_ends {
                return None;
            }
            let end = memmem::find(rest, COMMENT_END).map(|at| start + at);
            self.no_comment_ends = end.is_none();
            self.comment_end = Some(end?);
            return Some((None, start + 7));
        }
        for closing in [&b"</esi:include>"[..], b"</esi:comment>", b"</esi:remove>"] {
            if rest.starts_with(closing) {
                return Some((None, start + closing.len()));
            }
        }
        if rest.starts_with(b"<esi:remove>") {
            const END: &[u8] = b"</esi:remove>";
            let end = if self.no_removal_ends { None } else { memmem::find(rest, END) };
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

/// Reads an element without content whose markup begins with `start`. Returns its attributes and
/// its length. Values have no `<` and `>`, so that the next one of them ends any malformed element.
fn element<'p>(markup: &'p [u8], start: &[u8]) -> Option<(Attributes<'p>, usize)> {
    let inner = markup.strip_prefix(start)?;
    let inner = inner.get(..MAX_ELEMENT_BYTES).unwrap_or(inner);
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

/// Returns the target of an address on this host: path and query. `None` for any other address,
/// such as one of another host or one relative to a page.
pub fn target<'a>(address: &'a [u8], host: &[u8]) -> Option<&'a [u8]> {
    let target = match address.strip_prefix(b"http://").or(address.strip_prefix(b"https://")) {
        None => address,
        Some(rest) => {
            let end = memchr2(b'/', b'?', rest).unwrap_or(rest.len());
            let (authority, target) = rest.split_at_checked(end)?;
            (!host.is_empty() && authority.eq_ignore_ascii_case(host)).then_some(target)?
        }
    };
    // Fragments are not sent to servers.
    let target = target.get(..memchr(b'#', target).unwrap_or(target.len()))?;
    // `//host/path` names another host.
    (target.starts_with(b"/") && !target.starts_with(b"//")).then_some(target)
}

#[cfg(test)]
mod tests;
