//! Loads PHP for an application, and reports to the supervisor if that ends the process.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use howdah_launch::known_start::{FILE_CACHE, check_directories};
use howdah_sys::{pipe, process, regular_file};
use howdah_wire::messages::{ApplicationSpec, FromPrototype, Problem};

use crate::ffi::{Php, Settings};
use crate::lock_directory::{self, LockDirectory};
use crate::settings;
use crate::start_files::{self, MAX_INI_FILE_BYTES};
use crate::start_variables;
use crate::supervisor::Supervisor;

/// The pipe of reports while PHP is being loaded.
static LOADING: Mutex<Option<OwnedFd>> = Mutex::new(None);

/// The directory of OPcache's lock file while PHP is loaded; `None` if there is none.
static LOCK_DIRECTORY: Mutex<Option<LockDirectory>> = Mutex::new(None);

/// Runs `load`. If PHP ends the process meanwhile, reports that to the supervisor.
pub fn during_loading<T>(supervisor: &Supervisor, load: impl FnOnce() -> T) -> T {
    loading_begins(supervisor);
    let loaded = load();
    loading_ends();
    loaded
}

fn loading_begins(supervisor: &Supervisor) {
    let mut loading = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
    *loading = supervisor.reports.try_clone().ok();
}

/// From now on, the end of the process is not reported as a failure of loading; the directory of
/// the lock file is removed.
pub fn loading_ends() {
    *LOADING.lock().unwrap_or_else(PoisonError::into_inner) = None;
    drop(take_lock_directory());
}

/// Reports that PHP ended the process. OPcache does that when it cannot start, for example without
/// memory or without the preload script; it writes the reason to standard error.
pub fn ended_by_php() {
    if let Some(reports) = LOADING.lock().ok().and_then(|mut reports| reports.take()) {
        let advice = match take_lock_directory() {
            Some(_) => "see its message in the log",
            None => lock_directory::ADVICE,
        };
        let problem = format_args!("PHP ended while it was being loaded; {advice}");
        let problem = Problem::of(problem);
        let _ = pipe::send(&reports, &FromPrototype::Failed { problem }.encode());
    }
}

/// Takes the directory of the lock file, if there is one; dropping it removes it.
fn take_lock_directory() -> Option<LockDirectory> {
    LOCK_DIRECTORY.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Loads PHP for an application. `tmp` is the server's directory for temporary files. Returns PHP
/// and notices about settings that are probably mistakes.
pub fn load(spec: &ApplicationSpec, tmp: &str) -> Result<(Php, Vec<Problem>), Problem> {
    let mut notices = Vec::new();
    let mut ini_file = spec.ini_file.as_deref();
    match ini_file.map(|file| (file, check_ini_file(file))) {
        // PHP and Unit continue without the file, and documents rely on that.
        Some((file, Err(error))) if error.kind() == ErrorKind::NotFound => {
            let notice = format_args!("there is no {file}; php.ini of the system is used");
            notices.push(Problem::at("options/file", notice));
            ini_file = None;
        }
        Some((file, Err(error))) => {
            let problem = format_args!("{file} cannot be read: {error}");
            return Err(Problem::at("options/file", problem));
        }
        _ => {}
    }
    check_worker(spec)?;
    let ini = settings::text(spec)?;
    if spec.htaccess {
        Php::define_apache_functions();
    }
    let lock_directory = make_lock_directory(tmp);
    let mut missing = BTreeSet::new();
    let check = || {
        missing = start_variables::forget();
        let checked = start_files::check_named(spec);
        if let Err(problem) = checked.and_then(|()| start_files::check_extensions(spec)) {
            refuse(problem);
        }
    };
    let php = Php::start(&ini, ini_file, Some(&lock_directory), check, ended_by_php);
    drop(take_lock_directory());
    let php = php.map_err(Problem::of)?;
    notices.extend(start_files::missing_variables(spec, &missing));
    notices.extend(apply(spec, &php));
    Ok((php, notices))
}

/// Checks that a `php.ini` can be read to its end: PHP would wait for the writer of a FIFO, and
/// read a device until no memory is left.
fn check_ini_file(path: &str) -> io::Result<()> {
    if path == "/dev/null" {
        return Ok(());
    }
    let (_, found) = regular_file::open(Path::new(path))?;
    if found.len() <= MAX_INI_FILE_BYTES {
        Ok(())
    } else {
        Err(io::Error::new(ErrorKind::FileTooLarge, "it is longer than 16 MiB"))
    }
}

/// Checks that the worker script is no FIFO and no device, on which PHP would wait without an end.
fn check_worker(spec: &ApplicationSpec) -> Result<(), Problem> {
    let worker = spec.worker.as_ref().filter(|worker| !worker.has_fallback);
    let problem = worker.and_then(|worker| start_files::not_regular(Path::new(&worker.script)));
    problem.map_or(Ok(()), |problem| Err(Problem::at("worker", problem)))
}

/// Ends this process, in which PHP starts, and reports why.
fn refuse(problem: Problem) -> ! {
    if let Some(reports) = LOADING.lock().ok().and_then(|mut reports| reports.take()) {
        let _ = pipe::send(&reports, &FromPrototype::Failed { problem }.encode());
    }
    drop(take_lock_directory());
    process::exit_now(1)
}

/// Sets the program that scripts send mail with by default. Must be called before PHP is loaded.
pub fn use_sendmail(path: &str) {
    if !path.is_empty()
        && let Ok(path) = CString::new(path)
    {
        Php::set_sendmail(&path);
    }
}

/// Begins to load PHP in a fork of a process that has begun it: returns the settings to continue
/// with. From then until [`loading_ends`], the end of the process is reported to the supervisor.
pub fn begin(
    supervisor: &Supervisor,
    spec: &ApplicationSpec,
    tmp: &str,
) -> Result<Settings, Problem> {
    check_worker(spec)?;
    start_files::check_named(spec)?;
    loading_begins(supervisor);
    let c = |text: String| CString::new(text).map_err(Problem::of);
    let ini = c(settings::text(spec)?)?;
    if spec.htaccess {
        Php::define_apache_functions();
    }
    let lock_directory = Some(c(make_lock_directory(tmp))?);
    Ok(Settings { ini, lock_directory })
}

/// Makes the directory of OPcache's lock file. Returns its path, or one with which OPcache does not
/// start.
fn make_lock_directory(tmp: &str) -> String {
    let directory = LockDirectory::make(tmp);
    let path = directory.as_ref().and_then(LockDirectory::path).map(str::to_owned);
    *LOCK_DIRECTORY.lock().unwrap_or_else(PoisonError::into_inner) = directory;
    path.unwrap_or_else(|| lock_directory::NO_DIRECTORY.to_owned())
}

/// Applies the settings that take effect once PHP is loaded. Returns notices about settings that
/// are probably mistakes.
pub fn apply(spec: &ApplicationSpec, php: &Php) -> Vec<Problem> {
    let unknown = settings::apply(spec, php).into_iter().map(|name| {
        let notice = format_args!("PHP has no setting \"{name}\"");
        Problem::at(format!("options/admin/{name}"), notice)
    });
    let mut notices: Vec<_> = unknown.collect();
    let file_cache = php.setting(FILE_CACHE).map(PathBuf::from);
    notices.extend(check_directories(&php.upload_directory(), file_cache.as_deref()));
    notices
}
