//! Running applications and their workers.
//!
//! An application is prepared (its prototype loads PHP, its first workers start), then adopted when
//! its configuration becomes the current one, and leaves when a newer configuration lacks it: it
//! then runs until no request that began under the old configuration can arrive.

mod adopt;
mod application;
mod asked;
mod asking;
mod changed;
mod end_lines;
mod file_checks;
mod kept;
mod memory;
mod notes;
mod prepare;
mod process_limit;
mod readiness;
mod reports;
mod restarts;
mod retired;
mod tick;
mod tuning;
mod unload;
mod wanted;

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::howdah_config as config;
use ::howdah_config::include::SitePlaces;
use howdah_php_pool::automatic_sizing::shortage::MemoryShortage;
use howdah_php_pool::queue::{Instance, Queue};
use howdah_pipeline::thread::Shared;
use howdah_questions::Status;
use howdah_sys::log::Level;
use howdah_sys::process_usage::ProcessUses;
use howdah_wire::messages::{Problem, ProblemKind};
use howdah_wire::queue::WorkerId;

use self::application::PooledApplication;
use self::asked::AskedRestart;
use self::file_checks::FileChecks;
use self::process_limit::ProcessLimit;
use self::retired::{LEAVE_TIMEOUT, RetiredInstances};
pub(in crate::process) use self::wanted::Wanted;
use self::wanted::WantedRestarts;
use super::link::Link;
use super::machine::Machine;
use super::out::{Extent, Found, PartKind};
use super::threads::Threads;
use super::traces::Traces;

/// The state of an application whose worker script does not work while another script answers.
const FALLS_BACK: &str = "it runs its \"script\" for each request until the worker script works";

/// Maximum time for the workers of a removed application to finish.
const REMOVAL_GRACE: Duration = Duration::from_secs(24 * 3600);

/// All applications.
#[derive(Debug)]
pub(super) struct Pools {
    link: Rc<Link>,
    shared: Arc<Shared>,
    threads: Threads,
    /// Applications of a configuration that is not the current one yet.
    preparing: Vec<PooledApplication>,
    /// Applications of the current configuration.
    applications: VecDeque<PooledApplication>,
    /// Applications of older configurations.
    leaving: Vec<PooledApplication>,
    retired: RetiredInstances,
    /// Number of the last instance that was started.
    last_instance: u32,
    machine: Machine,
    memory_shortage: MemoryShortage,
    process_limit: ProcessLimit,
    /// Time at which [`Pools::tick`] has looked at all applications.
    all_looked_at: Option<Instant>,
    /// Number of applications that had processes then.
    awake: usize,
    /// Time at which unused applications were last chosen.
    unused_chosen_at: Option<Instant>,
    /// While memory is short: applications are unloaded that have been unused since this time, or
    /// longer.
    unload_unused_since: Option<Instant>,
    /// Time of the last division of the memory.
    divided_at: Option<Instant>,
    /// The first configuration is in use: from now on the log names each start of a worker.
    is_started: bool,
    /// Number of the current configuration, or of the one that is being applied.
    pub(super) generation: u32,
    /// Places of the parts of that configuration in the files of sites.
    pub(super) places: SitePlaces,
    /// Names of the applications without which the start fails.
    pub(super) required: Vec<String>,
    /// Restarts whose outcome is awaited.
    asked_restarts: Vec<AskedRestart>,
    /// Restarts whose outcome is not awaited.
    wanted_restarts: WantedRestarts,
    file_checks: FileChecks,
    /// Applications with a user that has changed, by number, until the supervisor has named all.
    stale_users: HashMap<u32, String>,
    /// Number of the configuration whose applications the supervisor has looked at last.
    pub(super) looked_at: Option<u32>,
    /// Traces of slow requests.
    pub(super) traces: Traces,
    /// Workers that are killed as their requests have exceeded the time limit, by instance.
    overdue: HashSet<(u32, WorkerId)>,
}

impl Pools {
    /// Starts without applications.
    pub(super) fn new(link: Rc<Link>, shared: Arc<Shared>, threads: Threads) -> Self {
        Pools {
            traces: Traces::new(Rc::clone(&link), Arc::clone(&shared.log)),
            link,
            shared,
            threads,
            preparing: Vec::new(),
            applications: VecDeque::new(),
            generation: 0,
            places: SitePlaces::default(),
            required: Vec::new(),
            leaving: Vec::new(),
            retired: RetiredInstances::default(),
            last_instance: 0,
            machine: Machine::default(),
            memory_shortage: MemoryShortage::default(),
            process_limit: ProcessLimit::default(),
            all_looked_at: None,
            awake: 0,
            unused_chosen_at: None,
            unload_unused_since: None,
            divided_at: None,
            is_started: false,
            asked_restarts: Vec::new(),
            wanted_restarts: WantedRestarts::default(),
            file_checks: FileChecks::default(),
            stale_users: HashMap::new(),
            looked_at: None,
            overdue: HashSet::new(),
        }
    }

