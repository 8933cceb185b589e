//! Look-up of one name: in the hosts file, then by DNS.
//!
//! Each question has a random id and its own socket, connected to the server. A forged answer must
//! guess id and port and come from the server's address. Messages that do not answer the question
//! are ignored.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket as Probe};
use std::time::Duration;

use aws_lc_rs::rand;
use howdah_sys::plain::Plain;
use howdah_wire::dns::{self, Answer, Kind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::files::{FILES, Name};
use crate::system::{System, hosts, name_in_hosts};

/// Time for which an entry of the hosts file is valid.
const HOSTS_TIME_TO_LIVE: Duration = Duration::from_secs(30);

/// Addresses of a name, and the time for which they are valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub addresses: Vec<IpAddr>,
    pub time_to_live: Duration,
}

/// Reason why a name has no addresses.
#[derive(Debug)]
pub enum Problem {
    /// The servers know no address.
    Unknown,
    /// A server cannot be reached or gives no answer; the error of the last one.
    Unreachable(SocketAddr, io::Error),
    /// A server has answered with this error code.
    Failed(SocketAddr, u8),
    /// No server has answered yet.
    Late,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Unknown => f.write_str("no address is known for it"),
            Problem::Unreachable(server, error) => {
                write!(f, "DNS server {server}: {}", Plain(error))
            }
            Problem::Failed(server, code) => write!(f, "DNS server {server}: code {code}"),
            Problem::Late => f.write_str("no DNS server has answered yet"),
        }
    }
}

/// Looks up a name. The machine's files are read each time, as they may change. `servers` replace
/// the machine's DNS servers, if there are any.
pub async fn look_up(name: &str, servers: &[SocketAddr]) -> Result<Found, Problem> {
    let known = hosts(&FILES.text(Name::Hosts).await, name);
    if !known.is_empty() {
        return Ok(Found { addresses: reachable(known), time_to_live: HOSTS_TIME_TO_LIVE });
    }
    let mut system = System::read(&FILES.text(Name::Resolver).await);
    if !servers.is_empty() {
        system.servers = servers.to_vec();
    }
    let mut problem = Problem::Unknown;
    for candidate in system.candidates(name) {
        let (v4, v6) = tokio::join!(
            query_servers(&system, &candidate, Kind::A),
            query_servers(&system, &candidate, Kind::Aaaa),
        );
        let mut found = Found { addresses: Vec::new(), time_to_live: Duration::MAX };
        for answer in [v4, v6] {
            match answer {
                Ok(answer) if answer.addresses.is_empty() => {}
                Ok(answer) => {
                    let time_to_live = Duration::from_secs(u64::from(answer.ttl));
                    found.time_to_live = found.time_to_live.min(time_to_live);
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

/// Returns the name of an address, if it has one that leads to the address again: the owner of an
/// address chooses the name that DNS gives for it. As in Apache, one name counts.
pub async fn look_up_name(address: IpAddr, servers: &[SocketAddr]) -> Option<String> {
    let known = name_in_hosts(&FILES.text(Name::Hosts).await, address);
    let name = match known {
        Some(name) => name,
        None => {
            let mut system = System::read(&FILES.text(Name::Resolver).await);
            if !servers.is_empty() {
                system.servers = servers.to_vec();
            }
            let name = dns::reverse_name(address);
            let answer = query_servers(&system, &name, Kind::Ptr).await.ok()?;
            answer.names.into_iter().next()?
        }
    };
    // With a dot at its end, so that no domain of the machine is searched.
    let absolute = format!("{name}.");
    let found = look_up(&absolute, servers).await.ok()?;
    found.addresses.contains(&address).then_some(name)
}

/// Looks up the servers of a service.
pub async fn look_up_service(name: &str, servers: &[SocketAddr]) -> Result<Answer, Problem> {
    let mut system = System::read(&FILES.text(Name::Resolver).await);
    if !servers.is_empty() {
        system.servers = servers.to_vec();
    }
    let answer = query_servers(&system, name, Kind::Srv).await?;
    if answer.services.is_empty() { Err(Problem::Unknown) } else { Ok(answer) }
}

/// Queries one server after the other until one answers.
async fn query_servers(system: &System, name: &str, kind: Kind) -> Result<Answer, Problem> {
    let mut problem = Problem::Unknown;
    for _ in 0..system.attempts {
        for server in &system.servers {
            let answer = timeout(system.timeout, query(*server, name, kind)).await;
            match answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                // No error (0), or no such name (3).
                Ok(answer) if matches!(answer.code, 0 | 3) => return Ok(answer),
                Ok(answer) => problem = Problem::Failed(*server, answer.code),
                Err(error) => problem = Problem::Unreachable(*server, error),
            }
        }
    }
    Err(problem)
}

/// Queries a server over UDP; over TCP if the answer is truncated.
async fn query(server: SocketAddr, name: &str, kind: Kind) -> io::Result<Answer> {
    /// Size of the buffer in bytes; a server sends at most 512 (RFC 1035, 4.2.1).
    const DATAGRAM: usize = 4096;
    let mut number = [0; 2];
    rand::fill(&mut number).map_err(io::Error::other)?;
    let number = u16::from_be_bytes(number);
    let Some(question) = dns::question(number, name, kind) else {
        return Ok(Answer { code: 3, ..Answer::default() }); // the name is not valid in DNS
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
    if answer.is_truncated {
        query_over_tcp(server, &question, number, name, kind).await
    } else {
        Ok(answer)
    }
}

/// Queries a server over TCP, where answers may be longer.
async fn query_over_tcp(
    server: SocketAddr,
    question: &[u8],
    number: u16,
    name: &str,
    kind: Kind,
) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(question.len()).unwrap_or(0); // a valid name is short
    stream.write_all(&[&length.to_be_bytes(), question].concat()).await?;
    let mut message = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut message).await?;
    dns::answer(&message, number, name, kind)
        .map_err(|_| io::Error::other("it answers another question"))
}

/// Returns the addresses to which this machine has a route, or all if there is none. Many names
/// have IPv6 addresses, and many machines have no route to those.
fn reachable(addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let has_route = |ip: &IpAddr| {
        let any: IpAddr = if ip.is_ipv4() { [0, 0, 0, 0].into() } else { [0u16; 8].into() };
        // Connecting a UDP socket sends no packet.
        Probe::bind((any, 0)).and_then(|probe| probe.connect((*ip, 9))).is_ok()
    };
    let reachable: Vec<_> = addresses.iter().copied().filter(has_route).collect();
    if reachable.is_empty() { addresses } else { reachable }
}
