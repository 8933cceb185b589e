//! Messages from the router to a worker.

use super::field::Field;
use crate::bytes::{Decoder, Encode, Malformed};

messages! {
    /// From the router to a worker, over the worker's own socket.
    ToWorker {
        /// The descriptors that a request announced, in the order of its flags.
        1 Descriptors {
            /// Ticket of the request.
            ticket: u32,
        }
        /// The status of the application, for a request that has asked for it. Descriptor: a memfd
        /// with JSON.
        2 Status {
            /// Ticket of the request.
            ticket: u32,
        }
        /// The pipe of the worker's output has been read empty.
        3 OutputTaken {
            /// Ticket of the request.
            ticket: u32,
        }
    }
}
