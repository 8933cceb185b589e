//! Reads configuration files, with the files that they include.

use std::fs;
use std::io;
use std::path::Path;

use howdah_config::include::{self, IncludedFiles};
use howdah_config::{Config, Defaults};

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

/// Reads a document with all files that it includes. An error in one of several files has the file and
/// the line; that of a single one is left to the caller, who parses the text.
pub fn read_document(path: &Path, defaults: &Defaults) -> Result<Vec<u8>, String> {
    let text = read(path)?;
    let Some(expanded) = include::expand(&text, path, &Disk)? else { return Ok(text) };
    match Config::from_value_with(expanded.document.clone(), defaults) {
        Ok(_) => Ok(expanded.document.to_string().into_bytes()),
        Err(error) => Err(expanded.explain(&error)),
    }
}

/// The files of the disk.
struct Disk;

impl IncludedFiles for Disk {
    fn read(&self, file: &Path) -> Result<Vec<u8>, String> {
        // Opening a FIFO would wait.
        match fs::metadata(file) {
            Ok(found) if !found.is_file() && !found.is_dir() => {
                Err(format!("{}: it is not a regular file", file.display()))
            }
            _ => read(file),
        }
    }

    fn names(&self, directory: &Path) -> Result<Vec<String>, String> {
        let failed = |error: io::Error| format!("{}: {error}", directory.display());
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            // As a pattern without a match.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let names = entries.map(|entry| entry.map(|entry| entry.file_name().into_string().ok()));
        let names: Vec<_> = names.collect::<Result<_, _>>().map_err(failed)?;
        Ok(names.into_iter().flatten().collect())
    }
}
