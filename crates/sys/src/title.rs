//! Title of a process in `ps`: the memory of its command line.

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};

static START: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static SPACE: AtomicUsize = AtomicUsize::new(0);

/// Stores the arguments. The C library calls this function before `main`.
extern "C" fn remember(argc: c_int, argv: *const *const c_char, _envp: *const *const c_char) {
    if argc < 1 || argv.is_null() {
        return;
    }
    // SAFETY: the C library passes `argc` pointers to strings that live as long as the process;
    // the kernel lays these strings out one behind the other, which is checked for each.
    unsafe {
        let first = (*argv).cast::<u8>();
        let mut end = first;
        for index in 0..argc as usize {
            let argument = (*argv.add(index)).cast::<u8>();
            if argument != end {
                break;
            }
            end = argument.add(libc::strlen(argument.cast()) + 1);
        }
        SPACE.store(end.offset_from(first) as usize, Relaxed);
        START.store(first.cast_mut(), Relaxed);
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static REMEMBER: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = remember;

/// Replaces the command line by `title`, truncated to the length of the command line. Only for a
/// process with one thread: `std::env::args` must not run meanwhile.
pub fn set(title: &str) {
    let (start, space) = (START.load(Relaxed), SPACE.load(Relaxed));
    if start.is_null() || space < 2 {
        return;
    }
    let bytes = &title.as_bytes()[..title.len().min(space - 1)];
    // SAFETY: `start` points to `space` writable bytes of this process's stack that hold the
    // arguments (see `remember`); at most `space - 1` bytes and zeros up to `space` are written.
    unsafe {
        std::ptr::write_bytes(start, 0, space);
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len());
    }
}
