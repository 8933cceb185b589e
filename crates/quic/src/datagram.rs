//! Datagrams on their way between threads and processes.

use std::net::{IpAddr, SocketAddr};

use bytes::BytesMut;
use tokio::sync::mpsc;

/// Maximum length of a datagram. Clients are told not to send longer ones (RFC 9000, 18.2).
pub(crate) const MAX_DATAGRAM: u16 = 1472;

/// Datagrams from other threads that wait. More are lost, as in the network.
const INBOX: usize = 1024;

/// A datagram on its way to the thread that has its connection.
#[derive(Debug)]
pub struct Datagram {
    /// Address that it came from.
    pub remote: SocketAddr,
    /// Address that it was sent to.
    pub local: Option<IpAddr>,
    /// Mark of congestion (RFC 3168): the two bits of the IP header.
    pub ecn: Option<u8>,
    /// Contents.
    pub data: BytesMut,
}

/// Takes datagrams for an endpoint, from any thread.
#[derive(Debug, Clone)]
pub struct Inbox(mpsc::Sender<Datagram>);

/// Datagrams for an endpoint.
#[derive(Debug)]
pub struct Arrivals(pub(crate) mpsc::Receiver<Datagram>);

impl Inbox {
    /// Creates an inbox.
    pub fn new() -> (Inbox, Arrivals) {
        let (inbox, arrivals) = mpsc::channel(INBOX);
        (Inbox(inbox), Arrivals(arrivals))
    }

    /// Waits for the end of the endpoint.
    pub async fn closed(&self) {
        self.0.closed().await;
    }

    /// Returns true if the endpoint has ended.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Passes a datagram. It is lost if the endpoint does not keep up.
    pub fn deliver(&self, mut datagram: Datagram) {
        if let Ok(place) = self.0.try_reserve() {
            // It may be a part of a batch, whose memory must not wait with it.
            datagram.data = BytesMut::from(&*datagram.data);
            place.send(datagram);
        }
    }
}
