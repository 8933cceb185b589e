//! Messages between a prototype and the template of a resident application.
//!
//! The template has run code of the application, so the prototype treats its messages like those of
//! a script.

use super::field::Field;
use crate::bytes::{Decoder, Encode, Malformed};
use crate::queue::WorkerId;

messages! {
    /// From a prototype to a template.
    ToTemplate {
        /// Forks a worker. Descriptors: as in [`ToPrototype::Spawn`](super::ToPrototype::Spawn).
        /// Answered with `Forked` or `NotForked`.
        1 Fork {
            /// The worker.
            worker: WorkerId,
        }
    }
}

messages! {
    /// From a template to a prototype: `Booted`, `Unshareable` or `Failed` once, then one answer to
    /// each request.
    FromTemplate {
        /// The worker script waits for its first request.
        1 Booted {
            /// Time that the script took to get there, in microseconds.
            boot_us: u64,
        }
        /// The worker script waits for its first request, but workers that are forked now would
        /// share something that they must not. The template ends.
        2 Unshareable {
            /// As in `Booted`.
            boot_us: u64,
            /// The state that they would share.
            reason: String,
        }
        /// The worker script does not work; the template ends.
        3 Failed {
            /// The reason.
            message: String,
            /// The request that warms the application up has failed, not the script.
            in_warm_up: bool,
        }
        /// A worker was forked. It is a child of the prototype, and has sent this message itself.
        4 Forked {
            /// The worker.
            worker: WorkerId,
            /// Process id.
            pid: u32,
        }
        /// A worker could not be forked.
        5 NotForked {
            /// The worker.
            worker: WorkerId,
            /// The reason.
            message: String,
        }
    }
}
