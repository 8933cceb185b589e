//! The C side, `shim/howdah.h`: the same structures and the calls into it; [`callbacks`] has those
//! that it makes.
//!
//! No bailout crosses a Rust frame: C calls Zend below a `zend_try` only, and a callback returns a
//! status before C decides to bail out.

mod callbacks;
mod params;

use std::ffi::{CStr, CString, NulError, OsStr, OsString, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::AtomicU64;

use howdah_wire::frame::{OpcacheUsage, Retirement};
use howdah_wire::profile::Order;

use self::callbacks::{CALLBACKS, Callbacks, ON_EXIT, STARTUP, Serve};
pub use self::params::Params;
use self::params::RawRequest;
use crate::exchange::Exchange;

/// Result of a request.
#[derive(Debug, Default)]
#[repr(C)]
pub struct RequestResult {
    /// `memory_get_peak_usage(true)`.
    pub peak_memory: u64,
    broken: u64,
    end: u64,
    cut: u64,
    opcache: OpcacheStatus,
}

/// As `struct howdah_opcache` in `shim/howdah.h`.
#[derive(Debug, Default)]
#[repr(C)]
struct OpcacheStatus {
    is_known: u64,
    is_enabled: u64,
    used: u64,
    free: u64,
    wasted: u64,
    scripts: u64,
    hits: u64,
    misses: u64,
    restarts: u64,
}

impl RequestResult {
    /// Returns true if PHP must not serve another request in this process.
    pub fn is_broken(&self) -> bool {
        self.broken != 0
    }

    /// Returns true if an error has ended the script before it had written the whole response.
    pub fn is_cut(&self) -> bool {
        self.cut != 0
    }

    /// Returns the state of OPcache, if it was read after this request.
    pub fn opcache(&self) -> Option<OpcacheUsage> {
        let OpcacheStatus { used, free, wasted, scripts, hits, misses, restarts, .. } =
            self.opcache;
        (self.opcache.is_known != 0).then_some(OpcacheUsage {
            is_enabled: self.opcache.is_enabled != 0,
            used,
            free,
            wasted,
            scripts,
            hits,
            misses,
            restarts,
        })
    }

    /// Returns the reason for which a worker script's process must end.
    pub fn end(&self) -> Option<Retirement> {
        retirement(self.end)
    }
}

/// Returns the reason with a number of `enum howdah_end` in `shim/howdah.h`.
fn retirement(end: u64) -> Option<Retirement> {
    Some(match end {
        0 => return None,
        1 => Retirement::Exit,
        2 => Retirement::Fatal,
        3 => Retirement::Timeout,
        4 => Retirement::Disconnected,
        5 => Retirement::Locale,
        6 => Retirement::TimeZone,
        7 => Retirement::Environment,
        8 => Retirement::Directory,
        9 => Retirement::Restart,
        10 => Retirement::Signals,
        11 => Retirement::Limits,
        12 => Retirement::Identity,
        13 => Retirement::Xml,
        14 => Retirement::TextDomain,
        15 => Retirement::Settings,
        _ => Retirement::Broken,
    })
}

/// The layout of a script's stack in the memory of a worker: an address, `current`, and offsets.
/// The members are explained in `shim/howdah.h`.
#[derive(Debug, Clone, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Layout {
    pub current: u64,
    pub call_opline: u64,
    pub call_function: u64,
    pub call_type: u64,
    pub call_arguments: u64,
    pub call_previous: u64,
    pub call_slots: u64,
    pub function_type: u64,
    pub function_name: u64,
    pub function_class: u64,
    pub function_parameters: u64,
    pub function_file: u64,
    pub function_variables: u64,
    pub function_temporaries: u64,
    pub opline_line: u64,
    pub string_length: u64,
    pub string_text: u64,
    pub class_name: u64,
    pub value_type: u64,
    pub value_size: u64,
    pub object_class: u64,
    pub reference_value: u64,
    pub call_is_top: u64,
}

