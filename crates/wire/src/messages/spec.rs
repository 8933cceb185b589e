//! Specification of an application, and problems with it.

use std::fmt;

use howdah_sys::plain::Plain;

use super::field::Field;
use crate::bytes::{Decoder, Encode, Malformed};
use crate::region::Geometry;

/// The control group below the server's own to which the server moves its own processes, if groups
/// of applications need controllers: the kernel gives them only to groups without processes.
pub const SERVER_GROUP: &str = "howdah-server";

record! {
    /// Range of ids in a user namespace, and the ids outside that they are mapped to.
    IdRange {
        /// First id inside.
        inside: u32,
        /// First id outside.
        outside: u32,
        /// Number of ids.
        size: u32,
    }
}

record! {
    /// Files that an application may use, in addition to its document roots and the system's.
    #[derive(Default)]
    Sandbox {
        /// Files and directories that the application may read.
        read: Vec<String>,
        /// Files and directories that the application may read and change.
        write: Vec<String>,
        /// Files and directories that the application may read and execute.
        execute: Vec<String>,
        /// The application does not run if the kernel cannot restrict files.
        required: bool,
    }
}

record! {
    /// Limits of all processes of an application together, by the control group or by counting.
    #[derive(Default)]
    ResourceLimits {
        /// Control group of an application that names none.
        group: String,
        /// Bytes of memory.
        memory: Option<u64>,
        /// Processor time, in thousandths of a processor.
        cpu: Option<u32>,
        /// Number of processes and threads.
        processes: Option<u32>,
    }
}

record! {
    /// Isolation of an application's processes.
    #[derive(Default)]
    Isolation {
        /// Private user namespace.
        user_namespace: bool,
        /// Private process namespace.
        pid_namespace: bool,
        /// Private network namespace.
        network_namespace: bool,
        /// Private mount namespace.
        mount_namespace: bool,
        /// Private host name (UTS namespace).
        uts_namespace: bool,
        /// Private control group namespace.
        cgroup_namespace: bool,
        /// User ids inside and outside; empty for the application's user only.
        uidmap: Vec<IdRange>,
        /// Group ids inside and outside; empty for the application's group only.
        gidmap: Vec<IdRange>,
        /// Directory that becomes the root directory.
        rootfs: Option<String>,
        /// Mounts the files that PHP needs in `rootfs`.
        language_deps: bool,
        /// Mounts `/proc` in `rootfs`.
        procfs: bool,
        /// Mounts `/tmp` in `rootfs`.
        tmpfs: bool,
        /// Executed programs may gain privileges (set-user-ID).
        new_privileges: bool,
        /// Control group, below the supervisor's own unless it begins with a slash.
        cgroup: Option<String>,
        /// Files of the control group, and the values that are written to them.
        cgroup_settings: Vec<(String, String)>,
        /// Limits of all processes together.
        limits: Option<ResourceLimits>,
        /// There is no Landlock domain: processes may signal and trace all processes of their user.
        is_sandbox_off: bool,
        /// Starts PHP for this application alone.
        own_start: bool,
        /// Restricts the usable files.
        sandbox: Option<Sandbox>,
    }
}

record! {
    /// The script of a resident application, which handles one request after the other.
    WorkerScript {
        /// Path of the script.
        script: String,
        /// Document root of the script.
        root: String,
        /// Target of a request that is handled before the first worker is forked.
        warm_up: Option<String>,
        /// The application runs its other scripts if this one does not work.
        has_fallback: bool,
        /// Paths of files and directories whose changes are reported.
        watch: Vec<String>,
    }
}

