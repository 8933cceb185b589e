//! `howdah check`.
//!
//! The document is parsed as by the server. Everything that it names is checked by the code that
//! would use it, with the rights of the user that would use it: of this command, of the server or
//! of an application. The command creates, changes and binds nothing, and runs no code of a site.

mod certificates;
mod fastcgi;
mod local_addresses;
mod own_server;
mod php_settings;
mod readable;
mod releases;
mod repeated;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, IsTerminal as _, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use howdah_advice::{Advice, advise, obstructed_listeners};
use howdah_client::{Problem as SiteProblem, Severity};
use howdah_config::include::SitePlaces;
use howdah_config::{
    Application, Config, Defaults, Destination, Htaccess, RouterPath, Symlinks, include,
};
use howdah_http::spool;
use howdah_router::check as tls;
use howdah_router::check::{CertificateSources, Stored, TlsProblem};
use howdah_router::geo_databases;
use howdah_router::process::{Protection, spec};
use howdah_supervisor::{Options, check};
use howdah_sys::credentials::{self, Credentials, run_as};
use howdah_sys::environment;
use howdah_sys::permission::{Obstacle, Wanted};
use howdah_sys::plain::Plain;
use howdah_wire::messages::Problem;
use howdah_wire::region::Geometry;
use rustix::fs::OFlags;
use serde_json::Value;

use crate::cli::{Check, CommonOptions};
use crate::config_file::{self, Disk, Document};
use crate::directories::{self, Temporary};
use crate::serve::grants;
use crate::{php_programs, server_user};
use howdah_review::{self as review, Report};

use self::local_addresses::LocalAddresses;

/// Checks a document and prints the findings. Fails if it cannot be served.
pub fn run(arguments: &Check) -> Result<(), String> {
    if let Some(directory) = arguments.file.as_ref().filter(|path| path.is_dir()) {
        return check_directory(directory, &arguments.common);
    }
    let checkers = (!arguments.syntax).then(|| checkers(&arguments.common));
    let _queries = checkers.is_some().then(php_programs::start_queries);
    let defaults = Defaults::of(arguments.unit);
    let (mut mistakes, mut notes) = (Vec::new(), Vec::new());
    let (name, text) = match &arguments.file {
        Some(path) => {
            // Files that cannot be used are left out by the server. The others are checked.
            let mut disk = Disk::of(&arguments.common)?;
            if arguments.syntax {
                disk = disk.for_another_machine();
            }
            let (usable, found) = config_file::read_checked(path, &disk, &defaults);
            let is_of_use = |document: &Document| {
                let is_valid = || howdah_config::parse_with(&document.text, &defaults).is_ok();
                found.is_empty() || !arguments.syntax && is_valid()
            };
            let Some(document) = usable.filter(is_of_use) else { return failed(found) };
            mistakes = found;
            notes = document.notes;
            (path.display().to_string(), document.text)
        }
        None => {
            if io::stdin().is_terminal() {
                eprintln!(
                    "howdah: reading the configuration from standard input; to check a file: \
                     howdah check FILE"
                );
            }
            let mut text = Vec::new();
            io::stdin().read_to_end(&mut text).map_err(|e| format!("standard input: {e}"))?;
            ("standard input".to_owned(), text)
        }
    };
    let config = howdah_advice::parse(&text, &defaults)
        .map_err(|error| include::explain(&name, &text, &error))?;
    let mut findings = Findings {
        document: name.clone(),
        included: config.included.clone(),
        places: SitePlaces::of(&config.document),
        errors: mistakes,
        notes,
        ..Findings::default()
    };
    for Advice { path, message, is_note } in advise(&config) {
        if is_note {
            findings.note(format_args!("{path}: {message}"))
        } else {
            findings.warn(format_args!("{path}: {message}"))
        }
    }
    for Advice { path, message, .. } in obstructed_listeners(&config) {
        findings.fail(format_args!("{path}: {message}"));
    }
    if let Some(checkers) = checkers {
        findings.check(&config, &arguments.common, arguments.file.as_deref(), checkers);
    }
    let joined = |lines: &mut Vec<String>| repeated::joined(std::mem::take(lines)).into_iter();
    joined(&mut findings.warnings).for_each(|line| eprintln!("howdah: warning: {}", Plain(line)));
    joined(&mut findings.notes).for_each(|line| eprintln!("howdah: note: {}", Plain(line)));
    if !findings.errors.is_empty() {
        return failed(repeated::joined(findings.errors));
    }
    println!("{name}: the configuration is valid");
    if !arguments.syntax {
        if !findings.php.is_empty() {
            println!("{name}: there is PHP {}", findings.php);
        }
        let protection = Protection::of_machine().explain(&config);
        protection.iter().for_each(|line| println!("{name}: {line}"));
    }
    Ok(())
}