#[repr(C)]
struct RawSettings {
    ini: *const c_char,
    lock_directory: *const c_char,
}

#[repr(C)]
struct RawPause {
    context: *mut c_void,
    check: extern "C" fn(*mut c_void),
    pause: Option<extern "C" fn(*mut c_void, *mut RawSettings)>,
}

/// Settings with which the start of PHP continues in a new process.
#[derive(Debug)]
pub struct Settings {
    /// Text in the syntax of `php.ini` that overrides the file.
    pub ini: CString,
    /// Directory of OPcache's lock file, unless `php.ini` or the text names one.
    pub lock_directory: Option<CString>,
}

/// Files that the settings of PHP were read from, see `shim/howdah.h`.
#[derive(Debug)]
pub struct IniFiles {
    /// `php.ini`, whether it exists or not.
    pub main: PathBuf,
    /// Directories of further files.
    pub directories: Vec<PathBuf>,
    /// The further files.
    pub scanned: Vec<PathBuf>,
}

impl IniFiles {
    /// Returns the value that a setting has in the files, or in the settings that override them;
    /// `None` if it is empty. Only for the calls of [`Php::start`] and [`Php::start_paused`].
    pub fn setting(name: &str) -> Option<String> {
        // SAFETY: `name` is valid for its length; PHP has read its settings before these calls; the
        // value is null or copied at once.
        let value = unsafe {
            let value = howdah_php_configured(name.as_ptr().cast(), name.len());
            (!value.is_null()).then(|| CStr::from_ptr(value))
        };
        value.map(|value| value.to_string_lossy().into_owned()).filter(|value| !value.is_empty())
    }

    /// Returns the files, and the directory of extensions. Only for the calls of [`Php::start`] and
    /// [`Php::start_paused`], and afterwards.
    pub fn of_this_start() -> (Self, PathBuf) {
        let text = |text: *const c_char| {
            // SAFETY: during these calls a string that is not null is valid, and nothing changes
            // it.
            (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_bytes())
        };
        let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        // SAFETY: PHP has read its settings before these calls.
        let (main, directories, scanned, extensions) = unsafe {
            (
                howdah_php_ini_file(),
                howdah_php_ini_directories(),
                howdah_php_ini_scanned(),
                howdah_php_extension_dir(),
            )
        };
        let list = |list: *const c_char, separator: u8| -> Vec<PathBuf> {
            let parts = text(list).unwrap_or_default().split(|byte| *byte == separator);
            parts.map(<[u8]>::trim_ascii).filter(|part| !part.is_empty()).map(path).collect()
        };
        let ini = IniFiles {
            main: path(text(main).unwrap_or_default()),
            directories: list(directories, b':'),
            scanned: list(scanned, b','),
        };
        (ini, path(text(extensions).unwrap_or_default()))
    }
}

const _: () = {
    assert!(size_of::<RawSettings>() == 16 && size_of::<RawPause>() == 24);
    assert!(size_of::<RequestResult>() == 104 && std::mem::offset_of!(RequestResult, broken) == 8);
    assert!(size_of::<Layout>() == 23 * 8);
};

