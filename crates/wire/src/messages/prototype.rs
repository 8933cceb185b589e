//! Messages between the supervisor and a prototype.

use super::exit::Exit;
use super::field::Field;
use super::spec::{ApplicationSpec, Problem, ProcessUser};
use super::usage::Usage;
use crate::bytes::{Decoder, Encode, Malformed};
use crate::queue::WorkerId;

messages! {
    /// From the supervisor to a prototype.
    ToPrototype {
        /// The first message. Descriptors: the region, one eventfd per router thread, and the
        /// socket of the application's mail, if there is one.
        1 Hello {
            /// Specification of the application.
            spec: ApplicationSpec,
            /// Directory of the server for temporary files.
            tmp: String,
            /// Program that scripts send mail with by default; empty for PHP's own default.
            sendmail: String,
            /// User that a process which a zygote has forked becomes; `None` if it is that user
            /// already.
            user: Option<ProcessUser>,
            /// Variables of the server's environment, for php.ini alone.
            variables: Vec<(String, String)>,
        }
        /// Replaces `Hello`: checks whether the application could run. Warnings are sent as
        /// `Noticed`, then the prototype ends with `Ready` or `Failed`.
        5 Check {
            /// Specification of the application.
            spec: ApplicationSpec,
            /// As in `Hello`.
            tmp: String,
            /// As in `Hello`.
            variables: Vec<(String, String)>,
        }
        /// Requests the stack of a worker's script; answered with `Traced`.
        20 Trace {
            /// The worker.
            worker: WorkerId,
            /// Number of the request, repeated in the answer.
            number: u32,
        }
        /// Forks a worker. Descriptors: the worker's end of its socket, and its standard output and
        /// error unless both are files: one pipe, or two, the one of standard error first
        /// ([`ApplicationSpec::separates_output`]). Answered with `Started` or `NotStarted`.
        2 Spawn {
            /// The worker.
            worker: WorkerId,
        }
        /// Sends a signal to a worker, if this incarnation still runs: for systems that do not
        /// allow the supervisor to do so.
        3 Kill {
            /// The worker.
            worker: WorkerId,
            /// Signal number.
            signal: u8,
        }
        /// Asks whether files have changed that the application was started from; answered with
        /// `FilesChecked`, which may take as long as a disk does not answer.
        21 CheckFiles {}
        /// Measures workers; answered with `Measured`.
        4 Measure {
            /// The workers.
            workers: Vec<WorkerId>,
        }
    }
}

messages! {
    /// From a prototype to the supervisor.
    ///
    /// The supervisor enforces the order: `Ready` or `Failed` once, then one answer to each
    /// request, and `Died` once for each started worker.
    FromPrototype {
        /// PHP is loaded.
        1 Ready {
            /// Full PHP version.
            version: String,
            /// Responses say that PHP runs (`expose_php`).
            is_exposed: bool,
            /// Messages of scripts also go to web servers that pass requests (`fastcgi.logging`).
            sends_messages: bool,
        }
        /// PHP cannot be started; the prototype ends.
        2 Failed {
            /// Reason of the failure.
            problem: Problem,
        }
        /// A problem that does not prevent the application from running.
        7 Noticed {
            /// The problem.
            problem: Problem,
            /// The setting may be intended: a note, not a warning.
            is_note: bool,
        }
        /// The values of some settings of PHP, in reply to `Check`.
        22 Settings {
            /// Names and values; those without a value are left out.
            values: Vec<(String, String)>,
            /// Files that PHP was started from; empty if the values depend on more than the files
            /// and the specification.
            files: Vec<String>,
        }
        /// The worker script of a resident application has started again or for the first time.
        8 Booted {
            /// Time that the script took until it waited for a request, in microseconds.
            boot_us: u64,
            /// Process from which workers are forked; `None` if each of them starts the script
            /// itself.
            template: Option<u32>,
            /// Reason why there is no template; empty if there is one.
            without: String,
        }
        /// A file that the application's `worker.watch` names has changed.
        9 Changed {
            /// Path of the file.
            path: String,
        }
        /// Workers run a script for each request, because the worker script does not work; or it
        /// works again, and the application is to be started again.
        10 Fallback {
            /// Reason why the worker script does not work; `None` if it works again.
            problem: Option<String>,
        }
        /// A worker runs.
        3 Started {
            /// The worker.
            worker: WorkerId,
            /// Process id, as the prototype knows it.
            pid: u32,
        }
        /// A worker could not be forked.
        4 NotStarted {
            /// The worker.
            worker: WorkerId,
            /// The machine is busy or a start is under way: the next request may succeed.
            is_temporary: bool,
            /// Reason of the failure.
            message: String,
        }
        /// Result of `Trace`.
        20 Traced {
            /// As given to `Trace`.
            number: u32,
            /// Stack of the worker's script.
            stack: Stack,
        }
        /// Result of `CheckFiles`.
        21 FilesChecked {
            /// The file that has changed, or one of them; `None` if none has.
            changed: Option<String>,
        }
        /// A worker has ended.
        5 Died {
            /// The worker.
            worker: WorkerId,
            /// Process id.
            pid: u32,
            /// Exit status.
            status: Exit,
            /// The worker was waiting for a request.
            was_idle: bool,
        }
        /// Result of `Measure`.
        6 Measured {
            /// Memory of the prototype in bytes, shared pages in proportion.
            base: u64,
            /// PHP's `memory_limit` in bytes; `None` for no limit.
            memory_limit: Option<u64>,
            /// The requested workers that still run.
            workers: Vec<Usage>,
        }
    }
}

impl FromPrototype {
    /// Returns [`FromPrototype::Ready`] without facts about PHP, for a start that is only checked.
    pub fn checked() -> Self {
        let version = String::new();
        FromPrototype::Ready { version, is_exposed: false, sends_messages: false }
    }
}

/// Stack of a script, one line for each call, the innermost first. Error: the reason why there is
/// none.
pub type Stack = Result<Vec<String>, String>;

impl Field for Stack {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_ok().put(out);
        match self {
            Ok(calls) => calls.put(out),
            Err(why) => why.put(out),
        }
    }
    fn take(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(if bool::take(from)? { Ok(Vec::take(from)?) } else { Err(String::take(from)?) })
    }
}
