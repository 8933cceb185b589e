use super::*;

const MIB: u64 = 1 << 20;

fn process(pid: u32, parent: u32) -> ProcessUsage {
    let started = u64::from(pid);
    ProcessUsage { pid, parent, state: b'S', threads: 1, started, ..ProcessUsage::default() }
}

/// An application whose prototype is process 10, with the workers 20 and 21 and these programs.
fn family_of(programs: &[ProcessUsage], ending: &[u32]) -> Family {
    let mut all = vec![process(10, 1), process(20, 10), process(21, 10)];
    all.extend(programs);
    let known = Known {
        prototype: 10,
        template: None,
        workers: HashSet::from([20, 21]),
        ending: ending.iter().copied().collect(),
    };
    Family::of(&known, all)
}

fn memory(anonymous: u64) -> Option<ProcessMemory> {
    Some(ProcessMemory { anonymous: anonymous * MIB, ..ProcessMemory::default() })
}

fn allow(memory: Option<u64>, processes: Option<u32>) -> ResourceLimits {
    ResourceLimits { memory: memory.map(|mib| mib * MIB), processes, ..ResourceLimits::default() }
}

#[test]
fn the_largest_worker_ends_if_all_together_use_too_much() {
    let mut family = family_of(&[process(30, 20), process(40, 10)], &[]);
    let shared =
        |anonymous| memory(anonymous).map(|memory| ProcessMemory { shared: 5 * MIB, ..memory });
    family.measure(|pid| match pid {
        10 => shared(10),
        20 => shared(20),
        21 => shared(60),
        30 => memory(45),
        _ => memory(8),
    });
    // 10 of the prototype, 10 and 50 of the workers, 45 and 8 of programs, 5 are shared.
    assert_eq!(family.bytes(), 128 * MIB);
    let (mut state, now) = (State::default(), Instant::now());
    assert_eq!(state.count(&family, &allow(Some(128), None), now), Verdict::default());
    let verdict = state.count(&family, &allow(Some(127), None), now);
    assert_eq!(verdict.ends, [End::Worker(20)], "with its program it is the largest");
    let reason = "its processes use 128 MiB of memory, and isolation/limits/memory allows 127: \
                  worker 20, the largest with 55 MiB, is ended; raise the limit if the site needs \
                  more";
    assert_eq!((verdict.reason.as_str(), verdict.is_for_memory), (reason, true));
}

#[test]
fn what_is_being_ended_does_not_count_and_a_program_of_nobody_ends() {
    let mut family = family_of(&[process(30, 20), process(40, 10), process(41, 40)], &[20]);
    family.measure(|pid| if pid == 41 { memory(90) } else { memory(10) });
    assert_eq!(family.bytes(), (10 + 10 + 90) * MIB, "neither 20 nor 30");
    let verdict = State::default().count(&family, &allow(Some(100), None), Instant::now());
    assert_eq!(verdict.ends, [End::Program { pid: 40, started: 40 }]);
    // The prototype alone cannot be ended.
    let mut alone = family_of(&[], &[20, 21]);
    alone.measure(|_| memory(300));
    let verdict = State::default().count(&alone, &allow(Some(100), None), Instant::now());
    assert_eq!(verdict.ends, []);
}

#[test]
fn shared_memory_of_programs_counts_for_each() {
    let mut family = family_of(&[process(30, 20), process(40, 10)], &[]);
    family.measure(|_| Some(ProcessMemory { shared: 50 * MIB, ..ProcessMemory::default() }));
    assert_eq!(family.bytes(), 150 * MIB);
    let verdict = State::default().count(&family, &allow(Some(149), None), Instant::now());
    assert_eq!(verdict.ends.len(), 1);
}

#[test]
fn what_a_worker_may_leave_is_counted_after_its_end() {
    let (mut state, limits) = (State::default(), allow(None, Some(20)));
    state.count(&family_of(&[], &[]), &limits, Instant::now());
    assert!(state.is_active, "there are workers");
    let known = Known { prototype: 10, ..Known::default() };
    let mut after = |all| {
        let family = Family::of(&known, all);
        state.count(&family, &limits, Instant::now());
        state.is_active
    };
    assert!(after(vec![process(10, 1), process(30, 10)]), "a program is left");
    assert!(!after(vec![process(10, 1)]));
}

#[test]
fn an_application_is_busy_while_it_computes_or_starts_processes() {
    let mut state = State::default();
    let mut is_busy = |programs: &[ProcessUsage]| {
        state.count(&family_of(programs, &[]), &allow(None, Some(20)), Instant::now());
        state.is_busy
    };
    assert!(is_busy(&[]) && !is_busy(&[]));
    assert!(is_busy(&[process(30, 10)]) && !is_busy(&[process(30, 10)]));
    let later = ProcessUsage { ticks: 1, ..process(30, 10) };
    assert!(is_busy(&[later]) && !is_busy(&[later]));
}

#[test]
fn the_newest_programs_end_if_there_are_too_many_processes() {
    let programs: Vec<_> = (30..36).map(|pid| process(pid, 20)).collect();
    let family = family_of(&programs, &[]);
    let verdict = State::default().count(&family, &allow(None, Some(9)), Instant::now());
    assert_eq!(verdict, Verdict::default(), "nine are allowed");
    let verdict = State::default().count(&family, &allow(None, Some(7)), Instant::now());
    let program = |pid: u32| End::Program { pid, started: u64::from(pid) };
    assert_eq!(verdict.ends, [program(35), program(34)]);
    let reason = "it has 9 processes and threads, and isolation/limits/processes allows 7: \
                  program 35 and 1 more are ended; raise the limit if the site needs more";
    assert_eq!(verdict.reason, reason);
    assert_eq!(verdict.soon, Some(MIN_INTERVAL));
}

