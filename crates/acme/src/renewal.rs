//! The task of one certificate: sleeps until the certificate must be issued or renewed, and then
//! tries one authority after the other.
//!
//! 1. Ask the authority that issued the certificate for its renewal window (ARI, RFC 9773).
//! 2. Sleep until [`schedule`] says that renewal is due.
//! 3. Order from each authority, with each type of challenge.
//! 4. Store the certificate. The listeners take it without a reload.
//!
//! After a failure the old certificate stays in use, and the pauses between attempts grow.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use howdah_config::{Acme, AcmeChallenge, AcmeServer};
use howdah_sys::log::Level;
use howdah_text::date;
use instant_acme::CertificateIdentifier;
use tokio::sync::Notify;

use super::accounts::Accounts;
use super::certificate::IssuedCertificate;
use super::context::RenewalContext;
use super::failure::{Failure, FailureKind};
use super::order::{self, Issued};
use super::request::CertificateRequest;
use super::schedule::{self, Window};
use super::status::AcmeReport;

/// Timeout of one order, the user's DNS program included.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Interval between requests for the renewal window if no authority answers them.
const DEFAULT_CHECK_INTERVAL: Duration = Duration::from_secs(6 * 3600);
/// Longest sleep without reading the clock, which may be set meanwhile.
const MAX_SLEEP: Duration = Duration::from_secs(3600);
/// Time for which an on-demand name is refused after a failed order.
const FAILURE_BACKOFF: Duration = Duration::from_secs(600);
/// Longest time for which an authority gets no orders because of its `Retry-After`.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(7 * 86_400);

/// State of the task that outlives attempts.
pub(super) struct Renewal {
    pub context: Rc<RenewalContext>,
    pub accounts: Rc<Accounts>,
    /// Name in the certificate store.
    pub name: String,
    pub acme: Acme,
    pub domains: Vec<String>,
    /// Ends a sleep: the configuration was reloaded.
    pub wake: Rc<Notify>,
    pub is_on_demand: bool,
}

/// Renewal information of the authority (ARI).
#[derive(Default)]
struct RenewalInfo {
    window: Option<Window>,
    /// Index of the authority that issued the certificate.
    issuer: Option<usize>,
    /// Time of the next request.
    next_check: Option<SystemTime>,
}

/// End of the pause that an authority asked for (`Retry-After`), by its directory URL.
#[derive(Default)]
struct RetryAfter(HashMap<String, SystemTime>);

impl Renewal {
    /// Runs until the task is aborted. A task for an on-demand name ends if it fails without a
    /// certificate.
    pub async fn run(self) {
        let (mut failures, mut info, mut jitter) = (0u32, RenewalInfo::default(), random());
        let mut retry_after = RetryAfter::default();
        loop {
            let current = self.context.certificate(&self.name);
            let current = current.filter(|current| current.covers(&self.domains));
            let now = SystemTime::now();
            if let Some(current) = &current {
                if info.next_check.is_none_or(|next| next <= now) && failures == 0 {
                    info = self.renewal_info(current).await;
                }
                let due = schedule::renewal(&current.validity, info.window, jitter);
                if due > now {
                    self.report(Some(current), Some(due), 0, None);
                    self.sleep_until(due.min(info.next_check.unwrap_or(due))).await;
                    continue;
                }
            }
            self.report(current.as_ref(), None, failures, None);
            match self.attempt(current.as_ref(), &info, failures, &mut retry_after).await {
                Ok(()) => {
                    (failures, info, jitter) = (0, RenewalInfo::default(), random());
                    if let Some(managed) = self.context.managed.borrow_mut().get_mut(&self.name) {
                        managed.waiting.clear(); // wakes the connections
                    }
                }
                Err(problem) => {
                    failures = failures.saturating_add(1);
                    if self.is_on_demand && current.is_none() {
                        return self.give_up(&problem);
                    }
                    let now = SystemTime::now();
                    let validity = current.as_ref().map(|current| &current.validity);
                    let asked = retry_after.shortest(&self.acme.servers, now);
                    let pause = schedule::pause(failures, asked, validity, now, random());
                    self.report(current.as_ref(), Some(now + pause), failures, Some(&problem));
                    let stays = if current.is_some() { "; the old one stays in use" } else { "" };
                    let line = format!("{problem}; the next try is in {}{stays}", rounded(pause));
                    self.context.log(Level::Error, &self.name, &line);
                    self.sleep_until(now + pause).await;
                }
            }
        }
    }

