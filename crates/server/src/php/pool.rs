//! How many workers an application has. A pure function of what is running and waiting; the
//! clock is an argument.

use std::time::{Duration, Instant};

use howdah_config::Processes;

/// What the configuration asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Most workers.
    pub max: u32,
    /// Workers that shall be idle, as long as `max` allows.
    pub spare: u32,
    /// How long a worker above that may stay idle.
    pub idle_timeout: Duration,
}

/// Most workers of an application whose number of processes is not configured, and bytes of
/// memory that each of them is expected to take.
const AUTOMATIC_MOST: u64 = 32;
const AUTOMATIC_MEMORY: u64 = 48 << 20;

impl Wanted {
    /// From the configuration. A number of processes that is not configured follows the machine:
    /// scripts wait for databases and disks, so several for a processor, as long as they fit
    /// half of the memory; none while there is nothing to do.
    pub fn of(processes: Processes, machine: Machine) -> Self {
        match processes {
            Processes::Static(count) => Wanted::fixed(count),
            Processes::Dynamic { max, spare, idle_timeout } => Wanted { max, spare, idle_timeout },
            Processes::Automatic => {
                let by_memory = machine.memory / 2 / AUTOMATIC_MEMORY;
                let max = (machine.processors * 4).min(by_memory).clamp(2, AUTOMATIC_MOST);
                Wanted { max: max as u32, spare: 0, idle_timeout: Duration::from_secs(15) }
            }
        }
    }

    /// Workers that are there before the first request.
    pub fn initial(self) -> u32 {
        self.spare.min(self.max)
    }

    /// As many workers as this, always.
    pub fn fixed(count: u32) -> Self {
        Wanted { max: count, spare: count, idle_timeout: Duration::MAX }
    }
}

/// What there is to run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Processors.
    pub processors: u64,
    /// Bytes of memory that are free or can be freed.
    pub memory: u64,
}

/// What is running.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Running {
    /// Workers that run.
    pub workers: u32,
    /// Workers that were asked for and have not started yet.
    pub starting: u32,
    /// Workers that have a request, or had one at the same time since the last decision.
    pub busy: u32,
    /// Requests that no worker has.
    pub waiting: u32,
    /// When a request was last there.
    pub last_request: Option<Instant>,
}

/// What to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Decision {
    /// Workers to start.
    pub spawn: u32,
    /// Idle workers to end.
    pub retire: u32,
    /// Look again then, even if nothing happens.
    pub again: Option<Instant>,
}

/// Deaths of workers that lived shorter than this hold the next start back.
const SHORT_LIFE: Duration = Duration::from_secs(1);

/// State that decisions need over time.
#[derive(Debug, Default)]
pub struct Pool {
    /// Since when the most busy workers have been counted, and how many that were.
    window: Option<(Instant, u32)>,
    short_lives: u32,
    not_before: Option<Instant>,
}

impl Pool {
    /// A worker has died by itself, `lived` after its start.
    pub fn died(&mut self, lived: Duration, now: Instant) {
        if lived >= SHORT_LIFE {
            self.short_lives = 0;
            self.not_before = None;
            return;
        }
        self.short_lives += 1;
        // The first few are replaced at once: a script that crashes its worker costs just that
        // request. Then the delay doubles up to five seconds.
        if self.short_lives > 4 {
            let millis = 50u64 << (self.short_lives - 5).min(7);
            self.not_before = Some(now + Duration::from_millis(millis.min(5000)));
        }
    }

    /// A worker has answered a request.
    pub fn served(&mut self) {
        self.short_lives = 0;
        self.not_before = None;
    }

    /// Decides.
    pub fn decide(&mut self, wanted: Wanted, running: Running, now: Instant) -> Decision {
        let total = running.workers + running.starting;
        let idle = running.workers.saturating_sub(running.busy);
        let coming = idle + running.starting;
        let need = running.waiting.saturating_add(wanted.spare).saturating_sub(coming);
        let spawn = need.min(wanted.max.saturating_sub(total));
        if spawn > 0 {
            self.window = None;
            return match self.not_before.filter(|not_before| *not_before > now) {
                Some(not_before) => Decision { again: Some(not_before), ..Decision::default() },
                None => Decision { spawn, ..Decision::default() },
            };
        }
        if running.waiting > 0 || running.workers <= wanted.spare {
            self.window = None;
            return Decision::default();
        }
        self.shrink(wanted, running, now)
    }

