//! Floods, forged addresses, lost servers, several threads.

mod support;

use std::cell::Cell;
use std::net::{SocketAddr, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use howdah_quic::{Endpoint, Inbox, Options, Owner, Retry, Route, Settings, Target};

use self::support::{Echo, echo_all, exchange, run};

/// Returns the first datagrams of new clients.
fn first_datagrams(echo: &Echo, address: SocketAddr, clients: usize) -> Vec<Vec<Vec<u8>>> {
    let config = Arc::new(quinn_proto::EndpointConfig::default());
    let mut endpoint = quinn_proto::Endpoint::new(config, None, true, None);
    let mut first = |_| {
        let now = Instant::now();
        let connected = endpoint.connect(now, echo.client(), address, "localhost");
        let (_, mut connection) = connected.unwrap();
        let mut datagrams = Vec::new();
        loop {
            let mut datagram = Vec::new();
            if connection.poll_transmit(now, 1, &mut datagram).is_none() {
                return datagrams;
            }
            datagrams.push(datagram);
        }
    };
    (0..clients).map(&mut first).collect()
}

/// Returns the bytes that a socket gets within a time in which nothing else comes.
async fn received(socket: &tokio::net::UdpSocket, silence: Duration) -> usize {
    let (mut total, mut buffer) = (0, [0; 2048]);
    while let Ok(received) = tokio::time::timeout(silence, socket.recv(&mut buffer)).await {
        total += received.unwrap();
    }
    total
}

async fn client_socket(server: SocketAddr) -> tokio::net::UdpSocket {
    let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(server).await.unwrap();
    socket
}

#[test]
fn a_client_that_proves_nothing_gets_at_most_three_times_its_bytes() {
    run(async {
        // The certificate alone is longer than that.
        let echo = Echo::with_names(400);
        let options = Options { handshake_timeout: Duration::from_secs(2), ..Options::default() };
        let (endpoint, address) = echo.serve(options);
        let first = first_datagrams(&echo, address, 1).remove(0);
        let socket = client_socket(address).await;
        let mut sent = 0;
        for datagram in first {
            sent += socket.send(&datagram).await.unwrap();
        }
        // Retransmissions and the end of the handshake included.
        let received = received(&socket, Duration::from_secs(3)).await;
        assert!(received > sent && received <= 3 * sent, "{received} bytes for {sent}");
        assert_eq!((endpoint.connections(), endpoint.half_open()), (0, 0));
        assert_eq!(endpoint.counters().failed.get(), 1);
    });
}

#[test]
fn a_flood_of_new_clients_is_bounded_and_others_are_served_meanwhile() {
    run(async {
        let echo = Echo::new();
        let (endpoint, address) = echo.serve(Options::default());
        let socket = client_socket(address).await;
        for datagrams in first_datagrams(&echo, address, 600) {
            for datagram in datagrams {
                socket.send(&datagram).await.unwrap();
            }
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        let half_open = endpoint.half_open();
        assert!((1..=100).contains(&half_open), "{half_open} are half-open");
        assert!(endpoint.counters().retried.get() > 100);
        let (_client, connection) = echo.connect(address).await;
        assert_eq!(exchange(&connection, b"hello".to_vec()).await, b"hello");
    });
}

#[test]
fn damaged_datagrams_change_nothing_for_others() {
    run(async {
        let echo = Echo::new();
        let (endpoint, address) = echo.serve(Options::default());
        let (_client, connection) = echo.connect(address).await;
        let socket = client_socket(address).await;
        let first = first_datagrams(&echo, address, 1).concat();
        let mut state = 1_u32;
        for round in 0..3000_usize {
            let mut datagram = first[round % first.len()].clone();
            for _ in 0..1 + round % 4 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let at = state as usize % datagram.len();
                datagram[at] ^= (state >> 24) as u8;
            }
            datagram.truncate(datagram.len() - (round % 3) * (state as usize % datagram.len()) / 3);
            socket.send(&datagram).await.unwrap();
            if round % 50 == 0 {
                tokio::task::yield_now().await;
            }
        }
        assert_eq!(exchange(&connection, b"hello".to_vec()).await, b"hello");
        assert_eq!(endpoint.counters().panics.get(), 0);
    });
}

#[test]
fn a_datagram_of_an_unknown_version_gets_an_answer_only_if_it_is_long() {
    run(async {
        let echo = Echo::new();
        let (_endpoint, address) = echo.serve(Options::default());
        let socket = client_socket(address).await;
        let mut datagram = vec![0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0];
        datagram.resize(1199, 0);
        socket.send(&datagram).await.unwrap();
        assert_eq!(received(&socket, Duration::from_millis(100)).await, 0);
        datagram.push(0);
        socket.send(&datagram).await.unwrap();
        let length = received(&socket, Duration::from_millis(300)).await;
        assert!((1..100).contains(&length), "{length} bytes");
    });
}

/// A thread as those of the router, with an endpoint of a shared socket. It ends at once, as in a
/// crash, when the sender is dropped.
fn serve_on_thread(
    echo: &Echo,
    socket: &UdpSocket,
    reads: bool,
    settings: impl FnOnce(Settings) -> Settings + Send + 'static,
) -> (mpsc::Sender<()>, std::thread::JoinHandle<()>) {
    let (end, ended) = mpsc::channel();
    let (started, starting) = mpsc::channel();
    let (echo, socket) = (echo.clone(), socket.try_clone().unwrap());
    let thread = std::thread::spawn(move || {
        run(async move {
            let settings = settings(echo.settings(Options::default()));
            let endpoint = Rc::new(Endpoint::new(socket.into(), settings).unwrap());
            if reads {
                endpoint.start_reading().unwrap();
            }
            // The endpoint never gets the time to close its connections.
            std::mem::forget(Rc::clone(&endpoint));
            tokio::task::spawn_local(echo_all(endpoint));
            started.send(()).unwrap();
            while ended.try_recv() == Err(mpsc::TryRecvError::Empty) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
    });
    starting.recv().unwrap();
    (end, thread)
}

#[test]
fn threads_share_a_socket_and_pass_datagrams_to_the_one_that_has_the_connection() {
    let echo = Echo::new();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let (inboxes, arrivals): (Vec<_>, Vec<_>) = (0..2).map(|_| Inbox::new()).unzip();
    let mut threads = Vec::new();
    for (number, arrivals) in arrivals.into_iter().enumerate() {
        let inboxes = inboxes.clone();
        threads.push(serve_on_thread(&echo, &socket, number == 0, move |settings| Settings {
            owner: Owner { process: 1, thread: number as u8 },
            arrivals,
            route: Rc::new(move |target, datagram| {
                let wanted = match target {
                    Target::Owner(owner) => usize::from(owner.thread),
                    Target::New(number) => number as usize % 2,
                };
                if wanted == number {
                    return Some(datagram);
                }
                inboxes[wanted].deliver(datagram);
                None
            }),
            ..settings
        }));
    }
    let clients = echo.clone();
    run(async move {
        for _ in 0..8 {
            let (_client, connection) = clients.connect(address).await;
            let long = vec![7; 100_000];
            assert_eq!(exchange(&connection, long.clone()).await, long);
        }
    });
    for (end, thread) in threads {
        drop(end);
        thread.join().unwrap();
    }
}

#[test]
fn a_server_with_the_same_keys_resets_the_connections_of_one_that_has_died() {
    let echo = Echo::new();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let (end, thread) = serve_on_thread(&echo, &socket, true, |settings| settings);
    run(async move {
        let (_client, connection) = echo.connect(address).await;
        assert_eq!(exchange(&connection, b"hello".to_vec()).await, b"hello");
        drop(end);
        thread.join().unwrap();
        let owner = Owner { process: 2, thread: 0 };
        let again = move |settings| Settings { owner, ..settings };
        let (_end, _thread) = serve_on_thread(&echo, &socket, true, again);
        let (mut send, _recv) = connection.open_bi().await.unwrap();
        send.write_all(&[1; 100]).await.unwrap();
        assert_eq!(connection.closed().await, quinn::ConnectionError::Reset);
        let (_client, connection) = echo.connect(address).await;
        assert_eq!(exchange(&connection, b"hello".to_vec()).await, b"hello");
    });
}

#[test]
fn a_process_that_was_replaced_serves_its_connections_and_the_new_one_others() {
    run(async {
        let echo = Echo::new();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let (inbox, arrivals) = Inbox::new();
        let settings = Settings { arrivals, ..echo.settings(Options::default()) };
        let copy = socket.try_clone().unwrap();
        let former = Rc::new(Endpoint::new(copy.into(), settings).unwrap());
        former.start_reading().unwrap();
        tokio::task::spawn_local(echo_all(Rc::clone(&former)));
        let (_client, connection) = echo.connect(address).await;
        assert_eq!(exchange(&connection, b"before".to_vec()).await, b"before");

        former.stop();
        former.stop_reading();
        let route: Route = Rc::new(move |target, datagram| match target {
            Target::Owner(Owner { process: 1, .. }) => {
                inbox.deliver(datagram);
                None
            }
            Target::Owner(_) | Target::New(_) => Some(datagram),
        });
        let owner = Owner { process: 2, thread: 0 };
        let settings = Settings { owner, route, ..echo.settings(Options::default()) };
        let new = Rc::new(Endpoint::new(socket.into(), settings).unwrap());
        new.start_reading().unwrap();
        tokio::task::spawn_local(echo_all(Rc::clone(&new)));

        let long = vec![7; 1_000_000];
        assert_eq!(exchange(&connection, long.clone()).await, long);
        let (_other, to_new) = echo.connect(address).await;
        assert_eq!(exchange(&to_new, b"hello".to_vec()).await, b"hello");
        assert_eq!((former.connections(), new.connections()), (1, 1));
        assert_ne!(new.counters().forwarded.get(), 0);
    });
}

#[test]
fn a_client_that_proves_its_address_while_the_endpoint_stops_is_served() {
    run(async {
        let echo = Echo::new();
        let options = Options { retry: Retry::Always, ..Options::default() };
        let (endpoint, address) = echo.serve(options);
        let stopped = Rc::clone(&endpoint);
        tokio::task::spawn_local(async move {
            while stopped.counters().retried.get() == 0 {
                tokio::task::yield_now().await;
            }
            stopped.stop();
        });
        let (_client, connection) = echo.connect(address).await;
        assert_eq!(exchange(&connection, b"hello".to_vec()).await, b"hello");
    });
}

#[test]
fn handshakes_that_do_not_end_do_not_keep_an_endpoint_from_its_end() {
    run(async {
        let echo = Echo::new();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let settings = echo.settings(Options::default());
        let endpoint = Endpoint::new(socket.into(), settings).unwrap();
        endpoint.start_reading().unwrap();
        let socket = client_socket(address).await;
        for datagram in first_datagrams(&echo, address, 1).remove(0) {
            socket.send(&datagram).await.unwrap();
        }
        while endpoint.half_open() == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let begun = Instant::now();
        endpoint.stop();
        assert!(endpoint.accept().await.is_none());
        endpoint.all_closed().await;
        assert!(begun.elapsed() < Options::default().handshake_timeout);
    });
}

#[test]
fn a_datagram_that_is_longer_than_clients_may_send_is_dropped() {
    run(async {
        let echo = Echo::new();
        let (endpoint, address) = echo.serve(Options::default());
        let socket = client_socket(address).await;
        let mut datagram = first_datagrams(&echo, address, 1).remove(0).remove(0);
        datagram.resize(1473, 0);
        socket.send(&datagram).await.unwrap();
        datagram.truncate(1472);
        socket.send(&datagram).await.unwrap();
        while endpoint.counters().received.get() == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert_eq!(endpoint.counters().received.get(), 1);
    });
}

/// Passes datagrams between a client and a server. From `has_moved` on, the client seems to have another
/// address, and gets nothing there before `is_reached`.
async fn relay(
    near: tokio::net::UdpSocket,
    server: SocketAddr,
    has_moved: Rc<Cell<bool>>,
    is_reached: Rc<Cell<bool>>,
) {
    let bind = |ip: &'static str| tokio::net::UdpSocket::bind((ip, 0));
    let (first, other) = (bind("127.0.0.1").await.unwrap(), bind("127.0.0.2").await.unwrap());
    let (mut from_client, mut from_first, mut from_other) = ([0; 2048], [0; 2048], [0; 2048]);
    let mut client = None;
    loop {
        tokio::select! {
            received = near.recv_from(&mut from_client) => {
                let (length, address) = received.unwrap();
                client = Some(address);
                let far = if has_moved.get() { &other } else { &first };
                far.send_to(&from_client[..length], server).await.unwrap();
            }
            received = first.recv_from(&mut from_first) => {
                let data = &from_first[..received.unwrap().0];
                near.send_to(data, client.unwrap()).await.unwrap();
            }
            received = other.recv_from(&mut from_other) => {
                let data = &from_other[..received.unwrap().0];
                if is_reached.get() {
                    near.send_to(data, client.unwrap()).await.unwrap();
                }
            }
        }
    }
}

#[test]
fn another_address_of_a_client_is_told_when_it_is_proven_and_not_before() {
    run(async {
        let echo = Echo::new();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let server = socket.local_addr().unwrap();
        let settings = echo.settings(Options::default());
        let endpoint = Endpoint::new(socket.into(), settings).unwrap();
        endpoint.start_reading().unwrap();
        let near = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = near.local_addr().unwrap();
        let (has_moved, is_reached) = (Rc::<Cell<bool>>::default(), Rc::<Cell<bool>>::default());
        let switches = (Rc::clone(&has_moved), Rc::clone(&is_reached));
        tokio::task::spawn_local(relay(near, server, switches.0, switches.1));
        let accept = async { endpoint.accept().await.unwrap() };
        let ((_client, client), accepted) = tokio::join!(echo.connect(address), accept);
        let serving = accepted.clone();
        tokio::task::spawn_local(async move {
            while let Ok((send, recv)) = serving.accept_bi().await {
                tokio::task::spawn_local(support::echo(send, recv));
            }
        });
        assert_eq!(exchange(&client, b"before".to_vec()).await, b"before");

        has_moved.set(true);
        let received = endpoint.counters().received.get();
        let (mut send, mut recv) = client.open_bi().await.unwrap();
        send.write_all(b"moved").await.unwrap();
        send.finish().unwrap();
        while endpoint.counters().received.get() < received + 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(accepted.remote().ip().to_string(), "127.0.0.1", "anybody could have sent it");

        is_reached.set(true);
        assert_eq!(recv.read_to_end(10).await.unwrap(), b"moved");
        while accepted.remote().ip().to_string() != "127.0.0.2" {
            assert_eq!(exchange(&client, b"after".to_vec()).await, b"after");
        }
    });
}
