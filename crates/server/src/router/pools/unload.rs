//! Ends the prototypes of applications that have had no worker for some time, at once if memory is
//! short. The next request starts the application again.

use std::io;
use std::time::Instant;

use howdah_php_pool::pool::PoolState;
use howdah_sys::log::Level;

use super::application::PooledApplication;
use super::restarts::Restarts;
use super::{Pools, REMOVAL_GRACE};
use crate::router::memory_shortage::READ_INTERVAL;

impl Pools {
    /// Ends the prototype if there has been no worker and no request for
    /// [`prototype_timeout`](howdah_php_pool::pool::PoolLimits::prototype_timeout). Returns the time at
    /// which that is due; `None` if the application is in use.
    pub(super) fn unload_if_unused(
        &mut self,
        app: &mut PooledApplication,
        state: PoolState,
        now: Instant,
    ) -> io::Result<Option<Instant>> {
        let Some(timeout) = app.sizing.wanted().prototype_timeout else { return Ok(None) };
        if state.workers + app.starting + state.busy + state.waiting > 0 {
            app.unused_since = None;
            return Ok(None);
        }
        let unused_since = *app.unused_since.get_or_insert(now);
        let due = unused_since.checked_add(timeout);
        let Pools { memory_shortage, machine, .. } = self;
        if due.is_none_or(|due| due > now) && !memory_shortage.is_short(now, || machine.state(None))
        {
            return Ok(due.into_iter().chain([now + READ_INTERVAL]).min());
        }
        let (name, unused) = (&app.config.name, (now - unused_since).as_secs());
        let message = format_args!(
            "\"{name}\" application is unloaded, as it was not used for {unused} s; the next request \
             loads it again"
        );
        self.log(Level::Info, message);
        // Requests that come from now on wait for the next prototype.
        app.queue.set_instance(None);
        app.ready_since = None;
        app.unused_since = None;
        app.restarts = Restarts::default();
        match app.instance.take() {
            Some(instance) => {
                self.retire(app.config.name.clone(), instance, REMOVAL_GRACE)?;
                Ok(Some(now)) // the retired instance has no requests, so that it ends at once
            }
            None => Ok(None),
        }
    }
}
