//! Finds the parts of the current configuration that are out. The log, the control API and the
//! service manager take them from here.

use std::time::{Instant, SystemTime};

use howdah_config::Certificate;
use howdah_http::temporary_files;
use howdah_routing::snapshot::Snapshot;
use howdah_sys::clock;
use howdah_sys::log::Level;
use howdah_sys::plain::without_numbers;
use howdah_text::date;
use howdah_tls::{CertificateInUse, TlsListener, Untimely, UnusableCertificate, Validity};

use super::control_thread::ControlThread;
use super::out::{Differences, Extent, Found, OutPart, PartKind};
use crate::check;

impl ControlThread {
    /// Looks for the parts that are out, and logs those that are new and those that are back.
    pub(super) fn update_out_parts(&mut self) {
        let found = self.find_out_parts();
        if found.is_empty() && self.out.is_empty() {
            return;
        }
        let plain =
            |found: Found| Found { reason: without_numbers(&found.reason).into_owned(), ..found };
        let found = found.into_iter().map(plain).collect();
        let Differences { begun, ended } = self.out.update(found, SystemTime::now());
        let log = &self.shared.log;
        let snapshot = self.shared.snapshot.load();
        let is_access_log = |name: &str| snapshot.logs.values().any(|log| log.name() == name);
        for part in begun {
            let OutPart { reason, extent, .. } = &part;
            match part.kind {
                PartKind::Application
                | PartKind::Certificate
                | PartKind::Listener
                | PartKind::Log
                | PartKind::Upstream
                    if *extent == Extent::Stale =>
                {
                    log.write(Level::Alert, format_args!("{part}: {reason}"));
                }
                PartKind::Certificate if *extent == Extent::Limited => {
                    log.write(Level::Warn, format_args!("{part}: {reason}"));
                }
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
                PartKind::Log | PartKind::State | PartKind::Cache | PartKind::Temporary => {
                    let consequence = match part.kind {
                        PartKind::Log if is_access_log(&part.name) => "its lines wait until then",
                        PartKind::Log => "its lines are lost until then",
                        PartKind::State => "changes cannot be stored until then",
                        PartKind::Cache => "responses are kept in memory only until then",
                        _ => "requests and responses that do not fit in memory fail until then",
                    };
                    log.write(Level::Alert, format_args!("{part} is out: {reason}; {consequence}"));
                }
                PartKind::Include => log.write(
                    Level::Alert,
                    format_args!(
                        "{part} is left out of the configuration: {reason}; it is used as soon as \
                         it is mended"
                    ),
                ),
                PartKind::Site => log.write(
                    Level::Alert,
                    format_args!("{part} cannot be used: {reason}, until it is mended"),
                ),
                // Their own messages have been logged.
                PartKind::Application | PartKind::Table => {}
            }
        }
        // The slow log has the requests of a busy application.
        for (part, time) in ended.iter().filter(|(part, _)| part.extent != Extent::Busy) {
            let seconds = time.as_secs();
            let is_there = match part.kind {
                PartKind::Application => snapshot.applications.contains_key(&part.name),
                PartKind::Listener => snapshot.listeners.contains_key(&part.name),
                _ => true,
            };
            if is_there {
                log.write(Level::Notice, format_args!("{part} works again, after {seconds} s"))
            } else {
                log.write(Level::Notice, format_args!("{part} is no longer in the configuration"))
            }
        }
    }

