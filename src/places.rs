//! The directories that the server writes to: better said once at the start than with the first large
//! body, or when a certificate is to be kept.
//!
//! One that was asked for with `--tmp` must be of use, as nginx's `client_body_temp_path`. A server
//! does without the usual one until it is needed, and without its state, as NGINX Unit does: in an
//! image that nobody can write to, both are in order.

use std::path::{Path, PathBuf};

use howdah_http::spool;
use howdah_sys::credentials::{Credentials, ask_as};
use rustix::fs::{Access, AtFlags, CWD, accessat};

/// The directory for temporary files, and what is to be told of it.
pub struct Temporary {
    /// The directory, absolute.
    pub path: PathBuf,
    /// Why it is of no use, if nobody has asked for it.
    pub warning: Option<String>,
}

impl Temporary {
    /// The one that was given, or the system's. `user` is who will write there, `None` for who runs
    /// this. The error says why the one given is of no use.
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
        let ask = || spool::usable(&path).err().map_or_else(String::new, |e| e.to_string());
        let problem = match ask_as(user, ask) {
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

/// Why nothing can be kept in the directory for the server's state, if so. It need not be there yet.
pub fn state(directory: &Path) -> Option<String> {
    let there = directory.ancestors().find(|path| path.exists())?;
    let wanted = Access::WRITE_OK | Access::EXEC_OK;
    let problem = match there.is_dir() {
        true => accessat(CWD, there, wanted, AtFlags::EACCESS).err()?.to_string(),
        false => "this is no directory".to_owned(),
    };
    Some(format!(
        "the directory for the server's state, {}: the user \"{}\" cannot write to {} ({problem}), so \
         no certificate and nothing that the control API is told can be kept; permit it or choose \
         another directory with --state",
        directory.display(),
        Credentials::current().name,
        there.display()
    ))
}
