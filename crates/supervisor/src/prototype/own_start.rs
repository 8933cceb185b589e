//! Applications that need a start of PHP of their own.
//!
//! A prototype that a zygote has forked has PHP's start in common with others: the `php.ini`, the
//! extensions, and the settings that those read when they started. The application's own settings
//! are applied afterwards, as PHP-FPM does with those of a pool. Settings that extensions read
//! while they start would come too late, and so would variables that libraries read then.

use std::path::PathBuf;

use howdah_sys::environment::LIBRARY_VARIABLES;
use howdah_sys::protected::protected;
use howdah_wire::messages::ApplicationSpec;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};

/// Settings of PHP itself that are read while it starts. Its other settings, whose names have no
/// dot, can be applied later.
const READ_AT_START: [&str; 6] =
    ["auto_globals_jit", "browscap", "enable_dl", "extension", "extension_dir", "zend_extension"];

/// First parts of the names of settings that can be applied later: those of extensions that come
/// with PHP and read them when a request begins, or whose start is part of the prototype (OPcache).
const APPLIED_LATER: [&str; 32] = [
    "arg_separator.",
    "assert.",
    "cgi.",
    "curl.",
    "date.",
    "docref_",
    "exif.",
    "filter.",
    "gd.",
    "highlight.",
    "iconv.",
    "intl.",
    "mail.",
    "mbstring.",
    "mysqli.",
    "opcache.",
    "openssl.",
    "pcre.",
    "pdo_mysql.",
    "pgsql.",
    "session.",
    "soap.",
    "sqlite3.",
    "syslog.",
    "unserialize_",
    "url_rewriter.",
    "user_ini.",
    "zend.assertions",
    "zend.enable_gc",
    "zend.exception_ignore_args",
    "zend.exception_string_param_max_len",
    "zlib.",
];

/// Settings that begin like those above and are read at the start.
const NOT_APPLIED_LATER: [&str; 3] =
    ["opcache.enable", "opcache.enable_cli", "opcache.huge_code_pages"];

/// Returns the key of the application for which it needs a start of PHP of its own; `None` if a
/// zygote can fork its prototype.
pub(crate) fn own_start(spec: &ApplicationSpec) -> Option<String> {
    let isolation = &spec.isolation;
    let namespaces = [
        isolation.user_namespace,
        isolation.pid_namespace,
        isolation.network_namespace,
        isolation.mount_namespace,
        isolation.uts_namespace,
        isolation.cgroup_namespace,
    ];
    // The zygote may lower the priority of a process, and not raise it.
    let is_raised = spec.priority.is_some_and(|priority| priority < 20);
    let keys = [
        (is_raised, "priority"),
        (isolation.own_start, "isolation/own_start"),
        (isolation.rootfs.is_some(), "isolation/rootfs"),
        (isolation.new_privileges, "isolation/new_privs"),
        (namespaces.contains(&true), "isolation/namespaces"),
        (spec.ini_file.is_some() && shared_ini_file(spec).is_none(), "options/file"),
    ];
    if let Some((_, key)) = keys.iter().find(|(needs_own, _)| *needs_own) {
        return Some((*key).to_owned());
    }
    let settings = [("admin", &spec.ini_admin), ("user", &spec.ini_user)];
    let setting = settings.iter().find_map(|(part, settings)| {
        let found = settings.iter().find(|(name, _)| !is_applied_later(name))?;
        Some(format!("options/{part}/{}", found.0))
    });
    setting.or_else(|| {
        // The zygote may not read them: only a fork of the supervisor has its rights.
        if let Some((name, _)) = spec.environment_files.first() {
            return Some(format!("environment/{name}"));
        }
        let is_read = |name: &str| LIBRARY_VARIABLES.iter().any(|first| name.starts_with(first));
        let (name, _) = spec.environment.iter().find(|(name, _)| is_read(name))?;
        Some(format!("environment/{name}"))
    })
}

/// Returns the path of the application's `php.ini` without links; `None` if it has none, or if
/// other users could change it: it names extensions, whose code the zygote runs. Only the root file
/// system is touched: this process must not wait for a drive that does not answer.
pub(crate) fn shared_ini_file(spec: &ApplicationSpec) -> Option<PathBuf> {
    let file = spec.ini_file.as_ref()?;
    is_regular_at_root(file).then(|| protected(file.as_ref()).ok()).flatten()
}

/// Returns true if a path names a regular file of the root file system.
fn is_regular_at_root(file: &str) -> bool {
    let found = openat2(
        CWD,
        file,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_XDEV | ResolveFlags::NO_MAGICLINKS,
    );
    let kind = found.and_then(|found| fstat(&found)).map(|found| found.st_mode);
    kind.is_ok_and(|mode| FileType::from_raw_mode(mode) == FileType::RegularFile)
}

fn is_applied_later(name: &str) -> bool {
    if NOT_APPLIED_LATER.contains(&name) || READ_AT_START.contains(&name) {
        return false;
    }
    !name.contains('.') || APPLIED_LATER.iter().any(|first| name.starts_with(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_start_with(change: impl FnOnce(&mut ApplicationSpec)) -> Option<String> {
        let mut spec = ApplicationSpec::new("site");
        change(&mut spec);
        own_start(&spec)
    }

    #[test]
    fn what_is_read_while_php_starts_needs_a_start_of_its_own() {
        let pair = |name: &str| vec![(name.to_owned(), String::new())];
        let admin = |name: &str| own_start_with(|spec| spec.ini_admin = pair(name));
        for name in ["extension", "zend_extension", "apc.shm_size", "opcache.enable", "ffi.enable"]
        {
            assert_eq!(admin(name), Some(format!("options/admin/{name}")));
        }
        for name in ["memory_limit", "opcache.preload", "date.timezone", "session.save_path"] {
            assert_eq!(admin(name), None, "{name}");
        }
        let user = own_start_with(|spec| spec.ini_user = pair("xdebug.mode"));
        assert_eq!(user, Some("options/user/xdebug.mode".to_owned()));
        for (name, needs_own) in [("LD_PRELOAD", true), ("LANG", false), ("TMPDIR", false)] {
            let found = own_start_with(|spec| spec.environment = pair(name));
            assert_eq!(found, needs_own.then(|| format!("environment/{name}")));
        }
    }

    #[test]
    fn a_variable_in_a_file_needs_a_start_of_its_own() {
        let file = vec![("SECRET".to_owned(), "/run/secret".to_owned())];
        let found = own_start_with(|spec| spec.environment_files = file);
        assert_eq!(found.as_deref(), Some("environment/SECRET"));
    }

    #[test]
    fn another_view_of_the_system_needs_a_start_of_its_own() {
        let found = own_start_with(|spec| spec.isolation.rootfs = Some("/srv/root".to_owned()));
        assert_eq!(found.as_deref(), Some("isolation/rootfs"));
        let found = own_start_with(|spec| spec.isolation.pid_namespace = true);
        assert_eq!(found.as_deref(), Some("isolation/namespaces"));
        let found = own_start_with(|spec| spec.isolation.own_start = true);
        assert_eq!(found.as_deref(), Some("isolation/own_start"));
        assert_eq!(own_start_with(|_| ()), None);
    }
}
