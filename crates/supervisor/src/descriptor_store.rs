//! Listening sockets that the service manager keeps open while the server is restarted: connections
//! wait in their backlogs meanwhile, and none is refused (`FileDescriptorStoreMax=` in
//! systemd.service(5)).

use std::cell::Cell;
use std::os::fd::{BorrowedFd, OwnedFd};

use howdah_sys::service_manager::Notifier;

use crate::passed_socket::{InheritedSocket, Owner, name_of};

/// Distinguishes the names of the server's own sockets from those that socket units give.
const PREFIX: &str = "howdah-listener-";

/// The service manager's store of descriptors, if there is one.
#[derive(Debug, Default)]
pub(crate) struct DescriptorStore {
    notifier: Option<Notifier>,
    /// A notification has failed. Each further one could wait until its timeout.
    has_failed: Cell<bool>,
}

impl DescriptorStore {
    pub(crate) fn new(notifier: Option<Notifier>) -> Self {
        DescriptorStore { notifier, has_failed: Cell::new(false) }
    }

    /// Returns true if sockets outlive this process.
    pub(crate) fn exists(&self) -> bool {
        self.notifier.is_some() && !self.has_failed.get()
    }

    /// Stores the socket of an address. A failure is not reported: the next server then opens a new
    /// socket. The same holds for an address that the name of a descriptor cannot have.
    pub(crate) fn keep(&self, address: &str, socket: BorrowedFd<'_>) {
        if let Some(name) = name_of(address) {
            self.notify("FDSTORE", &name, &[socket]);
        }
    }

    /// Removes the socket with this name ([`name_of`]).
    pub(crate) fn remove(&self, name: &str) {
        if !name.is_empty() {
            self.notify("FDSTOREREMOVE", name, &[]);
        }
    }

    fn notify(&self, action: &str, name: &str, sockets: &[BorrowedFd<'_>]) {
        let Some(notifier) = self.notifier.as_ref().filter(|_| self.exists()) else { return };
        let fields = [(action, "1"), ("FDNAME", &*stored_name(name))];
        self.has_failed.set(notifier.send_with(&fields, sockets).is_err());
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
    use std::ffi::OsStr;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_service_manager_that_does_not_answer_is_asked_once() {
        let notifier = Notifier::new(OsStr::new("/nonexistent/notify")).unwrap();
        let store = DescriptorStore::new(Some(notifier));
        assert!(store.exists());
        store.remove("*=80");
        assert!(!store.exists(), "the files of sockets are removed as usual");
    }

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
