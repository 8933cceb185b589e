//! Certificates on demand: whether a name may have one is for somebody else to say.
//!
//! Anybody can send any name. So a name must be one in DNS, whoever decides is asked about few
//! names at once, a refusal is remembered for a while, and there is a limit to the names.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::{Duration, Instant};

use howdah_config::OnDemand;
use tokio::sync::Semaphore;

use super::client::Client;

/// How many names are asked about at once.
const AT_ONCE: usize = 8;
/// How long a refusal counts.
const REFUSED: Duration = Duration::from_secs(60);
/// How often the log is told why names are turned away.
const QUIET: Duration = Duration::from_secs(60);
/// Refusals that are remembered.
const MOST_REFUSED: usize = 10_000;

/// See the module.
pub(super) struct Asking {
    places: Semaphore,
    refused: RefCell<HashMap<String, Instant>>,
    /// When the log was last told why names are turned away.
    told: Cell<Option<Instant>>,
}

impl Asking {
    pub fn new() -> Self {
        Asking {
            places: Semaphore::new(AT_ONCE),
            refused: RefCell::default(),
            told: Cell::default(),
        }
    }

    /// Whether it is time to tell the log why names are turned away: strangers send as many as
    /// they like.
    pub fn may_tell(&self, now: Instant) -> bool {
        let is_due = self.told.get().is_none_or(|told| now.duration_since(told) >= QUIET);
        if is_due {
            self.told.set(Some(now));
        }
        is_due
    }

    /// Whether a name was refused a moment ago.
    pub fn is_refused(&self, name: &str, now: Instant) -> bool {
        self.refused.borrow().get(name).is_some_and(|until| *until > now)
    }

    /// Remembers that there is no certificate for a name, for a while.
    pub fn refuse(&self, name: &str, time: Duration, now: Instant) {
        let mut refused = self.refused.borrow_mut();
        if refused.len() >= MOST_REFUSED {
            refused.retain(|_, until| *until > now);
        }
        if refused.len() < MOST_REFUSED {
            refused.insert(name.to_owned(), now + time);
        }
    }

    /// Asks whether a name may have a certificate. `Err` says why nobody knows.
    pub async fn may_have(&self, on_demand: &OnDemand, name: &str) -> Result<bool, String> {
        let Ok(_place) = self.places.try_acquire() else {
            return Err("too many names are asked for at once".to_owned());
        };
        let client = match on_demand.ask.starts_with("https:") {
            true => Client::new(None)?,
            false => Client::plain()?,
        };
        let and = if on_demand.ask.contains('?') { '&' } else { '?' };
        let status = client.status(&format!("{}{and}domain={name}", on_demand.ask)).await?;
        if !(200..300).contains(&status) {
            self.refuse(name, REFUSED, Instant::now());
        }
        Ok((200..300).contains(&status))
    }
}

/// Whether authorities give certificates for a name: one in DNS, with a dot, and no address.
pub(super) fn is_name(name: &str) -> bool {
    let fits = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = name.rsplit('.').next().unwrap_or_default();
    name.len() <= 240
        && name.contains('.')
        && name.split('.').all(fits)
        && !last.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardening_47_nobody_is_asked_about_what_is_no_name() {
        for name in ["a.org", "x-1.a.org", "xn--bcher-kva.example"] {
            assert!(is_name(name), "{name}");
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
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn hardening_47_strangers_do_not_fill_the_log_with_names() {
        let (asking, now) = (Asking::new(), Instant::now());
        let told = (0..600u32)
            .filter(|second| asking.may_tell(now + Duration::from_secs(u64::from(*second))));
        assert_eq!(told.count(), 10);
    }

    #[test]
    fn hardening_47_refusals_are_remembered_for_a_while_and_not_without_bound() {
        let (asking, now) = (Asking::new(), Instant::now());
        asking.refuse("a.org", REFUSED, now);
        assert!(asking.is_refused("a.org", now) && !asking.is_refused("b.org", now));
        assert!(!asking.is_refused("a.org", now + REFUSED));
        for index in 0..MOST_REFUSED + 5 {
            asking.refuse(&format!("{index}.org"), REFUSED, now);
        }
        assert_eq!(asking.refused.borrow().len(), MOST_REFUSED);
        asking.refuse("late.org", REFUSED, now + 2 * REFUSED);
        assert_eq!(asking.refused.borrow().len(), 1);
    }
}
