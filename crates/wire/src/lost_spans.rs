//! The number of spans that were lost since the start of the server, in memory that the supervisor
//! shares with all routers and telemetry processes. It outlives both.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;

use howdah_sys::shm::Mapping;

/// The number, to which each process adds.
#[derive(Debug, Default)]
pub struct LostSpans(Option<Mapping>);

impl LostSpans {
    /// Length of the memory in bytes.
    pub const BYTES: usize = size_of::<u64>();

    /// Maps the memory. If that fails, the number stays 0: it is only shown.
    pub fn new(memory: Option<impl AsFd>) -> LostSpans {
        LostSpans(memory.and_then(|memory| Mapping::map(memory).ok()))
    }

    /// Adds spans.
    pub fn add(&self, spans: u64) {
        if let Some(number) = self.0.as_ref().and_then(|words| words.as_ref().first()) {
            number.fetch_add(spans, Relaxed);
        }
    }

    /// Returns the number.
    pub fn get(&self) -> u64 {
        let words = self.0.as_ref().map(AsRef::as_ref).unwrap_or_default();
        words.first().map_or(0, |number| number.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use howdah_sys::shm;

    use super::*;

    #[test]
    fn all_processes_add_to_one_number() {
        let memory = shm::create("test", LostSpans::BYTES).unwrap();
        let (router, telemetry) = (LostSpans::new(Some(&memory)), LostSpans::new(Some(&memory)));
        router.add(3);
        telemetry.add(4);
        assert_eq!((router.get(), telemetry.get()), (7, 7));
        let none = LostSpans::new(None::<std::os::fd::OwnedFd>);
        none.add(1);
        assert_eq!(none.get(), 0);
    }
}
