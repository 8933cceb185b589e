//! Attacks on a server from within, and the conditions that must hold meanwhile and afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use serde_json::json;

use crate::attacker::Attempt;
use crate::bystander::{Bystander, request};
use crate::expectations::{Wanted, users_of};
use crate::setup::{IPC_KEY, SHARED_FILE, Setup};
use harness::time::Stopwatch;
use harness::{control, eventually, processes, tls};

/// The attacker's phases, in this order: those without a trace come first, and those that may end
/// its own application last.
const PHASES: [&str; 7] = ["look", "nudge", "hurt", "exhaust", "junk", "everybody", "own"];

/// Phases that cost no process of the attacker's application.
const HARMLESS_PHASES: [&str; 4] = ["look", "nudge", "hurt", "exhaust"];

/// Descriptor with which an application sends mail.
const MAIL: u32 = 110;

/// Longest time that a phase takes.
const PHASE: Duration = Duration::from_secs(60);

/// An attacker that reports nothing for so long has been killed with its worker.
const SILENCE: Duration = Duration::from_secs(5);

/// Maximum time for which the attacker's own application may be away after it has harmed itself.
const RECOVERY: Duration = Duration::from_secs(60);

/// Processes by their kinds.
type Tree = BTreeMap<&'static str, BTreeSet<u32>>;

impl Setup {
    /// Attacks by every means, and fails the test if that had an effect on another site.
    pub fn withstands_everything(self) {
        let mut problems = self.shared_descriptors();
        // The server keeps the document that it serves soon after its start.
        for name in ["state/format", "state/served.json"] {
            let file = self.private.join(name);
            harness::eventually("the document is kept", || file.exists().then_some(()));
        }
        let (before, files) = (self.others(), names(&self.private));
        let shared = self.ask_what_is_shared();
        let bystander = Bystander::start(self.server.address);
        for phase in PHASES {
            let begun = Instant::now();
            let (attempts, ended) = self.attack(phase);
            println!("\n{phase}: {} attempts in {:.1?}", attempts.len(), begun.elapsed());
            problems.extend(self.judge(phase, &attempts));
            if !ended && HARMLESS_PHASES.contains(&phase) {
                problems.push(format!("{phase} did not end: {}", self.errors()));
            }
            if !processes::is_alive(self.server.supervisor()) {
                problems.push(format!("{phase} has ended the server"));
                break;
            }
            problems.extend(self.recovers(phase));
            let now = self.others();
            if now != before {
                problems.push(format!("after {phase}, {before:?} have become {now:?}"));
            }
        }
        let observed = bystander.stop();
        let (requests, failures) = (observed.requests, observed.failures.len());
        println!("\nthe other site: {requests} requests, slowest {:.1?}", observed.slowest);
        problems.extend(observed.failures.into_iter().take(5));
        if failures > 0 {
            problems.push(format!("{failures} requests of the other site failed"));
        }
        if before.get("other worker").is_none_or(|workers| !observed.workers.is_subset(workers)) {
            problems.push(format!("the other site was served by {:?}", observed.workers));
        }
        problems.extend(self.serves_tls().err());
        let made: Vec<_> = names(&self.private).difference(&files).cloned().collect();
        if !made.is_empty() {
            problems.push(format!("files were made that only root can make: {made:?}"));
        }
        let now = self.ask_what_is_shared();
        if !self.circumstances.sites_share_user && now != shared {
            problems.push(format!("what the other site shares was {shared:?} and is {now:?}"));
        }
        problems.iter().for_each(|problem| println!("PROBLEM {problem}"));
        assert!(problems.is_empty(), "{} problems", problems.len());
    }

    // -- the attack --

    /// Processes that the attack is on: the most harmless to lose come first.
    pub fn targets(&self) -> Vec<(&'static str, u32, String)> {
        const TITLES: [(&str, &str); 8] = [
            ("other worker", "howdah: \"site\" application"),
            ("other prototype", "howdah: \"site\" prototype"),
            ("zygote", "zygote"),
            ("control", "howdah: control"),
            ("mail", "howdah: mail"),
            ("telemetry", "howdah: telemetry"),
            ("dashboard", "howdah: dashboard"),
            ("router", "howdah: router"),
        ];
        let found = self.server.processes();
        let of = |(name, title): (&'static str, &str)| {
            // The zygote's title has the version of PHP in it.
            let is_it =
                move |found: &str| found == title || name == title && found.ends_with(title);
            let those = found.iter().filter(move |process| is_it(&process.title));
            those.map(|process| (name, process.pid, process.title.clone())).collect::<Vec<_>>()
        };
        let mut targets: Vec<_> = TITLES.into_iter().flat_map(of).collect();
        targets.push(("supervisor", self.server.supervisor(), "serve".to_owned()));
        targets
    }

    /// Processes that an attack must not replace. The control process and the mail process may end
    /// by themselves.
    pub fn others(&self) -> Tree {
        let ends = |name: &str| matches!(name, "control" | "mail");
        // The server answers before it has started the dashboard process.
        eventually("the dashboard process runs", || {
            let mut others = Tree::new();
            for (name, pid, _) in self.targets().into_iter().filter(|(name, ..)| !ends(name)) {
                others.entry(name).or_default().insert(pid);
            }
            others.contains_key("dashboard").then_some(others)
        })
    }

