//! Listening sockets that another process passes to this one, and their names.

use std::os::fd::OwnedFd;

/// A listening socket that was passed to this process.
#[derive(Debug)]
pub struct InheritedSocket {
    /// The socket; it has not been checked.
    pub fd: OwnedFd,
    /// Name that the passing process has given it; may be empty.
    pub name: String,
    /// The process that opens the socket and removes its file.
    pub owner: Owner,
}

/// The process that opens a socket and removes its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The server. A socket that it does not use is closed.
    Server,
    /// The service manager, for a socket unit. It keeps the socket open as long as the unit is
    /// active, so the server cannot bind the address itself and keeps the socket for later
    /// listeners.
    ServiceManager,
}

/// Returns the name of a listener's socket at the service manager: the address with `=` for each
/// colon, as names cannot contain colons (sd_pid_notify_with_fds(3)). `None` if the address has
/// other characters that names cannot contain, or is too long.
pub(crate) fn name_of(address: &str) -> Option<String> {
    let can = address.len() <= 255 && address.bytes().all(|b| matches!(b, b' '..=b'~'));
    can.then(|| address.replace(':', "="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_only_characters_that_the_service_manager_accepts() {
        assert_eq!(name_of("[::1]:80").unwrap(), "[==1]=80");
        assert_eq!(name_of("unix:/run/a b").unwrap(), "unix=/run/a b");
        assert_eq!(name_of("unix:/run/é"), None);
        assert_eq!(name_of("unix:/run/\n"), None);
        assert_eq!(name_of(&"a".repeat(256)), None);
    }
}
