//! Causes, in words for administrators, why a response was not stored or the cache was bypassed: a
//! field of the request or the response, or a key of the configuration. Values of cookies and
//! credentials are never repeated.

use std::fmt::Write;

use howdah_config::Cache;
use howdah_http::message::{FieldBlock, Fields, Request};

use crate::control::values;
use crate::storing::Refusal;

/// Maximum length in bytes of a value that is repeated.
const MAX_VALUE: usize = 200;

/// The cause of [`Refusal::NoMemory`].
pub const NO_MEMORY: &str =
    "the memory of responses that are collected before their end is full (the log says whose)";

/// Maximum number of names of cookies that are repeated.
const MAX_NAMES: usize = 8;

/// Reason for which the cache takes no part in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bypass {
    /// The request has a body.
    Body,
    /// This condition of `bypass`, from 1; those of a preset come first.
    Condition(usize),
    /// The request is for an error page.
    ErrorPage,
    /// A field of this name.
    Field(&'static str),
    /// Its key would be too long.
    KeyTooLong,
    /// The response is not for requests with cookies, as it does not state its lifetime itself.
    StoredWithoutCookies,
}

impl Bypass {
    /// Returns the cause.
    pub fn cause(self, request: &Request) -> String {
        match self {
            Bypass::Body => "the request has a body".to_owned(),
            Bypass::Condition(number) => {
                let mut text = format!("condition {number} of \"bypass\" holds");
                let cookies = cookie_names(&request.fields);
                if !cookies.is_empty() {
                    let _ = write!(text, "; the request has the cookies {cookies}");
                }
                text
            }
            Bypass::ErrorPage => "it is the page of an error".to_owned(),
            Bypass::Field(name) => format!("the request has {name}"),
            Bypass::KeyTooLong => "the URL, or the text of \"key\", is too long".to_owned(),
            Bypass::StoredWithoutCookies => format!(
                "the request has cookies ({}), and neither the response states its lifetime nor \
                 do \"bypass\", \"store\" or \"key\" tell cookies apart",
                cookie_names(&request.fields)
            ),
        }
    }
}

/// Returns the cause of a refusal.
pub fn of(refusal: Refusal, settings: &Cache, request: &Request, fields: &FieldBlock) -> String {
    let first = |names: &[&str]| names.iter().find_map(|name| line(fields, name));
    let control = || first(&["CDN-Cache-Control", "Surrogate-Control", "Cache-Control"]);
    match refusal {
        Refusal::Authorization => match request.fields.get("authorization") {
            Some(_) => "Authorization of the request".to_owned(),
            None => "\"basic_auth\" or \"auth_request\" of the action".to_owned(),
        },
        Refusal::Condition => "\"store\": none of its conditions holds".to_owned(),
        Refusal::Cookie => format!("Cookie of the request: {}", cookie_names(&request.fields)),
        Refusal::EventStream => "Content-Type: text/event-stream".to_owned(),
        Refusal::Failed => "an error has ended the script (it is in the log)".to_owned(),
        Refusal::Incomplete => "the end of the response is missing, or it is a tunnel".to_owned(),
        Refusal::NoLifetime => match first(&["CDN-Cache-Control", "Cache-Control", "Expires"]) {
            Some(line) => line,
            None => "no Cache-Control, no Expires, and no \"ttl\" for the status".to_owned(),
        },
        Refusal::NoStore | Refusal::NotUnderstood | Refusal::Private => {
            control().unwrap_or_default()
        }
        Refusal::NoMemory => NO_MEMORY.to_owned(),
        Refusal::Partial => "the status, 206".to_owned(),
        Refusal::Redirected => "X-Accel-Redirect, X-Sendfile or a field like these".to_owned(),
        Refusal::RequestNoStore => {
            let value = request.fields.get("cache-control").unwrap_or_default();
            format!("Cache-Control of the request: {}", shown(value))
        }
        Refusal::SetCookie => {
            let names = values(fields, "set-cookie")
                .map(|value| shown(value.split(|byte| *byte == b'=').next().unwrap_or_default()));
            format!("Set-Cookie: {}", names.take(MAX_NAMES).collect::<Vec<_>>().join(", "))
        }
        Refusal::TooLarge => format!("\"max_object\": {} bytes", settings.max_object),
        Refusal::TooManyTags => "Cache-Tag, or another field of tags".to_owned(),
        Refusal::TooFewUses => format!("\"min_uses\": {}", settings.min_uses),
        Refusal::VaryAll => line(fields, "Vary").unwrap_or_default(),
    }
}

/// Returns the line of a field.
fn line(fields: &FieldBlock, name: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    let all: Vec<_> = values(fields, &lower).map(shown).collect();
    (!all.is_empty()).then(|| format!("{name}: {}", all.join(", ")))
}

/// Returns the names of the cookies of a request.
fn cookie_names(fields: &Fields) -> String {
    let pairs = fields.get_all("cookie").flat_map(|value| value.split(|byte| *byte == b';'));
    let names = pairs.map(|pair| pair.split(|byte| *byte == b'=').next().unwrap_or_default());
    let names = names.map(|name| shown(name.trim_ascii())).filter(|name| !name.is_empty());
    names.take(MAX_NAMES).collect::<Vec<_>>().join(", ")
}

/// Returns a value as text, cut.
pub fn shown(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value.get(..MAX_VALUE).unwrap_or(value));
    let is_cut = value.len() > MAX_VALUE;
    text.chars().filter(|c| !c.is_control()).chain(is_cut.then_some('…')).collect()
}

#[cfg(test)]
mod tests {
    use howdah_http::fixture;

    use super::*;

    fn cause(refusal: Refusal, request: &[(&str, &str)], response: &[(&str, &str)]) -> String {
        let mut fields = FieldBlock::default();
        response.iter().for_each(|(name, value)| fields.push(name, value));
        of(refusal, &Cache::default(), &fixture::request("/", request), &fields)
    }

    #[test]
    fn the_field_that_decided_is_named() {
        let control = [("cache-control", "max-age=60, private")];
        assert_eq!(cause(Refusal::Private, &[], &control), "Cache-Control: max-age=60, private");
        let vary = [("Vary", "Accept"), ("vary", "*")];
        assert_eq!(cause(Refusal::VaryAll, &[], &vary), "Vary: Accept, *");
        assert!(cause(Refusal::NoLifetime, &[], &[]).contains("\"ttl\""));
    }

    #[test]
    fn values_of_cookies_and_passwords_are_not_repeated() {
        let request =
            [("Cookie", "sid=secret1; other=secret2"), ("Authorization", "Basic secret3")];
        let response = [("Set-Cookie", "id=secret4; Path=/"), ("Set-Cookie", "x=secret5")];
        for refusal in [Refusal::Cookie, Refusal::SetCookie, Refusal::Authorization] {
            let text = cause(refusal, &request, &response);
            assert!(!text.contains("secret"), "{text}");
        }
        assert_eq!(cause(Refusal::SetCookie, &[], &response), "Set-Cookie: id, x");
        let bypassed = Bypass::Condition(2).cause(&fixture::request("/", &request));
        assert!(bypassed.contains("sid, other") && !bypassed.contains("secret"), "{bypassed}");
    }

    #[test]
    fn long_values_are_cut_and_control_characters_removed() {
        let long = "x".repeat(1000);
        assert_eq!(shown(long.as_bytes()).chars().count(), MAX_VALUE + 1);
        assert_eq!(shown(b"a\x1b[31mb\xff"), "a[31mb\u{fffd}");
    }
}
