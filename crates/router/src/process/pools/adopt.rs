//! Takes prepared applications over when their configuration becomes the current one, and retires
//! those that it replaces.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use howdah_php_pool::queue::{Instance, Queue};
use howdah_routing::snapshot::Snapshot;
use howdah_wire::messages::ToSupervisor;

use super::application::PooledApplication;
use super::{Pools, REMOVAL_GRACE};

impl Pools {
    /// Adopts the prepared applications. An application with the same name and queue is a restart:
    /// the old instance finishes the requests of its workers. Any other one of the same name
    /// leaves.
    pub(in crate::process) fn adopt(&mut self) -> io::Result<()> {
        let prepared = self.preparing.extract_if(.., |app| !app.is_restart).collect();
        self.preparing.shrink_to_fit(); // at a start, it had all applications
        self.adopt_these(prepared)
    }

    /// Adopts the new instance of one application.
    pub(super) fn adopt_restarted(&mut self, name: &str) -> io::Result<()> {
        let is_it = |app: &mut PooledApplication| app.is_restart && app.config.name == name;
        let prepared = self.preparing.extract_if(.., is_it).collect();
        self.adopt_these(prepared)
    }

    fn adopt_these(&mut self, prepared: Vec<PooledApplication>) -> io::Result<()> {
        for mut app in prepared {
            app.is_restart = false;
            let same_name =
                self.applications.iter().position(|old| old.config.name == app.config.name);
            let old = same_name.and_then(|index| self.applications.swap_remove_back(index));
            if let (Some(_), Some(instance)) = (app.ready_since, &app.instance) {
                app.queue.set_instance(Some(Arc::clone(instance)));
            }
            match old {
                Some(old) if Arc::ptr_eq(&old.queue, &app.queue) => {
                    app.snapshots = old.snapshots;
                    // The configuration may have changed since this instance began to start.
                    app.generation = old.generation;
                    if let Some(instance) = old.instance {
                        self.retire(old.config.name.clone(), old.queue, instance, REMOVAL_GRACE)?;
                    }
                }
                old => {
                    // The next look shows whether the problem is solved.
                    if let Some(old) = old.as_ref().filter(|_| app.instance.is_none()) {
                        app.foreseen.clone_from(&old.foreseen);
                    }
                    self.leaving.extend(old);
                }
            }
            self.applications.push_back(app);
        }
        self.is_started = true;
        Ok(())
    }

    /// Keeps the applications of this snapshot. The others leave after their last request.
    pub(in crate::process) fn keep_only(&mut self, snapshot: &Arc<Snapshot>) -> io::Result<()> {
        for mut app in std::mem::take(&mut self.applications) {
            if let Some(current) = snapshot.applications.get(app.config.name.as_str()) {
                app.take_resources(&current.config);
                if app.config == current.config {
                    app.config = Arc::clone(&current.config); // the same, once in memory
                }
                app.snapshots.retain(|snapshot| snapshot.strong_count() > 0);
                app.snapshots.push(Arc::downgrade(snapshot));
                app.generation = self.generation;
                self.applications.push_back(app);
            } else {
                self.leaving.push(app);
            }
        }
        // Of one that has changed or was removed, no new instance is needed.
        let kept: Vec<_> = self.applications.iter().map(|app| Arc::clone(&app.queue)).collect();
        self.discard_restarts(|app| !kept.iter().any(|queue| Arc::ptr_eq(queue, &app.queue)))
    }

    /// Lets an instance finish the requests of its workers, and ends it after `grace` at the
    /// latest.
    pub(super) fn retire(
        &mut self,
        name: String,
        queue: Arc<Queue>,
        instance: Arc<Instance>,
        grace: Duration,
    ) -> io::Result<()> {
        instance.close();
        let grace_ms = grace.as_millis() as u64;
        self.link.send(&ToSupervisor::Stop { application: instance.number, grace_ms })?;
        self.retired.add(name, queue, instance);
        Ok(())
    }
}
