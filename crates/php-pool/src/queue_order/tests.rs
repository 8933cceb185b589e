use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Request {
    flow: Flow,
    queued: u64,
    number: u64,
}

impl Queued for Request {
    fn flow(&self) -> Flow {
        self.flow
    }

    fn queued(&self) -> u64 {
        self.queued
    }
}

fn request(key: u64, number: u64) -> Request {
    Request { flow: Flow { key, max_running: None }, queued: 0, number }
}

fn capped(key: u64, number: u64, max: u32) -> Request {
    Request { flow: Flow { key, max_running: Some(max) }, queued: 0, number }
}

fn numbers(list: &mut WaitingList<Request>) -> Vec<(u64, u64)> {
    std::iter::from_fn(|| list.next(0)).map(|next| (next.flow.key, next.number)).collect()
}

#[test]
fn one_flow_is_a_simple_queue() {
    let mut list = WaitingList::default();
    (0..100).for_each(|number| list.push(request(7, number)));
    let expected: Vec<_> = (0..100).map(|number| (7, number)).collect();
    assert_eq!(numbers(&mut list), expected);
    assert!(list.is_empty() && list.next(0).is_none());
}

#[test]
fn two_hundred_requests_of_one_visitor_delay_another_by_one() {
    let mut list = WaitingList::default();
    (0..200).for_each(|number| list.push(request(1, number)));
    assert_eq!(list.next(0), Some(request(1, 0)));
    list.push(request(2, 0));
    assert_eq!(list.next(0), Some(request(2, 0)), "a new flow is first");
    (1..4).for_each(|number| list.push(request(2, number)));
    let order: Vec<_> = numbers(&mut list).into_iter().take(8).collect();
    assert_eq!(order, [(1, 1), (2, 1), (1, 2), (2, 2), (1, 3), (2, 3), (1, 4), (1, 5)]);
}

#[test]
fn flows_that_are_always_new_do_not_starve_an_old_one() {
    let mut list = WaitingList::default();
    (0..10).for_each(|number| list.push(request(1, number)));
    list.next(0);
    let mut turns = 0;
    for key in 100..1000 {
        list.push(request(key, 0));
        list.push(request(key + 10_000, 0));
        turns += u64::from(list.next(0).is_some_and(|next| next.flow.key == 1));
        if turns == 9 {
            assert!(key < 100 + 9 * (u64::from(MAX_NEW_IN_A_ROW) + 1), "the {key}th turn");
            return;
        }
    }
    panic!("{turns} turns");
}

/// Each of fifty clients sends its next request when the last one is answered, from the moment at
/// which the pool of four was idle. A visitor that sends less than its share is served before them.
#[test]
fn clients_that_send_one_request_after_the_other_are_not_new_each_time() {
    let mut list = WaitingList::default();
    let visitor = 1000;
    for number in 0..5 {
        list.push(request(visitor, number));
        assert!(list.next(0).is_some());
    }
    let mut running: VecDeque<u64> = (0..4).collect();
    (4..50).for_each(|key| list.push(request(key, 0)));
    let mut waits = Vec::new();
    for turn in 1..4000 {
        if turn % 60 == 0 {
            list.push(request(visitor, turn));
        }
        let next = list.next(0).expect("somebody waits");
        if next.flow.key == visitor {
            waits.push(turn - next.number);
        } else {
            running.push_back(next.flow.key);
        }
        // The one whose script has ended sends the next.
        if running.len() > 4
            && let Some(key) = running.pop_front()
        {
            list.push(request(key, turn));
        }
    }
    assert_eq!((waits.len(), waits.iter().max()), (66, Some(&0)), "{waits:?}");
}

#[test]
fn a_flow_has_no_turn_while_its_maximum_runs() {
    let mut list = WaitingList::default();
    (0..5).for_each(|number| list.push(capped(1, number, 2)));
    list.push(request(2, 0));
    let running = numbers(&mut list);
    assert_eq!(running, [(1, 0), (2, 0), (1, 1)]);
    assert_eq!(list.len(), 3);
    list.ended(capped(1, 0, 2).flow);
    assert_eq!(numbers(&mut list), [(1, 2)]);
    list.take_back([capped(1, 2, 2)]);
    assert_eq!(numbers(&mut list), [(1, 2)], "a request that is taken back does not run");
    for _ in 0..2 {
        list.ended(capped(1, 0, 2).flow);
    }
    assert_eq!(numbers(&mut list), [(1, 3), (1, 4)]);
}

#[test]
fn a_flow_leaves_room_for_others() {
    let mut list = WaitingList::default();
    let is_greedy = |list: &WaitingList<Request>, key| list.is_greedy(request(key, 0).flow, 100);
    for number in 0..50 {
        assert!(!is_greedy(&list, 1));
        list.push(request(1, number));
    }
    assert!(is_greedy(&list, 1) && !is_greedy(&list, 2));
    list.push(request(2, 0));
    assert!(is_greedy(&list, 1) && !is_greedy(&list, 2), "others have a share of their own");
}

#[test]
fn a_new_key_for_each_request_leaves_no_memory_behind() {
    let mut list = WaitingList::default();
    list.push(request(1, 0));
    list.push(request(1, 1));
    for key in 2..100_000 {
        list.push(request(key, 0));
        list.next(0);
    }
    let kept = list.flows.len();
    assert!(kept <= 2 * list.len() + MIN_EMPTY_FLOWS + 1, "{kept} flows");
    assert!(list.old.len() + list.new.len() <= kept);
}

