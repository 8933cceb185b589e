//! `--watch`: pages are reloaded in the browser when files of the site change.
//!
//! 1. [`add`] lets the document add a script to pages, and pass two paths of this machine's browsers
//!    on to a process of their own.
//! 2. That process watches the files ([`Reload::start`]), with the rights of the user of the site.
//!    It ends with the server.
//! 3. [`stream`] tells the script of changes.

mod stream;

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use howdah_code_watch::{Filter, Watch};
use howdah_sys::credentials::Credentials;
use howdah_sys::process::{self, Forked};
use howdah_sys::{plain::Plain, title};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use serde_json::{Value, json};

use crate::cli::Serve;
use stream::Changes;

/// Path of the script.
const SCRIPT: &str = "/-/reload.js";

/// Path of the events.
const EVENTS: &str = "/-/reload";

/// Addresses of this machine's browsers.
pub const LOOPBACK: [&str; 2] = ["127.0.0.0/8", "::1"];

/// Files that browsers get, and code: what else changes is data of the site, such as a database that
/// each request writes.
const FILTER: Filter = Filter {
    endings: &[
        "avif", "cjs", "css", "env", "gif", "htaccess", "htm", "html", "inc", "ini", "jpeg", "jpg",
        "js", "json", "latte", "less", "md", "mjs", "mo", "neon", "php", "phtml", "png", "scss",
        "svg", "tpl", "ts", "twig", "vue", "webp", "woff2", "xml", "yaml", "yml",
    ],
    skipped: &[
        "cache",
        "log",
        "logs",
        "node_modules",
        "runtime",
        "sessions",
        "storage",
        "temp",
        "templates_c",
        "tmp",
        "uploads",
        "var",
        "vendor",
    ],
};

/// Maximum time for which a reload waits until the application runs its new code.
const RESTART_TIMEOUT: Duration = Duration::from_secs(20);

/// Time for which a reload waits if nobody can say whether the application does.
const UNKNOWN_RESTART: Duration = Duration::from_secs(1);

/// Interval at which the application is looked at meanwhile.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Adds the script and its paths to a document, if the process listens at an address.
pub fn add(document: &mut Value, address: Option<SocketAddr>) {
    let Some(address) = address else { return };
    let Some(steps) = first_route(document) else { return };
    for step in steps.iter_mut() {
        if let Some(action) = step.get_mut("action").and_then(Value::as_object_mut)
            && !action.contains_key("return")
        {
            action.insert("page_script".to_owned(), json!(SCRIPT));
        }
    }
    let step = json!({
        "match": {"uri": [SCRIPT, EVENTS], "source": LOOPBACK},
        "action": {"proxy": format!("http://{address}"), "access_log": false},
    });
    steps.insert(0, step);
}

/// Returns the line that tells what is watched.
pub fn explain(arguments: &Serve) -> Option<String> {
    arguments.watch.then(|| "watched: a change of a file reloads pages in the browser".to_owned())
}

/// Returns the steps of the route that the listeners of a site, or of several, pass to.
pub fn first_route(document: &mut Value) -> Option<&mut Vec<Value>> {
    let listeners = document.get("listeners")?.as_object()?;
    let pass = listeners.values().next()?.get("pass")?.as_str()?;
    let name = pass.strip_prefix("routes/").map(str::to_owned);
    let routes = document.get_mut("routes")?;
    match name {
        Some(name) => routes.get_mut(name)?.as_array_mut(),
        None => routes.as_array_mut(),
    }
}

/// The process, before it runs.
pub struct Reload(TcpListener);

/// What the process needs to know.
pub struct Watched {
    /// The directories of the command line.
    pub directories: Vec<PathBuf>,
    /// Paths below which a change starts an application in worker mode again.
    pub restarting: Vec<PathBuf>,
    /// Returns the number of that application's instance, if it can be known.
    pub instance: Box<dyn Fn() -> Option<u32>>,
}

impl Reload {
    /// Opens the socket. Returns its address, too.
    pub fn bind() -> Result<(Reload, SocketAddr), String> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let bound = listener.and_then(|listener| {
            let address = listener.local_addr()?;
            Ok((Reload(listener), address))
        });
        bound.map_err(|error| format!("--watch: no port of this machine can be used: {error}"))
    }

    /// Starts the process with the rights of a user. It ends when the descriptor is closed. Must be
    /// called before the server begins to adopt orphans, and has children.
    pub fn start(self, user: Option<&Credentials>, watched: Watched) -> Result<OwnedFd, String> {
        let failed = |error: std::io::Error| format!("--watch: {error}");
        let (end, kept) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        match process::fork_detached().map_err(failed)? {
            Forked::Parent(_) => Ok(kept),
            Forked::Child => {
                drop(kept);
                // Neither the keys of the terminal nor what root may do reach it.
                let _ = rustix::process::setsid();
                if user.is_none_or(|user| user.assume().is_ok()) {
                    title::set("howdah: watch");
                    if let Err(problem) = run(self.0.into(), end, &watched) {
                        eprintln!("howdah: --watch: {}", Plain(problem));
                    }
                }
                process::exit_now(0);
            }
        }
    }
}

/// Serves browsers until the server has ended.
fn run(listener: OwnedFd, end: OwnedFd, watched: &Watched) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    let kept = process::keep_only([File::from(listener), File::from(end)]).map_err(text)?;
    let [listener, end] = kept.map(OwnedFd::from);
    let changes = Arc::<Changes>::default();
    stream::serve(TcpListener::from(listener), &changes).map_err(text)?;
    let paths: Vec<_> = watched.directories.iter().map(|path| path.display().to_string()).collect();
    let mut watch = Watch::new(&paths, &[], FILTER)?;
    let mut before = None;
    loop {
        let timeout = watch.due().map(|due| due.saturating_duration_since(Instant::now()));
        let timeout = timeout.and_then(|time| Timespec::try_from(time).ok());
        let files = watch.descriptor();
        let mut ready = [PollFd::new(&files, PollFlags::IN), PollFd::new(&end, PollFlags::IN)];
        let _ = poll(&mut ready, timeout.as_ref());
        if !ready[1].revents().is_empty() {
            return Ok(());
        }
        let (now, was_quiet) = (Instant::now(), watch.due().is_none());
        watch.receive(now);
        if was_quiet && watch.due().is_some() {
            changes.begin();
            // The application starts again only after a while without changes.
            before = (!watched.restarting.is_empty()).then(|| (watched.instance)()).flatten();
        }
        let Some(path) = watch.take_changed(now) else { continue };
        if watched.restarting.iter().any(|restarting| path.starts_with(restarting)) {
            wait_for_restart(before, watched);
        }
        changes.tell();
    }
}

/// Waits until another instance of an application in worker mode has taken the place of one.
fn wait_for_restart(before: Option<u32>, watched: &Watched) {
    let begun = Instant::now();
    while begun.elapsed() < RESTART_TIMEOUT {
        match (watched.instance)() {
            now @ Some(_) if now != before => return,
            Some(_) => std::thread::sleep(LOOK_INTERVAL),
            // It cannot be known, such as by a process without root's rights.
            None => return std::thread::sleep(UNKNOWN_RESTART),
        }
    }
}
