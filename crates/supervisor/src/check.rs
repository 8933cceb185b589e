//! Checks for `howdah check` whether the supervisor could run a document. The checks create, change
//! and bind nothing.
//!
//! Steps without side effects are carried out by the code of the server: a prototype is started and
//! takes the application's user. The other steps are only checked: no control group is entered, no
//! file is created, and no root directory is mounted, so PHP is not loaded in one.

mod processes;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use howdah_launch::known_start::KnownStart;
use howdah_sys::credentials;
use howdah_sys::pipe::{self, Received};
use howdah_sys::{packet, process, signals};
use howdah_wire::messages::{
    ApplicationSpec, FromPrototype, Isolation, MAX_REPORT, Problem, ToPrototype,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, FileType};
use rustix::io::Errno;

use crate::control_groups::ControlGroups;
use crate::grants::SocketAccess;
use crate::launch::Launch;
use crate::options::Options;
use crate::prototype::{self, Requirements};
use crate::resources::Plan;
use crate::safe_path::SafePath;
use crate::{certificates, pid_file, resources, sockets};

pub use self::processes::Checkers;
pub use crate::cache_file::check as cache_file;
pub use crate::certificates::read_for_tls;
pub use crate::job_launch::check as job;
pub use crate::ports::{Ports, Taken};
pub use crate::programs::trusted as program;
pub use crate::store::check_log as log;

/// Time within which PHP must be loaded.
const LOAD_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum length of PHP's output that is kept, in bytes.
const MAX_OUTPUT_BYTES: usize = 16 * 1024;

/// The result of checking an application.
#[derive(Default)]
pub struct Findings {
    /// Reasons why the application cannot run.
    pub errors: Vec<Problem>,
    /// Problems that do not prevent it from running.
    pub warnings: Vec<Problem>,
    /// Settings that may be intended.
    pub notes: Vec<Problem>,
    /// Names and values of settings of PHP; empty if it cannot be loaded. Filled by
    /// [`Checkers::check`] only.
    pub settings: Rc<PhpSettings>,
}

/// Names and values of settings of PHP.
pub type PhpSettings = Vec<(String, String)>;

/// Returns notes about applications whose number of processes is limited by counting alone, as
/// their user has others without a limit: the kernel cannot tell the processes of one user apart.
pub fn without_kernel_limit(all: &[ApplicationSpec]) -> Vec<(String, Problem)> {
    without_limit(all, resources::counts_processes)
}

fn without_limit(
    all: &[ApplicationSpec],
    counts: impl Fn(&ApplicationSpec) -> bool,
) -> Vec<(String, Problem)> {
    let limit = |spec: &ApplicationSpec| spec.isolation.limits.as_ref()?.processes;
    let mut unlimited = HashMap::new();
    for spec in all.iter().filter(|spec| limit(spec).is_none()) {
        unlimited.entry(spec.user.as_deref()).or_insert(spec.name.as_str());
    }
    let note = |spec: &ApplicationSpec| {
        let user = spec.user.as_deref().filter(|_| !spec.isolation.user_namespace)?;
        let other = unlimited.get(&Some(user))?;
        let message = format_args!(
            "is kept by counting alone, not by the kernel (RLIMIT_NPROC), as the application \
             \"{other}\" of the same user \"{user}\" has no such limit: give it one, or a user of \
             its own"
        );
        let problem = Problem::at("isolation/limits/processes", message);
        Some((spec.name.clone(), problem))
    };
    all.iter().filter(|spec| limit(spec).is_some() && counts(spec)).filter_map(note).collect()
}

/// Results of starts of PHP. It is loaded once for all applications with the same settings, and its
/// files are opened once for those that have the same user, too.
#[derive(Default)]
struct Starts {
    by_settings: HashMap<Vec<u8>, NumberedStart>,
    by_user: HashMap<(Vec<u8>, User), NumberedStart>,
    count: u32,
}

/// A start of PHP, and the number that processes know it by.
#[derive(Debug, Clone)]
struct NumberedStart {
    number: u32,
    start: Rc<KnownStart>,
    settings: Rc<PhpSettings>,
}

/// User and group of an application.
type User = (Option<String>, Option<String>);

