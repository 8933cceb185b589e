use super::*;
use crate::region::Geometry;

const ME: Owner = Owner { index: 0, incarnation: 1 };

fn region(workers: u32) -> Region<Vec<AtomicU64>> {
    let geometry = Geometry { response_bytes: 8192, ..Geometry::for_pool(workers, 1) };
    let words = (0..geometry.region_bytes() / 8).map(|_| AtomicU64::new(0)).collect();
    Region::new(words, geometry).unwrap()
}

fn publish(region: &Region<Vec<AtomicU64>>, producer: &mut Producer) -> Option<(u32, u32)> {
    let slot = producer.take_slot()?;
    assert!(region.stage(slot, 0, b"request"));
    match producer.publish(region, slot) {
        Ok((ticket, _)) => Some((slot, ticket)),
        Err(Full) => {
            producer.release(region, slot);
            None
        }
    }
}

#[test]
fn damage_to_the_queue_is_noticed_and_nothing_else_is_taken_for_it() {
    type Harm = fn(&Region<Vec<AtomicU64>>, u32);
    let harms: [(&str, Harm); 9] = [
        ("a head beyond the tail", |region, _| region.head().store(9999, SeqCst)),
        ("a head that was moved past", |region, _| region.head().store(2, SeqCst)),
        ("a tail", |region, _| region.tail().store(0, SeqCst)),
        ("an entry", |region, _| region.entry(1).store(77, SeqCst)),
        ("a freed claim", |region, slot| {
            region.slot(slot).unwrap().claim.store(Claim::Free.encode(), SeqCst);
        }),
        ("another ticket", |region, slot| {
            region.slot(slot).unwrap().claim.store(Claim::Queued(40).encode(), SeqCst);
        }),
        ("somebody else's claim", |region, slot| {
            region.slot(slot).unwrap().claim.store(Claim::Taken(41, ME).encode(), SeqCst);
        }),
        ("many that shall leave", |region, _| region.retire(1 << 40)),
        ("many that shall leave at once", |region, _| region.shed(1 << 40)),
    ];
    for (what, harm) in harms {
        let region = region(4);
        let mut producer = Producer::new(&region);
        assert_eq!(producer.damage(&region), None);
        let first = publish(&region, &mut producer).unwrap();
        let second = publish(&region, &mut producer).unwrap();
        assert_eq!(producer.damage(&region), None);
        assert!(matches!(region.take(ME), Work::Request { .. }));
        assert_eq!(producer.damage(&region), None, "one was taken");
        region.retire(3);
        assert_eq!(producer.damage(&region), None);
        harm(&region, second.0);
        assert!(producer.damage(&region).is_some(), "{what}");
        let _ = first;
    }
    let region = region(4);
    let mut producer = Producer::new(&region);
    for round in 0..100 {
        let (slot, ticket) = publish(&region, &mut producer).unwrap();
        if round % 3 == 0 {
            assert!(region.cancel(slot, ticket));
        } else {
            assert!(matches!(region.take(ME), Work::Request { .. }));
        }
        assert_eq!(producer.damage(&region), None);
        producer.release(&region, slot);
        assert_eq!(producer.damage(&region), None);
    }
}

#[test]
fn requests_are_taken_once_and_in_order() {
    let region = region(4);
    let mut producer = Producer::new(&region);
    let published: Vec<_> = (0..8).filter_map(|_| publish(&region, &mut producer)).collect();
    assert_eq!(published.len(), 8);
    for (slot, ticket) in published {
        assert_eq!(region.take(ME), Work::Request { slot, ticket, thread: 0 });
    }
    assert_eq!(region.take(ME), Work::Idle);
}

#[test]
fn any_number_of_cancelled_requests_leaves_room_while_all_workers_are_busy() {
    let region = region(1);
    let mut producer = Producer::new(&region);
    publish(&region, &mut producer).unwrap();
    assert!(matches!(region.take(ME), Work::Request { .. }), "the worker is busy from here");
    for _ in 0..100 {
        let (slot, ticket) = publish(&region, &mut producer).expect("there is room");
        assert!(region.cancel(slot, ticket));
        producer.release(&region, slot);
    }
    let (slot, ticket) = publish(&region, &mut producer).expect("there is room");
    assert_eq!(region.take(ME), Work::Request { slot, ticket, thread: 0 });
}

#[test]
fn requests_that_wait_are_not_passed_with_the_cancelled_ones() {
    let region = region(1);
    let mut producer = Producer::new(&region);
    let first = publish(&region, &mut producer).unwrap();
    while let Some((slot, ticket)) = publish(&region, &mut producer) {
        assert!(region.cancel(slot, ticket));
        producer.release(&region, slot);
    }
    let (slot, ticket) = first;
    assert_eq!(region.take(ME), Work::Request { slot, ticket, thread: 0 });
    assert!(publish(&region, &mut producer).is_some(), "there is room again");
}

