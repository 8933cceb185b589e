//! Memory that a process uses only at its start, that its forks will write to, or that is free.

use std::ffi::c_void;
use std::fs::File;
use std::io::{BufRead, BufReader};

use rustix::mm::{Advice, madvise};
use rustix::param::page_size;

use crate::process_memory::Process;

/// Releases the unchanged memory of programs and libraries that this process has mapped. Pages that
/// are needed again come from the kernel's cache, a few at a time; pages used only at the start no
/// longer count.
///
/// No other thread may load a library meanwhile.
pub fn release_start_memory() {
    let Ok(mappings) = std::fs::read_to_string("/proc/self/smaps") else { return };
    for (start, end) in unchanged(&mappings) {
        // SAFETY: the mapping is private, of a file, and cannot be written; no page of it is a copy
        // of this process's own (relocations). So the bytes that are read there afterwards are the
        // present ones.
        let _: Result<(), _> =
            unsafe { madvise(start as *mut c_void, end - start, Advice::LinuxDontNeed) };
    }
}

/// Size in bytes from which blocks of memory are given back to the kernel as soon as they are free.
#[cfg(target_env = "gnu")]
const LARGE_BLOCK: libc::c_int = 1 << 20;

/// Lets the allocator give large blocks back to the kernel as soon as they are free. By itself it
/// keeps more and more of them, the larger the blocks are that were freed before, so that a peak of
/// memory would last for ever.
pub fn return_large_blocks() {
    // SAFETY: it sets a number of the allocator, which has a lock.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BLOCK);
    }
}

/// Releases the pages of anonymous shared memory that contain only zeros, as OPcache's empty tables
/// do. A released page reads as zeros and takes memory again once it is written to.
///
/// No other process may have the memory, and no other thread may exist.
pub fn release_zero_pages() {
    // Line by line: the whole text would take more memory than there is to release.
    let Ok(maps) = File::open("/proc/self/maps") else { return };
    let lines = BufReader::new(maps).lines().map_while(Result::ok);
    for (start, end) in lines.filter_map(|line| shared_anonymous(&line)) {
        for page in zero_pages(start, end) {
            // SAFETY: the page contains only zeros and nobody changes it meanwhile, so the bytes
            // that are read there afterwards are the present ones.
            let _: Result<(), _> =
                unsafe { madvise(page as *mut c_void, page_size(), Advice::LinuxRemove) };
        }
    }
}

/// Returns start and end of a mapping if it is anonymous shared memory that can be written. `line`
/// is one of `/proc/PID/maps`.
fn shared_anonymous(line: &str) -> Option<(usize, usize)> {
    let range = line.split_once(' ')?.0.split_once('-')?;
    let is_found = line.contains(" rw-s ") && line.ends_with(" /dev/zero (deleted)");
    let address = |text| usize::from_str_radix(text, 16).ok();
    is_found.then_some((address(range.0)?, address(range.1)?))
}

/// Returns the addresses of pages that are in memory and contain only zeros.
fn zero_pages(start: usize, end: usize) -> Vec<usize> {
    let size = page_size();
    let mut present = vec![0; (end - start).div_ceil(size)];
    // SAFETY: the kernel writes one byte for each page of the range.
    if unsafe { libc::mincore(start as *mut c_void, end - start, present.as_mut_ptr()) } != 0 {
        return Vec::new();
    }
    let own = Process(std::process::id());
    let mut content = vec![0; size];
    let pages = present.iter().enumerate().filter(|(_, state)| **state & 1 != 0);
    let pages = pages.map(|(index, _)| start + index * size);
    pages
        .filter(|page| {
            own.read(*page as u64, &mut content).is_ok() && content.iter().all(|byte| *byte == 0)
        })
        .collect()
}

/// Size of the largest gap that [`fill_heap_gaps`] fills, in bytes. Larger blocks are rare.
const LARGEST_GAP: usize = 64 * 1024;

/// Allocates the free memory between blocks of the heap, and never frees it. New blocks are then
/// put next to each other at the end of the heap, so that processes that are forked from this one
/// write to few of the pages that they have in common.
///
/// No other thread may exist.
pub fn fill_heap_gaps() {
    // SAFETY: both calls read the state of the allocator.
    let (end, info) = unsafe { (libc::sbrk(0) as usize, libc::mallinfo2()) };
    let last = end.saturating_sub(info.keepcost);
    let mut size = LARGEST_GAP;
    while size >= 16 {
        let block = Vec::<u8>::with_capacity(size);
        if (block.as_ptr() as usize) < last {
            std::mem::forget(block);
        } else {
            // There is no gap of this size.
            size -= (size / 16).next_multiple_of(16).max(16);
        }
    }
}

/// Returns memory that the allocator holds and no block uses to the system. Other threads that
/// allocate may wait for some milliseconds.
pub fn release_free_memory() {
    // SAFETY: it changes only pages that no block has a part of.
    unsafe { libc::malloc_trim(0) };
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
    fn only_memory_of_a_process_and_its_forks_is_searched_for_zeros() {
        let line =
            |access: &str, name: &str| format!("1000-3000 {access} 00000000 00:01 9  {name}");
        let zero = "/dev/zero (deleted)";
        assert_eq!(shared_anonymous(&line("rw-s", zero)), Some((0x1000, 0x3000)));
        for (access, name) in [("rw-p", zero), ("r--s", zero), ("rw-s", "/srv/file")] {
            assert_eq!(shared_anonymous(&line(access, name)), None, "{access} {name}");
        }
        assert_eq!(shared_anonymous("nonsense"), None);
    }

    #[test]
    fn zero_pages_are_found_and_released_and_others_stay() {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        let size = page_size();
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), 4 * size, access, flags) };
        let start = start.unwrap().cast::<u8>();
        // SAFETY: both bytes are in the mapping, to which nothing else refers.
        unsafe {
            start.write(0);
            start.add(2 * size + 5).write(7);
        }
        let address = start as usize;
        assert_eq!(zero_pages(address, address + 4 * size), [address]);
        release_zero_pages();
        assert_eq!(zero_pages(address, address + 4 * size), []);
        // SAFETY: as above.
        assert_eq!(unsafe { (start.read(), start.add(2 * size + 5).read()) }, (0, 7));
    }

    #[test]
    fn the_process_goes_on_as_before() {
        release_start_memory();
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        assert!(!unchanged(&smaps).is_empty(), "there was something to give back:\n{smaps}");
    }
}
