//! The events of `--watch`, over HTTP: a thread for each browser that waits.
//!
//! A stream ends after a while, and the browser asks again: a server that is to end when all
//! requests are answered does not wait for it for long.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::EVENTS;

/// Maximum number of browsers that wait.
const MAX_STREAMS: usize = 128;

/// Maximum length of the head of a request, in bytes.
const MAX_HEAD: usize = 32 << 10;

/// Maximum time for the head of a request, and for a write.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// Time for which a stream waits for a change.
const STREAM_TIME: Duration = Duration::from_secs(20);

/// Size of the stack of a thread in bytes.
const STACK_BYTES: usize = 128 << 10;

const SCRIPT: &str = include_str!("reload.js");

/// The changes of the files, as numbers: a page that was loaded after one with a lower number is
/// loaded again.
pub(super) struct Changes {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Number of the last change that browsers were told.
    told: u64,
    /// Number of the last change.
    last: u64,
    streams: usize,
}

impl Default for Changes {
    fn default() -> Changes {
        // A page that another server has sent has another number.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let number = now.as_millis() as u64;
        let state = Mutex::new(State { told: number, last: number, streams: 0 });
        Changes { state, changed: Condvar::new() }
    }
}

impl Changes {
    /// Counts a change. A page that begins to wait before [`Changes::tell`] has it already, as a
    /// rule: otherwise files that a page writes while it is made would reload it without an end.
    pub(super) fn begin(&self) {
        self.with(|state| state.last += 1);
    }

    /// Tells the browsers of the last change.
    pub(super) fn tell(&self) {
        self.with(|state| state.told = state.last);
        self.changed.notify_all();
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits for a change after the one with this number. Returns its number; `None` if there is
    /// none in time.
    fn wait_for(&self, seen: u64, time: Duration) -> Option<u64> {
        let begun = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            // Numbers of another server may be higher.
            if state.told != seen && state.last != seen {
                return Some(state.told);
            }
            let left = time.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return None;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Answers browsers in threads of its own.
pub(super) fn serve(listener: TcpListener, changes: &Arc<Changes>) -> io::Result<()> {
    let changes = Arc::clone(changes);
    let accept = move || {
        loop {
            let Ok((stream, _)) = listener.accept() else {
                // Such as a lack of descriptors.
                thread::sleep(Duration::from_millis(100));
                continue;
            };
            let is_one_more = |state: &mut State| {
                let has_room = state.streams < MAX_STREAMS;
                state.streams += usize::from(has_room);
                has_room
            };
            if !changes.with(is_one_more) {
                continue;
            }
            let own = Arc::clone(&changes);
            let answer = move || {
                // A browser that has gone needs no answer.
                let _ = answer(stream, &own);
                own.with(|state| state.streams -= 1);
            };
            if thread::Builder::new().stack_size(STACK_BYTES).spawn(answer).is_err() {
                changes.with(|state| state.streams -= 1);
            }
        }
    };
    thread::Builder::new().stack_size(STACK_BYTES).spawn(accept).map(drop)
}

fn answer(mut stream: TcpStream, changes: &Changes) -> io::Result<()> {
    stream.set_read_timeout(Some(HEAD_TIMEOUT))?;
    stream.set_write_timeout(Some(HEAD_TIMEOUT))?;
    let head = head(&mut stream)?;
    let target = head.split(' ').nth(1).unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if path != EVENTS {
        return respond(&mut stream, "text/javascript", SCRIPT);
    }
    let field = head.lines().filter_map(|line| line.split_once(':'));
    let last = field.clone().find(|(name, _)| name.eq_ignore_ascii_case("last-event-id"));
    let last = last.map_or(query, |(_, value)| value.trim());
    let seen = last.parse().unwrap_or_else(|_| changes.with(|state| state.last));
    respond(&mut stream, "text/event-stream", &format!("retry: 500\nid: {seen}\ndata:\n\n"))?;
    if let Some(now) = changes.wait_for(seen, STREAM_TIME) {
        stream.write_all(format!("id: {now}\nevent: reload\ndata:\n\n").as_bytes())?;
    }
    Ok(())
}

/// Reads the head of a request.
fn head(stream: &mut TcpStream) -> io::Result<String> {
    let (mut head, mut buffer, begun) = (Vec::new(), [0; 4096], Instant::now());
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > MAX_HEAD || begun.elapsed() > HEAD_TIMEOUT {
            return Err(io::ErrorKind::InvalidData.into());
        }
        match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => head.extend_from_slice(buffer.get(..read).unwrap_or_default()),
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Sends a response, or the start of one: it ends with the connection.
fn respond(stream: &mut TcpStream, media_type: &str, text: &str) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_told_of_changes_after_it_was_loaded() {
        let changes = Changes::default();
        let none = Duration::ZERO;
        let loaded = changes.with(|state| state.last);
        assert_eq!(changes.wait_for(loaded, none), None);
        changes.begin();
        // One that is loaded now may have written the file.
        let late = changes.with(|state| state.last);
        assert_eq!(changes.wait_for(loaded, none), None, "browsers wait for the last of several");
        changes.tell();
        assert_eq!(changes.wait_for(loaded, none), Some(late));
        assert_eq!(changes.wait_for(late, none), None);
        assert_eq!(changes.wait_for(late + 7, none), Some(late), "of another server");
    }
}
