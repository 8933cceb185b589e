//! The environment variables of this process.

use std::ffi::OsStr;
use std::io;

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
