//! Releases memory that a process uses only at its start.

use std::ffi::c_void;

use rustix::mm::{Advice, madvise};

/// Releases the unchanged memory of programs and libraries that this process has mapped. Pages that
/// are needed again come from the kernel's cache, a few at a time; pages used only at the start no
/// longer count.
///
/// No other thread may load a library meanwhile.
pub fn release_start_memory() {
    let Ok(mappings) = std::fs::read_to_string("/proc/self/smaps") else { return };
    for (start, end) in unchanged(&mappings) {
        // SAFETY: the mapping is private, of a file, and cannot be written; no page of it is a copy
        // of this process's own (relocations). So what is read there afterwards is what is read
        // there now.
        let _: Result<(), _> =
            unsafe { madvise(start as *mut c_void, end - start, Advice::LinuxDontNeed) };
    }
}

/// Returns start and end of read-only mappings of files that have no changed page.
fn unchanged(smaps: &str) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    let mut candidate = false;
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(first) = words.next() else { continue };
        if let Some(key) = first.strip_suffix(':') {
            let changed = matches!(key, "Anonymous" | "Swap") && words.next() != Some("0");
            if changed && candidate {
                found.pop();
                candidate = false;
            }
            continue;
        }
        let range = first.split_once('-').and_then(|(start, end)| {
            let address = |text| usize::from_str_radix(text, 16).ok();
            Some((address(start)?, address(end)?))
        });
        let read_only = words.next().is_some_and(|access| {
            access.starts_with('r') && !access.contains('w') && access.ends_with('p')
        });
        let of_a_file = words.nth(3).is_some_and(|path| path.starts_with('/'));
        candidate = read_only && of_a_file;
        found.extend(range.filter(|_| candidate));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
1000-3000 r-xp 00001000 fe:00 77                         /usr/bin/program
Size:                  8 kB
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd ex mr mw me
3000-4000 r--p 00003000 fe:00 77                         /usr/bin/program
Anonymous:             4 kB
Swap:                  0 kB
4000-5000 r--p 00004000 fe:00 77                         /usr/bin/program
Anonymous:             0 kB
Swap:                  4 kB
5000-6000 rw-p 00005000 fe:00 77                         /usr/bin/program
Anonymous:             0 kB
Swap:                  0 kB
6000-7000 r--s 00000000 fe:00 78                         /some/cache
Anonymous:             0 kB
7000-8000 r--p 00000000 00:00 0                          [vvar]
Anonymous:             0 kB
8000-9000 r--p 00000000 00:00 0
Anonymous:             0 kB
9000-a000 r--p 00000000 fe:00 79                         /usr/lib/lib c.so (deleted)
Anonymous:             0 kB
";

    #[test]
    fn only_what_comes_back_as_it_was_is_given_back() {
        assert_eq!(unchanged(SMAPS), [(0x1000, 0x3000), (0x9000, 0xa000)]);
        assert_eq!(unchanged("nonsense\n\n-: 4\nzz-1 r--p 0 0 0 /x"), []);
    }

    #[test]
    fn the_process_goes_on_as_before() {
        release_start_memory();
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        assert!(!unchanged(&smaps).is_empty(), "there was something to give back:\n{smaps}");
    }
}
