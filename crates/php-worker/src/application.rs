//! The state of a process of an application: its specification, the shared memory, and PHP.

use std::cell::{Cell, OnceCell};
use std::ffi::c_int;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use howdah_sys::shm::Mapping;
use howdah_sys::spin::SpinPolicy;
use howdah_sys::{process, signals, title};
use howdah_wire::messages::ApplicationSpec;
use howdah_wire::queue::WorkerId;
use howdah_wire::region::Region;

use crate::document_root::{Pins, Roots};
use crate::ffi::Php;
use crate::loaded_files::LoadedFiles;
use crate::memory::MemoryLimit;
use crate::owed_wakes::OwedWakes;
use crate::script_directories::ScriptDirectories;
use crate::script_extensions::ScriptExtensions;
use crate::web_server::PathSettings;
use crate::worker::Worker;

/// Signals that a terminal or an administrator may send to a whole process group. They are ignored:
/// the supervisor ends prototypes and workers, by closing a socket or by SIGKILL.
pub const IGNORED_SIGNALS: [c_int; 7] = [
    signals::SIGHUP,
    signals::SIGINT,
    signals::SIGQUIT,
    signals::SIGTERM,
    signals::SIGUSR1,
    signals::SIGUSR2,
    signals::SIGPIPE,
];

/// An application whose PHP is loaded, in the prototype and in the processes that are forked from
/// it.
pub struct Application {
    /// Specification of the application.
    pub spec: ApplicationSpec,
    /// The queue and the slots, which the router shares.
    pub region: Region<Mapping>,
    /// The eventfds of the router's threads.
    pub events: Vec<OwnedFd>,
    /// PHP.
    pub php: Php,
    /// PHP's directory for uploaded files.
    pub upload_directory: PathBuf,
    /// The files that the application was started from.
    pub files: LoadedFiles,
    /// The roots of an application that loads code once, as they were when it was started.
    pub pins: Pins,
}

impl Application {
    /// Returns true if a setting of PHP is on.
    pub fn is_on(&self, setting: &str) -> bool {
        self.php.setting(setting).is_some_and(|value| value != "0")
    }

    /// Makes this process, which has just been forked, a worker. `socket` is its end of the
    /// connection to the router; `outputs` are the pipes of its standard output and error, as in
    /// [`ToPrototype::Spawn`](howdah_wire::messages::ToPrototype).
    pub fn worker(
        &self,
        owner: WorkerId,
        socket: OwnedFd,
        outputs: Vec<OwnedFd>,
        is_resident: bool,
    ) -> Worker<'_> {
        // Permits core dumps, debuggers, and the prototype's measurements and stack traces.
        let _ = process::allow_tracing();
        title::set(&format!("howdah: \"{}\" application", self.spec.name));
        let outputs = redirect_output(&self.spec, &outputs);
        self.php.after_fork();
        // Without it, a script that forks would mix its response with that of the child.
        let _ = process::track_forks();
        Worker {
            owner,
            socket,
            region: &self.region,
            events: &self.events,
            php: &self.php,
            is_resident,
            has_htaccess: self.spec.htaccess,
            route_settings: &self.spec.route_settings,
            takes_fastcgi: self.spec.takes_fastcgi,
            path_settings: PathSettings {
                fixes_path_info: self.is_on("cgi.fix_pathinfo"),
                discards_path: self.is_on("cgi.discard_path"),
            },
            limit: self.spec.requests,
            // Opened in the worker: /proc/self/statm belongs to the process that opens it.
            memory: MemoryLimit::new(self.spec.memory),
            upload_directory: &self.upload_directory,
            roots: Roots::pinned(self.pins.clone()),
            script_directories: ScriptDirectories::new(&self.spec),
            script_extensions: ScriptExtensions::new(&self.spec.script_extensions),
            uploads: OnceCell::new(),
            outputs,
            owed: OwedWakes::default(),
            was_only_request: Cell::new(false),
            keeps_memory: Cell::new(false),
            spin_policy: SpinPolicy::default(),
        }
    }
}

/// Redirects standard error and output to pipes, unless they are files. Returns one that is
/// redirected to each pipe.
fn redirect_output(spec: &ApplicationSpec, pipes: &[OwnedFd]) -> Vec<BorrowedFd<'static>> {
    let Some(of_errors) = pipes.first() else { return Vec::new() };
    let of_output = pipes.get(1).unwrap_or(of_errors);
    let mut redirected: Vec<_> = [
        (&spec.stderr, of_errors, rustix::stdio::stderr()),
        (&spec.stdout, of_output, rustix::stdio::stdout()),
    ]
    .into_iter()
    .filter(|(file, pipe, target)| {
        file.is_none() && process::duplicate_to(pipe, target.as_raw_fd()).is_ok()
    })
    .map(|(_, _, target)| target)
    .collect();
    redirected.truncate(pipes.len());
    redirected
}