impl Starts {
    /// Returns what is known about the start of an application with these settings.
    fn find(&self, settings: &[u8], spec: &ApplicationSpec) -> Option<NumberedStart> {
        let of_user = self.by_user.get(&(settings.to_owned(), user_of(spec)));
        of_user.or_else(|| self.by_settings.get(settings)).cloned()
    }

    /// Adds the start of an application that can run.
    fn add(&mut self, settings: &[u8], spec: &ApplicationSpec, start: &KnownStart) {
        if !start.is_known {
            return;
        }
        let of_user = (settings.to_owned(), user_of(spec));
        if !self.by_user.contains_key(&of_user) {
            // This site could open the others, and so can every other one: what differs in their
            // sandboxes are the directories of the sites.
            let own: Vec<_> = site_paths(spec).collect();
            let is_own = |file: &&String| own.iter().any(|path| Path::new(file).starts_with(path));
            let files = start.files.iter().filter(is_own).cloned().collect();
            let known = self.known(KnownStart { files, ..start.clone() });
            self.by_user.insert(of_user, known);
        }
        if !self.by_settings.contains_key(settings) {
            let known = self.known(start.clone());
            self.by_settings.insert(settings.to_owned(), known);
        }
    }

    fn known(&mut self, start: KnownStart) -> NumberedStart {
        self.count += 1;
        let settings = Rc::new(start.values.clone());
        NumberedStart { number: self.count, start: Rc::new(start), settings }
    }
}

fn user_of(spec: &ApplicationSpec) -> User {
    (spec.user.clone(), spec.group.clone())
}

/// Returns true for a path in which the site of an application is.
fn contains_site(path: &str, spec: &ApplicationSpec) -> bool {
    spec.roots.iter().any(|(_, root)| Path::new(root).starts_with(path))
}

/// Returns the paths in the sandbox of an application in which its site is.
fn site_paths(spec: &ApplicationSpec) -> impl Iterator<Item = &String> {
    let sandbox = spec.isolation.sandbox.iter();
    let paths = sandbox.flat_map(|files| [&files.read, &files.write, &files.execute]).flatten();
    paths.filter(|path| contains_site(path, spec))
}

/// Returns the settings on which the start of PHP depends, apart from its files; `None` if it may
/// depend on more.
fn start_key(spec: &ApplicationSpec) -> Option<Vec<u8>> {
    let mut isolation = spec.isolation.clone();
    if isolation.rootfs.is_some() {
        return None;
    }
    if let Some(sandbox) = &mut isolation.sandbox {
        // Each site has its own directory there. What PHP is started from is opened in the sandbox.
        for paths in [&mut sandbox.read, &mut sandbox.write, &mut sandbox.execute] {
            paths.retain(|path| !contains_site(path, spec));
        }
    }
    let spec = ApplicationSpec {
        php_version: spec.php_version.clone(),
        environment: spec.environment.clone(),
        environment_files: spec.environment_files.clone(),
        ini_file: spec.ini_file.clone(),
        ini_admin: spec.ini_admin.clone(),
        ini_user: spec.ini_user.clone(),
        htaccess: spec.htaccess,
        rlimits: spec.rlimits.clone(),
        isolation: Isolation {
            cgroup: None,
            cgroup_settings: Vec::new(),
            limits: None,
            ..isolation
        },
        ..ApplicationSpec::new("")
    };
    Some(ToPrototype::Check { spec, tmp: String::new(), variables: Vec::new() }.encode())
}

/// Maximum number of errors of an application that are looked for.
const MAX_ERRORS: usize = 10;

/// Checks that an application could run, and takes what its start has shown.
fn application(options: &Options, spec: &ApplicationSpec, start: &mut KnownStart) -> Findings {
    let mut findings = all_findings(options, spec, start);
    findings.notes.extend(resources::note(spec));
    findings
}

fn all_findings(options: &Options, spec: &ApplicationSpec, start: &mut KnownStart) -> Findings {
    let mut errors: Vec<Problem> = Vec::new();
    let (mut spec, mut gone) = (spec.clone(), Vec::new());
    loop {
        let mut findings = Findings::default();
        let Err(problem) = try_application(options, &spec, &mut findings, start) else {
            return Findings { errors, ..findings };
        };
        // Files in a missing directory are missing as well.
        let follows = gone.iter().any(|root: &String| problem.message.contains(root.as_str()));
        let can_go_on = leave_out(&mut spec, &problem.key, &mut gone);
        // PHP starts with other settings now.
        *start = KnownStart::default();
        if !follows {
            errors.push(problem);
        }
        if !can_go_on || errors.len() >= MAX_ERRORS {
            return Findings { errors, ..findings };
        }
    }
}

