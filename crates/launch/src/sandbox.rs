//! The sandbox of an application: a Landlock domain, and a system call filter for limits of other
//! processes.
//!
//! The new process enters it as the last step before it runs PHP, when paths have the same meaning
//! as for the application. Every application has its own domain, unless its document turns it off;
//! with `isolation.sandbox` the domain restricts files too. `SYSTEM` has the files of the system
//! that PHP needs.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use howdah_sys::process;
use howdah_sys::sandbox::landlock::{self, Access, Domain, Grant};
use howdah_sys::sandbox::{paths, seccomp};
use howdah_wire::messages::{ApplicationSpec, Problem, Sandbox};

/// Files of the system that every application may use, within their modes. Missing ones are left
/// out. Connecting to sockets is allowed everywhere.
const SYSTEM: &[(&str, Access)] = &[
    // Programs, libraries, PHP's extensions, time zones, locales, certificates.
    ("/usr", Access::Execute),
    ("/bin", Access::Execute),
    ("/sbin", Access::Execute),
    ("/lib", Access::Execute),
    ("/lib32", Access::Execute),
    ("/lib64", Access::Execute),
    ("/libx32", Access::Execute),
    ("/opt", Access::Execute),
    ("/nix/store", Access::Execute),
    ("/gnu/store", Access::Execute),
    ("/snap", Access::Execute),
    // php.ini, name resolution, users, certificates, time zone. The whole directory, because single
    // files are replaced by new ones of the same name.
    ("/etc", Access::Read),
    // The kernel checks access process by process; `/dev/stdout` leads here.
    ("/proc", Access::Read),
    ("/proc", Access::Use),
    ("/sys", Access::Read),
    // null, zero, random, tty; shared memory and named semaphores.
    ("/dev", Access::Read),
    ("/dev", Access::Use),
    ("/dev/shm", Access::Write),
    ("/dev/mqueue", Access::Write),
    // Targets of links in /etc, such as resolv.conf; lock files.
    ("/run", Access::Read),
    ("/run/lock", Access::Write),
    // Temporary files; OPcache's lock file, which ignores TMPDIR.
    ("/tmp", Access::Write),
    // PHP's sessions and caches.
    ("/var/lib/php", Access::Write),
    ("/var/lib/php7", Access::Write),
    ("/var/lib/php8", Access::Write),
    ("/var/opt/remi", Access::Write),
    // Fonts for pictures and documents.
    ("/var/cache/fontconfig", Access::Read),
    ("/var/lib/ghostscript", Access::Read),
    ("/var/lib/texmf", Access::Read),
];

/// Settings of PHP that name directories to which it writes.
const INI_WRITTEN: [&str; 5] = [
    "session.save_path",
    "upload_tmp_dir",
    "sys_temp_dir",
    "soap.wsdl_cache_dir",
    "opcache.file_cache",
];

/// Settings of PHP that name files or directories that it reads, separated by colons.
const INI_READ: [&str; 8] = [
    "include_path",
    "auto_prepend_file",
    "auto_append_file",
    "extension_dir",
    "opcache.preload",
    "openssl.cafile",
    "openssl.capath",
    "curl.cainfo",
];

/// Settings of PHP that name files to which it appends.
const INI_APPENDED: [&str; 3] = ["error_log", "opcache.error_log", "mail.log"];

