//! Why a request is not carried out.

use howdah_config::Error;

/// Why a request is not carried out; [`Reply`] has its status and words.
///
/// [`Reply`]: crate::Reply
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    // What the client has done wrong.
    /// The body is longer than [`MAX_BODY`](crate::MAX_BODY).
    BodyTooLarge,
    /// There is a certificate bundle of this name.
    CertificateExists,
    /// A listener uses the certificate bundle.
    CertificateInUse,
    /// With this change, the document would pass a limit.
    DocumentTooLarge {
        /// Which.
        detail: String,
    },
    /// The request names a host that is not this machine.
    ForeignHost,
    /// The request has a header field that only browsers send.
    FromBrowser {
        /// The field, or what its name starts with.
        field: &'static str,
    },
    /// The body is no certificate bundle.
    InvalidCertificate {
        /// Why not.
        detail: String,
    },
    /// The path names no certificate bundle, or one that cannot be stored.
    InvalidCertificateName,
    /// The document would not be a configuration.
    InvalidConfiguration(Error),
    /// The body is not JSON.
    InvalidJson(Error),
    /// The path has another method.
    InvalidMethod {
        /// The methods it has.
        allow: &'static str,
    },
    /// The path cannot be decoded.
    InvalidPath,
    /// The value at the path has another method, or there is no such method.
    MethodNotAllowed {
        /// The methods it has.
        allow: &'static str,
    },
    /// The configuration has no application of this name.
    NoSuchApplication {
        /// The name.
        name: String,
    },
    /// There is no certificate bundle of this name.
    NoSuchCertificate,
    /// The path leads nowhere in the status or in a certificate bundle.
    NoSuchPath,
    /// The path leads nowhere in the configuration, or nowhere at all.
    NoSuchValue,
    /// The value at the path is no array, so nothing can be appended to it.
    NotAnArray,
    /// The request does not carry the token.
    Unauthorized,
    /// The request could not be read: its head is malformed, or its body did not arrive whole. Such
    /// a body must not be translated, since a part of it may be JSON too.
    Unreadable {
        /// The status that HTTP has for it.
        status: u16,
    },

    // What the server could not do.
    /// The certificate bundle could not be deleted.
    CertificateNotDeleted {
        /// Why.
        detail: String,
    },
    /// The certificate bundle could not be stored.
    CertificateNotStored {
        /// Why.
        detail: String,
    },
    /// The new configuration could not be made the running one; the old one still is.
    NotApplied {
        /// Why: the address in use, the application that does not start.
        detail: String,
    },
    /// The configuration could not be read again; the old one runs on.
    NotRead {
        /// Why.
        detail: String,
    },
    /// The application could not be restarted.
    NotRestarted {
        /// Why.
        detail: String,
    },
    /// The new configuration could not be written to the disk; the old one runs on.
    NotStored {
        /// Why.
        detail: String,
    },
    /// The status could not be put together.
    StatusUnavailable,
}
