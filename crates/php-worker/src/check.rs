//! Checks for `howdah check` that an application could run: loads PHP as the prototype does, but
//! runs no script of the site. A worker script is compiled, the preload script is only opened, and
//! PHP's messages are written to no file.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;

use howdah_wire::messages::{ApplicationSpec, FromPrototype, Problem, WorkerScript};
use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::ffi::{IniFiles, Php};
use crate::loaded_files::LoadedFiles;
use crate::loading::{FILE_CACHE, check_directories, check_roots, load};
use crate::supervisor::Supervisor;
use crate::{resident, start_files, watch};

const PRELOAD: &str = "opcache.preload";

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

/// The setting with the directory of uploaded files.
const UPLOADS: &str = "upload_tmp_dir";

/// Facts about PHP from an application with the same settings.
pub struct Known {
    /// Names and values of settings.
    pub values: Vec<(String, String)>,
    /// The files that PHP was started from; empty if they are unknown.
    pub files: Vec<String>,
}

impl Known {
    fn of(php: &Php) -> Self {
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
        Known { values, files }
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Returns true if this process would start PHP in the same way.
    fn suits(&self) -> bool {
        let can_be_read =
            |file: &String| accessat(CWD, file, Access::READ_OK, AtFlags::EACCESS).is_ok();
        !self.files.is_empty() && self.files.iter().all(can_be_read)
    }
}

/// Reports warnings and notes to the supervisor. PHP is not loaded if the same start of it is
/// `known`, unless there is a worker script to compile. Error: the reason why the application
/// cannot run.
pub fn run(
    supervisor: &Supervisor,
    spec: &ApplicationSpec,
    tmp: &str,
    known: Known,
) -> Result<(), Problem> {
    check_roots(&spec.roots)?;
    if let Some(script) = &spec.worker {
        check_worker_script(supervisor, script)?;
    }
    let (php, known, notices) = if spec.worker.is_none() && known.suits() {
        let uploads = Path::new(known.value(UPLOADS).unwrap_or_default());
        let notices = check_directories(uploads, known.value(FILE_CACHE).map(Path::new));
        (None, known, notices)
    } else {
        Php::skip_preload();
        let mut spec = spec.clone();
        spec.ini_admin.push(("error_log".to_owned(), String::new()));
        let (php, notices) = load(&spec, tmp)?;
        let known = Known::of(&php);
        (Some(php), known, notices)
    };
    for problem in notices {
        let _ = supervisor.report(&FromPrototype::Noticed { problem, is_note: false });
    }
    let preload = known.value(PRELOAD).map(str::to_owned);
    let Known { values, files } = known;
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
    if let (Some(php), Some(script)) = (&php, &spec.worker)
        && let Err(message) = resident::check_syntax(php, script)
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
    if script.is_absolute() { resident::open_script(script) } else { Ok(()) }
}
