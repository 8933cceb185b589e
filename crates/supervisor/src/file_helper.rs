//! A process that carries out tasks with files.
//!
//! The place of its work is in a memory file, which the supervisor reads once the work takes long:
//! a document may have thousands of places, and a message for each would take more time than its
//! file.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use howdah_sys::packet::{self, Received};
use howdah_sys::{clock, process, signals, title};
use howdah_wire::bytes::{Decoder, Encode, Malformed};
use rustix::event::{PollFd, PollFlags, poll};

use crate::memory::memory_file;

/// Maximum length of a message, in bytes. Longer texts are cut.
const MAX_MESSAGE: usize = 64 << 10;

/// The memory file for the place of the work of this process, if it is a helper.
static PROGRESS: Mutex<Option<Arc<File>>> = Mutex::new(None);

/// The tasks of a helper: the first one, and those that come as messages. Returns the descriptor
/// that a task opens, or why it has failed.
pub(crate) trait Work {
    /// Carries out the first task.
    fn first(&self) -> Result<Option<OwnedFd>, String>;

    /// Carries out a task of a message.
    fn next(&self, message: &[u8]) -> Result<Option<OwnedFd>, String>;
}

/// A process that carries out tasks.
pub(crate) struct Helper {
    pid: u32,
    socket: OwnedFd,
    progress: File,
}

/// A message of the process.
pub(crate) enum Answer {
    /// No message has arrived.
    Nothing,
    /// The helper has closed its copies of the server's descriptors.
    Begun,
    /// A task has ended.
    Done(Result<Option<OwnedFd>, String>),
    /// The helper has exited or sent an invalid message.
    Gone,
}

impl Helper {
    /// Starts a process, which begins with the first task.
    pub(crate) fn start(work: &dyn Work) -> io::Result<Helper> {
        let (socket, other) = packet::pair()?;
        let progress = File::from(memory_file("progress", &[])?);
        let parent = std::process::id();
        match process::fork()? {
            process::Forked::Parent(pid) => Ok(Helper { pid, socket, progress }),
            process::Forked::Child => {
                signals::reset();
                process::die_with_parent(Some(parent));
                title::set("howdah: files");
                let served = catch_unwind(AssertUnwindSafe(|| serve(other, progress, work)));
                process::exit_now(i32::from(!matches!(served, Ok(Ok(())))));
            }
        }
    }

    /// Returns the process id.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the socket on which answers come.
    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Sends a task to a process that has none.
    pub(crate) fn send(&self, message: &[u8]) -> io::Result<()> {
        Ok(packet::send(&self.socket, message, &[])?)
    }

    /// Receives an answer, if one has come.
    pub(crate) fn receive(&self) -> Answer {
        match packet::receive_next(&self.socket, MAX_MESSAGE) {
            Ok((Received::Empty, _)) => Answer::Nothing,
            Ok((Received::Packet(_, descriptors), message)) => {
                Answer::decode(&message, descriptors).unwrap_or(Answer::Gone)
            }
            Ok((Received::Closed, _)) | Err(_) => Answer::Gone,
        }
    }

    /// Returns the last place that [`file_progress`] has named, and when, in microseconds of the
    /// [monotonic clock](clock::monotonic_us).
    pub(crate) fn progress(&self) -> Option<(u64, String)> {
        let mut record = vec![0; MAX_MESSAGE];
        let length = self.progress.read_at(&mut record, 0).ok()?;
        record.truncate(length);
        let mut reader = Decoder(&record);
        Some((reader.u64().ok()?, reader.text().ok()?.to_owned()))
    }

    /// Kills the process.
    pub(crate) fn kill(&self) {
        let _ = signals::send(self.pid, signals::SIGKILL);
    }
}

impl Answer {
    fn decode(message: &[u8], descriptors: Vec<OwnedFd>) -> Result<Answer, Malformed> {
        let mut reader = Decoder(message);
        let (kind, text) = (reader.u8()?, reader.text()?.to_owned());
        reader.end()?;
        Ok(match kind {
            0 => Answer::Begun,
            1 => Answer::Done(Ok(descriptors.into_iter().next())),
            2 => Answer::Done(Err(text)),
            _ => return Err(Malformed),
        })
    }
}

/// Says which file is opened or read next. In a process that is not a helper, this has no effect. A
/// task may take any time while it says this; if it stops, the error has the last place.
pub fn file_progress(place: &str) {
    if let Some(file) = PROGRESS.lock().ok().and_then(|file| file.clone()) {
        let mut record = Vec::new();
        record.put_u64(clock::monotonic_us());
        record.put_bytes(cut(place).as_bytes());
        let _ = file.write_all_at(&record, 0);
    }
}

fn message(kind: u8, text: &str) -> Vec<u8> {
    let mut message = Vec::new();
    message.put_u8(kind);
    message.put_bytes(cut(text).as_bytes());
    message
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_MESSAGE / 2)]
}

/// Carries out tasks until the supervisor closes the socket.
fn serve(socket: OwnedFd, progress: File, work: &dyn Work) -> io::Result<()> {
    // The sockets of the server must not stay open if this process does.
    let [socket, progress] = process::keep_only([File::from(socket), progress])?;
    if let Ok(mut known) = PROGRESS.lock() {
        // That of a helper that has started this one is closed: its number may be another file's.
        std::mem::forget(known.replace(Arc::new(progress)));
    }
    let socket = &OwnedFd::from(socket);
    // From now on an address that the supervisor closes is free.
    packet::send(socket, &message(0, ""), &[])?;
    answer(socket, work.first())?;
    let mut buffer = vec![0; MAX_MESSAGE];
    loop {
        let mut polled = [PollFd::new(socket, PollFlags::IN)];
        rustix::io::retry_on_intr(|| poll(&mut polled, None))?;
        match packet::receive(socket, &mut buffer)? {
            Received::Empty => {}
            Received::Closed => return Ok(()),
            Received::Packet(length, _) => {
                answer(socket, work.next(buffer.get(..length).unwrap_or_default()))?;
            }
        }
    }
}

fn answer(socket: &OwnedFd, outcome: Result<Option<OwnedFd>, String>) -> io::Result<()> {
    let (message, descriptors) = match outcome {
        Ok(file) => (message(1, ""), file),
        Err(problem) => (message(2, &problem), None),
    };
    let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    loop {
        match packet::send(socket, &message, &descriptors) {
            // The supervisor has not read former answers.
            Err(rustix::io::Errno::AGAIN) => {
                let mut polled = [PollFd::new(socket, PollFlags::OUT)];
                rustix::io::retry_on_intr(|| poll(&mut polled, None))?;
            }
            sent => return Ok(sent?),
        }
    }
}
