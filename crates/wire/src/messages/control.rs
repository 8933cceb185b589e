//! Messages between the control process, the supervisor and the router.
//!
//! The control process acts with the rights of administrators: it may change anything. Names in its
//! messages need not be in a configuration yet.

use super::field::Field;
use super::outcome::{ChangeOutcome, Restart};
use super::secret::Secret;
use crate::bytes::{Decoder, Encode, Malformed};

messages! {
    /// From the control process to the supervisor. There is one request at a time: the next one
    /// follows the answer.
    FromControl {
        /// Applies a configuration, and stores it; answered with `Applied`. Descriptor: a memfd
        /// with the document.
        1 Apply {
            /// Applications that are restarted afterwards.
            restart: Restart,
        }
        /// Reads the configuration again from its source; answered with `DocumentRead`.
        2 ReadDocument {
            /// Only the tables of the running configuration that are in files.
            tables: bool,
        }
        /// Stores a certificate bundle; answered with `Stored`. Descriptor: a memfd with its text.
        3 StoreCertificate {
            /// Name of the certificate.
            name: String,
        }
        /// Deletes a certificate bundle; answered with `Stored`.
        4 DeleteCertificate {
            /// Name of the certificate.
            name: String,
        }
        /// Answer to `Reload`; the result is in the log.
        5 Reloaded {
            /// The `tables` of the request.
            tables: bool,
        }
        /// Replaces the server by a new start of its program; answered with `UpgradeEnded`.
        6 Upgrade {}
        /// Another change waits for the one that is being made, which must not take long now.
        8 Hurry {}
        /// Compiles the sites of a document that was sent to the control API; answered with
        /// `DocumentRead`. Descriptor: a memfd with the document, which names no files.
        10 CompileDocument {}
        /// Answer to `Ping`.
        9 Pong {
            /// As given to `Ping`.
            number: u32,
        }
        /// Looks up the users that applications of the running document name; answered with
        /// `UsersFound`, also during another request.
        11 FindUsers {}
        /// Result of a reload: whether the document at its source is the one that runs.
        7 SourceRead {
            /// Reason why it is refused; empty if it is not.
            error: String,
        }
    }
}

messages! {
    /// From the supervisor to the control process.
    ToControl {
        /// The first message. Descriptors: the log, a memfd with the document, one with the
        /// certificate bundles ([`put_bundles`](super::put_bundles)), the socket to the router
        /// ([`ToRouter`]), the socket for users of sites if there is one, and the control API's
        /// listening socket if there is one.
        1 Hello {
            /// Address of the control API, or empty.
            address: String,
            /// Name of the document in error messages.
            origin: String,
            /// Changes are not stored: a reload undoes them.
            is_undone_by_reload: bool,
            /// Documents have NGINX Unit's defaults.
            unit_defaults: bool,
            /// Token that API requests must have; `None` for no token.
            token: Option<Secret>,
            /// The process enters its sandbox.
            sandbox: bool,
            /// Since when the document at its source is refused, in seconds since 1970, and why.
            refused: Option<(u64, String)>,
            /// There is a socket for users of sites.
            has_site_users: bool,
        }
        /// Result of `Apply`.
        2 Applied {
            /// The result of the change.
            outcome: ChangeOutcome,
        }
        /// Result of `ReadDocument` and `CompileDocument`. Descriptor: a memfd with the document, if it could be read.
        3 DocumentRead {
            /// Error message; empty on success.
            error: String,
        }
        /// Result of `StoreCertificate` and `DeleteCertificate`.
        4 Stored {
            /// Error message; empty on success.
            error: String,
            /// The server is being upgraded; the change must be made afterwards.
            is_upgrading: bool,
        }
        /// Reads the configuration again and applies it, because of a signal.
        5 Reload {
            /// Only the tables of the running configuration that are in files, because they have
            /// changed. Applications are not restarted.
            tables: bool,
        }
        /// The router has got a certificate from an authority. Descriptor: a memfd with its text.
        6 Renewed {
            /// Name of the certificate.
            name: String,
        }
        /// The log was reopened. Descriptor: the log.
        7 Reopened {}
        /// Another router serves. Descriptor: the socket to it.
        11 RouterReplaced {}
        /// Asks whether the process works; answered with `Pong`.
        12 Ping {
            /// Number of the ping.
            number: u32,
        }
        /// A socket was opened anew. Descriptor: the socket.
        14 Listening {
            /// The socket for users of sites, otherwise that of the control API.
            is_for_site_users: bool,
        }
        /// Result of `FindUsers`. Descriptor: a memfd with a line for each user that exists, of its
        /// id, a tab and its name. The user of the server and root are left out.
        15 UsersFound {
            /// Error message; empty on success.
            error: String,
        }
        /// The process of the server that was replaced last.
        13 Replaced {
            /// When, in seconds since 1970.
            at: u64,
            /// Its kind and number, and why it was replaced.
            reason: String,
        }
        /// An upgrade has begun, by a signal or `Upgrade`: changes are refused until it has ended.
        8 UpgradeBegun {}
        /// An upgrade has ended. After success this process ends when it has sent its responses:
        /// another one serves the control API.
        9 UpgradeEnded {
            /// Reason why the server was not replaced; empty on success.
            error: String,
            /// Process id of the new server.
            pid: u32,
            /// Version of the new server.
            version: String,
        }
    }
}

messages! {
    /// From the control process to the router.
    ToRouter {
        /// A question, answered with `Answer`.
        1 Ask {
            /// Number of the question, repeated in the answer.
            number: u32,
            /// The question as JSON (crate `questions`).
            question: String,
        }
        /// Nobody waits for the answer to a question any more; it may be left unanswered.
        2 Forget {
            /// Number of the question.
            number: u32,
        }
    }
}

messages! {
    /// From the router to the control process.
    FromRouter {
        /// Answer to a question. Descriptor: a memfd with JSON; none if the subject of the question
        /// does not exist.
        1 Answer {
            /// Number of the question.
            number: u32,
            /// Error message; empty on success.
            error: String,
        }
    }
}
