//! Limits the attempts to log in of each client. No I/O; the time is an argument.
//!
//! Each client has attempts of its own, so that nobody locks others out by guessing. A token has 16
//! characters at least: who has many addresses gets nowhere either.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// Number of attempts with a wrong token in a row, and the time after which there is another one.
pub(crate) const MAX_ATTEMPTS: u32 = 10;
const INTERVAL: Duration = Duration::from_secs(6);

/// Maximum number of clients that are remembered; a further one takes the place of the one whose
/// last attempt is longest ago.
const MAX_CLIENTS: usize = 1024;

/// A client: an address of version 4, or a network of 64 bits of version 6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Source(Option<IpAddr>);

impl Source {
    /// Returns the client with this address; `None` if it is unknown.
    pub(crate) fn of(address: Option<IpAddr>) -> Source {
        Source(address.map(|address| match address.to_canonical() {
            IpAddr::V6(v6) => IpAddr::from((u128::from(v6) >> 64 << 64).to_be_bytes()),
            v4 => v4,
        }))
    }
}

/// The clients that have tried to log in.
#[derive(Debug, Default)]
pub(crate) struct Attempts(HashMap<Source, Left>);

/// What a client has left.
#[derive(Debug, Clone, Copy)]
struct Left {
    attempts: u32,
    /// The time as of which it has them.
    as_of: Duration,
    last: Duration,
}

impl Attempts {
    /// Takes an attempt. Error: the client has none; the seconds until it has one.
    pub(crate) fn take(&mut self, source: Source, now: Duration) -> Result<(), u64> {
        if !self.0.contains_key(&source) && self.0.len() >= MAX_CLIENTS {
            let oldest = self.0.iter().min_by_key(|(_, left)| left.last).map(|(one, _)| *one);
            oldest.map(|oldest| self.0.remove(&oldest));
        }
        let all = Left { attempts: MAX_ATTEMPTS, as_of: now, last: now };
        let left = self.0.entry(source).or_insert(all);
        let passed = now.saturating_sub(left.as_of).as_secs() / INTERVAL.as_secs();
        let new = u32::try_from(passed).unwrap_or(u32::MAX);
        if new > 0 {
            left.attempts = left.attempts.saturating_add(new).min(MAX_ATTEMPTS);
            left.as_of = now;
        }
        left.last = now;
        if left.attempts == 0 {
            let wait = INTERVAL.saturating_sub(now.saturating_sub(left.as_of));
            return Err(wait.as_secs().max(1));
        }
        if left.attempts == MAX_ATTEMPTS {
            left.as_of = now;
        }
        left.attempts -= 1;
        Ok(())
    }

    /// Gives a client that has logged in all attempts again.
    pub(crate) fn forget(&mut self, source: Source) {
        self.0.remove(&source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(address: &str) -> Source {
        Source::of(Some(address.parse().unwrap()))
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_client_has_ten_attempts_and_then_one_in_six_seconds() {
        let (mut attempts, client) = (Attempts::default(), source("192.0.2.1"));
        for _ in 0..MAX_ATTEMPTS {
            assert_eq!(attempts.take(client, at(1)), Ok(()));
        }
        assert_eq!(attempts.take(client, at(2)), Err(5));
        assert_eq!(attempts.take(client, at(7)), Ok(()));
        assert!(attempts.take(client, at(8)).is_err());
        attempts.forget(client);
        assert_eq!(attempts.take(client, at(8)), Ok(()));
    }

    #[test]
    fn nobody_takes_the_attempts_of_others_and_a_network_is_one_client() {
        let mut attempts = Attempts::default();
        let drain = |attempts: &mut Attempts, client| {
            (0..20).filter(|_| attempts.take(client, at(1)).is_ok()).count()
        };
        assert_eq!(drain(&mut attempts, source("2001:db8::1")), 10);
        assert_eq!(drain(&mut attempts, source("2001:db8::2:3")), 0);
        assert_eq!(drain(&mut attempts, source("2001:db8:0:1::1")), 10);
        assert_eq!(drain(&mut attempts, source("192.0.2.1")), 10);
        assert_eq!(drain(&mut attempts, source("::ffff:192.0.2.1")), 0);
        assert_eq!(drain(&mut attempts, Source::of(None)), 10);
    }

    #[test]
    fn the_number_of_clients_is_bounded_and_the_one_of_long_ago_goes() {
        let mut attempts = Attempts::default();
        for number in 0..2 * MAX_CLIENTS as u32 {
            let client = Source::of(Some(IpAddr::from(number.to_be_bytes())));
            assert_eq!(attempts.take(client, at(u64::from(number))), Ok(()));
        }
        assert_eq!(attempts.0.len(), MAX_CLIENTS);
    }
}
