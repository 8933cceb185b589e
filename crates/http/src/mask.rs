//! Hides the values of query arguments, such as tokens and passwords.

use std::sync::{Arc, PoisonError, RwLock};

use howdah_text::percent;

/// Maximum number of times that a URL in a value is percent-encoded.
const MAX_ENCODINGS: usize = 3;

/// Replaces a hidden value.
const MASK: &[u8] = b"***";

/// Arguments whose values are hidden in the log and in what the control API shows, besides those that
/// access logs of the document mask.
pub const SECRETS: [&str; 22] = [
    "access_token",
    "api_key",
    "apikey",
    "auth",
    "authorization",
    "code",
    "id_token",
    "jwt",
    "key",
    "nonce",
    "_wpnonce",
    "pass",
    "passwd",
    "password",
    "pwd",
    "refresh_token",
    "secret",
    "session",
    "sid",
    "phpsessid",
    "signature",
    "token",
];

/// Names of arguments whose values the log hides, once [`hide`] has set them.
static HIDDEN: RwLock<Option<Arc<[String]>>> = RwLock::new(None);

/// Sets the names of arguments whose values the log of this process hides from now on; [`SECRETS`]
/// should be among them.
pub fn hide(names: Vec<String>) {
    *HIDDEN.write().unwrap_or_else(PoisonError::into_inner) = Some(names.into());
}

/// Returns the names of arguments whose values the log hides.
pub fn hidden() -> Arc<[String]> {
    let hidden = HIDDEN.read().unwrap_or_else(PoisonError::into_inner).clone();
    hidden.unwrap_or_else(|| SECRETS.map(str::to_owned).into())
}

/// Replaces the values of query arguments with these names in the URLs of a text, such as a request
/// line or a `Referer`. `start` is where the text begins in `line`.
///
/// A query begins after a `?` and ends at a space, a quotation mark or a fragment. Names are
/// compared as PHP reads them: percent-decoded, with `+` as a space, and without an index in
/// brackets; regardless of upper and lower case, so that a differently written name hides too much
/// rather than too little.
pub fn mask_query(line: &mut Vec<u8>, start: usize, names: &[String]) {
    let Some(text) = line.get(start..) else { return };
    if names.is_empty() || memchr::memchr2(b'?', b'&', text).is_none() {
        return;
    }
    let text = line.split_off(start);
    let mut rest = text.as_slice();
    // After `?` or `&`, and at the start of a bare query, an argument begins.
    while let Some(mark) = memchr::memchr3(b'?', b'&', b';', rest) {
        let (before, after) = rest.split_at(mark + 1);
        line.extend_from_slice(before);
        let end = after.iter().position(|byte| b"?&; \"#".contains(byte)).unwrap_or(after.len());
        let (argument, behind) = after.split_at(end);
        match argument.iter().position(|byte| *byte == b'=') {
            Some(equals) if is_masked(argument.get(..equals).unwrap_or_default(), names) => {
                line.extend_from_slice(argument.get(..=equals).unwrap_or_default());
                line.extend_from_slice(MASK);
                // A value may have a `?`, or a `;`, which is no separator in PHP.
                let end = behind.iter().position(|byte| b"& \"#".contains(byte));
                rest = behind.get(end.unwrap_or(behind.len())..).unwrap_or_default();
            }
            // Percent-encoded, such as the page to return to after a login.
            Some(equals)
                if is_url_with_secret(argument.get(equals..).unwrap_or_default(), names) =>
            {
                line.extend_from_slice(argument.get(..=equals).unwrap_or_default());
                line.extend_from_slice(MASK);
                rest = behind;
            }
            _ => {
                line.extend_from_slice(argument);
                rest = behind;
            }
        }
    }
    line.extend_from_slice(rest);
}

/// Returns true if a value has an argument with one of these names in a percent-encoded URL, also
/// if that has it in another one.
fn is_url_with_secret(value: &[u8], names: &[String]) -> bool {
    let mut value = value.to_vec();
    for _ in 0..MAX_ENCODINGS {
        if !value.contains(&b'%') {
            return false;
        }
        value = percent::decoded_form(&value).collect();
        let mut arguments = value.split(|byte| b"?&#;".contains(byte)).skip(1);
        let has_secret = |argument: &[u8]| {
            let equals = argument.iter().position(|byte| *byte == b'=');
            equals.is_some_and(|end| is_masked(argument.get(..end).unwrap_or_default(), names))
        };
        if arguments.any(has_secret) {
            return true;
        }
    }
    false
}

