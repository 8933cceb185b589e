//! What the requests of each site have used. Each thread counts for itself, without locks, and hands
//! its counts over when it is asked for them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// What requests have used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// Number of requests.
    pub requests: u64,
    /// Number of responses with a status of 500 or above.
    pub errors: u64,
    /// Bytes of requests: heads and bodies.
    pub received: u64,
    /// Bytes of responses: heads and bodies.
    pub sent: u64,
    /// Run time of PHP scripts in microseconds.
    pub php_us: u64,
}

impl Used {
    /// Adds what other requests have used.
    pub fn add(&mut self, other: Used) {
        self.requests = self.requests.saturating_add(other.requests);
        self.errors = self.errors.saturating_add(other.errors);
        self.received = self.received.saturating_add(other.received);
        self.sent = self.sent.saturating_add(other.sent);
        self.php_us = self.php_us.saturating_add(other.php_us);
    }
}

/// The counts of one thread.
///
/// A site is found by the address of its name, of which a configuration has a few: comparing names
/// would take longer than counting. The name is kept, so no other one gets its address.
#[derive(Debug, Default)]
pub struct Tally {
    counts: RefCell<Counts>,
}

/// Counts by the addresses of names.
type Counts = HashMap<usize, (Arc<str>, Used), BuildHasherDefault<AddressHasher>>;

impl Tally {
    /// Counts for a site.
    pub fn add(&self, site: &Arc<str>, used: Used) {
        let address = Arc::as_ptr(site).cast::<u8>() as usize;
        let mut counts = self.counts.borrow_mut();
        counts.entry(address).or_insert_with(|| (Arc::clone(site), Used::default())).1.add(used);
    }

    /// Takes the counts, which begin anew. A site may have several.
    pub fn take(&self) -> Vec<(Arc<str>, Used)> {
        self.counts.borrow_mut().drain().map(|(_, count)| count).collect()
    }
}

/// Hashes an address, whose lowest bits are always the same.
#[derive(Debug, Default)]
pub struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_usize(usize::from(*byte)));
    }

    fn write_usize(&mut self, address: usize) {
        // The table takes the highest and the lowest bits.
        let product = (self.0 ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_taken_once() {
        let (tally, shop, blog) = (Tally::default(), Arc::from("shop"), Arc::from("blog"));
        let used = Used { requests: 1, errors: 1, received: 20, sent: 300, php_us: 0 };
        tally.add(&shop, used);
        tally.add(&blog, used);
        tally.add(&shop, Used { php_us: 5, sent: u64::MAX, ..used });
        // The same name of the next configuration.
        tally.add(&Arc::from("shop"), used);
        let mut all = HashMap::<Arc<str>, Used>::new();
        tally.take().into_iter().for_each(|(site, used)| all.entry(site).or_default().add(used));
        let shop = Used { requests: 3, errors: 3, received: 60, sent: u64::MAX, php_us: 5 };
        assert_eq!((all["shop"], all["blog"], all.len()), (shop, used, 2));
        assert!(tally.take().is_empty());
    }
}
