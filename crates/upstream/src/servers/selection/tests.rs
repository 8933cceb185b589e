//! Requests that wait for a server: which events wake them, and which request may continue.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use howdah_config::{self as config, Address};

use super::{ActiveRequest, Affinity};
use crate::queue::QueueError;
use crate::servers::selector::Selector;
use crate::servers::upstream::Upstream;

/// Servers with at most this many requests at once each.
fn upstream<const N: usize>(max: [Option<u32>; N]) -> config::Upstream {
    let server = |(index, max_connections): (usize, &Option<u32>)| config::UpstreamServer {
        max_connections: *max_connections,
        ..config::UpstreamServer::new(Address::Inet(([127, 0, 0, 1], index as u16 + 1).into()), 1.0)
    };
    let servers = max.iter().enumerate().map(server).collect();
    config::Upstream { queue: 100, ..config::Upstream::new("u", servers) }
}

fn compiled(config: &config::Upstream) -> Arc<Upstream> {
    Arc::new(Upstream::new(config, None))
}

fn acquire(upstream: &Arc<Upstream>, tried: &[usize]) -> Option<ActiveRequest> {
    upstream.try_acquire(&Selector::new(1), tried, &Affinity::default())
}

type Waiting = Pin<Box<dyn Future<Output = Result<Option<ActiveRequest>, QueueError>>>>;

/// Lets a request wait.
fn wait(upstream: &Arc<Upstream>, tried: &'static [usize]) -> Waiting {
    let upstream = Arc::clone(upstream);
    let mut waiting: Waiting =
        Box::pin(
            async move { upstream.acquire(&Selector::new(1), tried, &Affinity::default()).await },
        );
    assert!(poll(&mut waiting).is_none(), "all servers are full");
    waiting
}

fn poll(waiting: &mut Waiting) -> Option<ActiveRequest> {
    match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(acquired) => Some(acquired.unwrap().expect("a server")),
        Poll::Pending => None,
    }
}

#[test]
fn a_place_that_the_first_in_the_queue_may_not_take_is_for_the_next() {
    let upstream = compiled(&upstream([Some(1), Some(1)]));
    let (first, second) = (acquire(&upstream, &[1]).unwrap(), acquire(&upstream, &[0]).unwrap());
    // The first server has failed this request before.
    let mut retrying = wait(&upstream, &[0]);
    let mut other = wait(&upstream, &[]);
    drop(first);
    assert!(poll(&mut retrying).is_none());
    assert_eq!(poll(&mut other).map(|active| active.index()), Some(0));
    drop(second);
    assert_eq!(poll(&mut retrying).map(|active| active.index()), Some(1));
}

#[test]
fn requests_that_come_later_do_not_overtake_those_that_wait() {
    let upstream = compiled(&upstream([Some(1)]));
    let active = acquire(&upstream, &[]);
    let [mut first, mut second] = [(); 2].map(|()| wait(&upstream, &[]));
    drop(active);
    // The place is free, and the first one has not run yet.
    let mut later = wait(&upstream, &[]);
    let active = poll(&mut first);
    assert!(active.is_some());
    drop(active);
    assert!(poll(&mut later).is_none());
    let active = poll(&mut second);
    assert!(active.is_some() && poll(&mut later).is_none());
    drop(second); // it has gone
    drop(active);
    assert!(poll(&mut later).is_some());
}

#[test]
fn a_request_that_leaves_the_queue_lets_the_next_one_go_on() {
    let upstream = compiled(&upstream([Some(1)]));
    let active = acquire(&upstream, &[]);
    let [first, mut second] = [(); 2].map(|()| wait(&upstream, &[]));
    drop(active);
    drop(first); // it was woken, and has gone instead
    assert!(poll(&mut second).is_some());
}

#[test]
fn a_server_that_recovers_gets_as_many_waiting_requests_as_it_may_have() {
    let upstream = compiled(&upstream([Some(2), Some(1)]));
    upstream.set_healthy(&upstream.servers[0], false);
    let _active = acquire(&upstream, &[0]).unwrap();
    let mut waiting: Vec<_> = (0..3).map(|_| wait(&upstream, &[])).collect();
    upstream.set_healthy(&upstream.servers[0], true);
    let active: Vec<_> = waiting.iter_mut().map(poll).collect();
    let servers: Vec<_> = active.iter().map(|active| active.as_ref().map(|a| a.index())).collect();
    assert_eq!(servers, [Some(0), Some(0), None]);
}

