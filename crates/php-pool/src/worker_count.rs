//! Decides the number of workers of an application. A pure function of the current load; the clock
//! is an argument.

use std::time::{Duration, Instant};

use howdah_config::{DynamicProcesses, Processes};

/// Limits of the number of workers, from the configuration or from automatic sizing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolLimits {
    /// Maximum number of workers.
    pub max: u32,
    /// Number of workers started before the first request, even if more than `spare`.
    pub start: u32,
    /// Minimum number of idle workers, within `max`.
    pub spare: u32,
    /// Maximum number of idle workers; the excess ends without waiting for `idle_timeout`.
    pub max_spare: Option<u32>,
    /// Time after which an idle worker above `spare` ends; `None` for no limit.
    pub idle_timeout: Option<Duration>,
    /// Maximum number of workers that are started together; `None` for no limit.
    pub spawn_rate: Option<u32>,
    /// Time without workers after which the prototype ends; `None`: never.
    pub prototype_timeout: Option<Duration>,
}

/// Time without workers after which one of several applications is unloaded that keeps no worker,
/// unless its configuration says otherwise.
const DEFAULT_UNLOAD_TIMEOUT: Duration = Duration::from_secs(600);

impl PoolLimits {
    /// Returns the configured limits. `automatic` is the maximum if no number is configured; then
    /// there are no workers while there are no requests.
    pub fn of(processes: Processes, automatic: u32) -> Self {
        match processes {
            Processes::Static(count) => PoolLimits::fixed(count),
            Processes::Dynamic(dynamic) => PoolLimits::between(dynamic),
            Processes::Automatic => PoolLimits::between(DynamicProcesses {
                max: automatic,
                ..DynamicProcesses::default()
            }),
        }
    }

    /// Returns limits for a fixed number of workers.
    pub fn fixed(count: u32) -> Self {
        PoolLimits {
            max: count,
            start: count,
            spare: count,
            max_spare: None,
            idle_timeout: None,
            spawn_rate: None,
            prototype_timeout: None,
        }
    }

    /// Returns the time without workers after which an application is unloaded; `None`: never.
    /// `has_neighbours`: it is one of several applications. A single one has no other to give
    /// memory to.
    pub fn unload_timeout(&self, has_neighbours: bool) -> Option<Duration> {
        let default = (has_neighbours && self.spare == 0).then_some(DEFAULT_UNLOAD_TIMEOUT);
        self.prototype_timeout.or(default)
    }

    fn between(dynamic: DynamicProcesses) -> Self {
        let DynamicProcesses { max, start, spare, max_spare, idle_timeout, .. } = dynamic;
        let DynamicProcesses { spawn_rate, prototype_timeout, .. } = dynamic;
        let spawn_rate = Some(spawn_rate);
        PoolLimits { max, start, spare, max_spare, idle_timeout, spawn_rate, prototype_timeout }
    }

    /// Returns the limits while memory is needed elsewhere: an idle worker above `spare` ends after
    /// `timeout` at the latest.
    pub fn released_after(self, timeout: Duration) -> Self {
        let idle_timeout = self.idle_timeout.map_or(timeout, |usual| usual.min(timeout));
        PoolLimits { idle_timeout: Some(idle_timeout), ..self }
    }

    /// Returns the number of workers to start before the first request.
    pub fn initial(self) -> u32 {
        self.spare.max(self.start).min(self.max)
    }
}

/// Load of an application at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolState {
    /// Number of running workers.
    pub workers: u32,
    /// Number of workers that were requested and have not started yet.
    pub starting: u32,
    /// Number of workers with a request; at least the maximum since the last decision.
    pub busy: u32,
    /// Number of requests that no worker has taken.
    pub waiting: u32,
    /// Time of the last request.
    pub last_request: Option<Instant>,
}

