//! Decides whether a response may be stored (RFC 9111, 3), and which parts of it.

use std::fmt;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use howdah_config::Cache;
use howdah_http::message::{FieldBlock, Request};
use howdah_text::date;

use crate::control::{RequestControl, ResponseControl, values};
use crate::entry::{Charge, Content, Copies, Entry, Terms};
use crate::freshness::{self, Lifetime};
use crate::place::{Place, Subject};
use crate::vary;

/// Times of a response, in seconds since 1970.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// The request was sent.
    pub asked: u64,
    /// The head of the response arrived.
    pub received: u64,
    /// Number of purges before the request.
    pub epoch: u64,
}

/// Reason why a response is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "`Display` explains each")]
pub enum Refusal {
    Authorization,
    Condition,
    Cookie,
    EventStream,
    Failed,
    Incomplete,
    NoLifetime,
    NoMemory,
    NoStore,
    NotUnderstood,
    Partial,
    Private,
    Redirected,
    RequestNoStore,
    SetCookie,
    TooLarge,
    TooManyTags,
    TooFewUses,
    VaryAll,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Authorization => {
                "the request has Authorization, and the response is not public"
            }
            Refusal::Condition => "no condition of store holds",
            Refusal::Cookie => "the request has cookies, and the response states no lifetime",
            Refusal::EventStream => "it is a stream of events",
            Refusal::Failed => "an error has ended the script before its end",
            Refusal::Incomplete => "the body was not complete",
            Refusal::NoLifetime => "it has no lifetime",
            Refusal::NoMemory => "there is no memory to collect it",
            Refusal::NoStore => "it has no-store",
            Refusal::NotUnderstood => "it has must-understand and an unknown status",
            Refusal::Partial => "it is partial",
            Refusal::Private => "it is private",
            Refusal::Redirected => "it names another resource to the server",
            Refusal::RequestNoStore => "the request has no-store",
            Refusal::SetCookie => "it sets a cookie",
            Refusal::TooLarge => "it is larger than max_object",
            Refusal::TooManyTags => "it has too many tags",
            Refusal::TooFewUses => "it was not asked for often enough (min_uses)",
            Refusal::VaryAll => "its Vary names all or too many fields",
        })
    }
}

/// A response that may be stored once its body is complete.
#[derive(Debug)]
pub struct Storable {
    status: u16,
    reason: Option<Bytes>,
    fields: FieldBlock,
    terms: Terms,
    selection: vary::Selection,
    place: Place,
    epoch: u64,
}

impl Storable {
    /// Returns the URL as a subject of purges.
    pub fn url(&self) -> Subject {
        self.place.url
    }

    /// Returns the status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Adds the body.
    pub fn with_body(self, body: impl Into<Content>) -> Entry {
        let bytes = |value: Option<&[u8]>| value.map(Bytes::copy_from_slice);
        Entry {
            status: self.status,
            reason: self.reason,
            etag: bytes(self.fields.get("etag")).filter(|tag| !tag.is_empty()),
            last_modified: bytes(self.fields.get("last-modified")),
            fields: self.fields,
            body: body.into(),
            terms: self.terms,
            selection: self.selection,
            place: self.place,
            epoch: self.epoch,
            checked: AtomicU64::new(self.epoch),
            uses: AtomicU64::new(0),
            copies: Copies::default(),
            charge: Charge::default(),
        }
    }
}

