//! The commands of the API.

use howdah_questions::Question;

use crate::bundle::Bundle;
use crate::certificate::CertificateName;
use crate::change::Change;
use crate::path::Path;

/// A command, with the condition under which it is legal.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Ask the router, and show a part of the answer. Legal if the subject of the question exists.
    Ask {
        /// The question.
        question: Question,
        /// Path of the part.
        part: Path,
    },
    /// Change the configuration. Legal at any time; changes are made one after the other.
    Change(Change),
    /// Delete a certificate bundle; legal while no listener uses it ([`Store::uses_certificate`]).
    ///
    /// [`Store::uses_certificate`]: crate::Store::uses_certificate
    DeleteCertificate(CertificateName),
    /// Describe certificate bundles: all of them, or the part of one that the path leads to.
    GetCertificates(Path),
    /// Show the whole configuration, with the parts that its sites were compiled to.
    GetCompiled,
    /// Show a part of the configuration.
    GetConfig(Path),
    /// Show certificates, configuration and status in one tree.
    GetEverything,
    /// Store a new certificate bundle; legal while there is none of this name.
    PutCertificate {
        /// The name of the bundle.
        name: CertificateName,
        /// The body.
        bundle: Bundle,
    },
    /// Read the configuration again from its source at the start of the server, and restart the
    /// applications of which something has changed, without interrupting a request.
    Reload {
        /// Restart all others, too.
        restart: bool,
    },
    /// Replace the server by a new start of its program, without interrupting a request; legal
    /// while no upgrade is in progress.
    Upgrade,
}

impl Command {
    /// Returns true if an administrator looks for it in the log: a change of the configuration or
    /// of the certificates, a restart, a reload or a profile. An upgrade has lines of its own,
    /// and purges come too often.
    pub fn is_logged(&self) -> bool {
        matches!(
            self,
            Command::Change(_)
                | Command::DeleteCertificate(_)
                | Command::PutCertificate { .. }
                | Command::Reload { .. }
                | Command::Ask {
                    question: Question::Restart { .. }
                        | Question::OrderJob { .. }
                        | Question::Profile(_),
                    ..
                }
        )
    }
}
