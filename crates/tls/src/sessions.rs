//! The session cache (`session.cache_size`, `session.timeout`).

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use howdah_config::TlsSession;
use rustls::server::StoresServerSessions;

/// Session cache of all threads. A full cache drops the oldest sessions.
pub(super) struct Sessions {
    size: usize,
    timeout: Duration,
    cache: Mutex<Cache>,
}

#[derive(Default)]
struct Cache {
    sessions: HashMap<Vec<u8>, (Instant, Vec<u8>)>,
    /// Keys by age, including those of removed sessions.
    ages: VecDeque<Vec<u8>>,
}

impl Sessions {
    pub fn new(settings: &TlsSession) -> Self {
        let (size, timeout) = (settings.cache_size, settings.timeout);
        Sessions { size, timeout, cache: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the session, unless it is older than the timeout.
    fn if_fresh(&self, (stored, value): (Instant, Vec<u8>)) -> Option<Vec<u8>> {
        (stored.elapsed() < self.timeout).then_some(value)
    }
}

/// Omits the sessions, which are secret.
impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions").field("size", &self.size).finish_non_exhaustive()
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        if self.size == 0 {
            return false;
        }
        let mut cache = self.lock();
        while cache.ages.len() >= self.size {
            let oldest = cache.ages.pop_front().unwrap_or_default();
            cache.sessions.remove(&oldest);
        }
        if cache.sessions.insert(key.clone(), (Instant::now(), value)).is_none() {
            cache.ages.push_back(key);
        }
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.if_fresh(self.lock().sessions.get(key).cloned()?)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.if_fresh(self.lock().sessions.remove(key)?)
    }

    fn can_cache(&self) -> bool {
        self.size > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions(cache_size: usize, timeout: Duration) -> Sessions {
        Sessions::new(&TlsSession { cache_size, timeout, ..TlsSession::default() })
    }

    #[test]
    fn the_oldest_sessions_go_when_there_are_too_many() {
        let sessions = sessions(2, Duration::from_secs(60));
        for key in [b"a", b"b", b"c"] {
            assert!(sessions.put(key.to_vec(), key.to_vec()));
        }
        assert_eq!(sessions.get(b"a"), None);
        assert_eq!(sessions.get(b"c").as_deref(), Some(&b"c"[..]));
        assert_eq!(sessions.take(b"b").as_deref(), Some(&b"b"[..]));
        assert_eq!(sessions.take(b"b"), None);
        for number in 0..1000u32 {
            sessions.put(number.to_be_bytes().to_vec(), Vec::new());
            sessions.take(&number.to_be_bytes());
        }
        assert!(sessions.lock().ages.len() <= 2);
    }

    #[test]
    fn a_session_that_is_too_old_is_none() {
        let sessions = sessions(2, Duration::ZERO);
        sessions.put(b"a".to_vec(), Vec::new());
        assert_eq!(sessions.get(b"a"), None);
    }

    #[test]
    fn without_a_size_nothing_is_remembered() {
        let sessions = sessions(0, Duration::from_secs(60));
        assert!(!sessions.can_cache() && !sessions.put(b"a".to_vec(), Vec::new()));
    }
}
