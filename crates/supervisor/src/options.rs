//! The settings of the supervisor.

use std::fmt;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use howdah_sys::credentials::Credentials;
use howdah_sys::log::Level;
use howdah_sys::service_manager::Notifier;
use howdah_wire::messages::Secret;

use crate::grants::DeriveGrants;
use crate::handover::{Invocation, Predecessor};
use crate::passed_socket::InheritedSocket;

/// Reads a document again; the argument is the one that runs. Error: the reason why it cannot be
/// read.
pub type ReloadDocument = Box<dyn Fn(&[u8]) -> Result<Vec<u8>, String>>;

/// Compiles the sites of a document that was sent to the control API, which names no files. The
/// second argument is the document that runs. Error: the mistakes, as lines with their JSON paths.
pub type CompileDocument = Box<dyn Fn(&[u8], &[u8]) -> Result<Vec<u8>, String>>;

/// Reads the tables of documents that are in files, and files that could not be used.
pub struct TableFiles {
    /// Returns true if a document may have files with tables. Reads no file.
    pub has_tables: fn(&[u8]) -> bool,
    /// Returns true if a document may have been read without files that could not be used. Reads no
    /// file.
    pub has_left_out: fn(&[u8]) -> bool,
    /// Returns the files and directories on which these parts of a document depend.
    pub watched: fn(&[u8]) -> Vec<PathBuf>,
    /// Returns a document with these parts as they are in the files now.
    #[expect(clippy::type_complexity, reason = "as other functions of the options")]
    pub read: Box<dyn Fn(&[u8]) -> Result<Vec<u8>, String>>,
}

/// The settings of the command line.
#[derive(Default)]
pub struct Options {
    /// Warnings for the log.
    pub warnings: Vec<String>,
    /// User of the router, and of applications that name none; `None` without root: all processes
    /// run as the user that started the server.
    pub user: Option<Credentials>,
    /// User id that only the server has, if there is one (see `unprivileged`).
    pub private_user: Option<u32>,
    /// The configuration document that the router begins with.
    pub document: Vec<u8>,
    /// Derives the grants of a document; `None`: the router gets no grants.
    pub grants: Option<DeriveGrants>,
    /// Name of the document in error messages.
    pub origin: String,
    /// Reads the document again from its source; `None` if it has none.
    pub reload_document: Option<ReloadDocument>,
    /// Compiles the sites of documents that are sent to the control API; `None`: they are refused.
    pub compile_document: Option<CompileDocument>,
    /// Reads the tables of documents again; `None` if documents come from the control API only.
    pub table_files: Option<TableFiles>,
    /// Directory in which the configuration is stored; `None`: changes are lost at the end.
    pub state: Option<PathBuf>,
    /// Directory in which each document that is served is kept for a start without a valid one;
    /// `None`: none is.
    pub last_document: Option<PathBuf>,
    /// Reason why the document at its source is not the one that is served; `None` if it is.
    pub refused: Option<String>,
    /// Directory in which certificates are stored; `None`: they are lost at the end.
    pub certificates: Option<PathBuf>,
    /// Called once an hour.
    pub upkeep: Option<Box<dyn FnMut()>>,
    /// File that holds the process id while the server runs.
    pub pid: Option<PathBuf>,
    /// Target of the log.
    pub log: LogTarget,
    /// The least severe level of the log; `None` for all.
    pub log_level: Option<Level>,
    /// Directory for temporary files of requests and responses.
    pub tmp: PathBuf,
    /// Address of the control API. With one, the server starts even if its document cannot be run:
    /// an administrator can correct it through the API.
    pub control: Option<String>,
    /// Addresses for the control API if there is no `control`: the first free one is used. Paths
    /// are absolute, in a directory of this user alone. If none is free, there is no control API.
    pub default_controls: Vec<String>,
    /// Address of the socket on which users of sites ask about their sites; `None`: there is none.
    pub site_users: Option<String>,
    /// True if documents have NGINX Unit's defaults.
    pub unit_defaults: bool,
    /// Token that requests to the control API must carry; `None`: the permissions of its socket
    /// suffice.
    pub control_token: Option<Secret>,
    /// Token with which clients of the action `dashboard` log in; `None`: nobody can.
    pub dashboard_token: Option<Secret>,
    /// File that takes the messages of all applications; `None`: they are sent to mail servers.
    pub mail_file: Option<OwnedFd>,
    /// True if the router enters a sandbox.
    pub sandbox: bool,
    /// True if the first document is refused when a part of it cannot run; otherwise that part is
    /// out alone.
    pub strict: bool,
    /// The `howdah-php` programs, one per version of PHP.
    pub php: Vec<PhpProgram>,
    /// Programs that do not run.
    pub unusable_php: Vec<UnusableProgram>,
    /// Listening sockets that were passed to this process. A listener takes the socket that has its
    /// address or its name.
    pub inherited: Vec<InheritedSocket>,
    /// The way in which this process was started, for an upgrade; `None` if it is unknown.
    pub invocation: Option<Invocation>,
    /// True if the server runs in the background: its standard streams are `/dev/null`.
    pub is_daemon: bool,
    /// The server that this one replaces.
    pub predecessor: Option<Predecessor>,
    /// Receiver of notifications; `None` without a service manager.
    pub notifier: Option<Notifier>,
    /// Time after which the service manager ends a server that does not answer; `None` without a
    /// watchdog.
    pub watchdog: Option<Duration>,
    /// Called once the server has started; with false if no site is served before the configuration
    /// is corrected through the control API.
    pub on_serving: Option<Box<dyn FnOnce(bool)>>,
    /// Called with every answer of the router whether it works, every five seconds at least.
    pub on_status: Option<Box<dyn FnMut(ServerNumbers)>>,
}

