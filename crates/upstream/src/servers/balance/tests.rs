use proptest::prelude::*;

use super::*;

const HEALTHY: Candidate = Candidate {
    weight: 1.0,
    active: 0,
    max_active: None,
    is_backup: false,
    is_healthy: true,
    is_eligible: true,
    is_held_back: false,
    hash: 0,
};

fn least(candidates: &[Candidate]) -> Choice {
    let mut turns = RoundRobin::new(candidates.iter().map(|candidate| candidate.weight));
    choose(candidates, Method::LeastConnections(&mut turns))
}

#[test]
fn backups_are_used_when_no_other_server_is_healthy() {
    let (unhealthy, backup) =
        (Candidate { is_healthy: false, ..HEALTHY }, Candidate { is_backup: true, ..HEALTHY });
    assert_eq!(least(&[backup, HEALTHY]), Choice::Server(1));
    assert_eq!(least(&[unhealthy, backup]), Choice::Server(1));
    assert_eq!(
        least(&[unhealthy, Candidate { is_healthy: false, ..backup }]),
        Choice::Server(0),
        "in vain"
    );
    assert_eq!(least(&[Candidate { is_eligible: false, ..HEALTHY }]), Choice::None);
    assert_eq!(least(&[Candidate { weight: 0.0, ..HEALTHY }]), Choice::None);
}

#[test]
fn a_server_gets_no_more_than_it_may_have() {
    let full = Candidate { active: 2, max_active: Some(2), ..HEALTHY };
    assert_eq!(least(&[full, Candidate { active: 9, ..HEALTHY }]), Choice::Server(1));
    let backup = Candidate { is_backup: true, ..HEALTHY };
    assert_eq!(
        least(&[full, backup]),
        Choice::Full,
        "a backup stands in for unhealthy servers, not for busy ones"
    );
}

#[test]
fn the_least_busy_for_its_weight_is_chosen() {
    let busy = |active, weight| Candidate { active, weight, ..HEALTHY };
    assert_eq!(least(&[busy(4, 1.0), busy(6, 2.0), busy(4, 1.0)]), Choice::Server(1));
}

/// On a quiet site no server has a request when the next one arrives.
#[test]
fn equally_busy_servers_take_turns_by_weight() {
    let light = Candidate { weight: 0.5, ..HEALTHY };
    let candidates = [HEALTHY, light, Candidate { active: 1, ..HEALTHY }];
    let mut turns = RoundRobin::new(candidates.iter().map(|candidate| candidate.weight));
    let mut requests = [0; 3];
    for _ in 0..30 {
        match choose(&candidates, Method::LeastConnections(&mut turns)) {
            Choice::Server(index) => requests[index] += 1,
            choice => panic!("{choice:?}"),
        }
    }
    assert_eq!(requests, [20, 10, 0]);
}

#[test]
fn the_better_of_two_is_chosen() {
    let busy = Candidate { active: 9, ..HEALTHY };
    let two = |one, two| choose(&[busy, HEALTHY, busy], Method::TwoChoices(one, two));
    assert_eq!(two(0, 0), Choice::Server(1));
    assert_eq!(two(u64::MAX / 2, 0), Choice::Server(1));
    assert_eq!(two(u64::MAX, u64::MAX), Choice::Server(1));
    assert_eq!(two(0, u64::MAX), Choice::Server(0), "of the two busy ones, the first");
}

/// One of two servers hangs. If both numbers could select the same server, it got a quarter of the
/// requests.
#[test]
fn two_choices_are_two_servers() {
    let hanging = Candidate { active: 1, ..HEALTHY };
    let numbers = [0, u64::MAX / 4, u64::MAX / 2, u64::MAX];
    for (one, two) in numbers.iter().flat_map(|one| numbers.iter().map(move |two| (*one, *two))) {
        let method = || Method::TwoChoices(one, two);
        assert_eq!(choose(&[hanging, HEALTHY], method()), Choice::Server(1));
        assert_eq!(choose(&[hanging], method()), Choice::Server(0), "without a choice");
    }
}

/// One server is in its slow start when the other dies: it gets the requests, and neither the dead
/// one nor the queue does.
#[test]
fn a_slow_start_leaves_requests_only_to_servers_that_can_serve_them() {
    let starting = Candidate { is_held_back: true, ..HEALTHY };
    let full = Candidate { active: 1, max_active: Some(1), ..HEALTHY };
    let backup = Candidate { is_backup: true, ..HEALTHY };
    let dead = Candidate { is_healthy: false, ..HEALTHY };
    assert_eq!(least(&[starting, HEALTHY]), Choice::Server(1));
    for other in [dead, full, backup, Candidate { is_eligible: false, ..HEALTHY }] {
        assert_eq!(least(&[other, starting]), Choice::Server(1), "{other:?}");
    }
    assert_eq!(least(&[starting, starting]), Choice::Server(0));
    let full = Candidate { is_held_back: true, ..full };
    assert_eq!(least(&[full, dead]), Choice::Full);
}

fn by_hash(weights: &[f64], key: u32, without: Option<usize>) -> usize {
    let candidates: Vec<_> = weights
        .iter()
        .enumerate()
        .map(|(index, weight)| Candidate {
            weight: *weight,
            is_eligible: Some(index) != without,
            hash: hash(&key.to_be_bytes(), &[index as u8]),
            ..HEALTHY
        })
        .collect();
    match choose(&candidates, Method::Hash) {
        Choice::Server(index) => index,
        other => panic!("{other:?}"),
    }
}

#[test]
fn values_are_spread_by_weight() {
    let mut counts = [0u32; 3];
    (0..30_000).for_each(|key| counts[by_hash(&[1.0, 2.0, 3.0], key, None)] += 1);
    for (count, expected) in counts.iter().zip([5_000, 10_000, 15_000]) {
        assert!(count.abs_diff(expected) < 500, "{counts:?}");
    }
}

proptest! {
    #[test]
    fn without_a_server_only_its_own_values_move(key: u32, gone in 0usize..5) {
        let weights = [1.0, 0.5, 2.0, 1.0, 3.0];
        let before = by_hash(&weights, key, None);
        let after = by_hash(&weights, key, Some(gone));
        prop_assert!(after != gone);
        prop_assert!(before == gone || before == after);
    }
}