#[test]
fn a_worker_that_dies_asleep_is_called_no_more() {
    let region = region(100);
    let (mut producer, last) = (Producer::new(&region), Owner { index: 99, incarnation: 1 });
    let mut is_called = || {
        let slot = producer.take_slot().unwrap();
        assert!(region.stage(slot, 0, b"request"));
        producer.publish(&region, slot).unwrap().1.is_some()
    };
    assert!(!is_called(), "nobody sleeps");
    region.going_to_sleep(ME);
    region.going_to_sleep(last);
    let other = Some(Call(last.wait_set()));
    assert_eq!(region.ended(ME), other, "the other one sleeps, and a request waits");
    assert_eq!(region.ended(last), None);
    assert!(!is_called());
}

#[test]
fn sleeping_workers_are_called_one_after_the_other() {
    let region = region(100);
    let mut producer = Producer::new(&region);
    let mut called = || {
        let slot = producer.take_slot().unwrap();
        assert!(region.stage(slot, 0, b"request"));
        producer.publish(&region, slot).unwrap().1
    };
    let workers = [3, 70, 99].map(|index| Owner { index, incarnation: 1 });
    for worker in workers.into_iter().rev() {
        region.going_to_sleep(worker);
    }
    let call = |worker: Owner| Some(Call(worker.wait_set()));
    assert_eq!(called(), call(workers[0]), "the first one");
    assert_eq!((called(), called()), (None, None), "one is on its way");
    let come = |worker| {
        assert!(matches!(region.take(worker), Work::Request { .. }));
        region.awake(worker)
    };
    assert_eq!(come(workers[0]), call(workers[1]), "two requests wait");
    assert_eq!(come(workers[1]), call(workers[2]), "one waits");
    assert_eq!(come(workers[2]), None, "none waits");
    assert_eq!(called(), None, "none sleeps");
    region.going_to_sleep(workers[1]);
    assert_eq!(region.awake(workers[1]), None, "a request waits, but nobody sleeps");
}

#[test]
fn workers_beyond_what_memory_allows_leave_although_requests_wait() {
    let region = region(2);
    let mut producer = Producer::new(&region);
    let (slot, ticket) = publish(&region, &mut producer).unwrap();
    region.shed(2);
    assert_eq!(region.take(ME), Work::Leave);
    region.shed(0);
    assert_eq!(region.take(ME), Work::Request { slot, ticket, thread: 0 });
}

#[test]
fn nonsense_in_the_head_makes_no_endless_loop() {
    let region = region(1);
    let mut producer = Producer::new(&region);
    for head in [1, 5, u64::MAX, 1 << 63] {
        region.head().store(head, Relaxed);
        publish(&region, &mut producer);
    }
}

#[test]
fn nonsense_in_the_tail_makes_no_endless_loop() {
    let region = region(1);
    let mut producer = Producer::new(&region);
    for tail in [9, u64::MAX, 1 << 63] {
        region.tail().store(tail, Relaxed);
        assert_eq!(region.take(ME), Work::Idle);
    }
    let (slot, ticket) = publish(&region, &mut producer).expect("the producer knows better");
    assert_eq!(region.take(ME), Work::Request { slot, ticket, thread: 0 });
}

#[test]
fn nobody_is_called_for_what_a_worker_looks_for_that_stays_awake() {
    let region = region(4);
    let mut producer = Producer::new(&region);
    let asleep = Owner { index: 1, incarnation: 1 };
    region.going_to_sleep(asleep);
    assert!(region.stay_awake());
    assert!(!region.stay_awake(), "one is enough");
    assert!(!region.has_entries());
    for _ in 0..2 {
        let slot = producer.take_slot().unwrap();
        assert!(region.stage(slot, 0, b"request"));
        assert_eq!(producer.publish(&region, slot).unwrap().1, None);
    }
    assert!(region.has_entries());
    assert!(matches!(region.take(ME), Work::Request { .. }));
    let call = region.awake(ME).expect("there is more to do");
    assert_eq!(call.wake_set(), asleep.wait_set());
    // It ends while it looks.
    assert!(matches!(region.take(asleep), Work::Request { .. }));
    assert_eq!(region.awake(asleep), None);
    assert!(region.stay_awake());
    region.going_to_sleep(asleep);
    assert_eq!(region.ended(ME), None);
    let slot = producer.take_slot().unwrap();
    assert!(region.stage(slot, 0, b"request"));
    assert!(producer.publish(&region, slot).unwrap().1.is_some());
}
