//! Directives of a directory: which languages win.

use crate::config::{ModuleConfig, Slot};

/// Which languages win.
#[derive(Debug, Clone, Default)]
pub struct Config {
    pub(super) languages: Option<Vec<Vec<u8>>>,
    pub(super) force: Option<Force>,
}

impl ModuleConfig for Config {
    const SLOT: Slot = Slot::Negotiation;

    fn merged(&self, child: &Config) -> Config {
        Config {
            languages: child.languages.clone().or_else(|| self.languages.clone()),
            force: child.force.or(self.force),
        }
    }
}

/// `ForceLanguagePriority`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Force {
    pub prefer: bool,
    pub fallback: bool,
}
