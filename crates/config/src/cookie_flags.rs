//! `cookie_flags` of an upstream: attributes that cookies of its responses get or lose.

use howdah_template::{Pattern, Subject};

use crate::error::Error;
use crate::node::{Node, quoted};

/// Cookies, and changes to their attributes.
#[derive(Debug, Clone)]
pub struct CookieFlags {
    /// The pattern as written.
    text: String,
    /// Pattern of the names; upper and lower case are the same, but in expressions.
    pub name: Pattern,
    /// Adds `Secure` if true, and removes it if false.
    pub secure: Option<bool>,
    /// Adds `HttpOnly` if true, and removes it if false.
    pub http_only: Option<bool>,
    /// Sets `SameSite` to a value, or removes it.
    pub same_site: Option<Option<&'static str>>,
}

/// The words for flags, as in nginx.
const WORDS: [&str; 8] = [
    "secure",
    "nosecure",
    "httponly",
    "nohttponly",
    "samesite=strict",
    "samesite=lax",
    "samesite=none",
    "nosamesite",
];

impl CookieFlags {
    pub(crate) fn read_all(node: &Node<'_>) -> Result<Vec<CookieFlags>, Error> {
        node.members()?.map(|(name, flags)| CookieFlags::read(name, &flags)).collect()
    }

    fn read(name: &str, node: &Node<'_>) -> Result<CookieFlags, Error> {
        if name.is_empty() || name.starts_with('!') {
            return Err(node.invalid("must have the name of a cookie, or a pattern without \"!\""));
        }
        let text = name.to_owned();
        let name = Pattern::parse(name, Subject::Header).map_err(|error| node.invalid(error))?;
        let mut all = CookieFlags { text, name, secure: None, http_only: None, same_site: None };
        for flag in node.strings()? {
            match flag.string()? {
                "secure" => all.secure = Some(true),
                "nosecure" => all.secure = Some(false),
                "httponly" => all.http_only = Some(true),
                "nohttponly" => all.http_only = Some(false),
                "samesite=strict" => all.same_site = Some(Some("Strict")),
                "samesite=lax" => all.same_site = Some(Some("Lax")),
                "samesite=none" => all.same_site = Some(Some("None")),
                "nosamesite" => all.same_site = Some(None),
                _ => return Err(flag.invalid(format_args!("must be {}", quoted(&WORDS)))),
            }
        }
        Ok(all)
    }
}

impl PartialEq for CookieFlags {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
            && self.secure == other.secure
            && self.http_only == other.http_only
            && self.same_site == other.same_site
    }
}
