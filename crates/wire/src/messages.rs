//! What router, supervisor and prototypes tell each other.
//!
//! Each message is one packet of a `SOCK_SEQPACKET` socket; descriptors travel beside it in the
//! order that a variant documents. The supervisor gets application specifications, never JSON.

use crate::bytes::{Malformed, Put, Take};
use crate::queue::Owner;
use crate::region::Geometry;

/// Longest message. Longer contents (documents) travel as descriptors.
pub const MAX_MESSAGE: usize = 128 * 1024;
/// Most descriptors beside one message.
pub const MAX_DESCRIPTORS: usize = 80;

/// A value with a binary encoding.
pub trait Field: Sized {
    /// Appends the encoding.
    fn put(&self, out: &mut Vec<u8>);
    /// Takes a value from the front.
    fn take(from: &mut Take<'_>) -> Result<Self, Malformed>;
}

macro_rules! integer_fields {
    ($($type:ty: $put:ident $take:ident),*) => {$(
        impl Field for $type {
            fn put(&self, out: &mut Vec<u8>) {
                out.$put(*self);
            }
            fn take(from: &mut Take<'_>) -> Result<Self, Malformed> {
                from.$take()
            }
        }
    )*};
}
integer_fields!(u8: put_u8 u8, u16: put_u16 u16, u32: put_u32 u32, u64: put_u64 u64);

impl Field for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_u8(u8::from(*self));
    }
    fn take(from: &mut Take<'_>) -> Result<Self, Malformed> {
        match from.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }
}

impl Field for String {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_bytes(self.as_bytes());
    }
    fn take(from: &mut Take<'_>) -> Result<Self, Malformed> {
        Ok(from.text()?.to_owned())
    }
}

impl<T: Field> Field for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
    fn take(from: &mut Take<'_>) -> Result<Self, Malformed> {
        Ok(if bool::take(from)? { Some(T::take(from)?) } else { None })
    }
}

impl<T: Field> Field for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_u32(self.len() as u32);
        for item in self {
            item.put(out);
        }
    }
    fn take(from: &mut Take<'_>) -> Result<Self, Malformed> {
        let len = from.u32()? as usize;
        if len > from.0.len() {
            return Err(Malformed); // each item takes a byte at least
        }
        (0..len).map(|_| T::take(from)).collect()
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }
    fn take(from: &mut Take<'_>) -> Result<Self, Malformed> {
        Ok((A::take(from)?, B::take(from)?))
    }
}

impl Field for Geometry {
    fn put(&self, out: &mut Vec<u8>) {
        for value in [self.slots, self.threads, self.request_bytes, self.response_bytes] {
            out.put_u32(value);
        }
    }
    fn take(from: &mut Take<'_>) -> Result<Self, Malformed> {
        Geometry {
            slots: from.u32()?,
            threads: from.u32()?,
            request_bytes: from.u32()?,
            response_bytes: from.u32()?,
        }
        .check()
        .map_err(|_| Malformed)
    }
}

impl Field for Owner {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_u16(self.index);
        out.put_u16(self.incarnation);
    }
    fn take(from: &mut Take<'_>) -> Result<Self, Malformed> {
        let owner = Owner { index: from.u16()?, incarnation: from.u16()? };
        if owner.index < Owner::LIMIT { Ok(owner) } else { Err(Malformed) }
    }
}

macro_rules! record {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type,)* }

        impl Field for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }
            fn take(from: &mut Take<'_>) -> Result<Self, Malformed> {
                Ok($name { $($field: Field::take(from)?,)* })
            }
        }
    };
}

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

record! {
    /// All that the supervisor and the prototype must know of an application.
    ApplicationSpec {
        /// Name in the configuration; appears in process titles and the log.
        name: String,
        /// PHP version wanted: empty, or a prefix such as `8` or `8.2`.
        php_version: String,
        /// Document roots; an application without them cannot run.
        roots: Vec<String>,
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
        /// File for standard output; `None`: the server's log.
        stdout: Option<String>,
        /// File for standard error; `None`: the server's log.
        stderr: Option<String>,
        /// Requests after which a worker is replaced; 0: never.
        requests: u64,
        /// Sizes of the shared region.
        geometry: Geometry,
    }
}

messages! {
    /// From the router to the supervisor.
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
            /// The specification.
            spec: ApplicationSpec,
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
        /// Ends an application. Its workers have been asked to leave through the region; those
        /// that stay are killed after a grace period.
        6 Stop {
            /// The application.
            application: u32,
            /// Grace period in milliseconds.
            grace_ms: u64,
        }
        /// Stores the configuration. Descriptor: a memfd with the document.
        7 Store {}
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
    }
}

messages! {
    /// From the supervisor to the router.
    FromSupervisor {
        /// The first message. Descriptors: the log, a memfd with the document, and the control
        /// API's listening socket if there is one.
        1 Hello {
            /// Versions of PHP that can be run, and the programs that run them.
            php: Vec<(String, String)>,
            /// What the document is called in error messages.
            origin: String,
            /// Directory for temporary files.
            tmp: String,
            /// Control API address, or empty.
            control: String,
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
        /// A worker runs. Descriptor: the router's end of its socket.
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
        }
        /// The log was opened anew. Descriptor: the log.
        9 Reopened {}
        /// End: at once, or after the requests in hand.
        10 Quit {
            /// Finish requests first.
            graceful: bool,
        }
        /// Result of `Store`.
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
    }
}

messages! {
    /// From the supervisor to a prototype.
    ToPrototype {
        /// The first message. Descriptors: the region, then one eventfd per router thread.
        1 Hello {
            /// The specification.
            spec: ApplicationSpec,
        }
        /// Forks a worker.
        2 Spawn {
            /// Who it is.
            worker: Owner,
        }
        /// Sends a signal to a worker, if it is still this one.
        3 Kill {
            /// The worker.
            worker: Owner,
            /// Signal number.
            signal: u8,
        }
    }
}

messages! {
    /// From a prototype to the supervisor.
    FromPrototype {
        /// PHP is loaded.
        1 Ready {
            /// Full PHP version.
            version: String,
        }
        /// PHP cannot be started; the prototype ends.
        2 Failed {
            /// Why.
            message: String,
        }
        /// A worker runs. Descriptor: the router's end of its socket.
        3 Started {
            /// Who it is.
            worker: Owner,
            /// Process id.
            pid: u32,
        }
        /// A worker could not be forked.
        4 NotStarted {
            /// Who it would have been.
            worker: Owner,
            /// Why.
            message: String,
        }
        /// A worker has ended.
        5 Died {
            /// Who it was.
            worker: Owner,
            /// Process id.
            pid: u32,
            /// Exit status.
            status: Exit,
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
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It returned this status.
    Status(u8),
    /// A signal killed it.
    Signal(u8),
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Exit::Status(status) => write!(f, "exited with status {status}"),
            Exit::Signal(signal) => write!(f, "was killed by signal {signal}"),
        }
    }
}

impl Field for Exit {
    fn put(&self, out: &mut Vec<u8>) {
        let (kind, value) = match self {
            Exit::Status(status) => (0, *status),
            Exit::Signal(signal) => (1, *signal),
        };
        out.put_u8(kind);
        out.put_u8(value);
    }
    fn take(from: &mut Take<'_>) -> Result<Self, Malformed> {
        match (from.u8()?, from.u8()?) {
            (0, status) => Ok(Exit::Status(status)),
            (1, signal) => Ok(Exit::Signal(signal)),
            _ => Err(Malformed),
        }
    }
}
