//! Names of clients, and addresses of the names that clients are compared with, for `.htaccess`
//! files (`Require host`, `Require forward-dns`, `Allow from example.com`).
//!
//! Visitors and site owners cause these look-ups. Their results are therefore kept for a while,
//! also those without a name, and their number is limited, for each site and in total
//! ([`turns`](crate::turns)): a request waits for its turn at most as long as for an answer. The
//! result of a look-up without a turn is not kept.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::timeout;

use crate::lookup::{look_up, look_up_name};
use crate::turns::{Asker, Turns};

/// Maximum wait of a request for its turn, and then for the answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Time for which a result is kept.
const TIME_TO_LIVE: Duration = Duration::from_secs(60);

/// Maximum number of results that are kept, of names and of addresses.
const MAX_RESULTS: usize = 4096;

/// Longest name (RFC 1035).
const MAX_NAME_BYTES: usize = 255;

/// Maximum number of addresses of a name.
const MAX_ADDRESSES: usize = 64;

/// Maximum number of look-ups at once, in the whole process.
const MAX_LOOK_UPS: usize = 64;

static LOOK_UPS: Turns = Turns::new(MAX_LOOK_UPS);

/// Results of look-ups, shared by the threads of the router.
#[derive(Debug, Default)]
pub struct ClientNames {
    names: Results<IpAddr, Option<String>>,
    addresses: Results<String, Arc<[IpAddr]>>,
}

impl ClientNames {
    /// Returns the name of a client's address that leads to the address again. `servers` replace
    /// the machine's DNS servers, if there are any.
    pub async fn name(
        &self,
        asker: Asker,
        address: IpAddr,
        servers: &[SocketAddr],
    ) -> Option<String> {
        if let Some(known) = self.names.get(&address, Instant::now()) {
            return known;
        }
        let found = limited(asker, look_up_name(address, servers)).await?.flatten();
        self.names.put(address, found.clone(), Instant::now());
        found
    }

    /// Returns the addresses of a name; none if it cannot be looked up.
    pub async fn addresses(
        &self,
        asker: Asker,
        name: &str,
        servers: &[SocketAddr],
    ) -> Arc<[IpAddr]> {
        if name.len() > MAX_NAME_BYTES {
            return Arc::new([]);
        }
        if let Some(known) = self.addresses.get(name, Instant::now()) {
            return known;
        }
        let found = limited(asker, look_up(name, servers)).await;
        let Some(found) = found else { return Arc::new([]) };
        let found: Arc<[IpAddr]> = match found {
            Some(Ok(found)) => found.addresses.into_iter().take(MAX_ADDRESSES).collect(),
            Some(Err(_)) | None => Arc::new([]),
        };
        self.addresses.put(name.to_owned(), Arc::clone(&found), Instant::now());
        found
    }
}

/// Runs a look-up in its turn. `None` if it had no turn in time; `Some(None)` if there is no answer
/// in time.
async fn limited<T>(asker: Asker, look_up: impl Future<Output = T>) -> Option<Option<T>> {
    let _turn = timeout(TIMEOUT, LOOK_UPS.wait(asker)).await.ok()??;
    Some(timeout(TIMEOUT, look_up).await.ok())
}

/// Results with the times at which they end.
#[derive(Debug)]
struct Results<K, V>(Mutex<HashMap<K, (Instant, V)>>);

