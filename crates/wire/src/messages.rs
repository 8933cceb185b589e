//! What router, control process, supervisor and prototypes tell each other.
//!
//! Each message is one packet of a `SOCK_SEQPACKET` socket; descriptors travel beside it in the
//! order that a variant documents. What a prototype says goes through a pipe, which carries no
//! descriptors.

#[macro_use]
mod field;
mod outcome;
mod secret;
mod spec;

use crate::bytes::{Malformed, Put, Take};
use crate::queue::Owner;
use crate::region::Geometry;

pub use field::Field;
pub use outcome::Outcome;
pub use secret::Secret;
pub use spec::{ApplicationSpec, IdRange, Isolation, Problem, Sandbox};

/// Longest message. Longer contents (documents) travel as descriptors.
pub const MAX_MESSAGE: usize = 128 * 1024;
/// Longest message of a prototype: what it says fits into a message to the router.
pub const MAX_REPORT: usize = MAX_MESSAGE - 1024;
/// Most descriptors beside one message.
pub const MAX_DESCRIPTORS: usize = 80;

macro_rules! messages {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$variant_doc:meta])* $tag:literal $variant:ident {
            $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
        })*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        // Messages live for one hand-over; a box would only move the cost.
        #[allow(clippy::large_enum_variant)]
        pub enum $name {
            $($(#[$variant_doc])* $variant { $($(#[$field_doc])* $field: $type,)* },)*
        }

        impl $name {
            /// The packet.
            pub fn encode(&self) -> Vec<u8> {
                let mut out = Vec::new();
                match self {
                    $($name::$variant { $($field,)* } => {
                        out.put_u8($tag);
                        $($field.put(&mut out);)*
                    })*
                }
                out
            }

            /// From a packet; nothing may be left over.
            pub fn decode(packet: &[u8]) -> Result<Self, Malformed> {
                let mut from = Take(packet);
                let message = match from.u8()? {
                    $($tag => $name::$variant { $($field: Field::take(&mut from)?,)* },)*
                    _ => return Err(Malformed),
                };
                from.end()?;
                Ok(message)
            }
        }
    };
}

mod control;

pub use control::{FromControl, FromRouter, ToControl, ToRouter};

record! {
    /// What a worker costs.
    Usage {
        /// The worker.
        worker: Owner,
        /// Bytes of memory, shared pages in proportion.
        pss: u64,
        /// Those of them that are no file and not shared memory: what another worker would cost.
        private: u64,
        /// Most that `private` has been since the last measurement.
        peak: u64,
        /// Microseconds on a processor since its start.
        cpu_us: u64,
        /// Microseconds that it waited for a processor since its start.
        delay_us: u64,
    }
}

