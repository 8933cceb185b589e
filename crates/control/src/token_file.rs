//! Reads the file with the token of the control API, for the server and the commands.

use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::token::{MAX_TOKEN, Token};

/// Reads a token file. Only its owner may have access, and the owner must be root or the user of
/// this process. The error begins with `name`, the option that has the path.
pub fn read(name: &str, path: &Path) -> Result<Token, String> {
    let problem = |what: String| format!("{name} {}: {what}", path.display());
    let system = |error: std::io::Error| problem(error.to_string());
    // A FIFO must not block the start.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path).map_err(system)?;
    // Metadata of the open file: the path may lead elsewhere by now.
    let metadata = file.metadata().map_err(system)?;
    check(&metadata, rustix::process::geteuid().as_raw(), path).map_err(problem)?;
    let mut text = Vec::new();
    file.take(2 * MAX_TOKEN as u64).read_to_end(&mut text).map_err(system)?;
    Token::parse(&text).map_err(|what| {
        problem(format!("{what}; make one with: (umask 077; openssl rand -hex 32 > FILE)"))
    })
}

fn check(metadata: &Metadata, user: u32, path: &Path) -> Result<(), String> {
    if !metadata.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let owner = metadata.uid();
    if owner != 0 && owner != user {
        return Err(format!(
            "it belongs to the user with the id {owner}, who could change it; it must belong to \
             root or to who starts this (chown)"
        ));
    }
    let mode = metadata.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(format!(
            "others than its owner have access to it (mode {mode:04o}): chmod 600 {}",
            path.display()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn file(text: &str, mode: u32) -> (tempfile::TempDir, std::path::PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        (directory, path)
    }

    #[test]
    fn a_token_is_read_from_a_file_that_only_its_owner_can_read() {
        for mode in [0o600, 0o400, 0o700] {
            let (_directory, path) = file("0123456789abcdef\n", mode);
            assert_eq!(read("--x", &path).unwrap().expose(), "0123456789abcdef");
        }
        for mode in [0o640, 0o604, 0o620, 0o602, 0o644, 0o666] {
            let (_directory, path) = file("0123456789abcdef\n", mode);
            let problem = read("--x", &path).unwrap_err();
            assert!(problem.starts_with("--x /") && problem.contains("chmod 600 /"), "{problem}");
            assert!(problem.contains(&format!("mode 0{mode:o}")), "{problem}");
        }
    }

    #[test]
    fn what_is_no_token_is_refused_and_not_repeated() {
        for text in ["", "tooshort", "two lines of text\nand not one"] {
            let (_directory, path) = file(text, 0o600);
            let problem = read("--x", &path).unwrap_err();
            assert!(problem.contains("openssl rand -hex 32"), "{problem}");
            assert!(text.is_empty() || !problem.contains(text), "{problem}");
        }
        let (directory, path) = file("", 0o600);
        assert!(read("--x", directory.path()).unwrap_err().contains("not a regular file"));
        fs::remove_file(&path).unwrap();
        assert!(read("--x", &path).unwrap_err().contains("No such file"));
    }

    #[test]
    fn the_owner_is_root_or_who_reads_it() {
        let (_directory, path) = file("0123456789abcdef", 0o600);
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!(check(&metadata, metadata.uid(), &path), Ok(()));
        match (metadata.uid(), check(&metadata, metadata.uid() + 1, &path)) {
            (0, result) => assert_eq!(result, Ok(())),
            (_, result) => assert!(result.unwrap_err().contains("chown")),
        }
    }
}
