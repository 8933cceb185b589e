//! The default control socket of a server, and the search for it by the commands.
//!
//! The sockets of all servers of a user are in one directory, `/run/howdah` for root. The first
//! server has `control.sock`; names of further ones contain the process id. Only the user may
//! connect.
//!
//! A server of root may have another socket, on which every user may connect and ask about sites of
//! its own ([`site_users`]).
//!
//! Without root, scripts run as the user of the server. So requests carry a token from a file that
//! sandboxed scripts cannot read.

use std::fs::{self, DirBuilder, File};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use howdah_sys::credentials;

use crate::token::Token;
use crate::token_file;

/// The directory of root's sockets.
const ROOT: &str = "/run/howdah";

/// The default state directory of root.
const ROOT_STATE: &str = "/var/lib/howdah";

/// Name of the socket for users of sites.
const SITE_USERS: &str = "sites.sock";

/// Environment variable with another directory.
const VARIABLE: &str = "HOWDAH_RUNTIME_DIR";

/// Returns the directory of this user's control sockets; `None` if the user has no runtime
/// directory.
pub fn directory() -> Option<PathBuf> {
    if let Some(directory) = named(VARIABLE) {
        return Some(directory);
    }
    if credentials::is_root() {
        return Some(ROOT.into());
    }
    let usual = PathBuf::from(format!("/run/user/{}", rustix::process::geteuid().as_raw()));
    let runtime = named("XDG_RUNTIME_DIR").or_else(|| usual.is_dir().then_some(usual));
    runtime.map(|runtime| runtime.join("howdah"))
}

/// Returns the address at which the commands look for the socket for users of sites.
pub fn site_users() -> String {
    let directory = named(VARIABLE).unwrap_or_else(|| ROOT.into());
    format!("unix:{}/{SITE_USERS}", directory.display())
}

/// Returns true if an address is that of a socket in the default directory.
pub fn is_default(address: &str) -> bool {
    let path = address.strip_prefix("unix:").map(Path::new);
    let directory = path.and_then(Path::parent);
    directory.is_some() && directory == self::directory().as_deref()
}

/// Returns true if the environment names the directory.
pub fn is_named() -> bool {
    named(VARIABLE).is_some()
}

/// Returns the absolute path in an environment variable.
fn named(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Creates the directory. Returns addresses for the control socket of this process in order of
/// preference, and the token of requests. Without addresses, the user has no runtime directory.
pub fn prepare() -> Result<(Vec<String>, Option<Token>), String> {
    let Some(directory) = directory() else { return Ok((Vec::new(), None)) };
    make(&directory).map_err(|problem| {
        format!(
            "there is no control socket: {}: {problem}; name one with --control, or start with \
             --no-control",
            directory.display()
        )
    })?;
    let token = if credentials::is_root() { None } else { Some(own_token()?) };
    let names = ["control.sock".to_owned(), format!("control-{}.sock", std::process::id())];
    Ok((names.map(|name| format!("unix:{}/{name}", directory.display())).into(), token))
}

/// Creates a directory that only this user can change.
fn make(directory: &Path) -> Result<(), String> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error.to_string()),
        _ => {}
    }
    let found = fs::symlink_metadata(directory).map_err(|error| error.to_string())?;
    let is_own = found.uid() == rustix::process::geteuid().as_raw();
    if found.is_dir() && is_own && found.mode() & 0o022 == 0 {
        Ok(())
    } else {
        Err("it must be a \
                      directory of the user who starts the server, writable for nobody else \
                      (chmod 700)"
            .to_owned())
    }
}

/// Returns the default state directory of this user; `None` if there is no HOME.
pub fn state_directory(is_root: bool) -> Option<PathBuf> {
    if is_root {
        return Some(ROOT_STATE.into());
    }
    let home = || named("HOME").map(|home| home.join(".local/state"));
    named("XDG_STATE_HOME").or_else(home).map(|base| base.join("howdah"))
}

/// Returns the file with the token of this user's control sockets; `None` for root, which needs
/// none.
pub fn token_file() -> Option<PathBuf> {
    if credentials::is_root() {
        return None;
    }
    state_directory(false).map(|state| state.join("control.token"))
}

/// Returns the token of this user; creates it if there is none.
fn own_token() -> Result<Token, String> {
    let path = token_file().ok_or("there is no control socket: there is no HOME for its token")?;
    let problem = |error: std::io::Error| {
        format!("there is no control socket: its token, {}: {error}", path.display())
    };
    if let Some(directory) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(problem)?;
    }
    if !path.exists() {
        let mut secret = [0; 32];
        File::open("/dev/urandom")
            .and_then(|mut file| file.read_exact(&mut secret))
            .map_err(problem)?;
        let secret = howdah_text::hex::lower(&secret);
        // Another server may be starting: the file gets its name when it is complete.
        let new = path.with_extension(format!("{}", std::process::id()));
        let mut file = File::options();
        let mut file = file.write(true).create_new(true).mode(0o600).open(&new).map_err(problem)?;
        let linked = file.write_all(secret.as_bytes()).and_then(|()| fs::hard_link(&new, &path));
        let _ = fs::remove_file(&new);
        match linked {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(problem(error)),
            _ => {}
        }
    }
    token_file::read("the token of the control socket,", &path)
}

/// Returns the control sockets in the directory and in those in it, stale ones included. The service
/// manager gives each server of a template a directory below that of all servers
/// (`howdah@.service`).
pub fn sockets() -> Vec<String> {
    directory().map(|directory| sockets_in(&directory)).unwrap_or_default()
}

fn sockets_in(directory: &Path) -> Vec<String> {
    let list = |directory: &Path| fs::read_dir(directory).into_iter().flatten().flatten();
    let is_directory = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let below = list(directory).filter(is_directory).flat_map(|entry| list(&entry.path()));
    let paths = list(directory).chain(below).map(|entry| entry.path());
    let is_socket = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension == "sock") && !path.ends_with(SITE_USERS)
    };
    let mut names: Vec<_> = paths
        .filter(is_socket)
        .filter_map(|path| path.to_str().map(|path| format!("unix:{path}")))
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn sockets_of_a_template_are_found_beside_the_others() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("blog")).unwrap();
        for name in ["control.sock", "other.txt", "sites.sock", "blog/control.sock"] {
            File::create(dir.path().join(name)).unwrap();
        }
        let found = sockets_in(dir.path());
        let name = |path: &str| format!("unix:{}/{path}", dir.path().display());
        assert_eq!(found, [name("blog/control.sock"), name("control.sock")]);
    }

    #[test]
    fn a_directory_that_others_could_change_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("own");
        assert_eq!(make(&own), Ok(()));
        assert_eq!(fs::metadata(&own).unwrap().mode() & 0o777, 0o700);
        assert_eq!(make(&own), Ok(()));
        fs::set_permissions(&own, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(make(&own).unwrap_err().contains("directory of the user who starts the server"));
        symlink(dir.path(), dir.path().join("link")).unwrap();
        assert!(make(&dir.path().join("link")).is_err());
        assert!(make(&dir.path().join("none/x")).is_err());
    }
}
