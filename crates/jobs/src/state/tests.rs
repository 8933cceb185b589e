//! What a job does in the course of time.

use proptest::prelude::*;

use super::*;
use crate::cron::Cron;
use crate::{Schedule, StopSignal};

fn job(restart: Restart, processes: u32) -> Job {
    Job {
        name: "queue".to_owned(),
        command: vec!["true".to_owned()],
        environment: Vec::new(),
        processes,
        restart,
        memory: None,
        stop_signal: StopSignal::Term,
        stop_timeout: Duration::from_secs(10),
        working_directory: None,
        timer: None,
    }
}

fn fresh(job: Job, now: Instant) -> JobState {
    JobState::new(job, Zone::utc(), 7, at(now))
}

fn orders(state: &mut JobState, now: Instant) -> Vec<Order> {
    state.orders(at(now))
}

fn due(state: &JobState, now: Instant) -> Option<Instant> {
    state.due(at(now))
}

/// Both clocks at a time.
fn at(monotonic: Instant) -> Now {
    Now { monotonic, wall: SystemTime::UNIX_EPOCH }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn failures_are_followed_by_longer_delays_up_to_a_minute_until_one_has_run_for_that_long() {
    let mut now = Instant::now();
    let mut state = fresh(job(Restart::Always, 1), now);
    let mut delays = Vec::new();
    for ran in [0, 0, 0, 0, 0, 0, 0, 0, 60, 0] {
        assert_eq!(orders(&mut state, now), [Order::Start(0)]);
        now += seconds(ran);
        let Next::Start(delay) = state.ended(0, false, now).next else { panic!() };
        delays.push(delay.as_secs());
        now += delay;
    }
    assert_eq!(delays, [1, 2, 4, 8, 16, 32, 60, 60, 1, 2]);
}

#[test]
fn a_command_that_ends_well_starts_again_at_most_once_a_second() {
    let now = Instant::now();
    let mut state = fresh(job(Restart::Always, 1), now);
    orders(&mut state, now);
    let ended = now + Duration::from_millis(300);
    assert_eq!(state.ended(0, true, ended).next, Next::Start(Duration::from_millis(700)));
    assert_eq!(orders(&mut state, ended), []);
    assert_eq!(orders(&mut state, now + seconds(1)), [Order::Start(0)]);
    assert_eq!(state.ended(0, true, now + seconds(5)).next, Next::Start(Duration::ZERO));
}

#[test]
fn the_document_says_after_which_ends_a_command_starts_again() {
    for (restart, is_success, is_again) in [
        (Restart::Always, true, true),
        (Restart::OnFailure, true, false),
        (Restart::OnFailure, false, true),
        (Restart::Never, false, false),
    ] {
        let now = Instant::now();
        let mut state = fresh(job(restart, 1), now);
        orders(&mut state, now);
        let next = state.ended(0, is_success, now).next;
        assert_eq!(matches!(next, Next::Start(_)), is_again, "{restart:?}");
        assert_eq!(due(&state, now).is_some(), is_again);
    }
}

#[test]
fn a_job_that_ends_is_asked_first_and_killed_at_its_timeout() {
    let now = Instant::now();
    let mut state = fresh(job(Restart::Always, 2), now);
    assert_eq!(orders(&mut state, now), [Order::Start(0), Order::Start(1)]);
    state.end();
    assert_eq!(due(&state, now), Some(now));
    assert_eq!(orders(&mut state, now), [Order::Stop(0), Order::Stop(1)]);
    assert_eq!(state.ended(1, true, now + seconds(1)).next, Next::Nothing);
    assert_eq!(due(&state, now), Some(now + seconds(10)));
    assert!(orders(&mut state, now + seconds(9)).is_empty() && !state.is_over());
    assert_eq!(orders(&mut state, now + seconds(10)), [Order::Kill(0)]);
    assert_eq!((orders(&mut state, now + seconds(99)), due(&state, now)), (Vec::new(), None));
    state.ended(0, false, now + seconds(11));
    assert!(state.is_over());
}

#[test]
fn a_hurried_end_kills_at_once() {
    let now = Instant::now();
    let mut state = fresh(job(Restart::Always, 1), now);
    orders(&mut state, now);
    state.hurry(now);
    assert_eq!(orders(&mut state, now), [], "it was not asked to end");
    state.end();
    state.hurry(now);
    assert_eq!(orders(&mut state, now), [Order::Kill(0)]);
}

#[test]
fn a_process_that_is_replaced_has_not_failed() {
    let now = Instant::now();
    let mut state = fresh(job(Restart::Never, 1), now);
    orders(&mut state, now);
    assert!(state.replace(0) && !state.replace(0));
    assert_eq!(orders(&mut state, now), [Order::Stop(0)]);
    assert_eq!(state.ended(0, false, now + seconds(2)).next, Next::Start(Duration::ZERO));
}

/// A job that runs at the full minutes since 1970, which the tests begin with.
fn minutely(timer: Timer) -> Job {
    Job { timer: Some(timer), ..job(Restart::Always, 1) }
}

fn every(interval: u64) -> Timer {
    Timer {
        schedule: Schedule::Every(seconds(interval)),
        time_zone: None,
        overlap: false,
        jitter: Duration::ZERO,
        timeout: None,
        shared: true,
    }
}

#[test]
fn a_timer_runs_at_its_times_and_not_while_it_runs() {
    let first = Instant::now();
    let mut state = fresh(minutely(every(60)), first);
    let after = |count| first + seconds(count);
    assert_eq!((orders(&mut state, first), due(&state, first)), (vec![], Some(after(60))));
    assert_eq!(orders(&mut state, after(60)), [Order::Start(0)]);
    assert_eq!(orders(&mut state, after(120)), [Order::ReportLeftOut]);
    assert_eq!(orders(&mut state, after(180)), [], "it is said once");
    let end = state.ended(0, false, after(200));
    assert_eq!(end, End { next: Next::Nothing, was_asked: false, has_failed: true });
    assert_eq!(due(&state, after(200)), Some(after(240)), "no other run before its time");
    assert_eq!(orders(&mut state, after(240)), [Order::Start(0)]);
    assert!(!state.ended(0, true, after(241)).has_failed);
    let counts = state.counts();
    assert_eq!((counts.started, counts.failed, counts.left_out), (2, 1, 2));
    assert_eq!(counts.last_duration, Some(seconds(1)));
    assert_eq!(orders(&mut state, after(300)), [Order::Start(0)]);
    assert_eq!(orders(&mut state, after(360)), [Order::ReportLeftOut], "it is said again");
    state.end();
    assert_eq!(orders(&mut state, after(420)), [Order::Stop(0)]);
    state.ended(0, false, after(421));
    assert!(state.is_over() && due(&state, after(421)).is_none());
}

#[test]
fn a_timer_that_may_overlap_starts_runs_beside_others_up_to_a_limit() {
    let first = Instant::now();
    let mut state = fresh(minutely(Timer { overlap: true, ..every(1) }), first);
    for (slot, second) in (1..=u64::from(MAX_PROCESSES)).enumerate() {
        assert_eq!(orders(&mut state, first + seconds(second)), [Order::Start(slot)]);
    }
    assert_eq!(orders(&mut state, first + seconds(65)), [Order::ReportLeftOut]);
    state.ended(3, true, first + seconds(65));
    assert_eq!(orders(&mut state, first + seconds(66)), [Order::Start(3)]);
}

#[test]
fn a_run_that_takes_too_long_is_asked_to_end_and_has_failed() {
    let first = Instant::now();
    let timeout = Some(seconds(30));
    let mut state = fresh(minutely(Timer { timeout, ..every(60) }), first);
    let after = |count| first + seconds(count);
    assert_eq!(orders(&mut state, after(60)), [Order::Start(0)]);
    assert_eq!(due(&state, after(60)), Some(after(90)));
    assert_eq!(orders(&mut state, after(89)), []);
    assert_eq!(orders(&mut state, after(90)), [Order::ReportLate(0), Order::Stop(0)]);
    assert_eq!(due(&state, after(90)), Some(after(100)));
    assert_eq!(orders(&mut state, after(100)), [Order::Kill(0)]);
    let end = state.ended(0, false, after(101));
    assert_eq!(end, End { next: Next::Nothing, was_asked: true, has_failed: true });
    assert_eq!(orders(&mut state, after(120)), [Order::Start(0)]);
}

#[test]
fn delays_by_chance_differ_within_their_limit() {
    let first = Instant::now();
    let delays: std::collections::BTreeSet<_> = (0..50)
        .map(|seed| {
            let timer = Timer { jitter: seconds(30), ..every(60) };
            let mut state = JobState::new(minutely(timer), Zone::utc(), seed, at(first));
            let minute = first + seconds(60);
            let orders = orders(&mut state, minute);
            let start = if orders.is_empty() { due(&state, minute).unwrap() } else { minute };
            assert!(start <= first + seconds(90));
            start
        })
        .collect();
    assert!(delays.len() > 40, "{delays:?}");
}

#[test]
fn a_paused_job_ends_and_starts_again_when_it_is_resumed() {
    let now = Instant::now();
    let mut state = fresh(job(Restart::Always, 2), now);
    assert_eq!(state.run(now), Ok(()), "it waits for its first start");
    orders(&mut state, now);
    assert_eq!((state.run(now), state.activity()), (Err(NotRun::Runs), Activity::Running));
    state.pause();
    assert_eq!(orders(&mut state, now), [Order::Stop(0), Order::Stop(1)]);
    assert_eq!(state.ended(0, false, now).next, Next::Nothing);
    assert_eq!(state.run(now), Err(NotRun::Paused));
    state.resume(now);
    assert_eq!(orders(&mut state, now), [Order::Start(0)]);
    let end = state.ended(1, false, now + seconds(1));
    assert_eq!(end, End { next: Next::Start(Duration::ZERO), was_asked: true, has_failed: false });
    state.pause();
    orders(&mut state, now);
    state.ended(0, true, now);
    assert_eq!((state.activity(), due(&state, now)), (Activity::Paused, None));
    state.end();
    state.resume(now);
    assert!(state.is_over() && state.run(now) == Err(NotRun::Ends));
}

#[test]
fn what_has_ended_for_good_runs_again_on_request() {
    let now = Instant::now();
    let mut state = fresh(job(Restart::Never, 1), now);
    orders(&mut state, now);
    state.ended(0, true, now);
    assert_eq!(state.activity(), Activity::Over);
    assert_eq!(state.run(now), Ok(()));
    assert_eq!(orders(&mut state, now), [Order::Start(0)]);
}

#[test]
fn a_paused_timer_runs_only_on_request() {
    let first = Instant::now();
    let mut state = fresh(minutely(every(60)), first);
    let after = |count| first + seconds(count);
    state.pause();
    assert_eq!((orders(&mut state, after(60)), state.next_run(at(first))), (vec![], None));
    assert_eq!(state.run(after(61)), Ok(()));
    assert_eq!(orders(&mut state, after(61)), [Order::Start(0)]);
    assert_eq!(state.run(after(62)), Err(NotRun::Runs));
    state.resume(after(63));
    assert_eq!(orders(&mut state, after(63)), [], "the run goes on");
    state.ended(0, true, after(64));
    assert_eq!(orders(&mut state, after(120)), [Order::Start(0)]);
    assert_eq!(state.counts().left_out, 0);
}

#[test]
fn a_run_that_several_servers_share_starts_when_it_is_granted_to_this_one() {
    let first = Instant::now();
    let mut state = fresh(minutely(every(60)), first);
    state.share(true);
    let at = |count| Now {
        monotonic: first + seconds(count),
        wall: SystemTime::UNIX_EPOCH + seconds(count),
    };
    assert_eq!(state.orders(at(60)), [Order::Claim(60)]);
    assert_eq!(state.due(at(60)), Some(at(65).monotonic));
    assert_eq!(state.orders(at(64)), []);
    assert_eq!(state.orders(at(65)), [Order::Claim(60)], "no answer has come");
    assert!(!state.claimed(0, true), "that is the answer to another question");
    assert!(state.claimed(60, true) && !state.claimed(60, true));
    assert_eq!(state.orders(at(66)), [Order::Start(0)]);
    assert_eq!(state.orders(at(120)), [Order::ReportLeftOut], "its own run goes on");
    state.ended(0, true, at(121).monotonic);
    assert_eq!(state.orders(at(180)), [Order::Claim(180)]);
    assert!(!state.claimed(180, false));
    assert_eq!((state.orders(at(239)), state.due(at(239))), (vec![], Some(at(240).monotonic)));
    // The store does not answer for a minute, and for another one.
    assert_eq!(state.orders(at(240)), [Order::Claim(240)]);
    assert_eq!(state.orders(at(299)), [Order::Claim(240)]);
    assert_eq!(state.orders(at(300)), [Order::ReportUnclaimed, Order::Claim(300)]);
    assert!(!state.claimed(240, true), "too late");
    assert_eq!(state.orders(at(360)), [Order::Claim(360)], "it is said once");
    // A run that was asked for is not claimed, and others are not while there is one server.
    assert_eq!(state.run(at(430).monotonic), Ok(()));
    assert_eq!(state.orders(at(430)), [Order::Start(0)]);
    state.ended(0, true, at(431).monotonic);
    state.share(false);
    assert_eq!(state.orders(at(480)), [Order::Start(0)]);
    state.ended(0, true, at(481).monotonic);
    let mut alone = fresh(minutely(Timer { shared: false, ..every(60) }), first);
    alone.share(true);
    assert_eq!(alone.orders(at(60)), [Order::Start(0)]);
    assert_eq!(state.counts().left_out, 4);
}

#[test]
fn times_of_cron_are_looked_at_each_minute() {
    let first = Instant::now();
    let timer = Timer { schedule: Schedule::Cron(Cron::parse("2 0 * * *").unwrap()), ..every(1) };
    let mut state = fresh(minutely(timer), first);
    let at = |count| Now {
        monotonic: first + seconds(count),
        wall: SystemTime::UNIX_EPOCH + seconds(count),
    };
    assert_eq!(state.next_run(at(0)), Some(at(120).wall));
    assert_eq!(state.due(at(15)), Some(at(60).monotonic));
    assert_eq!((state.orders(at(60)), state.orders(at(119))), (vec![], vec![]));
    assert_eq!(state.orders(at(120)), [Order::Start(0)]);
    assert_eq!(state.counts().last_start, Some(at(120).wall));
    assert_eq!(state.next_run(at(121)), Some(at(86_520).wall));
}

proptest! {
    /// Whatever happens in whatever order, no slot has two processes, none is killed that was
    /// not asked to end for `stop_timeout`, and an ended job comes to its end.
    #[test]
    fn no_slot_has_two_processes_and_each_job_can_end(
        steps in proptest::collection::vec((0u8..6, 0usize..4, 0u64..40_000), 1..200),
        timer in proptest::option::of((1u64..40, any::<bool>(), 0u64..40, 1u64..40)),
        is_shared in any::<bool>(),
    ) {
        let mut now = Instant::now();
        let timer = timer.map(|(interval, overlap, jitter, timeout)| Timer {
            overlap,
            jitter: seconds(jitter),
            timeout: Some(seconds(timeout)),
            ..every(interval)
        });
        let max = if timer.as_ref().is_none_or(|timer| timer.overlap) { 64 } else { 1 };
        let is_timer = timer.is_some();
        let processes = if is_timer { 1 } else { 3 };
        let mut state = fresh(Job { timer, ..job(Restart::Always, processes) }, now);
        state.share(is_shared);
        type Running = [Option<Option<Instant>>; 64];
        // For each slot with a process, the time at which it was asked to end.
        let mut running: Running = [None; 64];
        let mut is_ending = false;
        let carry_out = |state: &mut JobState, running: &mut Running, now, is_ending: bool| {
            for order in orders(state, now) {
                match order {
                    Order::Start(slot) => {
                        assert!(!is_ending && running[slot].is_none());
                        running[slot] = Some(None);
                    }
                    Order::Stop(slot) => {
                        assert_eq!(running[slot], Some(None));
                        running[slot] = Some(Some(now));
                    }
                    Order::Kill(slot) => {
                        let Some(Some(asked)) = running[slot] else { panic!() };
                        assert!(now >= asked + seconds(10));
                    }
                    Order::ReportLate(slot) => assert!(is_timer && running[slot] == Some(None)),
                    Order::ReportLeftOut | Order::ReportUnclaimed | Order::Claim(_) => {
                        assert!(is_timer && !is_ending);
                    }
                }
            }
        };
        for (what, slot, passed) in steps {
            now += Duration::from_millis(passed);
            match what {
                0 | 1 if running[slot].is_some() => {
                    running[slot] = None;
                    state.ended(slot, what == 0, now);
                }
                2 => drop(state.replace(slot)),
                4 => drop(state.claimed(passed / 1000, passed % 2 == 0)),
                3 if passed < 1000 => {
                    is_ending = true;
                    state.end();
                }
                _ => {}
            }
            carry_out(&mut state, &mut running, now, is_ending);
            let due = due(&state, now);
            prop_assert!(running.iter().flatten().count() <= max);
            prop_assert!(due.is_none_or(|due| due > now), "what is due was ordered");
        }
        state.end();
        carry_out(&mut state, &mut running, now, true);
        now += seconds(10);
        let killed = orders(&mut state, now);
        for (slot, process) in running.iter().enumerate() {
            if process.is_some() {
                state.ended(slot, false, now);
            }
        }
        prop_assert!(state.is_over(), "{killed:?}");
    }
}
