//! A process of a resident application: runs the worker script, which stays in memory and asks for
//! one request after the other (`frankenphp_handle_request()`).
//!
//! 1. The script boots: it runs until it asks for its first request.
//! 2. In a template, that call forks workers, in which it continues. In a worker that boots by
//!    itself, it continues at once.
//! 3. Each further call serves a request, see [`worker`](crate::worker).

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use howdah_sys::process;
use howdah_wire::frame::Retirement;
use howdah_wire::messages::WorkerScript;

use crate::application::Application;
use crate::ffi::{Params, Php};
use crate::worker::{Progress, RESIDENT_MARK, Worker};

/// Exit status of a worker whose worker script has ended without asking for a request (EX_CONFIG).
pub const BOOT_FAILED: u8 = 78;

/// Runs the worker script in a new worker, and ends the process.
pub fn run(application: &Application, worker: Worker<'_>) -> ! {
    let mut serving = Serving::new(worker);
    let script = script(application);
    let end = run_script(application, script, &mut || serving.serve());
    if !serving.has_been_called {
        let error = boot_problem(application, script);
        eprintln!("application \"{}\": {error}", application.spec.name);
        process::exit_now(i32::from(BOOT_FAILED));
    }
    serving.end(application, end)
}

/// A worker inside its worker script.
pub struct Serving<'a> {
    worker: Worker<'a>,
    progress: Progress,
    has_been_called: bool,
    has_ended: bool,
}

impl<'a> Serving<'a> {
    /// Creates the state of a worker that has not served a request.
    pub fn new(worker: Worker<'a>) -> Self {
        let progress = worker.begin();
        Serving { worker, progress, has_been_called: false, has_ended: false }
    }

    /// Serves one request. Returns false if the script must end; if it asks for a request after
    /// that, the process ends.
    pub fn serve(&mut self) -> bool {
        self.has_been_called = true;
        // A process that the script has forked between two requests, or before the first, is no
        // worker.
        if self.has_ended || process::is_forked_copy() {
            process::exit_now(0);
        }
        self.has_ended = !self.worker.serve_next(&mut self.progress);
        !self.has_ended
    }

    /// Ends the process after its script. If the script was not told to end, logs the reason: no
    /// request is at hand whose log line could have it.
    pub fn end(self, application: &Application, end: Option<Retirement>) -> ! {
        if !self.has_ended
            && let Some(reason) = end
        {
            let reason = match reason {
                Retirement::Exit => "its script has ended".to_owned(),
                reason => reason.name().to_owned(),
            };
            let name = &application.spec.name;
            eprintln!(
                "application \"{name}\": a worker is replaced between two requests: {reason}"
            );
        }
        process::exit_now(0)
    }
}

/// Returns the worker script of a resident application.
///
/// # Panics
/// If the application has none.
pub fn script(application: &Application) -> &WorkerScript {
    application.spec.worker.as_ref().expect("only resident applications run a worker script")
}

/// Runs a worker script to its end. `serve` is called each time that it asks for a request. Returns
/// why it has ended, if it has booted.
pub fn run_script(
    application: &Application,
    script: &WorkerScript,
    serve: &mut dyn FnMut() -> bool,
) -> Option<Retirement> {
    let variables = Variables::new(script, "/");
    application.php.run_worker_script(&variables.params(), serve)
}

/// Handles a request for the target `target` in the running script and drops its response. Returns
/// false if the process must not continue after it.
pub fn warm_up(application: &Application, script: &WorkerScript, target: &str) -> bool {
    let variables = Variables::new(script, target);
    let result = application.php.handle_resident(&variables.params(), 0, None);
    result.end().is_none()
}

/// Checks that a worker script can be compiled. Error: as it is reported when it runs.
pub fn check_syntax(php: &Php, script: &WorkerScript) -> Result<(), String> {
    if php.compiles(&Variables::new(script, "/").params()) {
        Ok(())
    } else {
        Err(does_not_work(&script.script, &php.boot_error()))
    }
}

fn does_not_work(path: &str, error: &str) -> String {
    format!("the worker script {path} does not work: {error}")
}

/// Returns why a worker script has ended without asking for a request.
pub fn boot_problem(application: &Application, script: &WorkerScript) -> String {
    let error = application.php.boot_error();
    let path = &script.script;
    match (error.is_empty(), open_script(Path::new(path))) {
        (false, _) => does_not_work(path, &error),
        (true, Err(error)) => cannot_be_read(path, &error),
        (true, Ok(())) => format!(
            "the worker script {path} has ended without calling frankenphp_handle_request(); its \
             output is in the log"
        ),
    }
}

/// Returns the message about a worker script that cannot be opened.
pub fn cannot_be_read(path: &str, error: &io::Error) -> String {
    format!("the worker script {path} cannot be read: {error}")
}

/// Opens a script. Error: it cannot be opened, or is no regular file.
pub fn open_script(script: &Path) -> io::Result<()> {
    // A FIFO must not block.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(script)?;
    if file.metadata()?.is_file() { Ok(()) } else { Err(io::Error::other("it is not a file")) }
}

/// The parameters of a request that no client has sent.
struct Variables(Vec<(&'static CStr, CString)>);

impl Variables {
    fn new(script: &WorkerScript, target: &str) -> Self {
        let real = |path: &str| std::fs::canonicalize(path).unwrap_or_else(|_| PathBuf::from(path));
        let (root, file) = (real(&script.root), real(&script.script));
        let name = file.strip_prefix(&root).map(|below| Path::new("/").join(below));
        let name = name.unwrap_or_else(|_| file.clone());
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let query = target.split_once('?').map_or("", |(_, query)| query);
        let variables = [
            (c"SCRIPT_FILENAME", text(&file)),
            (c"SCRIPT_NAME", text(&name)),
            (c"DOCUMENT_ROOT", text(&root)),
            (c"REQUEST_METHOD", "GET".to_owned()),
            (c"REQUEST_URI", target.to_owned()),
            (c"QUERY_STRING", query.to_owned()),
            (c"REQUEST_SCHEME", "http".to_owned()),
            (c"SERVER_PROTOCOL", "HTTP/1.1".to_owned()),
            (c"SERVER_NAME", "localhost".to_owned()),
            (c"SERVER_ADDR", "127.0.0.1".to_owned()),
            (c"SERVER_PORT", "80".to_owned()),
            (c"REMOTE_ADDR", "127.0.0.1".to_owned()),
            (c"REMOTE_PORT", "0".to_owned()),
            (c"HTTP_HOST", "localhost".to_owned()),
            (c"SERVER_SOFTWARE", concat!("Howdah/", env!("CARGO_PKG_VERSION")).to_owned()),
            (c"GATEWAY_INTERFACE", "CGI/1.1".to_owned()),
        ];
        // The document contains no NUL.
        let c = |text: String| CString::new(text).unwrap_or_default();
        Variables(variables.into_iter().map(|(name, value)| (name, c(value))).collect())
    }

    fn params(&self) -> Params<'_> {
        let mut params = Params::default();
        for (name, value) in &self.0 {
            params.push(name.to_bytes_with_nul(), value.as_bytes_with_nul());
        }
        params.push(RESIDENT_MARK.0, RESIDENT_MARK.1);
        params
    }
}
