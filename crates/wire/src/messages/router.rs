//! Messages between the router and the supervisor.

use std::time::Duration;

use super::exit::Exit;
use super::field::Field;
use super::job_order::JobOrder;
use super::outcome::{ChangeOutcome, Restart};
use super::prototype::Stack;
use super::secret::Secret;
use super::spec::Problem;
use super::usage::{SiteUsed, Usage};
use crate::bytes::{Decoder, Encode, Malformed};
use crate::queue::WorkerId;
use crate::region::Geometry;

/// Maximum time for requests in progress after [`FromSupervisor::Quit`] with `is_replaced`, unless
/// `settings.shutdown_timeout` is set.
pub const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(300);

/// Interval of [`FromSupervisor::HoldRun`]. After three without one, the store knows no run any more.
pub const RUN_INTERVAL: Duration = Duration::from_secs(20);

messages! {
    /// From the router to the supervisor. Everything that a message names (an address, an
    /// application, a file, a program) must be in the running configuration, or in the one that is
    /// being applied.
    ToSupervisor {
        /// Opens a listening socket, or sends the one that is open.
        1 Bind {
            /// Address as in the configuration: `*:80`, `127.0.0.1:80`, `[::1]:80`, `unix:/path`,
            /// `unix:@name`.
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
            /// Number of the application at the router; never used twice.
            application: u32,
            /// Name of the application in the configuration.
            name: String,
            /// Number of the configuration with this application.
            generation: u32,
            /// Sizes of the region.
            geometry: Geometry,
        }
        /// Starts a worker.
        4 Spawn {
            /// Number of the application.
            application: u32,
        }
        /// Sends a signal to a worker, if this incarnation still runs.
        5 Kill {
            /// Number of the application.
            application: u32,
            /// The worker.
            worker: WorkerId,
            /// Signal number.
            signal: u8,
        }
        /// Requests the stack of a worker's script; answered with `Traced`, before the worker's end
        /// is reported.
        20 Trace {
            /// Number of the application.
            application: u32,
            /// The worker.
            worker: WorkerId,
            /// Number of the request at the router.
            number: u32,
        }
        /// Ends an application. Its workers have been asked through the region to end; the
        /// remaining ones are killed after a grace period. The earliest deadline of several
        /// messages applies.
        6 Stop {
            /// Number of the application.
            application: u32,
            /// Grace period in milliseconds.
            grace_ms: u64,
        }
        /// Ends an application that is not used, once it has no worker and no program that its
        /// scripts have started.
        18 Unload {
            /// Number of the application.
            application: u32,
        }
        /// The router has everything that a configuration needs; answered with `Commit`.
        7 Prepared {
            /// As given to `Apply`.
            generation: u32,
        }
        /// The router accepts connections; the parent of a daemon may exit.
        8 Serving {}
        /// The first configuration cannot be used; the supervisor ends.
        9 Refuse {
            /// One line for the terminal.
            message: String,
        }
        /// The router has finished its requests.
        10 Finished {}
        /// Opens an access log for appending.
        11 OpenLog {
            /// Path as in the configuration.
            path: String,
        }
        /// Opens the file of a cache, which no other process may use at the same time.
        23 OpenCache {
            /// Path of the file.
            path: String,
        }
        /// Measures memory and processor time of an application's workers.
        12 Measure {
            /// Number of the application.
            application: u32,
        }
        /// Asks whether files have changed that an application was started from; answered with
        /// `FilesChecked`, unless the application ends.
        24 CheckFiles {
            /// Number of the application.
            application: u32,
        }
        /// Stores a certificate or an account that the router got from an authority (ACME).
        /// Descriptor: a memfd with its text.
        13 StoreCertificate {
            /// Name of the certificate.
            name: String,
        }
        /// Reads a file with certificates, a private key or an OCSP response.
        15 ReadFile {
            /// Path as in the configuration.
            path: String,
        }
        /// Result of `Apply`.
        16 Applied {
            /// As given to `Apply`.
            generation: u32,
            /// Result of the change.
            outcome: ChangeOutcome,
        }
        /// Runs a program that changes DNS records; answered with `Ran` when it has ended.
        17 Run {
            /// Number of the run at the router.
            number: u32,
            /// Path as in the configuration.
            program: String,
            /// Arguments, without the program's name.
            arguments: Vec<String>,
            /// Environment variables, in addition to the supervisor's.
            environment: Vec<(String, String)>,
            /// Maximum run time in milliseconds.
            timeout_ms: u64,
        }
        /// Reopens the system's files for name resolution, because the sandbox of the router allows
        /// only the files that existed at its start; answered with `NameFiles`.
        21 OpenNameFiles {}
        /// A file or directory of the configuration has appeared that this router may not read:
        /// another one could.
        25 Renew {
            /// The path that has appeared, for the log.
            reason: String,
        }
        /// Answer to `HoldRenewals`: no certificate is being ordered.
        22 RenewalsHeld {}
        /// Answer to `Ping`: all router threads have answered, too.
        30 Pong {
            /// As given to `Ping`.
            number: u32,
            /// Open connections with a request in progress.
            active: u64,
            /// Open connections without a request.
            idle: u64,
            /// Requests since the start.
            requests: u64,
            /// The parts of the configuration that are out, in a line; empty if there are none.
            out: String,
        }
        /// What sites have used since the last message.
        26 Used {
            /// The sites.
            sites: Vec<SiteUsed>,
        }
        /// Asks what sites have used in a month; answered with `Usage`.
        27 ReadUsage {
            /// Number of the question at the router.
            number: u32,
            /// The month, such as `2026-11`; this one if `None`.
            month: Option<String>,
        }
        /// Asks for the jobs of applications; answered with `Jobs`.
        28 ReadJobs {
            /// Number of the question at the router.
            number: u32,
            /// Names of the applications; all if `None`.
            applications: Option<Vec<String>>,
        }
        /// Asks for the last lines of a job; answered with `Jobs`.
        29 ReadJobLog {
            /// Number of the question at the router.
            number: u32,
            /// Name of the application.
            application: String,
            /// Name of the job.
            job: String,
        }
        /// Runs, pauses or resumes a job; answered with `Jobs`.
        31 OrderJob {
            /// Number of the question at the router.
            number: u32,
            /// Name of the application.
            application: String,
            /// Name of the job.
            job: String,
            /// The order.
            order: JobOrder,
        }
        /// Replaces the processes of the jobs of an application that has no prototype: its files
        /// have changed.
        32 RestartJobs {
            /// Name of the application.
            application: String,
        }
        /// Answer to `ClaimRun`: the store has said which server runs the timer.
        33 RunClaimed {
            /// As given to `ClaimRun`.
            application: String,
            /// As given to `ClaimRun`.
            job: String,
            /// As given to `ClaimRun`.
            time: u64,
            /// What the store knows the run by if this server runs it.
            token: Option<String>,
        }
    }
}

