//! What a configuration names, and the router may therefore ask for.
//!
//! The router reads what strangers send, and may have been taken over by one of them. So the
//! supervisor opens, binds, runs and starts for it what the administrator's document names, and
//! nothing else. The document itself never comes from the router.

use std::collections::{BTreeSet, HashMap};

use howdah_wire::messages::ApplicationSpec;

/// Derives the grants of a document; `Err` says why it is no configuration.
pub type Derive = Box<dyn Fn(&[u8]) -> Result<Grants, String>>;

/// All that a configuration names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    /// Addresses of listeners.
    pub listeners: BTreeSet<String>,
    /// Files that the server appends to: access log, slow logs.
    pub logs: BTreeSet<String>,
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
}

/// A set of names, some of which are known by their beginnings alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// Whole names.
    pub whole: BTreeSet<String>,
    /// Beginnings: names on demand are not known before somebody asks for them.
    pub prefixes: Vec<String>,
}

impl Names {
    /// Whether a name is one of them.
    pub fn contains(&self, name: &str) -> bool {
        self.whole.contains(name) || self.prefixes.iter().any(|prefix| name.starts_with(prefix))
    }
}

impl Grants {
    /// Whether the router may have a certificate bundle, with its key.
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
