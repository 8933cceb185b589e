//! Instances that answer a thread's requests.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::io::unix::AsyncFd;

use crate::instance::Instance;
use crate::queue::Queue;

/// An instance, its queue, and the eventfd with which its workers wake this thread.
#[derive(Debug)]
pub(super) struct AttachedInstance {
    pub instance: Arc<Instance>,
    pub queue: Arc<Queue>,
    pub event: AsyncFd<OwnedFd>,
}