/// Changes to make.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Decision {
    /// Number of workers to start. If there are any, retirements that no worker has followed yet
    /// are to be cancelled.
    pub spawn: u32,
    /// Number of workers that may start together by now, if several starts in a row were too few.
    pub surge: Option<u32>,
    /// Number of idle workers to end.
    pub retire: u32,
    /// Time of the next decision if no event comes before; `None` if none is due.
    pub next_check: Option<Instant>,
}

/// Time for which there may be more idle workers than [`PoolLimits::max_spare`]: PHP-FPM's
/// maintenance interval.
const EXCESS_SPARE_GRACE: Duration = Duration::from_secs(1);

/// Number of workers of one start from which on the load surges: the fourth start in a row, as in
/// PHP-FPM.
const SURGE: u32 = 8;

/// A worker that dies younger than this, without having had a request, delays the next start.
const SHORT_LIFE: Duration = Duration::from_secs(1);

/// Progress of a worker when it died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerStage {
    /// Before it could take a request.
    Starting,
    /// While it waited for its first request.
    Ready,
    /// After it had taken a request.
    Served,
}

/// State between decisions.
#[derive(Debug, Default)]
pub struct Pool {
    /// Window of the idle timeout.
    window: Option<Window>,
    /// Window of the maximum number of idle workers.
    crowd: Option<Window>,
    /// Number of workers of the last start, while more are needed.
    batch: u32,
    /// Number of successive waves of workers that died early.
    early_deaths: u32,
    /// Start of the last of these waves.
    wave: Option<Instant>,
    not_before: Option<Instant>,
    /// Number of workers that were told to end and have not ended yet.
    retiring: u32,
}

/// Maximum number of busy workers since a moment.
#[derive(Debug, Clone, Copy)]
struct Window {
    since: Instant,
    peak: u32,
}

impl Window {
    /// Updates the window, or begins a new one; returns it.
    fn count(window: &mut Option<Window>, busy: u32, now: Instant) -> Window {
        let counted = window.get_or_insert(Window { since: now, peak: busy });
        counted.peak = counted.peak.max(busy);
        *counted
    }
}

impl Pool {
    /// Notes that all workers are new.
    pub fn reset_retirements(&mut self) {
        self.retiring = 0;
    }

    /// Notes that a worker has ended, for any reason.
    pub fn worker_ended(&mut self) {
        self.retiring = self.retiring.saturating_sub(1);
    }

    /// Notes that a worker has died by itself, `lived` after its start.
    ///
    /// A worker that had a request or lived longer than `SHORT_LIFE` is replaced immediately: a
    /// script that crashes its worker, or a signal, costs only that request. Other deaths are
    /// likely to repeat. After a few of them, workers that die while they start are replaced with
    /// pauses that double from 50 ms to 5 s, and workers that die while they are ready with pauses
    /// of 50 ms.
    pub fn worker_died(&mut self, progress: WorkerStage, lived: Duration, now: Instant) {
        if progress == WorkerStage::Served || lived >= SHORT_LIFE {
            self.early_deaths = 0;
            self.not_before = None;
            return;
        }
        // Workers that ran at the same time and died together count as one failure.
        if self.wave.is_some_and(|wave| now.checked_sub(lived).is_none_or(|start| start < wave)) {
            return;
        }
        self.wave = Some(now);
        self.early_deaths += 1;
        let (at_once, doublings) = match progress {
            WorkerStage::Starting => (4, 7),
            _ => (20, 0),
        };
        if self.early_deaths > at_once {
            let millis = 50u64 << (self.early_deaths - at_once - 1).min(doublings);
            self.not_before = Some(now + Duration::from_millis(millis.min(5000)));
        }
    }

    /// Returns the time before which no worker is started, because others have died early.
    pub fn not_before(&self) -> Option<Instant> {
        self.not_before
    }