    /// Ends workers that were not needed for the idle timeout: all but the spare ones if there
    /// was no request at all, otherwise those beyond the most that were busy together.
    fn shrink(&mut self, wanted: Wanted, running: Running, now: Instant) -> Decision {
        let (since, peak) = self
            .window
            .map_or((now, running.busy), |(since, peak)| (since, peak.max(running.busy)));
        self.window = Some((since, peak));
        let quiet = running.last_request.and_then(|last| last.checked_add(wanted.idle_timeout));
        let over = since.checked_add(wanted.idle_timeout);
        let retire = if running.busy == 0 && quiet.is_some_and(|quiet| quiet <= now) {
            running.workers - wanted.spare
        } else if over.is_some_and(|over| over <= now) {
            self.window = Some((now, running.busy));
            running.workers.saturating_sub(peak + wanted.spare)
        } else {
            0
        };
        if retire > 0 {
            self.window = None;
            return Decision { retire, ..Decision::default() };
        }
        let quiet = quiet.filter(|quiet| *quiet > now);
        let over = over.filter(|over| *over > now);
        let again = [quiet, over].into_iter().flatten().min();
        Decision { again, ..Decision::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(workers: u32, busy: u32, waiting: u32) -> Running {
        Running { workers, starting: 0, busy, waiting, last_request: None }
    }

    #[test]
    fn a_fixed_pool_is_filled_and_kept() {
        let (mut pool, now) = (Pool::default(), Instant::now());
        assert_eq!(pool.decide(Wanted::fixed(4), running(0, 0, 0), now).spawn, 4);
        assert_eq!(pool.decide(Wanted::fixed(4), running(4, 4, 9), now), Decision::default());
        assert_eq!(pool.decide(Wanted::fixed(4), running(3, 3, 0), now).spawn, 1);
    }

    #[test]
    fn a_dynamic_pool_grows_with_waiting_requests_and_shrinks_after_the_idle_timeout() {
        let wanted = Wanted { max: 5, spare: 1, idle_timeout: Duration::from_secs(10) };
        let (mut pool, now) = (Pool::default(), Instant::now());
        assert_eq!(pool.decide(wanted, running(0, 0, 0), now).spawn, 1);
        assert_eq!(pool.decide(wanted, running(1, 1, 2), now).spawn, 3);
        assert_eq!(pool.decide(wanted, running(5, 5, 100), now).spawn, 0);
        let later = pool.decide(wanted, running(5, 1, 0), now);
        assert_eq!(later.again, Some(now + wanted.idle_timeout));
        assert_eq!(pool.decide(wanted, running(5, 1, 0), now + wanted.idle_timeout).retire, 3);
    }

    #[test]
    fn an_automatic_pool_fits_the_machine() {
        let max = |processors, mib: u64| {
            Wanted::of(Processes::Automatic, Machine { processors, memory: mib << 20 }).max
        };
        assert_eq!((max(1, 100), max(2, 24_000), max(64, 64_000), max(4, 500)), (2, 8, 32, 5));
    }

    #[test]
    fn an_ondemand_pool_has_no_worker_while_idle() {
        let wanted = Wanted { max: 5, spare: 0, idle_timeout: Duration::ZERO };
        let (mut pool, now) = (Pool::default(), Instant::now());
        assert_eq!(pool.decide(wanted, running(0, 0, 0), now), Decision::default());
        assert_eq!(pool.decide(wanted, running(0, 0, 1), now).spawn, 1);
        assert_eq!(pool.decide(wanted, running(1, 0, 0), now).retire, 1);
    }

    #[test]
    fn a_worker_stays_for_the_idle_timeout_after_the_last_request() {
        let timeout = Duration::from_secs(2);
        let wanted = Wanted { max: 6, spare: 0, idle_timeout: timeout };
        let (mut pool, now) = (Pool::default(), Instant::now());
        let at = |last: Instant, busy| Running {
            workers: 1,
            busy,
            last_request: Some(last),
            ..Running::default()
        };
        let (first, second) = (now, now + timeout / 2);
        assert_eq!(pool.decide(wanted, at(first, 1), now).retire, 0);
        assert_eq!(pool.decide(wanted, at(second, 1), second).retire, 0);
        let decision = pool.decide(wanted, at(second, 0), first + timeout);
        assert_eq!((decision.retire, decision.again), (0, Some(second + timeout)));
        assert_eq!(pool.decide(wanted, at(second, 0), second + timeout).retire, 1);
    }

    #[test]
    fn hardening_16_workers_that_die_at_start_are_not_started_in_a_flood() {
        let (mut pool, mut now) = (Pool::default(), Instant::now());
        let end = now + Duration::from_secs(60);
        let mut starts = 0;
        while now < end {
            let decision = pool.decide(Wanted::fixed(1), running(0, 0, 0), now);
            match decision.again {
                Some(again) => now = again,
                None => {
                    starts += decision.spawn;
                    pool.died(Duration::from_millis(1), now);
                }
            }
        }
        assert!((10..40).contains(&starts), "{starts} starts in a minute");
        pool.served();
        assert_eq!(pool.decide(Wanted::fixed(1), running(0, 0, 0), now).spawn, 1);
    }
}
