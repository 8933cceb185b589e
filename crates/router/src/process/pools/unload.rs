//! Ends the prototypes of applications that have had no worker for some time, and earlier if memory
//! is short, those first that have been unused longest. The next request starts the application
//! again, also while a prototype is left because of programs that its scripts have started.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_php_pool::automatic_sizing::shortage::{READ_INTERVAL, Shortage};
use howdah_php_pool::worker_count::PoolState;
use howdah_sys::log::Level;
use howdah_wire::messages::ToSupervisor;

use super::Pools;
use super::application::PooledApplication;
use super::restarts::Restarts;

/// Part of the unused applications that are unloaded in each second in which memory is short, as a
/// divisor. Few, so that those that are used again soonest stay; all, if hardly any memory is left.
const UNLOADED_DIVISOR: usize = 4;

impl Pools {
    /// Checks every second whether memory is short, and chooses the applications that are unloaded
    /// then.
    pub(super) fn choose_unused(&mut self, now: Instant) {
        if self.unused_chosen_at.is_some_and(|at| now - at < READ_INTERVAL) {
            return;
        }
        let unused: Vec<_> = self.applications.iter().filter_map(|app| app.unused_since).collect();
        if unused.is_empty() {
            return;
        }
        self.unused_chosen_at = Some(now);
        let Pools { memory_shortage, machine, .. } = self;
        let shortage = memory_shortage.now(now, || machine.state(None));
        self.unload_unused_since = chosen(unused, shortage);
    }

    /// Ends the prototype if there has been no worker and no request for
    /// [`unload_timeout`](howdah_php_pool::worker_count::PoolLimits::unload_timeout). Returns the
    /// time at which that is due; `None` if the application is in use.
    pub(super) fn unload_if_unused(
        &mut self,
        app: &mut PooledApplication,
        state: PoolState,
        now: Instant,
    ) -> io::Result<Option<Instant>> {
        // The other applications: this one is not in the list meanwhile.
        let has_neighbours = !self.applications.is_empty();
        // An application that kept its former settings could not start again.
        if state.workers + app.starting + state.busy + state.waiting > 0 || app.kept.is_some() {
            (app.unused_since, app.is_trial) = (None, false);
            return Ok(None);
        }
        let timeout = app.sizing.wanted().unload_timeout(has_neighbours);
        let timeout = if app.is_trial { Some(Duration::ZERO) } else { timeout };
        let Some(timeout) = timeout else { return Ok(None) };
        let unused_since = *app.unused_since.get_or_insert(now);
        let due = unused_since.checked_add(timeout);
        let is_chosen = self.unload_unused_since.is_some_and(|chosen| unused_since <= chosen);
        if due.is_none_or(|due| due > now) && !is_chosen {
            return Ok(due.into_iter().chain([now + READ_INTERVAL]).min());
        }
        let (name, unused) = (&app.config.name, (now - unused_since).as_secs());
        let shortage = if is_chosen { "memory is short and " } else { "" };
        if std::mem::take(&mut app.is_trial) {
            self.log(
                Level::Info,
                format_args!("\"{name}\" application can run again; the next request loads it"),
            )
        } else {
            self.log(
                Level::Info,
                format_args!(
                    "\"{name}\" application is unloaded, as {shortage}it was not used for \
                     {unused} s; the next request loads it again"
                ),
            )
        }
        // Requests that come from now on wait for the next prototype.
        app.queue.set_instance(None);
        app.ready_since = None;
        app.unused_since = None;
        app.restarts = Restarts::default();
        if let Some(instance) = app.instance.take() {
            instance.close();
            self.link.send(&ToSupervisor::Unload { application: instance.number })?;
            let (name, queue) = (app.config.name.clone(), Arc::clone(&app.queue));
            self.retired.add_unloaded(name, queue, instance);
        }
        Ok(None)
    }
}

/// Returns the time since which an application must have been unused to be unloaded now. `unused`
/// has that of each unused one, at least one.
fn chosen(mut unused: Vec<Instant>, shortage: Shortage) -> Option<Instant> {
    let last = match shortage {
        Shortage::None => return None,
        Shortage::Short => (unused.len() - 1) / UNLOADED_DIVISOR,
        Shortage::Urgent => unused.len() - 1,
    };
    Some(*unused.select_nth_unstable(last).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_were_unused_longest_make_room_first() {
        let begin = Instant::now();
        let at = |second| begin + Duration::from_secs(second);
        let unused = |times: &[u64]| times.iter().map(|time| at(*time)).collect::<Vec<_>>();
        for (times, shortage, expected) in [
            (&[5, 3, 9][..], Shortage::None, None),
            (&[5, 3, 9], Shortage::Short, Some(3)),
            (&[5], Shortage::Short, Some(5)),
            (&[8, 7, 6, 5, 4, 3, 2, 1], Shortage::Short, Some(2)),
            (&[5, 3, 9], Shortage::Urgent, Some(9)),
        ] {
            assert_eq!(chosen(unused(times), shortage), expected.map(at), "{times:?} {shortage:?}");
        }
    }
}
