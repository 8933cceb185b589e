//! Processes that check applications.

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::thread::available_parallelism;

use howdah_launch::known_start::KnownStart;
use howdah_sys::pipe::{self, Received};
use howdah_sys::process::{self, Forked};
use howdah_wire::messages::{ApplicationSpec, FromPrototype, MAX_REPORT, Problem, ToPrototype};
use rustix::event::{PollFd, PollFlags, poll};

use super::{Findings, Starts, application, start_key};
use crate::apart;
use crate::options::Options;

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
}

impl Checkers {
    /// Starts the processes. Of the options, the user and the PHP programs are used. The caller must
    /// have one thread.
    pub fn start(options: &Options) -> io::Result<Checkers> {
        let count = available_parallelism().map_or(1, usize::from).min(MAX_PROCESSES);
        (0..count).map(|_| Checker::start(options)).collect::<Result<_, _>>().map(Checkers)
    }

    /// Returns the findings about applications, in their order.
    pub fn check(&mut self, all: &[ApplicationSpec]) -> Vec<Findings> {
        let (mut found, mut starts, mut rest) = (Vec::new(), Starts::default(), all);
        while !rest.is_empty() {
            let begun = self.begin(rest, &starts);
            let (now, later) = rest.split_at(begun.len());
            for ((checker, spec), begun) in self.0.iter_mut().zip(now).zip(begun) {
                found.push(match begun.and_then(|start| checker.end(start)) {
                    Ok((findings, start)) => {
                        starts.take(spec, &findings, start);
                        findings
                    }
                    Err(error) => {
                        let problem = format_args!("the process that checks it has ended: {error}");
                        Findings { errors: vec![Problem::of(problem)], ..Findings::default() }
                    }
                });
            }
            rest = later;
        }
        found
    }

    /// Begins with the next applications, at least one. One that starts PHP as another does waits
    /// until that has started it.
    fn begin(&self, all: &[ApplicationSpec], starts: &Starts) -> Vec<io::Result<KnownStart>> {
        let (mut begun, mut unknown) = (Vec::new(), HashSet::new());
        for (checker, spec) in self.0.iter().zip(all) {
            let key = start_key(spec);
            let start = key.as_ref().map(|key| starts.find(key, spec)).unwrap_or_default();
            if !start.is_known && key.is_some_and(|key| !unknown.insert(key)) {
                break;
            }
            begun.push(checker.begin(spec, &start).map(|()| start));
        }
        begun
    }
}

impl Checker {
    fn start(options: &Options) -> io::Result<Checker> {
        let (of_specs, specs) = pipe::new()?;
        let (findings, of_findings) = pipe::new()?;
        let parent = std::process::id();
        match process::fork()? {
            Forked::Parent(pid) => {
                Ok(Checker { pid, specs, findings, reader: pipe::Reader::new(MAX_REPORT) })
            }
            Forked::Child => {
                process::die_with_parent(Some(parent));
                drop((specs, findings));
                let served = serve(&of_specs, &of_findings, options);
                process::exit_now(i32::from(served.is_err()));
            }
        }
    }

    fn begin(&self, spec: &ApplicationSpec, start: &KnownStart) -> io::Result<()> {
        let KnownStart { values, files, is_known } = start.clone();
        let message = ToPrototype::Check { spec: spec.clone(), tmp: String::new() };
        pipe::send(&self.specs, &message.encode())?;
        pipe::send(&self.specs, &[u8::from(is_known)])?;
        Ok(pipe::send(&self.specs, &FromPrototype::Settings { values, files }.encode())?)
    }

    /// Waits for the findings, and for what the start has shown beside what was known.
    fn end(&mut self, mut start: KnownStart) -> io::Result<(Findings, KnownStart)> {
        let mut found = Findings::default();
        loop {
            let message = receive(&mut self.reader, &self.findings)?;
            match message.as_deref().map(FromPrototype::decode) {
                Some(Ok(FromPrototype::Failed { problem })) => found.errors.push(problem),
                Some(Ok(FromPrototype::Noticed { problem, is_note: true })) => {
                    found.notes.push(problem);
                }
                Some(Ok(FromPrototype::Noticed { problem, .. })) => found.warnings.push(problem),
                Some(Ok(FromPrototype::Settings { values, files })) => {
                    let is_known = start.is_known || !files.is_empty();
                    start = KnownStart { values: values.clone(), files, is_known };
                    found.settings = values;
                }
                Some(Ok(FromPrototype::Ready { .. })) => return Ok((found, start)),
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
    while let Some(message) = receive(&mut reader, specs)? {
        let is_known = receive(&mut reader, specs)?.is_some_and(|known| known == [1]);
        let start = receive(&mut reader, specs)?.unwrap_or_default();
        let (Ok(ToPrototype::Check { spec, .. }), Ok(FromPrototype::Settings { values, files })) =
            (ToPrototype::decode(&message), FromPrototype::decode(&start))
        else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let mut start = KnownStart { values, files, is_known };
        let Findings { errors, warnings, notes, settings } =
            application(options, &spec, &mut start);
        let noticed = |is_note| move |problem| FromPrototype::Noticed { problem, is_note };
        let all = errors.into_iter().map(|problem| FromPrototype::Failed { problem });
        let all = all.chain(warnings.into_iter().map(noticed(false)));
        let all = all.chain(notes.into_iter().map(noticed(true)));
        let values = FromPrototype::Settings { values: settings, files: start.files };
        let end = FromPrototype::Ready { version: String::new() };
        for message in all.chain([values, end]) {
            pipe::send(findings, &message.encode())?;
        }
    }
    Ok(())
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