unsafe extern "C" {
    fn howdah_php_start_checked(
        callbacks: *const Callbacks,
        ini: *const c_char,
        ini_file: *const c_char,
        lock_directory: *const c_char,
        pause: *const RawPause,
    ) -> c_int;
    fn howdah_php_configured(name: *const c_char, len: usize) -> *const c_char;
    fn howdah_php_extension_dir() -> *const c_char;
    fn howdah_php_ini_file() -> *const c_char;
    fn howdah_php_ini_directories() -> *const c_char;
    fn howdah_php_ini_scanned() -> *const c_char;
    fn howdah_php_skip_preload();
    fn howdah_php_information(is_of_modules: bool) -> c_int;
    fn howdah_php_define_apache_functions();
    fn howdah_php_preload() -> *const c_char;
    fn howdah_php_lock(name: *const c_char, len: usize) -> c_int;
    fn howdah_php_disable_functions(list: *const c_char);
    fn howdah_php_disable_classes(list: *const c_char);
    fn howdah_php_version() -> *const c_char;
    fn howdah_php_opcache() -> *const c_char;
    fn howdah_php_setting(name: *const c_char, len: usize) -> *const c_char;
    fn howdah_php_memory_limit() -> i64;
    fn howdah_php_set_sendmail(program: *const c_char);
    fn howdah_php_upload_directory() -> *const c_char;
    fn howdah_php_set_upload_directory(directory: *const c_char);
    fn howdah_php_layout(layout: *mut Layout);
    fn howdah_php_child();
    fn howdah_php_release_memory();
    fn howdah_php_handle(request: *const RawRequest, outcome: *mut RequestResult);
    fn howdah_php_profile(
        is_processor_time: c_int,
        period_us: u32,
        end_us: u64,
        ended: *const AtomicU64,
    ) -> c_int;
    fn howdah_php_end_profile();
    fn howdah_php_run_worker_script(boot: *const RawRequest, context: *mut c_void) -> u32;
    fn howdah_php_compiles(boot: *const RawRequest) -> bool;
    fn howdah_php_handle_resident(request: *const RawRequest, outcome: *mut RequestResult);
    fn howdah_php_boot_error() -> *const c_char;
}

/// The loaded PHP. There is one per process, and threads must not share it.
#[derive(Debug)]
pub struct Php(PhantomData<*const ()>);

impl Php {
    /// Loads PHP with settings that override those of `php.ini`, or of `ini_file` in its place.
    /// Calls `check` once the settings have been read, before the first extension is loaded. Error:
    /// PHP's own message. `on_exit` is called if PHP ends the process instead.
    ///
    /// # Panics
    /// When called a second time.
    pub fn start<C: FnMut()>(
        ini: &str,
        ini_file: Option<&str>,
        lock_directory: Option<&str>,
        check: C,
        on_exit: fn(),
    ) -> Result<Self, String> {
        let calls = Calls { check, pause: None::<fn() -> Settings> };
        start(ini, ini_file, lock_directory, calls, None, on_exit)
    }

    /// Loads PHP with the system's `php.ini`, or `ini_file` in its place. Before OPcache and
    /// preloading start, calls `pause`, which forks and returns in new processes only, each of
    /// which continues with the settings that it returns. `check`, error, `on_exit` and panics as
    /// for [`Php::start`].
    pub fn start_paused<C: FnMut(), P: FnOnce() -> Settings>(
        ini_file: Option<&str>,
        check: C,
        pause: P,
        on_exit: fn(),
    ) -> Result<Self, String> {
        let calls = Calls { check, pause: Some(pause) };
        start("", ini_file, None, calls, Some(pause_start::<C, P>), on_exit)
    }

    /// Prints PHP's information or the names of its modules to standard output, as PHP-FPM does.
    /// Returns false if that fails.
    pub fn print_information(self, is_of_modules: bool) -> bool {
        // SAFETY: PHP is loaded, and runs no script: `self` is consumed.
        unsafe { howdah_php_information(is_of_modules) == 0 }
    }

    /// Makes [`Php::start`] preload no script. Must be called before it.
    pub fn skip_preload() {
        // SAFETY: the function sets a variable of C, in a process that has one thread.
        unsafe { howdah_php_skip_preload() };
    }

    /// Makes [`Php::start`] define the functions of Apache. Must be called before it, or before the
    /// function `pause` of [`Php::start_paused`] returns.
    pub fn define_apache_functions() {
        // SAFETY: the function sets a variable of C, in a process that has one thread.
        unsafe { howdah_php_define_apache_functions() };
    }

    /// Sets the program that scripts send mail with, unless php.ini or the application names
    /// another. Must be called before [`Php::start`], or before the function `pause` of
    /// [`Php::start_paused`] returns.
    pub fn set_sendmail(program: &CStr) {
        // SAFETY: the string ends in a NUL and is copied, in a process that has one thread.
        unsafe { howdah_php_set_sendmail(program.as_ptr()) };
    }

