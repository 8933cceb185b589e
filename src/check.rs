//! `howdah check`.

use std::fs;
use std::io::Read;
use std::path::Path;

/// Says whether a document is valid.
pub fn run(file: Option<&Path>) -> Result<(), String> {
    let (name, text) = match file {
        Some(path) => (path.display().to_string(), read(path)?),
        None => {
            let mut text = Vec::new();
            std::io::stdin().read_to_end(&mut text).map_err(|e| format!("standard input: {e}"))?;
            ("standard input".to_owned(), text)
        }
    };
    howdah_config::parse(&text).map_err(|error| format!("{name}: {error}"))?;
    println!("{name}: the configuration is valid");
    Ok(())
}

/// Reads a configuration file.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| {
        let advice = match error.kind() {
            std::io::ErrorKind::NotFound => "there is no such file",
            std::io::ErrorKind::PermissionDenied => "it may not be read by this user",
            std::io::ErrorKind::IsADirectory => {
                "it is a directory; to serve a directory, leave --config out"
            }
            _ => return format!("{}: {error}", path.display()),
        };
        format!("{}: {advice}", path.display())
    })
}
