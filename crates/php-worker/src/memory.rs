//! The limit of a worker's private memory.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// A limit of this process's private memory: resident memory without files and shared memory, such
/// as OPcache's.
#[derive(Debug, Default)]
pub struct MemoryLimit(Option<(File, u64)>);

impl MemoryLimit {
    /// Creates a limit in bytes; 0: no limit. Without `/proc` there is no limit either.
    pub fn new(bytes: u64) -> Self {
        let statm = || File::open("/proc/self/statm").ok();
        MemoryLimit((bytes != 0).then(statm).flatten().map(|statm| (statm, bytes)))
    }

    /// Returns true if the limit is exceeded. Costs one system call.
    pub fn is_exceeded(&self) -> bool {
        let Some((statm, limit)) = &self.0 else { return false };
        let mut text = [0; 128];
        let read = statm.read_at(&mut text, 0).unwrap_or(0);
        let pages = std::str::from_utf8(&text[..read]).ok().and_then(private_pages);
        pages.is_some_and(|pages| pages * rustix::param::page_size() as u64 > *limit)
    }
}

/// Parses /proc/PID/statm. Returns the number of resident pages without those of files and shared
/// memory.
fn private_pages(statm: &str) -> Option<u64> {
    let mut numbers = statm.split_ascii_whitespace().map(str::parse::<u64>);
    let (resident, shared) = (numbers.nth(1)?.ok()?, numbers.next()?.ok()?);
    resident.checked_sub(shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_pages_do_not_count() {
        assert_eq!(private_pages("60000 9000 7000 2 0 4000 0\n"), Some(2000));
        assert_eq!(private_pages("60000"), None);
        assert_eq!(private_pages("1 x 2"), None);
    }

    #[test]
    fn a_process_has_more_than_nothing_and_less_than_a_terabyte() {
        assert!(MemoryLimit::new(1).is_exceeded());
        assert!(!MemoryLimit::new(1 << 40).is_exceeded());
        assert!(!MemoryLimit::new(0).is_exceeded());
    }
}
