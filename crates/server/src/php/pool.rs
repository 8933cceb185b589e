//! How many workers an application has. A pure function of what is running and waiting; the
//! clock is an argument.

use std::time::{Duration, Instant};

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

impl Wanted {
    /// As many workers as this, always.
    pub fn fixed(count: u32) -> Self {
        Wanted { max: count, spare: count, idle_timeout: Duration::MAX }
    }
}

/// What is running.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Running {
    /// Workers that run.
    pub workers: u32,
    /// Workers that were asked for and have not started yet.
    pub starting: u32,
    /// Workers that have a request.
    pub busy: u32,
    /// Requests that no worker has.
    pub waiting: u32,
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
    /// Since when there have been more idle workers than wanted.
    surplus_since: Option<Instant>,
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
            self.surplus_since = None;
            return match self.not_before.filter(|not_before| *not_before > now) {
                Some(not_before) => Decision { again: Some(not_before), ..Decision::default() },
                None => Decision { spawn, ..Decision::default() },
            };
        }
        let surplus = if running.waiting > 0 { 0 } else { idle.saturating_sub(wanted.spare) };
        let surplus = surplus.max(running.workers.saturating_sub(wanted.max));
        if surplus == 0 {
            self.surplus_since = None;
            return Decision::default();
        }
        let since = *self.surplus_since.get_or_insert(now);
        match since.checked_add(wanted.idle_timeout) {
            Some(due) if due <= now => {
                self.surplus_since = None;
                Decision { retire: surplus, ..Decision::default() }
            }
            due => Decision { again: due, ..Decision::default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(workers: u32, busy: u32, waiting: u32) -> Running {
        Running { workers, starting: 0, busy, waiting }
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
    fn an_ondemand_pool_has_no_worker_while_idle() {
        let wanted = Wanted { max: 5, spare: 0, idle_timeout: Duration::ZERO };
        let (mut pool, now) = (Pool::default(), Instant::now());
        assert_eq!(pool.decide(wanted, running(0, 0, 0), now), Decision::default());
        assert_eq!(pool.decide(wanted, running(0, 0, 1), now).spawn, 1);
        assert_eq!(pool.decide(wanted, running(1, 0, 0), now).retire, 1);
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