    /// Refuses the on-demand name for [`FAILURE_BACKOFF`]; a later connection may ask again.
    fn give_up(&self, problem: &str) {
        self.context.log(Level::Error, &self.name, problem);
        for domain in &self.domains {
            self.context.on_demand.refuse(domain, FAILURE_BACKOFF, Instant::now());
        }
        self.context.reports.remove(&self.name);
        self.context.managed.borrow_mut().remove(&self.name);
    }

    /// Asks each authority with an account for the renewal window; only the issuer has one.
    async fn renewal_info(&self, current: &IssuedCertificate) -> RenewalInfo {
        let now = SystemTime::now();
        let next_check = Some(now + DEFAULT_CHECK_INTERVAL);
        let unknown = RenewalInfo { next_check, ..RenewalInfo::default() };
        let Ok(identifier) = CertificateIdentifier::try_from(&current.leaf) else {
            return unknown;
        };
        for (issuer, server) in self.acme.servers.iter().enumerate() {
            let session = self.accounts.existing(&self.context, &self.acme, server).await;
            let Ok(Some(session)) = session else { continue };
            let Ok((info, asked)) = session.account.renewal_info(&identifier).await else {
                continue; // not the issuer, or an authority without ARI
            };
            let window = Window {
                start: info.suggested_window.start.into(),
                end: info.suggested_window.end.into(),
            };
            let next = now + schedule::next_check(asked, &current.validity);
            return RenewalInfo {
                window: Some(window),
                issuer: Some(issuer),
                next_check: Some(next),
            };
        }
        unknown
    }

    /// Orders from one authority after the other, with one type of challenge after the other.
    async fn attempt(
        &self,
        current: Option<&IssuedCertificate>,
        info: &RenewalInfo,
        failures: u32,
        retry_after: &mut RetryAfter,
    ) -> Result<(), String> {
        if let (true, Some(on_demand), Some(_), Some(name)) =
            (self.is_on_demand, &self.acme.on_demand, current, self.domains.first())
            && !self.context.on_demand.approves(on_demand, name).await?
        {
            return Err("on_demand/ask no longer approves the name".to_owned());
        }
        let _order = self.context.gate.enter().await;
        let Ok(_permit) = self.context.order_permits.acquire().await else {
            return Err(String::new());
        };
        let mut problems = Vec::new();
        for (index, server) in self.acme.servers.iter().enumerate() {
            let host = host(&server.directory);
            if let Some(until) = retry_after.until(server, SystemTime::now()) {
                let until = date::http_of(until);
                problems.push(format!("{host}: rate limited until {until} (Retry-After)"));
                continue;
            }
            for challenge in self.challenges(failures) {
                let replaced = current.filter(|_| info.issuer == Some(index));
                let ordered = self.order(server, challenge, replaced);
                let failure = match tokio::time::timeout(ATTEMPT_TIMEOUT, ordered).await {
                    Ok(Ok(issued)) => {
                        self.store(issued, host).await;
                        return Ok(());
                    }
                    Ok(Err(failure)) => failure,
                    Err(_) => {
                        let minutes = ATTEMPT_TIMEOUT.as_secs() / 60;
                        Failure::other(format!("the order took longer than {minutes} minutes"))
                    }
                };
                problems.push(format!("{host}: {}", failure.message));
                if let Some(pause) = failure.retry_after {
                    retry_after.note(server, pause, SystemTime::now());
                }
                if failure.kind != FailureKind::Challenge || failure.retry_after.is_some() {
                    break;
                }
            }
        }
        Err(problems.join("; "))
    }

    /// Returns the types of challenges for an attempt: all of them at first, then one at a time, as
    /// authorities limit the number of failed validations.
    fn challenges(&self, failures: u32) -> Vec<AcmeChallenge> {
        // Authorities accept only DNS challenges for wildcards.
        let has_wildcard = self.domains.iter().any(|name| name.starts_with('*'));
        let fits = |one: &&AcmeChallenge| !has_wildcard || **one == AcmeChallenge::Dns;
        let mut challenges: Vec<_> = self.acme.challenges.iter().filter(fits).copied().collect();
        let mut seen = HashSet::new();
        challenges.retain(|challenge| seen.insert(format!("{challenge:?}")));
        if failures == 0 || challenges.is_empty() {
            return challenges;
        }
        vec![challenges[failures as usize % challenges.len()]]
    }

