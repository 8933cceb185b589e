//! Processes that check applications.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::thread::available_parallelism;

use howdah_launch::known_start::KnownStart;
use howdah_sys::pipe::{self, Received};
use howdah_sys::process::{self, Forked};
use howdah_wire::bytes::{Decoder, Encode, Malformed};
use howdah_wire::messages::{ApplicationSpec, FromPrototype, MAX_REPORT, Problem, ToPrototype};
use rustix::event::{PollFd, PollFlags, poll};

use super::{Findings, NumberedStart, PhpSettings, Starts, application, start_key};
use crate::apart;
use crate::options::{Options, PhpProgram, UnusableProgram};

/// Maximum number of processes.
const MAX_PROCESSES: usize = 4;

/// Processes that check applications, as many as there are processors. They are started before a
/// document is read: each application is tried in a process that is forked for it, and a fork copies
/// the tables of all memory.
pub struct Checkers(Vec<Checker>);

struct Checker {
    pid: u32,
    specs: OwnedFd,
    findings: OwnedFd,
    reader: pipe::Reader,
    /// Numbers of the starts that were sent to this process.
    sent_starts: HashSet<u32>,
    /// The application that it checks.
    running: Option<Running>,
}

/// An application that is being checked.
struct Running {
    index: usize,
    key: Option<Vec<u8>>,
    known: Option<NumberedStart>,
}

impl Checkers {
    /// Starts the processes. Of the options, the user and the directory for temporary files are used.
    /// The caller must have one thread.
    pub fn start(options: &Options) -> io::Result<Checkers> {
        let count = available_parallelism().map_or(1, usize::from).min(MAX_PROCESSES);
        (0..count).map(|_| Checker::start(options)).collect::<Result<_, _>>().map(Checkers)
    }

    /// Returns the findings about applications, in their order. If a process has ended, its
    /// application is tried by another one.
    pub fn check(
        mut self,
        php: &[PhpProgram],
        unusable: &[UnusableProgram],
        all: &[ApplicationSpec],
    ) -> Vec<Findings> {
        let programs = programs(php, unusable);
        for checker in &self.0 {
            // A dead process is detected when its findings are read.
            let _ = pipe::send(&checker.specs, &programs);
        }
        let (mut found, mut starts) = (BTreeMap::new(), Starts::default());
        let (mut rest, mut again) = ((0..all.len()).collect::<VecDeque<_>>(), HashSet::new());
        let mut error = io::Error::from(io::ErrorKind::UnexpectedEof);
        loop {
            self.begin(all, &mut rest, &starts);
            let Some(number) = self.wait() else { break };
            let checker = &mut self.0[number];
            let Some(running) = checker.running.take() else { break };
            let Running { index, key, known } = running;
            let (findings, shown) = match checker.end(known.as_ref()) {
                Ok(ended) => ended,
                Err(problem) => {
                    // The rest of its messages is about this application.
                    drop(self.0.remove(number));
                    error = problem;
                    if again.insert(index) {
                        rest.push_front(index);
                    } else {
                        found.insert(index, ended(&error));
                    }
                    continue;
                }
            };
            let known = known.as_ref().map(|known| &*known.start);
            if let Some(start) = shown.as_ref().or(known)
                && let Some(key) = &key
                // A problem of one is reported for each.
                && findings.errors.is_empty()
                && findings.warnings.is_empty()
            {
                starts.add(key, &all[index], start);
            }
            found.insert(index, findings);
        }
        (0..all.len()).map(|index| found.remove(&index).unwrap_or_else(|| ended(&error))).collect()
    }

    /// Gives the next applications to processes that have none. One that starts PHP as another does
    /// waits until that has started it.
    fn begin(&mut self, all: &[ApplicationSpec], rest: &mut VecDeque<usize>, starts: &Starts) {
        for number in 0..self.0.len() {
            if self.0[number].running.is_some() {
                continue;
            }
            let Some(index) = rest.front().copied() else { return };
            let spec = &all[index];
            let key = start_key(spec);
            let known = key.as_ref().and_then(|key| starts.find(key, spec));
            let starts_php = |other: &Running| other.known.is_none() && other.key == key;
            let mut running = self.0.iter().filter_map(|checker| checker.running.as_ref());
            if known.is_none() && key.is_some() && running.any(starts_php) {
                return;
            }
            rest.pop_front();
            let checker = &mut self.0[number];
            // A dead process is detected when its findings are read.
            let _ = checker.begin(spec, known.as_ref());
            checker.running = Some(Running { index, key, known });
        }
    }