    /// Returns the changes for the current load.
    pub fn decide(&mut self, wanted: PoolLimits, running: PoolState, now: Instant) -> Decision {
        let total = running.workers + running.starting;
        let idle = running.workers.saturating_sub(running.busy);
        let coming = idle + running.starting;
        let need = running.waiting.saturating_add(wanted.spare).saturating_sub(coming);
        let need = need.min(wanted.max.saturating_sub(total));
        if need > 0 {
            (self.window, self.crowd) = (None, None);
            return match self.not_before.filter(|not_before| *not_before > now) {
                Some(not_before) => {
                    Decision { next_check: Some(not_before), ..Decision::default() }
                }
                None => {
                    let spawn = self.spawn(wanted, running, need);
                    if spawn > 0 {
                        self.retiring = 0;
                    }
                    let surge = Some(self.batch).filter(|batch| spawn > 0 && *batch >= SURGE);
                    Decision { spawn, surge, ..Decision::default() }
                }
            };
        }
        if running.starting == 0 {
            self.batch = 0;
        }
        // The workers that were told to end are not told again.
        let workers = running.workers.saturating_sub(self.retiring);
        if running.waiting > 0 || workers <= wanted.spare {
            (self.window, self.crowd) = (None, None);
            return Decision::default();
        }
        let decision = self.shrink(wanted, PoolState { workers, ..running }, now);
        self.retiring += decision.retire;
        decision
    }

    /// Returns the number of needed workers to start now. One worker is often enough for a short
    /// peak, so the number doubles only after the previous workers have started.
    fn spawn(&mut self, wanted: PoolLimits, running: PoolState, need: u32) -> u32 {
        let Some(rate) = wanted.spawn_rate else { return need };
        if running.starting > 0 {
            return 0;
        }
        self.batch = self.batch.saturating_mul(2).clamp(1, rate.max(1));
        need.min(self.batch)
    }