#[test]
fn requests_that_wait_for_a_server_go_to_its_backup_when_it_fails() {
    let mut config = upstream([Some(1), None]);
    config.servers[1].backup = true;
    config.failures = config::Failures { max: 1, ..config.failures };
    for finds_out in ["a health check", "a request"] {
        let upstream = compiled(&config);
        let active = acquire(&upstream, &[]).unwrap();
        let mut waiting: Vec<_> = (0..2).map(|_| wait(&upstream, &[])).collect();
        match finds_out {
            "a request" => assert!(active.failed().is_some()),
            _ => assert!(upstream.set_healthy(&upstream.servers[0], false)),
        }
        for waiting in &mut waiting {
            assert_eq!(poll(waiting).map(|active| active.index()), Some(1), "{finds_out}");
        }
    }
}

/// Requests of several threads, some of which may not go to each server, and some of which leave.
#[test]
fn no_request_is_left_waiting_whatever_threads_do_at_the_same_time() {
    let upstream = compiled(&upstream([Some(1), Some(2)]));
    let requests = |thread: usize| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (selector, affinity) = (Selector::new(thread as u64), Affinity::default());
        runtime.block_on(async {
            for number in 0..3_000 {
                let tried: &[usize] = match (number + thread) % 7 {
                    0 => &[0],
                    1 => &[1],
                    _ => &[],
                };
                let acquired = upstream.acquire(&selector, tried, &affinity);
                if number % 5 == 0 {
                    // The request leaves if it cannot continue at once.
                    let _ = tokio::time::timeout(Duration::ZERO, acquired).await;
                    continue;
                }
                let acquired = tokio::time::timeout(Duration::from_secs(20), acquired).await;
                let active = acquired.expect("it is left waiting").unwrap().unwrap();
                assert!(!tried.contains(&active.index()));
                if number % 3 == 0 {
                    tokio::task::yield_now().await;
                }
                drop(active);
            }
        });
    };
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let requests = &requests;
            scope.spawn(move || requests(thread));
        }
    });
    assert!(upstream.report().servers.values().all(|server| server.requests.active == 0));
    assert!(acquire(&upstream, &[1]).is_some());
}

#[test]
fn requests_do_not_wait_beyond_the_end_of_a_servers_pause() {
    let mut config = upstream([None, Some(1)]);
    config.failures = config::Failures { max: 1, time: Duration::from_millis(50) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let upstream = compiled(&config);
        assert!(acquire(&upstream, &[1]).unwrap().failed().is_some());
        let _active = acquire(&upstream, &[0]).unwrap();
        let (selector, affinity) = (Selector::new(1), Affinity::default());
        let acquired = upstream.acquire(&selector, &[], &affinity);
        let acquired = tokio::time::timeout(Duration::from_secs(20), acquired).await;
        let active = acquired.expect("it waits for the other server").unwrap().unwrap();
        assert_eq!(active.index(), 0);
    });
}

/// Requests come at many moments around the end of a pause, and some while servers are compared.
#[test]
fn requests_that_come_at_the_end_of_a_pause_do_not_wait_for_another_server() {
    let pause = Duration::from_micros(500);
    let mut config = upstream([None, Some(1)]);
    config.failures = config::Failures { max: 1, time: pause };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for number in 0..3_000 {
            let upstream = compiled(&config);
            let active = acquire(&upstream, &[1]).unwrap();
            let _other = acquire(&upstream, &[0]).unwrap();
            let end = upstream.now() + pause;
            assert!(active.failed().is_some());
            while upstream.now() + Duration::from_nanos(number % 300 * 100) < end {}
            let (selector, affinity) = (Selector::new(1), Affinity::default());
            let acquired = upstream.acquire(&selector, &[], &affinity);
            let acquired = tokio::time::timeout(Duration::from_secs(20), acquired).await;
            let active = acquired.expect("it waits for the other server").unwrap().unwrap();
            assert_eq!(active.index(), 0);
        }
    });
}

#[test]
fn a_change_of_health_checks_forgets_no_active_request() {
    let before = compiled(&upstream([Some(1)]));
    let active = acquire(&before, &[]).unwrap();
    let mut config = upstream([Some(1)]);
    config.health = Some(config::Health {
        uri: "/".to_owned(),
        host: None,
        interval: Duration::from_secs(1),
        timeout: Duration::from_secs(1),
        status: (200, 399),
        body: None,
        grpc: None,
        is_connect: false,
        rise: 1,
        fall: 1,
    });
    let after = Upstream::new(&config, None).following(Some(&before));
    assert_eq!(after.report().servers[0].requests.active, 1);
    let mut waiting = wait(&after, &[]);
    drop(active);
    assert!(poll(&mut waiting).is_some());
}
