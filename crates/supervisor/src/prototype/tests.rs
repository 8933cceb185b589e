//! A fake prototype, played by the test, with real processes below it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use howdah_sys::packet::Received;
use howdah_sys::pidfd::PidFd;
use howdah_sys::process;
use howdah_wire::messages::{Exit, FromPrototype, MAX_MESSAGE, Usage};

use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use howdah_sys::{packet, pipe, process_tree, signals};
use howdah_wire::messages::{FromSupervisor, MAX_REPORT, Problem, ToPrototype};
use howdah_wire::queue::WorkerId;
use rustix::io::Errno;

use super::lifecycle::CHECK_INTERVAL;
use super::pending::{ANSWER_TIMEOUT, MAX_SPAWNS, SLOW_ANSWER_TIMEOUT};
use super::{Application, Report, Violation};

const NUMBER: u32 = 9;

/// An application whose prototype is a shell with three children, and the prototype's ends of its
/// sockets.
struct Fake {
    application: Application,
    shell: Child,
    children: Vec<u32>,
    handles: Vec<PidFd>,
    commands: OwnedFd,
    reports: OwnedFd,
    now: Instant,
}

impl Fake {
    /// Creates a prototype that sleeps and reads nothing.
    fn loading() -> Self {
        let fake = Fake::running("for i in 1 2 3; do sh -c 'sleep 600; :' & done; echo; wait");
        // Between `echo` and `wait` the shell still runs, which can take long on a busy machine.
        while process_tree::state_of(fake.shell.id()) != Some(b'S') {
            std::thread::yield_now();
        }
        fake
    }

    /// Like [`Fake::loading`], with PHP loaded.
    fn ready() -> Self {
        let mut fake = Fake::loading();
        fake.says(&FromPrototype::checked());
        assert!(matches!(fake.heard(), Ok(Report::ForRouter(FromSupervisor::Ready { .. }, _))));
        fake
    }

    fn running(script: &str) -> Self {
        let mut shell =
            Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
        let children = process_tree::children(shell.id());
        let (ours, commands) = packet::one_way().unwrap();
        let (read, reports) = pipe::new().unwrap();
        let mut application = Application::new("site".to_owned(), shell.id(), ours, read);
        application.output_owner = Some((None, None));
        let handles = children.iter().map(|child| PidFd::open(*child).unwrap()).collect();
        Fake { application, shell, children, handles, commands, reports, now: Instant::now() }
    }

    fn says(&self, message: &FromPrototype) {
        pipe::send(&self.reports, &message.encode()).unwrap();
    }

    fn heard(&mut self) -> Result<Report, Violation> {
        self.application.next_report(NUMBER, self.now)
    }

    /// Sends a report and returns the result.
    fn judged(&mut self, message: &FromPrototype) -> Result<Report, Violation> {
        self.says(message);
        self.heard()
    }

    #[track_caller]
    fn is_violation(&mut self, message: &FromPrototype) {
        let judged = self.judged(message);
        assert!(judged.is_err(), "{message:?}: {judged:?}");
    }

    /// Returns the messages to the prototype.
    fn asked(&mut self) -> Vec<(ToPrototype, Vec<OwnedFd>)> {
        let failures = self.application.request_workers(NUMBER, self.now);
        assert_eq!(failures, []);
        let mut buffer = vec![0; MAX_MESSAGE];
        std::iter::from_fn(|| match packet::receive(&self.commands, &mut buffer).unwrap() {
            Received::Packet(length, descriptors) => {
                Some((ToPrototype::decode(&buffer[..length]).unwrap(), descriptors))
            }
            _ => None,
        })
        .collect()
    }

    /// Requests a worker. Returns its id and the descriptors that the prototype gets for it.
    fn spawn(&mut self) -> (WorkerId, Vec<OwnedFd>) {
        self.application.spawn().unwrap();
        match self.asked().pop() {
            Some((ToPrototype::Spawn { worker }, descriptors)) => (worker, descriptors),
            other => panic!("{other:?}"),
        }
    }