/// Starts the processes that check applications. Error: the reason why there are none.
fn checkers(options: &CommonOptions) -> Result<check::Checkers, String> {
    let user = server_user::find(options)?;
    let private_user = user.as_ref().and_then(|_| credentials::private_user());
    let tmp = options.tmp.clone().unwrap_or_else(std::env::temp_dir);
    let options = Options {
        user,
        private_user,
        tmp: std::path::absolute(&tmp).unwrap_or(tmp),
        ..Options::default()
    };
    check::Checkers::start(&options).map_err(|error| format!("cannot start a process: {error}"))
}

/// Prints errors, the last of which is left to the caller.
fn failed(mut errors: Vec<String>) -> Result<(), String> {
    let last = errors.pop().unwrap_or_default();
    errors.iter().for_each(|error| eprintln!("howdah: {}", Plain(error)));
    Err(last)
}

/// Checks what a document names, as [`run`] does. `file` is the file of the document that a running
/// server may have. Returns the problems of its parts.
pub fn document(document: &Value, file: &Path) -> Vec<SiteProblem> {
    const NAME: &str = "document";
    let options = CommonOptions::default();
    let checkers = checkers(&options);
    let text = document.to_string().into_bytes();
    let Ok(config) = howdah_advice::parse(&text, &Defaults::default()) else { return Vec::new() };
    let mut findings = Findings { document: NAME.to_owned(), ..Findings::default() };
    for Advice { path, message, is_note } in advise(&config) {
        let line = format_args!("{path}: {message}");
        if is_note { findings.note(line) } else { findings.warn(line) }
    }
    findings.check(&config, &options, Some(file), checkers);
    let all = [
        (Severity::Error, findings.errors),
        (Severity::Warning, findings.warnings),
        (Severity::Note, findings.notes),
    ];
    let problem = |severity: Severity, line: &String| {
        let (path, message) = line.strip_prefix("document: ")?.split_once(": ")?;
        Some(SiteProblem { severity, path: path.to_owned(), message: message.to_owned() })
    };
    let all = all.iter().flat_map(|(severity, lines)| {
        lines.iter().filter_map(move |line| problem(*severity, line))
    });
    all.collect()
}

/// Checks the `.htaccess` files of a directory. Fails if one has an error.
fn check_directory(directory: &Path, options: &CommonOptions) -> Result<(), String> {
    let user = server_user::find(options)?;
    let listed = || fs::read_dir(directory).err().map(|error| error.to_string());
    let problem = run_as(user.as_ref(), || listed().unwrap_or_default());
    let problem = problem.unwrap_or_else(|error| error.to_string());
    if !problem.is_empty() {
        let name = user.unwrap_or_else(Credentials::current).name;
        let directory = directory.display();
        return Err(format!("{directory} cannot be listed by the user \"{name}\": {problem}"));
    }
    let Report { mut errors, notes, files } =
        review::report(&[(directory.to_owned(), &Htaccess::default())], user.as_ref())?;
    notes.iter().for_each(|note| eprintln!("howdah: note: {}", Plain(note)));
    if let Some(last) = errors.pop() {
        errors.iter().for_each(|error| eprintln!("howdah: {}", Plain(error)));
        return Err(format!("{last}\nRequests below these directories get 500, as with Apache"));
    }
    println!("{}: {files} .htaccess files are valid", directory.display());
    Ok(())
}

