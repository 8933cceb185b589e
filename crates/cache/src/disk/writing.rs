//! The thread of a file: it opens the file, and then writes one response after the other.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::file::{Disk, Job, MAX_IN_MEMORY};
use super::front::Front;
use super::{opening, record};
use crate::entry::{Content, Entry};
use crate::memory::Owner;
use crate::space::layout::{CHUNK, Line, sum};
use crate::space::{Object, Space};

/// Pause of writing after the disk was full.
const PAUSE: Duration = Duration::from_secs(1);

/// Takes the open file of a store, which has no other user, and starts its thread.
pub fn start(disk: &Disk, file: File, store: Weak<dyn Front>) -> io::Result<()> {
    let Some((space, jobs)) = disk.take(file) else { return Ok(()) };
    let run = move || run(&store, &space, &jobs);
    std::thread::Builder::new().name("cache".to_owned()).spawn(run).map(drop)
}

/// Does the work until the store is gone.
fn run(store: &Weak<dyn Front>, space: &Arc<Space>, jobs: &Receiver<Job>) {
    {
        let Some(store) = store.upgrade() else { return };
        let Some(disk) = store.disk() else { return };
        if let Err(error) = opening::open(disk, &*store, space) {
            disk.trouble().cannot_be_used(&error);
            disk.fail();
        }
    }
    let mut paused_until = None;
    while let Ok(job) = jobs.recv() {
        let Some(store) = store.upgrade() else { return };
        let Some(disk) = store.disk() else { return };
        match job {
            Job::Write { id, hash, variant, weight, key, owner, entry } => {
                let line = Line {
                    id,
                    index: 0,
                    count: 0,
                    key: hash,
                    owner: sum(&[&owner.name]),
                    epoch: entry.epoch,
                    variant,
                };
                let is_paused = paused_until.is_some_and(|until| Instant::now() < until);
                let is_usable = !is_paused && !disk.has_failed.load(Relaxed);
                let written = if is_usable {
                    write(disk, space, line, &key, &owner, &entry)
                } else {
                    Ok(false)
                };
                disk.waiting.fetch_sub(weight, Relaxed);
                match written {
                    Ok(true) if entry.body.memory().is_some_and(is_large) => {
                        store.forget_in_memory(&key, &entry);
                    }
                    Ok(true) => {}
                    Ok(false) | Err(_) => {
                        let removed = disk.state().index.remove(hash, |_, other| other == id);
                        disk.erase(&removed);
                    }
                }
                if matches!(written, Ok(true)) {
                    disk.trouble().written();
                }
                if let Err(error) = written {
                    disk.trouble().not_written(&error, Instant::now());
                    disk.errors.fetch_add(1, Relaxed);
                    paused_until = Instant::now().checked_add(PAUSE);
                }
            }
            Job::Close(done) => {
                // The store writes no more. A file that has failed stays worthless.
                if !disk.has_failed.swap(true, Relaxed) {
                    let synced = space.file.sync_data();
                    let _ = synced
                        .and_then(|()| opening::write_header(space, true))
                        .and_then(|()| space.file.sync_data());
                }
                let _ = done.send(());
            }
        }
    }
}

fn is_large(bytes: &Bytes) -> bool {
    bytes.len() as u64 > MAX_IN_MEMORY
}

/// Writes a response. False if it does not fit, or was replaced or removed meanwhile.
fn write(
    disk: &Disk,
    space: &Arc<Space>,
    line: Line,
    key: &[u8],
    owner: &Owner,
    entry: &Entry,
) -> io::Result<bool> {
    let content = match &entry.body {
        Content::Memory(bytes) => bytes.clone(),
        Content::Disk(content) => content.read()?,
    };
    let head = record::encode(line.id, key, &owner.name, entry, sum(&[&content]));
    let Some(head) = head else { return Ok(false) };
    let total = (head.len() + content.len()) as u64;
    let Ok(count) = u32::try_from(total.div_ceil(CHUNK)) else { return Ok(false) };
    let Some(runs) = allocate(disk, space, count) else { return Ok(false) };
    let line = Line { count, ..line };
    let object = Arc::new(Object::new(line, runs, Arc::clone(space), false));
    object.write(0, &head)?;
    object.write(head.len() as u64, &content)?;
    object.write_tail()?;
    // From here on, other threads can read and erase the object.
    if !disk.state().index.add(&object) {
        return Ok(false);
    }
    object.write_head()?;
    Ok(true)
}

/// Takes chunks, for which other objects make room. `None` if there cannot be enough.
fn allocate(disk: &Disk, space: &Arc<Space>, count: u32) -> Option<Box<[Range<u32>]>> {
    // Some are always free, so that those that are needed are found at once.
    let wanted = count.saturating_add(space.geometry.chunks / 64);
    if wanted > space.geometry.chunks {
        return None;
    }
    // Chunks of objects that are being sent do not become free; a limit keeps other objects from
    // being evicted in vain.
    let mut evictable = u64::from(wanted) * 2;
    while space.free() < wanted || disk.state().index.objects() >= disk.max_objects {
        let Some(object) = disk.state().index.evict() else { break };
        disk.erase(std::slice::from_ref(&object));
        evictable = evictable.saturating_sub(u64::from(object.line.count));
        if evictable == 0 {
            break;
        }
    }
    space.allocate(count)
}
