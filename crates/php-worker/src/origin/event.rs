//! Results of requests for workers, and events of a template.

use std::os::fd::OwnedFd;

use howdah_sys::process::Exit;
use howdah_wire::queue::WorkerId;

use crate::refusal::Refusal;
use crate::template::Connection;

/// A process that has just been forked from the prototype.
pub enum Child {
    /// A worker, with its end of its socket and the pipes of its output.
    Worker {
        /// The worker.
        worker: WorkerId,
        /// Its end of its socket.
        socket: OwnedFd,
        /// The pipes of its standard output and error.
        outputs: Vec<OwnedFd>,
        /// The template boots the worker script.
        boots: bool,
    },
    /// A process that looks at the files that the application was started from.
    FileCheck,
    /// A template.
    Template {
        /// Its ends of the connection to the prototype.
        connection: Connection,
        /// The template handles the `warm_up` request.
        warms_up: bool,
    },
}

/// Result of [`Origin::spawn`](super::Origin::spawn).
pub enum Spawned {
    /// The worker is the process with this id.
    Parent(u32),
    /// This process is the worker.
    Child(Child),
    /// The template has been asked for it.
    Requested,
}

/// An event of the template or its workers.
pub enum Event {
    /// The worker script has booted.
    Booted {
        /// Time that it took, in microseconds.
        boot_us: u64,
        /// The template; `None` if each worker boots.
        template: Option<u32>,
        /// Reason why there is no template.
        without: String,
    },
    /// Something for the log.
    Notice(String),
    /// The worker script does not work.
    NotBooted {
        /// The reason.
        message: String,
    },
    /// Another template must be started.
    Boot,
    /// The worker script does not work: workers run a script for each request until it does.
    FellBack {
        /// The reason.
        problem: String,
    },
    /// The worker script works again; the application is to be started again.
    WorksAgain,
    /// A worker was forked.
    Started {
        /// The worker.
        worker: WorkerId,
        /// Its process.
        pid: u32,
    },
    /// A worker was not forked.
    NotStarted {
        /// The worker.
        worker: WorkerId,
        /// The reason.
        refusal: Refusal,
    },
    /// A worker has ended before its start was reported.
    Ended {
        /// The worker.
        worker: WorkerId,
        /// Its process.
        pid: u32,
        /// Exit status.
        exit: Exit,
    },
}
