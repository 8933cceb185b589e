//! What the control process tells the supervisor and the router, and what they answer.
//!
//! The control process speaks for administrators, who may change anything. What it names need not
//! be in a configuration yet.

use super::{Field, Outcome, Secret};
use crate::bytes::{Malformed, Put, Take};

messages! {
    /// From the control process, which administrators talk to, to the supervisor. One question at a
    /// time: the next one follows the answer.
    FromControl {
        /// Makes a configuration the running one, and stores it; answered with `Applied`.
        /// Descriptor: a memfd with the document.
        1 Apply {
            /// All applications are restarted afterwards.
            restart: bool,
        }
        /// Reads the configuration again from where it came at the start; answered with
        /// `DocumentRead`.
        2 ReadDocument {}
        /// Stores a certificate bundle; answered with `Stored`. Descriptor: a memfd with its text.
        3 StoreCertificate {
            /// Its name.
            name: String,
        }
        /// Deletes a certificate bundle; answered with `Stored`.
        4 DeleteCertificate {
            /// Its name.
            name: String,
        }
        /// Answer to `Reload`: whatever came of it is in the log.
        5 Reloaded {}
    }
}

messages! {
    /// From the supervisor to the control process.
    ToControl {
        /// The first message. Descriptors: the log, a memfd with the document, one with the
        /// certificate bundles ([`put_bundles`]), the socket to the router ([`ToRouter`]), and the
        /// control API's listening socket if there is one.
        1 Hello {
            /// Address of the control API, or empty.
            address: String,
            /// What the document is called in messages.
            origin: String,
            /// Changes are not kept: a reload reads the document from where it came.
            is_undone_by_reload: bool,
            /// Documents have NGINX Unit's defaults where they say nothing.
            unit_defaults: bool,
            /// Token that requests must carry.
            token: Option<Secret>,
            /// The process restricts itself to what it needs.
            sandbox: bool,
        }
        /// Result of `Apply`.
        2 Applied {
            /// Whether it is the running configuration now.
            outcome: Outcome,
        }
        /// Result of `ReadDocument`. Descriptor: a memfd with the document, if it could be read.
        3 DocumentRead {
            /// Empty, or what went wrong.
            error: String,
        }
        /// Result of `StoreCertificate` and `DeleteCertificate`.
        4 Stored {
            /// Empty, or what went wrong.
            error: String,
        }
        /// The configuration is to be read again and applied, as a signal has asked for.
        5 Reload {}
        /// The router has got a certificate from an authority. Descriptor: a memfd with its text.
        6 Renewed {
            /// Its name.
            name: String,
        }
        /// The log was opened anew. Descriptor: the log.
        7 Reopened {}
    }
}

messages! {
    /// From the control process to the router.
    ToRouter {
        /// Asks for what `/status` shows.
        1 Status {
            /// To be repeated in the answer.
            number: u32,
        }
        /// Asks what applications do, worker by worker.
        2 Pools {
            /// To be repeated in the answer.
            number: u32,
            /// The only application that is asked about, if there is one.
            name: Option<String>,
        }
        /// Asks how the number of an application's processes came about.
        3 Tuning {
            /// To be repeated in the answer.
            number: u32,
            /// The application.
            name: String,
        }
        /// Replaces all processes of an application.
        4 Restart {
            /// To be repeated in the answer.
            number: u32,
            /// The application.
            name: String,
        }
    }
}

messages! {
    /// From the router to the control process.
    FromRouter {
        /// Result of a question. Descriptor: a memfd with a JSON text, if there is something to show.
        1 Answer {
            /// As given in the question.
            number: u32,
            /// Empty, or what went wrong.
            error: String,
        }
    }
}
