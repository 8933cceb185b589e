//! Errors of writing to a file, for people.

use std::io::{Error, ErrorKind};

/// Returns true if an error means that the disk or a quota is full.
pub fn is_full(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// Returns the remedy for an error of writing to a file.
pub fn advice(error: &Error) -> &'static str {
    match error.kind() {
        _ if is_full(error) => "make room there: df -h",
        ErrorKind::ReadOnlyFilesystem => "mount it for writing",
        ErrorKind::PermissionDenied => "let the server's user write there",
        _ => "see to the disk",
    }
}