/// Findings, a line each.
#[derive(Default)]
struct Findings {
    /// The name of the document, for messages.
    document: String,
    /// The parts of the document that come from other files, by their paths.
    included: Vec<(String, PathBuf)>,
    /// The places of parts in the files of sites.
    places: SitePlaces,
    /// The parts of the document that have a warning, by their paths.
    warned: BTreeSet<String>,
    /// Problems with which the server does not start, or an application does not run.
    errors: Vec<String>,
    /// Problems that show later or cause less harm.
    warnings: Vec<String>,
    /// Facts that may be intended.
    notes: Vec<String>,
    /// The versions of PHP that applications can have, with their programs.
    php: String,
    /// Settings of PHP of each application that can run, by its name.
    settings: php_settings::Settings,
}

impl Findings {
    fn check(
        &mut self,
        config: &Config,
        options: &CommonOptions,
        file: Option<&Path>,
        checkers: Result<check::Checkers, String>,
    ) {
        let user = match server_user::find(options) {
            Ok(user) => user,
            Err(problem) => return self.errors.push(problem),
        };
        if !rustix::process::geteuid().is_root() {
            self.notes.push(format!(
                "files were looked at with the rights of the user \"{}\"; for a server that root \
                 starts, such as a service, check as root: sudo howdah check",
                Credentials::current().name
            ));
        }
        self.directories(config, options, user.as_ref());
        self.databases(config);
        let ports = howdah_supervisor::check::Ports::of_machine();
        let addresses = LocalAddresses::of_machine();
        for listener in &config.listeners {
            let path = howdah_config::path(["listeners", listener.key.as_str()]);
            self.must(&path, check::socket(&listener.name));
            if let Err(problem) = check::socket_access(&grants::socket_access(listener)) {
                self.fail(problem);
            }
            self.must(&path, addresses.problem(listener).map_or(Ok(()), Err));
            let is_own = |pid| file.is_some_and(|file| own_server::serves(pid, file));
            match ports.taken(&listener.name, is_own) {
                Some(Ok(note)) => self.note(format_args!("{path}: {note}")),
                Some(Err(check::Taken)) => {
                    self.fail(format_args!("{path}: {}", check::taken(&listener.name)));
                }
                None => {}
            }
        }
        self.tls(config, options);
        self.applications(config, checkers);
        for application in &config.applications {
            self.application_files(application);
        }
        match review::report(&config.htaccess_roots(), user.as_ref()) {
            Ok(Report { errors, notes, .. }) => {
                self.warnings.extend(errors.into_iter().chain(notes));
            }
            Err(problem) => self.errors.push(problem),
        }
        let (warnings, notes) = review::unread(config, user.as_ref());
        self.warnings.extend(warnings);
        self.notes.extend(notes);
        for (place, log) in config.access_logs() {
            if let Destination::File(path) = &log.destination {
                self.must(&place, opened(path));
            }
        }
        for log in &config.error_logs {
            self.should(&howdah_config::path(["error_logs", &*log.site]), opened(&log.path));
        }
        for (place, store) in config.cache_files() {
            if let Some(file) = store.file() {
                self.must(&place, howdah_supervisor::check::cache_file(&file));
            }
        }
        for (path, problem) in fastcgi::missing_sockets(config) {
            self.warn(format_args!("{path}: {problem}"));
        }
        for (path, problem) in releases::preloaded(config, &self.settings) {
            self.note(format_args!("{path}: {problem}"));
        }
        for (path, problem) in php_settings::contradictions(config, &self.settings) {
            self.note(format_args!("{path}: {problem}"));
        }
        let served = config.action_paths();
        let found = run_as(user.as_ref(), || served.iter().filter_map(not_served).collect());
        match found {
            Ok(lines) => lines.lines().for_each(|line| self.warn_once(line)),
            Err(error) => self.errors.push(error.to_string()),
        }
        let found = run_as(user.as_ref(), || readable::unreadable(&served));
        found.unwrap_or_default().lines().for_each(|line| self.warn_once(line));
    }

