//! An endpoint and clients on quinn, over the loopback interface.

mod support;

use std::time::Duration;

use howdah_quic::{Options, Retry};

use self::support::{Echo, exchange, run};

#[test]
fn streams_are_echoed() {
    run(async {
        let echo = Echo::new();
        let (endpoint, address) = echo.serve(Options::default());
        let (_client, connection) = echo.connect(address).await;
        assert_eq!(exchange(&connection, b"hello".to_vec()).await, b"hello");
        let long: Vec<_> = (0..3_000_000_u32).map(|number| (number / 7) as u8).collect();
        assert_eq!(exchange(&connection, long.clone()).await, long);
        assert_eq!((endpoint.connections(), endpoint.half_open()), (1, 0));
    });
}

#[test]
fn many_streams_of_many_connections_are_served_at_the_same_time() {
    run(async {
        let echo = Echo::new();
        let (_endpoint, address) = echo.serve(Options::default());
        let mut clients = Vec::new();
        for _ in 0..8 {
            clients.push(echo.connect(address).await);
        }
        let mut exchanges = tokio::task::JoinSet::new();
        for (number, (_, connection)) in clients.iter().cycle().take(400).enumerate() {
            let connection = connection.clone();
            exchanges.spawn_local(async move {
                let bytes = vec![number as u8; 10_000 + number];
                assert_eq!(exchange(&connection, bytes.clone()).await, bytes);
            });
        }
        while let Some(result) = exchanges.join_next().await {
            result.unwrap();
        }
    });
}

#[test]
fn a_client_proves_its_address_where_that_is_wanted() {
    run(async {
        let echo = Echo::new();
        let (endpoint, address) =
            echo.serve(Options { retry: Retry::Always, ..Options::default() });
        let (_client, connection) = echo.connect(address).await;
        assert_eq!(exchange(&connection, b"hello".to_vec()).await, b"hello");
        assert_ne!(endpoint.counters().retried.get(), 0);
    });
}

#[test]
fn a_name_that_is_not_served_gets_the_alert() {
    run(async {
        let echo = Echo::new();
        let (_endpoint, address) = echo.serve(Options::default());
        let client = quinn::Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        let connecting = client.connect_with(echo.client(), address, "elsewhere.test").unwrap();
        let error = connecting.await.unwrap_err();
        let quinn::ConnectionError::ConnectionClosed(close) = error else { panic!("{error}") };
        assert_eq!(u64::from(close.error_code), 0x100 + 112);
    });
}

#[test]
fn a_client_that_changes_its_port_goes_on() {
    run(async {
        let echo = Echo::new();
        let (_endpoint, address) = echo.serve(Options::default());
        let (client, connection) = echo.connect(address).await;
        assert_eq!(exchange(&connection, b"before".to_vec()).await, b"before");
        client.rebind(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        let long = vec![7; 1_000_000];
        assert_eq!(exchange(&connection, long.clone()).await, long);
    });
}

#[test]
fn the_codes_of_the_peer_arrive() {
    run(async {
        let echo = Echo::new();
        let (endpoint, address) = echo.serve(Options::default());
        let (_client, connection) = echo.connect(address).await;
        let (mut send, mut recv) = connection.open_bi().await.unwrap();
        send.write_all(b"x").await.unwrap();
        send.reset(7_u32.into()).unwrap();
        // The echo does not read to the end, so it finishes what it has.
        let _ = recv.read_to_end(10).await;
        connection.close(9_u32.into(), b"");
        while endpoint.connections() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn a_stopped_endpoint_serves_its_connections_and_no_new_ones() {
    run(async {
        let echo = Echo::new();
        let (endpoint, address) = echo.serve(Options::default());
        let (_client, connection) = echo.connect(address).await;
        endpoint.stop();
        assert_eq!(exchange(&connection, b"hello".to_vec()).await, b"hello");
        let other = quinn::Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        let connecting = other.connect_with(echo.client(), address, "localhost").unwrap();
        let refused = tokio::time::timeout(Duration::from_millis(300), connecting).await;
        assert!(refused.is_err(), "nothing is sent to it");
        assert_eq!(endpoint.counters().ignored.get().min(1), 1);
        connection.close(0_u32.into(), b"");
        endpoint.all_closed().await;
    });
}
