//! Files that are replaced as a whole.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Writes a file, or standard output for `-`. An existing file is replaced at once and keeps its
/// mode. A symbolic link is followed if it belongs to this user or to root.
pub fn write(path: &Path, text: &str) -> Result<(), String> {
    if path.as_os_str() == "-" {
        print!("{text}");
        return Ok(());
    }
    let failed = |problem: String| format!("{}: {problem}", path.display());
    let target = followed(path).map_err(failed)?;
    replace(&target, text).map_err(|error| failed(error.to_string()))
}

/// Returns the file that a path stands for.
fn followed(path: &Path) -> Result<PathBuf, String> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(path.to_owned()) };
    if !metadata.is_symlink() {
        return Ok(path.to_owned());
    }
    let own = rustix::process::geteuid().as_raw();
    if metadata.uid() != own && metadata.uid() != 0 {
        return Err(
            "it is a symbolic link of another user; remove it, or write to another file".to_owned()
        );
    }
    fs::canonicalize(path).map_err(|error| format!("the symbolic link leads nowhere: {error}"))
}

fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let mode = match fs::symlink_metadata(path) {
        // A device or FIFO, such as /dev/stdout, is no file that could be replaced.
        Ok(metadata) if !metadata.is_file() && !metadata.is_symlink() => {
            return File::options().write(true).open(path)?.write_all(text.as_bytes());
        }
        Ok(metadata) => metadata.mode() & 0o777,
        Err(_) => 0o644,
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = path.with_file_name(format!(".{name}.{}", std::process::id()));
    // One of a former process with this number, which was killed.
    let _ = fs::remove_file(&new);
    let mut options = File::options();
    // Fails for a link in its place.
    let written =
        options.write(true).create_new(true).mode(mode).open(&new).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, path)
        });
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_file_is_replaced_and_keeps_its_mode() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.json");
        write(&path, "one").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        write(&path, "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_own_link_is_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("a.json"), directory.path().join("link"));
        fs::write(&file, "old").unwrap();
        symlink("a.json", &link).unwrap();
        write(&link, "new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        fs::remove_file(&file).unwrap();
        assert!(write(&link, "new").unwrap_err().contains("leads nowhere"));
    }
}
