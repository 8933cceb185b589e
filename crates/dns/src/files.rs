//! Files of the machine for name lookup: `/etc/hosts` and `/etc/resolv.conf`.
//!
//! The files may change at any time, so each look-up checks them. In its sandbox the router can
//! open the files that existed when it started, but not new files of the same name, which editors
//! and DHCP clients create. The supervisor opens new files on request.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use howdah_sys::regular_file;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Files of the machine, shared by the whole process.
pub static FILES: NameFiles<'static> = NameFiles::new(["/etc/hosts", "/etc/resolv.conf"]);

/// Maximum wait for the supervisor.
const SUPERVISOR_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of bytes of a file; a longer one is cut.
const MAX_BYTES: u64 = 16 << 20;

/// Names of the files, in the order in which the supervisor passes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// `/etc/hosts`.
    Hosts,
    /// `/etc/resolv.conf`.
    Resolver,
}

/// Known contents of the files.
#[derive(Debug)]
pub struct NameFiles<'p> {
    paths: [&'p str; 2],
    known: Mutex<[Option<Content>; 2]>,
    requested: Notify,
    taken: Notify,
}

/// Content of a file, and the stamp that shows a change.
#[derive(Debug)]
struct Content {
    stamp: Stamp,
    text: Arc<str>,
}

/// Device, inode, size, and time of the last change.
type Stamp = (u64, u64, u64, i64, i64);

impl<'p> NameFiles<'p> {
    const fn new(paths: [&'p str; 2]) -> Self {
        let known = Mutex::new([const { None }; 2]);
        let (requested, taken) = (Notify::const_new(), Notify::const_new());
        NameFiles { paths, known, requested, taken }
    }

    /// Returns the current text of a file; empty if there is none. If the supervisor must open it
    /// and does not answer in time, returns the last known text.
    pub async fn text(&self, name: Name) -> Arc<str> {
        match self.look(name) {
            Ok(text) => text,
            Err(_) => {
                let mut taken = pin!(self.taken.notified());
                taken.as_mut().enable();
                self.requested.notify_one();
                let _ = timeout(SUPERVISOR_TIMEOUT, taken).await;
                self.look(name).unwrap_or_else(|known| known)
            }
        }
    }

    /// Returns the text of a file. Error: the last known text, because the router cannot open the
    /// file.
    fn look(&self, name: Name) -> Result<Arc<str>, Arc<str>> {
        let path = self.paths[name as usize];
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = &mut known[name as usize];
        if let (Ok(found), Some(known)) = (std::fs::metadata(path), &*known)
            && known.stamp == stamp(&found)
        {
            return Ok(Arc::clone(&known.text));
        }
        let text = |known: &Option<Content>| {
            known.as_ref().map_or_else(|| "".into(), |known| Arc::clone(&known.text))
        };
        match regular_file::open(path.as_ref()).and_then(|(file, _)| read(file)) {
            Ok(new) => *known = Some(new),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(text(known));
            }
            Err(_) => *known = None,
        }
        Ok(text(known))
    }

    /// Waits until a look-up needs the supervisor to open the files.
    pub async fn requested(&self) {
        self.requested.notified().await;
    }

    /// Stores the contents of files that the supervisor has opened.
    pub fn take(&self, files: Vec<OwnedFd>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for (known, file) in known.iter_mut().zip(files) {
            if let Ok(new) = read(file.into()) {
                *known = Some(new);
            }
        }
        self.taken.notify_waiters();
    }
}

fn read(file: File) -> io::Result<Content> {
    let stamp = stamp(&file.metadata()?);
    let mut text = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut text)?;
    Ok(Content { stamp, text: String::from_utf8_lossy(&text).into() })
}

fn stamp(file: &Metadata) -> Stamp {
    (file.dev(), file.ino(), file.size(), file.mtime(), file.mtime_nsec())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test]
    async fn a_file_counts_as_it_is_now() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hosts");
        let files = NameFiles::new([path.to_str().unwrap(), "/nonexistent"]);
        assert_eq!(&*files.text(Name::Hosts).await, "");
        fs::write(&path, "one").unwrap();
        assert_eq!(&*files.text(Name::Hosts).await, "one");
        fs::write(&path, "other").unwrap();
        assert_eq!(&*files.text(Name::Hosts).await, "other");
        fs::remove_file(&path).unwrap();
        assert_eq!((&*files.text(Name::Hosts).await, &*files.text(Name::Resolver).await), ("", ""));
    }

    #[tokio::test]
    async fn what_the_supervisor_has_opened_is_known_until_the_file_changes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hosts");
        fs::write(&path, "new").unwrap();
        let files = NameFiles::new([path.to_str().unwrap(), "/nonexistent"]);
        let open = |path: &str| OwnedFd::from(File::open(path).unwrap());
        files.take(vec![open(path.to_str().unwrap()), open("/dev/null")]);
        let known = files.known.lock().unwrap()[0].as_ref().unwrap().text.clone();
        assert_eq!(&*known, "new");
        fs::write(&path, "newer").unwrap();
        assert_eq!(&*files.text(Name::Hosts).await, "newer");
    }
}
