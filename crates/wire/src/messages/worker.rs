//! Messages from the router to a worker.

use super::field::Field;
use crate::bytes::{Decoder, Encode, Malformed};

messages! {
    /// From the router to a worker, over the worker's own socket.
    ToWorker {
        /// Descriptors that a request announced, in the order of its flags.
        1 Descriptors {
            /// Ticket of the request.
            ticket: u32,
        }
        /// Status of the application, for a request that has asked for it. Descriptor: a memfd with
        /// JSON.
        2 Status {
            /// Ticket of the request.
            ticket: u32,
        }
        /// The router has read the pipe of the worker's output.
        3 OutputTaken {
            /// Ticket of the request.
            ticket: u32,
        }
    }
}
