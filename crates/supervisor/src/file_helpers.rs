//! Processes that open and read files for the supervisor, whose event loop must not wait for a
//! disk.
//!
//! A network drive that does not answer stops the process that opens a file on it, or asks for its
//! attributes, for any time. A [`Task`] is therefore carried out by a process that is forked from
//! this one and sends back the open file. It continues with further tasks until it has had none for
//! a moment: a document may name thousands of files.
//!
//! - A task that takes longer than [`SLOW`] does not delay the others: another process does them.
//! - A task that makes no progress for its [time](Task::timeout) fails. Its process is left alone:
//!   it shows when the drive answers again. Until then, tasks for files of the same directory fail
//!   at once, so that the certificates of a thousand sites on the drive cost the time once.
//! - A task whose process is killed is carried out once more, unless it writes. A process that a
//!   signal has stopped is killed.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use howdah_sys::clock;

use crate::file_helper::{Answer, Helper, Work};
use crate::file_task::{Group, Origin, Outcome, Task};
use crate::options::Options;

/// Time after which a task that has not ended lets another process do the next ones.
const SLOW: Duration = Duration::from_millis(50);

/// Time without tasks after which a process ends.
const IDLE_TIME: Duration = Duration::from_secs(1);

/// Maximum number of processes whose tasks have not failed.
const MAX_BUSY: usize = 4;

/// Maximum number of processes that wait for a disk although their tasks have failed.
const MAX_HUNG: usize = 16;

/// Maximum number of tasks that wait. The router asks for all files of a document's logs at once.
const MAX_WAITING: usize = 50_000;

/// A task and the process that wants its outcome.
pub(crate) type Errand = (Task, Origin);

/// A task that has ended.
pub(crate) type Done = (Errand, Outcome);

/// The processes and the tasks that wait for one.
#[derive(Default)]
pub(crate) struct FileHelpers {
    running: Vec<Running>,
    /// Processes that have no more tasks and are about to end.
    ending: Vec<u32>,
    waiting: VecDeque<Waiting>,
}

/// A task that waits for a process.
struct Waiting {
    errand: Errand,
    /// The first process has ended unexpectedly.
    is_again: bool,
}

struct Running {
    helper: Helper,
    /// The helper has closed its copies of the server's sockets.
    has_begun: bool,
    state: State,
}

enum State {
    Idle {
        since: Instant,
    },
    Busy {
        errand: Errand,
        is_again: bool,
        begun_at: Instant,
        /// Time of the last known progress, and the file that was begun then.
        progress: (Instant, String),
    },
    /// The task has failed, and the process still waits for the disk.
    Hung {
        /// The file of the task, if it has one.
        file: Option<PathBuf>,
        group: Option<Group>,
        is_killed: bool,
    },
}

impl FileHelpers {
    /// Adds a task. It is begun by [`FileHelpers::advance`].
    pub(crate) fn add(&mut self, task: Task, origin: Origin) -> Result<(), Errand> {
        if self.waiting.len() < MAX_WAITING {
            self.waiting.push_back(Waiting { errand: (task, origin), is_again: false });
        } else {
            return Err((task, origin));
        }
        Ok(())
    }

    /// Begins tasks that wait, and fails those that take too long. Returns the tasks that have
    /// failed.
    pub(crate) fn advance(&mut self, now: Instant, options: &Options) -> Vec<Done> {
        let mut done = self.fail_late(now);
        self.end_idle(now);
        while let Some(at) = self.next() {
            let hangs = self.waiting.get(at).is_some_and(|waiting| self.is_hung(&waiting.errand.0));
            if hangs {
                let failed = self.waiting.remove(at).into_iter();
                done.extend(failed.map(|Waiting { errand, .. }| {
                    let error = not_answered("", errand.0.timeout());
                    (errand, Err(error))
                }));
                continue;
            }
            let Some(result) = self.begin(at, now, options) else { break };
            done.extend(result.err());
        }
        done
    }

    /// Returns the index of the task that is the next one: the first, but two do not write to the
    /// state directory at once.
    fn next(&self) -> Option<usize> {
        let is_writing = self.running.iter().any(|running| match &running.state {
            State::Busy { errand, .. } => errand.0.is_of_state(),
            State::Idle { .. } | State::Hung { .. } => false,
        });
        let waits = |waiting: &Waiting| is_writing && waiting.errand.0.is_of_state();
        self.waiting.iter().position(|waiting| !waits(waiting))
    }

