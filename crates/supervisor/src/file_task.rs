//! Tasks that open and read files, as a process of [`file_helpers`](crate::file_helpers) carries
//! them out.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use howdah_jobs::Job;
use howdah_questions::Usage;
use howdah_sys::credentials::Credentials;
use howdah_sys::{full_disk, regular_file};
use howdah_wire::bytes::{Decoder, Encode, Malformed};
use howdah_wire::messages::{ApplicationSpec, Problem, Restart};

use crate::application_checks::{self, CheckedApplication};
use crate::file_helper::file_progress;
use crate::grants::{Grants, SocketAccess};
use crate::job_launch;
use crate::memory::{memory_file, read_memory_file};
use crate::options::Options;
use crate::pauses_file::{self, PausedJobs};
use crate::prototype::preflight;
use crate::running_user::{Difference, RunningUser};
use crate::sockets::Access;
use crate::table_reader::{self, Stamps};
use crate::{cache_file, certificates, last_document, log_socket, state_format, store, usage_file};

/// Maximum time of a task without progress.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum time of a task that writes to the state directory.
const STATE_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum time without progress of a task that reads tables, which may be large.
const TABLES_TIMEOUT: Duration = Duration::from_secs(15);

const CAN_RESTART: &str = "can restart";
const NO_USER: &str = "no user";

/// Maximum number of applications of one [`Task::CheckUsers`]: its outcome has a limited length.
pub(crate) const MAX_USERS: usize = 100;

/// Maximum length of a problem of [`Task::CheckUsers`], in bytes.
const MAX_PROBLEM: usize = 512;

/// Reads the differences of [`Task::CheckUsers`], with the numbers of applications; `None` if it
/// was not carried out.
pub(crate) fn stale_users(outcome: Outcome) -> Option<Vec<(u32, Difference)>> {
    let Err(problems) = outcome else { return Some(Vec::new()) };
    let read = |line: &str| {
        let (number, rest) = line.split_once('\t')?;
        let (kind, problem) = rest.split_once('\t')?;
        let (problem, can_restart) = (problem.to_owned(), kind == CAN_RESTART);
        Some((number.parse().ok()?, Difference { problem, can_restart }))
    };
    problems.lines().map(read).collect()
}

/// Reads the owner and the group of [`Task::LookUpAccess`].
pub(crate) fn found_access(outcome: Outcome) -> Result<Access, String> {
    /// Maximum length, in bytes.
    const MAX_TEXT: u64 = 64;
    let file = outcome?.into_iter().collect();
    let text = read_memory_file(file, MAX_TEXT).map_err(|error| error.to_string())?;
    let failed = || "the owner of the file could not be looked up; try again".to_owned();
    Access::decode(&text).ok_or_else(failed)
}

/// A task.
pub(crate) enum Task {
    /// Opens a log.
    OpenLog(String),
    /// Connects a socket to a server of a log.
    ConnectLog(String),
    /// Opens and locks the file of a cache; without a file, another process uses it.
    OpenCache(String),
    /// Reads a file of TLS into memory.
    ReadTls(String),
    /// Reads a file with a password into memory.
    ReadSecret(String),
    /// Reads the document again, into memory. Has the document that runs.
    ReadDocument(Arc<Vec<u8>>),
    /// Compiles the sites of a document that was sent to the control API, into memory. Has the
    /// document that runs.
    CompileDocument { document: Vec<u8>, running: Arc<Vec<u8>> },
    /// Keeps the document that is served, for a start without a valid one.
    KeepDocument(Arc<Vec<u8>>),
    /// Stores a document that the router has prepared.
    SaveDocument { generation: u32, document: Vec<u8> },
    /// Writes as many bytes to this state directory, and removes them.
    ProbeState { directory: PathBuf, bytes: usize },
    /// Stores a certificate bundle.
    StoreCertificate { name: String, pem: Vec<u8> },
    /// Deletes a certificate bundle.
    DeleteCertificate { name: String },
    /// Opens the server's own log again.
    ReopenLog(PathBuf),
    /// Checks new applications of a document that is to be applied.
    Preflight(Box<Candidate>),
    /// Looks at applications of the running document.
    CheckApplications(Vec<CheckedApplication>),
    /// Looks up the users of running applications, which have these numbers.
    CheckUsers(Vec<(u32, RunningUser)>),
    /// Looks up these users, and returns their ids in memory, as a line of id, tab and name each.
    FindUsers(BTreeSet<String>),
    /// Looks up the owner and the group of a listener's socket, and returns them in memory.
    LookUpAccess { address: String, backlog: u32, access: SocketAccess },
    /// Looks at the files with tables of the running document, and reads them if one has changed.
    LookAtTables { document: Arc<Vec<u8>>, known: Option<Stamps> },
    /// Reads what sites have used in a month from this state directory, into memory.
    LoadUsage { directory: PathBuf, month: String },
    /// Stores what sites have used in a month.
    SaveUsage { directory: PathBuf, usage: Box<Usage> },
    /// Reads which jobs are paused from this state directory, into memory.
    LoadPauses { directory: PathBuf },
    /// Stores which jobs are paused.
    SavePauses { directory: PathBuf, paused: PausedJobs },
}