    fn must(&mut self, path: &str, result: Result<(), impl Display>) {
        let Err(problem) = result else { return };
        self.fail(format_args!("{path}: {problem}"));
    }

    fn should(&mut self, path: &str, result: Result<(), impl Display>) {
        let Err(problem) = result else { return };
        self.warn(format_args!("{path}: {problem}"));
    }

    /// Adds an error of the document.
    fn fail(&mut self, problem: impl Display) {
        self.errors.push(self.with_file(problem));
    }

    /// Adds a warning, `PATH: PROBLEM`, unless the path has one.
    fn warn_once(&mut self, line: &str) {
        let (path, _) = line.split_once(": ").unwrap_or_default();
        if !self.warned.contains(path) {
            self.warn(line);
        }
    }

    /// Puts the file in front of a line about a part of the document.
    fn with_file(&self, problem: impl Display) -> String {
        let line = Plain(problem).to_string();
        self.with_file_of(&line, &line)
    }

    /// Puts the file of a part of the document in front of a line about that part or one around it.
    /// Of a site, its own key takes the place of the part's.
    fn with_file_of(&self, part: &str, line: &str) -> String {
        let (path, problem) = line.split_once(": ").unwrap_or((line, ""));
        let path = if part == line { path } else { part };
        if let Some(of_site) = self.places.explain(path, problem) {
            return of_site;
        }
        let is_within = |other: &str| {
            let rest = part.strip_prefix(other).filter(|_| !other.is_empty());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ':']))
        };
        let parts = self.included.iter().filter(|(part, _)| is_within(part));
        match parts.max_by_key(|(part, _)| part.len()) {
            Some((_, file)) => format!("{}: {line}", file.display()),
            None => format!("{}: {line}", self.document),
        }
    }

    fn note(&mut self, problem: impl Display) {
        self.notes.push(self.with_file(problem));
    }

    fn warn(&mut self, problem: impl Display) {
        let line = Plain(problem).to_string();
        self.warnings.push(self.with_file(&line));
        self.warned.extend(line.split_once(": ").map(|(path, _)| path.to_owned()));
    }

    /// Checks directories and files of the command line.
    fn directories(
        &mut self,
        config: &Config,
        options: &CommonOptions,
        user: Option<&Credentials>,
    ) {
        let own = &config.settings.http.body_temp_path;
        match Temporary::find(options.tmp.as_deref(), user) {
            Ok(found) => self.warnings.extend(found.warning.filter(|_| own.is_none())),
            Err(problem) => self.errors.push(problem),
        }
        if let Some(directory) = own {
            let problem = |error| spool::directory_error(directory, &error).to_string();
            let ask =
                || spool::check_directory(directory).map_err(problem).err().unwrap_or_default();
            let answer = run_as(user, ask).unwrap_or_else(|error| error.to_string());
            let problem = Some(answer).filter(|answer| !answer.is_empty());
            self.must("/settings/http/body_temp_path", problem.map_or(Ok(()), Err));
        }
        if let Some(Err(problem)) =
            options.log.as_deref().filter(|log| *log != "journald").map(opened)
        {
            self.errors.push(format!("--log {problem}"));
        }
        if let Some(Err(problem)) = options.pid.as_ref().map(|pid| named(pid, check::pid(pid))) {
            self.errors.push(format!("--pid {problem}"));
        }
        match directories::certificates(options.state.as_deref(), Some(config)) {
            Ok(state) => {
                self.errors.extend(directories::check_format(state.as_deref(), true).err());
                self.warnings.extend(state.as_deref().and_then(directories::state_problem))
            }
            Err(problem) => self.errors.push(problem),
        }
    }

    fn databases(&mut self, config: &Config) {
        for (place, database) in &config.geo_databases {
            self.must(place, geo_databases::read(&database.file).map(drop));
        }
    }

    fn tls(&mut self, config: &Config, options: &CommonOptions) {
        let read = |path: &Path| check::read_for_tls(path).map_err(|error| error.to_string());
        let state = options.state.clone().unwrap_or_default();
        let stored = |name: &str| check::stored(&state, name);
        let stored: &Stored<'_> = &stored;
        let texts =
            CertificateSources { read: &read, stored: options.state.is_some().then_some(stored) };
        for TlsProblem { place, part, problem } in tls::tls(config, &texts) {
            let line = Plain(format_args!("{place}: {problem}")).to_string();
            self.errors.push(self.with_file_of(&part, &line));
        }
        let read = |path: &Path| check::read_for_tls(path).ok();
        let known = |name: &str| options.state.as_ref().and_then(|_| stored(name));
        let untimely = certificates::untimely(config, SystemTime::now(), &read, &known);
        for TlsProblem { place, part, problem } in untimely {
            let line = Plain(format_args!("{place}: {problem}")).to_string();
            self.warnings.push(self.with_file_of(&part, &line));
        }
        if options.state.is_none() {
            let unknown =
                "names a certificate of the store, which is not looked at without --state";
            for path in tls::stored(config) {
                self.warn(format_args!("{path}: {unknown}"));
            }
        }
        for listener in &config.listeners {
            let settings = listener.tls.iter().flat_map(|tls| &tls.acme);
            for hook in settings.filter_map(|acme| acme.dns.as_ref()) {
                let listener = howdah_config::path(["listeners", listener.key.as_str()]);
                let path = format!("{listener}/tls/acme/dns/program");
                self.should(&path, check::program(&hook.program).map(|_| ()));
            }
        }
    }

    fn applications(&mut self, config: &Config, checkers: Result<check::Checkers, String>) {
        if config.applications.is_empty() {
            return;
        }
        let php = php_programs::find();
        if let Some(problem) = php.missing() {
            return self.fail(format_args!("/applications: {problem}"));
        }
        self.warnings.extend(php.unusable.iter().map(ToString::to_string));
        let list = php.found.iter().map(|php| format!("{} ({})", php.version, php.path.display()));
        self.php = list.collect::<Vec<_>>().join(", ");
        let checkers = match checkers {
            Ok(checkers) => checkers,
            Err(problem) => return self.fail(format_args!("/applications: {problem}")),
        };
        let (all, variables) = (config.applications.iter(), environment::all());
        let specs: Vec<_> =
            all.map(|one| spec(one, Geometry::for_pool(1, 1), &variables)).collect();
        for (name, problem) in check::without_kernel_limit(&specs) {
            let path = howdah_config::path(["applications", name.as_str()]);
            self.note(format_args!("{path}/{problem}"));
        }
        let php = php_programs::find();
        let found = checkers.check(&php.found, &php.unusable, &specs);
        for ((application, spec), found) in config.applications.iter().zip(&specs).zip(found) {
            let path = place(application);
            let line = |problem: Problem| {
                if problem.key.is_empty() {
                    format!("{path}: {problem}")
                } else {
                    format!("{path}/{problem}")
                }
            };
            found.notes.into_iter().map(line).for_each(|note| self.note(note));
            found.warnings.into_iter().map(line).for_each(|warning| self.warn(warning));
            found.errors.into_iter().map(line).for_each(|error| self.fail(error));
            let jobs = application.jobs.iter();
            let wrong = jobs.filter_map(|job| check::job(&php.found, spec, job).err());
            wrong.map(line).for_each(|error| self.fail(error));
            self.settings.insert(application.name.clone(), found.settings);
        }
    }

    /// Checks the files that requests to an application need.
    fn application_files(&mut self, application: &Application) {
        let path = place(application);
        if let Some(log) = &application.limits.slow_log {
            self.should(&format!("{path}/limits/slow_log"), opened(log));
        }
        if let Some(directory) = &application.isolation.rootfs {
            self.worker_in(directory, application);
            return; // the paths are below `rootfs`
        }
        let worker = application.worker.as_ref().map(|worker| &worker.script);
        for target in &application.targets {
            let script = target.script.as_ref().filter(|_| target.root.is_dir());
            // A worker script has been checked as the application's user.
            let Some(script) = script.filter(|script| Some(*script) != worker) else { continue };
            let script = target.root.join(script.trim_start_matches('/'));
            let found = fs::metadata(&script).map(|_| ());
            self.should(&format!("{path}/{}", target.key("script")), named(&script, found));
        }
        let directories = &application.script_directories;
        for directory in directories.allowed.iter().chain(&directories.forbidden) {
            let found = fs::read_dir(directory).map(|_| ());
            self.should(&format!("{path}/script_directories"), named(directory, found));
        }
    }

    /// Checks a worker script and its watched files below another root directory, as this command
    /// sees it: later mounts there are not known.
    fn worker_in(&mut self, directory: &Path, application: &Application) {
        let Some(worker) = &application.worker else { return };
        let Some(target) = application.targets.first() else { return };
        let place = format!("{}/worker", place(application));
        let watched = worker.watch.iter().map(|path| (format!("{place}/watch"), path));
        for (place, path) in [(place.clone(), &worker.script)].into_iter().chain(watched) {
            let path = target.root.join(path);
            let path = directory.join(path.strip_prefix("/").unwrap_or(&path));
            self.should(&place, named(&path, fs::metadata(&path).map(|_| ())));
        }
    }
}

