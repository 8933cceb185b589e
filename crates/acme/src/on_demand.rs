//! Decides which host names may get a certificate on demand.
//!
//! Any client can send any name. Therefore:
//!
//! 1. A name must be a public DNS name.
//! 2. The administrator's endpoint (`on_demand.ask`) must approve the name. It gets at most
//!    [`MAX_CONCURRENT_CHECKS`] requests at a time.
//! 3. A refusal is remembered, for at most [`MAX_REFUSALS`] names.
//! 4. The log gets one refusal per [`LOG_INTERVAL`].

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::{Duration, Instant};

use howdah_config::OnDemand;
use tokio::sync::Semaphore;

use super::client::Client;

/// Maximum number of simultaneous requests to `on_demand.ask`.
const MAX_CONCURRENT_CHECKS: usize = 8;
/// Time for which a name that `on_demand.ask` does not approve stays refused.
const REFUSAL_TTL: Duration = Duration::from_secs(60);
/// Shortest time between two refusals in the log.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of remembered refusals.
const MAX_REFUSALS: usize = 10_000;

/// Approves or refuses names, and remembers refusals.
pub(super) struct OnDemandPolicy {
    check_permits: Semaphore,
    /// End of the refusal, by name.
    refusals: RefCell<HashMap<String, Instant>>,
    /// Time of the last refusal in the log.
    last_logged: Cell<Option<Instant>>,
}

impl OnDemandPolicy {
    pub fn new() -> Self {
        OnDemandPolicy {
            check_permits: Semaphore::new(MAX_CONCURRENT_CHECKS),
            refusals: RefCell::default(),
            last_logged: Cell::default(),
        }
    }

    /// Returns true if a refusal may be logged now, and starts the next interval.
    pub fn may_log(&self, now: Instant) -> bool {
        let last = self.last_logged.get();
        let is_due = last.is_none_or(|last| now.duration_since(last) >= LOG_INTERVAL);
        if is_due {
            self.last_logged.set(Some(now));
        }
        is_due
    }

    /// Returns true if the refusal of a name is still remembered.
    pub fn is_refused(&self, name: &str, now: Instant) -> bool {
        self.refusals.borrow().get(name).is_some_and(|until| *until > now)
    }

    /// Refuses a name for this long. Does nothing if too many refusals are remembered already.
    pub fn refuse(&self, name: &str, ttl: Duration, now: Instant) {
        let mut refusals = self.refusals.borrow_mut();
        if refusals.len() >= MAX_REFUSALS {
            refusals.retain(|_, until| *until > now);
        }
        if refusals.len() < MAX_REFUSALS {
            refusals.insert(name.to_owned(), now + ttl);
        }
    }

    /// Asks `on_demand.ask` whether a name may have a certificate: any status from 200 to 299
    /// approves it. Error: the reason why there is no response.
    pub async fn approves(&self, on_demand: &OnDemand, name: &str) -> Result<bool, String> {
        let Ok(_permit) = self.check_permits.try_acquire() else {
            return Err("too many requests to on_demand/ask at the same time".to_owned());
        };
        let client =
            if on_demand.ask.starts_with("https:") { Client::new(None)? } else { Client::plain()? };
        let separator = if on_demand.ask.contains('?') { '&' } else { '?' };
        let status = client.status(&format!("{}{separator}domain={name}", on_demand.ask)).await?;
        let is_approved = (200..300).contains(&status);
        if !is_approved {
            self.refuse(name, REFUSAL_TTL, Instant::now());
        }
        Ok(is_approved)
    }
}

/// Returns true for names that authorities issue certificates for: lower-case DNS names of at least
/// two labels, no addresses, no wildcards.
pub(super) fn is_public_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = name.rsplit('.').next().unwrap_or_default();
    name.len() <= 240
        && name.contains('.')
        && name.split('.').all(is_label)
        && !last.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_asked_about_what_is_no_name() {
        for name in ["a.org", "x-1.a.org", "xn--bcher-kva.example"] {
            assert!(is_public_name(name), "{name}");
        }
        let long = format!("{}.org", "a".repeat(64));
        let longer = "a.".repeat(130) + "org";
        for name in [
            "",
            ".",
            "a",
            "localhost",
            "a..b",
            ".a.b",
            "a.b.",
            "-a.b",
            "a-.b",
            "A.b",
            "a_b.c",
            "*.a.b",
            "a.b&c=d",
            "a.b/c",
            "a b.c",
            "127.0.0.1",
            "é.org",
            &long,
            &longer,
        ] {
            assert!(!is_public_name(name), "{name}");
        }
    }

    #[test]
    fn strangers_do_not_fill_the_log_with_names() {
        let (policy, now) = (OnDemandPolicy::new(), Instant::now());
        let logged = (0..600u32)
            .filter(|second| policy.may_log(now + Duration::from_secs(u64::from(*second))));
        assert_eq!(logged.count(), 10);
    }

    #[test]
    fn refusals_are_remembered_for_a_while_and_not_without_bound() {
        let (policy, now) = (OnDemandPolicy::new(), Instant::now());
        policy.refuse("a.org", REFUSAL_TTL, now);
        assert!(policy.is_refused("a.org", now) && !policy.is_refused("b.org", now));
        assert!(!policy.is_refused("a.org", now + REFUSAL_TTL));
        for index in 0..MAX_REFUSALS + 5 {
            policy.refuse(&format!("{index}.org"), REFUSAL_TTL, now);
        }
        assert_eq!(policy.refusals.borrow().len(), MAX_REFUSALS);
        policy.refuse("late.org", REFUSAL_TTL, now + 2 * REFUSAL_TTL);
        assert_eq!(policy.refusals.borrow().len(), 1);
    }
}
