//! `sticky` of an upstream: the cookie by which clients return to their server.

use std::time::Duration;

use howdah_text::token::is_token;

use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::Node;

/// `sticky` of an upstream.
pub(crate) static STICKY: Shape = Shape {
    name: "sticky",
    parts: &[&[
        Key::new("cookie", Kind::Text, "Name of the cookie").required(),
        Key::new("path", Kind::Text, "Paths that the cookie is sent for").default("\"/\""),
        Key::new("domain", Kind::Text, "Domain that the cookie is sent to")
            .default("the host alone"),
        Key::new("max_age", Kind::Seconds(1), "Seconds for which browsers keep the cookie")
            .default("until the browser ends"),
        Key::new(
            "same_site",
            Kind::Word(&["strict", "lax", "none"]),
            "Requests of other sites that the cookie is sent with",
        )
        .default("\"lax\""),
    ]],
};

/// The cookie that names a client's server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sticky {
    /// Its name.
    pub cookie: String,
    /// The paths that it is sent for.
    pub path: String,
    /// The domain that it is sent to; the host alone if `None`.
    pub domain: Option<String>,
    /// Time for which browsers keep it; until they end if `None`.
    pub max_age: Option<Duration>,
    /// Requests of other sites that it is sent with.
    pub same_site: SameSite,
}

/// Requests of other sites that a cookie is sent with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SameSite {
    /// None.
    Strict,
    /// Requests that lead to the page.
    #[default]
    Lax,
    /// All; only over TLS.
    None,
}

impl Sticky {
    /// Returns a cookie with the attributes of a document that names none.
    pub fn new(cookie: &str) -> Sticky {
        Sticky {
            cookie: cookie.to_owned(),
            path: "/".to_owned(),
            domain: None,
            max_age: None,
            same_site: SameSite::default(),
        }
    }

    pub(crate) fn read(node: &Node<'_>) -> Result<Sticky, Error> {
        if !node.value.is_object() {
            return Err(node.wrong_type("an object").with_hint("write {\"cookie\": \"server\"}"));
        }
        let object = node.object(&STICKY)?;
        if node.value.get("hash").is_some() {
            let error = node.invalid("has \"hash\", which is a way to choose a server");
            return Err(error.with_hint("write \"balance\": {\"hash\": ...} in the upstream"));
        }
        let cookie = object.required("cookie")?;
        if !is_token(cookie.string()?) {
            return Err(cookie.invalid("must be the name of a cookie"));
        }
        let usual = Sticky::new(cookie.string()?);
        let is_of_host = usual.cookie.to_ascii_lowercase().starts_with("__host-");
        let sticky = Sticky {
            path: object.read("path", read_path)?.unwrap_or_else(|| usual.path.clone()),
            domain: object.read("domain", read_attribute)?,
            max_age: object.seconds("max_age")?,
            same_site: object.read("same_site", SameSite::read)?.unwrap_or_default(),
            ..usual
        };
        for (key, is_usual) in [("path", sticky.path == "/"), ("domain", sticky.domain.is_none())] {
            if let (true, false, Some(node)) = (is_of_host, is_usual, object.optional(key)) {
                let error =
                    node.invalid("cannot go with a cookie whose name begins with \"__Host-\"");
                return Err(error.with_hint("leave it out: browsers refuse such a cookie"));
            }
        }
        object.end()?;
        Ok(sticky)
    }

    /// Returns `Set-Cookie` with this value, for a client that uses TLS or not.
    pub fn set_cookie(&self, value: &str, is_secure: bool) -> String {
        let Sticky { cookie, path, .. } = self;
        let mut text = format!("{cookie}={value}; Path={path}");
        if let Some(domain) = &self.domain {
            text.push_str(&format!("; Domain={domain}"));
        }
        if let Some(age) = self.max_age {
            text.push_str(&format!("; Max-Age={}", age.as_secs()));
        }
        text.push_str("; HttpOnly; SameSite=");
        text.push_str(match self.same_site {
            SameSite::Strict => "Strict",
            SameSite::Lax => "Lax",
            SameSite::None => "None",
        });
        if is_secure {
            text.push_str("; Secure");
        }
        text
    }
}

impl SameSite {
    fn read(node: &Node<'_>) -> Result<SameSite, Error> {
        match node.string()? {
            "strict" => Ok(SameSite::Strict),
            "lax" => Ok(SameSite::Lax),
            "none" => Ok(SameSite::None),
            _ => Err(node.invalid("must be \"strict\", \"lax\" or \"none\"")),
        }
    }
}

/// Reads an attribute of a cookie: no character that could end it.
fn read_attribute(node: &Node<'_>) -> Result<String, Error> {
    let text = node.text()?;
    if text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b';' && byte != b',') {
        Ok(text.to_owned())
    } else {
        Err(node.invalid("must be of visible ASCII characters, without spaces, \";\" and \",\""))
    }
}

fn read_path(node: &Node<'_>) -> Result<String, Error> {
    match read_attribute(node)? {
        path if path.starts_with('/') => Ok(path),
        _ => Err(node.invalid("must start with \"/\"")),
    }
}
