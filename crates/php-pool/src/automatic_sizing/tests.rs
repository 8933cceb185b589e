use super::*;

const MIB: u64 = 1 << 20;

/// Returns measurements of WordPress on four processors with 4 GiB.
fn measured() -> Measured {
    Measured {
        processors: 4,
        total: 4096 * MIB,
        room: 3000 * MIB,
        share_bytes: None,
        pressure: Some(0.0),
        workers: 8,
        measured_workers: 8,
        long_requests: 0,
        cost: Some(30 * MIB),
        max_worker_bytes: 140 * MIB,
        share: Some(ProcessorShare { running: 0.5, runnable: 0.6 }),
        idle: Some(0.4),
    }
}

fn sized(change: impl FnOnce(&mut Measured)) -> (u32, LimitingFactor) {
    let mut measured = measured();
    change(&mut measured);
    let decision = size(&measured);
    (decision.workers, decision.limit)
}

#[test]
fn there_are_as_many_workers_as_wait_and_some_more() {
    let waiting = |on| {
        sized(|m| {
            (m.share, m.measured_workers) =
                (Some(ProcessorShare { running: on, runnable: 1.0 }), 64)
        })
    };
    assert_eq!(waiting(1.0), (4, LimitingFactor::Processors), "more would only take turns");
    assert_eq!(waiting(0.95), (5, LimitingFactor::Processors));
    assert_eq!(waiting(0.75), (8, LimitingFactor::Processors));
    assert_eq!(waiting(0.5), (14, LimitingFactor::Processors));
    assert_eq!(waiting(0.1), (54, LimitingFactor::Processors));
}

#[test]
fn one_script_that_computes_for_long_does_not_stop_all_others() {
    let with = |long, on| {
        sized(|m| {
            (m.share, m.measured_workers, m.long_requests) =
                (Some(ProcessorShare { running: on, runnable: on }), 64, long)
        })
        .0
    };
    assert_eq!([0, 1, 2, 4, 9].map(|long| with(long, 1.0)), [4, 5, 6, 8, 8]);
    assert_eq!([0, 9].map(|long| with(long, 0.1)), [54, 54], "these wait anyway");
    assert_eq!(sized(|m| (m.share, m.long_requests) = (None, 1)).0, 5);
}

#[test]
fn workers_that_turn_out_to_be_too_many_for_the_processors_end() {
    let retire_above = |on| {
        let share = Some(ProcessorShare { running: on, runnable: on });
        size(&Measured { share, ..measured() }).retire_above
    };
    assert_eq!((retire_above(1.0), retire_above(0.5)), (5, 17), "with some ease");
    let unknown = size(&Measured { share: None, ..measured() });
    assert!(unknown.retire_above > 20, "{unknown:?}");
}

#[test]
fn before_anything_is_known_memory_must_do_for_the_worst() {
    let unknown = |room: u64| {
        sized(|m| {
            (m.cost, m.share, m.measured_workers, m.workers) = (None, None, 0, 0);
            (m.total, m.room) = (room, room);
        })
    };
    assert_eq!(unknown(256 * MIB), (1, LimitingFactor::Memory));
    assert_eq!(unknown(512 * MIB), (3, LimitingFactor::Memory));
    assert_eq!(unknown(64 * MIB), (1, LimitingFactor::Memory), "one always");
    assert_eq!(unknown(0), (1, LimitingFactor::Memory));
    assert_eq!(unknown(24 << 30), (4, LimitingFactor::Processors));
}

#[test]
fn growth_towards_what_might_be_too_much_is_measured_step_by_step() {
    let at = |known| {
        sized(|m| {
            (m.total, m.room, m.processors, m.measured_workers) =
                (1024 * MIB, 900 * MIB, 16, known);
        })
    };
    assert_eq!(
        at(1),
        (6, LimitingFactor::Measurement),
        "that many may even take their whole limit"
    );
    assert_eq!(at(4), (8, LimitingFactor::Measurement));
    assert_eq!(at(12), (24, LimitingFactor::Measurement));
    assert_eq!(at(24), (26, LimitingFactor::Memory));
}

#[test]
fn a_script_that_takes_its_whole_limit_finds_room_for_it() {
    let mut m = measured();
    (m.total, m.room, m.measured_workers) = (512 * MIB, 450 * MIB, 64);
    let decision = size(&m);
    let used = 30 * MIB * u64::from(decision.workers - 1) + 140 * MIB;
    assert!(used <= m.room, "{decision:?}");
    assert!(used + 30 * MIB > m.room, "not wasteful: {decision:?}");
}