/// Replaces the values of cookies with these names in a `Cookie` or `Set-Cookie` that begins at
/// `start`.
pub fn mask_cookies(line: &mut Vec<u8>, start: usize, names: &[String]) {
    let Some(text) = line.get(start..).filter(|_| !names.is_empty()) else { return };
    let text = text.to_vec();
    line.truncate(start);
    for (index, cookie) in text.split(|byte| *byte == b';').enumerate() {
        if index > 0 {
            line.push(b';');
        }
        match cookie.iter().position(|byte| *byte == b'=') {
            Some(equals) if is_masked(cookie.get(..equals).unwrap_or_default(), names) => {
                line.extend_from_slice(cookie.get(..=equals).unwrap_or_default());
                line.extend_from_slice(MASK);
            }
            _ => line.extend_from_slice(cookie),
        }
    }
}

/// Returns true if the value of an argument with this name, as in the URL, is hidden.
pub fn is_masked(name: &[u8], names: &[String]) -> bool {
    let decoded: Vec<u8> = percent::decoded_form(name).collect();
    // PHP cuts a name at a null byte, too.
    let end = decoded.iter().position(|byte| b"[\0".contains(byte)).unwrap_or(decoded.len());
    let base = decoded.get(..end).unwrap_or_default().trim_ascii_start();
    // In names of variables, PHP replaces these by underscores.
    let plain = |byte: u8| match byte {
        b'.' | b' ' => b'_',
        byte => byte.to_ascii_lowercase(),
    };
    names.iter().any(|hidden| {
        hidden.len() == base.len()
            && hidden.bytes().zip(base).all(|(wanted, byte)| plain(wanted) == plain(*byte))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn masked(text: &str) -> String {
        let names = ["token".to_owned(), "api.key".to_owned()];
        let mut line = [b"x", text.as_bytes()].concat();
        mask_query(&mut line, 1, &names);
        String::from_utf8(line).unwrap()[1..].to_owned()
    }

    #[test]
    fn values_of_masked_arguments_are_hidden() {
        for (text, expected) in [
            ("GET /a?token=s3cret HTTP/1.1", "GET /a?token=*** HTTP/1.1"),
            ("/a?b=c&token=s&d=e", "/a?b=c&token=***&d=e"),
            ("/a?TOKEN=s", "/a?TOKEN=***"),
            ("/a?t%6Fken=s", "/a?t%6Fken=***"),
            ("/a?token[x]=s&token%5b%5D=t", "/a?token[x]=***&token%5b%5D=***"),
            ("/a?api_key=s&api.key=t&api%2Ekey=u", "/a?api_key=***&api.key=***&api%2Ekey=***"),
            ("https://a/?q&token=a=b#token=c", "https://a/?q&token=***#token=c"),
            ("/a?token=x?y&z", "/a?token=***&z"),
            ("/a?token=x;y&z=1", "/a?token=***&z=1"),
            ("/a?+token=x", "/a?+token=***"),
            ("/token=1?mytoken=2&tokens=3", "/token=1?mytoken=2&tokens=3"),
            ("/a?token%00x=s", "/a?token%00x=***"),
            ("/a?to=%2Fb%3Ftoken%3Ds%26c%3Dd&e=f", "/a?to=***&e=f"),
            ("/a?to=%252Fb%253Fc%253Dd%2526token%253Ds", "/a?to=***"),
            ("/a?to=%2Fb%3Fc%3Dd&x=100%", "/a?to=%2Fb%3Fc%3Dd&x=100%"),
            ("/a?token", "/a?token"),
            ("/a?", "/a?"),
            ("", ""),
        ] {
            assert_eq!(masked(text), expected, "{text}");
        }
    }

    #[test]
    fn values_of_masked_cookies_are_hidden() {
        let names = ["token".to_owned()];
        for (text, expected) in [
            ("token=s; a=b", "token=***; a=b"),
            ("a=\"x?y&z\"; Token=s;token=t", "a=\"x?y&z\"; Token=***;token=***"),
            ("token=s; Path=/; HttpOnly", "token=***; Path=/; HttpOnly"),
            ("token; mytoken=1; ;=", "token; mytoken=1; ;="),
            ("", ""),
        ] {
            let mut line = [b"x", text.as_bytes()].concat();
            mask_cookies(&mut line, 1, &names);
            assert_eq!(String::from_utf8(line).unwrap()[1..], *expected);
        }
    }

    proptest! {
        #[test]
        fn no_secret_is_left_whatever_stands_around_it(
            before in "[a-z=&;?%]{0,20}", after in "(&[a-z=&;?%+]{0,20})?"
        ) {
            let text = masked(&format!("/?{before}&token=SECRET{after}"));
            prop_assert!(!text.contains("SECRET"), "{text}");
        }

        #[test]
        fn a_text_without_masked_names_stays(text in "[a-su-z=&;?#/ ]{0,40}") {
            prop_assert_eq!(masked(&text), text);
        }
    }
}