    /// Returns the script that was not preloaded after [`Php::skip_preload`].
    pub fn preload(&self) -> Option<String> {
        // SAFETY: PHP is loaded; the string is null, or is never changed or freed.
        let script = unsafe {
            let script = howdah_php_preload();
            (!script.is_null()).then(|| CStr::from_ptr(script))
        };
        script.map(|script| script.to_string_lossy().into_owned()).filter(|name| !name.is_empty())
    }

    /// Returns the value of a setting; `None` if it is empty or no extension has it.
    pub fn setting(&self, name: &str) -> Option<OsString> {
        // SAFETY: PHP is loaded; `name` is valid for its length; the value is null or copied at
        // once.
        let value = unsafe {
            let value = howdah_php_setting(name.as_ptr().cast(), name.len());
            (!value.is_null()).then(|| CStr::from_ptr(value))
        };
        let value = OsStr::from_bytes(value?.to_bytes());
        (!value.is_empty()).then(|| value.to_owned())
    }

    /// Keeps scripts from changing a setting. Returns false if no extension has it.
    pub fn lock_setting(&self, name: &str) -> bool {
        // SAFETY: `name` is valid for its length; PHP is loaded, since there is a `self`.
        unsafe { howdah_php_lock(name.as_ptr().cast(), name.len()) == 0 }
    }

    /// Disables functions in addition to those that `php.ini` disables.
    pub fn disable_functions(&self, list: &str) -> Result<(), NulError> {
        let list = CString::new(list)?;
        // SAFETY: the list ends in a NUL and is only read during the call; PHP is loaded.
        unsafe { howdah_php_disable_functions(list.as_ptr()) };
        Ok(())
    }

    /// Disables classes in addition to those that `php.ini` disables.
    pub fn disable_classes(&self, list: &str) -> Result<(), NulError> {
        let list = CString::new(list)?;
        // SAFETY: the list ends in a NUL and is only read during the call; PHP is loaded.
        unsafe { howdah_php_disable_classes(list.as_ptr()) };
        Ok(())
    }

    /// Returns the full version of the loaded PHP.
    pub fn version(&self) -> String {
        // SAFETY: PHP is loaded; the string belongs to a constant that lives as long as PHP.
        unsafe { CStr::from_ptr(howdah_php_version()) }.to_string_lossy().into_owned()
    }

    /// Returns the version of OPcache; `None` if it does not run.
    pub fn opcache(&self) -> Option<String> {
        // SAFETY: PHP is loaded; the string belongs to an extension that stays loaded.
        let version = unsafe {
            let version = howdah_php_opcache();
            (!version.is_null()).then(|| CStr::from_ptr(version))
        };
        version.map(|v| v.to_string_lossy().into_owned())
    }

    /// Returns the number of bytes that a script may allocate (`memory_limit`); `None` without a
    /// limit.
    pub fn memory_limit(&self) -> Option<u64> {
        // SAFETY: PHP is loaded; the function reads a number.
        u64::try_from(unsafe { howdah_php_memory_limit() }).ok()
    }

    /// Returns PHP's directory for uploaded files.
    pub fn upload_directory(&self) -> PathBuf {
        // SAFETY: PHP is loaded; the string is copied before PHP is called again.
        let path = unsafe { CStr::from_ptr(howdah_php_upload_directory()) };
        OsStr::from_bytes(path.to_bytes()).into()
    }

    /// Sets PHP's directory for uploaded files.
    pub fn set_upload_directory(&self, directory: &CStr) {
        // SAFETY: PHP is loaded; the string ends in a NUL and is copied.
        unsafe { howdah_php_set_upload_directory(directory.as_ptr()) };
    }

    /// Returns the layout of a script's stack in the memory of a worker.
    pub fn layout(&self) -> Layout {
        let mut layout = Layout::default();
        // SAFETY: PHP is loaded; the struct is written once, and any bits are integers.
        unsafe { howdah_php_layout(&mut layout) };
        layout
    }

