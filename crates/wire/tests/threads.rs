//! Queue and streams between concurrent threads, as between the router and its workers: no message
//! is lost or duplicated, and no wake-up is missed.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use howdah_sys::futex;
use howdah_sys::shm::{self, Mapping};
use howdah_wire::queue::{Claim, Full, Producer, Work, WorkerId};
use howdah_wire::region::{Geometry, Region};
use howdah_wire::stream::{Reader, Writer};

/// Timeout of a wait; only a lost wake-up takes this long.
const LOST: Duration = Duration::from_secs(20);

/// A region with two mappings, as in two processes.
fn shared(geometry: Geometry) -> (Region<Mapping>, Region<Mapping>) {
    let memory = shm::create("test", geometry.region_bytes()).unwrap();
    let region = || Region::new(Mapping::map(&memory).unwrap(), geometry).unwrap();
    (region(), region())
}

fn small(slots: u32) -> Geometry {
    Geometry { slots, threads: 1, request_bytes: 4096, response_bytes: 8192 }
}

/// Waits for a request as a worker does; `None` at the end.
fn next_request(region: &Region<Mapping>, me: WorkerId) -> Option<(u32, u32)> {
    loop {
        let mut work = region.take(me);
        if work == Work::Idle {
            let sequence = region.begin_sleep(me);
            work = region.take(me);
            if work == Work::Idle {
                let asleep = Instant::now();
                futex::wait_in(region.wake_word(), sequence, me.wait_set(), Some(LOST));
                work = region.take(me);
                let in_time = work == Work::Idle || asleep.elapsed() < LOST;
                assert!(in_time, "work came and nobody said so");
            }
            if let Some(call) = region.end_sleep(me) {
                futex::wake_in(region.wake_word(), call.wake_set());
            }
        }
        match work {
            Work::Request { slot, ticket, thread: 0 } => return Some((slot, ticket)),
            Work::Request { thread, .. } => panic!("thread {thread}"),
            Work::Idle => {}
            Work::Exit => return None,
        }
    }
}

/// State that the router keeps under its lock.
struct Router {
    region: Region<Mapping>,
    producer: Mutex<Producer>,
}

impl Router {
    /// Queues request `number`, waiting for a free slot. Returns slot and ticket.
    fn queue(&self, number: u64) -> (u32, u32) {
        loop {
            {
                let mut producer = self.producer.lock().unwrap();
                if let Some(slot) = producer.take_slot() {
                    assert!(self.region.stage(slot, 0, &number.to_le_bytes()));
                    match producer.publish(&self.region, slot) {
                        Ok((ticket, call)) => {
                            drop(producer);
                            if let Some(call) = call {
                                futex::wake_in(self.region.wake_word(), call.wake_set());
                            }
                            return (slot, ticket);
                        }
                        Err(Full) => producer.release(&self.region, slot),
                    }
                }
            }
            thread::yield_now();
        }
    }

    fn release(&self, slot: u32) {
        self.producer.lock().unwrap().release(&self.region, slot);
    }

    fn close(&self) {
        self.region.close();
        futex::wake(self.region.wake_word(), u32::MAX >> 1);
    }
}

/// Queues `count` requests for four workers, cancels those selected by `cancels`, and returns for
/// each the number of times it was taken and whether it was cancelled.
fn run(count: u64, pause: bool, cancels: fn(u64) -> bool) -> Vec<(u64, bool)> {
    let (region, workers) = shared(small(8));
    let producer = Mutex::new(Producer::new(&region));
    let router = Router { region, producer };
    let taken: Vec<AtomicU64> = (0..count).map(|_| AtomicU64::new(0)).collect();
    // Slot of each ticket plus one, so that a worker can check the request before its own.
    let slots: Vec<AtomicU64> = (0..count).map(|_| AtomicU64::new(0)).collect();
    let mut cancelled = vec![false; count as usize];

    let serve = |index: u16| {
        let me = WorkerId { index, incarnation: 1 };
        let mut last = None;
        let mut request = Vec::new();
        while let Some((slot, ticket)) = next_request(&workers, me) {
            assert_eq!(workers.claim_of(slot), Claim::Taken(ticket, me));
            assert!(last < Some(ticket), "{ticket} was taken after {last:?}");
            last = Some(ticket);
            let before = ticket.saturating_sub(1);
            let before_slot = slots[before as usize].load(Acquire).checked_sub(1);
            if let Some(slot) = before_slot.filter(|_| before < ticket) {
                let claim = workers.claim_of(slot as u32);
                assert_ne!(claim, Claim::Queued(before), "{ticket} was taken before it");
            }
            workers.request(slot, &mut request);
            let number = u64::from_le_bytes(request[..].try_into().unwrap());
            taken[number as usize].fetch_add(1, SeqCst);
            if pause && number % 7 == 0 {
                thread::sleep(Duration::from_micros(number % 50));
            }
            router.release(slot);
        }
    };
    thread::scope(|scope| {
        let servers: Vec<_> = (0..4).map(|index| scope.spawn(move || serve(index))).collect();
        for number in 0..count {
            let (slot, ticket) = router.queue(number);
            slots[ticket as usize].store(u64::from(slot) + 1, Release);
            if cancels(number) && router.region.cancel(slot, ticket) {
                cancelled[number as usize] = true;
                router.release(slot);
            }
            if pause && number % 11 == 0 {
                thread::sleep(Duration::from_micros(number % 90));
            }
        }
        router.close();
        servers.into_iter().for_each(|server| server.join().unwrap());
    });
    taken.into_iter().map(AtomicU64::into_inner).zip(cancelled).collect()
}

