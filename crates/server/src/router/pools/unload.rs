//! Ends the prototypes of applications that have had no worker for some time, at once if memory is
//! short. The next request starts the application again, also while a prototype is left because of
//! programs that its scripts have started.

use std::io;
use std::time::Instant;

use howdah_php_pool::pool::PoolState;
use howdah_php_pool::sizing::shortage::READ_INTERVAL;
use howdah_sys::log::Level;
use howdah_wire::messages::ToSupervisor;

use super::Pools;
use super::application::PooledApplication;
use super::restarts::Restarts;

impl Pools {
    /// Ends the prototype if there has been no worker and no request for
    /// [`unload_timeout`](howdah_php_pool::pool::PoolLimits::unload_timeout). Returns the time at
    /// which that is due; `None` if the application is in use.
    pub(super) fn unload_if_unused(
        &mut self,
        app: &mut PooledApplication,
        state: PoolState,
        now: Instant,
    ) -> io::Result<Option<Instant>> {
        // The other applications: this one is not in the list meanwhile.
        let has_neighbours = !self.applications.is_empty();
        let timeout = app.sizing.wanted().unload_timeout(has_neighbours);
        let Some(timeout) = timeout else { return Ok(None) };
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
        if let Some(instance) = app.instance.take() {
            instance.close();
            self.link.send(&ToSupervisor::Unload { application: instance.number })?;
            self.retired.add_unloaded(app.config.name.clone(), instance);
        }
        Ok(None)
    }
}
