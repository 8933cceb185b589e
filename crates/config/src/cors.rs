//! `cors` of an action: cross-origin requests.

use howdah_text::token::is_token;

use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::Node;

/// `cors` of an action.
pub(crate) static CORS: Shape = Shape {
    name: "cors",
    parts: &[&[
        Key::new(
            "origins",
            Kind::Texts,
            "Allowed origins, such as `https://example.com`; or `\"*\"` for all",
        )
        .required(),
        Key::new("methods", Kind::Texts, "Allowed methods")
            .default("[\"GET\", \"HEAD\", \"POST\"]"),
        Key::new(
            "headers",
            Kind::Texts,
            "Request header fields allowed in addition to the CORS-safelisted ones",
        )
        .default("none"),
        Key::new(
            "expose_headers",
            Kind::Texts,
            "Response header fields that scripts may read in addition to the CORS-safelisted ones",
        )
        .default("none"),
        Key::switch("credentials", false, "Allows cookies and passwords; not with `\"*\"`"),
        Key::new(
            "max_age",
            Kind::Seconds(0),
            "Seconds for which a browser may cache the preflight response",
        )
        .default("the browser's"),
    ]],
};

/// Permissions of scripts of other origins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cors {
    /// Allowed origins such as `https://example.com`, in lower case; all if `None`.
    pub origins: Option<Vec<String>>,
    /// Allowed methods.
    pub methods: Vec<String>,
    /// Allowed request header fields, in addition to those that always are.
    pub headers: Vec<String>,
    /// Response header fields that scripts may read, in addition to those that they always may.
    pub expose_headers: Vec<String>,
    /// True if requests may carry cookies and passwords.
    pub credentials: bool,
    /// Seconds for which browsers may cache these permissions.
    pub max_age: Option<u64>,
}

impl Cors {
    pub(crate) fn read(node: &Node<'_>) -> Result<Cors, Error> {
        let object = node.object(&CORS)?;
        let origins = read_origins(&object.required("origins")?)?;
        let credentials = object.switch("credentials")?;
        if credentials && origins.is_none() {
            return Err(node.invalid(
                "has \"credentials\" for all origins, so that every site could act for its \
                 visitors; name the origins",
            ));
        }
        let methods = object.read("methods", read_tokens)?;
        let cors = Cors {
            origins,
            methods: methods.unwrap_or_else(|| ["GET", "HEAD", "POST"].map(str::to_owned).into()),
            headers: object.read("headers", read_tokens)?.unwrap_or_default(),
            expose_headers: object.read("expose_headers", read_tokens)?.unwrap_or_default(),
            credentials,
            max_age: object.seconds("max_age")?.map(|age| age.as_secs()),
        };
        object.end()?;
        Ok(cors)
    }
}

fn read_origins(node: &Node<'_>) -> Result<Option<Vec<String>>, Error> {
    if node.value == "*" {
        return Ok(None);
    }
    let read = |origin: Node<'_>| {
        let text = origin.text()?;
        let is_origin = text.split_once("://").is_some_and(|(scheme, host)| {
            let fits = |byte: u8| byte.is_ascii_graphic() && !b"/,\"*?#@".contains(&byte);
            is_token(scheme) && !host.is_empty() && host.bytes().all(fits)
        });
        if is_origin {
            Ok(text.to_ascii_lowercase())
        } else {
            Err(origin.invalid(
                "is no origin; write a scheme and a host such as \"https://example.com\", \
                 or \"*\" alone for all",
            ))
        }
    };
    node.strings()?.map(read).collect::<Result<_, _>>().map(Some)
}

fn read_tokens(node: &Node<'_>) -> Result<Vec<String>, Error> {
    let read = |token: Node<'_>| match token.string()? {
        text if is_token(text) => Ok(text.to_owned()),
        _ => Err(token.invalid("must be a name of letters, digits and hyphens")),
    };
    node.strings()?.map(read).collect()
}