/// Judges the response to a GET request without a body.
pub fn judge(
    settings: &Cache,
    request: &Request,
    status: u16,
    reason: Option<&Bytes>,
    fields: &FieldBlock,
    times: Times,
) -> Result<Storable, Refusal> {
    let control = ResponseControl::of(fields, settings.ignore);
    if matches!(status, 206 | 304) {
        return Err(Refusal::Partial);
    }
    if control.must_understand {
        if !is_understood(status) {
            return Err(Refusal::NotUnderstood);
        }
    } else if control.no_store {
        return Err(Refusal::NoStore);
    }
    if !settings.ignore.request && RequestControl::of(&request.fields).no_store {
        return Err(Refusal::RequestNoStore);
    }
    if control.private {
        return Err(Refusal::Private);
    }
    let withheld = |name: &[u8]| control.withheld.iter().any(|n| n.eq_ignore_ascii_case(name));
    let sets_cookie = values(fields, "set-cookie").next().is_some();
    if sets_cookie && !settings.ignore.set_cookie && !withheld(b"set-cookie") {
        return Err(Refusal::SetCookie);
    }
    let is_shared = control.public || control.s_maxage.is_some() || control.must_revalidate;
    let has_user = request.fields.get("authorization").is_some() || request.user.is_some();
    if has_user && !is_shared && !settings.considers_authorization() {
        return Err(Refusal::Authorization);
    }
    let media_type = fields.get("content-type").unwrap_or_default();
    if media_type.get(..17).is_some_and(|t| t.eq_ignore_ascii_case(b"text/event-stream")) {
        return Err(Refusal::EventStream);
    }
    let now = times.received;
    let lifetime = freshness::lifetime(&control, fields, status, settings, now);
    let is_explicit = lifetime.is_some_and(|lifetime| lifetime.source.is_response());
    let has_cookie = request.fields.get("cookie").is_some();
    if has_cookie && !is_explicit && !settings.considers_cookies() {
        return Err(Refusal::Cookie);
    }
    let seconds = lifetime.map_or(0, |lifetime| lifetime.seconds);
    let has_validator = fields.get("etag").is_some() || fields.get("last-modified").is_some();
    let terms = terms(settings, &control, lifetime, fields, times);
    // Without a lifetime, a response with a validator is worth storing if it states that it must be
    // validated.
    let is_validated = has_validator && (is_explicit || control.no_cache);
    let stale = terms.stale_while_revalidate.max(terms.stale_if_error);
    let is_useful = if terms.no_cache { is_validated } else { seconds > 0 || is_validated };
    if !is_useful && (lifetime.is_none() || stale == 0) {
        return Err(Refusal::NoLifetime);
    }
    let selection = vary::selection(fields, &request.fields, settings).ok_or(Refusal::VaryAll)?;
    let mut place = Place::of(request).with_tags(fields).ok_or(Refusal::TooManyTags)?;
    if fields.get("no-vary-search").is_some() {
        place = place.for_any_query();
    }
    let drops_cookie = settings.ignore.set_cookie;
    let is_left_out = |name: &[u8]| {
        withheld(name)
            || (drops_cookie && name.eq_ignore_ascii_case(b"set-cookie"))
            || NOT_STORED.iter().any(|other| name.eq_ignore_ascii_case(other))
    };
    let fields = stored_fields(fields, is_left_out, now);
    Ok(Storable {
        status,
        reason: reason.cloned(),
        fields,
        terms,
        selection,
        place,
        epoch: times.epoch,
    })
}

fn terms(
    settings: &Cache,
    control: &ResponseControl,
    lifetime: Option<Lifetime>,
    fields: &FieldBlock,
    times: Times,
) -> Terms {
    let may_be_stale = !control.must_revalidate && !control.proxy_revalidate && !control.no_cache;
    // `s-maxage` forbids stale use too (RFC 9111, 5.2.2.10), but not a use that the response or the
    // administrator allows by name.
    let allowed = |own: Option<u64>, configured: Option<u64>| {
        if may_be_stale { own.or(configured).unwrap_or(0) } else { 0 }
    };
    let delay = times.received.saturating_sub(times.asked);
    Terms {
        initial_age: freshness::initial_age(fields, delay, times.received),
        received: times.received,
        lifetime: lifetime.map_or(0, |lifetime| lifetime.seconds),
        source: lifetime.map(|lifetime| lifetime.source),
        no_cache: control.no_cache,
        stale_while_revalidate: allowed(
            control.stale_while_revalidate,
            settings.stale_while_revalidate,
        ),
        stale_if_error: allowed(control.stale_if_error, settings.stale_if_error),
        may_be_stale: may_be_stale && control.s_maxage.is_none(),
    }
}

