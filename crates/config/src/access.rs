//! `allow`, `deny` and `basic_auth` of an action: who may come here.

use std::path::PathBuf;

use crate::address_pattern::AddressPatterns;
use crate::error::Error;
use crate::node::{Node, Object};

/// Who may have what an action gives.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Only these addresses.
    pub allow: Option<AddressPatterns>,
    /// None of these addresses, even if they are allowed.
    pub deny: Option<AddressPatterns>,
    /// Who knows a password.
    pub basic_auth: Option<BasicAuth>,
}

/// Names and passwords (RFC 7617).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BasicAuth {
    /// What the client shows its user: printable ASCII without quotes and backslashes.
    pub realm: String,
    /// A file as the program `htpasswd` writes it.
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
        let object = node.object()?;
        let realm = object.read("realm", |realm| {
            let text = realm.text()?;
            let fits = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
            match text.bytes().all(fits) {
                true => Ok(text.to_owned()),
                false => {
                    Err(realm.invalid("must be printable ASCII without quotes and backslashes"))
                }
            }
        })?;
        let users_file = object.required("users_file")?.file()?;
        object.end()?;
        Ok(BasicAuth { realm: realm.unwrap_or_else(|| "Restricted".to_owned()), users_file })
    }
}
