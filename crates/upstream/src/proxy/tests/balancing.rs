//! Servers that fail, full servers, and sticky clients.

use howdah_questions::ServerStatus;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::*;
use crate::servers::selection::Affinity;
use crate::servers::selector::Selector;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn upstream(backends: &[&Backend], change: impl FnOnce(&mut config::Upstream)) -> Upstream {
    let servers = backends
        .iter()
        .map(|backend| config::UpstreamServer::new(Address::Inet(backend.address), 1.0));
    let mut config = config::Upstream::new("u", servers.collect());
    change(&mut config);
    Upstream::new(&config, None)
}

/// Returns an address without a listener.
async fn nowhere() -> Backend {
    let backend = Backend::new([]).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    Backend { address: listener.local_addr().unwrap(), ..backend }
}

#[test]
fn a_server_that_fails_is_left_alone() {
    with(|| async {
        let (gone, healthy) = (nowhere().await, Backend::new([close(OK)]).await);
        let proxy = Proxy::new(upstream(&[&gone, &healthy], |_| {}), timeouts()).await;
        for _ in 0..6 {
            assert_eq!(status(&proxy.get().await), 200);
        }
        assert_eq!(healthy.requests(), 6);
        let log = proxy.log();
        assert_eq!(log.matches("cannot connect").count(), 1, "{log}");
        assert_eq!(log.matches("gets no requests for").count(), 1, "{log}");
    });
}

#[test]
fn when_all_fail_they_are_asked_all_the_same() {
    with(|| async {
        let (one, two) = (nowhere().await, nowhere().await);
        let proxy = Proxy::new(upstream(&[&one, &two], |_| {}), timeouts()).await;
        for _ in 0..3 {
            assert_eq!(status(&proxy.get().await), 502);
        }
        assert_eq!(proxy.log().matches("cannot connect").count(), 6, "{}", proxy.log());
    });
}

#[test]
fn a_backup_is_asked_when_the_others_fail() {
    with(|| async {
        let (gone, backup) = (nowhere().await, Backend::new([close(OK)]).await);
        let proxy = upstream(&[&gone, &backup], |config| config.servers[1].backup = true);
        let proxy = Proxy::new(proxy, timeouts()).await;
        for _ in 0..3 {
            assert_eq!(status(&proxy.get().await), 200);
        }
        assert_eq!(backup.requests(), 3);
    });
}

#[test]
fn requests_wait_for_a_server_that_has_all_it_may_have() {
    with(|| async {
        let slow = Answer { pause: Duration::from_millis(500), ..close(OK) };
        let backend = Backend::new([slow]).await;
        let proxy = upstream(&[&backend], |config| {
            config.servers[0].max_connections = Some(1);
            config.queue = 3;
        });
        let proxy = Rc::new(Proxy::new(proxy, timeouts()).await);
        let requests: Vec<_> = (0..6)
            .map(|_| {
                let proxy = Rc::clone(&proxy);
                spawn_local(async move { status(&proxy.get().await) })
            })
            .collect();
        let mut statuses = Vec::new();
        for request in requests {
            statuses.push(request.await.unwrap());
        }
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 200, 200, 200, 503, 503]);
        assert_eq!(backend.requests(), 4);
    });
}

#[test]
fn threads_that_select_at_the_same_time_do_not_exceed_a_servers_maximum() {
    let server = config::UpstreamServer {
        max_connections: Some(1),
        ..config::UpstreamServer::new(Address::Inet(([127, 0, 0, 1], 1).into()), 1.0)
    };
    let upstream = Arc::new(Upstream::new(&config::Upstream::new("u", vec![server]), None));
    let (threads, most) = (4, AtomicU64::new(0));
    let together = Barrier::new(threads);
    let requests = || {
        let selector = Selector::new(1);
        for _ in 0..2_000 {
            together.wait();
            let active = upstream.try_acquire(&selector, &[], &Affinity::default());
            together.wait(); // all have selected, and none has ended its request
            most.fetch_max(upstream.report().servers[0].requests.active, Relaxed);
            together.wait();
            drop(active);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(requests);
        }
    });
    assert_eq!(most.into_inner(), 1);
}

#[test]
fn a_client_comes_back_to_its_server() {
    with(|| async {
        let (one, two) = (Backend::new([close(OK)]).await, Backend::new([close(OK)]).await);
        let proxy =
            upstream(&[&one, &two], |config| config.sticky = Some(config::Sticky::new("srv")));
        let proxy = Proxy::new(proxy, timeouts()).await;
        let reply = proxy.get().await;
        let cookie = reply.split("Set-Cookie: ").nth(1).and_then(|rest| rest.split(';').next());
        let cookie = cookie.expect("a cookie").to_owned();
        for _ in 0..4 {
            let request = format!(
                "GET / HTTP/1.1\r\nHost: a\r\nCookie: a=b; {cookie}\r\nConnection: close\r\n\r\n"
            );
            let reply = proxy.talk(&request).await;
            assert!(status(&reply) == 200 && !reply.contains("Set-Cookie"), "{reply}");
        }
        assert_eq!((one.requests(), two.requests()), (5, 0));
        let reply = proxy
            .talk("GET / HTTP/1.1\r\nHost: a\r\nCookie: srv=forged\r\nConnection: close\r\n\r\n")
            .await;
        assert!(status(&reply) == 200 && reply.contains("Set-Cookie"), "{reply}");
    });
}