#[test]
fn of_an_overloaded_flow_those_that_wait_too_long_are_given_up() {
    let at = |number: u64| Request { queued: number, ..request(1, number) };
    let is = |number: u64| move |request: &Request| request.number == number;
    let mut list = WaitingList::new(Some(100));
    (0..10).for_each(|number| list.push(at(number)));
    assert_eq!(list.give_up(99, is(0)), None, "the flow is not overloaded yet");
    assert_eq!(list.next(50), Some(at(0)));
    assert_eq!(list.give_up(140, is(1)), None, "a request was served in time 90 before");
    assert_eq!(list.next(140), Some(at(1)));
    assert_eq!(list.give_up(150, is(2)), Some(at(2)));
    assert_eq!((list.give_up(150, is(2)), list.len()), (None, 7));
    // Younger requests of the same flow continue.
    list.push(at(120));
    assert_eq!(list.give_up(155, is(120)), None);
    // Without patience no request is given up.
    let mut patient = WaitingList::new(None);
    patient.push(at(0));
    assert_eq!(patient.give_up(u64::MAX, is(0)), None);
}

proptest! {
    /// Each request is served once and in the order of its flow, whichever requests are withdrawn
    /// meanwhile.
    #[test]
    fn no_request_is_lost_or_served_twice(
        steps in proptest::collection::vec(
            (0u64..6, 0u64..5, proptest::option::of(1u32..3)), 1..300),
    ) {
        let mut list = WaitingList::default();
        let (mut waiting, mut running) = (Vec::<Request>::new(), Vec::<Request>::new());
        for (number, (step, key, max)) in (0..).zip(steps) {
            // A flow has the same maximum for all requests.
            let max_running = max.filter(|_| key > 2).map(|_| key as u32 - 2);
            match step {
                0..=2 => {
                    let request = Request { flow: Flow { key, max_running }, queued: 0, number };
                    list.push(request);
                    waiting.push(request);
                }
                3 => if let Some(request) = list.next(0) {
                    let first = waiting.iter().position(|w| w.flow.key == request.flow.key);
                    prop_assert_eq!(waiting.remove(first.expect("waits")), request);
                    running.push(request);
                },
                4 => if let Some(request) = running.pop() {
                    list.ended(request.flow);
                },
                _ => if let Some(request) = waiting.pop() {
                    prop_assert_eq!(list.remove(|w| *w == request), Some(request));
                },
            }
            prop_assert_eq!(list.len(), waiting.len());
            for key in 3..5 {
                let count = running.iter()
                    .filter(|r| r.flow.key == key && r.flow.max_running.is_some());
                prop_assert!(count.count() <= key as usize - 2);
            }
        }
        for request in running {
            list.ended(request.flow);
        }
        while let Some(request) = list.next(0) {
            let first = waiting.iter().position(|w| w.flow.key == request.flow.key);
            prop_assert_eq!(waiting.remove(first.expect("waits")), request);
            list.ended(request.flow);
        }
        prop_assert!(waiting.is_empty() && list.running.is_empty());
    }
}

/// Serves 50 attackers, each of which has this many requests at all times, and an honest visitor,
/// on four workers. Scripts take a thousand steps. Returns the steps from each request of the
/// visitor to its response.
fn visits(requests_of_attacker: usize, fair: bool) -> Vec<u64> {
    const WORKERS: usize = 4;
    const STEPS: u64 = 1000;
    let flow = |key: u64| Flow { key: if fair { key } else { 0 }, max_running: None };
    let mut list = WaitingList::default();
    let mut workers: Vec<Option<(u64, Request)>> = vec![None; WORKERS];
    for attacker in 1..=50 {
        for _ in 0..requests_of_attacker {
            list.push(Request { flow: flow(attacker), queued: 0, number: attacker });
        }
    }
    let (mut visits, mut is_served) = (Vec::new(), true);
    for now in 0..800_000u64 {
        for worker in &mut workers {
            if let Some((end, request)) = worker
                && *end <= now
            {
                let number = request.number;
                if number == 0 {
                    visits.push(now - request.queued);
                    is_served = true;
                } else {
                    list.push(Request { flow: flow(number), queued: now, number });
                }
                *worker = None;
            }
        }
        // The visitor asks now and then, not in step with the workers. In between, each attacker
        // has a turn, which takes 12,500 steps.
        if is_served && now % 16_001 == 16_000 {
            list.push(Request { flow: flow(0xf00d), queued: now, number: 0 });
            is_served = false;
        }
        for worker in workers.iter_mut().filter(|worker| worker.is_none()) {
            // Scripts differ, so that workers do not end at the same moment.
            *worker = list.next(now).map(|request| (now + STEPS - now % 97, request));
        }
    }
    visits
}

/// Alone, the visitor does not wait: a script takes a thousand steps.
#[test]
fn fifty_attackers_cost_an_honest_visitor_less_than_one_script_more() {
    for requests in [1, 20] {
        let fair = visits(requests, true);
        assert!(fair.len() > 40 && fair.iter().all(|time| *time <= 2000), "{requests}: {fair:?}");
        let unfair = visits(requests, false);
        assert!(unfair.iter().all(|time| *time > 10_000), "{requests}: {unfair:?}");
    }
}
