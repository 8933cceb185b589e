//! `allow`, `deny` and `basic_auth` of an action: access control.

use std::path::PathBuf;

use crate::address_pattern::AddressPatterns;
use crate::error::Error;
use crate::node::{Node, Object};

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