messages! {
    /// From the router to the supervisor. Whatever a message names (an address, an application, a
    /// file, a program) must be in the running configuration, or in the one being applied.
    ToSupervisor {
        /// Opens a listening socket, or hands out the one that is open.
        1 Bind {
            /// As in the configuration: `*:80`, `127.0.0.1:80`, `[::1]:80`, `unix:/path`, `unix:@name`.
            address: String,
            /// Length of the accept queue.
            backlog: u32,
        }
        /// Closes a listening socket.
        2 Unbind {
            /// As given to `Bind`.
            address: String,
        }
        /// Starts a prototype. Descriptors: the region, then one eventfd per router thread.
        3 Start {
            /// Number that the router gave the application; never used twice.
            application: u32,
            /// Its name in the configuration.
            name: String,
            /// Number of the configuration that it is of.
            generation: u32,
            /// Sizes of the region.
            geometry: Geometry,
        }
        /// Starts a worker.
        4 Spawn {
            /// The application.
            application: u32,
        }
        /// Sends a signal to a worker, if it is still this one.
        5 Kill {
            /// The application.
            application: u32,
            /// The worker.
            worker: Owner,
            /// Signal number.
            signal: u8,
        }
        /// Asks where a worker's script is; answered with `Traced`, before the worker's death is
        /// reported.
        20 Trace {
            /// The application.
            application: u32,
            /// The worker.
            worker: Owner,
            /// The router's number for the question.
            number: u32,
        }
        /// Ends an application. Its workers have been asked to leave through the region; those
        /// that stay are killed after a grace period. Of several the earliest end counts.
        6 Stop {
            /// The application.
            application: u32,
            /// Grace period in milliseconds.
            grace_ms: u64,
        }
        /// Everything that a configuration needs is ready; answered with `Commit`.
        7 Prepared {
            /// As given to `Apply`.
            generation: u32,
        }
        /// The router serves; the parent of a daemon may leave.
        8 Serving {}
        /// The first configuration cannot be run; the supervisor ends.
        9 Refuse {
            /// One line for the person at the terminal.
            message: String,
        }
        /// The router has ended everything it had in hand.
        10 Finished {}
        /// Opens an access log for appending.
        11 OpenLog {
            /// As in the configuration.
            path: String,
        }
        /// Measures what the workers of an application cost.
        12 Measure {
            /// The application.
            application: u32,
        }
        /// Stores a certificate or an account that the router got from an authority (ACME).
        /// Descriptor: a memfd with its text.
        13 StoreCertificate {
            /// Its name.
            name: String,
        }
        /// Reads a file with certificates, a private key or an OCSP response.
        15 ReadFile {
            /// As in the configuration.
            path: String,
        }
        /// Result of `Apply`.
        16 Applied {
            /// As given to `Apply`.
            generation: u32,
            /// Whether it is the running configuration now.
            outcome: Outcome,
        }
        /// Runs a program that changes DNS records; answered with `Ran` when it has ended.
        17 Run {
            /// The router's number for it.
            number: u32,
            /// As in the configuration.
            program: String,
            /// Its arguments.
            arguments: Vec<String>,
            /// Its environment, beside the supervisor's.
            environment: Vec<(String, String)>,
            /// How long it may take, in milliseconds.
            timeout_ms: u64,
        }
        /// Opens the machine's files about names, as the router may not read those that have taken
        /// the place of the ones that were there when it started; answered with `NameFiles`.
        21 OpenNameFiles {}
    }
}

