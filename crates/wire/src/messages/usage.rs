//! Memory and processor time of a worker.

use super::field::Field;
use crate::bytes::{Decoder, Malformed};
use crate::queue::WorkerId;

record! {
    /// Memory and processor time of a worker.
    Usage {
        /// The worker.
        worker: WorkerId,
        /// Bytes of memory, shared pages in proportion.
        pss: u64,
        /// Part of `pss` without files and shared memory: the cost of another worker.
        private: u64,
        /// Peak of `private` since the last measurement.
        peak: u64,
        /// Processor time since the worker's start, in microseconds.
        cpu_us: u64,
        /// Time spent waiting for a processor since the worker's start, in microseconds.
        delay_us: u64,
    }
}

record! {
    /// What requests of a site have used.
    SiteUsed {
        /// Name of the site, at most [`MAX_SITE_NAME`] bytes.
        site: String,
        /// Number of requests.
        requests: u64,
        /// Number of responses with a status of 500 or above.
        errors: u64,
        /// Bytes of requests.
        received: u64,
        /// Bytes of responses.
        sent: u64,
        /// Run time of PHP scripts in microseconds.
        php_us: u64,
    }
}

/// Maximum length of the name of a site in counts, in bytes.
pub const MAX_SITE_NAME: usize = 255;
