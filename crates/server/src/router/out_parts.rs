//! Finds the parts of the current configuration that are out. The log, the control API and the service
//! manager take them from here.

use std::time::SystemTime;

use howdah_sys::log::Level;
use howdah_sys::plain::without_numbers;

use super::control_thread::ControlThread;
use super::out::{Differences, Found, PartKind};

impl ControlThread {
    /// Looks for the parts that are out, and logs those that are new and those that are back.
    pub(super) fn update_out_parts(&mut self) {
        let found = self.find_out_parts();
        if found.is_empty() && self.out.is_empty() {
            return;
        }
        let plain =
            |(kind, name, reason): Found| (kind, name, without_numbers(&reason).into_owned());
        let found = found.into_iter().map(plain).collect();
        let Differences { begun, ended } = self.out.update(found, SystemTime::now());
        let log = &self.shared.log;
        for part in begun {
            let reason = &part.reason;
            match part.kind {
                PartKind::Listener => log.write(
                    Level::Alert,
                    format_args!(
                        "{part} is closed: {reason}; the others are served, and it is tried again"
                    ),
                ),
                PartKind::Certificate => log.write(
                    Level::Alert,
                    format_args!(
                        "{part} is out: {reason}; its names cannot be reached over TLS until then"
                    ),
                ),
                PartKind::Upstream => log.write(
                    Level::Alert,
                    format_args!("{part} is out: {reason}; requests to it fail until then"),
                ),
                PartKind::Log => log.write(
                    Level::Alert,
                    format_args!("{part} is out: {reason}; its lines wait until it can be opened"),
                ),
                PartKind::Include => log.write(
                    Level::Alert,
                    format_args!(
                        "{part} is left out of the configuration: {reason}; it is used as soon as it is mended"
                    ),
                ),
                // Their own messages have been logged.
                PartKind::Application | PartKind::Cache | PartKind::Table => {}
            }
        }
        for (part, time) in ended {
            let seconds = time.as_secs();
            log.write(Level::Notice, format_args!("{part} works again, after {seconds} s"));
        }
    }

    fn find_out_parts(&self) -> Vec<Found> {
        let snapshot = self.shared.snapshot.load();
        let mut found = self.pools.out_parts();
        let closed = self.closed.reasons();
        found.extend(closed.map(|(address, reason)| {
            let own = format!("{address}: ");
            let reason = reason.strip_prefix(&own).unwrap_or(reason);
            (PartKind::Listener, address.clone(), reason.to_owned())
        }));
        for (name, listener) in &snapshot.listeners {
            let Some(tls) = &listener.tls else { continue };
            let problem = tls.closed_because();
            found.extend(problem.map(|why| (PartKind::Listener, name.clone(), why.to_owned())));
            let unusable = tls.unusable().into_iter().filter(|unusable| !unusable.has_earlier);
            found.extend(unusable.map(|unusable| {
                (PartKind::Certificate, unusable.name(), unusable.problem.clone())
            }));
        }
        for (place, settings) in snapshot.config.upstream_tls() {
            let client = snapshot.tls_clients.get(&settings);
            let problem = client.and_then(|client| client.problem());
            found.extend(problem.map(|why| (PartKind::Upstream, place, why.to_owned())));
        }
        found.extend(snapshot.config.left_out.iter().map(|out| {
            let consequence = match out.is_former {
                true => "its former content stays in use",
                false => "what passes to a name that only it defines is answered with 503",
            };
            let reason = format!("{}; {consequence}", out.reason);
            (PartKind::Include, out.file.display().to_string(), reason)
        }));
        let names = self.names.without_address().into_iter();
        found.extend(names.map(|name| {
            let why = "its name has no address; see to the DNS, or correct the name";
            (PartKind::Upstream, name.to_owned(), why.to_owned())
        }));
        let logs = snapshot.logs.values();
        found.extend(
            logs.filter_map(|log| Some((PartKind::Log, log.name().to_owned(), log.problem()?))),
        );
        for (path, problem) in &self.unread {
            let mut databases = snapshot.config.geo_databases.iter();
            if databases.any(|(_, database)| database.file == *path && database.stamp().is_none()) {
                found.push((PartKind::Table, path.display().to_string(), problem.clone()));
            }
        }
        for store in snapshot.caches.values() {
            if let (Some(disk), Some(path)) = (store.disk(), store.config().file())
                && disk.has_problem()
                && !disk.is_open()
            {
                let why = "it cannot be opened, so the cache is in memory only; see the log";
                found.push((PartKind::Cache, path.display().to_string(), why.to_owned()));
            }
        }
        found
    }
}
