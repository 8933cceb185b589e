//! The environment variables of this process.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::sync::OnceLock;

use crate::regular_file;

/// Maximum length of a file with the value of a variable, in bytes. The kernel passes none of
/// 128 KiB to a program.
pub const MAX_VALUE_BYTES: u64 = 64 << 10;

/// `PATH` of an application that has none in its environment: the directories of programs, as
/// systemd and images for containers name them.
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// First parts of the names of variables that libraries and extensions of PHP read while they
/// start.
pub const LIBRARY_VARIABLES: [&str; 21] = [
    "DD_",
    "GCONV_",
    "GLIBC_",
    "ICU_",
    "JAVA_",
    "LC_",
    "LD_",
    "LOCPATH",
    "MAGICK_",
    "MALLOC_",
    "NEW_RELIC_",
    "NLS_",
    "ODBC",
    "OPENSSL_",
    "ORACLE_",
    "OTEL_",
    "PHP",
    "SASL_",
    "SSL_",
    "USE_ZEND_",
    "ZEND_",
];

/// First parts of the names of variables that are about this server and the service manager, and
/// not for applications.
const PRIVATE_VARIABLES: [&str; 12] = [
    "CREDENTIALS_DIRECTORY",
    "FDSTORE",
    "HOWDAH_",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "LISTEN_",
    "MAINPID",
    "MANAGERPID",
    "MEMORY_PRESSURE_",
    "NOTIFY_SOCKET",
    "SYSTEMD_EXEC_PID",
    "WATCHDOG_",
];

/// Returns true for a variable that an application gets only if it is named.
pub fn is_private(name: &str) -> bool {
    PRIVATE_VARIABLES.iter().any(|first| name.starts_with(first))
}

/// Reads the value of a variable from a file, by the rules for links of
/// [`read_owned`](regular_file::read_owned). Line feeds at its end do not belong to it.
///
/// # Errors
///
/// The file cannot be read, or is no value. The error never has a part of it.
pub fn read_value(file: &Path) -> io::Result<String> {
    let bytes = regular_file::read_owned(file, MAX_VALUE_BYTES)?;
    let text = String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))?;
    if text.contains('\0') {
        return Err(io::Error::other("it contains a null character"));
    }
    Ok(text.trim_end_matches('\n').to_owned())
}

/// Variables of applications that are not those of this process.
static ADDED: OnceLock<Vec<(String, String)>> = OnceLock::new();

/// Adds variables to [`all`] which this process itself does not obey. Only the first call counts.
pub fn add_for_applications(variables: Vec<(String, String)>) {
    let _ = ADDED.set(variables);
}

/// Returns the variables of this process whose names and values are UTF-8, and those that were
/// added for applications, which take precedence.
pub fn all() -> Vec<(String, String)> {
    let text = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let added = ADDED.get().map(Vec::as_slice).unwrap_or_default();
    let is_replaced = |name: &str| added.iter().any(|(other, _)| other == name);
    let own = std::env::vars_os().filter_map(text).filter(|(name, _)| !is_replaced(name));
    own.chain(added.iter().cloned()).collect()
}

/// Maximum length of all variables of [`for_settings`], in bytes: a part of a message.
const MAX_SETTINGS_BYTES: usize = 32 << 10;

/// Returns the variables of [`all`] that may be named in php.ini: those that are about this server
/// and those that are too long for a setting are left out.
pub fn for_settings() -> Vec<(String, String)> {
    let mut left = MAX_SETTINGS_BYTES;
    let mut variables = all();
    variables.sort_by_key(|(name, value)| name.len() + value.len());
    variables.retain(|(name, value)| {
        let length = name.len() + value.len() + 16;
        let fits = !is_private(name) && length <= left;
        left -= if fits { length } else { 0 };
        fits
    });
    variables
}

/// Replaces all environment variables. Error: a name or value that the environment cannot hold.
///
/// # Panics
/// If the process has more than one thread: another one could be reading a variable.
pub fn replace(variables: &[(String, String)]) -> io::Result<()> {
    assert_eq!(crate::process::thread_count(), 1, "environment of a process with several threads");
    for (name, value) in variables {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(io::Error::other(format!("the environment cannot hold {name:?}")));
        }
    }
    let all: Vec<_> = std::env::vars_os().map(|(name, _)| name).collect();
    remove(&all);
    for (name, value) in variables {
        // SAFETY: there is one thread (checked above).
        unsafe { std::env::set_var(name, value) };
    }
    Ok(())
}

/// Removes environment variables.
///
/// # Panics
/// If the process has more than one thread, as [`replace`].
pub fn remove(names: &[impl AsRef<OsStr>]) {
    assert_eq!(crate::process::thread_count(), 1, "environment of a process with several threads");
    for name in names {
        // SAFETY: there is one thread (checked above).
        unsafe { std::env::remove_var(name) };
    }
}