/// Leaves out the part of a specification that has a mistake, so that further mistakes are found.
/// `gone` gets document roots that are left out. Returns false if no part is left out.
fn leave_out(spec: &mut ApplicationSpec, key: &str, gone: &mut Vec<String>) -> bool {
    match key {
        // Other users may not enter the directories of the user that is missing.
        "user" if credentials::is_root() && spec.user.as_deref() != Some("root") => {
            spec.group = None;
            spec.user.replace("root".to_owned()).is_some()
        }
        "group" => spec.group.take().is_some(),
        "working_directory" => spec.working_directory.take().is_some(),
        "stdout" => spec.stdout.take().is_some(),
        "stderr" => spec.stderr.take().is_some(),
        "options/file" => spec.ini_file.take().is_some(),
        _ if key.starts_with("environment/") => {
            let variables = [&mut spec.environment_files, &mut spec.missing_variables];
            let name = &key["environment/".len()..];
            let is_other = |(other, _): &(String, String)| other != name;
            variables.into_iter().fold(false, |found, all| {
                let before = all.len();
                all.retain(is_other);
                found || all.len() < before
            })
        }
        "worker" | "worker/watch" => spec.worker.take().is_some(),
        _ => {
            if let Some(name) = key.strip_prefix("isolation/cgroup/") {
                let settings = &mut spec.isolation.cgroup_settings;
                let before = settings.len();
                settings.retain(|(file, _)| file.replace('.', "_") != name);
                return settings.len() < before;
            }
            if let Some(name) = key.strip_prefix("options/") {
                let name = name.split_once('/').map_or(name, |(_, name)| name);
                let before = spec.ini_admin.len() + spec.ini_user.len();
                spec.ini_admin.retain(|(setting, _)| setting != name);
                spec.ini_user.retain(|(setting, _)| setting != name);
                return spec.ini_admin.len() + spec.ini_user.len() < before;
            }
            let is_root = |(root, _): &&(String, String)| root == key;
            let Some((_, root)) = spec.roots.iter().find(is_root).cloned() else { return false };
            spec.roots.retain(|(other, _)| other != key);
            // The worker script is below the first root.
            if spec.worker.as_ref().is_some_and(|worker| worker.script.starts_with(&root)) {
                spec.worker = None;
            }
            gone.push(root);
            true
        }
    }
}

fn try_application(
    options: &Options,
    spec: &ApplicationSpec,
    findings: &mut Findings,
    start: &mut KnownStart,
) -> Result<(), Problem> {
    let Requirements { executable, identity } = prototype::requirements(options, spec)?;

    fn failed(error: impl Into<io::Error>) -> Problem {
        Problem::of(format_args!("cannot start a process: {}", error.into()))
    }
    let (messages, output) = pipe::new().map_err(failed)?;
    let (commands, socket) = packet::one_way().map_err(failed)?;
    let (reader, reports) = pipe::new().map_err(failed)?;
    let check = ToPrototype::Check {
        spec: spec.clone(),
        tmp: options.tmp.display().to_string(),
        variables: prototype::start_variables(spec),
    };
    let dry_run = Some(&*start);
    let launch = Launch { spec, identity: &identity, executable, socket, reports, output, dry_run };
    let pid = launch.start(&mut Plan::default(), &mut ControlGroups::default()).map_err(failed)?;
    let sent = packet::send(&commands, &check.encode(), &[]);
    // `PIPE`: it has ended already, and has reported the reason.
    let sent = sent.or_else(|error| if error == Errno::PIPE { Ok(()) } else { Err(error) });
    let ended =
        sent.map_err(failed).and_then(|()| read_reports(&reader, &messages, findings, start));
    let _ = signals::send(pid, signals::SIGKILL);
    let exit = process::wait_for(pid);
    ended?.unwrap_or_else(|| {
        Err(Problem::of(match exit {
            Some(process::Exit::Status(status)) => {
                format!("its prototype exited with status {status}")
            }
            _ => "its prototype was killed, or took too long to load PHP".to_owned(),
        }))
    })
}

