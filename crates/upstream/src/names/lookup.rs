//! Looking one name up: the hosts file, then DNS.
//!
//! Each question has a socket of its own, connected to the server, so that an answer must guess
//! number and port and come from the server's address. What is no answer to it is passed over.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket as Probe};
use std::time::Duration;

use aws_lc_rs::rand;
use howdah_wire::dns::{self, Answer, Kind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::files::{FILES, Name};
use super::system::{System, hosts};

/// How long what the hosts file says holds.
const HOSTS_TIME: Duration = Duration::from_secs(30);

/// Addresses of a name, and for how long they hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub addresses: Vec<IpAddr>,
    pub time: Duration,
}

/// Why a name has no addresses.
#[derive(Debug)]
pub enum Problem {
    /// The servers know no address of it.
    Unknown,
    /// A server cannot be asked, or gives no answer; the last one's reason.
    Silent(SocketAddr, io::Error),
    /// A server has failed, with this code.
    Failed(SocketAddr, u8),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Unknown => f.write_str("no address is known for it"),
            Problem::Silent(server, error) => write!(f, "DNS server {server}: {error}"),
            Problem::Failed(server, code) => write!(f, "DNS server {server}: code {code}"),
        }
    }
}

/// Looks a name up, now; the machine's files are read each time, as they may change. `servers` are
/// asked instead of the machine's, if there are any.
pub async fn look_up(name: &str, servers: &[SocketAddr]) -> Result<Found, Problem> {
    let known = hosts(&FILES.text(Name::Hosts).await, name);
    if !known.is_empty() {
        return Ok(Found { addresses: reachable(known), time: HOSTS_TIME });
    }
    let mut system = System::read(&FILES.text(Name::Resolver).await);
    if !servers.is_empty() {
        system.servers = servers.to_vec();
    }
    let mut problem = Problem::Unknown;
    for candidate in system.candidates(name) {
        let (v4, v6) = tokio::join!(
            ask_all(&system, &candidate, Kind::A),
            ask_all(&system, &candidate, Kind::Aaaa),
        );
        let mut found = Found { addresses: Vec::new(), time: Duration::MAX };
        for answer in [v4, v6] {
            match answer {
                Ok(answer) if answer.addresses.is_empty() => {}
                Ok(answer) => {
                    found.time = found.time.min(Duration::from_secs(u64::from(answer.ttl)));
                    found.addresses.extend(answer.addresses);
                }
                Err(error) => problem = error,
            }
        }
        if !found.addresses.is_empty() {
            found.addresses = reachable(found.addresses);
            return Ok(found);
        }
    }
    Err(problem)
}

/// Asks one server after the other.
async fn ask_all(system: &System, name: &str, kind: Kind) -> Result<Answer, Problem> {
    let mut problem = Problem::Unknown;
    for _ in 0..system.attempts {
        for server in &system.servers {
            let asked = timeout(system.timeout, ask(*server, name, kind)).await;
            match asked.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                // There are addresses, or there is no such name.
                Ok(answer) if matches!(answer.code, 0 | 3) => return Ok(answer),
                Ok(answer) => problem = Problem::Failed(*server, answer.code),
                Err(error) => problem = Problem::Silent(*server, error),
            }
        }
    }
    Err(problem)
}

async fn ask(server: SocketAddr, name: &str, kind: Kind) -> io::Result<Answer> {
    /// More than a server may send unasked (RFC 1035, 4.2.1).
    const DATAGRAM: usize = 4096;
    let mut number = [0; 2];
    rand::fill(&mut number).map_err(io::Error::other)?;
    let number = u16::from_be_bytes(number);
    let Some(question) = dns::question(number, name, kind) else {
        return Ok(Answer { code: 3, ..Answer::default() }); // nothing can be called so
    };
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0u16; 8], 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    socket.send(&question).await?;
    let mut datagram = [0; DATAGRAM];
    let answer = loop {
        let length = socket.recv(&mut datagram).await?;
        let message = datagram.get(..length).unwrap_or_default();
        if let Ok(answer) = dns::answer(message, number, name, kind) {
            break answer;
        }
    };
    match answer.is_cut {
        true => ask_for_all(server, &question, number, name, kind).await,
        false => Ok(answer),
    }
}

/// Asks over TCP, where answers may be longer.
async fn ask_for_all(
    server: SocketAddr,
    question: &[u8],
    number: u16,
    name: &str,
    kind: Kind,
) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(question.len()).unwrap_or(0); // a name is short
    stream.write_all(&[&length.to_be_bytes(), question].concat()).await?;
    let mut message = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut message).await?;
    dns::answer(&message, number, name, kind)
        .map_err(|_| io::Error::other("it answers another question"))
}

/// The addresses that this machine has a way to, or all if it has to none. Many names have
/// addresses of IPv6, and many machines have no way to those.
fn reachable(addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let has_way = |ip: &IpAddr| {
        let any: IpAddr = if ip.is_ipv4() { [0, 0, 0, 0].into() } else { [0u16; 8].into() };
        // Nothing is sent.
        Probe::bind((any, 0)).and_then(|probe| probe.connect((*ip, 9))).is_ok()
    };
    let near: Vec<_> = addresses.iter().copied().filter(has_way).collect();
    if near.is_empty() { addresses } else { near }
}