    /// Begins a task that waits. Returns `None` if all processes are busy, or the task if no
    /// process can be started for it.
    fn begin(&mut self, at: usize, now: Instant, options: &Options) -> Option<Result<(), Done>> {
        let is_idle = |running: &Running| matches!(running.state, State::Idle { .. });
        let message = self.waiting.get(at)?.errand.0.message();
        if let Some(idle) = self.running.iter().position(is_idle) {
            let running = self.running.get_mut(idle)?;
            if message.is_some_and(|message| running.helper.send(&message).is_ok()) {
                running.state = State::begun(self.waiting.remove(at)?, now);
                return Some(Ok(()));
            }
            // A task without a message needs a fork with the current state of the supervisor.
            self.end(idle);
        }
        let busy = self.running.iter().filter_map(|running| match &running.state {
            State::Busy { begun_at, .. } => Some(now.saturating_duration_since(*begun_at) >= SLOW),
            _ => None,
        });
        let busy: Vec<_> = busy.collect();
        if busy.len() >= MAX_BUSY || busy.iter().any(|is_slow| !is_slow) {
            return None;
        }
        let waiting = self.waiting.remove(at)?;
        Some(match Helper::start(&First { task: &waiting.errand.0, options }) {
            Ok(helper) => {
                self.running.push(Running {
                    helper,
                    has_begun: false,
                    state: State::begun(waiting, now),
                });
                Ok(())
            }
            Err(error) => Err((waiting.errand, Err(format!("no process can be started: {error}")))),
        })
    }

    /// Fails tasks that have made no progress for too long.
    fn fail_late(&mut self, now: Instant) -> Vec<Done> {
        let mut done = Vec::new();
        for running in &mut self.running {
            let State::Busy { errand, progress, .. } = &mut running.state else { continue };
            let timeout = errand.0.timeout();
            if now.saturating_duration_since(progress.0) < timeout {
                continue;
            }
            if let Some((at, place)) = running.helper.progress() {
                let ago = Duration::from_micros(clock::monotonic_us().saturating_sub(at));
                // A place of a former task is older.
                if let Some(at) = Instant::now().checked_sub(ago).filter(|at| *at > progress.0) {
                    *progress = (at, place);
                }
                if now.saturating_duration_since(progress.0) < timeout {
                    continue;
                }
            }
            let (file, group) = (errand.0.file().map(Path::to_owned), errand.0.group());
            // The helper is useless for the next task of its kind, which begins anew. A helper that
            // looks at tables shows when their drive answers again.
            let is_killed = file.is_none() && group != Some(Group::Tables);
            if is_killed {
                running.helper.kill();
            }
            let hung = State::Hung { file, group, is_killed };
            let before = std::mem::replace(&mut running.state, hung);
            if let State::Busy { errand, progress: (_, place), .. } = before {
                done.push((errand, Err(not_answered(&place, timeout))));
            }
        }
        let hung =
            self.running.iter().filter(|running| matches!(running.state, State::Hung { .. }));
        if hung.count() > MAX_HUNG {
            let oldest = self.running.iter_mut().find_map(|running| match &mut running.state {
                State::Hung { is_killed: is_killed @ false, .. } => {
                    *is_killed = true;
                    Some(&running.helper)
                }
                _ => None,
            });
            oldest.into_iter().for_each(Helper::kill);
        }
        done
    }

    /// Returns true if another task for a file of the same directory or of the same group hangs, or
    /// if too many do.
    fn is_hung(&self, task: &Task) -> bool {
        let directory = task.file().map(Path::parent);
        let mut hung = self.running.iter().filter_map(|running| match &running.state {
            State::Hung { file, group, .. } => Some((file.as_deref(), *group)),
            _ => None,
        });
        hung.clone().count() > 2 * MAX_HUNG
            || hung.any(|(file, group)| {
                let is_beside = directory.is_some() && file.map(Path::parent) == directory;
                is_beside || group.is_some() && group == task.group()
            })
    }

    fn end_idle(&mut self, now: Instant) {
        let is_over = |running: &Running| match running.state {
            State::Idle { since } => now.saturating_duration_since(since) >= IDLE_TIME,
            _ => false,
        };
        while let Some(at) = self.running.iter().position(is_over) {
            self.end(at);
        }
    }

    /// Lets an idle process end: its socket is closed.
    fn end(&mut self, at: usize) {
        self.ending.push(self.running.remove(at).helper.pid());
    }

