//! Progress of a helper thread that may wait for a disk.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum time without progress.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// The file that a helper thread is about to open or read, and since when.
#[derive(Debug, Default, Clone)]
pub struct DiskProgress(Arc<Mutex<Option<(Instant, String)>>>);

impl DiskProgress {
    /// Says which file is opened or read next, with the place in the document that names it.
    pub fn begins(&self, place: impl Into<String>) {
        self.set(Some((Instant::now(), place.into())));
    }

    /// Says that the caller reads nothing for a while: the time does not count.
    pub fn computes(&self) {
        self.set(None);
    }

    /// Returns the file that has not been opened or read in time.
    pub fn late(&self, now: Instant) -> Option<String> {
        let progress = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, place) = progress.as_ref()?;
        (now.saturating_duration_since(*since) >= TIMEOUT).then(|| place.clone())
    }

    fn set(&self, progress: Option<(Instant, String)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = progress;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_waits_for_a_disk_is_late() {
        let (progress, now) = (DiskProgress::default(), Instant::now());
        let later = now + 2 * TIMEOUT;
        assert_eq!(progress.late(later), None);
        progress.begins("/a: b");
        assert_eq!(progress.late(now), None);
        assert_eq!(progress.late(later), Some("/a: b".to_owned()));
        progress.computes();
        assert_eq!(progress.late(later), None);
    }
}
