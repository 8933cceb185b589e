//! The specification of an application, and problems with it.

use std::fmt;

use super::field::Field;
use crate::bytes::{Decoder, Malformed};
use crate::region::Geometry;

record! {
    /// A range of ids in a user namespace, and the ids outside that they are mapped to.
    IdRange {
        /// The first id inside.
        inside: u32,
        /// The first id outside.
        outside: u32,
        /// Number of ids.
        size: u32,
    }
}

record! {
    /// Files that an application may use beside its document roots and the system's.
    #[derive(Default)]
    Sandbox {
        /// Files and directories that it may read.
        read: Vec<String>,
        /// Files and directories that it may read and change.
        write: Vec<String>,
        /// Files and directories that it may read and execute.
        execute: Vec<String>,
        /// The application does not run if the kernel cannot restrict files.
        required: bool,
    }
}

record! {
    /// The isolation of an application's processes.
    #[derive(Default)]
    Isolation {
        /// Users and groups of its own.
        user_namespace: bool,
        /// Processes of its own.
        pid_namespace: bool,
        /// A network of its own.
        network_namespace: bool,
        /// Mounts of its own.
        mount_namespace: bool,
        /// A host name of its own.
        uts_namespace: bool,
        /// A root of control groups of its own.
        cgroup_namespace: bool,
        /// User ids inside and outside; empty: its user alone.
        uidmap: Vec<IdRange>,
        /// Group ids, likewise.
        gidmap: Vec<IdRange>,
        /// The directory that becomes its root.
        rootfs: Option<String>,
        /// Mounts the files that PHP needs in the root directory.
        language_deps: bool,
        /// Mounts `/proc` there.
        procfs: bool,
        /// Mounts `/tmp` there.
        tmpfs: bool,
        /// Programs that it executes may gain privileges.
        new_privileges: bool,
        /// Its control group, below the supervisor's own unless it begins with a slash.
        cgroup: Option<String>,
        /// It has no Landlock domain: its processes may signal and trace all processes of their
        /// user.
        is_sandbox_off: bool,
        /// Restricts the files that it can use.
        sandbox: Option<Sandbox>,
    }
}

record! {
    /// The specification of an application, for the supervisor and the prototype.
    ApplicationSpec {
        /// Name in the configuration; appears in process titles and the log.
        name: String,
        /// PHP version wanted: empty, or a prefix such as `8` or `8.2`.
        php_version: String,
        /// Document roots, each behind the key that names it; an application without them cannot
        /// run.
        roots: Vec<(String, String)>,
        /// User of the application; `None`: the default one.
        user: Option<String>,
        /// Group; `None`: the user's.
        group: Option<String>,
        /// Working directory of prototype and workers.
        working_directory: Option<String>,
        /// Environment; nothing else is inherited.
        environment: Vec<(String, String)>,
        /// `php.ini` in place of the one that libphp was built to read.
        ini_file: Option<String>,
        /// Settings that scripts cannot change.
        ini_admin: Vec<(String, String)>,
        /// Settings that scripts can change.
        ini_user: Vec<(String, String)>,
        /// Directories below which scripts may run; empty: everywhere.
        script_directories: Vec<String>,
        /// Directories below which scripts may not run.
        no_script_directories: Vec<String>,
        /// File for standard output; `None`: the server's log.
        stdout: Option<String>,
        /// File for standard error; `None`: the server's log.
        stderr: Option<String>,
        /// Requests after which a worker is replaced; 0: never.
        requests: u64,
        /// Bytes of memory above which a worker is replaced between requests; 0: never.
        memory: u64,
        /// Resource limits by the names of `setrlimit`; `None`: unlimited.
        rlimits: Vec<(String, Option<u64>)>,
        /// Isolation of its processes.
        isolation: Isolation,
        /// Sizes of the shared region.
        geometry: Geometry,
    }
}

record! {
    /// A problem with an application, or a setting that may not be intended.
    Problem {
        /// The key that is to be changed, as a path within the application; empty if there is none.
        key: String,
        /// What is wrong and what to do.
        message: String,
    }
}

impl Problem {
    /// A problem with the value of a key.
    pub fn at(key: impl Into<String>, message: impl fmt::Display) -> Problem {
        Problem { key: key.into(), message: message.to_string() }
    }

    /// A problem without a key.
    pub fn of(message: impl fmt::Display) -> Problem {
        Problem::at("", message)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key.is_empty() {
            true => f.write_str(&self.message),
            false => write!(f, "{}: {}", self.key, self.message),
        }
    }
}
