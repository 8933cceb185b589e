use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;
/// Size of the machine's memory. Tests name the room beside its reserve.
const TOTAL: u64 = 256 * MIB;

/// Returns the claim of an automatic application whose workers take 20 MiB each.
fn claim(workers: u32, demand: u32) -> MemoryClaim {
    MemoryClaim {
        is_automatic: true,
        cost: Some(20 * MIB),
        max_worker_bytes: 20 * MIB,
        workers,
        private: u64::from(workers) * 20 * MIB,
        demand,
        max_bytes: u64::MAX,
    }
}

/// Divides the `room` bytes that workers may have, including those that they already have.
fn shares(claims: &[MemoryClaim], room: u64) -> Vec<Option<u64>> {
    division(claims, room).shares
}

fn division(claims: &[MemoryClaim], room: u64) -> Division {
    let private: u64 = claims.iter().map(|claim| claim.private).sum();
    divide(claims, TOTAL, (room + reserve(TOTAL)).saturating_sub(private))
}

/// Returns the numbers of workers of 20 MiB.
fn numbers(claims: &[MemoryClaim], room: u64) -> Vec<u64> {
    shares(claims, room).into_iter().map(|share| share.unwrap() / (20 * MIB)).collect()
}

#[test]
fn an_application_that_alone_has_requests_is_not_limited_to_a_share() {
    assert_eq!(shares(&[claim(5, 90)], 100 * MIB), [None]);
    let idle = claim(2, 0);
    assert_eq!(shares(&[claim(5, 90), idle], 100 * MIB)[0], None);
}

#[test]
fn a_flood_takes_nothing_from_a_site_with_few_requests() {
    assert_eq!(numbers(&[claim(10, 120), claim(0, 3)], 200 * MIB), [7, 3]);
    assert_eq!(numbers(&[claim(10, 120), claim(0, 1)], 200 * MIB), [9, 1]);
}

#[test]
fn floods_of_several_sites_share_alike() {
    let flooded = [claim(10, 120), claim(0, 120), claim(2, 90)];
    assert_eq!(numbers(&flooded, 240 * MIB), [4, 4, 4]);
}

#[test]
fn of_two_equal_sites_the_one_that_has_the_worker_keeps_it() {
    assert_eq!(numbers(&[claim(3, 50), claim(2, 50)], 100 * MIB), [3, 2]);
    assert_eq!(numbers(&[claim(2, 50), claim(3, 50)], 100 * MIB), [2, 3]);
}

#[test]
fn memory_that_nobody_claims_is_open_to_all() {
    assert_eq!(numbers(&[claim(1, 2), claim(1, 1)], 200 * MIB), [9, 8]);
}

#[test]
fn each_site_with_requests_gets_a_worker_even_without_memory() {
    assert_eq!(numbers(&[claim(1, 120), claim(0, 5), claim(0, 1)], 30 * MIB), [1, 1, 1]);
}

#[test]
fn a_second_worker_for_each_precedes_a_third_one() {
    let heavy = MemoryClaim { cost: Some(80 * MIB), ..claim(0, 5) };
    let shares = shares(&[claim(0, 50), heavy], 210 * MIB);
    assert_eq!(shares, [Some(50 * MIB), Some(170 * MIB)], "two each, and 10 MiB are left");
}

#[test]
fn configured_numbers_are_granted_in_full() {
    let configured = MemoryClaim { is_automatic: false, ..claim(6, 1) };
    assert_eq!(numbers(&[claim(2, 120), configured], 160 * MIB), [2, 6]);
    let growing = MemoryClaim { is_automatic: false, ..claim(1, 4) };
    assert_eq!(numbers(&[claim(6, 120), growing], 160 * MIB), [4, 4]);
}

#[test]
fn an_application_that_was_not_measured_yet_is_taken_for_one_of_the_others() {
    let new = MemoryClaim { cost: None, max_worker_bytes: 140 * MIB, ..claim(0, 2) };
    assert_eq!(numbers(&[claim(9, 120), new], 300 * MIB)[1], 2);
}

#[test]
fn an_own_control_group_bounds_the_claim() {
    let small = MemoryClaim { max_bytes: 40 * MIB, ..claim(2, 120) };
    assert_eq!(numbers(&[claim(8, 120), small], 200 * MIB), [8, 2]);
}

#[test]
fn memory_is_contended_if_idle_workers_have_what_others_need() {
    let is_contended = |claims: &[MemoryClaim], room| division(claims, room).is_contended;
    assert!(is_contended(&[claim(4, 6), claim(4, 0)], 160 * MIB), "the second is idle");
    assert!(!is_contended(&[claim(4, 6), claim(4, 0)], 300 * MIB), "there is room");
    assert!(!is_contended(&[claim(4, 4), claim(4, 0)], 160 * MIB), "nobody needs more");
    let grown = MemoryClaim { private: 50 * MIB, ..claim(4, 4) };
    assert!(is_contended(&[grown, claim(4, 0)], 140 * MIB), "they may grow further");
    assert!(!is_contended(&[grown], 60 * MIB), "its number is its own affair");
}

