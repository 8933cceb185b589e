//! A DNS server with the records that a test sets.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::free_address;

/// A server of a service: priority, weight, port and name.
pub type Service = (u16, u16, u16, &'static str);

/// A DNS server; stopped on drop. Answers are valid for a second, unless a test sets another time.
pub struct Dns {
    /// Address on which it listens.
    pub address: SocketAddr,
    records: Arc<Mutex<HashMap<String, Vec<Ipv4Addr>>>>,
    services: Arc<Mutex<HashMap<String, Vec<Service>>>>,
    names: Arc<Mutex<HashMap<String, String>>>,
    /// Names without an answer.
    silent: Arc<Mutex<HashSet<String>>>,
    /// Time to live of services.
    service_ttl: Arc<AtomicU32>,
    is_over: Arc<AtomicBool>,
}

impl Dns {
    /// Starts a server without records. The address `forger` is sent before each answer, in
    /// messages that must be ignored.
    pub fn start(forger: Option<Ipv4Addr>) -> Dns {
        let socket = UdpSocket::bind(free_address()).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let dns = Dns {
            address: socket.local_addr().unwrap(),
            records: Arc::default(),
            services: Arc::default(),
            names: Arc::default(),
            silent: Arc::default(),
            service_ttl: Arc::new(AtomicU32::new(1)),
            is_over: Arc::default(),
        };
        let (records, is_over) = (Arc::clone(&dns.records), Arc::clone(&dns.is_over));
        let (services, names) = (Arc::clone(&dns.services), Arc::clone(&dns.names));
        let (silent, service_ttl) = (Arc::clone(&dns.silent), Arc::clone(&dns.service_ttl));
        std::thread::spawn(move || {
            let mut buffer = [0; 512];
            while !is_over.load(Relaxed) {
                let Ok((length, peer)) = socket.recv_from(&mut buffer) else { continue };
                let question = &buffer[..length];
                if silent.lock().unwrap().contains(&name(question)) {
                    continue;
                }
                if let Some(forger) = forger {
                    let mut number = question.to_vec();
                    number[1] ^= 1;
                    let mut name = question.to_vec();
                    name[13] ^= 1;
                    for forged in [number, name] {
                        let _ = socket.send_to(&answer(&forged, &[forger]), peer);
                    }
                }
                if question[question.len() - 4..] == [0, 33, 0, 1] {
                    let known = services.lock().unwrap().get(&name(question)).cloned();
                    let ttl = service_ttl.load(Relaxed);
                    let answer = servers(question, &known.unwrap_or_default(), ttl);
                    let _ = socket.send_to(&answer, peer);
                    continue;
                }
                if let Some(found) = names.lock().unwrap().get(&name(question)) {
                    let _ = socket.send_to(&pointer(question, found), peer);
                    continue;
                }
                let known = records.lock().unwrap().get(&name(question)).cloned();
                let _ = socket.send_to(&answer(question, &known.unwrap_or_default()), peer);
            }
        });
        dns
    }

    /// Sets the addresses of a name.
    pub fn set(&self, name: &str, addresses: &[IpAddr]) {
        let v4 = addresses.iter().filter_map(|address| match address {
            IpAddr::V4(v4) => Some(*v4),
            IpAddr::V6(_) => None,
        });
        self.records.lock().unwrap().insert(name.to_owned(), v4.collect());
    }

    /// Sets the name that an address says to have.
    pub fn set_name(&self, address: Ipv4Addr, name: &str) {
        let [a, b, c, d] = address.octets();
        let reverse = format!("{d}.{c}.{b}.{a}.in-addr.arpa");
        self.names.lock().unwrap().insert(reverse, name.to_owned());
    }
}

impl Dns {
    /// Sets the servers of a service.
    pub fn set_service(&self, name: &str, servers: &[Service]) {
        self.services.lock().unwrap().insert(name.to_owned(), servers.to_vec());
    }

    /// Sets the time for which services are valid, in seconds.
    pub fn set_service_ttl(&self, seconds: u32) {
        self.service_ttl.store(seconds, Relaxed);
    }

    /// Leaves questions for a name without an answer.
    pub fn silence(&self, name: &str) {
        self.silent.lock().unwrap().insert(name.to_owned());
    }

    /// Answers questions for a name again.
    pub fn answer(&self, name: &str) {
        self.silent.lock().unwrap().remove(name);
    }
}

impl Drop for Dns {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
    }
}

/// Returns the name in a question.
fn name(question: &[u8]) -> String {
    let mut labels = Vec::new();
    let mut rest = &question[12..];
    while rest[0] > 0 {
        let (label, more) = rest[1..].split_at(usize::from(rest[0]));
        labels.push(String::from_utf8_lossy(label).into_owned());
        rest = more;
    }
    labels.join(".")
}

/// Returns the answer to a question for a service.
fn servers(question: &[u8], servers: &[Service], ttl: u32) -> Vec<u8> {
    let mut out = question.to_vec();
    out[2..4].copy_from_slice(if servers.is_empty() { &[0x81, 0x83] } else { &[0x81, 0x80] });
    out[7] = servers.len() as u8;
    for (priority, weight, port, name) in servers {
        let mut data: Vec<u8> =
            [priority, weight, port].iter().flat_map(|n| n.to_be_bytes()).collect();
        for label in name.split('.') {
            data.push(label.len() as u8);
            data.extend_from_slice(label.as_bytes());
        }
        data.push(0);
        out.extend_from_slice(&[0xc0, 12, 0, 33, 0, 1]);
        out.extend_from_slice(&ttl.to_be_bytes());
        out.extend_from_slice(&[0, data.len() as u8]);
        out.extend_from_slice(&data);
    }
    out
}

/// Returns the answer to a question; without addresses, that the name does not exist.
fn answer(question: &[u8], addresses: &[Ipv4Addr]) -> Vec<u8> {
    let is_v4 = question[question.len() - 4..] == [0, 1, 0, 1];
    let addresses = if is_v4 { addresses } else { &[] };
    let mut out = question.to_vec();
    out[2..4].copy_from_slice(if addresses.is_empty() { &[0x81, 0x83] } else { &[0x81, 0x80] });
    out[7] = addresses.len() as u8;
    for address in addresses {
        out.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4]);
        out.extend_from_slice(&address.octets());
    }
    out
}

/// Returns the answer to a question for the name of an address.
fn pointer(question: &[u8], name: &str) -> Vec<u8> {
    let mut data = Vec::new();
    for label in name.split('.') {
        data.push(label.len() as u8);
        data.extend_from_slice(label.as_bytes());
    }
    data.push(0);
    let mut out = question.to_vec();
    out[2..4].copy_from_slice(&[0x81, 0x80]);
    out[7] = 1;
    out.extend_from_slice(&[0xc0, 12, 0, 12, 0, 1, 0, 0, 0, 1, 0, data.len() as u8]);
    out.extend_from_slice(&data);
    out
}
