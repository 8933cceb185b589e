//! Instances that take no more requests: they end when their workers have left, and are ended when
//! these do not leave although they have nothing left to do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_php_pool::queue::Instance;
use howdah_wire::messages::ToSupervisor;

use super::Pools;
use crate::router::link::Link;

/// How long workers without a request may take to leave. They are awake for that within a moment;
/// one that is not is stopped, or has been made to stay by its last script.
const LEAVE_TIME: Duration = Duration::from_secs(5);

/// How often to look whether requests are left.
const LOOK: Duration = Duration::from_millis(500);

/// An instance that takes no more requests.
#[derive(Debug)]
pub(super) struct Retired {
    /// Its application.
    pub(super) name: String,
    pub(super) instance: Arc<Instance>,
    /// Its end is certain.
    is_ending: bool,
}

impl Retired {
    pub(super) fn new(name: String, instance: Arc<Instance>) -> Self {
        Retired { name, instance, is_ending: false }
    }
}

impl Pools {
    /// Has retired instances ended that have no request left. Returns when to look again.
    pub(super) fn end_retired(
        &mut self,
        link: &Link,
        now: Instant,
    ) -> std::io::Result<Option<Instant>> {
        let mut again = None;
        for retired in self.retired.values_mut().filter(|retired| !retired.is_ending) {
            if retired.instance.has_requests() {
                again = Some(now + LOOK);
                continue;
            }
            let (application, grace_ms) = (retired.instance.number, LEAVE_TIME.as_millis() as u64);
            link.send(&ToSupervisor::Stop { application, grace_ms })?;
            retired.is_ending = true;
        }
        Ok(again)
    }

    /// Whether workers are to be waited for at the end of the server: all that have a request, and
    /// the others for a while. `idle_since` is when the last request was over.
    pub(in crate::router) fn has_workers(&self, idle_since: &mut Option<Instant>) -> bool {
        let now = Instant::now();
        if self.instances().any(|instance| instance.has_requests()) {
            *idle_since = None;
        } else if now - *idle_since.get_or_insert(now) >= LEAVE_TIME {
            return false;
        }
        self.instances().any(|instance| instance.worker_count() > 0)
    }

    /// When to ask [`Pools::has_workers`] again.
    pub(in crate::router) fn next_look() -> Instant {
        Instant::now() + LOOK
    }
}
