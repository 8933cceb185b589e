//! What is known of the certificates that the server gets by itself, for `/status`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// One certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeReport {
    /// The name that it is stored under.
    pub name: String,
    /// Its names.
    pub domains: Vec<String>,
    /// When it runs out; `None` if there is none yet.
    pub expires: Option<SystemTime>,
    /// What happens next, and when; `None`: it happens now.
    pub next: Option<SystemTime>,
    /// Failures in a row.
    pub failures: u32,
    /// What went wrong the last time.
    pub error: Option<String>,
}

/// All of them.
#[derive(Debug, Clone, Default)]
pub struct Board(Arc<Mutex<BTreeMap<String, AcmeReport>>>);

impl Board {
    /// Notes how it stands with a certificate.
    pub fn put(&self, report: AcmeReport) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(report.name.clone(), report);
    }

    /// Forgets one.
    pub fn remove(&self, name: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// All of them, by name.
    pub fn all(&self) -> Vec<AcmeReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}
