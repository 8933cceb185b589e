//! `howdah check`: whether what the supervisor would do for a document can be done. Nothing is made,
//! changed or bound.
//!
//! What can be tried without a trace is tried, by the code that does it in a server: a prototype is
//! started and becomes who it shall be. What cannot is looked at: a control group is not entered, files
//! are not made, and a root of an application's own is not mounted, so that PHP is not loaded there.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use howdah_sys::pipe::{self, Received};
use howdah_sys::{packet, process, signals};
use howdah_wire::messages::{ApplicationSpec, FromPrototype, MAX_REPORT, Problem, ToPrototype};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, FileType};

use crate::control_groups::ControlGroups;
use crate::launch::Launch;
use crate::options::Options;
use crate::place::Place;
use crate::prototype::{self, Requirements};
use crate::{certificates, pid_file, sockets};

pub use crate::certificates::read_for_tls;
pub use crate::programs::trusted as program;
pub use crate::store::look_at_log as log;

/// How long loading PHP may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Most of what PHP says that is passed on, in bytes.
const MOST_SAID: usize = 16 * 1024;

/// What was found out about an application.
#[derive(Default)]
pub struct Findings {
    /// Why it cannot run.
    pub error: Option<Problem>,
    /// What is no reason not to run.
    pub warnings: Vec<Problem>,
    /// What may be meant so.
    pub notes: Vec<Problem>,
}

/// Looks whether an application could run. Of the options, the user and the programs count. The caller
/// must have no other children.
pub fn application(options: &Options, spec: &ApplicationSpec) -> Findings {
    let mut findings = Findings::default();
    findings.error = try_application(options, spec, &mut findings).err();
    findings
}

fn try_application(
    options: &Options,
    spec: &ApplicationSpec,
    findings: &mut Findings,
) -> Result<(), Problem> {
    let Requirements { executable, identity } = prototype::requirements(options, spec)?;

    fn failed(error: impl Into<io::Error>) -> Problem {
        Problem::of(format_args!("cannot start a process: {}", error.into()))
    }
    let (said, output) = pipe::new().map_err(failed)?;
    let (commands, socket) = packet::one_way().map_err(failed)?;
    let (heard, reports) = pipe::new().map_err(failed)?;
    let check = ToPrototype::Check { spec: spec.clone(), tmp: options.tmp.display().to_string() };
    let launch =
        Launch { spec, identity: &identity, executable, socket, reports, output, is_dry_run: true };
    let pid = launch.start(&mut ControlGroups::default()).map_err(failed)?;
    let sent = packet::send(&commands, &check.encode(), &[]);
    let ended = sent.map_err(failed).and_then(|()| listen(&heard, &said, findings));
    let _ = signals::send(pid, signals::SIGKILL);
    let exit = process::wait();
    ended?.unwrap_or_else(|| {
        Err(Problem::of(match exit {
            Some((_, process::Exit::Status(status))) => {
                format!("its prototype exited with status {status}")
            }
            _ => "its prototype was killed, or took too long to load PHP".to_owned(),
        }))
    })
}

/// Hears what the new process has to say, until it says whether the application can run; `None` if it
/// ends without that.
fn listen(
    reports: &OwnedFd,
    said: &OwnedFd,
    findings: &mut Findings,
) -> Result<Option<Result<(), Problem>>, Problem> {
    let deadline = Instant::now() + PATIENCE;
    let (mut reader, mut text) = (pipe::Reader::new(MAX_REPORT), Vec::new());
    let (mut ended, mut speaks) = (None, true);
    while ended.is_none() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        let left = Timespec { tv_sec: left.as_secs() as i64 + 1, tv_nsec: 0 };
        let mut sources = vec![PollFd::from_borrowed_fd(reports.as_fd(), PollFlags::IN)];
        sources.extend(speaks.then(|| PollFd::from_borrowed_fd(said.as_fd(), PollFlags::IN)));
        if !reader.has_read() {
            let _ = poll(&mut sources, Some(&left));
        }
        speaks = speaks && take(said, &mut text);
        let message = match reader.receive(reports) {
            Ok(Received::Message(message)) => FromPrototype::decode(&message),
            Ok(Received::Empty) => continue,
            _ => break,
        };
        match message {
            Ok(FromPrototype::Noticed { problem, is_note: true }) => findings.notes.push(problem),
            Ok(FromPrototype::Noticed { problem, .. }) => findings.warnings.push(problem),
            Ok(FromPrototype::Ready { .. }) => ended = Some(Ok(())),
            Ok(FromPrototype::Failed { problem }) => ended = Some(Err(problem)),
            _ => return Err(Problem::of("its prototype sent nonsense")),
        }
    }
    take(said, &mut text);
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    // What is the reason for a failure is told as such.
    let failure = match &ended {
        Some(Err(problem)) => problem.message.clone(),
        _ => String::new(),
    };
    let lines = lines.filter(|line| !failure.contains(line.trim()));
    findings.warnings.extend(lines.map(Problem::of));
    Ok(ended)
}

/// Takes what was said, and forgets what is too much. `false` when there will be no more.
fn take(said: &OwnedFd, text: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 4096];
    loop {
        match rustix::io::read(said, &mut buffer) {
            Ok(0) => return false,
            Ok(length) => {
                let room = MOST_SAID.saturating_sub(text.len());
                text.extend_from_slice(&buffer[..length.min(room)]);
            }
            Err(_) => return true,
        }
    }
}

/// Looks whether a listener's socket could be made, as far as that can be told without making it.
pub fn socket(address: &str) -> Result<(), String> {
    let Some(path) = address.strip_prefix("unix:").filter(|path| !path.starts_with('@')) else {
        return Ok(());
    };
    let look = || -> io::Result<()> {
        let place = Place::find(Path::new(path))?;
        place.access(Access::WRITE_OK | Access::EXEC_OK)?;
        match place.kind()? {
            None | Some(FileType::Socket) => Ok(()),
            Some(_) => Err(io::ErrorKind::AddrInUse.into()),
        }
    };
    look().map_err(|error| sockets::explain(address, &error))
}

/// A certificate bundle that is stored below the directory for the server's state.
pub fn stored(state: &Path, name: &str) -> Option<Vec<u8>> {
    certificates::stored(state, name).ok()
}

/// Looks whether the PID file could be written.
pub fn pid(path: &Path) -> io::Result<()> {
    let place = Place::find(path)?;
    place.access(Access::WRITE_OK | Access::EXEC_OK)?;
    pid_file::check(&place).map(|_| ())
}