    /// Orders from one authority. Orders again if a new account or an order without `replaces` may
    /// remedy the failure.
    async fn order(
        &self,
        server: &AcmeServer,
        challenge: AcmeChallenge,
        replaced: Option<&IssuedCertificate>,
    ) -> Result<Issued, Failure> {
        let replaces =
            replaced.and_then(|replaced| CertificateIdentifier::try_from(&replaced.leaf).ok());
        let mut request = CertificateRequest {
            acme: &self.acme,
            domains: &self.domains,
            challenge,
            replaces: replaces.map(CertificateIdentifier::into_owned),
        };
        let (context, accounts, acme) = (&self.context, &self.accounts, &self.acme);
        let mut is_new_account = false;
        loop {
            let ordered = match accounts.existing_or_new(context, acme, server).await {
                Ok(session) => order::obtain(context, &session, &request).await,
                Err(failure) => Err(failure),
            };
            let Err(failure) = ordered else { return ordered };
            match failure.kind {
                FailureKind::Account if !is_new_account => {
                    is_new_account = true;
                    let line = format!("{}; a new account is created", failure.message);
                    context.log(Level::Warn, &self.name, &line);
                    accounts.discard(context, acme, server);
                }
                FailureKind::Replacement if request.replaces.is_some() => request.replaces = None,
                kind => {
                    if kind != FailureKind::Challenge {
                        accounts.reset(acme, server);
                    }
                    return Err(failure);
                }
            }
        }
    }

    /// Stores an issued certificate; the listeners get it from the store.
    async fn store(&self, issued: Issued, host: &str) {
        let until = date::http_of(issued.certificate.validity.not_after);
        self.context.store(&self.name, issued.bundle).await;
        let line = format!("issued by {host}, valid until {until}");
        self.context.log(Level::Notice, &self.name, &line);
    }

    /// Updates the report for `/status`. The report keeps the last error until an attempt succeeds.
    fn report(
        &self,
        current: Option<&IssuedCertificate>,
        next: Option<SystemTime>,
        failures: u32,
        error: Option<&str>,
    ) {
        let last_error = || self.context.reports.last_error(&self.name);
        let error = match failures {
            0 => None,
            _ => error.map(str::to_owned).or_else(last_error),
        };
        self.context.reports.put(AcmeReport {
            name: self.name.clone(),
            domains: self.domains.clone(),
            expires: current.map(|current| current.validity.not_after),
            next,
            failures,
            error,
        });
    }

    /// Sleeps until this time of the clock, or until the configuration is reloaded.
    async fn sleep_until(&self, until: SystemTime) {
        loop {
            let left = until.duration_since(SystemTime::now()).unwrap_or_default();
            if left.is_zero() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(left.min(MAX_SLEEP)) => {}
                () = self.wake.notified() => return,
            }
        }
    }
}

impl RetryAfter {
    fn note(&mut self, server: &AcmeServer, pause: Duration, now: SystemTime) {
        self.0.insert(server.directory.clone(), now + pause.min(MAX_RETRY_AFTER));
    }

    /// Returns the end of an authority's pause; `None` if it is over.
    fn until(&self, server: &AcmeServer, now: SystemTime) -> Option<SystemTime> {
        self.0.get(&server.directory).copied().filter(|until| *until > now)
    }

    /// Returns the time until the first of these authorities may be asked again; `None` if one may
    /// be now.
    fn shortest(&self, servers: &[AcmeServer], now: SystemTime) -> Option<Duration> {
        let left = |server: &AcmeServer| self.0.get(&server.directory)?.duration_since(now).ok();
        let all: Option<Vec<_>> = servers.iter().map(left).collect();
        all?.into_iter().min()
    }
}

/// Returns the host of a URL, with its port if there is one.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?']).next().unwrap_or(rest)
}

/// Formats a duration for the log in a suitable unit.
fn rounded(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

/// Returns a random number from 0 to 1.
fn random() -> f64 {
    let mut bytes = [0; 4];
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    f64::from(u32::from_be_bytes(bytes)) / f64::from(u32::MAX)
}