    fn find_out_parts(&self) -> Vec<Found> {
        let snapshot = self.shared.snapshot.load();
        let mut found = self.pools.out_parts();
        let closed = self.closed.reasons();
        found.extend(closed.map(|(address, reason)| {
            let own = format!("{address}: ");
            let reason = reason.strip_prefix(&own).unwrap_or(reason);
            Found::out(PartKind::Listener, address, reason)
        }));
        for (name, listener) in &snapshot.listeners {
            let Some(tls) = &listener.tls else { continue };
            let problem = tls.closed_because();
            found.extend(problem.map(|why| Found::out(PartKind::Listener, name, why)));
            let first = found.len();
            certificates(tls, clock::wall_seconds(), &mut found);
            let settings = snapshot.config.listeners.iter().find(|one| one.name == *name);
            let settings = settings.and_then(|listener| Some((listener, listener.tls.as_ref()?)));
            let Some((listener, settings)) = settings else { continue };
            for part in found.iter_mut().skip(first) {
                // Those of the control API and of authorities are no mistake of a site.
                let of_part = |one: &&Certificate| match one {
                    Certificate::Files { chain, .. } => chain.to_string_lossy() == *part.name,
                    Certificate::Stored(_) | Certificate::Managed(_) => false,
                };
                let Some(one) = settings.certificates.iter().find(of_part) else { continue };
                let place = format!("{}{}", check::place(listener), check::part(settings, one));
                self.place_in_site(part, &place);
            }
        }
        found.extend(self.stale_tls.iter().filter(|found| is_current(found, &snapshot)).cloned());
        for (place, settings) in snapshot.config.upstream_tls() {
            let client = snapshot.tls_clients.get(&settings);
            let problem = client.and_then(|client| client.problem());
            found.extend(problem.map(|why| Found::out(PartKind::Upstream, place, why)));
        }
        found.extend(snapshot.config.left_out.iter().map(|out| {
            let consequence = match (&out.site, out.is_former) {
                (Some(_), true) => "its last good version stays in use",
                (Some(_), false) => "its hosts get 503",
                (None, true) => "its former content stays in use",
                (None, false) => "requests for a name that only it defines are answered with 503",
            };
            let file = out.file.display().to_string();
            // The part has the name already.
            let reason = out.reason.replacen(&format!("{file}: "), "", 1);
            let reason = format!("{reason}; {consequence}");
            let extent = if out.is_former { Extent::Stale } else { Extent::Out };
            match &out.site {
                Some(site) => {
                    Found { extent, file: Some(file), ..Found::out(PartKind::Site, site, reason) }
                }
                None => Found { extent, ..Found::out(PartKind::Include, file, reason) },
            }
        }));
        let names = self.names.without_address().into_iter();
        found.extend(names.map(|name| {
            let why = "its name has no address; see to the DNS, or correct the name";
            Found::out(PartKind::Upstream, name, why)
        }));
        for log in snapshot.logs.values() {
            let former = || Some(former_log(log.name(), &log.former_because()?));
            let out = log.problem().map(|why| Found::out(PartKind::Log, log.name(), why));
            let Some(mut part) = out.or_else(former) else { continue };
            let logs = snapshot.config.access_logs().into_iter();
            let mut places = logs.filter(|(_, log)| log.destination.to_string() == part.name);
            if let Some((place, _)) = places.next() {
                self.place_in_site(&mut part, &place);
            }
            found.push(part);
        }
        let log = &self.shared.log;
        found.extend(log.problem().map(|why| Found::out(PartKind::Log, log.name(), why)));
        found.extend(self.pools.traces.problems(&snapshot.config));
        found.extend(self.site_logs.problems());
        found.extend(self.problems_of_supervisor.iter().cloned());
        let own = &snapshot.config.settings.http.body_temp_path;
        if let Some((directory, why)) = temporary_files::problem()
            && directory == own.as_deref().unwrap_or(&self.shared.tmp)
        {
            // The look may take as long as the disk.
            drop(tokio::task::spawn_blocking(temporary_files::look));
            found.push(Found::out(PartKind::Temporary, directory.display().to_string(), why));
        }
        for (path, problem) in &self.unread {
            let mut databases = snapshot.config.geo_databases.iter();
            if databases.any(|(_, database)| database.file == *path && database.stamp().is_none()) {
                found.push(Found::out(PartKind::Table, path.display().to_string(), problem));
            }
        }
        for store in snapshot.caches.values() {
            let (Some(disk), Some(path)) = (store.disk(), store.config().file()) else { continue };
            found.extend(
                disk.problem(Instant::now())
                    .map(|why| Found::out(PartKind::Cache, path.display().to_string(), why)),
            );
        }
        found
    }

    /// Puts the file and the key of a site in front of the reason why a part of it is out.
    fn place_in_site(&self, part: &mut Found, place: &str) {
        if let Some(reason) = self.pools.places.explain(place, &part.reason) {
            part.reason = reason;
        }
    }
}

/// Returns a log whose former file stays in use after log rotation.
pub(super) fn former_log(name: &str, error: &str) -> Found {
    let reason = format!("it cannot be opened again, so its former file stays in use: {error}");
    Found { extent: Extent::Stale, ..Found::out(PartKind::Log, name, reason) }
}

/// Adds the certificates of a listener that cannot be used, have expired or will soon. `now` is in
/// seconds since 1970.
fn certificates(tls: &TlsListener, now: u64, found: &mut Vec<Found>) {
    let in_use = tls.in_use();
    for unusable in tls.unusable() {
        let UnusableCertificate { problem, has_earlier, .. } = &unusable;
        let part = Found::out(PartKind::Certificate, unusable.name(), problem);
        let earlier = in_use.iter().find(|one| *has_earlier && one.name == part.name);
        found.push(match earlier.map(|one| one.validity) {
            None => part,
            Some(validity) => {
                let stays = match validity.problem(now) {
                    Some(Untimely::Expired) => "the old one stays in use, but it has expired on",
                    _ => "the old one stays in use, which expires on",
                };
                let reason = format!("{problem}; {stays} {}", date::http(validity.until));
                Found { extent: Extent::Stale, reason, ..part }
            }
        });
    }
    for CertificateInUse { name, validity, is_managed, .. } in in_use {
        let Validity { since, until } = validity;
        let (extent, reason) = match validity.problem(now) {
            Some(Untimely::Expired) => {
                let reason = format!(
                    "it has expired on {}, and clients refuse it; renew it, and see to the clock",
                    date::http(until)
                );
                (Extent::Stale, reason)
            }
            Some(Untimely::NotYet) => {
                let date = date::http(since);
                (Extent::Stale, format!("it is not valid before {date}; see to the clock"))
            }
            // The server renews it itself, and shows its attempts.
            Some(Untimely::Soon) if is_managed => continue,
            Some(Untimely::Soon) => {
                (Extent::Limited, format!("it expires on {}; renew it", date::http(until)))
            }
            None => continue,
        };
        let certificate = Found::out(PartKind::Certificate, name, reason);
        found.push(Found { extent, ..certificate });
    }
}

/// Returns true if the part of a former finding is in the configuration.
fn is_current(found: &Found, snapshot: &Snapshot) -> bool {
    match found.kind {
        PartKind::Listener => {
            snapshot.listeners.get(&found.name).is_some_and(|one| one.tls.is_some())
        }
        _ => snapshot.config.upstream_tls().iter().any(|(place, _)| *place == found.name),
    }
}