    /// Waits for a process that has findings, and returns its place; `None` if none checks an
    /// application.
    fn wait(&self) -> Option<usize> {
        let busy: Vec<_> =
            (0..self.0.len()).filter(|number| self.0[*number].running.is_some()).collect();
        let mut polled: Vec<_> = { busy.iter() }
            .map(|number| PollFd::new(&self.0[*number].findings, PollFlags::IN))
            .collect();
        if polled.len() > 1 {
            let _ = rustix::io::retry_on_intr(|| poll(&mut polled, None));
        }
        let ready = polled.iter().position(|polled| !polled.revents().is_empty()).unwrap_or(0);
        busy.get(ready).copied()
    }
}

/// Returns the findings about an application whose process has ended.
fn ended(error: &io::Error) -> Findings {
    let problem = format_args!("the process that checks it has ended: {error}");
    Findings { errors: vec![Problem::of(problem)], ..Findings::default() }
}

impl Checker {
    fn start(options: &Options) -> io::Result<Checker> {
        let (of_specs, specs) = pipe::new()?;
        let (findings, of_findings) = pipe::new()?;
        let parent = std::process::id();
        match process::fork()? {
            Forked::Parent(pid) => {
                let reader = pipe::Reader::new(MAX_REPORT);
                let sent_starts = HashSet::new();
                Ok(Checker { pid, specs, findings, reader, sent_starts, running: None })
            }
            Forked::Child => {
                process::die_with_parent(Some(parent));
                drop((specs, findings));
                let served = serve(&of_specs, &of_findings, options);
                process::exit_now(i32::from(served.is_err()));
            }
        }
    }

    /// Sends an application, the number of the start that is known, and that start if it is new.
    fn begin(&mut self, spec: &ApplicationSpec, known: Option<&NumberedStart>) -> io::Result<()> {
        let (tmp, variables) = (String::new(), Vec::new());
        let message = ToPrototype::Check { spec: spec.clone(), tmp, variables };
        pipe::send(&self.specs, &message.encode())?;
        let is_new = known.is_some_and(|known| self.sent_starts.insert(known.number));
        let mut number = Vec::new();
        number.put_u32(known.map_or(0, |known| known.number));
        number.put_u8(u8::from(is_new));
        pipe::send(&self.specs, &number)?;
        if let Some(known) = known.filter(|_| is_new) {
            pipe::send(&self.specs, &message_of(&known.start))?;
        }
        Ok(())
    }

