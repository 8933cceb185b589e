//! Checks that a directory exists.

use std::fs;
use std::io::ErrorKind;

/// Reason why a directory cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusableDirectory {
    /// The reason, for the administrator.
    pub reason: String,
    /// The user may not look whether it exists.
    pub is_denied: bool,
}

/// Checks that this is the path of a directory.
pub fn check(path: &str) -> Result<(), UnusableDirectory> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => {
            let reason = format!("{path} is not a directory");
            Err(UnusableDirectory { reason, is_denied: false })
        }
        Err(error) => {
            let is_denied = error.kind() == ErrorKind::PermissionDenied;
            Err(UnusableDirectory { reason: format!("{path} cannot be used: {error}"), is_denied })
        }
    }
}
