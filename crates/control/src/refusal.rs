//! Reasons for which a request is refused or fails.

use howdah_config::Error;

/// Reason for which a request is refused or fails. [`Reply`] has the status and the text.
///
/// [`Reply`]: crate::Reply
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    // Mistakes of the client.
    /// The body is longer than [`MAX_BODY`](crate::MAX_BODY).
    BodyTooLarge,
    /// There is a certificate bundle of this name.
    CertificateExists,
    /// A listener uses the certificate bundle.
    CertificateInUse,
    /// The changed document would exceed a limit.
    DocumentTooLarge {
        /// The limit.
        detail: String,
    },
    /// The socket for users of sites has no such command.
    ForAdministrators,
    /// The request names a host that is not this machine.
    ForeignHost,
    /// The request has a header field that only browsers send.
    FromBrowser {
        /// The field, or the prefix of its name.
        field: &'static str,
    },
    /// Files own parts of the document that the change would make different.
    Included {
        /// The path of each part, and its file; at least one.
        parts: Vec<(String, String)>,
    },
    /// The body is no certificate bundle.
    InvalidCertificate {
        /// The reason.
        detail: String,
    },
    /// The path names no certificate bundle, or one that cannot be stored.
    InvalidCertificateName,
    /// The document would not be a configuration.
    InvalidConfiguration(Error),
    /// The document at its source is not a configuration.
    InvalidSource {
        /// The first mistake.
        problem: Box<Error>,
        /// All mistakes, as lines with the file.
        mistakes: String,
    },
    /// The part of the document that the change is about was made from a site.
    MadeFromSite {
        /// The path of the part.
        part: String,
        /// The path of the site, or of all sites.
        from: String,
    },
    /// Sites of the document have mistakes.
    InvalidSites {
        /// The mistakes, as lines with their JSON paths.
        mistakes: String,
    },
    /// The body is not JSON.
    InvalidJson(Error),
    /// The body of a reload is neither empty nor `{"restart": true}` or `{"restart": false}`.
    InvalidReload,
    /// The body of an order for a profile is neither empty nor an object with its members.
    InvalidProfile,
    /// The body has no subject to purge, or the path no URL.
    InvalidPurge {
        /// The reason.
        detail: String,
    },
    /// The query of the path has a mistake.
    InvalidQuery {
        /// The reason.
        detail: String,
    },
    /// The path has other methods.
    InvalidMethod {
        /// The allowed methods.
        allow: &'static str,
    },
    /// The path cannot be decoded.
    InvalidPath,
    /// The value at the path has other methods, or the method does not exist.
    MethodNotAllowed {
        /// The allowed methods.
        allow: &'static str,
    },
    /// The configuration has no application of this name.
    NoSuchApplication {
        /// The name.
        name: String,
    },
    /// The configuration has no cache of this name, or none at all.
    NoSuchCache {
        /// The name.
        name: Option<String>,
    },
    /// There is no certificate bundle of this name.
    NoSuchCertificate,
    /// The application has no job of this name, or there is no such application.
    NoSuchJob {
        /// The application.
        application: String,
        /// The job.
        job: String,
    },
    /// The state of a job does not allow an order.
    NotOrdered {
        /// The reason.
        detail: String,
    },
    /// No application runs as the user who asks.
    NoOwnSite,
    /// The user who asks has no site or application of this name.
    NoSuchOwnSite {
        /// The name.
        name: String,
    },
    /// There is no value at the path in the status or in a certificate bundle.
    NoSuchPath,
    /// There is no value at the path.
    NoSuchValue,
    /// The value at the path is no array, so values cannot be appended to it.
    NotAnArray,
    /// The user has too many connections or profiles.
    TooMuchAtOnce {
        /// The limit.
        detail: String,
    },
    /// The request does not carry the token.
    Unauthorized,
    /// The request could not be read: its head is malformed, or its body did not arrive whole. An
    /// incomplete body must not be translated, since a part of it may be JSON too.
    Unreadable {
        /// The status of the response.
        status: u16,
    },

    // Failures of the server.
    /// The certificate bundle could not be deleted.
    CertificateNotDeleted {
        /// The reason.
        detail: String,
    },
    /// The certificate bundle could not be stored.
    CertificateNotStored {
        /// The reason.
        detail: String,
    },
    /// The new configuration could not be applied; the old one still runs.
    NotApplied {
        /// The reason, such as an address in use or an application that does not start.
        detail: String,
    },
    /// The configuration could not be read again; the old one still runs.
    NotRead {
        /// The reason.
        detail: String,
    },
    /// The application could not be restarted.
    NotRestarted {
        /// The reason.
        detail: String,
    },
    /// The new configuration could not be stored; the old one still runs.
    NotStored {
        /// The reason.
        detail: String,
    },
    /// The server was not replaced, and continues.
    NotUpgraded {
        /// The reason.
        detail: String,
    },
    /// An upgrade is in progress.
    Upgrading,
    /// The router does not answer.
    NoAnswer {
        /// Time for which it has not answered.
        detail: String,
    },
    /// The status could not be assembled.
    StatusUnavailable,
}
