//! Listening sockets that the service manager keeps open while the server is restarted: connections
//! wait in their backlogs meanwhile, and none is refused (`FileDescriptorStoreMax=` in
//! systemd.service(5)).

use std::os::fd::{BorrowedFd, OwnedFd};

use howdah_sys::service_manager::Notifier;

use crate::passed_socket::{InheritedSocket, Owner, name_of};

/// Distinguishes the names of the server's own sockets from those that socket units give.
const PREFIX: &str = "howdah-listener-";

/// The service manager's store of descriptors, if there is one.
#[derive(Debug, Default)]
pub(crate) struct DescriptorStore(Option<Notifier>);

impl DescriptorStore {
    pub(crate) fn new(notifier: Option<Notifier>) -> Self {
        DescriptorStore(notifier)
    }

    /// Returns true if sockets outlive this process.
    pub(crate) fn exists(&self) -> bool {
        self.0.is_some()
    }

    /// Stores the socket of an address. A failure is not reported: the next server then opens a new
    /// socket. The same holds for an address that the name of a descriptor cannot have.
    pub(crate) fn keep(&self, address: &str, socket: BorrowedFd<'_>) {
        if let (Some(notifier), Some(name)) = (&self.0, name_of(address)) {
            let fields = [("FDSTORE", "1"), ("FDNAME", &*stored_name(&name))];
            let _ = notifier.send_with(&fields, &[socket]);
        }
    }

    /// Removes the socket with this name ([`name_of`]).
    pub(crate) fn remove(&self, name: &str) {
        if let Some(notifier) = self.0.as_ref().filter(|_| !name.is_empty()) {
            let _ = notifier.send(&[("FDSTOREREMOVE", "1"), ("FDNAME", &stored_name(name))]);
        }
    }
}

impl InheritedSocket {
    /// Takes a descriptor that the service manager has passed: of a socket unit, or one that an
    /// earlier server has stored.
    pub fn of_service_manager(fd: OwnedFd, name: String) -> InheritedSocket {
        match name.strip_prefix(PREFIX) {
            Some(name) => InheritedSocket { fd, name: name.to_owned(), owner: Owner::Server },
            None => InheritedSocket { fd, name, owner: Owner::ServiceManager },
        }
    }
}

fn stored_name(name: &str) -> String {
    format!("{PREFIX}{name}")
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_stored_socket_is_the_servers_own_when_it_comes_back() {
        let fd = || OwnedFd::from(TcpListener::bind("127.0.0.1:0").unwrap());
        let name = stored_name(&name_of("*:80").unwrap());
        let stored = InheritedSocket::of_service_manager(fd(), name);
        assert_eq!((stored.name.as_str(), stored.owner), ("*=80", Owner::Server));
        let activated = InheritedSocket::of_service_manager(fd(), "howdah.socket".to_owned());
        assert_eq!(activated.owner, Owner::ServiceManager);
        assert_eq!(activated.name, "howdah.socket");
    }
}
