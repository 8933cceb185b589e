//! What the supervisor and the prototype must know of an application, and what is wrong with it.

use std::fmt;

use super::Field;
use crate::bytes::{Malformed, Take};
use crate::region::Geometry;

record! {
    /// Ids inside a user namespace and those outside.
    IdRange {
        /// The first id inside.
        inside: u32,
        /// The first id outside.
        outside: u32,
        /// How many there are.
        size: u32,
    }
}

record! {
    /// Files that an application may use beside its document roots and the system's.
    #[derive(Default)]
    Sandbox {
        /// Files and directories that it may read.
        read: Vec<String>,
        /// Those that it may read and change.
        write: Vec<String>,
        /// Those that it may read and execute.
        execute: Vec<String>,
        /// It does not run where the kernel cannot restrict files.
        required: bool,
    }
}

record! {
    /// What an application's processes see of the machine.
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
        /// Mounts what PHP needs in the root.
        language_deps: bool,
        /// Mounts `/proc` there.
        procfs: bool,
        /// Mounts `/tmp` there.
        tmpfs: bool,
        /// Programs that it executes may have more rights than it.
        new_privileges: bool,
        /// Its control group, below the supervisor's own unless it begins with a slash.
        cgroup: Option<String>,
        /// Its processes may signal and trace all that their user may.
        is_boundless: bool,
        /// Restricts the files that it can use.
        sandbox: Option<Sandbox>,
    }
}

record! {
    /// All that the supervisor and the prototype must know of an application.
    ApplicationSpec {
        /// Name in the configuration; appears in process titles and the log.
        name: String,
        /// PHP version wanted: empty, or a prefix such as `8` or `8.2`.
        php_version: String,
        /// Document roots, each behind the key that names it; an application without them cannot run.
        roots: Vec<(String, String)>,
        /// User that the application runs as; `None`: the default one.
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
        /// Directories that scripts must be below, if there are any.
        script_directories: Vec<String>,
        /// Directories that they must not be below.
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
        /// What its processes see of the machine.
        isolation: Isolation,
        /// Sizes of the shared region.
        geometry: Geometry,
    }
}

record! {
    /// What is wrong with an application, or not as somebody may have meant it.
    Problem {
        /// The key that is to be mended, as a path within the application; empty if there is none.
        key: String,
        /// What is wrong.
        message: String,
    }
}

impl Problem {
    /// A problem with what a key says.
    pub fn at(key: impl Into<String>, message: impl fmt::Display) -> Problem {
        Problem { key: key.into(), message: message.to_string() }
    }

    /// A problem that no key is to blame for.
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
