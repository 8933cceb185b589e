//! Connections that switch to another protocol.

use super::raw::{client, end, exactly, head, listening, server};
use super::*;

const ASK: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";
const AGREED: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\nX-A: b\r\n\r\n";

#[test]
fn no_byte_of_another_protocol_leaves_before_it_is_agreed_to() {
    with(|| async {
        let (listener, proxy) = listening(timeouts()).await;
        let mut client = client(&proxy, &format!("{ASK}early")).await;
        let mut server = server(&listener).await;
        let asked = head(&mut server).await;
        let expected =
            "GET /chat HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: echo\r\nHost: a\r\n\r\n";
        assert_eq!(asked, expected);
        client.get_mut().write_all(b", more").await.unwrap();
        let nothing = timeout(Duration::from_millis(100), server.read_u8()).await;
        assert!(nothing.is_err(), "{nothing:?}");
        // Bytes of the protocol that arrive with the head belong to the client.
        server.get_mut().write_all(format!("{AGREED}hello").as_bytes()).await.unwrap();
        let agreed = head(&mut client).await;
        assert!(agreed.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{agreed}");
        for field in ["X-A: b", "Upgrade: echo", "Connection: upgrade"] {
            assert_eq!(agreed.matches(field).count(), 1, "{field} in {agreed}");
        }
        exactly(&mut client, "hello").await;
        exactly(&mut server, "early, more").await;
        for text in ["one", "two"] {
            server.get_mut().write_all(text.as_bytes()).await.unwrap();
            exactly(&mut client, text).await;
            client.get_mut().write_all(text.as_bytes()).await.unwrap();
            exactly(&mut server, text).await;
        }
        // One direction may end before the other.
        client.get_mut().shutdown().await.unwrap();
        end(&mut server).await;
        server.get_mut().write_all(b"good bye").await.unwrap();
        exactly(&mut client, "good bye").await;
        drop(server);
        end(&mut client).await;
        while proxy.statuses.borrow().is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
        assert_eq!((&*proxy.statuses.borrow(), proxy.log().as_str()), (&vec![101], ""));
    });
}

#[test]
fn what_follows_a_refused_upgrade_is_a_request_like_any_other() {
    with(|| async {
        let (listener, proxy) = listening(timeouts()).await;
        let next = "GET /admin HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n";
        let mut client = client(&proxy, &format!("{ASK}{next}")).await;
        let mut first = server(&listener).await;
        assert!(head(&mut first).await.starts_with("GET /chat "));
        let answer =
            "HTTP/1.1 200 OK\r\nConnection: upgrade\r\nUpgrade: echo\r\nContent-Length: 0\r\n\r\n";
        first.get_mut().write_all(answer.as_bytes()).await.unwrap();
        let plain = head(&mut client).await;
        assert!(plain.starts_with("HTTP/1.1 200 OK\r\n") && !plain.contains("pgrade"), "{plain}");
        // The first connection gets no byte of it.
        end(&mut first).await;
        let mut second = server(&listener).await;
        let asked = head(&mut second).await;
        assert_eq!(asked, "GET /admin HTTP/1.1\r\nConnection: close\r\nHost: b\r\n\r\n");
        second.get_mut().write_all(answer.as_bytes()).await.unwrap();
        assert!(head(&mut client).await.starts_with("HTTP/1.1 200 OK\r\n"));
    });
}

#[test]
fn a_protocol_that_nobody_asked_for_is_502() {
    with(|| async {
        let plain = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let h2c = ASK.replace("echo", "h2c");
        for (asked, answer) in [
            (plain, AGREED.to_owned()),
            (&h2c, AGREED.replace("echo", "h2c")),
            (ASK, AGREED.replace("echo", "other")),
            (ASK, AGREED.replace("Upgrade: echo\r\n", "")),
            (ASK, AGREED.replace("X-A: b", "Upgrade: other")),
        ] {
            let (listener, proxy) = listening(timeouts()).await;
            let mut client = client(&proxy, asked).await;
            let mut server = server(&listener).await;
            head(&mut server).await;
            server.get_mut().write_all(answer.as_bytes()).await.unwrap();
            let refused = head(&mut client).await;
            assert!(refused.starts_with("HTTP/1.1 502 "), "{answer}: {refused}");
            end(&mut server).await;
            assert_ne!(proxy.log(), "");
        }
    });
}

#[test]
fn a_tunnel_that_is_silent_for_too_long_ends() {
    with(|| async {
        let brief = Timeouts { tunnel: Duration::from_millis(50), ..timeouts() };
        let (listener, proxy) = listening(brief).await;
        let mut client = client(&proxy, ASK).await;
        let mut server = server(&listener).await;
        head(&mut server).await;
        server.get_mut().write_all(AGREED.as_bytes()).await.unwrap();
        head(&mut client).await;
        end(&mut client).await;
        end(&mut server).await;
    });
}

#[test]
fn a_client_that_breaks_off_is_noticed_by_the_server() {
    with(|| async {
        let (listener, proxy) = listening(timeouts()).await;
        let mut client = client(&proxy, ASK).await;
        let mut server = server(&listener).await;
        head(&mut server).await;
        server.get_mut().write_all(AGREED.as_bytes()).await.unwrap();
        head(&mut client).await;
        socket2::SockRef::from(client.get_ref()).set_linger(Some(Duration::ZERO)).unwrap();
        drop(client);
        end(&mut server).await;
        while proxy.statuses.borrow().is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
    });
}