messages! {
    /// From the supervisor to the router.
    FromSupervisor {
        /// The first message. Descriptors: the log, a memfd with the document, and one with the
        /// certificate bundles ([`put_bundles`]).
        1 Hello {
            /// Versions of PHP that can be run, and the programs that run them.
            php: Vec<(String, String)>,
            /// What the document is called in error messages.
            origin: String,
            /// Number of the configuration that the document is.
            generation: u32,
            /// Directory for temporary files.
            tmp: String,
            /// Whether the server was given a control API, so that a configuration that cannot be run
            /// can be corrected.
            has_control: bool,
            /// Documents have NGINX Unit's defaults where they say nothing.
            unit_defaults: bool,
            /// The router restricts itself.
            sandbox: bool,
            /// The server has served before: this router takes the place of one that has ended.
            has_served: bool,
        }
        /// A listening socket. Descriptor: the socket.
        2 Bound {
            /// As given to `Bind`.
            address: String,
        }
        /// A socket could not be opened.
        3 BindFailed {
            /// As given to `Bind`.
            address: String,
            /// What was wrong and what to do.
            message: String,
        }
        /// A prototype has loaded PHP and can start workers.
        4 Ready {
            /// The application.
            application: u32,
            /// Full PHP version.
            version: String,
        }
        /// A prototype could not start, or has ended; none of its workers is left.
        5 Ended {
            /// The application.
            application: u32,
            /// Why.
            message: String,
        }
        /// A worker runs. Descriptors: the router's end of its socket, and what its standard output
        /// and error are read from unless both are files.
        6 Started {
            /// The application.
            application: u32,
            /// The worker.
            worker: Owner,
            /// Process id.
            pid: u32,
        }
        /// A worker could not be started.
        7 NotStarted {
            /// The application.
            application: u32,
            /// Why.
            message: String,
        }
        /// A worker has ended.
        8 Died {
            /// The application.
            application: u32,
            /// The worker.
            worker: Owner,
            /// Process id.
            pid: u32,
            /// Exit status.
            status: Exit,
            /// It waited for a request.
            was_idle: bool,
        }
        /// Where a worker's script is.
        20 Traced {
            /// The application.
            application: u32,
            /// As given to `Trace`.
            number: u32,
            /// Its stack, a line for each call, the innermost first; or why there is none.
            stack: Stack,
        }
        /// The log was opened anew. Descriptor: the log.
        9 Reopened {}
        /// End: at once, or after the requests in hand.
        10 Quit {
            /// Finish requests first.
            graceful: bool,
        }
        /// Result of `StoreCertificate`, in the order in which they were asked for.
        11 Stored {
            /// Empty, or what went wrong.
            error: String,
        }
        /// Result of `OpenLog`. Descriptor: the file, if it could be opened.
        12 LogOpened {
            /// As given to `OpenLog`.
            path: String,
            /// Empty, or what went wrong.
            error: String,
        }
        /// A listening socket is closed.
        13 Unbound {
            /// As given to `Unbind`.
            address: String,
        }
        /// Result of `ReadFile`, in the order in which they were asked for. Descriptor: a memfd with
        /// the text, if it could be read.
        15 FileRead {
            /// Empty, or what went wrong.
            error: String,
        }
        /// Makes a configuration the running one; answered with `Prepared` or `Applied`. Descriptor:
        /// a memfd with the document.
        16 Apply {
            /// The supervisor's number for it, which grows with each configuration.
            generation: u32,
            /// All applications are restarted afterwards.
            restart: bool,
        }
        /// Answer to `Prepared`: the configuration is stored, and runs from now on.
        18 Commit {
            /// As given to `Apply`.
            generation: u32,
            /// Why it is not stored and therefore not to be run; empty if it is.
            error: String,
        }
        /// A control process has started. Descriptor: the router's end of a socket for
        /// [`ToRouter`] and [`FromRouter`].
        19 Control {}
        /// A stored certificate bundle that the next configuration uses. Descriptor: a memfd with
        /// its text.
        21 Certificate {
            /// Its name.
            name: String,
        }
        /// A certificate bundle was deleted through the control API.
        22 CertificateDeleted {
            /// Its name.
            name: String,
        }
        /// Result of `OpenNameFiles`. Descriptors: `/etc/hosts` and `/etc/resolv.conf`, `/dev/null` in
        /// place of one that cannot be opened.
        23 NameFiles {}
        /// A program has ended.
        17 Ran {
            /// As given to `Run`.
            number: u32,
            /// Empty if it has done its work, otherwise what went wrong.
            error: String,
        }
        /// Result of `Measure`.
        14 Measured {
            /// The application.
            application: u32,
            /// Bytes of memory that its prototype takes, shared pages in proportion.
            base: u64,
            /// Bytes that PHP lets a script allocate; `None`: any number.
            memory_limit: Option<u64>,
            /// Its workers, or some of them if they are many.
            workers: Vec<Usage>,
        }
    }
}

messages! {
    /// From the supervisor to a prototype.
    ToPrototype {
        /// The first message. Descriptors: the region, then one eventfd per router thread.
        1 Hello {
            /// The specification.
            spec: ApplicationSpec,
            /// The server's directory for temporary files.
            tmp: String,
        }
        /// In place of `Hello`: whether the application could run. What is not in order comes as
        /// `Noticed`, then the prototype ends with `Ready` or `Failed`.
        5 Check {
            /// The specification.
            spec: ApplicationSpec,
            /// As in `Hello`.
            tmp: String,
        }
        /// Asks where a worker's script is.
        20 Trace {
            /// The worker.
            worker: Owner,
            /// To be repeated in the answer.
            number: u32,
        }
        /// Forks a worker. Descriptors: the worker's end of its socket, and its standard output and
        /// error unless both are files. Answered with `Started` or `NotStarted`.
        2 Spawn {
            /// Who it is.
            worker: Owner,
        }
        /// Sends a signal to a worker, if it is still this one: for systems that do not let the
        /// supervisor do so itself.
        3 Kill {
            /// The worker.
            worker: Owner,
            /// Signal number.
            signal: u8,
        }
        /// Measures what these workers cost; answered with `Measured`.
        4 Measure {
            /// The workers.
            workers: Vec<Owner>,
        }
    }
}