/// Reads the reports of the new process until it reports success or failure; `None` if it ends
/// before that. Its output becomes warnings.
fn read_reports(
    reports: &OwnedFd,
    output: &OwnedFd,
    findings: &mut Findings,
    start: &mut KnownStart,
) -> Result<Option<Result<(), Problem>>, Problem> {
    let deadline = Instant::now() + LOAD_TIMEOUT;
    let (mut reader, mut text) = (pipe::Reader::new(MAX_REPORT), Vec::new());
    let (mut ended, mut has_output) = (None, true);
    while ended.is_none() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        let left = Timespec { tv_sec: left.as_secs() as i64 + 1, tv_nsec: 0 };
        let mut sources = vec![PollFd::from_borrowed_fd(reports.as_fd(), PollFlags::IN)];
        sources.extend(has_output.then(|| PollFd::from_borrowed_fd(output.as_fd(), PollFlags::IN)));
        if !reader.has_read() {
            let _ = poll(&mut sources, Some(&left));
        }
        has_output = has_output && take_output(output, &mut text);
        let message = match reader.receive(reports) {
            Ok(Received::Message(message)) => FromPrototype::decode(&message),
            Ok(Received::Empty) => continue,
            _ => break,
        };
        match message {
            Ok(FromPrototype::Noticed { problem, is_note: true }) => findings.notes.push(problem),
            Ok(FromPrototype::Noticed { problem, .. }) => findings.warnings.push(problem),
            Ok(FromPrototype::Settings { values, files }) => {
                *start = KnownStart { values, is_known: !files.is_empty(), files };
            }
            Ok(FromPrototype::Ready { .. }) => ended = Some(Ok(())),
            Ok(FromPrototype::Failed { problem }) => ended = Some(Err(problem)),
            _ => return Err(Problem::of("its prototype sent a malformed report")),
        }
    }
    take_output(output, &mut text);
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    // Lines that repeat the error are left out.
    let failure = match &ended {
        Some(Err(problem)) => problem.message.clone(),
        _ => String::new(),
    };
    let lines = lines.filter(|line| !failure.contains(line.trim()));
    findings.warnings.extend(lines.map(Problem::of));
    Ok(ended)
}

/// Reads output, of which [`MAX_OUTPUT_BYTES`] are kept. Returns false at the end of the output.
fn take_output(output: &OwnedFd, text: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 4096];
    loop {
        match rustix::io::read(output, &mut buffer) {
            Ok(0) => return false,
            Ok(length) => {
                let room = MAX_OUTPUT_BYTES.saturating_sub(text.len());
                text.extend_from_slice(&buffer[..length.min(room)]);
            }
            Err(_) => return true,
        }
    }
}

/// Checks that the user and the group of a listener's socket exist. Error: the problem with its place
/// in the document.
pub fn socket_access(access: &SocketAccess) -> Result<(), String> {
    sockets::Access::look_up(access, None).map(drop)
}

/// Checks that a listener's socket could be created, as far as possible without creating it.
pub fn socket(address: &str) -> Result<(), String> {
    let Some(path) = address.strip_prefix("unix:").filter(|path| !path.starts_with('@')) else {
        return Ok(());
    };
    let check = || -> io::Result<()> {
        let place = SafePath::resolve(Path::new(path))?;
        place.access(Access::WRITE_OK | Access::EXEC_OK)?;
        match place.kind()? {
            None | Some(FileType::Socket) => Ok(()),
            Some(_) => Err(io::ErrorKind::AddrInUse.into()),
        }
    };
    check().map_err(|error| sockets::explain(address, &error))
}

/// Returns the server's message about an address on which another program listens.
pub fn taken(address: &str) -> String {
    sockets::explain(address, &io::ErrorKind::AddrInUse.into())
}

/// Reads a certificate bundle that is stored below the state directory.
pub fn stored(state: &Path, name: &str) -> Option<Vec<u8>> {
    certificates::stored(state, name).ok()
}

/// Checks that the PID file could be written.
pub fn pid(path: &Path) -> io::Result<()> {
    let place = SafePath::resolve(path)?;
    place.access(Access::WRITE_OK | Access::EXEC_OK)?;
    pid_file::check(&place).map(|_| ())
}

#[cfg(test)]
mod tests;
