//! `allow`, `deny` and `basic_auth` of an action: access control.

use std::path::PathBuf;

use crate::address_pattern::AddressPatterns;
use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::{Node, Object};

/// Keys of an action about its clients.
pub(crate) static KEYS: &[Key] = &[
    Key::new("allow", Kind::Texts, "Addresses of clients that are allowed; other clients get 403")
        .default("all clients")
        .details("[Address patterns](routes.md#address-patterns). An empty array allows no client"),
    Key::new("deny", Kind::Texts, "Addresses of clients that get 403, even if `allow` has them")
        .default("no client")
        .details("[Address patterns](routes.md#address-patterns)"),
    Key::new(
        "basic_auth",
        Kind::Object(&BASIC_AUTH),
        "User names and passwords (Basic authentication)",
    )
    .default("none")
    .details("See below"),
];

/// `basic_auth` of an action.
pub(crate) static BASIC_AUTH: Shape = Shape {
    name: "basic_auth",
    parts: &[&[
        Key::new("users_file", Kind::Text, "File of users, in the format of `htpasswd`")
            .details(
                "Passwords: bcrypt (`htpasswd -B`, up to a cost of 14), apr1 (`-m`), SHA-1 \
                 (`-s`), and DES (`-d`), `$1$`, `$5$`, `$6$` (up to 500,000 rounds) and `$y$` (up \
                 to 32 MiB) of crypt(3). The server's user must be able to read it. While its \
                 file system does not answer, its last content stays in use",
            )
            .required(),
        Key::new("realm", Kind::Text, "The realm, which browsers display; printable ASCII")
            .default("\"Restricted\""),
    ]],
};

/// Rules about the clients that may use an action.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Client addresses that are allowed; all if `None`.
    pub allow: Option<AddressPatterns>,
    /// Client addresses that are denied, also if they are in `allow`.
    pub deny: Option<AddressPatterns>,
    /// Users and their passwords.
    pub basic_auth: Option<BasicAuth>,
}

/// Basic authentication (RFC 7617).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BasicAuth {
    /// The realm, which browsers display: printable ASCII without quotes and backslashes.
    pub realm: String,
    /// The file of users, in the format of `htpasswd`.
    pub users_file: PathBuf,
}

impl Access {
    pub(crate) fn read(object: &Object<'_>) -> Result<Access, Error> {
        Ok(Access {
            allow: object.read("allow", AddressPatterns::read)?,
            deny: object.read("deny", AddressPatterns::read)?,
            basic_auth: object.read("basic_auth", BasicAuth::read)?,
        })
    }
}

impl BasicAuth {
    fn read(node: &Node<'_>) -> Result<BasicAuth, Error> {
        let object = node.object(&BASIC_AUTH)?;
        let realm = object.read("realm", |realm| {
            let text = realm.text()?;
            let fits = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
            if text.bytes().all(fits) {
                Ok(text.to_owned())
            } else {
                Err(realm.invalid("must be printable ASCII without quotes and backslashes"))
            }
        })?;
        let users_file = object.required("users_file")?.file()?;
        object.end()?;
        Ok(BasicAuth { realm: realm.unwrap_or_else(|| "Restricted".to_owned()), users_file })
    }
}
