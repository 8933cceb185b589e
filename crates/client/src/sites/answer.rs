//! Requests to a site, to see whether it answers.

use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Time within which a site should answer: PHP starts with the first request.
const LIMIT: Duration = Duration::from_secs(15);

/// Time between two requests.
const PAUSE: Duration = Duration::from_millis(200);

/// Time for the DNS to answer.
const DNS_LIMIT: Duration = Duration::from_secs(3);

/// Returns the addresses of the listeners for sites: those without encryption first.
pub(super) fn listeners(config: &Value) -> Vec<(String, bool)> {
    let all = config.get("listeners").and_then(Value::as_object);
    let mut all: Vec<_> = all
        .into_iter()
        .flatten()
        .filter(|(_, one)| one.get("pass").and_then(Value::as_str) == Some("routes/sites"))
        .map(|(address, one)| (address.clone(), one.get("tls").is_some()))
        .collect();
    all.sort_by_key(|(_, is_encrypted)| *is_encrypted);
    all
}

/// Sends requests for a host until one is answered. Returns the last status, or the reason why
/// there is none. The server answers 503 while the application of a site does not run yet.
pub(super) fn wait(address: &str, host: &str) -> Result<u16, String> {
    let begun = Instant::now();
    loop {
        let answer = ask(address, host);
        let is_final = matches!(answer, Ok(status) if status != 503);
        if is_final || begun.elapsed() >= LIMIT {
            return answer.map_err(|error| error.to_string());
        }
        thread::sleep(PAUSE);
    }
}

/// Requests the page `/` of a host. Returns its status.
fn ask(address: &str, host: &str) -> io::Result<u16> {
    let request = format!(
        "GET / HTTP/1.1\r\nHost: {host}\r\nUser-Agent: howdah-site\r\nConnection: close\r\n\r\n"
    );
    let mut head = [0; 12];
    if let Some(path) = address.strip_prefix("unix:") {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.write_all(request.as_bytes())?;
        stream.read_exact(&mut head)?;
    } else {
        let (ip, port) = address.rsplit_once(':').unwrap_or((address, "80"));
        let ip = match ip {
            "*" | "0.0.0.0" => "127.0.0.1",
            "[::]" => "[::1]",
            ip => ip,
        };
        let address = format!("{ip}:{port}").to_socket_addrs()?.next();
        let address = address.ok_or_else(|| io::Error::other("the listener has no address"))?;
        let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.write_all(request.as_bytes())?;
        stream.read_exact(&mut head)?;
    }
    let status = std::str::from_utf8(&head).ok().and_then(|head| head.strip_prefix("HTTP/1.1 "));
    let status = status.and_then(|status| status.parse().ok());
    status.ok_or_else(|| io::Error::other("the answer is not one of HTTP"))
}

/// Returns what is to be done in the DNS for a host; `None` if it leads to this machine.
pub(super) fn dns(host: &str) -> Option<String> {
    if host.starts_with('*') {
        return Some(format!("DNS: let {host} lead to this machine"));
    }
    let (name, (send, receive)) = (format!("{host}:80"), mpsc::channel());
    // The resolver may take long if no server of names answers.
    thread::spawn(move || {
        let found = name.to_socket_addrs().map(|all| all.map(|one| one.ip()).collect::<Vec<_>>());
        let _ = send.send(found.unwrap_or_default());
    });
    let found = receive.recv_timeout(DNS_LIMIT).unwrap_or_default();
    let own = own_addresses();
    if found.is_empty() {
        let own: Vec<_> = own.iter().map(IpAddr::to_string).collect();
        let own = if own.is_empty() { String::new() } else { format!(" ({})", own.join(", ")) };
        return Some(format!("DNS: {host} has no address yet; let it lead to this machine{own}"));
    }
    if found.iter().any(|ip| own.contains(ip) || ip.is_loopback()) {
        return None;
    }
    let found: Vec<_> = found.iter().map(IpAddr::to_string).collect();
    Some(format!("DNS: {host} leads to {}; see that this is this machine", found.join(", ")))
}

/// Returns the addresses from which this machine reaches others. Nothing is sent.
fn own_addresses() -> Vec<IpAddr> {
    let address = |bind: &str, far: &str| -> io::Result<IpAddr> {
        let socket = UdpSocket::bind(bind)?;
        socket.connect(far)?;
        Ok(socket.local_addr()?.ip())
    };
    let all = [("0.0.0.0:0", "192.0.2.1:9"), ("[::]:0", "[2001:db8::1]:9")];
    all.iter().filter_map(|(bind, far)| address(bind, far).ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use serde_json::json;

    use super::*;

    #[test]
    fn listeners_for_sites_come_without_encryption_first() {
        let config = json!({"listeners": {
            "*:443": {"pass": "routes/sites", "tls": {}},
            "*:81": {"pass": "routes/other"},
            "*:80": {"pass": "routes/sites"},
        }});
        assert_eq!(listeners(&config), [("*:80".to_owned(), false), ("*:443".to_owned(), true)]);
        assert!(listeners(&Value::Null).is_empty());
    }

    #[test]
    fn a_status_is_read_and_what_is_none_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let answering = thread::spawn(move || {
            for answer in ["HTTP/1.1 301 Moved\r\n\r\n", "SSH-2.0-OpenSSH\r\n"] {
                let mut stream = listener.accept().unwrap().0;
                let mut request = [0; 512];
                let length = stream.read(&mut request).unwrap();
                assert!(request[..length].windows(14).any(|part| part == b"Host: a.exampl"));
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        assert_eq!(ask(&address, "a.example").unwrap(), 301);
        assert!(ask(&address, "a.example").is_err());
        answering.join().unwrap();
    }
}