/// What the server does. The numbers of the router are shown and not relied on: an attacker may have
/// taken it over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerNumbers {
    /// Connections with a request.
    pub active: u64,
    /// Requests since the router has started.
    pub requests: u64,
    /// Workers of all applications.
    pub workers: u64,
}

impl Options {
    /// Returns the addresses of the sockets that the control process serves, and no listener may
    /// have.
    pub(crate) fn own_addresses(&self) -> impl Iterator<Item = &str> {
        self.control.iter().chain(&self.site_users).map(String::as_str)
    }

    /// Returns true if the control process serves the socket with this address.
    pub(crate) fn is_own_address(&self, address: &str) -> bool {
        self.own_addresses().any(|own| own == address)
    }

    /// Returns the directory in which documents and certificates are stored.
    pub(crate) fn state_directory(&self) -> Option<&PathBuf> {
        self.state.as_ref().or(self.last_document.as_ref()).or(self.certificates.as_ref())
    }
}

/// Target of the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard error.
    #[default]
    StandardError,
    /// The journal of systemd.
    Journal,
    /// A file, or a device such as `/dev/stdout`.
    File(PathBuf),
}

impl LogTarget {
    /// Reads the value of `--log`: a path, or `journald`.
    pub fn of(option: Option<&Path>) -> std::io::Result<LogTarget> {
        Ok(match option {
            None => LogTarget::StandardError,
            Some(path) if path.as_os_str() == "journald" => LogTarget::Journal,
            Some(path) => LogTarget::File(std::path::absolute(path)?),
        })
    }
}

/// A `howdah-php` program.
#[derive(Debug, Clone)]
pub struct PhpProgram {
    /// Full version of PHP, such as `8.2.35`.
    pub version: String,
    /// Path of the program.
    pub path: PathBuf,
    /// The program as it was when the server started. It is executed from here: a package that is
    /// being upgraded has replaced the file at the path, and its messages may be those of another
    /// version.
    pub(crate) file: Arc<File>,
}

impl PhpProgram {
    /// Opens a program.
    pub fn open(version: String, path: PathBuf) -> std::io::Result<Self> {
        let file = Arc::new(File::open(&path)?);
        Ok(PhpProgram { version, path, file })
    }
}

/// A `howdah-php` program that does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusableProgram {
    /// Path of the program.
    pub path: PathBuf,
    /// Reason why it does not run, and the remedy.
    pub reason: String,
}

impl fmt::Display for UnusableProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

/// Returns the newest program whose version is `wanted` or begins with `wanted` and a dot.
pub(crate) fn newest_php<'a>(all: &'a [PhpProgram], wanted: &str) -> Option<&'a PhpProgram> {
    let numbers = |version: &str| -> Vec<u32> {
        version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
    };
    let is_wanted = |rest: &str| rest.is_empty() || rest.starts_with('.');
    all.iter()
        .filter(|php| wanted.is_empty() || php.version.strip_prefix(wanted).is_some_and(is_wanted))
        .max_by_key(|php| numbers(&php.version))
}

impl Options {
    /// Returns the newest program whose version is `wanted` or begins with `wanted` and a dot.
    pub(crate) fn php_for(&self, wanted: &str) -> Option<&PhpProgram> {
        newest_php(&self.php, wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(versions: &[&str]) -> Options {
        Options {
            php: versions
                .iter()
                .map(|v| PhpProgram::open((*v).to_owned(), "/dev/null".into()).unwrap())
                .collect(),
            ..Options::default()
        }
    }

    #[test]
    fn the_newest_version_that_matches_is_taken() {
        let options = options(&["8.2.9", "8.2.35", "8.10.1", "7.4.1"]);
        let version = |wanted| options.php_for(wanted).map(|p| p.version.as_str());
        assert_eq!(version(""), Some("8.10.1"));
        assert_eq!(version("8.2"), Some("8.2.35"));
        assert_eq!(version("8.2.9"), Some("8.2.9"));
        assert_eq!(version("8.1"), None);
        assert_eq!(version("7"), Some("7.4.1"));
    }
}
