//! `ErrorDocument`.

use std::sync::Arc;

use crate::modules::pattern::Text;

/// Answer to an error.
#[derive(Debug, Clone)]
pub enum ErrorDocument {
    /// The server's own text (`default`).
    Default,
    /// A text.
    Message(Text),
    /// A path of the site or a URL.
    Target(Text),
}

impl PartialEq for ErrorDocument {
    fn eq(&self, other: &ErrorDocument) -> bool {
        matches!((self, other), (ErrorDocument::Default, ErrorDocument::Default))
    }
}

/// Statuses that Apache has a text for.
const STATUSES: &[u16] = &[
    100, 101, 102, 200, 201, 202, 203, 204, 205, 206, 207, 208, 226, 300, 301, 302, 303, 304, 305,
    307, 308, 400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416,
    417, 421, 422, 423, 424, 426, 428, 429, 431, 451, 500, 501, 502, 503, 504, 505, 506, 507, 508,
    510, 511,
];

/// Returns true for a status that Apache sends; it sends 500 in place of others.
pub(crate) fn is_known(status: u16) -> bool {
    STATUSES.contains(&status)
}

impl ErrorDocument {
    /// Reads the arguments of a directive; `None` if Apache ignores them.
    pub(super) fn parse(
        status: &[u8],
        text: &[u8],
    ) -> Result<Option<(u16, ErrorDocument)>, String> {
        let unsupported =
            || format!("Unsupported HTTP response code {}", String::from_utf8_lossy(status));
        let digits = status.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = std::str::from_utf8(&status[..digits]).ok().and_then(|text| text.parse().ok());
        let number: u16 = number.ok_or_else(unsupported)?;
        if !is_known(number) {
            return Err(unsupported());
        }
        let failed = |error: String| format!("Cannot parse expression in ErrorDocument: {error}");
        let text_of = |text: &[u8]| Text::parse(text).map_err(failed);
        let has_space = text.contains(&b' ');
        if !has_space && is_url(text) {
            if number == 401 {
                return Ok(None);
            }
            return Ok(Some((number, ErrorDocument::Target(text_of(text)?))));
        }
        if !has_space && text.starts_with(b"/") {
            return Ok(Some((number, ErrorDocument::Target(text_of(text)?))));
        }
        if text.eq_ignore_ascii_case(b"default") {
            return Ok(Some((number, ErrorDocument::Default)));
        }
        Ok(Some((number, ErrorDocument::Message(text_of(text)?))))
    }
}

/// Returns true for a text that begins with a scheme, as Apache's `ap_is_url`.
pub(crate) fn is_url(text: &[u8]) -> bool {
    let Some(colon) = memchr::memmem::find(text, b"://") else { return false };
    let scheme = &text[..colon];
    !scheme.is_empty()
        && scheme[0] != b'/'
        && scheme.iter().all(|&byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// Replaces or adds the document of a status.
pub(super) fn put(documents: &mut Vec<(u16, ErrorDocument)>, status: u16, document: ErrorDocument) {
    documents.retain(|(known, _)| *known != status);
    documents.push((status, document));
}

/// Bytes shared by all requests.
pub(super) fn shared(text: &[u8]) -> Arc<[u8]> {
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(status: &str, text: &str) -> &'static str {
        match ErrorDocument::parse(status.as_bytes(), text.as_bytes()) {
            Ok(Some((_, ErrorDocument::Default))) => "default",
            Ok(Some((_, ErrorDocument::Message(_)))) => "message",
            Ok(Some((_, ErrorDocument::Target(_)))) => "target",
            Ok(None) => "ignored",
            Err(_) => "error",
        }
    }

    #[test]
    fn the_argument_tells_its_kind() {
        assert_eq!(kind("404", "/404.php?x=1"), "target");
        assert_eq!(kind("404", "http://other.example/"), "target");
        assert_eq!(kind("404", "/not a path"), "message");
        assert_eq!(kind("404", "missing.html"), "message");
        assert_eq!(kind("404", "Default"), "default");
        assert_eq!(kind("401", "http://other.example/"), "ignored");
        assert_eq!(kind("200", "x"), "message");
        assert_eq!(kind("999", "x"), "error");
        assert_eq!(kind("x", "x"), "error");
    }
}
