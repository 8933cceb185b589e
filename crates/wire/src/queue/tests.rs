use super::*;
use crate::region::Geometry;

const ME: WorkerId = WorkerId { index: 0, incarnation: 1 };

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
        ("many that shall leave at once", |region, _| region.retire_now(1 << 40)),
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
    let (mut producer, last) = (Producer::new(&region), WorkerId { index: 99, incarnation: 1 });
    let mut is_called = || {
        let slot = producer.take_slot().unwrap();
        assert!(region.stage(slot, 0, b"request"));
        producer.publish(&region, slot).unwrap().1.is_some()
    };
    assert!(!is_called(), "nobody sleeps");
    region.begin_sleep(ME);
    region.begin_sleep(last);
    let other = Some(WakeUp(last.wait_set()));
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
    let workers = [3, 70, 99].map(|index| WorkerId { index, incarnation: 1 });
    for worker in workers.into_iter().rev() {
        region.begin_sleep(worker);
    }
    let call = |worker: WorkerId| Some(WakeUp(worker.wait_set()));
    assert_eq!(called(), call(workers[0]), "the first one");
    assert_eq!((called(), called()), (None, None), "one is on its way");
    let come = |worker| {
        assert!(matches!(region.take(worker), Work::Request { .. }));
        region.end_sleep(worker)
    };
    assert_eq!(come(workers[0]), call(workers[1]), "two requests wait");
    assert_eq!(come(workers[1]), call(workers[2]), "one waits");
    assert_eq!(come(workers[2]), None, "none waits");
    assert_eq!(called(), None, "none sleeps");
    region.begin_sleep(workers[1]);
    assert_eq!(region.end_sleep(workers[1]), None, "a request waits, but nobody sleeps");
}

#[test]
fn workers_beyond_what_memory_allows_leave_although_requests_wait() {
    let region = region(2);
    let mut producer = Producer::new(&region);
    let (slot, ticket) = publish(&region, &mut producer).unwrap();
    region.retire_now(2);
    assert_eq!(region.take(ME), Work::Exit);
    region.retire_now(0);
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
    let asleep = WorkerId { index: 1, incarnation: 1 };
    region.begin_sleep(asleep);
    assert!(region.begin_spin(ME));
    assert!(!region.begin_spin(ME), "one is enough");
    assert!(!region.has_entries());
    for _ in 0..2 {
        let slot = producer.take_slot().unwrap();
        assert!(region.stage(slot, 0, b"request"));
        assert_eq!(producer.publish(&region, slot).unwrap().1, None);
    }
    assert!(region.has_entries());
    assert!(matches!(region.take(ME), Work::Request { .. }));
    let call = region.end_sleep(ME).expect("there is more to do");
    assert_eq!(call.wake_set(), asleep.wait_set());
    // The worker ends while it looks.
    assert!(matches!(region.take(asleep), Work::Request { .. }));
    assert_eq!(region.end_sleep(asleep), None);
    assert!(region.begin_spin(ME));
    region.begin_sleep(asleep);
    assert_eq!(region.ended(ME), None);
    let slot = producer.take_slot().unwrap();
    assert!(region.stage(slot, 0, b"request"));
    assert!(producer.publish(&region, slot).unwrap().1.is_some());
}

#[test]
fn every_state_of_a_slot_is_read_back_and_any_word_is_some_state() {
    let owner = WorkerId { index: WorkerId::LIMIT - 1, incarnation: 0xabcd };
    for claim in [
        Claim::Free,
        Claim::Queued(0x0123_4567),
        Claim::Cancelled(u32::MAX),
        Claim::Taken(0x89ab_cdef, owner),
        Claim::Taken(0, WorkerId { index: 0, incarnation: 0 }),
    ] {
        assert_eq!(Claim::decode(claim.encode()), claim);
    }
    for word in [u64::from(WorkerId::LIMIT), 0xfffc, u64::from(FREE), 7 << 32 | 0xfff7] {
        assert_eq!(Claim::decode(word), Claim::Free, "{word:#x}");
    }
}

#[test]
fn a_slot_is_taken_once_and_the_last_one_used_comes_first() {
    let region = region(2);
    let mut producer = Producer::new(&region);
    let slots: Vec<_> = std::iter::from_fn(|| producer.take_slot()).collect();
    assert_eq!(slots, [0, 1, 2, 3]);
    assert!(!producer.has_slot());
    producer.release(&region, 3);
    producer.release(&region, 1);
    assert!(producer.has_slot());
    assert_eq!((producer.take_slot(), producer.take_slot()), (Some(1), Some(3)));
    assert_eq!(region.claim_of(1), Claim::Free);
    assert_eq!(region.claim_of(99), Claim::Free, "there is no such slot");
}

#[test]
fn a_request_that_was_taken_cannot_be_withdrawn() {
    let region = region(2);
    let mut producer = Producer::new(&region);
    let (slot, ticket) = publish(&region, &mut producer).unwrap();
    assert!(!region.cancel(slot, ticket + 1) && !region.cancel(99, ticket));
    assert_eq!(region.claim_of(slot), Claim::Queued(ticket));
    assert!(matches!(region.take(ME), Work::Request { .. }));
    assert_eq!(region.claim_of(slot), Claim::Taken(ticket, ME));
    assert!(!region.cancel(slot, ticket));
}