#[test]
fn a_fork_bomb_ends_before_a_program_that_is_newer() {
    let mut programs = vec![process(30, 20), process(99, 21)];
    programs.extend((31..60).map(|pid| process(pid, pid - 1)));
    let bomb = family_of(&programs, &[]);
    assert_eq!(bomb.surplus(20), [End::Worker(20)], "it could start another one");
    // A worker that forks by itself ends with its children.
    let programs: Vec<_> = (30..60).map(|pid| process(pid, 20)).collect();
    assert_eq!(family_of(&programs, &[]).surplus(20), [End::Worker(20)]);
    // Few and large children, as a process that doubles itself has.
    let mut programs: Vec<_> = (30..33).map(|pid| process(pid, 20)).collect();
    programs.iter_mut().zip([32, 16, 8]).for_each(|(program, threads)| program.threads = threads);
    assert_eq!(family_of(&programs, &[]).surplus(20), [End::Worker(20)]);
    // One that nobody waits for.
    let programs: Vec<_> = [process(30, 10)].into_iter().chain(programs_below(30)).collect();
    let orphan = End::Program { pid: 30, started: 30 };
    assert_eq!(family_of(&programs, &[]).surplus(20), [orphan]);
    // Workers alone are as many as the document says.
    assert_eq!(family_of(&[], &[]).surplus(2), []);
    let mut threads = process(30, 20);
    threads.threads = 50;
    assert_eq!(family_of(&[threads], &[]).surplus(20), [End::Worker(20)]);
}

/// Returns 29 processes below a program.
fn programs_below(program: u32) -> impl Iterator<Item = ProcessUsage> {
    (31..60).map(move |pid| process(pid, program))
}

#[test]
fn all_processes_end_if_those_that_stay_start_others_again_and_again() {
    let (mut state, begun) = (State::default(), Instant::now());
    let programs: Vec<_> = (30..60).map(|pid| process(pid, 10)).collect();
    let family = family_of(&programs, &[]);
    let limits = allow(None, Some(10));
    let mut all = |seconds: u64| {
        let verdict = state.count(&family, &limits, begun + Duration::from_secs(seconds));
        verdict.ends == [End::All]
    };
    // 33 processes, 23 too many.
    assert_eq!([0, 1, 2].map(&mut all), [false, false, true]);
    assert_eq!([3, 4, 14, 15, 16].map(&mut all), [false, false, false, false, true]);
    // Few too many each time, for more than two seconds.
    let (mut state, few) = (State::default(), allow(None, Some(32)));
    let mut all = |tenths: u64| {
        state.count(&family, &few, begun + Duration::from_millis(tenths * 100)).ends == [End::All]
    };
    assert!((0..20).all(|tenths| !all(tenths)));
    assert!(all(20) && !all(21));
}

#[test]
fn a_figure_that_grows_is_counted_sooner() {
    let (mut last, now) = (None, Instant::now());
    assert_eq!(until(&mut last, 10, 100, now), None);
    let second = now + Duration::from_secs(1);
    assert_eq!(until(&mut last, 40, 100, second), Some(Duration::from_secs(1)));
    assert_eq!(until(&mut last, 40, 100, second + Duration::from_secs(1)), None);
    assert_eq!(until(&mut last, 99, 100, second + Duration::from_secs(2)), Some(MIN_INTERVAL));
    assert_eq!(until(&mut last, 200, 100, second + Duration::from_secs(3)), Some(MIN_INTERVAL));
}

#[test]
fn who_computes_more_than_its_share_comes_after_others() {
    let (mut state, begun) = (State::default(), Instant::now());
    let mut at = |seconds: u64, ticks| {
        state.change_of_priority(ticks, 500, begun + Duration::from_secs(seconds))
    };
    assert_eq!(at(0, 1000), None);
    assert_eq!(at(1, 1050), None, "half a processor");
    assert_eq!(at(2, 1151), Some(true));
    assert_eq!(at(3, 1250), None, "it goes on");
    assert_eq!(at(4, 1280), Some(false));
}

#[test]
fn lines_of_the_log_are_few() {
    let (mut state, now) = (State::default(), Instant::now());
    let mut at =
        |after, is_for_memory| state.may_log(is_for_memory, now + Duration::from_secs(after));
    assert_eq!([0, 1, 2, 11].map(|after| at(after, true)), [Some(0), None, None, Some(2)]);
    assert_eq!([1, 2].map(|after| at(after, false)), [Some(0), None], "of another limit");
}

#[test]
fn what_has_ended_or_belongs_to_what_is_being_ended_is_left_out() {
    let dead = ProcessUsage { state: b'Z', ..process(30, 10) };
    let found = family_of(&[dead, process(31, 31), process(32, 21), process(33, 32)], &[32]);
    assert_eq!(found.all().collect::<Vec<_>>(), [10, 20, 21]);
    let others_go_on = ProcessUsage { threads: 2, ..dead };
    assert_eq!(family_of(&[others_go_on], &[]).all().last(), Some(30));
}

/// A bomb that forks twice leaves them behind, so that the kernel's limit is reached with few that
/// live.
#[test]
fn what_a_worker_has_not_waited_for_counts_and_ends_with_it() {
    let dead = |pid| ProcessUsage { state: b'Z', ..process(pid, 20) };
    let family = family_of(&(30..60).map(dead).collect::<Vec<_>>(), &[]);
    assert_eq!(family.tasks(), 33);
    let verdict = State::default().count(&family, &allow(None, Some(20)), Instant::now());
    assert_eq!(verdict.ends, [End::Worker(20)]);
}