fn place(application: &Application) -> String {
    howdah_config::path(["applications", application.name.as_str()])
}

/// Checks that a log can be opened.
fn opened(log: &Path) -> Result<(), String> {
    check::log(log).map_err(|error| format!("{} cannot be opened: {error}", log.display()))
}

fn named(path: &Path, result: io::Result<()>) -> Result<(), String> {
    result.map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the reason why a file or directory cannot be served, if there is one.
fn not_served(served: &RouterPath) -> Option<String> {
    let RouterPath { path, file, is_directory, symlinks } = served;
    let found = if *is_directory {
        directory(file)
    } else {
        open_as_router(file).and_then(|file| file.metadata()).and_then(|found| {
            match found.is_dir() {
                true if path.ends_with("/share") => Err(io::Error::other(SHARES_DIRECTORY)),
                true => Err(io::ErrorKind::IsADirectory.into()),
                false => Ok(()),
            }
        })
    };
    if let Err(error) = found {
        let user = Credentials::current().name;
        let wanted = if *is_directory { Wanted::Enter } else { Wanted::Read };
        if error.kind() == io::ErrorKind::PermissionDenied {
            let obstacle = Obstacle::explain(file, &Credentials::current(), wanted);
            return Some(format!("{path}: {obstacle}; its requests get 403\n"));
        }
        let file = file.display();
        return Some(format!("{path}: {file} cannot be used by the user \"{user}\": {error}\n"));
    }
    let link = match symlinks {
        Symlinks::OwnerMatch => howdah_sys::links::refused_link(file, *is_directory)?,
        Symlinks::All | Symlinks::None => return None,
    };
    Some(format!("{path}: {}\n", link.with_advice()))
}

/// Opens a file as the router does: a FIFO or a lease does not block.
fn open_as_router(file: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    File::options().read(true).custom_flags(flags).open(file)
}

const SHARES_DIRECTORY: &str =
    "it is a directory; for its files write \"$uri\" behind it in \"share\"";

/// Checks a directory that need not be readable: its files can be served all the same.
fn directory(path: &Path) -> io::Result<()> {
    if fs::metadata(path.join("."))?.is_dir() {
        Ok(())
    } else {
        Err(io::ErrorKind::NotADirectory.into())
    }
}