messages! {
    /// From the supervisor to the router.
    FromSupervisor {
        /// The first message. Descriptors: the log, a memfd with the document, one with the
        /// certificate bundles ([`put_bundles`](super::put_bundles)), the socket to the former router
        /// with `has_former`, and the socket that takes [spans](crate::spans), if there is one.
        1 Hello {
            /// Available versions of PHP and their programs.
            php: Vec<(String, String)>,
            /// Name of the document in error messages.
            origin: String,
            /// Number of the configuration.
            generation: u32,
            /// Directory for temporary files.
            tmp: String,
            /// The server has a control API, through which an invalid configuration can be
            /// corrected.
            has_control: bool,
            /// Documents have NGINX Unit's defaults.
            unit_defaults: bool,
            /// The router enters its sandbox.
            sandbox: bool,
            /// The first document is refused if a part of it cannot run.
            strict: bool,
            /// The server has served before: this router replaces one that has ended.
            has_served: bool,
            /// Names of the applications without which this router must not serve: they run in the
            /// server that is being replaced.
            required: Vec<String>,
            /// Another server may be ordering certificates; this router must not, until
            /// `ReleaseRenewals`.
            holds_renewals: bool,
            /// Name of the abstract socket at which the dashboard process serves while the
            /// configuration has the action `dashboard`.
            dashboard: String,
            /// Secret of HTTP/3 in hexadecimal; empty without one.
            http3_secret: Secret,
            /// Another router finishes its requests, or is about to
            /// ([`ToFormerRouter`](super::ToFormerRouter)).
            has_former: bool,
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
            /// Problem, and how to solve it.
            message: String,
            /// Another program has the address, which may end soon.
            is_taken: bool,
        }
        /// A prototype has loaded PHP and can start workers.
        4 Ready {
            /// Number of the application.
            application: u32,
            /// Full PHP version.
            version: String,
            /// Responses say that PHP runs (`expose_php`).
            is_exposed: bool,
            /// Messages of scripts also go to web servers that pass requests (`fastcgi.logging`).
            sends_messages: bool,
            /// The application shares the start of PHP with others.
            shares_start: bool,
            /// Limits of all its processes are counted, as no control group keeps them.
            is_counted: bool,
        }
        /// The worker script of a resident application has started.
        26 Booted {
            /// Number of the application.
            application: u32,
            /// As in [`FromPrototype::Booted`](super::FromPrototype::Booted).
            boot_us: u64,
            /// Workers are forked from a process in which the script has started already.
            has_template: bool,
            /// As in [`FromPrototype::Booted`](super::FromPrototype::Booted).
            without: String,
        }
        /// A file of a resident application has changed.
        27 Changed {
            /// Number of the application.
            application: u32,
            /// Path of the file.
            path: String,
        }
        /// Processes of a resident application run a script for each request, or stop doing so.
        28 Fallback {
            /// Number of the application.
            application: u32,
            /// As in [`FromPrototype::Fallback`](super::FromPrototype::Fallback).
            problem: Option<String>,
        }
        /// A prototype could not start, or has ended with all its workers.
        5 Ended {
            /// Number of the application.
            application: u32,
            /// Reason of the failure.
            problem: Problem,
        }
        /// A worker runs. Descriptors: the router's end of its socket, and the reading ends of the
        /// pipes of its standard output and error, as in [`ToPrototype::Spawn`](super::ToPrototype).
        6 Started {
            /// Number of the application.
            application: u32,
            /// The worker.
            worker: WorkerId,
            /// Process id.
            pid: u32,
        }
        /// A worker could not be started.
        7 NotStarted {
            /// Number of the application.
            application: u32,
            /// As the prototype reports it: the next request may succeed.
            is_temporary: bool,
            /// Reason of the failure.
            message: String,
        }
        /// A worker has ended.
        8 Died {
            /// Number of the application.
            application: u32,
            /// The worker.
            worker: WorkerId,
            /// Process id.
            pid: u32,
            /// Exit status.
            status: Exit,
            /// The worker was waiting for a request.
            was_idle: bool,
        }
        /// Result of `Trace`.
        20 Traced {
            /// Number of the application.
            application: u32,
            /// As given to `Trace`.
            number: u32,
            /// Stack of the worker's script.
            stack: Stack,
        }
        /// The log was reopened. Descriptor: the log.
        9 Reopened {}
        /// The server ends after this time, in which new connections are still accepted. Each
        /// response closes its connection.
        37 Leaving {
            /// Milliseconds.
            milliseconds: u64,
        }
        /// Ends the router: immediately, or after the requests in progress. Descriptor with
        /// `is_replaced`: the socket to the new router ([`ToFormerRouter`](super::ToFormerRouter)).
        10 Quit {
            /// Finish requests first.
            graceful: bool,
            /// Another server accepts connections from the same listening sockets.
            is_replaced: bool,
        }
        /// Result of `StoreCertificate`, in the order of the requests.
        11 Stored {
            /// Error message; empty on success.
            error: String,
        }
        /// Result of `OpenLog`. Descriptor: the file, if it could be opened.
        12 LogOpened {
            /// As given to `OpenLog`.
            path: String,
            /// Error message; empty on success.
            error: String,
        }
        /// Result of `OpenCache`. Descriptor: the file, locked, if it could be opened.
        29 CacheOpened {
            /// As given to `OpenCache`.
            path: String,
            /// Error message; empty on success, and if another process uses the file.
            error: String,
        }
        /// A listening socket is closed.
        13 Unbound {
            /// As given to `Unbind`.
            address: String,
        }
        /// Result of `ReadFile`, in the order of the requests. Descriptor: a memfd with the text,
        /// if it could be read.
        15 FileRead {
            /// Error message; empty on success.
            error: String,
        }
        /// Applies a configuration; answered with `Prepared` or `Applied`. Descriptor: a memfd with
        /// the document.
        16 Apply {
            /// Number of the configuration; higher than the previous one.
            generation: u32,
            /// Applications that are restarted afterwards.
            restart: Restart,
        }
        /// Another change waits for the one that is being made, which must not take long now.
        33 Hurry {}
        /// Result of `ReadUsage`. Descriptor: a memfd with the counts as JSON.
        36 Usage {
            /// As given to `ReadUsage`.
            number: u32,
            /// Error message; empty on success.
            error: String,
        }
        /// Result of `ReadJobs`, `ReadJobLog` and `OrderJob`. Descriptor: a memfd with the answer as
        /// JSON (crate `questions`); none if there is no such job.
        38 Jobs {
            /// As given in the question.
            number: u32,
            /// Error message; empty on success.
            error: String,
        }
        /// Asks the store of the cluster whether this server runs a timer; answered with
        /// `RunClaimed` if the store answers.
        39 ClaimRun {
            /// Name of the application.
            application: String,
            /// Name of the job.
            job: String,
            /// Time of the run in seconds since 1970.
            time: u64,
            /// Seconds for which no other server may have a run of this time.
            keep: u64,
            /// No other server may begin a run of another time until `EndRun`, or until `HoldRun`
            /// is missing.
            is_exclusive: bool,
        }
        /// An exclusive run goes on. Sent each [`RUN_INTERVAL`].
        40 HoldRun {
            /// Name of the application.
            application: String,
            /// Name of the job.
            job: String,
            /// As given in `RunClaimed`.
            token: String,
        }
        /// An exclusive run has ended.
        41 EndRun {
            /// Name of the application.
            application: String,
            /// Name of the job.
            job: String,
            /// As given in `RunClaimed`.
            token: String,
        }
        /// Answer to `Prepared`: the configuration is stored, and applies from now on.
        18 Commit {
            /// As given to `Apply`.
            generation: u32,
            /// Reason why the configuration is not stored and must not be used; empty if it is
            /// stored.
            error: String,
        }
        /// A control process has started, or the dashboard process. Descriptor: the router's end
        /// of a socket for [`ToRouter`](super::ToRouter) and [`FromRouter`](super::FromRouter).
        19 Control {
            /// The process may ask about the state, and give no order.
            only_reads: bool,
        }
        /// A stored certificate bundle that the next configuration uses. Descriptor: a memfd with
        /// its text.
        21 Certificate {
            /// Name of the certificate.
            name: String,
        }
        /// A certificate bundle was deleted through the control API.
        22 CertificateDeleted {
            /// Name of the certificate.
            name: String,
        }
        /// Result of `OpenNameFiles`. Descriptors: `/etc/hosts` and `/etc/resolv.conf`, `/dev/null`
        /// in place of one that cannot be opened.
        23 NameFiles {}
        /// Stops ordering certificates; answered with `RenewalsHeld` when no order is in progress.
        24 HoldRenewals {}
        /// Orders certificates again.
        25 ReleaseRenewals {}
        /// A program has ended.
        17 Ran {
            /// As given to `Run`.
            number: u32,
            /// Error message; empty on success.
            error: String,
        }
        /// Result of `CheckFiles`.
        31 FilesChecked {
            /// Number of the application.
            application: u32,
            /// The file that has changed, or one of them; `None` if none has.
            changed: Option<String>,
        }
        /// The applications that could not start, or run without their document roots; all that
        /// there are.
        32 Troubled {
            /// Number of the configuration that was looked at.
            generation: u32,
            /// Their names, with the problems.
            applications: Vec<(String, Problem)>,
        }
        /// Running applications whose user or group was deleted or has another id; with those of
        /// the messages before, all that there are.
        34 StaleUsers {
            /// No further message follows.
            is_last: bool,
            /// Their numbers, with the problems.
            found: Vec<(u32, String)>,
        }
        /// All files that the supervisor cannot write to.
        35 Unwritable {
            /// The state directory, and the problem.
            state: Vec<(String, String)>,
            /// Name of the server's log, and the problem.
            log: Vec<(String, String)>,
            /// Name of the server's log, and why it could not be opened again: the former file
            /// stays in use.
            former_log: Vec<(String, String)>,
        }
        /// Asks whether the router works; answered with `Pong`.
        30 Ping {
            /// Number of the ping.
            number: u32,
            /// Time since 1970 in seconds, since which the document at its source is refused; 0 if
            /// it is not.
            refused_since: u64,
        }
        /// Result of `Measure`.
        14 Measured {
            /// Number of the application.
            application: u32,
            /// Memory of the prototype in bytes, shared pages in proportion.
            base: u64,
            /// PHP's `memory_limit` in bytes; `None` for no limit.
            memory_limit: Option<u64>,
            /// Workers of the application, or some of them if there are many.
            workers: Vec<Usage>,
        }
    }
}
