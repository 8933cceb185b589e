//! Checks for `howdah check` that an application could run: loads PHP as the prototype does, but
//! runs no script of the site. A worker script is compiled, the preload script is only opened, and
//! PHP's messages are written to no file.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use howdah_wire::messages::{ApplicationSpec, FromPrototype, Problem, WorkerScript};

use crate::ffi::Php;
use crate::loading::{check_roots, load};
use crate::resident;
use crate::supervisor::Supervisor;
use crate::watch;

/// Settings of PHP that `howdah check` compares with the document.
const COMPARED_SETTINGS: [&str; 9] = [
    "post_max_size",
    "upload_max_filesize",
    "memory_limit",
    "session.save_handler",
    "session.save_path",
    "user_ini.filename",
    "opcache.enable",
    "opcache.memory_consumption",
    "opcache.jit_buffer_size",
];

/// Reports warnings and notes to the supervisor. Returns PHP's version; Error: the reason why the
/// application cannot run.
pub fn run(supervisor: &Supervisor, spec: &ApplicationSpec, tmp: &str) -> Result<String, Problem> {
    check_roots(&spec.roots)?;
    if let Some(script) = &spec.worker {
        check_worker_script(supervisor, script)?;
    }
    Php::skip_preload();
    let mut spec = spec.clone();
    spec.ini_admin.push(("error_log".to_owned(), String::new()));
    let (php, notices) = load(&spec, tmp)?;
    for problem in notices {
        let _ = supervisor.report(&FromPrototype::Noticed { problem, is_note: false });
    }
    let value = |name: &&str| {
        let value = php.setting(name)?;
        Some(((*name).to_owned(), value.to_string_lossy().into_owned()))
    };
    let mut values: Vec<_> = COMPARED_SETTINGS.iter().filter_map(value).collect();
    values.extend(php.preload().map(|script| ("opcache.preload".to_owned(), script)));
    let _ = supervisor.report(&FromPrototype::Settings { values });
    if let Some(script) = php.preload() {
        check_preload(Path::new(&script)).map_err(|error| {
            let key = "opcache.preload";
            let key = match [("admin", &spec.ini_admin), ("user", &spec.ini_user)]
                .into_iter()
                .find(|(_, settings)| settings.iter().any(|(name, _)| name == key))
            {
                Some((part, _)) => format!("options/{part}/{key}"),
                None => spec.ini_file.as_ref().map_or_else(String::new, |_| "options/file".into()),
            };
            Problem::at(key, format_args!("the preload script {script} cannot be read: {error}"))
        })?;
    }
    if let Some(script) = &spec.worker
        && let Err(message) = resident::check_syntax(&php, script)
    {
        match script.has_fallback {
            true => {
                let problem = Problem::at("worker", message);
                let _ = supervisor.report(&FromPrototype::Noticed { problem, is_note: false });
            }
            false => return Err(Problem::at("worker", message)),
        }
    }
    Ok(php.version())
}

/// Checks that a worker script and what it watches can be opened.
fn check_worker_script(supervisor: &Supervisor, worker: &WorkerScript) -> Result<(), Problem> {
    if let Err(error) = open_script(Path::new(&worker.script)) {
        let script = &worker.script;
        let message = format!("the worker script {script} cannot be read: {error}");
        if !worker.has_fallback {
            return Err(Problem::at("worker", message));
        }
        let message = format!("{message}; \"fallback\" runs a script for each request instead");
        let problem = Problem::at("worker", message);
        let _ = supervisor.report(&FromPrototype::Noticed { problem, is_note: false });
    }
    for path in &worker.watch {
        let path = watch::normal(Path::new(path));
        fs::metadata(&path).map_err(|error| {
            let path = path.display();
            Problem::at("worker/watch", format_args!("{path} cannot be watched: {error}"))
        })?;
    }
    Ok(())
}

/// Checks that a preload script can be opened. A relative path is not checked: PHP looks it up in
/// `include_path`.
fn check_preload(script: &Path) -> io::Result<()> {
    if script.is_absolute() { open_script(script) } else { Ok(()) }
}

fn open_script(script: &Path) -> io::Result<()> {
    // A FIFO must not block.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(script)?;
    match file.metadata()?.is_file() {
        true => Ok(()),
        false => Err(io::Error::other("it is not a file")),
    }
}
