//! Scripts that were there a moment ago, on one thread. As with files a finding serves for a second
//! without a look at the disk; that something is not there is looked at each time.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a finding serves.
const FRESH: Duration = Duration::from_secs(1);
/// Findings that are kept.
const MOST: usize = 1024;

/// See the module.
#[derive(Debug, Default)]
pub struct Scripts(RefCell<HashMap<Box<OsStr>, Instant>>);

impl Scripts {
    /// Whether a script was there.
    pub fn has(&self, file: &Path, now: Instant) -> bool {
        let found = self.0.borrow().get(file.as_os_str()).copied();
        found.is_some_and(|found| now.saturating_duration_since(found) < FRESH)
    }

    /// A script is there.
    pub fn found(&self, file: &Path, now: Instant) {
        let mut found = self.0.borrow_mut();
        if found.len() >= MOST {
            found.clear();
        }
        found.insert(file.as_os_str().into(), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_serves_for_a_second() {
        let (scripts, file, now) = (Scripts::default(), Path::new("/site/a.php"), Instant::now());
        assert!(!scripts.has(file, now));
        scripts.found(file, now);
        assert!(scripts.has(file, now + FRESH / 2));
        assert!(!scripts.has(file, now + FRESH));
        assert!(!scripts.has(Path::new("/site/b.php"), now));
    }

    #[test]
    fn many_names_take_bounded_memory() {
        let (scripts, now) = (Scripts::default(), Instant::now());
        for number in 0..3 * MOST {
            scripts.found(Path::new(&format!("/site/{number}.php")), now);
            assert!(scripts.0.borrow().len() <= MOST);
        }
    }
}
