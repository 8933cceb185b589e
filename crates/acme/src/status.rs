//! State of each managed certificate, for `/status`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// State of a managed certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeReport {
    /// Name in the certificate store.
    pub name: String,
    /// Host names of the certificate.
    pub domains: Vec<String>,
    /// End of validity; `None` if there is no certificate yet.
    pub expires: Option<SystemTime>,
    /// Time of the next attempt; `None` during an attempt.
    pub next: Option<SystemTime>,
    /// Failed attempts in a row.
    pub failures: u32,
    /// Reason of the last failure; `None` after a success.
    pub error: Option<String>,
}

/// Reports of all managed certificates. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct AcmeReports(Arc<Mutex<BTreeMap<String, AcmeReport>>>);

impl AcmeReports {
    /// Adds or replaces the report of a certificate.
    pub fn put(&self, report: AcmeReport) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(report.name.clone(), report);
    }

    /// Removes the report of a certificate.
    pub fn remove(&self, name: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// Returns the reason of the last failure of a certificate.
    pub(super) fn last_error(&self, name: &str) -> Option<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(name)?.error.clone()
    }

    /// Returns all reports, sorted by name.
    pub fn all(&self) -> Vec<AcmeReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}