messages! {
    /// From a prototype to the supervisor.
    ///
    /// The order is given, and the supervisor takes no other: `Ready` or `Failed` once, then answers
    /// to what was asked, one to each, and `Died` once for each worker that has started.
    FromPrototype {
        /// PHP is loaded.
        1 Ready {
            /// Full PHP version.
            version: String,
        }
        /// PHP cannot be started; the prototype ends.
        2 Failed {
            /// Why.
            problem: Problem,
        }
        /// Something is not as it may have been meant, and no reason not to run.
        7 Noticed {
            /// What.
            problem: Problem,
            /// It may be meant so.
            is_note: bool,
        }
        /// A worker runs.
        3 Started {
            /// Who it is.
            worker: Owner,
            /// Process id, as the prototype knows it.
            pid: u32,
        }
        /// A worker could not be forked.
        4 NotStarted {
            /// Who it would have been.
            worker: Owner,
            /// Why.
            message: String,
        }
        /// Where a worker's script is.
        20 Traced {
            /// As given to `Trace`.
            number: u32,
            /// Its stack.
            stack: Stack,
        }
        /// A worker has ended.
        5 Died {
            /// Who it was.
            worker: Owner,
            /// Process id.
            pid: u32,
            /// Exit status.
            status: Exit,
            /// It waited for a request.
            was_idle: bool,
        }
        /// Result of `Measure`.
        6 Measured {
            /// Bytes of memory that the prototype takes, shared pages in proportion.
            base: u64,
            /// Bytes that PHP lets a script allocate; `None`: any number.
            memory_limit: Option<u64>,
            /// Those of the workers that run.
            workers: Vec<Usage>,
        }
    }
}

messages! {
    /// From the router to a worker, over the worker's own socket.
    ToWorker {
        /// The descriptors that a request announced, in the order of its flags.
        1 Descriptors {
            /// Which request.
            ticket: u32,
        }
        /// What is known of the application, for a request that has asked for it. Descriptor: a
        /// memfd with JSON.
        2 Status {
            /// Which request.
            ticket: u32,
        }
        /// The worker's output has been taken.
        3 OutputTaken {
            /// Which request.
            ticket: u32,
        }
    }
}

/// All certificate bundles: names and texts. They have keys in them, so they are in no message, of
/// which a log might show something.
pub fn put_bundles<'a>(bundles: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, pem) in bundles {
        out.put_bytes(name.as_bytes());
        out.put_bytes(pem);
    }
    out
}

/// Reads what [`put_bundles`] has written.
pub fn take_bundles(bytes: &[u8]) -> Result<Vec<(&str, &[u8])>, Malformed> {
    let mut from = Take(bytes);
    let mut bundles = Vec::new();
    while !from.0.is_empty() {
        bundles.push((from.text()?, from.bytes()?));
    }
    Ok(bundles)
}

/// The calls that a script is in, a line for each, the innermost first; `Err` says why they are
/// not known.
pub type Stack = Result<Vec<String>, String>;

impl Field for Stack {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_ok().put(out);
        match self {
            Ok(calls) => calls.put(out),
            Err(why) => why.put(out),
        }
    }
    fn take(from: &mut Take<'_>) -> Result<Self, Malformed> {
        Ok(if bool::take(from)? { Ok(Vec::take(from)?) } else { Err(String::take(from)?) })
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It returned this status.
    Status(u8),
    /// A signal killed it.
    Signal(u8),
    /// The kernel killed it, as memory had run out.
    OutOfMemory,
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Exit::Status(status) => write!(f, "exited with status {status}"),
            Exit::Signal(signal) => write!(f, "was killed by signal {signal}"),
            Exit::OutOfMemory => f.write_str(
                "was killed by signal 9: there was no memory left, in its control group or at all",
            ),
        }
    }
}

impl Field for Exit {
    fn put(&self, out: &mut Vec<u8>) {
        let (kind, value) = match self {
            Exit::Status(status) => (0, *status),
            Exit::Signal(signal) => (1, *signal),
            Exit::OutOfMemory => (2, 0),
        };
        out.put_u8(kind);
        out.put_u8(value);
    }
    fn take(from: &mut Take<'_>) -> Result<Self, Malformed> {
        match (from.u8()?, from.u8()?) {
            (0, status) => Ok(Exit::Status(status)),
            (1, signal) => Ok(Exit::Signal(signal)),
            (2, 0) => Ok(Exit::OutOfMemory),
            _ => Err(Malformed),
        }
    }
}