/// Enters the sandbox, for this process and all that it starts. Parts that the kernel does not
/// support are left out, unless the document requires them.
pub(crate) fn enter(spec: &ApplicationSpec, executable: &File) -> Result<(), Problem> {
    let isolation = &spec.isolation;
    if isolation.is_sandbox_off {
        return Ok(());
    }
    let failed = |error: io::Error| Problem::at(KEY, format_args!("cannot be entered: {error}"));
    let required = isolation.sandbox.as_ref().is_some_and(|sandbox| sandbox.required);
    if !process::can_restrict_itself() {
        return if required { Err(Problem::at(KEY, NO_PRIVILEGE)) } else { Ok(()) };
    }
    if seccomp::is_available()
        && let Err(error) = seccomp::deny_limits_of_others()
    {
        eprintln!(
            "the application can set resource limits of other processes of its user: {error}"
        );
    }
    let version = landlock::version();
    if version < landlock::FILES {
        return if required { Err(Problem::at(KEY, too_old(version))) } else { Ok(()) };
    }
    let files = match &isolation.sandbox {
        Some(sandbox) => Some(grants(spec, sandbox, executable)?),
        None => None,
    };
    let no_abstract_sockets = files.is_some();
    let domain = Domain { files, no_abstract_sockets, ..Domain::default() };
    match domain.enter() {
        Err(error) if required => Err(failed(error)),
        Err(error) => {
            eprintln!(
                "the application has no Landlock domain, and can signal and trace other processes \
                 of its user: {error}"
            );
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

const KEY: &str = "isolation/sandbox";

const NO_PRIVILEGE: &str = "cannot be had together with \"new_privs\": true by a server that was \
                        not started by root; remove one of them";

fn too_old(version: u32) -> String {
    let found = match version {
        0 => "has no Landlock, or it is disabled (lsm=landlock)".to_owned(),
        version => {
            format!("has version {version} of Landlock, and version 2 (Linux 5.19) is required")
        }
    };
    format!("this kernel {found}; remove the key, or add \"required\": false")
}

/// Returns the grants of the Landlock domain.
fn grants(
    spec: &ApplicationSpec,
    sandbox: &Sandbox,
    executable: &File,
) -> Result<Vec<Grant>, Problem> {
    let mut grants = Vec::new();
    let program = executable.try_clone().and_then(|file| Grant::of(file.into(), Access::Execute));
    grants.push(program.map_err(|error| Problem::at(KEY, error))?);
    let system = SYSTEM.iter().filter_map(|(path, access)| Grant::open(path, *access).ok());
    grants.extend(system);
    let requests = requests(spec, sandbox);
    let written: Vec<_> = requests
        .iter()
        .filter(|request| request.access == Access::Write)
        .map(|request| request.path.as_path())
        .collect();
    for request in &requests {
        match (request.grant(&written), &request.key) {
            (Ok(grant), _) => grants.push(grant),
            (Err(problem), Some(key)) if sandbox.required => {
                let problem = format_args!("{}: {problem}", request.path.display());
                return Err(Problem::at(key.clone(), problem));
            }
            (Err(_), _) => {}
        }
    }
    Ok(grants)
}

/// A file or directory that the application may use.
#[derive(Debug, PartialEq)]
struct Request {
    /// Key of the document that names the path; `None` if it follows from other keys, and then it
    /// is left out if it does not exist.
    key: Option<String>,
    path: PathBuf,
    access: Access,
}

impl Request {
    /// Opens the path. A path below a directory that scripts can change is resolved without leaving
    /// that directory: a script could have put a link there.
    fn grant(&self, written: &[&Path]) -> Result<Grant, String> {
        let above =
            |directory: &&&Path| self.path != ***directory && self.path.starts_with(directory);
        let error = |error: io::Error| error.to_string();
        // The topmost one, because everything below it can be changed.
        match written.iter().filter(above).min_by_key(|path| path.as_os_str().len()) {
            None => Grant::open(&self.path, self.access).map_err(error),
            Some(directory) => {
                let below = self.path.strip_prefix(directory).unwrap_or(&self.path);
                let found = Grant::open_below(directory, below, self.access);
                found.map_err(|error| match error.kind() {
                    io::ErrorKind::CrossesDevices => format!(
                        "a link leads out of {}, where scripts may write and make links; name its \
                         target",
                        directory.display()
                    ),
                    _ => error.to_string(),
                })
            }
        }
    }
}

/// Returns the paths of the document's `sandbox` and those that follow from its other keys.
fn requests(spec: &ApplicationSpec, sandbox: &Sandbox) -> Vec<Request> {
    let mut all = Vec::new();
    let mut add = |key: Option<&str>, path: &Path, access| {
        if path.is_absolute() {
            let (key, path) = (key.map(str::to_owned), path.components().collect());
            all.push(Request { key, path, access });
        }
    };
    for (key, root) in &spec.roots {
        // A deployment replaces a link with one to another target in the same directory.
        let links = paths::resolve(Path::new(root)).links;
        match links.iter().find(|link| !paths::is_shared(&link.directory)) {
            None => add(Some(key), Path::new(root), Access::Write),
            Some(link) => {
                add(Some(key), &link.directory, Access::Write);
                add(Some(key), &link.directory.join(&link.rest), Access::Write);
            }
        }
    }
    let named = [
        ("isolation/sandbox/read", &sandbox.read, Access::Read),
        ("isolation/sandbox/write", &sandbox.write, Access::Write),
        ("isolation/sandbox/execute", &sandbox.execute, Access::Execute),
    ];
    for (key, paths, access) in named {
        paths.iter().for_each(|path| add(Some(key), path.as_ref(), access));
    }
    if let Some((_, path)) = spec.environment.iter().find(|(name, _)| name == "TMPDIR") {
        add(None, path.as_ref(), Access::Write);
    }
    for directory in spec.working_directory.iter().chain(&spec.script_directories) {
        add(None, directory.as_ref(), Access::Read);
    }
    if let Some(file) = &spec.ini_file {
        add(None, file.as_ref(), Access::Open);
    }
    for file in spec.stdout.iter().chain(&spec.stderr) {
        add(None, file.as_ref(), Access::Use);
    }
    for (name, value) in spec.ini_admin.iter().chain(&spec.ini_user) {
        let name = name.as_str();
        if INI_WRITTEN.contains(&name) {
            // For example "2;0600;/srv/sessions".
            add(None, value.rsplit(';').next().unwrap_or(value).as_ref(), Access::Write);
        }
        if INI_READ.contains(&name) {
            value.split(':').for_each(|path| add(None, path.as_ref(), Access::Read));
        }
        if INI_APPENDED.contains(&name) {
            add(None, value.as_ref(), Access::Use);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn requests_for(change: impl FnOnce(&mut ApplicationSpec)) -> Vec<(String, Access)> {
        let mut spec = ApplicationSpec::new("site");
        spec.roots = Vec::new();
        change(&mut spec);
        let sandbox = spec.isolation.sandbox.clone().unwrap_or_default();
        let requests = requests(&spec, &sandbox).into_iter();
        requests.map(|request| (request.path.display().to_string(), request.access)).collect()
    }

    #[test]
    fn what_other_keys_name_belongs_to_the_sandbox() {
        let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let requested = requests_for(|spec| {
            spec.environment = vec![named("TMPDIR", "/srv/tmp")];
            spec.stdout = Some("/srv/out".to_owned());
            spec.ini_file = Some("/srv/php.ini".to_owned());
            spec.working_directory = Some("/srv/work".to_owned());
            spec.ini_admin = vec![
                named("session.save_path", "2;0600;/srv/sessions"),
                named("include_path", ".:/srv/a:/srv/b"),
                named("error_log", "/srv/log"),
            ];
            spec.ini_user = vec![
                named("session.save_path", "tcp://127.0.0.1:6379"),
                named("error_log", "syslog"),
                named("memory_limit", "/srv"),
            ];
        });
        let expected = [
            ("/srv/tmp", Access::Write),
            ("/srv/work", Access::Read),
            ("/srv/php.ini", Access::Open),
            ("/srv/out", Access::Use),
            ("/srv/sessions", Access::Write),
            ("/srv/a", Access::Read),
            ("/srv/b", Access::Read),
            ("/srv/log", Access::Use),
        ];
        assert_eq!(requested, expected.map(|(path, access)| (path.to_owned(), access)));
    }

    #[test]
    fn a_root_behind_a_link_comes_with_the_links_directory() {
        let directory = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(directory.path()).unwrap();
        fs::create_dir_all(path.join("releases/1/public")).unwrap();
        symlink("releases/1", path.join("current")).unwrap();
        let root = path.join("current/public").display().to_string();
        let requested = requests_for(|spec| spec.roots = vec![("root".to_owned(), root.clone())]);
        let above = path.display().to_string();
        assert_eq!(requested, [(above, Access::Write), (root, Access::Write)]);
    }

    #[test]
    fn below_what_scripts_change_no_link_leads_out() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        fs::create_dir_all(path.join("own/below")).unwrap();
        fs::create_dir(path.join("others")).unwrap();
        symlink("below", path.join("own/inside")).unwrap();
        symlink("../others", path.join("own/outside")).unwrap();
        let grant = |name: &str, written: &[&Path]| {
            let request = Request { key: None, path: path.join(name), access: Access::Read };
            request.grant(written).map(drop)
        };
        let own = path.join("own");
        assert_eq!(grant("own/inside", &[&own]), Ok(()));
        assert!(grant("own/outside", &[&own]).unwrap_err().contains("a link leads out of"));
        assert_eq!(grant("own/outside", &[]), Ok(()), "only root could have made it");
        assert_eq!(grant("own", &[&own]), Ok(()));
        assert!(grant("own/missing", &[&own]).unwrap_err().contains("No such file"));
    }
}