    /// Seeds PHP's random numbers again. Must be called in each new worker.
    pub fn after_fork(&self) {
        // SAFETY: PHP is loaded, and this process has one thread (see `sys::process::fork`).
        unsafe { howdah_php_child() };
    }

    /// Returns the memory to the kernel that PHP keeps for the next requests.
    pub fn release_memory(&self) {
        // SAFETY: PHP is loaded, this process has one thread, and no request is in progress.
        unsafe { howdah_php_release_memory() };
    }

    /// Samples the next request: [`Exchange::sample`] is called. `ended` has the end of the profile
    /// that ended last. Returns false if this process cannot start the thread that counts the time.
    pub fn profile(&self, order: Order, ended: &AtomicU64) -> bool {
        let Order { is_processor_time, period_us, end_us } = order;
        // SAFETY: PHP is loaded; the thread that this starts only sets a flag that PHP reads
        // atomically, and reads `ended` atomically: a word of the region, which a worker keeps mapped
        // to its end: the process exits without dropping it.
        unsafe { howdah_php_profile(is_processor_time.into(), period_us, end_us, ended) == 0 }
    }

    /// Ends the samples of a request.
    pub fn end_profile(&self) {
        // SAFETY: the function sets a variable of C.
        unsafe { howdah_php_end_profile() };
    }

    /// Runs one request with a body of `length` bytes.
    pub fn handle(
        &self,
        params: &Params<'_>,
        length: i64,
        exchange: &mut Exchange<'_>,
    ) -> RequestResult {
        let mut outcome = RequestResult::default();
        let request = params.raw(ptr::from_mut(exchange).cast(), length);
        // SAFETY: PHP is loaded. The request and all that it points to outlive the call: `params`
        // borrows the bytes. The callbacks get back `context`, which is derived from an exclusive
        // reference that nothing else uses until the call returns. `outcome` is written once.
        unsafe { howdah_php_handle(&request, &mut outcome) };
        outcome
    }

    /// Runs a worker script to its end. Each time that it asks for a request, calls `serve`, which
    /// waits for one and calls [`Php::handle_resident`]; if it returns false, the script must end.
    /// Returns why the script has ended if it has booted; `None` otherwise.
    pub fn run_worker_script(
        &self,
        params: &Params<'_>,
        mut serve: &mut dyn FnMut() -> bool,
    ) -> Option<Retirement> {
        let boot = params.raw(ptr::null_mut(), 0);
        let context: *mut Serve<'_> = &mut serve;
        // SAFETY: PHP is loaded. The parameters and `serve` outlive the call, and C passes
        // `context` only to the callback `serve`, which does not nest: C refuses that.
        let end = unsafe { howdah_php_run_worker_script(&boot, context.cast()) };
        retirement(end.into())
    }

    /// Compiles a worker script and does not run it. Returns false if it cannot be compiled; then
    /// [`Php::boot_error`] says why.
    pub fn compiles(&self, params: &Params<'_>) -> bool {
        let boot = params.raw(ptr::null_mut(), 0);
        // SAFETY: PHP is loaded, and the parameters outlive the call. C makes no callback with a
        // null context but `log`, which permits it, and catches PHP's jumps itself.
        unsafe { howdah_php_compiles(&boot) }
    }

    /// Handles a request with a body of `length` bytes in the running worker script; without
    /// `exchange`, its response is dropped. Only for the function that [`Php::run_worker_script`]
    /// calls.
    pub fn handle_resident(
        &self,
        params: &Params<'_>,
        length: i64,
        exchange: Option<&mut Exchange<'_>>,
    ) -> RequestResult {
        let mut outcome = RequestResult::default();
        let context = exchange.map_or(ptr::null_mut(), |exchange| ptr::from_mut(exchange).cast());
        let request = params.raw(context, length);
        // SAFETY: as in `handle`; C makes no callback with a null context but `log`, which permits
        // it. The function has a `zend_try` of its own, so nothing jumps over this frame.
        unsafe { howdah_php_handle_resident(&request, &mut outcome) };
        outcome
    }

