//! Notifications to the service manager: datagrams of lines `NAME=VALUE`, sd_notify(3).

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use rustix::io::{self, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, sendmsg_addr, socket_with,
};

/// Time that a notification may wait until the service manager has read earlier ones.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// Sends notifications to the service manager.
#[derive(Debug, Clone)]
pub struct Notifier {
    address: SocketAddrUnix,
    /// The address as it was given.
    text: OsString,
}

impl Notifier {
    /// Creates a notifier for an address as in `NOTIFY_SOCKET`: a path, or `@` and an abstract
    /// name. Error: the reason why the address is invalid.
    pub fn new(address: &OsStr) -> Result<Notifier, String> {
        let parsed = match address.as_bytes() {
            [b'@', name @ ..] if !name.is_empty() => SocketAddrUnix::new_abstract_name(name),
            [b'/', _, ..] => SocketAddrUnix::new(address),
            _ => return Err("it is neither an absolute path nor an abstract name".to_owned()),
        };
        let address_error = |error: io::Errno| format!("it is no address of a socket: {error}");
        let parsed = parsed.map_err(address_error)?;
        Ok(Notifier { address: parsed, text: address.to_owned() })
    }

    /// Returns the address as in `NOTIFY_SOCKET`.
    pub fn address(&self) -> &OsStr {
        &self.text
    }

    /// Sends one notification. Line breaks and other controls in values become spaces.
    pub fn send(&self, fields: &[(&str, &str)]) -> io::Result<()> {
        self.send_with(fields, &[])
    }

    /// Sends one notification with descriptors. A socket for each notification: the service manager
    /// may have been replaced since the last one.
    pub fn send_with(
        &self,
        fields: &[(&str, &str)],
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let (family, kind) = (AddressFamily::UNIX, SocketType::DGRAM);
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
        set_socket_timeout(&socket, Timeout::Send, Some(SEND_TIMEOUT))?;
        let text = text(fields);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors))
        {
            return Err(io::Errno::TOOBIG);
        }
        let parts = [IoSlice::new(text.as_bytes())];
        let send =
            || sendmsg_addr(&socket, &self.address, &parts, &mut ancillary, SendFlags::NOSIGNAL);
        retry_on_intr(send).map(|_| ())
    }
}

fn text(fields: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in fields {
        let value = value.replace(|character: char| character.is_control(), " ");
        let _ = writeln!(text, "{name}={value}");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    use super::*;
    use crate::packet::{self, Received};

    fn receive(socket: &UnixDatagram) -> (String, usize) {
        let mut buffer = [0; 500];
        match packet::receive(socket, &mut buffer).unwrap() {
            Received::Packet(length, descriptors) => {
                (String::from_utf8(buffer[..length].to_vec()).unwrap(), descriptors.len())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_notification_arrives_at_a_path_with_its_descriptor() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let notifier = Notifier::new(path.as_os_str()).unwrap();
        let fields = [("FDSTORE", "1"), ("FDNAME", "web")];
        notifier.send_with(&fields, &[manager.as_fd()]).unwrap();
        assert_eq!(receive(&manager), ("FDSTORE=1\nFDNAME=web\n".to_owned(), 1));
    }

    #[test]
    fn a_notification_arrives_at_an_abstract_name() {
        let name = format!("howdah-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        let notifier = Notifier::new(OsStr::new(&format!("@{name}"))).unwrap();
        notifier.send(&[("READY", "1")]).unwrap();
        assert_eq!(receive(&manager), ("READY=1\n".to_owned(), 0));
    }

    #[test]
    fn a_value_cannot_forge_a_field() {
        assert_eq!(text(&[("STATUS", "a\nMAINPID=1\r\0b")]), "STATUS=a MAINPID=1  b\n");
    }

    #[test]
    fn a_service_manager_that_is_gone_is_an_error() {
        let notifier = Notifier::new(OsStr::new("/nonexistent/notify")).unwrap();
        assert_eq!(notifier.send(&[("READY", "1")]), Err(io::Errno::NOENT));
    }
}
