//! The functions that C calls. No panic crosses into C: each of them goes through [`guard`].

use std::ffi::{CString, OsStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::ptr;
use std::slice;
use std::sync::{Mutex, OnceLock};

use howdah_sys::credentials::Credentials;
use howdah_sys::permission::{Obstacle, Wanted};

use crate::exchange::{Disconnected, Exchange, ScriptCall};
use crate::mail::{self, Caller};
use crate::start_variables;

use super::params::Text;

/// The functions that C calls, see `shim/howdah.h`.
#[repr(C)]
pub(super) struct Callbacks {
    write: extern "C" fn(*mut c_void, *const c_char, usize) -> c_int,
    flush: extern "C" fn(*mut c_void) -> c_int,
    head_begin: extern "C" fn(*mut c_void, u32, *const c_char, usize),
    head_field: extern "C" fn(*mut c_void, *const c_char, usize),
    head_end: extern "C" fn(*mut c_void, c_int) -> c_int,
    finish: extern "C" fn(*mut c_void) -> c_int,
    read: extern "C" fn(*mut c_void, *mut c_char, usize) -> usize,
    log: extern "C" fn(*mut c_void, c_int, *const c_char, usize),
    denied: extern "C" fn(*mut c_void, *const c_char, usize),
    purge: extern "C" fn(*mut c_void, c_int, *const c_char, usize),
    status: extern "C" fn(*mut c_void, *mut usize) -> *const c_char,
    exiting: extern "C" fn(),
    serve: extern "C" fn(*mut c_void) -> c_int,
    takes_mail: extern "C" fn(*const c_char, usize) -> c_int,
    mail: extern "C" fn(*mut c_void, *const RawMail) -> c_int,
    sample: extern "C" fn(*mut c_void, *const RawCall, usize, u32, c_int),
    start_variable: extern "C" fn(*const c_char, usize) -> *const c_char,
}

/// As `struct howdah_call` in `shim/howdah.h`.
#[derive(Debug)]
#[repr(C)]
pub(super) struct RawCall {
    class: Text,
    name: Text,
    file: Text,
    line: u32,
    start: u32,
}

/// As `struct howdah_mail` in `shim/howdah.h`.
#[derive(Debug)]
#[repr(C)]
pub(super) struct RawMail {
    arguments: *const c_char,
    arguments_len: usize,
    script: *const c_char,
    script_len: usize,
    line: u32,
    message: c_int,
}

const _: () = assert!(size_of::<Callbacks>() == 136 && size_of::<RawCall>() == 56);

/// The context of a worker script.
pub(super) type Serve<'a> = &'a mut dyn FnMut() -> bool;

/// PHP's messages while it is loaded. They are the error if that fails.
pub(super) static STARTUP: Mutex<String> = Mutex::new(String::new());

/// Maximum length of those messages, in bytes.
const MAX_STARTUP_BYTES: usize = 8 * 1024;

/// Function that is called if PHP ends the process while it is being loaded. Set once, as PHP can
/// be loaded only once.
pub(super) static ON_EXIT: OnceLock<fn()> = OnceLock::new();

pub(super) static CALLBACKS: Callbacks = Callbacks {
    write,
    flush,
    head_begin,
    head_field,
    head_end,
    finish,
    read,
    log,
    denied,
    purge,
    status,
    exiting,
    serve,
    takes_mail,
    mail,
    sample,
    start_variable,
};

/// Syslog severity `LOG_ERR`.
const SEVERITY_ERROR: u8 = 3;

const OK: c_int = 0;
const DISCONNECTED: c_int = 1;

fn outcome(result: Result<(), Disconnected>) -> c_int {
    if result.is_ok() { OK } else { DISCONNECTED }
}

/// Runs a callback. After a panic, which the hook has reported, the process ends: the state of the
/// request is unknown.
fn guard<T>(context: *mut c_void, callback: impl FnOnce(&mut Exchange<'_>) -> T) -> T {
    let run = AssertUnwindSafe(|| {
        // SAFETY: C passes the context of the current request, which `Php::handle` derived from an
        // exclusive reference that it holds while C runs; callbacks do not nest.
        callback(unsafe { &mut *context.cast::<Exchange<'_>>() })
    });
    catch_unwind(run).unwrap_or_else(|_| howdah_sys::process::exit_now(70))
}

/// Returns the bytes that C passes to a callback.
///
/// # Safety
/// `data` must be valid for `len` bytes while the callback runs, or `len` be 0.
unsafe fn bytes<'a>(data: *const c_char, len: usize) -> &'a [u8] {
    if data.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: passed on to the caller.
    unsafe { slice::from_raw_parts(data.cast(), len) }
}

extern "C" fn write(context: *mut c_void, data: *const c_char, len: usize) -> c_int {
    // SAFETY: PHP's output, valid while this callback runs.
    let data = unsafe { bytes(data, len) };
    guard(context, |exchange| outcome(exchange.write(data)))
}

extern "C" fn flush(context: *mut c_void) -> c_int {
    guard(context, |exchange| outcome(exchange.flush()))
}

extern "C" fn head_begin(context: *mut c_void, code: u32, reason: *const c_char, len: usize) {
    // SAFETY: part of a string of PHP's, valid while this callback runs.
    let reason = unsafe { bytes(reason, len) };
    guard(context, |exchange| exchange.head_begin(code as u16, reason));
}

extern "C" fn head_field(context: *mut c_void, line: *const c_char, len: usize) {
    // SAFETY: a header line of PHP's, valid while this callback runs.
    let line = unsafe { bytes(line, len) };
    guard(context, |exchange| exchange.head_field(line));
}

extern "C" fn head_end(context: *mut c_void, informational: c_int) -> c_int {
    guard(context, |exchange| outcome(exchange.head_end(informational != 0)))
}

extern "C" fn finish(context: *mut c_void) -> c_int {
    guard(context, |exchange| c_int::from(exchange.finish()))
}

extern "C" fn read(context: *mut c_void, buffer: *mut c_char, len: usize) -> usize {
    if buffer.is_null() || len == 0 {
        return 0;
    }
    // SAFETY: PHP's buffer of `len` bytes, perhaps not initialised, which nobody else uses while
    // this callback runs.
    let buffer = unsafe { slice::from_raw_parts_mut(buffer.cast::<MaybeUninit<u8>>(), len) };
    guard(context, |exchange| exchange.read(buffer))
}

extern "C" fn log(context: *mut c_void, severity: c_int, message: *const c_char, len: usize) {
    // SAFETY: a string of PHP's, valid while this callback runs.
    let message = unsafe { bytes(message, len) };
    write_log(context, severity.clamp(0, 7) as u8, message);
}

/// Writes a message to the log of the request; without one (a worker script that boots), to
/// standard error.
fn write_log(context: *mut c_void, severity: u8, message: &[u8]) {
    if !context.is_null() {
        return guard(context, |exchange| exchange.log(severity, message));
    }
    let text = String::from_utf8_lossy(message);
    eprintln!("{text}");
    if let Ok(mut messages) = STARTUP.lock()
        && messages.len() + text.len() < MAX_STARTUP_BYTES
    {
        messages.push_str(&text);
        messages.push('\n');
    }
}

extern "C" fn denied(context: *mut c_void, path: *const c_char, len: usize) {
    // SAFETY: the path of the script, valid while this callback runs.
    let path = Path::new(OsStr::from_bytes(unsafe { bytes(path, len) }));
    let obstacle = Obstacle::explain(path, &Credentials::current(), Wanted::Read);
    let message = format!("Access to the script denied: {obstacle}");
    write_log(context, SEVERITY_ERROR, message.as_bytes());
}

extern "C" fn purge(context: *mut c_void, flags: c_int, tags: *const c_char, len: usize) {
    // SAFETY: a string of PHP's, valid while this callback runs.
    let tags = unsafe { bytes(tags, len) };
    guard(context, |exchange| exchange.purge(flags & 1 != 0, flags & 2 != 0, tags));
}

extern "C" fn status(context: *mut c_void, len: *mut usize) -> *const c_char {
    let text = guard(context, |exchange| {
        let text = exchange.status();
        (text.as_ptr(), text.count_bytes())
    });
    // SAFETY: C passes the address of a variable of its own.
    unsafe { *len = text.1 };
    text.0
}

extern "C" fn serve(context: *mut c_void) -> c_int {
    // SAFETY: C passes the context of `Php::run_worker_script`, which holds an exclusive reference
    // to the function while C runs; calls of it do not nest.
    let serve = unsafe { &mut *context.cast::<Serve<'_>>() };
    match catch_unwind(AssertUnwindSafe(serve)) {
        Ok(goes_on) => c_int::from(goes_on),
        Err(_) => howdah_sys::process::exit_now(70),
    }
}

/// Returns 1 if this process sends the message of a command with these arguments itself.
extern "C" fn takes_mail(arguments: *const c_char, len: usize) -> c_int {
    // SAFETY: the end of a command line, valid while this callback runs.
    let arguments = unsafe { bytes(arguments, len) };
    let takes = catch_unwind(|| mail::takes(arguments));
    c_int::from(takes.unwrap_or_else(|_| howdah_sys::process::exit_now(70)))
}

/// Sends a message. Returns the exit status of `sendmail`.
extern "C" fn mail(context: *mut c_void, raw: *const RawMail) -> c_int {
    // SAFETY: C passes the address of a variable of its own, whose strings are valid, and whose
    // descriptor is open, while this callback runs.
    let (arguments, script, line, message) = unsafe {
        let RawMail { arguments, arguments_len, script, script_len, line, message } = &*raw;
        let message = BorrowedFd::borrow_raw(*message);
        (bytes(*arguments, *arguments_len), bytes(*script, *script_len), *line, message)
    };
    let sent = catch_unwind(|| mail::send(arguments, message, &Caller { script, line }));
    let sent = sent.unwrap_or_else(|_| howdah_sys::process::exit_now(70));
    match sent {
        Ok(()) => 0,
        Err((status, text)) => {
            log(context, SEVERITY_ERROR.into(), text.as_ptr().cast(), text.len());
            c_int::from(status)
        }
    }
}

extern "C" fn sample(
    context: *mut c_void,
    calls: *const RawCall,
    count: usize,
    ticks: u32,
    is_last: c_int,
) {
    // SAFETY: C passes an array of its own with `count` elements, which nothing changes while this
    // callback runs.
    let calls = unsafe { slice::from_raw_parts(calls, count) };
    let calls = calls.iter().map(|call| {
        // SAFETY: strings of functions and classes that the script is running, or parts of the
        // program; nothing frees them while this callback runs.
        let (class, name, file) = unsafe {
            let RawCall { class, name, file, .. } = call;
            (bytes(class.data, class.len), bytes(name.data, name.len), bytes(file.data, file.len))
        };
        ScriptCall { class, name, file, line: call.line, start: call.start }
    });
    guard(context, |exchange| exchange.sample(calls, ticks, is_last != 0));
}

extern "C" fn start_variable(name: *const c_char, len: usize) -> *const c_char {
    // SAFETY: C passes a text of this length.
    let name = unsafe { bytes(name, len) };
    let found = catch_unwind(AssertUnwindSafe(|| {
        let own = |name: &str| {
            let value = std::env::var_os(name)?;
            CString::new(value.into_encoded_bytes()).ok()
        };
        std::str::from_utf8(name).map_or(ptr::null(), |name| start_variables::find(name, own))
    }));
    found.unwrap_or(ptr::null())
}

extern "C" fn exiting() {
    if let Some(on_exit) = ON_EXIT.get() {
        // The process is ending anyway.
        let _ = catch_unwind(on_exit);
    }
}