    /// Runs a phase. Returns the report and whether it is complete.
    pub fn attack(&self, phase: &str) -> (Vec<Attempt>, bool) {
        // The control process and the mail process may exist only while they are in use.
        let _ = request(self.server.address, "GET", "/mail.php", b"");
        let _ = control::ask(&self.server.site.control_socket(), "GET", "/status", b"");
        let before = self.report().len();
        let body = json!(self.arguments_of(phase)).to_string();
        let answer = request(self.server.address, "POST", "/attack/attack.php", body.as_bytes());
        let (begun, mut grown, mut length) = (Instant::now(), Instant::now(), 0);
        loop {
            let report = self.report().split_off(before);
            if report.iter().any(|attempt| attempt.kind == "end" && attempt.attempt == phase) {
                return (report, true);
            }
            if report.len() > length {
                (grown, length) = (Instant::now(), report.len());
            }
            if grown.elapsed() > SILENCE || begun.elapsed() > PHASE {
                println!("\n{phase} ended early: {answer:?}");
                return (report, false);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The attacker's instructions for a phase.
    pub fn arguments_of(&self, phase: &str) -> Vec<String> {
        let mut arguments = vec![phase.to_owned()];
        for (name, pid, title) in self.targets() {
            arguments.extend(["target", name, &pid.to_string(), &title].map(str::to_owned));
        }
        arguments.extend(self.arguments.iter().cloned());
        arguments
    }

    fn report(&self) -> Vec<Attempt> {
        let text = fs::read_to_string(self.attacker.join("data/report")).unwrap_or_default();
        text.lines().filter_map(Attempt::parse).collect()
    }

    fn errors(&self) -> String {
        fs::read_to_string(self.attacker.join("data/errors")).unwrap_or_default()
    }

    /// Says which attempts had an outcome that they must not have: a line for each kind and target.
    pub fn judge(&self, phase: &str, attempts: &[Attempt]) -> Vec<String> {
        let targets = self.targets();
        let users = |name: &str| {
            let target = targets.iter().find(|(target, ..)| *target == name)?;
            users_of(target.1)
        };
        let all = env::var("ATTACKS").is_ok_and(|which| which == "all");
        let mut skipped = BTreeSet::new();
        let mut problems = BTreeMap::<_, Vec<String>>::new();
        for attempt in attempts {
            let wanted = self.circumstances.wanted(attempt, users);
            let problem = self.circumstances.problem(attempt, &wanted);
            if all {
                let verdict = if problem.is_some() { "BAD" } else { "ok " };
                println!("{verdict} {phase}: {attempt} ({wanted:?})");
            }
            if let Wanted::Skipped(reason) = wanted {
                skipped.insert(reason);
            }
            if let Some(problem) = problem {
                problems.entry((&attempt.kind, &attempt.target)).or_default().push(problem);
            }
        }
        skipped.iter().for_each(|reason| println!("left out: {phase}: signals: {reason}"));
        let line = |((kind, target), these): ((&String, &String), Vec<String>)| {
            format!("{phase}: {kind} of {target}: {}", these.join("; "))
        };
        problems.into_iter().map(line).collect()
    }

    // -- requirements --

    /// The attacker's application is served again; otherwise says so.
    pub fn recovers(&self, phase: &str) -> Option<String> {
        let begun = Instant::now();
        loop {
            match request(self.server.address, "GET", "/attack/ready.php", b"") {
                Ok(text) if text == "ready" => return None,
                answer if begun.elapsed() > RECOVERY => {
                    return Some(format!(
                        "after {phase} the attacker's own application is not served: {answer:?}"
                    ));
                }
                _ => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    fn serves_tls(&self) -> Result<(), String> {
        let client = self.authority.client(None, &[]);
        match tls::get(self.tls_address, &client, "a.example", "/small.txt") {
            Ok(response) if response.text() == "small" => Ok(()),
            other => Err(format!("over TLS: {other:?}")),
        }
    }

    /// The other site's content of memory that processes share by name; creates it the first time.
    fn ask_what_is_shared(&self) -> Result<String, String> {
        let target = format!("/share.php?key={IPC_KEY}&file={SHARED_FILE}");
        request(self.server.address, "GET", &target, b"")
    }

    /// Sockets and logs of the attacker's workers that another process has too.
    ///
    /// A prototype that has just forked a worker still has the worker's socket for a moment, so
    /// only files that stay shared are reported.
    fn shared_descriptors(&self) -> Vec<String> {
        let begun = Stopwatch::start();
        loop {
            let shared = self.descriptors_shared_now();
            if shared.is_empty() || begun.elapsed() > SILENCE {
                return shared;
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn descriptors_shared_now(&self) -> Vec<String> {
        let all = self.server.processes();
        let title = "howdah: \"attacker\" application";
        let workers = all.iter().filter(|process| process.title == title);
        let mut problems = Vec::new();
        for worker in workers {
            // The processes of an application share the socket with which it sends mail.
            let own = all.iter().filter(|process| process.title.contains("\"attacker\""));
            let own: Vec<_> = own.map(|process| process.pid).collect();
            let others = all.iter().map(|process| process.pid).chain([self.server.supervisor()]);
            for other in others.filter(|other| *other != worker.pid) {
                let theirs = processes::descriptors(other);
                for (fd, leads) in processes::descriptors(worker.pid) {
                    let is_private = leads.starts_with("socket:") || leads.ends_with("log");
                    let is_mail = fd == MAIL && own.contains(&other);
                    if is_private && !is_mail && theirs.iter().any(|(_, target)| *target == leads) {
                        problems
                            .push(format!("a worker's {fd} {leads} is a descriptor of {other}"));
                    }
                }
            }
        }
        problems
    }
}

/// Names of all files below a directory.
fn names(directory: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        found.insert(entry.path());
        if entry.path().is_dir() {
            found.extend(names(&entry.path()));
        }
    }
    found
}