/// Tasks of a kind that follow each other, and fail at once while one of them hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    /// Tasks that write to the state directory.
    State,
    /// Tasks that look at files with tables.
    Tables,
    /// Tasks with files of counts and of pauses, which no change needs to wait for.
    Records,
}

/// A document that is to be applied.
pub(crate) struct Candidate {
    pub(crate) document: Vec<u8>,
    pub(crate) grants: Grants,
    /// Applications that are restarted, beside those that the document changes.
    pub(crate) restart: Restart,
    /// New applications, each as it is in the running document.
    pub(crate) applications: Vec<(ApplicationSpec, Option<ApplicationSpec>)>,
    /// New jobs, each with its application.
    pub(crate) jobs: Vec<(ApplicationSpec, Job)>,
}

/// The process that has asked for a task. If another one has its place by now, the outcome is
/// dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The router with this process id.
    Router(u32),
    /// The control process with this process id.
    Control(u32),
    /// The message of an application with this number.
    Mail(u32),
    /// The telemetry process, for its authorities.
    Telemetry,
    /// The supervisor itself.
    Supervisor,
}

/// The descriptor that a task opens, if there is one, or why it has failed.
pub(crate) type Outcome = Result<Option<OwnedFd>, String>;

impl Task {
    /// Returns the file of a task that has just one.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Task::OpenLog(path)
            | Task::OpenCache(path)
            | Task::ReadTls(path)
            | Task::ReadSecret(path) => Some(Path::new(path)),
            Task::ReopenLog(path) => Some(path),
            Task::ConnectLog(server) => server.strip_prefix("unix:").map(Path::new),
            Task::ReadDocument(_)
            | Task::CompileDocument { .. }
            | Task::KeepDocument(_)
            | Task::ProbeState { .. }
            | Task::SaveDocument { .. }
            | Task::StoreCertificate { .. }
            | Task::DeleteCertificate { .. }
            | Task::Preflight(_)
            | Task::CheckApplications(_)
            | Task::CheckUsers(_)
            | Task::FindUsers(_)
            | Task::LookUpAccess { .. }
            | Task::LookAtTables { .. }
            | Task::LoadUsage { .. }
            | Task::SaveUsage { .. }
            | Task::LoadPauses { .. }
            | Task::SavePauses { .. } => None,
        }
    }

    /// Returns the group of a task that has one.
    pub(crate) fn group(&self) -> Option<Group> {
        match self {
            Task::SaveDocument { .. }
            | Task::KeepDocument(_)
            | Task::ProbeState { .. }
            | Task::StoreCertificate { .. }
            | Task::DeleteCertificate { .. } => Some(Group::State),
            Task::LookAtTables { .. } => Some(Group::Tables),
            Task::LoadUsage { .. }
            | Task::SaveUsage { .. }
            | Task::LoadPauses { .. }
            | Task::SavePauses { .. } => Some(Group::Records),
            _ => None,
        }
    }

    /// Returns true for a task that writes to the state directory.
    pub(crate) fn is_of_state(&self) -> bool {
        self.group() == Some(Group::State)
    }

    /// Returns the maximum time without progress. Written data must be on the disk, which may be
    /// slow.
    pub(crate) fn timeout(&self) -> Duration {
        match self.group() {
            Some(Group::State | Group::Records) => STATE_TIMEOUT,
            Some(Group::Tables) => TABLES_TIMEOUT,
            None => TIMEOUT,
        }
    }

    /// Returns the task as a message for a process that runs already; `None` if it needs state that
    /// only a new process has.
    pub(crate) fn message(&self) -> Option<Vec<u8>> {
        let (kind, path) = match self {
            Task::OpenLog(path) => (0, path),
            Task::ConnectLog(server) => (1, server),
            Task::OpenCache(path) => (2, path),
            Task::ReadTls(path) => (3, path),
            Task::ReadSecret(path) => (4, path),
            Task::ReopenLog(_)
            | Task::SaveDocument { .. }
            | Task::StoreCertificate { .. }
            | Task::DeleteCertificate { .. }
            | Task::ReadDocument(_)
            | Task::CompileDocument { .. }
            | Task::KeepDocument(_)
            | Task::ProbeState { .. }
            | Task::Preflight(_)
            | Task::CheckApplications(_)
            | Task::CheckUsers(_)
            | Task::FindUsers(_)
            | Task::LookUpAccess { .. }
            | Task::LookAtTables { .. }
            | Task::LoadUsage { .. }
            | Task::SaveUsage { .. }
            | Task::LoadPauses { .. }
            | Task::SavePauses { .. } => return None,
        };
        let mut message = Vec::new();
        message.put_u8(kind);
        message.put_bytes(path.as_bytes());
        Some(message)
    }

    /// Reads a message.
    pub(crate) fn decode(message: &[u8]) -> Result<Task, Malformed> {
        let mut reader = Decoder(message);
        let (kind, path) = (reader.u8()?, reader.text()?.to_owned());
        reader.end()?;
        Ok(match kind {
            0 => Task::OpenLog(path),
            1 => Task::ConnectLog(path),
            2 => Task::OpenCache(path),
            3 => Task::ReadTls(path),
            4 => Task::ReadSecret(path),
            _ => return Err(Malformed),
        })
    }

    /// Carries the task out.
    pub(crate) fn carry_out(&self, options: &Options) -> Outcome {
        let text = |error: std::io::Error| error.to_string();
        match self {
            Task::OpenLog(path) => store::open_access_log(Path::new(path)).map(Some).map_err(text),
            Task::ReopenLog(path) => store::open_log(path).map(Some).map_err(text),
            Task::ConnectLog(server) => log_socket::connect(server).map(Some).map_err(text),
            Task::OpenCache(path) => cache_file::open(Path::new(path)).map_err(text),
            Task::ReadTls(path) => {
                let read = certificates::read_for_tls(Path::new(path));
                read.and_then(|text| memory_file("file", &text)).map(Some).map_err(text)
            }
            Task::ReadSecret(path) => {
                let read = read_secret(Path::new(path));
                read.and_then(|text| memory_file("file", &text)).map(Some).map_err(text)
            }
            Task::ReadDocument(running) => {
                let read = options.reload_document.as_ref().map_or_else(
                    || Err("the document has no source".to_owned()),
                    |read| read(running),
                )?;
                memory_file("document", &read).map(Some).map_err(text)
            }
            Task::CompileDocument { document, running } => {
                let compiled = options.compile_document.as_ref().map_or_else(
                    || Err("sites are not compiled".to_owned()),
                    |compile| compile(document, running),
                )?;
                memory_file("document", &compiled).map(Some).map_err(text)
            }
            Task::KeepDocument(document) => {
                let Some(state) = &options.last_document else { return Ok(None) };
                file_progress(&state.display().to_string());
                let kept = state_format::mark(state)
                    .and_then(|()| last_document::save(state, &options.origin, document));
                kept.map(|()| None).map_err(text)
            }
            Task::ProbeState { directory, bytes } => {
                file_progress(&directory.display().to_string());
                let probed = store::probe(directory, &vec![b' '; *bytes]);
                let advised = |error| format!("{error}; {}", full_disk::advice(&error));
                probed.map(|()| None).map_err(advised)
            }
            Task::SaveDocument { document, .. } => {
                let Some(state) = &options.state else { return Ok(None) };
                file_progress(&state.display().to_string());
                let saved =
                    state_format::mark(state).and_then(|()| store::save_document(state, document));
                saved.map(|()| None).map_err(text)
            }
            Task::StoreCertificate { name, pem } => {
                let state = options.certificates.as_deref();
                file_progress(&state.unwrap_or(Path::new("")).display().to_string());
                certificates::store(state, name, pem).map(|()| None).map_err(text)
            }
            Task::DeleteCertificate { name } => {
                let state = options.certificates.as_deref();
                file_progress(&state.unwrap_or(Path::new("")).display().to_string());
                certificates::delete(state, name).map(|()| None).map_err(text)
            }
            Task::Preflight(candidate) => check(options, candidate).map(|()| None),
            Task::CheckApplications(applications) => {
                let troubled = application_checks::check(options, applications);
                let message = application_checks::message(0, troubled).encode();
                memory_file("applications", &message).map(Some).map_err(text)
            }
            Task::CheckUsers(running) => {
                let problems = running.iter().filter_map(|(number, user)| {
                    file_progress(&user.to_string());
                    let Difference { problem, can_restart } = user.difference(options)?;
                    let kind = if can_restart { CAN_RESTART } else { NO_USER };
                    let problem = &problem[..problem.floor_char_boundary(MAX_PROBLEM)];
                    Some(format!("{number}\t{kind}\t{}", problem.replace('\n', " ")))
                });
                lines(problems.collect())
            }
            Task::FindUsers(names) => {
                let found = find_users(names, options.private_user);
                memory_file("users", found.as_bytes()).map(Some).map_err(text)
            }
            Task::LookUpAccess { access, .. } => {
                file_progress(&access.place);
                let router = options.user.as_ref().map(|user| user.gid);
                let found = Access::look_up(access, router)?;
                memory_file("access", &found.encode()).map(Some).map_err(text)
            }
            Task::LookAtTables { document, known } => {
                let Some(files) = &options.table_files else { return Ok(None) };
                let looked = table_reader::look(files, document, known.as_ref());
                memory_file("tables", &looked.encode()).map(Some).map_err(text)
            }
            Task::LoadUsage { directory, month } => {
                file_progress(&directory.display().to_string());
                let found = usage_file::load(directory, month)?;
                found.map(|found| memory_file("usage", &found)).transpose().map_err(text)
            }
            Task::SaveUsage { directory, usage } => {
                file_progress(&directory.display().to_string());
                usage_file::save(directory, usage).map(|()| None).map_err(text)
            }
            Task::LoadPauses { directory } => {
                file_progress(&directory.display().to_string());
                let found = pauses_file::load(directory)?;
                found.map(|found| memory_file("pauses", &found)).transpose().map_err(text)
            }
            Task::SavePauses { directory, paused } => {
                file_progress(&directory.display().to_string());
                pauses_file::save(directory, paused).map(|()| None).map_err(text)
            }
        }
    }
}

