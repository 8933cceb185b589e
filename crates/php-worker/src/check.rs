//! Checks for `howdah check` that an application could run: loads PHP as the prototype does, but
//! runs no script of the site. A worker script is compiled, the preload script is only opened, and
//! PHP's messages are written to no file.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;

use howdah_launch::known_start::{FILE_CACHE, KnownStart, PRELOAD, UPLOADS, check_roots};
use howdah_wire::messages::{ApplicationSpec, FromPrototype, Problem, WorkerScript};

use crate::ffi::{IniFiles, Php};
use crate::loaded_files::LoadedFiles;
use crate::loading::load;
use crate::supervisor::Supervisor;
use crate::{resident, start_files};

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

/// Returns the facts on which a check of another application with the same settings depends.
fn known_start(php: &Php) -> KnownStart {
    let text = |value: &OsStr| value.to_string_lossy().into_owned();
    let value = |name: &&str| Some(((*name).to_owned(), text(&php.setting(name)?)));
    let mut values: Vec<_> = COMPARED_SETTINGS.iter().filter_map(value).collect();
    values.extend(php.preload().map(|script| (PRELOAD.to_owned(), script)));
    values.extend(value(&FILE_CACHE));
    values.push((UPLOADS.to_owned(), text(php.upload_directory().as_os_str())));
    let ini = IniFiles::of_this_start().0;
    let files = if start_files::contain_variables(&ini) {
        Vec::new()
    } else {
        LoadedFiles::of(&ini).paths().map(|path| text(path.as_os_str())).collect()
    };
    let is_known = !files.is_empty();
    KnownStart { values, files, is_known }
}

/// Reports warnings and notes to the supervisor. Error: the reason why the application cannot run.
pub fn run(supervisor: &Supervisor, spec: &ApplicationSpec, tmp: &str) -> Result<(), Problem> {
    check_roots(&spec.roots)?;
    if let Some(script) = &spec.worker {
        check_worker_script(supervisor, script)?;
    }
    Php::skip_preload();
    let mut started = spec.clone();
    started.ini_admin.push(("error_log".to_owned(), String::new()));
    let (php, notices) = load(&started, tmp)?;
    for problem in notices {
        let _ = supervisor.report(&FromPrototype::Noticed { problem, is_note: false });
    }
    let KnownStart { values, files, .. } = known_start(&php);
    let preload = values.iter().find(|(name, _)| name == PRELOAD).map(|(_, script)| script.clone());
    let _ = supervisor.report(&FromPrototype::Settings { values, files });
    if let Some(script) = preload {
        check_preload(Path::new(&script)).map_err(|error| {
            let key = match [("admin", &spec.ini_admin), ("user", &spec.ini_user)]
                .into_iter()
                .find(|(_, settings)| settings.iter().any(|(name, _)| name == PRELOAD))
            {
                Some((part, _)) => format!("options/{part}/{PRELOAD}"),
                None => spec.ini_file.as_ref().map_or_else(String::new, |_| "options/file".into()),
            };
            Problem::at(key, format_args!("the preload script {script} cannot be read: {error}"))
        })?;
    }
    if let Some(script) = &spec.worker
        && let Err(message) = resident::check_syntax(&php, script)
    {
        if script.has_fallback {
            let problem = Problem::at("worker", message);
            let _ = supervisor.report(&FromPrototype::Noticed { problem, is_note: false });
        } else {
            return Err(Problem::at("worker", message));
        }
    }
    Ok(())
}

/// Checks that a worker script and its watched files can be opened.
fn check_worker_script(supervisor: &Supervisor, worker: &WorkerScript) -> Result<(), Problem> {
    if let Err(error) = resident::open_script(Path::new(&worker.script)) {
        let message = resident::cannot_be_read(&worker.script, &error);
        if !worker.has_fallback {
            return Err(Problem::at("worker", message));
        }
        let message = format!("{message}; \"fallback\" runs a script for each request instead");
        let problem = Problem::at("worker", message);
        let _ = supervisor.report(&FromPrototype::Noticed { problem, is_note: false });
    }
    for path in &worker.watch {
        let path = howdah_code_watch::normal(Path::new(path));
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
    if script.is_absolute() { resident::open_script(script) } else { Ok(()) }
}
