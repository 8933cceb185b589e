//! The resources that a configuration names and that the router may therefore have.
//!
//! The router reads untrusted input, and an attacker may have taken control of it. So the
//! supervisor opens, binds, runs and starts for it only resources that the administrator's document
//! names. The document never comes from the router.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use howdah_jobs::Job;
use howdah_wire::messages::{ApplicationSpec, MailRoute, TelemetryRoute};

/// Derives the grants of a document. Error: the reason why it is not a configuration.
pub type DeriveGrants = Box<dyn Fn(&[u8]) -> Result<Grants, String>>;

/// The resources that a configuration names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    /// Listeners, by their addresses.
    pub listeners: BTreeMap<String, SocketAccess>,
    /// Files that the server appends to: access logs, slow logs.
    pub logs: BTreeSet<String>,
    /// Files of caches.
    pub caches: BTreeSet<String>,
    /// Datagram sockets of log servers: `udp:ADDRESS` or `unix:PATH`.
    pub log_sockets: BTreeSet<String>,
    /// Files with certificates, keys and OCSP responses.
    pub tls_files: BTreeSet<String>,
    /// Programs that change DNS records.
    pub programs: BTreeSet<String>,
    /// Certificate bundles of the store that listeners and upstreams use.
    pub certificates: BTreeSet<String>,
    /// Certificate bundles and accounts that the router gets from authorities (ACME) and stores.
    pub managed: Names,
    /// Applications, by name.
    pub applications: HashMap<String, ApplicationSpec>,
    /// Jobs of applications, by the name of the application.
    pub jobs: BTreeMap<String, Vec<Job>>,
    /// Several servers share a store, and run each timer on one of them.
    pub shares_timers: bool,
    /// Logs of applications with jobs, by the name of the application.
    pub site_logs: BTreeMap<String, String>,
    /// Names of routes and upstreams, which requests are counted for.
    pub sites: BTreeSet<String>,
    /// The mail server of each application, by the name in its specification.
    pub mail: HashMap<String, MailRoute>,
    /// The server that takes traces.
    pub telemetry: Option<TelemetryRoute>,
    /// An action responds with the page of the server.
    pub has_dashboard: bool,
    /// Time for which connections are still accepted when the server ends gracefully.
    pub shutdown_delay: Duration,
    /// Maximum time in which the router must have finished its requests when the server ends
    /// gracefully.
    pub shutdown_timeout: Option<Duration>,
}

/// The users who may connect to a listener at a unix socket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SocketAccess {
    /// The place in the document, for errors.
    pub place: String,
    /// Name of the owner; `None`: this process's user.
    pub user: Option<String>,
    /// Name of the group; `None`: that of the owner if it has a name, otherwise that of this
    /// process, or of the router if the socket is for FastCGI.
    pub group: Option<String>,
    /// Permissions of the file.
    pub mode: u32,
    /// Clients choose the scripts that they run: those who could connect before may not.
    pub is_for_fastcgi: bool,
}

/// A set of names and prefixes of names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// Complete names.
    pub whole: BTreeSet<String>,
    /// Prefixes: names of certificates on demand are not known before a client asks for them.
    pub prefixes: Vec<String>,
}

impl Names {
    /// Returns true if a name is in the set.
    pub fn contains(&self, name: &str) -> bool {
        self.whole.contains(name) || self.prefixes.iter().any(|prefix| name.starts_with(prefix))
    }
}

impl Grants {
    /// Returns true if the router may have a certificate bundle, with its key.
    pub(crate) fn has_certificate(&self, name: &str) -> bool {
        self.certificates.contains(name) || self.managed.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_whole_or_by_their_beginnings() {
        let names = Names {
            whole: BTreeSet::from(["acme:a.org".to_owned()]),
            prefixes: vec!["acme-account:".to_owned()],
        };
        assert!(names.contains("acme:a.org") && names.contains("acme-account:1"));
        assert!(!names.contains("acme:b.org") && !names.contains("shop"));
        assert!(!Names::default().contains(""));
    }
}