/// Returns the ids of users as [`Task::FindUsers`] does. Root, the server's own user, and the id that
/// the kernel shows for users of other namespaces, are nobody's sites.
fn find_users(names: &BTreeSet<String>, private_user: Option<u32>) -> String {
    let own = Credentials::current().uid;
    let mut found = String::new();
    for name in names.iter().filter(|name| !name.contains(['\n', '\t'])) {
        file_progress(name);
        let uid = Credentials::uid_of(name).ok().flatten();
        let is_user =
            |uid: &u32| ![0, own, OVERFLOW_USER].contains(uid) && Some(*uid) != private_user;
        if let Some(uid) = uid.filter(is_user) {
            let _ = writeln!(found, "{uid}\t{name}");
        }
    }
    found
}

/// The user id that the kernel shows for one that the namespace has no number for.
const OVERFLOW_USER: u32 = 65534;

/// Returns the problems that a task has found as its outcome.
fn lines(problems: Vec<String>) -> Outcome {
    if problems.is_empty() { Ok(None) } else { Err(problems.join("\n")) }
}

/// Maximum length of a file with a password, in bytes.
const MAX_SECRET_BYTES: u64 = 4096;

fn read_secret(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    regular_file::open(path)?.0.take(MAX_SECRET_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

/// Refuses an application that could not run: it would fail with its first request at the earliest,
/// when the author of the change is gone. An application that has had the same problem before is
/// accepted: other changes must be possible.
fn check(options: &Options, candidate: &Candidate) -> Result<(), String> {
    for (spec, job) in &candidate.jobs {
        application_checks::progress(spec);
        job_launch::check(&options.php, spec, job)
            .map_err(|problem| format!("application \"{}\": {problem}", spec.name))?;
    }
    for (new, current) in &candidate.applications {
        let Some(found) = problem(options, new) else { continue };
        let before = current.as_ref().and_then(|current| problem(options, current));
        if before.as_ref() != Some(&found) {
            return Err(format!("application \"{}\": {found}", new.name));
        }
    }
    Ok(())
}

fn problem(options: &Options, spec: &ApplicationSpec) -> Option<Problem> {
    application_checks::progress(spec);
    preflight(options, spec).err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_arrives_as_the_task_that_it_was() {
        for kind in
            [Task::OpenLog, Task::ConnectLog, Task::OpenCache, Task::ReadTls, Task::ReadSecret]
        {
            let message = kind("/a b".to_owned()).message().unwrap();
            assert_eq!(Task::decode(&message).unwrap().message().unwrap(), message);
            for end in 0..message.len() {
                assert!(Task::decode(&message[..end]).is_err());
            }
        }
        assert!(Task::ReadDocument(Arc::default()).message().is_none());
        assert!(Task::decode(&[9, 0, 0, 0, 0]).is_err());
    }
}