record! {
    /// Specification of an application, for the supervisor and the prototype.
    ApplicationSpec {
        /// Name in the configuration; appears in process titles and the log.
        name: String,
        /// Required PHP version: empty, or a prefix such as `8` or `8.2`.
        php_version: String,
        /// Document roots, each after the key that names it; an application needs them to run.
        roots: Vec<(String, String)>,
        /// Reports that links of the document roots lead elsewhere.
        releases: bool,
        /// User of the application; `None` for the default user.
        user: Option<String>,
        /// Group of the application; `None` for the user's.
        group: Option<String>,
        /// Working directory of prototype and workers.
        working_directory: Option<String>,
        /// Nice value, plus 20; `None` for the server's.
        priority: Option<u32>,
        /// Permissions that new files do not get; `None` for the server's.
        umask: Option<u32>,
        /// Environment variables; the program inherits only these, and those of files.
        environment: Vec<(String, String)>,
        /// Environment variables, each with the file that has its value.
        environment_files: Vec<(String, String)>,
        /// Environment variables, each with the variable of the server that has its value and does
        /// not exist.
        missing_variables: Vec<(String, String)>,
        /// `php.ini` to read instead of libphp's default.
        ini_file: Option<String>,
        /// Script that stays in memory; `None` to start a script for each request.
        worker: Option<WorkerScript>,
        /// PHP settings that scripts cannot change.
        ini_admin: Vec<(String, String)>,
        /// PHP settings that scripts can change.
        ini_user: Vec<(String, String)>,
        /// Directories below which scripts may run; empty for everywhere.
        script_directories: Vec<String>,
        /// Directories below which scripts may not run.
        no_script_directories: Vec<String>,
        /// Endings of the names of files that run as scripts; empty for `.php` alone.
        script_extensions: Vec<String>,
        /// File for standard output; `None` for the server's log.
        stdout: Option<String>,
        /// File for standard error; `None` for the server's log.
        stderr: Option<String>,
        /// The router reads `.htaccess` files for this application: scripts get functions of
        /// Apache, and requests may have settings of PHP.
        htaccess: bool,
        /// Names of settings of PHP that the router may set for a request, since routes have them.
        route_settings: Vec<String>,
        /// Requests may come from a web server over FastCGI, which chooses script and settings.
        takes_fastcgi: bool,
        /// Number of requests after which a worker is replaced; 0 for no limit.
        requests: u64,
        /// Memory in bytes above which a worker is replaced between requests; 0 for no limit.
        memory: u64,
        /// Resource limits by the names of `setrlimit`; `None` for unlimited.
        rlimits: Vec<(String, Option<u64>)>,
        /// Isolation of the processes.
        isolation: Isolation,
        /// Sizes of the shared region.
        geometry: Geometry,
    }
}

impl ApplicationSpec {
    /// Creates an application with default settings.
    pub fn new(name: &str) -> Self {
        ApplicationSpec {
            name: name.to_owned(),
            php_version: String::new(),
            roots: Vec::new(),
            releases: false,
            user: None,
            group: None,
            working_directory: None,
            priority: None,
            umask: None,
            environment: Vec::new(),
            environment_files: Vec::new(),
            missing_variables: Vec::new(),
            ini_file: None,
            worker: None,
            ini_admin: Vec::new(),
            ini_user: Vec::new(),
            script_directories: Vec::new(),
            no_script_directories: Vec::new(),
            script_extensions: Vec::new(),
            stdout: None,
            stderr: None,
            htaccess: false,
            route_settings: Vec::new(),
            takes_fastcgi: false,
            requests: 0,
            memory: 0,
            rlimits: Vec::new(),
            isolation: Isolation::default(),
            geometry: Geometry::for_pool(1, 1),
        }
    }

    /// Returns true if standard output and error of a worker have a pipe each: behind a web server,
    /// as PHP-FPM tells them apart.
    pub fn separates_output(&self) -> bool {
        self.takes_fastcgi && self.stdout.is_none() && self.stderr.is_none()
    }
}

record! {
    /// A user that a process becomes.
    ProcessUser {
        /// User id.
        uid: u32,
        /// Group id.
        gid: u32,
        /// Supplementary groups.
        groups: Vec<u32>,
        /// User name.
        name: String,
        /// Home directory.
        home: String,
    }
}

record! {
    /// A problem with an application, or a setting that may not be intended.
    Problem {
        /// Kind of the problem.
        kind: ProblemKind,
        /// Key to change, as a path within the application; empty if there is none.
        key: String,
        /// Problem and its solution.
        message: String,
    }
}

/// Kind of the problem of an application that cannot run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemKind {
    /// Its own part of the document, or an object that only this part names, such as a user or a
    /// script.
    Own,
    /// A document root is not there, which a deployment may make later.
    NoRoot,
    /// PHP, the server or the system.
    Other,
}

impl Field for ProblemKind {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_u8(match self {
            ProblemKind::Own => 0,
            ProblemKind::NoRoot => 1,
            ProblemKind::Other => 2,
        });
    }

    fn take(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            0 => ProblemKind::Own,
            1 => ProblemKind::NoRoot,
            2 => ProblemKind::Other,
            _ => return Err(Malformed),
        })
    }
}

impl Problem {
    /// Creates a problem with the value of a key, or with an object that only this value names.
    pub fn at(key: impl Into<String>, message: impl fmt::Display) -> Problem {
        Problem { kind: ProblemKind::Own, key: key.into(), message: Plain(message).to_string() }
    }

    /// Creates a problem of PHP, the server or the system.
    pub fn of(message: impl fmt::Display) -> Problem {
        Problem { kind: ProblemKind::Other, ..Problem::at("", message) }
    }

    /// Creates the problem that the document root of a key is not there.
    pub fn no_root(key: impl Into<String>, message: impl fmt::Display) -> Problem {
        Problem { kind: ProblemKind::NoRoot, ..Problem::at(key, message) }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.key, self.message)
        }
    }
}