#[test]
fn every_request_is_taken_once_and_in_order_by_many_workers() {
    let outcome = run(20_000, false, |_| false);
    assert!(outcome.iter().all(|request| *request == (1, false)));
}

#[test]
fn no_worker_sleeps_through_a_request() {
    // Both sides pause, so that workers fall asleep repeatedly.
    let outcome = run(4_000, true, |_| false);
    assert!(outcome.iter().all(|request| *request == (1, false)));
}

#[test]
fn a_request_is_either_taken_back_or_taken_and_never_both() {
    let outcome = run(20_000, false, |number| number % 3 == 0);
    for (number, (taken, cancelled)) in outcome.into_iter().enumerate() {
        assert_eq!(taken, u64::from(!cancelled), "request {number}");
    }
}

#[test]
fn workers_that_are_asked_to_leave_do_so_and_no_others() {
    let (region, workers) = shared(small(4));
    let workers = Arc::new(workers);
    let spawn = |index| {
        let workers = Arc::clone(&workers);
        thread::spawn(move || next_request(&workers, WorkerId { index, incarnation: 0 }))
    };
    let mut threads: Vec<_> = (0..4).map(spawn).collect();
    region.retire(3);
    futex::wake(region.wake_word(), u32::MAX >> 1);
    while threads.iter().filter(|thread| thread.is_finished()).count() < 3 {
        thread::yield_now();
    }
    threads.retain(|thread| !thread.is_finished());
    assert_eq!(threads.len(), 1);
    region.close();
    futex::wake(region.wake_word(), u32::MAX >> 1);
    assert_eq!(threads.remove(0).join().unwrap(), None);
}

#[test]
fn a_stream_arrives_whole_whoever_is_faster() {
    for pauses in [[0, 0], [0, 3], [3, 0], [5, 7]] {
        stream(2_000, pauses);
    }
}

/// Writes `count` frames of all lengths from a worker; each side pauses after a given number of
/// frames.
fn stream(count: u64, [writer_pause, reader_pause]: [u64; 2]) {
    let (region, worker) = shared(small(2));
    let event = AtomicU64::new(0); // the thread's eventfd
    let length = |frame: u64| (frame * 7919 % 2041) as usize;
    let pause = |every: u64, frame: u64| {
        if every != 0 && frame.is_multiple_of(every) {
            thread::sleep(Duration::from_micros(frame % 60));
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = Writer::new(1, 0);
            let publish = |writer: &mut Writer| {
                if writer.publish(&worker) {
                    event.fetch_add(1, SeqCst);
                    futex::wake(&event, 1);
                }
            };
            for frame in 0..count {
                let payload = vec![frame as u8; length(frame)];
                while !writer.put(&worker, (frame % 251) as u8, &payload) {
                    publish(&mut writer);
                    if let Some(sequence) = writer.wait_for_room(&worker, payload.len()) {
                        let words = worker.slot(1).unwrap();
                        futex::wait(words.space, sequence, Some(LOST));
                        let waits_still = words.space.load(SeqCst) as u32 == sequence;
                        assert!(!waits_still, "room came and nobody said so");
                    }
                }
                pause(writer_pause, frame);
                if frame % 5 == 0 || frame + 1 == count {
                    publish(&mut writer);
                }
            }
        });
        let mut reader = Reader::default();
        let mut out = Vec::new();
        let mut frame = 0;
        while frame < count {
            let mut dirty = false;
            region.take_dirty(0, |slot| dirty |= slot == 1);
            if !dirty {
                let seen = event.load(SeqCst) as u32;
                if !region.thread_sleeps(0, false) {
                    futex::wait(&event, seen, Some(LOST));
                    let slept_on = event.load(Relaxed) as u32 == seen;
                    assert!(!slept_on, "a frame came and nobody said so");
                }
                region.thread_wakes(0);
                continue;
            }
            while let Some(kind) = reader.next(&region, 1, &mut out).unwrap() {
                assert_eq!(u64::from(kind), frame % 251);
                assert_eq!(out, vec![frame as u8; length(frame)]);
                out.clear();
                frame += 1;
                pause(reader_pause, frame);
            }
            if reader.release(&region, 1) {
                futex::wake(region.slot(1).unwrap().space, 1);
            }
        }
    });
}