    /// Ends workers that were not needed for the idle timeout: all but the spare ones if there was
    /// no request, otherwise those beyond the maximum number of busy workers and the spare ones.
    /// Also ends workers beyond the maximum number of idle ones.
    fn shrink(&mut self, wanted: PoolLimits, running: PoolState, now: Instant) -> Decision {
        let crowd = wanted.max_spare.map(|most| {
            let window = Window::count(&mut self.crowd, running.busy, now);
            (window.since + EXCESS_SPARE_GRACE, running.workers.saturating_sub(window.peak + most))
        });
        let (mut quiet, mut over) = (None, None);
        if let Some(timeout) = wanted.idle_timeout {
            if timeout.is_zero() {
                self.window = None; // the load before does not count
            }
            let window = Window::count(&mut self.window, running.busy, now);
            let spare = wanted.spare;
            let last = running.last_request.filter(|_| running.busy == 0);
            quiet = last.map(|last| (last + timeout, running.workers.saturating_sub(spare)));
            let beyond = running.workers.saturating_sub(window.peak + spare);
            over = Some((window.since + timeout, beyond));
        }
        let rules = [crowd, quiet, over].into_iter().flatten();
        let retire = rules.clone().filter(|(due, _)| *due <= now).map(|(_, many)| many).max();
        if let Some(many) = retire.filter(|many| *many > 0) {
            (self.window, self.crowd) = (None, None);
            return Decision { retire: many, ..Decision::default() };
        }
        // Restarts the windows that are due.
        for (rule, window) in [(crowd, &mut self.crowd), (over, &mut self.window)] {
            if rule.is_some_and(|(due, _)| due <= now) {
                *window = Some(Window { since: now, peak: running.busy });
            }
        }
        let again = rules.map(|(due, _)| due).filter(|due| *due > now).min();
        Decision { next_check: again, ..Decision::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_of_several_applications_that_keeps_no_worker_is_unloaded_by_default() {
        let limits = |spare| PoolLimits { spare, start: 0, ..PoolLimits::fixed(4) };
        assert_eq!(limits(0).unload_timeout(true), Some(Duration::from_secs(600)));
        assert_eq!(limits(0).unload_timeout(false), None);
        assert_eq!(limits(1).unload_timeout(true), None);
        let own = PoolLimits { prototype_timeout: Some(Duration::ZERO), ..limits(1) };
        assert_eq!(own.unload_timeout(false), Some(Duration::ZERO));
    }

    fn running(workers: u32, busy: u32, waiting: u32) -> PoolState {
        PoolState { workers, starting: 0, busy, waiting, last_request: None }
    }

    #[test]
    fn a_fixed_pool_is_filled_and_kept() {
        let (mut pool, now) = (Pool::default(), Instant::now());
        assert_eq!(pool.decide(PoolLimits::fixed(4), running(0, 0, 0), now).spawn, 4);
        assert_eq!(pool.decide(PoolLimits::fixed(4), running(4, 4, 9), now), Decision::default());
        assert_eq!(pool.decide(PoolLimits::fixed(4), running(3, 3, 0), now).spawn, 1);
    }

    fn dynamic(max: u32, spare: u32, idle_timeout: Duration) -> PoolLimits {
        let idle_timeout = Some(idle_timeout);
        PoolLimits::between(DynamicProcesses {
            max,
            spare,
            idle_timeout,
            ..DynamicProcesses::default()
        })
    }

    #[test]
    fn a_dynamic_pool_grows_with_waiting_requests_and_shrinks_after_the_idle_timeout() {
        let timeout = Duration::from_secs(10);
        let wanted = dynamic(5, 1, timeout);
        let (mut pool, now) = (Pool::default(), Instant::now());
        assert_eq!(pool.decide(wanted, running(0, 0, 0), now).spawn, 1);
        assert_eq!(pool.decide(wanted, running(1, 1, 2), now).spawn, 2);
        assert_eq!(pool.decide(wanted, running(3, 3, 2), now).spawn, 2);
        assert_eq!(pool.decide(wanted, running(5, 5, 100), now).spawn, 0);
        let later = pool.decide(wanted, running(5, 1, 0), now);
        assert_eq!(later.next_check, Some(now + timeout));
        assert_eq!(pool.decide(wanted, running(5, 1, 0), now + timeout).retire, 3);
    }

    #[test]
    fn workers_are_started_in_doubling_numbers_up_to_the_spawn_rate() {
        let wanted =
            PoolLimits { spawn_rate: Some(32), ..dynamic(200, 0, Duration::from_secs(15)) };
        let (mut pool, now) = (Pool::default(), Instant::now());
        let (mut started, mut surges) = (Vec::new(), Vec::new());
        let mut workers = 0;
        while workers < 200 {
            let decision = pool.decide(wanted, running(workers, workers, 500), now);
            let some = decision.spawn;
            surges.extend(decision.surge);
            let starting = PoolState { starting: some, ..running(workers, workers, 500) };
            assert_eq!(pool.decide(wanted, starting, now).spawn, 0, "these are awaited first");
            workers += some;
            started.push(some);
        }
        assert_eq!(started, [1, 2, 4, 8, 16, 32, 32, 32, 32, 32, 9]);
        assert_eq!(surges, [8, 16, 32, 32, 32, 32, 32, 32]);
        assert_eq!(pool.decide(wanted, running(150, 150, 0), now).spawn, 0);
        assert_eq!(pool.decide(wanted, running(150, 150, 9), now).spawn, 1, "a new crowd");
    }

    #[test]
    fn a_pool_of_php_fpm_keeps_between_the_least_and_the_most_idle_workers() {
        let wanted = PoolLimits::between(DynamicProcesses {
            max: 50,
            start: 10,
            spare: 5,
            max_spare: Some(12),
            idle_timeout: None,
            spawn_rate: 32,
            prototype_timeout: None,
        });
        assert_eq!(wanted.initial(), 10);
        let (mut pool, now) = (Pool::default(), Instant::now());
        let hour = Duration::from_secs(3600);
        for at in [now, now + hour, now + hour * 2] {
            let decision = pool.decide(wanted, running(10, 0, 0), at);
            assert_eq!((decision.spawn, decision.retire), (0, 0));
        }
        assert_eq!(pool.decide(wanted, running(10, 7, 0), now).spawn, 1, "3 are idle");
        assert_eq!(pool.decide(wanted, running(11, 7, 0), now).spawn, 1, "doubled, but 1 suffices");
        assert_eq!(
            pool.decide(wanted, running(30, 10, 0), now).next_check,
            Some(now + EXCESS_SPARE_GRACE)
        );
        assert_eq!(pool.decide(wanted, running(30, 12, 0), now + EXCESS_SPARE_GRACE / 2).retire, 0);
        assert_eq!(
            pool.decide(wanted, running(30, 2, 0), now + EXCESS_SPARE_GRACE).retire,
            30 - 12 - 12
        );
    }

    #[test]
    fn idle_workers_end_at_once_if_memory_is_needed_elsewhere() {
        let (mut pool, now) = (Pool::default(), Instant::now());
        let usual = dynamic(8, 2, Duration::from_secs(15));
        assert_eq!(pool.decide(usual, running(8, 7, 0), now).retire, 0);
        let soon = now + Duration::from_millis(1);
        assert_eq!(pool.decide(usual, running(8, 3, 0), soon).retire, 0);
        let released = usual.released_after(Duration::ZERO);
        assert_eq!(pool.decide(released, running(8, 3, 0), soon).retire, 3, "3 are busy, 2 spare");
        let php_fpm = PoolLimits { idle_timeout: None, max_spare: Some(6), ..usual };
        let mut pool = Pool::default();
        assert_eq!(pool.decide(php_fpm, running(8, 3, 0), now).retire, 0);
        let released = php_fpm.released_after(Duration::ZERO);
        assert_eq!(pool.decide(released, running(8, 3, 0), now).retire, 3);
        let fixed = PoolLimits::fixed(4).released_after(Duration::ZERO);
        assert_eq!(pool.decide(fixed, running(4, 0, 0), now), Decision::default());
    }

    #[test]
    fn a_shorter_idle_timeout_stays() {
        let second = Duration::from_secs(1);
        let timeout = |usual| dynamic(4, 0, usual).released_after(second).idle_timeout;
        assert_eq!(timeout(second / 2), Some(second / 2));
        assert_eq!(timeout(second * 15), Some(second));
    }

    #[test]
    fn an_automatic_pool_is_bounded_by_what_was_found_right() {
        let wanted = PoolLimits::of(Processes::Automatic, 7);
        assert_eq!((wanted.initial(), wanted.max, wanted.spare), (0, 7, 0));
        let mut pool = Pool::default();
        assert_eq!(pool.decide(wanted, running(7, 7, 9), Instant::now()).spawn, 0);
    }

    #[test]
    fn an_ondemand_pool_has_no_worker_while_idle() {
        let wanted = dynamic(5, 0, Duration::from_secs(10));
        let (mut pool, now) = (Pool::default(), Instant::now());
        assert_eq!(pool.decide(wanted, running(0, 0, 0), now), Decision::default());
        assert_eq!(pool.decide(wanted, running(0, 0, 1), now).spawn, 1);
        let idle = PoolState { last_request: Some(now), ..running(1, 0, 0) };
        assert_eq!(pool.decide(wanted, idle, now).retire, 0);
        assert_eq!(pool.decide(wanted, idle, now + Duration::from_secs(10)).retire, 1);
    }

    #[test]
    fn a_worker_is_told_once_to_end_and_a_later_one_is_not_told_in_its_place() {
        let wanted = dynamic(4, 0, Duration::from_secs(5));
        let (mut pool, now) = (Pool::default(), Instant::now());
        let idle = |workers| PoolState { last_request: Some(now), ..running(workers, 0, 0) };
        let later = now + Duration::from_secs(6);
        assert_eq!(pool.decide(wanted, idle(2), later).retire, 2);
        assert_eq!(
            pool.decide(wanted, idle(2), later).retire,
            0,
            "their ends are not reported yet"
        );
        pool.worker_ended();
        assert_eq!(pool.decide(wanted, idle(1), later).retire, 0);
        // A request comes before the second has ended: its retirement is cancelled.
        assert_eq!(pool.decide(wanted, running(1, 1, 1), later).spawn, 1);
        assert_eq!(pool.decide(wanted, idle(2), later).retire, 2);
        pool.reset_retirements();
        assert_eq!(pool.decide(wanted, idle(2), later).retire, 2);
    }

    #[test]
    fn a_worker_stays_for_the_idle_timeout_after_the_last_request() {
        let timeout = Duration::from_secs(2);
        let wanted = dynamic(6, 0, timeout);
        let (mut pool, now) = (Pool::default(), Instant::now());
        let at = |last: Instant, busy| PoolState {
            workers: 1,
            busy,
            last_request: Some(last),
            ..PoolState::default()
        };
        let (first, second) = (now, now + timeout / 2);
        assert_eq!(pool.decide(wanted, at(first, 1), now).retire, 0);
        assert_eq!(pool.decide(wanted, at(second, 1), second).retire, 0);
        let decision = pool.decide(wanted, at(second, 0), first + timeout);
        assert_eq!((decision.retire, decision.next_check), (0, Some(second + timeout)));
        assert_eq!(pool.decide(wanted, at(second, 0), second + timeout).retire, 1);
    }

    #[test]
    fn workers_that_die_at_start_are_not_started_in_a_flood() {
        let (mut pool, mut now) = (Pool::default(), Instant::now());
        let end = now + Duration::from_secs(60);
        let mut starts = 0;
        while now < end {
            let decision = pool.decide(PoolLimits::fixed(1), running(0, 0, 0), now);
            match decision.next_check {
                Some(again) => now = again,
                None => {
                    starts += decision.spawn;
                    now += Duration::from_millis(1);
                    pool.worker_died(WorkerStage::Starting, Duration::from_millis(1), now);
                }
            }
        }
        assert!((10..40).contains(&starts), "{starts} starts in a minute");
        pool.worker_died(WorkerStage::Served, Duration::from_millis(1), now);
        assert_eq!(pool.decide(PoolLimits::fixed(1), running(0, 0, 0), now).spawn, 1);
    }

    #[test]
    fn workers_that_were_ready_are_replaced_at_once_however_many_are_killed_together() {
        let (mut pool, start) = (Pool::default(), Instant::now());
        for wave in 1..=4 {
            let now = start + Duration::from_millis(200) * wave;
            for _ in 0..100 {
                pool.worker_died(WorkerStage::Ready, Duration::from_millis(150), now);
            }
            assert_eq!(pool.decide(PoolLimits::fixed(100), running(0, 0, 0), now).spawn, 100);
        }
    }

    #[test]
    fn workers_that_die_while_they_wait_are_replaced_twenty_times_a_second_in_the_end() {
        let (mut pool, mut now) = (Pool::default(), Instant::now());
        let end = now + Duration::from_secs(60);
        let mut starts = 0;
        while now < end {
            let decision = pool.decide(PoolLimits::fixed(1), running(0, 0, 0), now);
            if let Some(again) = decision.next_check {
                assert_eq!(again - now, Duration::from_millis(50), "nobody waits longer for PHP");
                now = again;
            }
            starts += decision.spawn;
            if decision.spawn > 0 {
                now += Duration::from_millis(1);
                pool.worker_died(WorkerStage::Ready, Duration::from_millis(1), now);
            }
        }
        assert!((600..1300).contains(&starts), "{starts} starts in a minute");
    }
}
