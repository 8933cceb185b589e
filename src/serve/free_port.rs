//! The port of `howdah serve DIR` without `--listen`, if another program has the usual one.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};

use crate::cli::Serve;

/// Number of ports after the usual one that are tried.
const MAX_TRIES: u16 = 20;

/// Returns the next free address of this machine if another program listens at the only one of
/// `addresses`, and the line that says so.
pub fn find(arguments: &Serve, addresses: &[String]) -> Option<(String, String)> {
    let is_site = arguments.config.is_none()
        && arguments.domain.is_empty()
        && arguments.listen.is_empty()
        && (arguments.dir.is_some()
            || arguments.common.state.is_none() && arguments.control.is_none());
    let [usual] = addresses else { return None };
    let usual: SocketAddr = usual.parse().ok().filter(|_| is_site)?;
    if !is_taken(usual) {
        return None;
    }
    let mut next = (1..=MAX_TRIES).map(|step| SocketAddr::new(usual.ip(), usual.port() + step));
    let free = next.find(|address| !is_taken(*address))?;
    let line = format!("port: {free}, as another program listens on {usual}; --listen chooses one");
    Some((free.to_string(), line))
}

fn is_taken(address: SocketAddr) -> bool {
    matches!(TcpListener::bind(address), Err(error) if error.kind() == ErrorKind::AddrInUse)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn the_next_port_takes_the_place_of_one_that_is_taken() {
        let arguments = Serve { dir: Some(PathBuf::from("/srv")), ..Serve::default() };
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = other.local_addr().unwrap();
        // Ports up to the last one are left for it.
        if taken.port() > u16::MAX - MAX_TRIES {
            return;
        }
        let (found, line) = find(&arguments, &[taken.to_string()]).unwrap();
        let found: SocketAddr = found.parse().unwrap();
        assert!(found.port() > taken.port() && found.ip() == taken.ip());
        assert!(line.contains(&taken.to_string()), "{line}");
        let chosen = Serve { listen: vec![taken.to_string()], ..arguments };
        assert_eq!(find(&chosen, &[taken.to_string()]), None);
        drop(other);
        assert_eq!(find(&Serve::default(), &["unix:/run/a".to_owned()]), None);
    }
}
