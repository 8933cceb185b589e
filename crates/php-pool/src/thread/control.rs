//! Messages to the control thread.

use howdah_wire::queue::WorkerId;

use crate::status::SlowRequest;

/// A message from a router thread to the control thread.
#[derive(Debug)]
pub enum ControlRequest {
    /// A script has exceeded its time limit: kill the worker.
    Overdue(SlowRequest),
    /// A worker has written invalid frames: kill it.
    Kill {
        /// Number of the instance.
        instance: u32,
        /// Name of the worker in the region.
        worker: WorkerId,
    },
    /// A script has asked for its resident application to start again.
    Restart {
        /// Number of the instance.
        instance: u32,
    },
    /// An application has more requests than workers, or no worker takes a request.
    CheckWorkers,
}