#[test]
fn a_value_has_its_server() {
    with(|| async {
        let (one, two) = (Backend::new([close(OK)]).await, Backend::new([close(OK)]).await);
        let proxy = upstream(&[&one, &two], |config| {
            let template = config::Template::parse("$arg_user").unwrap();
            config.balance = config::Balance::Hash(template);
        });
        let proxy = Proxy::new(proxy, timeouts()).await;
        for _ in 0..5 {
            let request = "GET /?user=a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
            assert_eq!(status(&proxy.talk(request).await), 200);
        }
        let mut requests = [one.requests(), two.requests()];
        requests.sort_unstable();
        assert_eq!(requests, [0, 5]);
    });
}

#[test]
fn a_drained_server_gets_nothing_new() {
    with(|| async {
        let (one, two) = (Backend::new([close(OK)]).await, Backend::new([close(OK)]).await);
        let proxy = upstream(&[&one, &two], |config| config.servers[0].drain = true);
        let proxy = Proxy::new(proxy, timeouts()).await;
        for _ in 0..4 {
            assert_eq!(status(&proxy.get().await), 200);
        }
        assert_eq!((one.requests(), two.requests()), (0, 4));
    });
}

#[test]
fn servers_that_stay_keep_their_state() {
    with(|| async {
        let upstream = |ports: &[u16]| {
            let servers = ports.iter().map(|port| config::UpstreamServer {
                max_connections: Some(1),
                ..config::UpstreamServer::new(Address::Inet(([127, 0, 0, 1], *port).into()), 1.0)
            });
            let usual = config::Upstream::new("u", servers.collect());
            Upstream::new(&config::Upstream { queue: 1, ..usual }, None)
        };
        let log = tempfile::tempfile().unwrap();
        let thread = UpstreamThread::new(Arc::new(howdah_sys::log::Log::new(log.into())));
        let affinity = Affinity::default();
        let before = Arc::new(upstream(&[1, 2]));
        let failing = before.acquire(thread.selector(), &[1], &affinity).await.unwrap().unwrap();
        assert!(failing.failed().is_some());
        drop(failing);
        let active = before.acquire(thread.selector(), &[0], &affinity).await.unwrap().unwrap();
        // The name has other addresses now; two of the old ones remain.
        let after = upstream(&[3, 2, 1]).following(Some(&before));
        let report = after.report();
        let state = |s: &ServerStatus| {
            (s.state.to_string(), s.requests.active, s.requests.total, s.failures)
        };
        let states: Vec<_> = report.servers.values().map(state).collect();
        let states: Vec<_> = states.iter().map(|(s, a, t, f)| (s.as_str(), *a, *t, *f)).collect();
        assert_eq!(states, [("up", 0, 0, 0), ("up", 1, 1, 0), ("failing", 0, 1, 1)]);
        // Active requests of the previous generation count, and a waiting request is notified of
        // their end.
        let waiting = spawn_local(async move {
            let chosen = after.acquire(thread.selector(), &[0, 2], &Affinity::default()).await;
            chosen.unwrap().unwrap().index()
        });
        sleep(Duration::from_millis(20)).await;
        assert!(!waiting.is_finished());
        drop(active);
        assert_eq!(timeout(TEST_TIMEOUT, waiting).await.expect("it is not woken").unwrap(), 1);
    });
}

#[test]
fn a_server_stays_unhealthy_for_the_same_checks_only() {
    let server = config::UpstreamServer::new(Address::Inet(([127, 0, 0, 1], 1).into()), 1.0);
    let plain = config::Upstream::new("u", vec![server]);
    let checked = |uri: &str| {
        let health = config::Health {
            uri: uri.to_owned(),
            host: None,
            interval: TEST_TIMEOUT,
            timeout: TEST_TIMEOUT,
            status: (200, 399),
            body: None,
            grpc: None,
            is_connect: false,
            rise: 1,
            fall: 1,
        };
        Upstream::new(&config::Upstream { health: Some(health), ..plain.clone() }, None)
    };
    let before = Arc::new(checked("/a"));
    before.set_healthy(&before.servers[0], false);
    let state =
        |upstream: Upstream| upstream.following(Some(&before)).report().servers[0].state.clone();
    assert_eq!(state(checked("/a")), "unhealthy");
    assert_eq!(state(checked("/b")), "up");
    assert_eq!(
        state(Upstream::new(&plain, None)),
        "up",
        "without checks it would never be healthy again"
    );
}
