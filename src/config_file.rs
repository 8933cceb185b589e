//! Reads configuration files.

use std::fs;
use std::io;
use std::path::Path;

/// Reads a configuration file. The error has the path and, for common mistakes, what to do.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::NotFound => "there is no such file",
            io::ErrorKind::PermissionDenied => "it may not be read by this user",
            io::ErrorKind::IsADirectory => {
                "it is a directory; to serve a directory, leave --config out"
            }
            _ => return format!("{}: {error}", path.display()),
        };
        format!("{}: {advice}", path.display())
    })
}