/// Fields that are never stored: those of one connection (RFC 9111, 3.1), and the age, which is
/// sent anew.
const NOT_STORED: [&[u8]; 12] = [
    b"age",
    b"connection",
    b"keep-alive",
    b"proxy-authenticate",
    b"proxy-authentication-info",
    b"proxy-authorization",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
    b"content-length",
];

/// Returns the fields to store, with a `Date`.
fn stored_fields(fields: &FieldBlock, is_left_out: impl Fn(&[u8]) -> bool, now: u64) -> FieldBlock {
    let mut lines = Vec::with_capacity(fields.as_bytes().len() + 40);
    let mut put = |name: &[u8], value: &[u8]| {
        for part in [name, b": ", value, b"\r\n"] {
            lines.extend_from_slice(part);
        }
    };
    if fields.get("date").is_none() {
        put(b"Date", date::http(now).as_bytes());
    }
    fields.iter().filter(|(name, _)| !is_left_out(name)).for_each(|(name, value)| put(name, value));
    FieldBlock::from_lines(lines.into())
}

/// Returns the entry that a 304 makes of a stored one (RFC 9111, 4.3.4): its fields are updated,
/// except for those about the content. Error: the updated response may not be stored.
pub fn update(
    entry: &Entry,
    settings: &Cache,
    request: &Request,
    fields: &FieldBlock,
    times: Times,
) -> Result<Entry, Refusal> {
    const OF_CONTENT: [&[u8]; 6] = [
        b"content-encoding",
        b"content-length",
        b"content-md5",
        b"content-range",
        b"etag",
        b"transfer-encoding",
    ];
    let is_of_content = |name: &[u8]| OF_CONTENT.iter().any(|o| name.eq_ignore_ascii_case(o));
    let is_updated = |name: &[u8]| {
        name.eq_ignore_ascii_case(b"date")
            || !is_of_content(name)
                && fields.iter().any(|(other, _)| name.eq_ignore_ascii_case(other))
    };
    let mut lines = Vec::new();
    let kept = entry.fields.iter().filter(|(name, _)| !is_updated(name));
    let new = fields.iter().filter(|(name, _)| !is_of_content(name));
    for (name, value) in kept.chain(new) {
        for part in [name, b": ", value, b"\r\n"] {
            lines.extend_from_slice(part);
        }
    }
    let merged = FieldBlock::from_lines(lines.into());
    let judged = judge(settings, request, entry.status, entry.reason.as_ref(), &merged, times)?;
    Ok(Entry { copies: entry.copies.clone(), ..judged.with_body(entry.body.clone()) })
}

/// The relation of a response to HEAD to a stored response to GET.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadMatch {
    /// A validator shows that it is about the stored response.
    Same,
    /// A validator or the length shows that it is not.
    Other,
    /// The response has no validator.
    Unknown,
}

/// Compares the fields of a response to HEAD, and the length that it states, with a stored
/// response.
pub fn compare_head(entry: &Entry, fields: &FieldBlock, length: Option<u64>) -> HeadMatch {
    let (etag, modified) = (fields.get("etag"), fields.get("last-modified"));
    let differs = |new: Option<&[u8]>, stored: Option<&[u8]>| new.is_some() && new != stored;
    if differs(etag, entry.etag.as_deref())
        || differs(modified, entry.last_modified.as_deref())
        || length.is_some_and(|length| length != entry.body.len())
    {
        return HeadMatch::Other;
    }
    if etag.is_some() || modified.is_some() { HeadMatch::Same } else { HeadMatch::Unknown }
}

/// Returns true for statuses whose caching this server implements (RFC 9111, 5.2.2.3).
fn is_understood(status: u16) -> bool {
    matches!(
        status,
        200 | 203 | 204 | 300..=303 | 307 | 308 | 400..=405 | 410 | 414 | 416
            | 421 | 451 | 500..=504
    )
}

#[cfg(test)]
mod tests;