#[test]
fn workers_that_are_to_end_do_so_in_the_number_that_was_asked_for() {
    let region = region(2);
    let mut producer = Producer::new(&region);
    let woken = |change: &dyn Fn()| {
        let before = region.wake_word().load(SeqCst);
        change();
        region.wake_word().load(SeqCst) != before
    };
    assert_eq!(region.take(ME), Work::Idle);
    assert!(woken(&|| region.retire(2)), "sleeping workers look again");
    let (slot, ticket) = publish(&region, &mut producer).unwrap();
    assert_eq!(region.take(ME), Work::Request { slot, ticket, thread: 0 }, "requests come first");
    assert_eq!([(); 3].map(|()| region.take(ME)), [Work::Exit, Work::Exit, Work::Idle]);
    assert!(woken(&|| region.retire_now(1)) && !woken(&|| region.retire_now(0)));
    assert_eq!(region.take(ME), Work::Idle);
    assert!(woken(&|| region.retire_now(1)));
    assert_eq!([(); 2].map(|()| region.take(ME)), [Work::Exit, Work::Idle]);
    assert!(!region.is_closing());
    let (slot, ticket) = publish(&region, &mut producer).unwrap();
    assert!(woken(&|| region.close()) && region.is_closing());
    assert_eq!(region.take(ME), Work::Request { slot, ticket, thread: 0 }, "requests come first");
    assert_eq!([(); 2].map(|()| region.take(ME)), [Work::Exit, Work::Exit]);
}

#[test]
fn a_sleeping_worker_is_known_until_it_wakes_or_has_ended() {
    let region = region(100);
    let (one, other) = (WorkerId { index: 64, ..ME }, WorkerId { index: 65, ..ME });
    let sequence = region.begin_sleep(one);
    assert_eq!(sequence, region.wake_word().load(SeqCst) as u32);
    region.begin_sleep(other);
    assert!(region.is_asleep(one) && region.is_asleep(other) && !region.is_asleep(ME));
    assert_eq!(region.end_sleep(one), None);
    assert!(!region.is_asleep(one) && region.is_asleep(other));
    assert_eq!(region.ended(other), None);
    assert!(!region.is_asleep(other));
    let nobody = WorkerId { index: WorkerId::LIMIT - 1, ..ME };
    region.begin_sleep(nobody);
    assert!(!region.is_asleep(nobody), "there is no room for so many");
}

#[test]
fn the_word_that_workers_wait_on_changes_with_every_call() {
    let region = region(2);
    let mut producer = Producer::new(&region);
    let sequence = region.begin_sleep(ME);
    publish(&region, &mut producer).unwrap();
    assert_ne!(region.wake_word().load(SeqCst) as u32, sequence);
}

#[test]
fn each_worker_waits_for_its_bit() {
    let set = |index| WorkerId { index, incarnation: 1 }.wait_set().get();
    assert_eq!([0, 1, 31, 32, 33].map(set), [1, 2, 1 << 31, 1, 2]);
}

#[test]
fn a_request_is_copied_out_as_it_was_staged() {
    let region = region(2);
    let longest = region.geometry().request_bytes as usize;
    let mut out = vec![9; 3];
    for request in [&b""[..], b"request", &vec![7; longest]] {
        let words = region.slot(1).unwrap();
        let state = [words.aborted, words.consumed, words.written, words.waiting, words.started];
        state.iter().for_each(|word| word.store(5, Relaxed));
        assert!(region.stage(1, 6, request));
        region.request(1, &mut out);
        assert_eq!(out, request);
        assert_eq!(words.thread.load(Relaxed), 6);
        assert!(state.iter().all(|word| word.load(Relaxed) == 0));
    }
    assert!(!region.stage(1, 0, &vec![7; longest + 1]) && !region.stage(99, 0, b""));
    region.slot(1).unwrap().request_len.store(u64::MAX, Relaxed);
    region.request(1, &mut out);
    assert_eq!(out.len(), longest, "no more than a slot has");
    region.request(99, &mut out);
    assert!(out.is_empty());
}

#[test]
fn a_full_ring_takes_no_more_until_a_worker_passes_an_entry() {
    let region = region(1);
    let mut producer = Producer::new(&region);
    let (first, _) = publish(&region, &mut producer).unwrap();
    let mut count = 1;
    while let Some((slot, ticket)) = publish(&region, &mut producer) {
        assert!(region.cancel(slot, ticket));
        producer.release(&region, slot);
        count += 1;
    }
    assert_eq!(count, region.entries());
    assert!(matches!(region.take(ME), Work::Request { slot, .. } if slot == first));
    assert!(publish(&region, &mut producer).is_some());
}

#[test]
fn a_full_ring_has_room_as_soon_as_its_oldest_request_is_cancelled() {
    let region = region(1);
    let mut producer = Producer::new(&region);
    let (oldest, ticket) = publish(&region, &mut producer).unwrap();
    while let Some((slot, ticket)) = publish(&region, &mut producer) {
        assert!(region.cancel(slot, ticket));
        producer.release(&region, slot);
    }
    assert!(region.cancel(oldest, ticket));
    assert!(publish(&region, &mut producer).is_some());
}

#[test]
fn a_queue_at_its_limits_is_sound_and_one_beyond_them_is_not() {
    let region = region(1);
    let mut producer = Producer::new(&region);
    let (kept, ticket) = publish(&region, &mut producer).unwrap();
    while let Some((slot, ticket)) = publish(&region, &mut producer) {
        assert!(region.cancel(slot, ticket));
        producer.release(&region, slot);
    }
    assert_eq!(producer.damage(&region), None, "the ring is full");
    region.retire(u64::from(WorkerId::LIMIT));
    region.retire_now(u64::from(WorkerId::LIMIT));
    assert_eq!(producer.damage(&region), None);
    region.slot(kept).unwrap().claim.store(Claim::Cancelled(ticket).encode(), SeqCst);
    assert_eq!(producer.damage(&region), None);
    region.slot(kept).unwrap().claim.store(Claim::Cancelled(ticket + 1).encode(), SeqCst);
    assert!(producer.damage(&region).is_some());
}