    /// Waits for the findings, and for the start that they have shown, unless it is the one that was
    /// known.
    fn end(&mut self, known: Option<&NumberedStart>) -> io::Result<(Findings, Option<KnownStart>)> {
        let (mut found, mut shown) = (Findings::default(), None);
        if let Some(known) = known {
            found.settings = known.settings.clone();
        }
        loop {
            let message = receive(&mut self.reader, &self.findings)?;
            match message.as_deref().map(FromPrototype::decode) {
                Some(Ok(FromPrototype::Failed { problem })) => found.errors.push(problem),
                Some(Ok(FromPrototype::Noticed { problem, is_note: true })) => {
                    found.notes.push(problem);
                }
                Some(Ok(FromPrototype::Noticed { problem, .. })) => found.warnings.push(problem),
                Some(Ok(FromPrototype::Settings { values, files })) => {
                    found.settings = Rc::<PhpSettings>::new(values.clone());
                    shown = Some(KnownStart { is_known: !files.is_empty(), values, files });
                }
                Some(Ok(FromPrototype::Ready { .. })) => return Ok((found, shown)),
                _ => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }
}

impl Drop for Checker {
    fn drop(&mut self) {
        apart::end(self.pid);
    }
}

/// Checks applications until the other end is closed.
fn serve(specs: &OwnedFd, findings: &OwnedFd, options: &Options) -> io::Result<()> {
    let mut reader = pipe::Reader::new(usize::MAX);
    let malformed = |_: Malformed| io::Error::from(io::ErrorKind::InvalidData);
    let Some(programs) = receive(&mut reader, specs)? else { return Ok(()) };
    let (found, mut unusable_php) = read_programs(&programs).map_err(malformed)?;
    let mut php = Vec::new();
    for (version, path) in found {
        match PhpProgram::open(version, path.clone().into()) {
            Ok(program) => php.push(program),
            Err(error) => {
                let reason = format!("cannot be opened: {error}");
                unusable_php.push(UnusableProgram { path: path.into(), reason });
            }
        }
    }
    let Options { user, private_user, tmp, .. } = options;
    let options = Options {
        user: user.clone(),
        private_user: *private_user,
        php,
        unusable_php,
        tmp: tmp.clone(),
        ..Options::default()
    };
    let mut starts = HashMap::new();
    while let Some(message) = receive(&mut reader, specs)? {
        let Ok(ToPrototype::Check { spec, .. }) = ToPrototype::decode(&message) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let number = receive(&mut reader, specs)?.unwrap_or_default();
        let mut number = Decoder(&number);
        let (number, is_new) = (number.u32().map_err(malformed)?, number.u8().map_err(malformed)?);
        if is_new == 1 {
            let told = receive(&mut reader, specs)?.unwrap_or_default();
            let Ok(FromPrototype::Settings { values, files }) = FromPrototype::decode(&told) else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            starts.insert(number, KnownStart { values, files, is_known: true });
        }
        let known = starts.get(&number).cloned().unwrap_or_default();
        let mut start = known.clone();
        let Findings { errors, warnings, notes, .. } = application(&options, &spec, &mut start);
        let noticed = |is_note| move |problem| FromPrototype::Noticed { problem, is_note };
        let all = errors.into_iter().map(|problem| FromPrototype::Failed { problem });
        let all = all.chain(warnings.into_iter().map(noticed(false)));
        let all = all.chain(notes.into_iter().map(noticed(true)));
        for message in all {
            pipe::send(findings, &message.encode())?;
        }
        if start != known {
            pipe::send(findings, &message_of(&start))?;
        }
        pipe::send(findings, &FromPrototype::checked().encode())?;
    }
    Ok(())
}

fn message_of(start: &KnownStart) -> Vec<u8> {
    let KnownStart { values, files, .. } = start.clone();
    FromPrototype::Settings { values, files }.encode()
}

/// Returns the programs of PHP as a message: those that can be used, and those that cannot.
fn programs(php: &[PhpProgram], unusable: &[UnusableProgram]) -> Vec<u8> {
    let mut message = Vec::new();
    let path = |path: &std::path::Path| path.to_string_lossy().into_owned();
    let php = php.iter().map(|one| (one.version.clone(), path(&one.path)));
    let unusable = unusable.iter().map(|one| (path(&one.path), one.reason.clone()));
    for list in [php.collect::<Vec<_>>(), unusable.collect()] {
        message.put_u32(u32::try_from(list.len()).unwrap_or(0));
        for (first, second) in list {
            message.put_bytes(first.as_bytes());
            message.put_bytes(second.as_bytes());
        }
    }
    message
}

/// Versions and paths of programs, and those that cannot be used.
type ProgramLists = (Vec<(String, String)>, Vec<UnusableProgram>);

fn read_programs(message: &[u8]) -> Result<ProgramLists, Malformed> {
    let mut reader = Decoder(message);
    let mut list = || -> Result<Vec<(String, String)>, Malformed> {
        (0..reader.u32()?)
            .map(|_| Ok((reader.text()?.to_owned(), reader.text()?.to_owned())))
            .collect()
    };
    let (php, unusable) = (list()?, list()?);
    let unusable = { unusable.into_iter() }
        .map(|(path, reason)| UnusableProgram { path: path.into(), reason });
    Ok((php, unusable.collect()))
}

/// Waits for a message; `None` once the other end is closed.
fn receive(reader: &mut pipe::Reader, pipe: &OwnedFd) -> io::Result<Option<Vec<u8>>> {
    loop {
        match reader.receive(pipe)? {
            Received::Message(message) => return Ok(Some(message)),
            Received::Closed => return Ok(None),
            Received::Empty => {
                let mut polled = [PollFd::new(pipe, PollFlags::IN)];
                rustix::io::retry_on_intr(|| poll(&mut polled, None))?;
            }
        }
    }
}
