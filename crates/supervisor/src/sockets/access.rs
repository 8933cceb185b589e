//! Owner, group and permissions of the file of a listening unix socket.
//!
//! A new socket has them before it listens, so no connection is made under others. Those of an open
//! one are changed in an order in which a user with the right to connect before and after has it in
//! between, and no user has it in between who has it neither before nor after.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use howdah_sys::credentials::{Credentials, Unknown};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Uid, chmodat, chownat, fstat};

use crate::grants::SocketAccess;
use crate::safe_path::SafePath;

/// Owner, group and permissions of a socket's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access {
    /// User id; `None`: that of this process.
    pub(crate) uid: Option<u32>,
    /// Group id; `None`: as the directory gives it to a new file.
    pub(crate) gid: Option<u32>,
    pub(crate) mode: u32,
    /// Connections from before must not be served.
    pub(crate) is_for_fastcgi: bool,
}

impl From<u32> for Access {
    /// The user of this process with these permissions.
    fn from(mode: u32) -> Access {
        Access { uid: None, gid: None, mode, is_for_fastcgi: false }
    }
}

impl Access {
    /// Looks up the names of a listener's socket, which may take any time. `group`: that of the
    /// router. Error: the problem with its place in the document.
    pub(crate) fn look_up(access: &SocketAccess, group: Option<u32>) -> Result<Access, String> {
        let SocketAccess { place, user, group: group_name, mode, is_for_fastcgi } = access;
        let problem = |key, error: Unknown| format!("{place}/{key}: {error}");
        let owner = user.as_ref().map(|user| Credentials::look_up(user, None));
        let owner = owner.transpose().map_err(|error| problem("user", error))?;
        let gid = match (group_name, &owner) {
            (Some(name), _) => {
                let found = Credentials::gid_of(name);
                let found = found.map_err(|error| Unknown::Unanswered(error.to_string()));
                let found = found.and_then(|gid| gid.ok_or(Unknown::Group(name.clone())));
                Some(found.map_err(|error| problem("group", error))?)
            }
            (None, Some(owner)) => Some(owner.gid),
            (None, None) => group.filter(|_| *is_for_fastcgi),
        };
        let uid = owner.map(|owner| owner.uid);
        Ok(Access { uid, gid, mode: *mode, is_for_fastcgi: *is_for_fastcgi })
    }

    /// Returns it as the outcome of a task has it.
    pub(crate) fn encode(self) -> Vec<u8> {
        let id = |id: Option<u32>| id.map_or_else(|| "-".to_owned(), |id| id.to_string());
        let Access { uid, gid, mode, is_for_fastcgi } = self;
        format!("{} {} {mode} {is_for_fastcgi}", id(uid), id(gid)).into_bytes()
    }

    /// Reads what [`Access::encode`] has written; `None` if it is something else.
    pub(crate) fn decode(text: &[u8]) -> Option<Access> {
        let mut words = std::str::from_utf8(text).ok()?.split(' ');
        let mut id = || match words.next()? {
            "-" => Some(None),
            id => id.parse().ok().map(Some),
        };
        let (uid, gid) = (id()?, id()?);
        let (mode, is_for_fastcgi) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Access { uid, gid, mode, is_for_fastcgi })
    }

    /// Gives a new file its owner and its group. It has the permissions.
    pub(super) fn give(self, place: &SafePath) -> io::Result<()> {
        if self.uid.is_none() && self.gid.is_none() {
            return Ok(());
        }
        let file = open(place)?;
        own(&file, self.uid, self.gid).map_err(|error| self.explain(&error))
    }

    /// Changes the file of an open socket.
    pub(super) fn change(self, place: &SafePath) -> io::Result<()> {
        let file = open(place)?;
        let found = fstat(&file)?;
        let own_uid = rustix::process::geteuid().as_raw();
        let uid = Some(self.uid.unwrap_or(own_uid)).filter(|uid| *uid != found.st_uid);
        let gid = self.gid.filter(|gid| *gid != found.st_gid);
        let (before, others) = (found.st_mode & 0o777, 0o007);
        if uid.is_some() || gid.is_some() {
            // Owner and group get no more than they have before and after; others keep theirs until
            // the new group has its own.
            permit(&file, before & (self.mode | others))?;
            own(&file, uid, gid).map_err(|error| self.explain(&error))?;
        }
        permit(&file, self.mode)
    }

    fn explain(self, error: &io::Error) -> io::Error {
        let user = self.uid.map(|uid| format!("user id {uid}"));
        let group = self.gid.map(|gid| format!("group id {gid}"));
        let to: Vec<_> = user.into_iter().chain(group).collect();
        let to = to.join(" and ");
        io::Error::other(format!(
            "its file cannot be given to {to} ({error}); start the server as root, or name a user \
             and group in \"socket\" that it may give files to"
        ))
    }
}

/// Opens the file of a socket without connecting to it.
fn open(place: &SafePath) -> io::Result<OwnedFd> {
    let file = place.look()?;
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::Socket {
        return Err(io::Error::other("its file is no socket any more"));
    }
    Ok(file)
}

fn own(file: &OwnedFd, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
    let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
    Ok(chownat(file, "", uid, gid, AtFlags::EMPTY_PATH)?)
}

fn permit(file: &OwnedFd, mode: u32) -> io::Result<()> {
    // Linux before 6.6 has no other call for a file that is not open for reading or writing.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(chmodat(CWD, path, Mode::from_raw_mode(mode), AtFlags::empty())?)
}

#[cfg(test)]
mod tests;