    /// Returns the sockets on which answers come, with the process ids.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = (u32, BorrowedFd<'_>)> {
        self.running.iter().map(|running| (running.helper.pid(), running.helper.socket().as_fd()))
    }

    /// Returns true if a task writes to the state directory, or waits for doing so.
    pub(crate) fn writes_state(&self) -> bool {
        let busy = self.running.iter().filter_map(|running| match &running.state {
            State::Busy { errand, .. } => Some(errand),
            _ => None,
        });
        // A document that is being kept is that of the next server, too.
        let need_not_end =
            |task: &Task| matches!(task, Task::KeepDocument(_) | Task::ProbeState { .. });
        let must_end = |task: &Task| task.is_of_state() && !need_not_end(task);
        let waiting = self.waiting.iter().map(|waiting| &waiting.errand);
        waiting.chain(busy).any(|(task, _)| must_end(task))
    }

    /// Returns true while a new process may have copies of the server's sockets.
    pub(crate) fn may_have_sockets(&self) -> bool {
        self.running.iter().any(|running| !running.has_begun)
    }

    /// Returns the process ids.
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        let running = self.running.iter().map(|running| running.helper.pid());
        running.chain(self.ending.iter().copied())
    }

    /// Returns the time of the next step.
    pub(crate) fn due(&self) -> Option<Instant> {
        let steps = self.running.iter().filter_map(|running| match &running.state {
            State::Idle { since } => Some(*since + IDLE_TIME),
            State::Busy { errand, progress: (since, _), .. } => Some(*since + errand.0.timeout()),
            State::Hung { .. } => None,
        });
        let busy = self.running.iter().filter_map(|running| match &running.state {
            State::Busy { begun_at, .. } => Some(*begun_at + SLOW),
            _ => None,
        });
        let has_room = self.next().is_some() && busy.clone().count() < MAX_BUSY;
        steps.chain(busy.max().filter(|_| has_room)).min()
    }

    /// Takes the answers of a process. Returns the task that has ended.
    pub(crate) fn receive(&mut self, pid: u32, now: Instant) -> Option<Done> {
        let at = self.running.iter().position(|running| running.helper.pid() == pid)?;
        let running = self.running.get_mut(at)?;
        loop {
            let answer = running.helper.receive();
            running.has_begun |= !matches!(answer, Answer::Nothing);
            match (answer, &mut running.state) {
                (Answer::Nothing, _) => return None,
                (Answer::Begun, _) => {}
                (Answer::Done(outcome), state) => {
                    let before = std::mem::replace(state, State::Idle { since: now });
                    let errand = before.errand()?;
                    // Its memory is that of this moment, which the next task of the kind cannot
                    // use.
                    if errand.0.message().is_none() {
                        self.end(at);
                    }
                    return Some((errand, outcome));
                }
                (Answer::Gone, _) => break,
            }
        }
        running.helper.kill();
        self.ending.push(pid);
        let state = self.running.remove(at).state;
        self.cut_off(state)
    }

    /// Handles a task whose process has ended: another process carries it out, once. Returns a task
    /// that has failed.
    fn cut_off(&mut self, state: State) -> Option<Done> {
        let State::Busy { errand, is_again, .. } = state else { return None };
        if is_again || errand.0.is_of_state() {
            let error = "the process that opens it has ended unexpectedly".to_owned();
            return Some((errand, Err(error)));
        }
        self.waiting.push_front(Waiting { errand, is_again: true });
        None
    }

    /// Kills a process that a signal has stopped, unless it writes.
    pub(crate) fn stopped(&self, pid: u32) {
        let stopped = self.running.iter().find(|running| running.helper.pid() == pid);
        let writes = |running: &Running| match &running.state {
            State::Busy { errand, .. } => errand.0.is_of_state(),
            State::Idle { .. } | State::Hung { .. } => false,
        };
        if let Some(running) = stopped.filter(|running| !writes(running)) {
            running.helper.kill();
        }
    }

    /// Handles the end of a process, which has been reaped: its id may be another one's. `None` if
    /// it was not one of these.
    pub(crate) fn ended(&mut self, pid: u32) -> Option<Vec<Done>> {
        if let Some(at) = self.ending.iter().position(|other| *other == pid) {
            self.ending.remove(at);
            return Some(Vec::new());
        }
        let at = self.running.iter().position(|running| running.helper.pid() == pid)?;
        let Running { helper, state, .. } = self.running.remove(at);
        // An answer that has come before the end counts.
        let answer = loop {
            match helper.receive() {
                Answer::Begun => {}
                Answer::Done(outcome) => break Some(outcome),
                Answer::Nothing | Answer::Gone => break None,
            }
        };
        let done = match answer {
            Some(outcome) => state.errand().map(|errand| (errand, outcome)),
            None => self.cut_off(state),
        };
        Some(done.into_iter().collect())
    }

    /// Kills all processes. Their ends are not waited for: they may wait for a disk.
    pub(crate) fn kill(&self) {
        self.running.iter().for_each(|running| running.helper.kill());
    }
}

/// The work of a new process.
struct First<'s> {
    task: &'s Task,
    options: &'s Options,
}

impl Work for First<'_> {
    fn first(&self) -> Outcome {
        self.task.carry_out(self.options)
    }

    fn next(&self, message: &[u8]) -> Outcome {
        match Task::decode(message) {
            Ok(task) => task.carry_out(self.options),
            Err(_) => Err("the message is malformed".to_owned()),
        }
    }
}

impl State {
    fn begun(Waiting { errand, is_again }: Waiting, now: Instant) -> State {
        State::Busy { errand, is_again, begun_at: now, progress: (now, String::new()) }
    }

    /// Returns the task, if it has not ended.
    fn errand(self) -> Option<Errand> {
        match self {
            State::Busy { errand, .. } => Some(errand),
            State::Idle { .. } | State::Hung { .. } => None,
        }
    }
}

/// Returns the message that a file system does not answer, with the remedy. `place` is the file,
/// unless the error is shown behind its name.
pub(crate) fn not_answered(place: &str, timeout: Duration) -> String {
    let separator = if place.is_empty() { "" } else { ": " };
    let seconds = timeout.as_secs();
    format!(
        "{place}{separator}its file system has not answered for {seconds} s; see to the disk or \
         network drive"
    )
}
