//! Methods by which clients of mail log in.

use crate::error::Error;
use crate::node::{Node, Shown};

/// A method by which clients of mail log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailMethod {
    /// Name and password, in one message.
    Plain,
    /// Name and password, one after the other.
    Login,
    /// A digest of the password and a challenge.
    CramMd5,
    /// POP3's digest of the password and a challenge.
    Apop,
    /// The client's certificate.
    External,
    /// A token, as Google has described it.
    Xoauth2,
    /// A token (RFC 7628).
    OauthBearer,
    /// SMTP without a login.
    None,
}

impl MailMethod {
    const ALL: [MailMethod; 8] = [
        MailMethod::Plain,
        MailMethod::Login,
        MailMethod::CramMd5,
        MailMethod::Apop,
        MailMethod::External,
        MailMethod::Xoauth2,
        MailMethod::OauthBearer,
        MailMethod::None,
    ];

    /// Returns the name in the document and in questions to authentication servers.
    pub fn name(self) -> &'static str {
        match self {
            MailMethod::Plain => "plain",
            MailMethod::Login => "login",
            MailMethod::CramMd5 => "cram-md5",
            MailMethod::Apop => "apop",
            MailMethod::External => "external",
            MailMethod::Xoauth2 => "xoauth2",
            MailMethod::OauthBearer => "oauthbearer",
            MailMethod::None => "none",
        }
    }

    /// Returns the name as a mechanism of SASL; `None` if it is none.
    pub fn sasl_name(self) -> Option<&'static str> {
        match self {
            MailMethod::Plain => Some("PLAIN"),
            MailMethod::Login => Some("LOGIN"),
            MailMethod::CramMd5 => Some("CRAM-MD5"),
            MailMethod::External => Some("EXTERNAL"),
            MailMethod::Xoauth2 => Some("XOAUTH2"),
            MailMethod::OauthBearer => Some("OAUTHBEARER"),
            MailMethod::Apop | MailMethod::None => None,
        }
    }

    pub(super) fn read(node: &Node<'_>) -> Result<MailMethod, Error> {
        let name = node.string()?;
        let found = MailMethod::ALL.into_iter().find(|method| method.name() == name);
        found.ok_or_else(|| {
            let names: Vec<_> = MailMethod::ALL.iter().map(|method| method.name()).collect();
            let error = node.invalid(format_args!("is \"{}\", which is no method", Shown(name)));
            error.with_hint(format!("write one of {}", names.join(", ")))
        })
    }

    /// Returns true if the server behind can check what the client has sent.
    pub(super) fn is_checked_behind(self) -> bool {
        use MailMethod::{Login, OauthBearer, Plain, Xoauth2};
        matches!(self, Plain | Login | Xoauth2 | OauthBearer)
    }
}
