//! The directories that the server writes to, checked at the start.
//!
//! A directory of `--tmp` must be writable, as nginx's `client_body_temp_path`. The default
//! directory and the state directory need not be, as in NGINX Unit: a read-only image can lack
//! both. A warning then names the features that will fail.

use std::path::{Path, PathBuf};

use howdah_config::Config;
use howdah_control::socket;
use howdah_http::spool;
use howdah_supervisor::state_format;
use howdah_sys::credentials::{self, Credentials, run_as};
use rustix::fs::{Access, AtFlags, CWD, accessat};

/// The directory for temporary files.
pub struct Temporary {
    /// The directory, absolute.
    pub path: PathBuf,
    /// Reason why the default directory cannot be used, if there is one.
    pub warning: Option<String>,
}

impl Temporary {
    /// Checks the given directory, or the system's, for `user`; `None` is the user of this process.
    /// The error is the reason for which the given directory cannot be used.
    pub fn find(given: Option<&Path>, user: Option<&Credentials>) -> Result<Temporary, String> {
        let directory = given.map_or_else(std::env::temp_dir, Path::to_owned);
        let name = match given {
            Some(_) => format!("--tmp {}", directory.display()),
            None => format!("the directory for temporary files, {}", directory.display()),
        };
        if !directory.is_dir() {
            return Err(format!("{name}: there is no such directory"));
        }
        let path = std::path::absolute(directory).map_err(|error| error.to_string())?;
        let ask =
            || spool::check_directory(&path).err().map_or_else(String::new, |e| e.to_string());
        let problem = match run_as(user, ask) {
            Ok(answer) if answer.is_empty() => return Ok(Temporary { path, warning: None }),
            Ok(answer) => answer,
            Err(error) => error.to_string(),
        };
        let user = user.cloned().unwrap_or_else(Credentials::current).name;
        let problem = format!("{name}: the user \"{user}\" cannot write there ({problem})");
        match given {
            Some(_) => {
                Err(format!("{problem}; permit it (chown, chmod) or choose another directory"))
            }
            None => Ok(Temporary {
                path,
                warning: Some(format!(
                    "{problem}, so bodies and answers that are too large for memory will fail; \
                     permit it or choose another directory with --tmp"
                )),
            }),
        }
    }
}

/// Returns the reason why the state directory cannot be written to, if there is one. It need not
/// exist yet.
pub fn state_problem(directory: &Path) -> Option<String> {
    let there = directory.ancestors().find(|path| path.exists())?;
    let wanted = Access::WRITE_OK | Access::EXEC_OK;
    let problem = if there.is_dir() {
        accessat(CWD, there, wanted, AtFlags::EACCESS).err()?.to_string()
    } else {
        "it is not a directory".to_owned()
    };
    Some(format!(
        "the directory for the server's state, {}: the user \"{}\" cannot write to {} \
         ({problem}), so no certificate and nothing that the control API is told can be kept; \
         permit it or choose another directory with --state",
        directory.display(),
        Credentials::current().name,
        there.display()
    ))
}

/// Checks that the state directory was not written by a version of another format. Returns advice
/// if the format is not known; with `strict` this is an error.
pub fn check_format(directory: Option<&Path>, strict: bool) -> Result<Option<String>, String> {
    let Some(directory) = directory else { return Ok(None) };
    match state_format::check(directory) {
        Ok(()) => Ok(None),
        Err(problem) if problem.is_damage && !strict => Ok(Some(format!(
            "{}; until then, nothing that the server is told can be kept",
            problem.message
        ))),
        Err(problem) => Err(problem.message),
    }
}

/// Returns the directory for certificates, if `--state` is given or a listener has `acme`.
pub fn certificates(
    state: Option<&Path>,
    config: Option<&Config>,
) -> Result<Option<PathBuf>, String> {
    let listeners = config.map(|config| config.listeners.as_slice()).unwrap_or_default();
    let mut all = listeners.iter().filter_map(|listener| listener.tls.as_ref());
    if state.is_some() || all.any(|tls| !tls.acme.is_empty()) {
        self::state(state, credentials::is_root()).map(Some)
    } else {
        Ok(None)
    }
}

/// Returns the state directory: the given one, or the default of this user.
pub fn state(given: Option<&Path>, is_root: bool) -> Result<PathBuf, String> {
    if let Some(given) = given {
        return std::path::absolute(given).map_err(|error| error.to_string());
    }
    socket::state_directory(is_root).ok_or_else(|| {
        "there is no HOME to keep certificates in; give a directory with --state".to_owned()
    })
}
