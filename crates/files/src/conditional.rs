//! Conditional requests (RFC 9110, 13): evaluates preconditions in the prescribed order.

use howdah_http::message::Fields;
use howdah_text::date::parse_http;

use howdah_http::etag::{EntityTag, parse_entity_tags};

/// Validators of the selected representation (RFC 9110, 8.8).
#[derive(Debug, Clone, Copy)]
pub struct Validators<'a> {
    /// Strong entity tag, with its quotes.
    pub etag: &'a [u8],
    /// `Last-Modified` in seconds since 1970, if there is one.
    pub modified: Option<u64>,
}

/// Result of evaluating a request's preconditions (RFC 9110, 13.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Perform the method.
    Proceed,
    /// Respond with 304.
    NotModified,
    /// Respond with 412.
    Failed,
}

/// Conditional and range fields of a request.
#[derive(Debug, Clone, Copy)]
pub struct Conditions<'r> {
    fields: &'r Fields,
    preconditions: bool,
    range: bool,
}

impl<'r> Conditions<'r> {
    /// Scans the field names once, so that a request without such fields costs one pass.
    pub fn of(fields: &'r Fields) -> Self {
        let mut conditions = Conditions { fields, preconditions: false, range: false };
        for (name, _) in fields.iter() {
            match name {
                [b'i' | b'I', b'f' | b'F', b'-', ..] => conditions.preconditions = true,
                _ if name.eq_ignore_ascii_case(b"range") => conditions.range = true,
                _ => {}
            }
        }
        conditions
    }

    /// Evaluates the preconditions of a GET or HEAD in the order of RFC 9110, 13.2.2.
    pub fn evaluate(&self, validators: Validators<'_>) -> Verdict {
        if !self.preconditions {
            return Verdict::Proceed;
        }
        let modified = validators.modified;
        if let Some(found) = self.any_tag("if-match", |tag| tag.matches_strongly(validators.etag)) {
            if !found {
                return Verdict::Failed;
            }
        } else if let (Some(since), Some(modified)) = (self.date("if-unmodified-since"), modified)
            && modified > since
        {
            return Verdict::Failed;
        }
        if let Some(found) =
            self.any_tag("if-none-match", |tag| tag.matches_weakly(validators.etag))
        {
            if found {
                return Verdict::NotModified;
            }
        } else if let (Some(since), Some(modified)) = (self.date("if-modified-since"), modified)
            && modified <= since
        {
            return Verdict::NotModified;
        }
        Verdict::Proceed
    }

    /// Returns the value of the `Range` field, or `None` if it is missing, repeated, or voided by
    /// `If-Range`. `now` is the time of the response in seconds since 1970.
    pub fn range(&self, validators: Validators<'_>, now: u64) -> Option<&'r [u8]> {
        if !self.range {
            return None;
        }
        let range = single(self.fields, "range")?;
        if self.preconditions && self.fields.get("if-range").is_some() {
            let wanted = single(self.fields, "if-range")?;
            if !if_range_holds(wanted, validators, now) {
                return None;
            }
        }
        Some(range)
    }

    /// Returns true if a tag of the list satisfies `matches`; `None` if there is no such field.
    fn any_tag(&self, name: &str, matches: impl Fn(EntityTag<'_>) -> bool) -> Option<bool> {
        let mut present = None;
        for value in self.fields.get_all(name) {
            // `*` stands for any current representation, and the file exists.
            if value.trim_ascii() == b"*" || parse_entity_tags(value).any(&matches) {
                return Some(true);
            }
            present = Some(false);
        }
        present
    }

    fn date(&self, name: &str) -> Option<u64> {
        parse_http(single(self.fields, name)?)
    }
}

/// Returns true if `If-Range` matches (RFC 9110, 13.1.5): a tag must match strongly; a date must be
/// exactly the one sent, and old enough to be a strong validator (8.8.2.2).
fn if_range_holds(wanted: &[u8], validators: Validators<'_>, now: u64) -> bool {
    match parse_http(wanted) {
        Some(date) => {
            validators.modified.is_some_and(|modified| modified == date && modified < now)
        }
        None => {
            let mut tags = parse_entity_tags(wanted);
            tags.next().is_some_and(|tag| tag.matches_strongly(validators.etag))
                && tags.next().is_none()
        }
    }
}

/// Returns the value of a field that may occur once; `None` if it is missing or repeated.
fn single<'r>(fields: &'r Fields, name: &str) -> Option<&'r [u8]> {
    let mut found = None;
    for (_, value) in fields.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes())) {
        if found.replace(value).is_some() {
            return None;
        }
    }
    found
}

#[cfg(test)]
mod tests;