impl<K, V> Default for Results<K, V> {
    fn default() -> Self {
        Results(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Clone> Results<K, V> {
    fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q, now: Instant) -> Option<V>
    where
        K: std::borrow::Borrow<Q>,
    {
        let results = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        results.get(key).filter(|(end, _)| *end > now).map(|(_, value)| value.clone())
    }

    fn put(&self, key: K, value: V, now: Instant) {
        let mut results = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if results.len() >= MAX_RESULTS {
            results.retain(|_, (end, _)| *end > now);
        }
        if results.len() >= MAX_RESULTS {
            results.clear();
        }
        results.insert(key, (now + TIME_TO_LIVE, value));
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::UdpSocket;

    use super::*;

    #[test]
    fn results_are_kept_for_their_time_and_their_number_is_limited() {
        let results = Results::<IpAddr, u8>::default();
        let now = Instant::now();
        let address = |number: usize| IpAddr::from((number as u128).to_be_bytes());
        results.put(address(0), 1, now);
        assert_eq!(results.get(&address(0), now), Some(1));
        assert_eq!(results.get(&address(0), now + TIME_TO_LIVE), None);
        for number in 0..3 * MAX_RESULTS {
            results.put(address(number), 2, now);
        }
        assert!(results.0.lock().unwrap().len() <= MAX_RESULTS);
    }

    #[tokio::test]
    async fn a_name_that_is_too_long_is_neither_looked_up_nor_kept() {
        let names = ClientNames::default();
        let name = "a".repeat(MAX_NAME_BYTES + 1);
        assert!(names.addresses(Asker::Server, &name, &[]).await.is_empty());
        assert!(names.addresses.0.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn the_name_of_this_machine_leads_to_it_again() {
        let names = ClientNames::default();
        let nowhere = [SocketAddr::from(([127, 0, 0, 1], 9))];
        let own = IpAddr::from([127, 0, 0, 1]);
        assert!(names.addresses(Asker::Server, "localhost", &nowhere).await.contains(&own));
        // A machine without an entry for the address in its hosts file has no name here.
        if let Some(name) = names.name(Asker::Server, own, &nowhere).await {
            assert!(names.addresses(Asker::Server, &name, &nowhere).await.contains(&own));
        }
    }

    /// Answers each question for a name with `visitor.example`, and for an address with this one.
    async fn dns_server(address: [u8; 4]) -> SocketAddr {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).await.unwrap();
        let own = socket.local_addr().unwrap();
        tokio::spawn(async move {
            let mut datagram = [0; 512];
            while let Ok((length, client)) = socket.recv_from(&mut datagram).await {
                let mut message = datagram[..length].to_vec();
                let kind = message[length - 3];
                let data: &[u8] = match kind {
                    1 => &address,
                    12 => b"\x07visitor\x07example\x00",
                    _ => b"",
                };
                message[2..4].copy_from_slice(&[0x81, 0x80]);
                message[7] = u8::from(!data.is_empty());
                if !data.is_empty() {
                    message.extend([0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
                    message.extend(data);
                }
                let _ = socket.send_to(&message, client).await;
            }
        });
        own
    }

    #[tokio::test]
    async fn a_name_counts_only_if_it_leads_to_the_address_again() {
        let visitor = IpAddr::from([192, 0, 2, 1]);
        let honest = [dns_server([192, 0, 2, 1]).await];
        let name = ClientNames::default().name(Asker::Server, visitor, &honest).await;
        assert_eq!(name.as_deref(), Some("visitor.example"));
        let forged = [dns_server([198, 51, 100, 7]).await];
        assert_eq!(ClientNames::default().name(Asker::Server, visitor, &forged).await, None);
    }

    /// One site has asked servers that do not answer for as many names as it may.
    #[tokio::test]
    async fn a_name_that_had_no_turn_is_asked_for_again() {
        let visitor = IpAddr::from([192, 0, 2, 2]);
        let honest = [dns_server([192, 0, 2, 2]).await];
        let site = || Asker::Htaccess(u64::MAX);
        let mut turns = Vec::new();
        while let Ok(turn) = timeout(Duration::from_millis(50), LOOK_UPS.wait(site())).await {
            turns.push(turn);
        }
        let names = ClientNames::default();
        assert!(turns.len() >= MAX_LOOK_UPS / 4);
        assert_eq!(names.name(site(), visitor, &honest).await, None);
        let other = names.name(Asker::Htaccess(0), visitor, &honest).await;
        assert_eq!(other.as_deref(), Some("visitor.example"));
    }
}
