//! Reads a file after a start: its header, the purges, the table. Contents are read when they are
//! asked for.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, PoisonError};

use super::file::{Disk, Journal};
use super::front::Front;
use super::journal::{self, Record};
use crate::space::layout::{Header, LINE, Line, PAGE};
use crate::space::{Object, Space};

/// Lines of the table that are read at once.
const LINES: u32 = 4096;

/// Identifies the boot of the machine: a power failure loses an unknown part of the writes before
/// it.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// Reads the file and makes it ready.
pub fn open(disk: &Disk, store: &dyn Front, space: &Arc<Space>) -> io::Result<()> {
    // Greater than the number of each purge before the start.
    let base = store.first_epoch();
    let found = match read_journal(space, base)? {
        Some(found) => found,
        None => {
            space.file.set_len(0)?;
            Found { records: Vec::new(), half: 1, generation: 0 }
        }
    };
    // A file of full length, without blocks that nothing was written to.
    space.file.set_len(space.geometry.chunk(space.geometry.chunks))?;
    for record in &found.records {
        store.repeat_purge(record);
    }
    write_header(space, false)?;
    let mut journal = disk.journal.lock().unwrap_or_else(PoisonError::into_inner);
    let mut opened = Journal {
        space: Arc::clone(space),
        half: found.half,
        generation: found.generation,
        end: 0,
    };
    opened.rotate(store.purge_state())?;
    *journal = Some(opened);
    drop(journal);
    let objects = read_table(disk, space, store.floor(), base)?;
    let mut removed = Vec::new();
    let mut state = disk.state();
    let missed = state.missed.take();
    for object in objects {
        if missed.as_ref().is_some_and(|missed| missed.has(object.line.key)) {
            removed.push(object)
        } else {
            removed.extend(state.index.restore(&object))
        }
    }
    // The store may have had more memory before.
    while state.index.objects() > disk.max_objects
        && let Some(object) = state.index.evict()
    {
        removed.push(object);
    }
    drop(state);
    disk.erase(&removed);
    Ok(())
}

/// Writes the header.
pub fn write_header(space: &Space, is_closed: bool) -> io::Result<()> {
    let header = Header { size: space.geometry.size, boot: boot(), is_closed };
    space.file.write_all_at(&header.encode(), 0)
}

/// Purges that a file has.
struct Found {
    records: Vec<Record>,
    half: usize,
    generation: u64,
}

/// Returns the purges; `None` if the file is unusable.
fn read_journal(space: &Space, base: u64) -> io::Result<Option<Found>> {
    let header = Header::decode(&read_at(space, 0, PAGE)?);
    let is_usable = |header: &Header| {
        let is_current = header.boot == boot() && header.boot != 0;
        header.size == space.geometry.size && (header.is_closed || is_current)
    };
    if !header.as_ref().is_some_and(is_usable) {
        return Ok(None);
    }
    let mut halves = Vec::new();
    for half in 0..2 {
        let bytes = read_at(space, space.geometry.half(half), space.geometry.journal)?;
        halves.extend(journal::generation(&bytes).map(|generation| (generation, half, bytes)));
    }
    let Some((generation, half, bytes)) = halves.into_iter().max_by_key(|(of, ..)| *of) else {
        return Ok(None);
    };
    let Some((records, _)) = journal::read(&bytes, generation) else { return Ok(None) };
    // Otherwise the clock was set back: later purges would not concern the responses in the file.
    let is_past = records.iter().all(|record| record.last() <= base);
    Ok(is_past.then_some(Found { records, half, generation }))
}

/// Reads bytes; those after the end of the file are zeros.
fn read_at(space: &Space, offset: u64, count: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(count).map_err(io::Error::other)?];
    let mut at = 0;
    while let Some(rest) = bytes.get_mut(at..).filter(|rest| !rest.is_empty()) {
        match space.file.read_at(rest, offset + at as u64) {
            Ok(0) => break,
            Ok(count) => at += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

/// Returns the whole objects of the table, the oldest first, and takes their chunks.
fn read_table(
    disk: &Disk,
    space: &Arc<Space>,
    floor: u64,
    base: u64,
) -> io::Result<Vec<Arc<Object>>> {
    let mut found: HashMap<u64, (Line, Vec<(u32, u32)>)> = HashMap::new();
    let mut last = 0;
    let chunks = space.geometry.chunks;
    for first in (0..chunks).step_by(LINES as usize) {
        let count = LINES.min(chunks - first);
        let bytes = read_at(space, space.geometry.line(first), u64::from(count) * LINE)?;
        for (chunk, line) in (first..).zip(bytes.chunks(LINE as usize)) {
            let Some(line) = Line::decode(line, chunk) else { continue };
            last = last.max(line.id);
            let object = found.entry(line.id).or_insert((line, Vec::new()));
            object.1.push((line.index, chunk));
        }
    }
    disk.state().index.skip_to(last);
    let mut objects: Vec<_> = found.into_values().collect();
    objects.sort_unstable_by_key(|(line, _)| line.id);
    let objects = objects.into_iter().filter_map(|(line, mut chunks)| {
        chunks.sort_unstable();
        let is_whole = chunks.len() == line.count as usize
            && (0u32..).zip(&chunks).all(|(index, (found, _))| index == *found);
        if !is_whole || line.epoch < floor || line.epoch > base {
            return None;
        }
        let chunks: Vec<_> = chunks.into_iter().map(|(_, chunk)| chunk).collect();
        space.claim(&chunks).then(|| {
            let line = Line { index: 0, ..line };
            Arc::new(Object::new(line, runs(&chunks), Arc::clone(space), true))
        })
    });
    Ok(objects.collect())
}

fn runs(chunks: &[u32]) -> Box<[Range<u32>]> {
    let mut runs: Vec<Range<u32>> = Vec::new();
    for chunk in chunks {
        match runs.last_mut() {
            Some(run) if run.end == *chunk => run.end += 1,
            _ => runs.push(*chunk..chunk.saturating_add(1)),
        }
    }
    runs.into()
}

/// Returns a number for this boot of the machine; 0 if it is not known.
fn boot() -> u64 {
    std::fs::read(BOOT).map_or(0, |id| crate::space::layout::sum(&[&id]))
}