    /// Returns the error with which a worker script ended before it asked for a request; empty if
    /// there was none.
    pub fn boot_error(&self) -> String {
        // SAFETY: the string is in a buffer that is never freed, and copied at once.
        unsafe { CStr::from_ptr(howdah_php_boot_error()) }.to_string_lossy().into_owned()
    }
}

fn start<C: FnMut(), P: FnOnce() -> Settings>(
    ini: &str,
    ini_file: Option<&str>,
    lock_directory: Option<&str>,
    mut calls: Calls<C, P>,
    pause: Option<extern "C" fn(*mut c_void, *mut RawSettings)>,
    on_exit: fn(),
) -> Result<Php, String> {
    assert!(ON_EXIT.set(on_exit).is_ok(), "PHP is loaded once");
    let nul = |what: &str| format!("the {what} must not contain a NUL character");
    let ini = CString::new(ini).map_err(|_| nul("settings"))?;
    let file = ini_file.map(CString::new).transpose().map_err(|_| nul("name of php.ini"))?;
    let file = file.as_deref().map_or(ptr::null(), CStr::as_ptr);
    let lock = lock_directory.map(CString::new).transpose();
    let lock = lock.map_err(|_| nul("directory of OPcache's lock file"))?;
    let lock = lock.as_deref().map_or(ptr::null(), CStr::as_ptr);
    let context = ptr::from_mut(&mut calls).cast::<c_void>();
    let pause = RawPause { context, check: check_start::<C, P>, pause };
    // SAFETY: the callbacks are copied; the strings end in a NUL (or are null where that is
    // allowed) and are copied; the function is called once (see above) and calls the functions of
    // `pause` one after the other, while `calls`, of the type that they expect, exists.
    started(unsafe { howdah_php_start_checked(&CALLBACKS, ini.as_ptr(), file, lock, &pause) })
}

/// Returns the loaded PHP, or its messages.
fn started(status: c_int) -> Result<Php, String> {
    if status == 0 {
        return Ok(Php(PhantomData));
    }
    let messages = STARTUP.lock().map_or_else(|e| e.into_inner().clone(), |s| s.clone());
    Err(match messages.trim() {
        "" => "PHP could not be started".to_owned(),
        messages => messages.to_owned(),
    })
}

/// The functions that a start calls.
struct Calls<C, P> {
    check: C,
    pause: Option<P>,
}

extern "C" fn check_start<C: FnMut(), P: FnOnce() -> Settings>(context: *mut c_void) {
    // SAFETY: C passes on the pointer that `start` has given it, which nothing else uses now.
    let calls = unsafe { &mut *context.cast::<Calls<C, P>>() };
    if catch_unwind(AssertUnwindSafe(|| (calls.check)())).is_err() {
        howdah_sys::process::exit_now(70);
    }
}

extern "C" fn pause_start<C: FnMut(), P: FnOnce() -> Settings>(
    context: *mut c_void,
    out: *mut RawSettings,
) {
    // SAFETY: as in `check_start`.
    let calls = unsafe { &mut *context.cast::<Calls<C, P>>() };
    let run = AssertUnwindSafe(|| calls.pause.take().map(|pause| pause()));
    let Ok(Some(settings)) = catch_unwind(run) else { howdah_sys::process::exit_now(70) };
    // Messages so far are about the start of the process that this one was forked from.
    if let Ok(mut messages) = STARTUP.lock() {
        messages.clear();
    }
    let lock_directory =
        settings.lock_directory.map_or(ptr::null(), |path| path.into_raw().cast_const());
    // SAFETY: C passes a variable of its own; the strings are never freed.
    unsafe { *out = RawSettings { ini: settings.ini.into_raw(), lock_directory } };
}