    /// Advances the restarts whose outcome is not awaited: begins one that is due, and ends those
    /// that are ready or have failed. Returns these, with the reasons of failures.
    pub(super) fn advance_wanted_restarts(
        &mut self,
        now: Instant,
        limit: Duration,
    ) -> io::Result<Vec<(Wanted, Result<(), String>)>> {
        if let Some(wanted) = self.wanted_restarts.begin(now, limit)
            && !self.prepare_restart(&wanted.name)?
        {
            self.wanted_restarts.end(&wanted.name, true, now); // it has been removed meanwhile
        }
        let mut ended = Vec::new();
        for (name, is_late) in self.wanted_restarts.in_progress(now) {
            let Some(result) = self.end_restart(&name, is_late, limit)? else { continue };
            let wanted = self.wanted_restarts.end(&name, result.is_ok(), now);
            ended.extend(wanted.map(|wanted| (wanted, result)));
        }
        Ok(ended)
    }

    /// Returns the time at which [`Pools::advance_wanted_restarts`] has something to do without an
    /// event.
    pub(super) fn wanted_restart_due(&self) -> Option<Instant> {
        self.wanted_restarts.due().into_iter().chain(self.asked_restart_due()).min()
    }

    /// Adopts the new instance of an application if it can serve, or ends it if it cannot or
    /// `is_late`. Returns the outcome; `None` if it is still starting.
    fn end_restart(
        &mut self,
        name: &str,
        is_late: bool,
        limit: Duration,
    ) -> io::Result<Option<Result<(), String>>> {
        let failure = match self.is_restarting(name, is_late, limit) {
            Ok(true) => return Ok(None),
            Ok(false) => {
                self.adopt_restarted(name)?;
                let mut adopted = self.applications.iter().filter(|app| app.config.name == name);
                adopted.next().into_iter().for_each(|app| app.queue.ends.count_restart(false));
                return Ok(Some(Ok(())));
            }
            Err(failure) => failure,
        };
        self.discard_restarted(name)?;
        let mut problem = format!("application \"{name}\": {failure}");
        let mut running = self.applications.iter_mut();
        if let Some(app) = running.find(|app| app.config.name == name && app.instance.is_some()) {
            problem.push_str("; its former processes continue");
            app.not_replaced = Some(format!(
                "its former processes continue, as new ones could not start: {failure}; once that \
                 is mended, run howdah reload"
            ));
        }
        Ok(Some(Err(problem)))
    }

    /// Ends all restarts in progress: the server stops.
    pub(super) fn end_restarts(&mut self) -> io::Result<()> {
        self.asked_restarts.clear();
        self.wanted_restarts = WantedRestarts::default();
        self.discard_restarts(|_| true)
    }

    /// Sets the maximum memory of all PHP processes. Returns the former one.
    pub(super) fn set_budget(
        &mut self,
        budget: Option<config::MemoryBudget>,
    ) -> Option<config::MemoryBudget> {
        std::mem::replace(&mut self.machine.budget, budget)
    }

    /// Returns the queue of the application with the same settings that runs or is being prepared.
    pub(super) fn queue(&self, config: &config::Application) -> Option<Arc<Queue>> {
        let mut all = self.preparing.iter().chain(&self.applications);
        let serves = |app: &&PooledApplication| {
            // First, as the rest costs as much for each of many applications.
            app.config.name == config.name
                && (app.config.has_same_processes(config)
                    || app.kept.as_ref().is_some_and(|kept| *kept.in_use == *config))
        };
        all.find(serves).map(|app| Arc::clone(&app.queue))
    }

    /// Records why a running application may not have the processes of its files.
    pub(super) fn goes_on(&mut self, name: &str, reason: String) {
        let found = self.applications.iter_mut().find(|app| app.config.name == name);
        found.into_iter().for_each(|app| app.not_replaced = Some(reason.clone()));
    }