#[test]
fn a_lasting_demand_is_learnt_and_forgotten_within_seconds() {
    let start = Instant::now();
    let at = |millis| start + Duration::from_millis(millis);
    let mut demand = RecentDemand::default();
    assert_eq!(demand.at(start), 0);
    let mut seen = Vec::new();
    for millis in (0..=4000).step_by(100) {
        demand.add(10, at(millis));
        seen.push(demand.at(at(millis)));
    }
    assert_eq!((seen[0], seen[7], seen[40]), (0, 5, 10), "{seen:?}");
    assert!(seen.is_sorted());
    assert_eq!([4000, 4700, 8000].map(|millis| demand.at(at(millis))), [10, 5, 0]);
}

#[test]
fn short_requests_now_and_then_are_no_demand() {
    let (start, mut demand) = (Instant::now(), RecentDemand::default());
    for second in [0, 2, 4, 600, 602] {
        demand.add(1, start + Duration::from_secs(second));
        assert_eq!(demand.at(start + Duration::from_secs(second)), 0);
    }
}

fn any_claim() -> impl Strategy<Value = MemoryClaim> {
    let numbers = (1u64..200, 0u32..20, 0u32..160, 0u64..3000);
    (any::<bool>(), numbers).prop_map(|(is_automatic, (cost, workers, demand, max))| MemoryClaim {
        is_automatic,
        cost: (cost % 7 > 0).then_some(cost * MIB),
        max_worker_bytes: 140 * MIB,
        workers,
        private: u64::from(workers) * cost / 2 * MIB,
        demand,
        max_bytes: if max < 1000 { max * MIB } else { u64::MAX },
    })
}

fn needs(claims: &[MemoryClaim]) -> Vec<Need> {
    claims.iter().map(|claim| Need::new(claim, None)).collect()
}

proptest! {
    #[test]
    fn no_more_is_granted_than_there_is_beyond_the_first_workers(
        claims in prop::collection::vec(any_claim(), 1..30),
        room in 0u64..20_000,
    ) {
        let (room, needs) = (room * MIB, needs(&claims));
        let (granted, left) = grant(&needs, room);
        let unconditional = needs.iter().zip(&granted)
            .map(|(need, bytes)| if need.is_automatic { need.cost.min(*bytes) } else { *bytes });
        let unconditional: u64 = unconditional.sum();
        let sum: u64 = granted.iter().sum();
        prop_assert!(sum <= room.max(unconditional), "{sum} of {room}");
        prop_assert_eq!(left, room.saturating_sub(sum));
    }

    #[test]
    fn every_application_with_requests_gets_a_worker_and_none_more_than_it_needs(
        claims in prop::collection::vec(any_claim(), 1..30),
        room in 0u64..20_000,
    ) {
        let needs = needs(&claims);
        let (granted, _) = grant(&needs, room * MIB);
        for (need, bytes) in needs.iter().zip(granted) {
            if need.is_automatic {
                prop_assert!(bytes >= need.bytes(need.demand.min(1)), "{need:?} {bytes}");
                prop_assert!(bytes <= need.bytes(need.demand), "{need:?} {bytes}");
            } else {
                prop_assert_eq!(bytes, need.committed.max(need.bytes(need.demand)));
            }
        }
    }

    #[test]
    fn nobody_has_less_than_another_for_which_it_could_have_a_worker(
        claims in prop::collection::vec(any_claim(), 1..30),
        room in 0u64..20_000,
    ) {
        let needs = needs(&claims);
        let (granted, left) = grant(&needs, room * MIB);
        let automatic = || needs.iter().zip(&granted).filter(|(need, _)| need.is_automatic);
        for (poor, has) in automatic().filter(|(need, has)| **has < need.bytes(need.demand)) {
            prop_assert!(left < poor.cost, "{left} is enough for one more of {poor:?}");
            for (rich, more) in automatic().filter(|(need, more)| **more > need.bytes(2)) {
                prop_assert!(*more < has + rich.cost + poor.cost, "{poor:?} {has} {rich:?} {more}");
            }
        }
    }

    #[test]
    fn an_idle_application_takes_no_memory_from_the_others(
        claims in prop::collection::vec(any_claim(), 1..30),
        room in 0u64..20_000,
    ) {
        let without = divide(&claims, TOTAL, room * MIB);
        let idle = MemoryClaim { demand: 0, private: 0, workers: 0, cost: None, ..claim(0, 0) };
        let with = divide(&[claims.as_slice(), &[idle]].concat(), TOTAL, room * MIB);
        prop_assert_eq!(&with.shares[..claims.len()], without.shares.as_slice());
    }

    #[test]
    fn nonsense_is_divided_without_an_overflow(
        values in prop::collection::vec(any::<(bool, u64, u64, u32, u64, u32, u64)>(), 1..9),
        (total, available) in any::<(u64, u64)>(),
    ) {
        let claims: Vec<_> = values.into_iter().map(|value| {
            let (is_automatic, cost, max_worker_bytes, workers, private, demand, max_bytes) = value;
            let cost = Some(cost).filter(|cost| cost % 2 == 0);
            MemoryClaim { is_automatic, cost, max_worker_bytes, workers, private, demand,
                max_bytes }
        }).collect();
        prop_assert_eq!(divide(&claims, total, available).shares.len(), claims.len());
    }
}
