//! Checks that a directory exists.

use std::fs;

/// Checks that this is the path of a directory. The error is for the administrator.
pub fn check(path: &str) -> Result<(), String> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(format!("{path} is not a directory")),
        Err(error) => Err(format!("{path} cannot be used: {error}")),
    }
}
