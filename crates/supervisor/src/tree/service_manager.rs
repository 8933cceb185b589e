//! Notifications to the service manager, such as systemd: the server is ready, reloads, works,
//! stops.
//!
//! The watchdog is fed only with answers of the router, in which all of its threads have taken
//! part, and by this loop: neither can hang unnoticed. A router that hangs is replaced, with and
//! without a service manager.

use std::collections::HashSet;
use std::time::Instant;

use howdah_sys::activity::Activity;
use howdah_sys::clock;
use howdah_sys::log::Level;
use howdah_sys::plain::without_numbers;
use howdah_wire::messages::FromSupervisor;

use super::state::Tree;
use crate::options::ServerNumbers;
use crate::service_manager::{RouterNumbers, TreeNumbers, describe};

impl Tree {
    /// Reports that the server serves, for the first time or after a reload. Then asks the router
    /// at once, whose answer gives the description.
    pub(super) fn notify_ready(&mut self) {
        let is_first = !self.service_manager.is_ready();
        let status = is_first.then(|| self.describe(RouterNumbers::default(), ""));
        let status = status.as_deref().map(|status| ("STATUS", status));
        let fields: Vec<_> = [("READY", "1")].into_iter().chain(status).collect();
        self.notify(&fields);
        self.service_manager.start(Instant::now());
    }

    /// Reports that the configuration is being read again. The time shows the service manager that
    /// this is the answer to its signal and not to an earlier one.
    pub(super) fn notify_reloading(&mut self) {
        let time = clock::monotonic_us().to_string();
        let status = "reading the configuration again";
        self.notify(&[("RELOADING", "1"), ("MONOTONIC_USEC", &time), ("STATUS", status)]);
    }

    /// Reports that the server is being stopped.
    pub(super) fn notify_stopping(&mut self, is_graceful: bool) {
        let status =
            if is_graceful { "stopping when all requests are answered" } else { "stopping" };
        self.notify(&[("STOPPING", "1"), ("STATUS", status)]);
    }

    /// Reports the reason for which the server does not start.
    pub(super) fn notify_refusal(&mut self, reason: &str) {
        self.notify(&[("STATUS", &*without_numbers(reason))]);
    }

    /// Asks the router whether it works, and ends one that does not answer; another is started.
    pub(super) fn ping_router_if_due(&mut self, now: Instant) {
        let router = self.router.as_ref().map(|router| router.pid);
        if let Some(pid) = router
            && let Some(time) = self.service_manager.take_hang(now, || Activity::of(pid))
        {
            let seconds = time.as_secs();
            let reason = format!("it, or one of its threads, has not answered for {seconds} s");
            return self.kill_process(pid, "router process", &reason);
        }
        if let Some(number) = self.service_manager.next_ping(now) {
            self.look_at_unwritable();
            let refused_since = self.document_state.refused().map_or(0, |(since, _)| *since);
            self.send_to_router(&FromSupervisor::Ping { number, refused_since }, &[]);
        }
    }

    /// Handles the router's answer to a ping.
    pub(super) fn router_answered(&mut self, number: u32, router: RouterNumbers, out: &str) {
        self.service_manager.heard(number);
        // The description takes time with many applications; unexpected answers do not get it.
        if !self.service_manager.awaits(number) {
            return;
        }
        if let Some(mut on_status) = self.options.on_status.take() {
            let workers = self.numbers().workers as u64;
            let RouterNumbers { active, requests, .. } = router;
            on_status(ServerNumbers { active, requests, workers });
            self.options.on_status = Some(on_status);
        }
        let status = self.describe(router, out);
        let mut fields = self.service_manager.answered(number, status);
        // The description would replace the line about the end.
        fields.retain(|(name, _)| *name != "STATUS" || self.shutdown.is_none());
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        if !fields.is_empty() {
            self.notify(&fields);
        }
    }

    fn describe(&self, router: RouterNumbers, out: &str) -> String {
        describe(router, self.numbers(), out) + &self.document_state.describe()
    }

    fn numbers(&self) -> TreeNumbers {
        let listeners = self.sockets.addresses();
        let configured = &self.changes.current.grants.applications;
        let running: HashSet<_> = self.applications.values().map(|app| app.name.as_str()).collect();
        TreeNumbers {
            listeners: listeners.into_iter().filter(|it| !self.options.is_own_address(it)).count(),
            applications: configured.len(),
            // During a restart an application has two prototypes.
            loaded: configured.keys().filter(|name| running.contains(name.as_str())).count(),
            workers: self.applications.values().map(|app| app.worker_ends().count()).sum(),
        }
    }

    /// Sends a notification. The first failure is logged.
    pub(super) fn notify(&mut self, fields: &[(&str, &str)]) {
        let Some(notifier) = &self.service_manager.notifier else { return };
        if let Err(error) = notifier.send(fields)
            && !self.service_manager.has_failed
        {
            self.service_manager.has_failed = true;
            self.log.write(
                Level::Warn,
                format_args!(
                    "cannot notify the service manager: {error}; it may take the server for one \
                     that has not started"
                ),
            );
        }
    }
}
