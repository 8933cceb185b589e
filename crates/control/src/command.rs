//! The commands of the API.

use crate::bundle::Bundle;
use crate::caches::{CachePurge, CacheUrl};
use crate::certificate::CertificateName;
use crate::change::Change;
use crate::path::Path;

/// A command, with the condition under which it is legal.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Change the configuration. Legal at any time; changes are made one after the other.
    Change(Change),
    /// Delete a certificate bundle; legal while no listener uses it ([`Store::uses_certificate`]).
    ///
    /// [`Store::uses_certificate`]: crate::Store::uses_certificate
    DeleteCertificate(CertificateName),
    /// Describe certificate bundles: all of them, or the part of one that the path leads to.
    GetCertificates(Path),
    /// Show a part of the configuration.
    GetConfig(Path),
    /// Show certificates, configuration and status in one tree.
    GetEverything,
    /// Show the workers of all applications, or a part of that.
    GetPools(Path),
    /// Show a part of the status.
    GetStatus(Path),
    /// Show how the number of processes of an application was chosen; legal if the configuration
    /// has an application of this name.
    GetTuning {
        /// The application.
        name: String,
    },
    /// Show what is known about the stored responses of a URL, and why it has none.
    InspectCaches {
        /// Name of the cache; `None` for all.
        cache: Option<String>,
        /// The URL.
        url: CacheUrl,
    },
    /// Purge stored responses; legal if the configuration has a cache of this name.
    PurgeCaches {
        /// Name of the cache; `None` for all.
        cache: Option<String>,
        /// What is purged.
        purge: CachePurge,
    },
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
    /// Replace all processes of an application, without interrupting a request; legal if the
    /// configuration has an application of this name.
    RestartApplication {
        /// The application.
        name: String,
    },
    /// Show the stored responses that were asked for most.
    TopCaches {
        /// Name of the cache; `None` for all.
        cache: Option<String>,
    },
    /// Replace the server by a new start of its program, without interrupting a request; legal while
    /// no upgrade is in progress.
    Upgrade,
}

impl Command {
    /// Returns true if an administrator looks for it in the log: a change of the configuration or of the
    /// certificates, a restart or a reload. An upgrade has lines of its own, and purges come too often.
    pub fn is_logged(&self) -> bool {
        matches!(
            self,
            Command::Change(_)
                | Command::DeleteCertificate(_)
                | Command::PutCertificate { .. }
                | Command::Reload { .. }
                | Command::RestartApplication { .. }
        )
    }
}