    /// Requests a worker and reports that it runs as one of the children.
    fn started(&mut self, child: usize) -> WorkerId {
        let (worker, _) = self.spawn();
        let pid = self.children[child];
        let told = self.judged(&FromPrototype::Started { worker, pid });
        assert!(
            matches!(told, Ok(Report::ForRouter(FromSupervisor::Started { .. }, _))),
            "{told:?}"
        );
        worker
    }

    /// Advances the time.
    fn later(&mut self, time: Duration) -> Option<&'static str> {
        self.now += time;
        self.application.step(self.now)
    }

    /// Calls `step` in real time until a worker's process has ended.
    fn wait_for_end(&mut self, worker: WorkerId) {
        let begun = Instant::now();
        while !self
            .application
            .workers
            .process(worker)
            .unwrap()
            .handle
            .as_ref()
            .unwrap()
            .has_ended()
        {
            assert!(begun.elapsed() < Duration::from_secs(20), "it goes on");
            assert_eq!(self.application.step(Instant::now()), None);
            std::thread::sleep(Duration::from_millis(1));
        }
        self.application.worker_ended(worker, self.now);
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        // A process whose parent the test has killed is an orphan now.
        for (pid, handle) in self.children.iter().zip(&self.handles) {
            if !handle.has_ended() {
                process_tree::kill(*pid);
            }
        }
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

fn died(worker: WorkerId) -> FromPrototype {
    FromPrototype::Died { worker, pid: 1, status: Exit::Signal(9), was_idle: false }
}

fn ready_with(version: String) -> FromPrototype {
    FromPrototype::Ready { version, is_exposed: false, sends_messages: false }
}

fn failed() -> FromPrototype {
    FromPrototype::Failed { problem: Problem::of("x".repeat(30_000)) }
}

fn not_started(worker: WorkerId) -> FromPrototype {
    FromPrototype::NotStarted { worker, is_temporary: false, message: "x".repeat(30_000) }
}

const STRANGER: WorkerId = WorkerId { index: 7, incarnation: 7 };

#[test]
fn a_prototype_is_ready_or_has_failed_once() {
    Fake::ready().is_violation(&FromPrototype::checked());
    Fake::ready().is_violation(&failed());
    for message in [FromPrototype::checked(), failed(), died(STRANGER)] {
        let mut fake = Fake::loading();
        assert!(matches!(fake.judged(&failed()), Ok(Report::Internal)));
        assert!(fake.application.failure.as_ref().unwrap().message.len() < 20_000);
        assert!(fake.application.due(fake.now).is_some(), "it is to end by itself soon");
        fake.is_violation(&message);
    }
    let noticed = FromPrototype::Noticed { problem: Problem::of("x"), is_note: false };
    Fake::ready().is_violation(&noticed);
    Fake::loading().is_violation(&ready_with("8".repeat(1000)));
}

#[test]
fn what_is_no_message_is_heard_once() {
    for bytes in [&[0xff; 9][..], &[3, 0, 0, 0, 99, 1, 1], &[0, 0, 0, 0]] {
        let mut fake = Fake::ready();
        rustix::io::write(&fake.reports, bytes).unwrap();
        assert!(fake.heard().is_err(), "{bytes:?}");
        fake.application.terminate(Some("it reported nonsense"));
        fake.says(&FromPrototype::checked());
        assert!(matches!(fake.heard(), Ok(Report::Empty)));
        assert!(fake.application.reports().is_none() && !fake.application.has_buffered());
        assert!(!fake.shell.wait().unwrap().success(), "it was killed");
    }
}

#[test]
fn only_a_worker_that_was_asked_for_starts_and_only_once() {
    Fake::ready().is_violation(&FromPrototype::Started { worker: STRANGER, pid: 1 });
    Fake::ready().is_violation(&not_started(STRANGER));
    let mut fake = Fake::ready();
    let worker = fake.started(0);
    let pid = fake.children[1];
    fake.is_violation(&FromPrototype::Started { worker, pid });
    fake.is_violation(&not_started(worker));
    // A worker that is queued and not requested yet.
    let mut fake = Fake::loading();
    fake.application.spawn().unwrap();
    let worker = WorkerId { index: 0, incarnation: 1 };
    assert_eq!(fake.asked().len(), 0);
    fake.is_violation(&FromPrototype::Started { worker, pid });
}

#[test]
fn the_router_gets_no_descriptor_that_the_prototype_had() {
    let mut fake = Fake::ready();
    let (worker, theirs) = fake.spawn();
    let pid = fake.children[0];
    let told = fake.judged(&FromPrototype::Started { worker, pid }).unwrap();
    let Report::ForRouter(FromSupervisor::Started { application: NUMBER, pid: told, .. }, ours) =
        told
    else {
        panic!("{told:?}")
    };
    assert_eq!((told, ours.len(), theirs.len()), (pid, 2, 2));
    packet::send(&ours[0], b"hello", &[]).unwrap();
    assert!(matches!(packet::receive(&theirs[0], &mut [0; 9]), Ok(Received::Packet(5, _))));
    assert!(packet::send(&theirs[0], b"x", &[ours[0].as_fd()]).is_err(), "there is no way back");
    rustix::io::write(&theirs[1], b"output").unwrap();
    assert_eq!(rustix::io::read(&ours[1], &mut [0; 9][..]), Ok(6));
    assert_eq!(rustix::io::read(&ours[1], &mut [0; 9][..]), Err(Errno::AGAIN));
}

#[test]
fn a_worker_is_a_child_of_its_prototype_and_a_process_of_its_own() {
    for pid in [0, 1, std::process::id()] {
        let mut fake = Fake::ready();
        let (worker, _) = fake.spawn();
        fake.is_violation(&FromPrototype::Started { worker, pid });
    }
    let mut fake = Fake::ready();
    let pid = fake.children[0];
    fake.started(0);
    let (worker, _) = fake.spawn();
    fake.is_violation(&FromPrototype::Started { worker, pid });
}

#[test]
fn a_worker_dies_when_the_kernel_says_so_and_once() {
    Fake::ready().is_violation(&died(STRANGER));
    let mut fake = Fake::ready();
    let (asked, _) = fake.spawn();
    fake.is_violation(&died(asked));
    let mut fake = Fake::ready();
    let worker = fake.started(0);
    fake.is_violation(&died(worker));
    let mut fake = Fake::ready();
    let worker = fake.started(0);
    fake.application.kill(worker, signals::SIGKILL, fake.now);
    fake.wait_for_end(worker);
    let told = fake.judged(&died(worker)).unwrap();
    let pid = fake.children[0];
    assert!(
        matches!(told, Report::ForRouter(FromSupervisor::Died { pid: told, .. }, _) if told == pid),
        "{told:?}"
    );
    assert!(fake.application.is_idle());
    fake.is_violation(&died(worker));
}

#[test]
fn a_worker_that_had_ended_before_it_was_looked_at_has_no_process() {
    let mut fake = Fake::ready();
    let (worker, _) = fake.spawn();
    let told = fake.judged(&FromPrototype::Started { worker, pid: i32::MAX as u32 }).unwrap();
    assert!(
        matches!(told, Report::ForRouter(FromSupervisor::Started { pid: 0, .. }, _)),
        "{told:?}"
    );
    assert_eq!(fake.later(Duration::from_millis(900)), None);
    assert!(fake.later(Duration::from_millis(100)).is_some(), "its death is to be told");
    assert!(fake.judged(&died(worker)).is_ok());
}

#[test]
fn only_what_was_asked_is_answered_and_once() {
    let traced = |number| FromPrototype::Traced { number, stack: Ok(Vec::new()) };
    let measured = |workers| FromPrototype::Measured { base: 1, memory_limit: None, workers };
    Fake::ready().is_violation(&traced(5));
    Fake::ready().is_violation(&measured(Vec::new()));
    Fake::ready().is_violation(&FromPrototype::FilesChecked { changed: None });
    let mut fake = Fake::ready();
    let worker = fake.started(0);
    fake.application.trace(worker, 5, fake.now).unwrap();
    fake.application.measure(fake.now);
    fake.application.measure(fake.now);
    let asked: Vec<_> = fake.asked().into_iter().map(|(message, _)| message).collect();
    let workers = vec![worker];
    assert_eq!(asked, [ToPrototype::Trace { worker, number: 5 }, ToPrototype::Measure { workers }]);
    fake.is_violation(&traced(6));
    assert!(fake.judged(&traced(5)).is_ok() && fake.judged(&measured(Vec::new())).is_ok());
    fake.is_violation(&traced(5));
    fake.is_violation(&measured(Vec::new()));
    fake.application.measure(fake.now);
    let usage = usage_of(STRANGER);
    fake.is_violation(&measured(vec![usage]));
    fake.application.measure(fake.now);
    fake.is_violation(&measured(vec![usage_of(worker), usage_of(worker)]));
}

/// Returns the usage of a worker that claims 2^50 bytes.
fn usage_of(worker: WorkerId) -> Usage {
    let most = 1 << 50;
    Usage { worker, pss: most, private: most, peak: most, cpu_us: most, delay_us: most }
}

#[test]
fn forged_figures_are_the_kernels() {
    let mut fake = Fake::ready();
    let (honest, forged) = (fake.started(0), fake.started(1));
    fake.application.measure(fake.now);
    let said = FromPrototype::Measured {
        base: 1 << 50,
        memory_limit: Some(1 << 50),
        workers: vec![usage_of(forged)],
    };
    let told = fake.judged(&said).unwrap();
    let Report::ForRouter(FromSupervisor::Measured { base, workers, .. }, _) = told else {
        panic!("{told:?}")
    };
    assert!(base < 64 << 20, "{base}");
    assert_eq!(workers.iter().map(|usage| usage.worker).collect::<Vec<_>>(), [honest, forged]);
    for usage in workers {
        assert!(usage.peak > 0 && usage.peak < 64 << 20 && usage.pss < 64 << 20, "{usage:?}");
        assert!(usage.cpu_us < 60_000_000, "{usage:?}");
    }
}

#[test]
fn a_prototype_is_asked_for_a_few_workers_at_once() {
    let mut fake = Fake::ready();
    (0..100).for_each(|_| fake.application.spawn().unwrap());
    let asked = fake.asked();
    assert_eq!(asked.len(), MAX_SPAWNS);
    for (spawn, _) in asked {
        let ToPrototype::Spawn { worker } = spawn else { panic!("{spawn:?}") };
        let told = fake.judged(&not_started(worker)).unwrap();
        let Report::ForRouter(told, _) = told else { panic!("{told:?}") };
        assert!(told.encode().len() < 20_000, "what it says is bounded");
    }
    assert_eq!(fake.asked().len(), MAX_SPAWNS);
    assert!(fake.judged(&FromPrototype::checked()).is_err());
}

#[test]
fn whatever_is_passed_on_fits_a_message() {
    let mut fake = Fake::ready();
    let worker = fake.started(0);
    fake.application.trace(worker, 5, fake.now).unwrap();
    let mut message = FromPrototype::Traced { number: 5, stack: Ok(vec![String::new()]) };
    let room = MAX_REPORT - message.encode().len();
    message = FromPrototype::Traced { number: 5, stack: Ok(vec!["x".repeat(room)]) };
    assert_eq!(message.encode().len(), MAX_REPORT);
    let told = std::thread::scope(|scope| {
        // The pipe holds less than that.
        let reports = fake.reports.as_fd();
        scope.spawn(move || pipe::send(reports, &message.encode()));
        loop {
            match fake.application.next_report(NUMBER, fake.now).unwrap() {
                Report::Empty => std::thread::yield_now(),
                Report::ForRouter(told, _) => break told,
                other => panic!("{other:?}"),
            }
        }
    });
    assert!(told.encode().len() <= MAX_MESSAGE);
}

#[test]
fn a_prototype_that_sleeps_over_a_question_is_killed_and_a_busy_one_has_more_time() {
    let mut fake = Fake::ready();
    assert_eq!(fake.later(SLOW_ANSWER_TIMEOUT * 2), None, "nothing was asked");
    let (worker, _) = fake.spawn();
    assert_eq!(fake.later(ANSWER_TIMEOUT - CHECK_INTERVAL), None);
    fake.now += CHECK_INTERVAL;
    assert_eq!(fake.application.step(fake.now), Some("it does not answer"));
    fake.says(&not_started(worker));
    assert_eq!(fake.application.step(fake.now), None, "the answer has not been heard yet");
    assert!(fake.heard().is_ok());
    assert_eq!(fake.later(SLOW_ANSWER_TIMEOUT), None);

    let mut fake = Fake::running("echo; while :; do :; done");
    assert!(fake.judged(&FromPrototype::checked()).is_ok());
    fake.spawn();
    assert_eq!(fake.later(ANSWER_TIMEOUT * 5), None);
    assert_eq!(fake.later(ANSWER_TIMEOUT * 5), Some("it has not answered for ten seconds"));
    // A prototype that is dismissed has a deadline of its own.
    fake.application.dismiss();
    assert_eq!(fake.application.step(fake.now), None);
}

#[test]
fn a_prototype_that_is_stopped_is_killed_also_while_it_loads_php() {
    for mut fake in [Fake::loading(), Fake::ready()] {
        fake.application.set_stopped(true, fake.now);
        assert_eq!(fake.later(ANSWER_TIMEOUT / 2), None);
        fake.application.set_stopped(false, fake.now);
        assert_eq!(fake.later(ANSWER_TIMEOUT), None);
        fake.application.set_stopped(true, fake.now);
        fake.application.set_stopped(true, fake.now + ANSWER_TIMEOUT / 2);
        assert!(fake.application.due(fake.now).unwrap() <= fake.now + ANSWER_TIMEOUT);
        assert_eq!(fake.later(ANSWER_TIMEOUT), Some("it was stopped by a signal"));
    }
}

#[test]
fn a_worker_is_killed_with_what_it_has_started_though_all_are_stopped() {
    let mut fake = Fake::ready();
    let worker = fake.started(0);
    let begun = Instant::now();
    let below = loop {
        if let Some(below) = process_tree::children(fake.children[0]).pop() {
            break below;
        }
        assert!(begun.elapsed() < Duration::from_secs(10));
    };
    for pid in [fake.shell.id(), fake.children[0], below] {
        signals::send(pid, signals::SIGSTOP).unwrap();
    }
    fake.application.kill(worker, signals::SIGKILL, fake.now);
    fake.wait_for_end(worker);
    while process::read_proc_file(below, "stat").is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
    // Its prototype must report the exit status, and cannot.
    assert!(fake.later(ANSWER_TIMEOUT).is_some());
}

#[test]
fn a_worker_is_stopped_at_once_and_killed_when_its_script_has_been_looked_for() {
    for is_answered in [true, false] {
        let mut fake = Fake::ready();
        let worker = fake.started(0);
        let state = || process_tree::state_of(fake.children[0]);
        fake.application.trace(worker, 5, fake.now).unwrap();
        fake.application.kill(worker, signals::SIGKILL, fake.now);
        while state() != Some(b'T') {}
        assert_eq!(fake.later(ANSWER_TIMEOUT / 2), None);
        assert_eq!(fake.application.ending_processes.due(), None);
        if is_answered {
            let traced = FromPrototype::Traced { number: 5, stack: Err("x".to_owned()) };
            assert!(fake.judged(&traced).is_ok());
        } else {
            // A prototype that runs counts as slow, and signals of its children wake the shell.
            while fake.later(ANSWER_TIMEOUT / 2).is_none() {}
        }
        fake.application.step(fake.now);
        let process = fake.application.workers.process(worker).unwrap();
        let handle = Rc::clone(process.handle.as_ref().unwrap());
        while !handle.has_ended() {
            fake.application.step(Instant::now());
        }
    }
}

#[test]
fn a_worker_that_is_to_be_killed_before_it_has_started_is_killed_then() {
    let mut fake = Fake::ready();
    let (worker, _) = fake.spawn();
    fake.application.kill(worker, signals::SIGKILL, fake.now);
    let pid = fake.children[2];
    assert!(fake.judged(&FromPrototype::Started { worker, pid }).is_ok());
    fake.wait_for_end(worker);
}

#[test]
fn many_workers_are_measured_in_turns() {
    let mut fake = Fake::ready();
    assert_eq!(fake.application.choose_measured(), []);
    let started: Vec<_> = (0..3).map(|child| fake.started(child)).collect();
    let chosen = fake.application.choose_measured();
    assert_eq!(chosen.iter().map(|(owner, _)| *owner).collect::<Vec<_>>(), started);
    assert!(chosen.iter().all(|(_, figures)| figures.is_some()));
}

#[test]
fn where_the_kernel_confirms_no_process_its_prototype_is_to_kill_it() {
    let mut fake = Fake::ready();
    let worker = fake.started(0);
    fake.application.workers.process(worker).unwrap().handle = None;
    for _ in 0..2 {
        fake.application.kill(worker, signals::SIGKILL, fake.now);
        let asked: Vec<_> = fake.asked().into_iter().map(|(message, _)| message).collect();
        assert_eq!(asked, [ToPrototype::Kill { worker, signal: 9 }]);
    }
    assert!(fake.later(ANSWER_TIMEOUT).is_some(), "it has not said that it has done so");
    assert!(fake.judged(&died(worker)).is_ok());
    assert_eq!(fake.application.step(fake.now), None);
}

/// Random messages in random order cause no panic; the first violation is the last message handled,
/// and no more messages are passed on than there were requests.
#[test]
fn random_messages_of_a_prototype_are_answers_or_its_end() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |limit: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % limit
    };
    let mut fake = Fake::ready();
    let (mut violations, mut answers) = (0, 0);
    for _ in 0..2000 {
        let (ours, commands) = packet::one_way().unwrap();
        let (read, reports) = pipe::new().unwrap();
        fake.application = Application::new("site".to_owned(), fake.shell.id(), ours, read);
        (fake.commands, fake.reports) = (commands, reports);
        let mut asked = 1;
        for number in 0..12 {
            let owner = WorkerId { index: below(4) as u16, incarnation: below(3) as u16 };
            let pid = *[1, fake.children[0], fake.children[1], i32::MAX as u32]
                .get(below(4) as usize)
                .unwrap();
            match below(4) {
                0 => fake.application.spawn().unwrap(),
                1 => fake.application.measure(fake.now),
                2 => asked += usize::from(fake.application.trace(owner, number, fake.now).is_ok()),
                _ => {}
            }
            asked += fake.asked().len();
            let message = match below(8) {
                0 => FromPrototype::checked(),
                1 => FromPrototype::Traced { number: below(12) as u32, stack: Err("x".into()) },
                2 => FromPrototype::Measured {
                    base: below(u64::MAX),
                    memory_limit: None,
                    workers: vec![usage_of(owner)],
                },
                3 => died(owner),
                4 => not_started(owner),
                _ if number == 0 => FromPrototype::checked(),
                _ => FromPrototype::Started { worker: owner, pid },
            };
            match fake.judged(&message) {
                Ok(Report::ForRouter(told, _)) => {
                    assert!(told.encode().len() <= MAX_MESSAGE);
                    answers += 1;
                    // A death answers no request.
                    asked = (asked + usize::from(matches!(told, FromSupervisor::Died { .. })))
                        .checked_sub(1)
                        .expect("it has answered more than it was asked");
                }
                Ok(_) => {}
                Err(_) => {
                    violations += 1;
                    break;
                }
            }
            fake.application.step(fake.now);
        }
    }
    assert!(violations > 100 && answers > 1000, "{violations} {answers}");
}

#[test]
fn reports_without_a_request_have_a_rate() {
    for report in [
        FromPrototype::Booted { boot_us: 7, template: None, without: String::new() },
        FromPrototype::Changed { path: "/srv/a.php".to_owned() },
        FromPrototype::Fallback { problem: None },
    ] {
        let mut fake = Fake::ready();
        let mut accepted = 0;
        while accepted < 10_000 && fake.judged(&report).is_ok() {
            accepted += 1;
        }
        assert!((50..1_000).contains(&accepted), "{accepted}");
        fake.now += Duration::from_secs(1);
        assert!(fake.judged(&report).is_ok());
    }
}
