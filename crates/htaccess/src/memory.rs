//! Memory of compiled directives: counted for each site and for all sites together, and refused
//! beyond a limit.
//!
//! The compiled form of a file may be kept by several threads, and by running requests. It
//! therefore counts until the last of them has dropped it: a [`Charge`] belongs to all
//! configurations that have anything of a file. A pattern adds to it when a subject needs another
//! variant of the pattern.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Maximum approximate memory of the directives of a site, in bytes.
pub const MAX_SITE_BYTES: usize = 96 << 20;

/// The same of all sites.
pub const MAX_TOTAL_BYTES: usize = 224 << 20;

/// Memory in bytes that each site has, even if other sites have used up the rest.
const MIN_SITE_BYTES: usize = 1 << 20;

/// Bytes of all sites.
static TOTAL: AtomicUsize = AtomicUsize::new(0);

/// Memory of the compiled directives of a site.
#[derive(Debug, Default)]
pub struct SiteMemory {
    bytes: AtomicUsize,
    refusals: AtomicU64,
}

impl SiteMemory {
    /// Returns the approximate number of bytes that are in use.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Returns how often memory was refused so far.
    pub fn refusals(&self) -> u64 {
        self.refusals.load(Relaxed)
    }

    /// Returns true if the directives of all sites use nearly all memory that they may use.
    pub fn is_total_used_up() -> bool {
        TOTAL.load(Relaxed) > MAX_TOTAL_BYTES / 4 * 3
    }

    /// Counts a text until it is dropped; `None` if the site or all sites would have too much.
    pub fn hold(self: &Arc<Self>, text: Vec<u8>) -> Option<Held> {
        let charge = Charge::new(self);
        charge.add(text.capacity()).then_some(Held { text, _charge: charge })
    }

    fn add(&self, bytes: usize) -> bool {
        let own = self.bytes.fetch_add(bytes, Relaxed) + bytes;
        let total = TOTAL.fetch_add(bytes, Relaxed) + bytes;
        if own <= MAX_SITE_BYTES && (total <= MAX_TOTAL_BYTES || own <= MIN_SITE_BYTES) {
            return true;
        }
        self.remove(bytes);
        self.refusals.fetch_add(1, Relaxed);
        false
    }

    fn remove(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Relaxed);
        TOTAL.fetch_sub(bytes, Relaxed);
    }
}

/// A text that counts as memory of a site.
#[derive(Debug)]
pub struct Held {
    text: Vec<u8>,
    _charge: Charge,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

/// Memory of the compiled form of a file.
#[derive(Debug)]
pub struct Charge {
    site: Arc<SiteMemory>,
    bytes: AtomicUsize,
}

impl Charge {
    pub(crate) fn new(site: &Arc<SiteMemory>) -> Charge {
        Charge { site: Arc::clone(site), bytes: AtomicUsize::new(0) }
    }

    /// Counts bytes. Returns false, without counting them, if the site or all sites would have too
    /// many.
    pub(crate) fn add(&self, bytes: usize) -> bool {
        let is_added = self.site.add(bytes);
        if is_added {
            self.bytes.fetch_add(bytes, Relaxed);
        }
        is_added
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.site.remove(self.bytes.load(Relaxed));
    }
}

/// Files that a configuration has something of.
#[derive(Debug, Clone, Default)]
pub struct Charges(Vec<Arc<Charge>>);

impl Charges {
    pub(crate) fn of(charge: Option<Arc<Charge>>) -> Charges {
        Charges(charge.into_iter().collect())
    }

    pub(crate) fn with(&self, others: &Charges) -> Charges {
        let mut all = self.0.clone();
        for other in &others.0 {
            if !all.iter().any(|known| Arc::ptr_eq(known, other)) {
                all.push(Arc::clone(other));
            }
        }
        Charges(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Base;
    use crate::config::DirConfig;
    use crate::engine::compile;

    fn compiled(memory: &Arc<SiteMemory>, text: &str) -> Result<Arc<DirConfig>, String> {
        let base = Base { memory: Some(Arc::clone(memory)), ..Base::default() };
        let compiled = compile(text.as_bytes(), b"f", b"/", &base, &|_| false);
        compiled.map(Arc::new).map_err(|broken| broken.message)
    }

    #[test]
    fn a_file_counts_until_nothing_has_a_part_of_it() {
        let memory = Arc::new(SiteMemory::default());
        let lines: String = (0..200)
            .map(|n| format!("<If \"%{{REQUEST_URI}} =~ /x{n}a*/\">\nHeader set X 1\n</If>\n"))
            .collect();
        let (first, second) =
            (compiled(&memory, &lines).unwrap(), compiled(&memory, "Options -Indexes\n").unwrap());
        let all = memory.bytes();
        assert!(all > 200 * 3000, "{all}");
        let merged = second.merged(&first);
        let section = first.of::<crate::modules::core::Config>().branches[0].config.clone();
        drop(first);
        drop(second);
        assert_eq!(memory.bytes(), all, "the merged configuration has both");
        drop(merged);
        assert!(memory.bytes() > 200 * 3000, "a section has the file");
        drop(section);
        assert_eq!(memory.bytes(), 0);
    }

    #[test]
    fn a_site_is_refused_more_than_its_part_until_it_has_dropped_some() {
        let memory = Arc::new(SiteMemory::default());
        let lines: String = (0..3000).map(|n| format!("SetEnvIf User-Agent x{n}a* v\n")).collect();
        let mut kept = Vec::new();
        let problem = loop {
            match compiled(&memory, &lines) {
                Ok(config) => kept.push(config),
                Err(problem) => break problem,
            }
            assert!(memory.bytes() <= MAX_SITE_BYTES && kept.len() < 100);
        };
        assert!(problem.contains("directives of the site take too much memory"), "{problem}");
        assert!(memory.refusals() > 0);
        let other = Arc::new(SiteMemory::default());
        assert!(compiled(&other, "Options -Indexes\n").is_ok());
        kept.clear();
        assert_eq!(memory.bytes(), 0);
        assert!(compiled(&memory, &lines).is_ok());
    }

    #[test]
    fn pages_count_until_they_are_sent() {
        let memory = Arc::new(SiteMemory::default());
        let pages: Vec<_> =
            (0..10).filter_map(|_| memory.hold(vec![b'x'; MAX_SITE_BYTES / 5])).collect();
        assert!((1..=5).contains(&pages.len()) && memory.bytes() <= MAX_SITE_BYTES);
        assert_eq!(pages[0].as_ref().len(), MAX_SITE_BYTES / 5);
        drop(pages);
        assert_eq!(memory.bytes(), 0);
    }

    #[test]
    fn variants_of_patterns_count_when_they_are_compiled() {
        let memory = Arc::new(SiteMemory::default());
        let charge = Arc::new(Charge::new(&memory));
        let pattern =
            crate::budget::charged(&charge, || crate::regex::Regex::new(b"xa*b", false).unwrap());
        let first = memory.bytes();
        for length in [100, 1000, 10_000] {
            assert_eq!(pattern.is_match(&vec![b'q'; length]), Ok(false));
        }
        assert!(memory.bytes() > first * 2, "{first} {}", memory.bytes());
        // Without memory for another one, the result is not known.
        assert!(charge.add(MAX_SITE_BYTES - memory.bytes()));
        assert!(pattern.is_match(&vec![b'q'; 100_000]).is_err());
        assert_eq!(pattern.is_match(b"short"), Ok(false));
    }
}