    /// Returns the applications that are out, those with former processes or a former user, those
    /// whose worker script does not work, and those whose processes are all busy for long.
    pub(super) fn out_parts(&self) -> Vec<Found> {
        let snapshot = self.shared.snapshot.load();
        // The file of its site is out because of the same directory, and says more.
        let is_told = |name: &str, problem: &Problem| {
            let mut out = snapshot.config.left_out.iter();
            problem.kind == ProblemKind::NoRoot
                && out.any(|out| out.because_of.is_some() && out.site.as_deref() == Some(name))
        };
        let part = |app: &PooledApplication| {
            let name = app.config.name.as_str();
            let file = self.places.file_of_application(name).map(str::to_owned);
            let is_former = app.is_former_because().is_some();
            let is_untold = |problem: &&Problem| !is_former && !is_told(name, problem);
            if let Some(reason) = app.out_because().filter(is_untold) {
                let reason = reason.to_string();
                return Some(Found { file, ..Found::out(PartKind::Application, name, reason) });
            }
            let stale_user = || app.instance.as_ref().and(app.stale_user.clone());
            let limited = || Some(format!("{FALLS_BACK}: {}", app.falls_back_because()?));
            let (extent, reason) = match app.is_former_because().cloned().or_else(stale_user) {
                Some(reason) => (Extent::Stale, reason),
                None => match limited() {
                    Some(reason) => (Extent::Limited, reason),
                    None => (Extent::Busy, app.busy_because()?),
                },
            };
            Some(Found { extent, file, ..Found::out(PartKind::Application, name, reason) })
        };
        self.applications.iter().filter_map(part).collect()
    }

    /// Returns the names of the applications whose former processes continue as new ones could not
    /// start.
    pub(super) fn not_replaced(&self) -> Vec<String> {
        let former = self.applications.iter().filter(|app| {
            // An application that kept its former settings could not start with them again.
            app.is_former_because().is_some() && app.kept.is_none()
        });
        former.map(|app| app.config.name.clone()).collect()
    }

    /// Returns the names of the applications of the current configuration.
    pub(super) fn names(&self) -> Vec<String> {
        self.applications.iter().map(|app| app.config.name.clone()).collect()
    }

    /// Returns the names of the applications that cannot run, with the reasons.
    pub(super) fn problems(&self) -> impl Iterator<Item = (&str, String)> {
        self.applications.iter().filter_map(|app| Some((app.config.name.as_str(), app.problem()?)))
    }

    /// Returns the status with the state of each application of the current configuration, sorted
    /// by name.
    pub(super) fn status(&mut self, processes: &ProcessUses) -> Status {
        let mut status = Status { memory: self.memory_report(), ..Status::default() };
        for app in &mut self.applications {
            app.take_use(processes);
            let (application, php) = app.report();
            status.applications.insert(app.config.name.clone(), application);
            status.php.insert(app.config.name.clone(), php);
        }
        status.applications.sort_unstable_keys();
        status.php.sort_unstable_keys();
        status
    }

    /// Ends all workers when they are idle. The server stops, and the last request has arrived.
    pub(super) fn close(&self) {
        self.instances().for_each(|instance| instance.close());
    }

    /// Returns true if a stopping server must wait for workers: for those with a request, and for
    /// the others for [`LEAVE_TIMEOUT`]. `idle_since` keeps the end of the last request between
    /// calls.
    pub(super) fn has_workers(&self, idle_since: &mut Option<Instant>) -> bool {
        let now = Instant::now();
        if self.instances().any(|instance| instance.has_requests()) {
            *idle_since = None;
        } else if now - *idle_since.get_or_insert(now) >= LEAVE_TIMEOUT {
            return false;
        }
        self.instances().any(|instance| instance.worker_count() > 0)
    }

    fn log(&self, level: Level, message: impl std::fmt::Display) {
        self.shared.log.write(level, message);
    }

    fn all(&self) -> impl Iterator<Item = &PooledApplication> {
        self.applications.iter().chain(&self.preparing).chain(&self.leaving)
    }

    fn is_preparing_instance(&self, number: u32) -> bool {
        self.preparing.iter().any(|app| app.number() == Some(number))
    }

    /// Returns the application with this instance, to change it.
    fn by_number(&mut self, number: u32) -> Option<&mut PooledApplication> {
        let all = self.applications.iter_mut().chain(&mut self.preparing).chain(&mut self.leaving);
        let found = all.into_iter().find(|app| app.number() == Some(number))?;
        found.has_changed = true;
        Some(found)
    }

    fn instances(&self) -> impl Iterator<Item = &Arc<Instance>> {
        let running = self.all().filter_map(|app| app.instance.as_ref());
        running.chain(self.retired.instances())
    }

    fn instance(&self, number: u32) -> Option<Arc<Instance>> {
        self.instances().find(|instance| instance.number == number).cloned()
    }
}