#[test]
fn processors_are_not_left_idle_for_what_may_never_happen() {
    let tight = |m: &mut Measured| {
        (m.processors, m.total, m.room) = (2, 256 * MIB, 235 * MIB);
        (m.cost, m.max_worker_bytes) = (Some(105 * MIB), 140 * MIB);
    };
    assert_eq!(sized(tight), (2, LimitingFactor::Memory));
    let tighter = |m: &mut Measured| {
        tight(m);
        m.room = 215 * MIB;
    };
    assert_eq!(sized(tighter), (1, LimitingFactor::Memory));
}

#[test]
fn a_machine_that_frees_memory_with_effort_gets_no_more_workers_and_then_fewer() {
    assert_eq!(sized(|m| m.pressure = Some(15.0)), (8, LimitingFactor::Pressure));
    assert_eq!(sized(|m| m.pressure = Some(50.0)), (7, LimitingFactor::Pressure));
    assert_eq!(sized(|m| (m.pressure, m.workers) = (Some(99.0), 0)), (1, LimitingFactor::Pressure));
    assert_eq!(sized(|m| m.pressure = None), sized(|_| ()));
}

#[test]
fn workers_that_wait_for_a_database_on_busy_processors_do_not_multiply() {
    // Repeats sizing, each time with the number of workers of the previous result.
    let waiting = |idle, on, wanted| {
        (0..20).fold(8, |workers, _| {
            let share = Some(ProcessorShare { running: on, runnable: wanted });
            sized(|m| (m.workers, m.share, m.idle, m.measured_workers) = (workers, share, idle, 64))
                .0
        })
    };
    assert_eq!(waiting(Some(0.5), 0.1, 0.2), 54, "they wait for another machine");
    assert_eq!(waiting(None, 0.1, 0.2), 54);
    assert_eq!(waiting(Some(0.0), 0.3, 0.8), 8, "more would only wait longer for a processor");
    let few = |workers, idle| {
        let share = Some(ProcessorShare { running: 0.94, runnable: 0.95 });
        sized(|m| (m.processors, m.workers, m.share, m.idle) = (2, workers, share, Some(idle))).0
    };
    assert_eq!((few(2, 0.01), few(2, 0.07)), (2, 3), "one more is of use if there is idle time");
    assert_eq!((few(3, 0.01), few(4, 0.01)), (3, 3), "and stays when it has taken that");
    assert_eq!(waiting(Some(0.0), 0.1, 0.2), 54, "others keep the processors busy");
}

#[test]
fn the_number_has_an_end() {
    let huge = |m: &mut Measured| {
        (m.processors, m.total, m.room, m.measured_workers) =
            (1 << 20, u64::MAX, u64::MAX, u32::MAX);
        (m.cost, m.share) = (Some(0), Some(ProcessorShare { running: 0.0, runnable: 0.0 }));
    };
    assert_eq!(sized(huge).0, MAX_WORKERS);
}

#[test]
fn a_share_limits_the_number_and_ends_the_excess() {
    let decision = |share_bytes| size(&Measured { share_bytes, ..measured() });
    let shared = decision(Some(95 * MIB));
    assert_eq!((shared.workers, shared.limit, shared.retire_above), (3, LimitingFactor::Share, 3));
    assert_eq!(decision(Some(0)).workers, 1, "one always");
    assert_eq!(decision(Some(4000 * MIB)).workers, decision(None).workers);
}

#[test]
fn nonsense_gives_at_least_one() {
    for value in [0, 1, u64::MAX] {
        let decision = sized(|m| {
            (m.processors, m.total, m.room, m.workers) = (0, value, 0, 0);
            let share = ProcessorShare { running: f64::NAN, runnable: f64::NAN };
            (m.cost, m.max_worker_bytes, m.share) = (Some(value), value, Some(share));
            (m.pressure, m.idle) = (Some(f64::NAN), Some(f64::NAN));
        });
        assert!((1..=MAX_WORKERS).contains(&decision.0), "{decision:?}");
    }
}

#[test]
fn what_more_memory_would_buy_is_what_it_does_buy() {
    let mut m = measured();
    (m.total, m.room, m.measured_workers) = (512 * MIB, 450 * MIB, 64);
    let before = size(&m);
    assert_eq!(before.limit, LimitingFactor::Memory);
    let missing = before.missing_for(before.workers + 2, &m);
    (m.total, m.room) = (m.total + missing, m.room + missing);
    assert_eq!(size(&m).by_memory, before.workers + 2);
    m.share_bytes = Some(95 * MIB);
    let shared = size(&m);
    let missing = shared.missing_for(5, &m);
    assert!(
        (55 * MIB..60 * MIB).contains(&missing),
        "5 of 30 MiB, and a little reserve: {missing}"
    );
}
