//! Profiles: the order to sample the script of a request, and the samples that its worker sends.
//!
//! A worker collects samples in a [`Recorder`] and sends them in pieces, each of which is complete:
//!
//! ```text
//! lost ticks u32
//! strings u32 │ each: length u32 │ bytes
//! frames u32  │ each: name u32 │ file u32 │ line u32      (name and file: numbers of strings)
//! stacks u32  │ each: ticks u32 │ depth u32 │ frames u32 each, the outermost first
//! ```

use std::collections::HashMap;

use crate::bytes::{Decoder, Encode, Malformed};

/// Maximum number of stacks in a piece. It limits the time that a piece takes from the router.
pub const MAX_STACKS: usize = 1024;

/// Maximum number of calls of a stack.
pub const MAX_DEPTH: usize = 256;

/// Maximum number of calls of all stacks of a piece together.
const MAX_CALLS: usize = 8 * 1024;

/// Maximum length of the name of a function, in bytes.
const MAX_NAME_BYTES: usize = 256;

/// Maximum length of the path of a file, in bytes. A longer path loses its beginning.
const MAX_FILE_BYTES: usize = 512;

/// Range of the time between two samples, in microseconds.
const PERIODS: std::ops::RangeInclusive<u32> = 1_000..=1_000_000;

/// The order to sample the script of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// The clock is the processor time of the script; otherwise it is that on the wall.
    pub is_processor_time: bool,
    /// Time between two samples in microseconds.
    pub period_us: u32,
    /// End of the profile: microseconds of the monotonic clock.
    pub end_us: u64,
}

impl Order {
    /// Returns the encoding. It contains no NUL.
    pub fn encode(self) -> String {
        let clock = if self.is_processor_time { 'p' } else { 'w' };
        format!("{clock} {} {}", self.period_us, self.end_us)
    }

    /// Decodes an order.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let text = std::str::from_utf8(bytes).map_err(|_| Malformed)?;
        let mut parts = text.split(' ');
        let is_processor_time = match parts.next() {
            Some("p") => true,
            Some("w") => false,
            _ => return Err(Malformed),
        };
        let mut number = || parts.next().and_then(|part| part.parse::<u64>().ok());
        let period_us = number().and_then(|period| u32::try_from(period).ok());
        let period_us = period_us.filter(|period| PERIODS.contains(period)).ok_or(Malformed)?;
        let end_us = number().ok_or(Malformed)?;
        match parts.next() {
            None => Ok(Order { is_processor_time, period_us, end_us }),
            Some(_) => Err(Malformed),
        }
    }
}

/// A place in a script: numbers of strings, and a line (0: unknown).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Name of the function.
    pub name: u32,
    /// Path of its file; the empty string for a function of PHP.
    pub file: u32,
    /// The line that runs.
    pub line: u32,
}

/// A stack, and how often it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// Number of ticks of the clock.
    pub ticks: u32,
    /// Numbers of the frames, the outermost call first. Not empty.
    pub calls: Vec<u32>,
}

/// A piece of samples. All numbers of strings and frames are valid.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Samples {
    /// Number of ticks whose stacks were too large.
    pub lost: u32,
    /// Names of functions and paths of files. Any bytes.
    pub strings: Vec<Vec<u8>>,
    /// Places in scripts.
    pub frames: Vec<Frame>,
    /// The stacks.
    pub stacks: Vec<Stack>,
}

impl Samples {
    /// Appends the encoding.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.put_u32(self.lost);
        out.put_u32(self.strings.len() as u32);
        self.strings.iter().for_each(|text| out.put_bytes(text));
        out.put_u32(self.frames.len() as u32);
        for Frame { name, file, line } in &self.frames {
            [name, file, line].into_iter().for_each(|number| out.put_u32(*number));
        }
        out.put_u32(self.stacks.len() as u32);
        for Stack { ticks, calls } in &self.stacks {
            out.put_u32(*ticks);
            out.put_u32(calls.len() as u32);
            calls.iter().for_each(|frame| out.put_u32(*frame));
        }
    }

    /// Decodes a payload. Takes at most a few times its length of memory.
    pub fn decode(payload: &[u8]) -> Result<Self, Malformed> {
        let mut take = Decoder(payload);
        let lost = take.u32()?;
        let count = counted(&mut take, 4)?;
        let strings = (0..count).map(|_| {
            let text = take.bytes()?;
            if text.len() > MAX_FILE_BYTES { Err(Malformed) } else { Ok(text.to_vec()) }
        });
        let strings = strings.collect::<Result<Vec<_>, _>>()?;
        let is_string = |number: u32| (number as usize) < strings.len();
        let count = counted(&mut take, 12)?;
        let frames = (0..count).map(|_| {
            let frame = Frame { name: take.u32()?, file: take.u32()?, line: take.u32()? };
            let is_valid = is_string(frame.name) && is_string(frame.file);
            if is_valid { Ok(frame) } else { Err(Malformed) }
        });
        let frames = frames.collect::<Result<Vec<_>, _>>()?;
        let (count, mut calls_left) = (counted(&mut take, 8)?, MAX_CALLS);
        if count > MAX_STACKS {
            return Err(Malformed);
        }
        let stacks = (0..count).map(|_| {
            let ticks = take.u32()?;
            let depth = counted(&mut take, 4)?;
            if depth == 0 || depth > MAX_DEPTH {
                return Err(Malformed);
            }
            calls_left = calls_left.checked_sub(depth).ok_or(Malformed)?;
            let calls = (0..depth).map(|_| {
                let number = take.u32()?;
                if (number as usize) < frames.len() { Ok(number) } else { Err(Malformed) }
            });
            Ok(Stack { ticks, calls: calls.collect::<Result<_, _>>()? })
        });
        let stacks = stacks.collect::<Result<_, _>>()?;
        take.end()?;
        Ok(Samples { lost, strings, frames, stacks })
    }
}

/// Takes the number of items that follow, each of which has `least` bytes at least.
fn counted(take: &mut Decoder<'_>, least: usize) -> Result<usize, Malformed> {
    let count = take.u32()? as usize;
    if count <= take.0.len() / least { Ok(count) } else { Err(Malformed) }
}

/// A call of a script.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// Name of the function.
    pub name: &'a [u8],
    /// Path of its file; empty for a function of PHP.
    pub file: &'a [u8],
    /// The line that runs; 0 if unknown.
    pub line: u32,
}

/// Collects samples, each different string, frame and stack once.
#[derive(Debug, Default)]
pub struct Recorder {
    samples: Samples,
    strings: HashMap<Vec<u8>, u32>,
    frames: HashMap<Frame, u32>,
    stacks: HashMap<Vec<u32>, usize>,
    calls: usize,
    /// Length of the encoding in bytes.
    length: usize,
}

impl Recorder {
    /// Adds a sample of `ticks`: the calls, the innermost first. Of more than [`MAX_DEPTH`], the
    /// innermost ones are kept.
    pub fn add<'c>(&mut self, calls: impl Iterator<Item = Call<'c>>, ticks: u32) {
        let calls: Vec<_> = calls.take(MAX_DEPTH).map(|call| self.frame(call)).collect();
        let calls: Vec<_> = calls.into_iter().rev().collect();
        if let Some(stack) = self.stacks.get(&calls).and_then(|at| self.samples.stacks.get_mut(*at))
        {
            stack.ticks = stack.ticks.saturating_add(ticks);
        } else if calls.is_empty()
            || self.stacks.len() == MAX_STACKS
            || self.calls + calls.len() > MAX_CALLS
        {
            self.samples.lost = self.samples.lost.saturating_add(ticks);
        } else {
            self.length += 8 + 4 * calls.len();
            self.calls += calls.len();
            self.stacks.insert(calls.clone(), self.samples.stacks.len());
            self.samples.stacks.push(Stack { ticks, calls });
        }
    }

    fn frame(&mut self, call: Call<'_>) -> u32 {
        let name = call.name.get(..MAX_NAME_BYTES).unwrap_or(call.name);
        let start = call.file.len().saturating_sub(MAX_FILE_BYTES);
        let (name, file) = (self.string(name), self.string(&call.file[start..]));
        let frame = Frame { name, file, line: call.line };
        if let Some(number) = self.frames.get(&frame) {
            return *number;
        }
        let number = self.samples.frames.len() as u32;
        self.length += 12;
        self.samples.frames.push(frame);
        self.frames.insert(frame, number);
        number
    }

    fn string(&mut self, text: &[u8]) -> u32 {
        if let Some(number) = self.strings.get(text) {
            return *number;
        }
        let number = self.samples.strings.len() as u32;
        self.length += 4 + text.len();
        self.samples.strings.push(text.to_vec());
        self.strings.insert(text.to_vec(), number);
        number
    }

    /// Returns true if a piece should be sent before more samples are added: its stacks, or its
    /// length, are half of what a piece of `max` bytes can have.
    pub fn is_half_full(&self, max: usize) -> bool {
        self.length > max / 2 || self.stacks.len() > MAX_STACKS / 2 || self.calls > MAX_CALLS / 2
    }

    /// Returns the samples so far as one piece of at most `max` bytes, and forgets them; `None` if
    /// there are none. The ticks of a piece that would be larger are counted as lost.
    pub fn take(&mut self, max: usize) -> Option<Vec<u8>> {
        let Recorder { mut samples, length, .. } = std::mem::take(self);
        if length + HEAD_BYTES > max {
            let ticks = samples.stacks.iter().map(|stack| stack.ticks);
            let lost = ticks.fold(samples.lost, u32::saturating_add);
            samples = Samples { lost, ..Samples::default() };
        }
        if samples.stacks.is_empty() && samples.lost == 0 {
            return None;
        }
        let mut piece = Vec::with_capacity(length + HEAD_BYTES);
        samples.put(&mut piece);
        Some(piece)
    }
}

/// Length of a piece without strings, frames and stacks.
const HEAD_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str) -> Call<'_> {
        Call { name: name.as_bytes(), file: b"/a.php", line: 3 }
    }

    #[test]
    fn an_order_is_read_back_and_never_asks_for_more_than_a_sample_each_millisecond() {
        for is_processor_time in [false, true] {
            let order = Order { is_processor_time, period_us: 10_000, end_us: u64::MAX };
            assert_eq!(Order::decode(order.encode().as_bytes()), Ok(order));
        }
        for broken in ["", "w", "w 10000", "x 10000 1", "w 999 1", "w 1000001 1", "w 10000 1 1"] {
            assert_eq!(Order::decode(broken.as_bytes()), Err(Malformed), "{broken}");
        }
    }

    #[test]
    fn equal_stacks_are_counted_together_and_read_back() {
        let mut recorder = Recorder::default();
        recorder.add([call("inner"), call("main")].into_iter(), 2);
        recorder.add([call("main")].into_iter(), 1);
        recorder.add([call("inner"), call("main")].into_iter(), 3);
        let length = recorder.length;
        let piece = recorder.take(1000).unwrap();
        assert_eq!(piece.len(), length + HEAD_BYTES);
        let samples = Samples::decode(&piece).unwrap();
        let names: Vec<_> = samples
            .stacks
            .iter()
            .map(|stack| {
                let name = |frame: &u32| {
                    let frame = samples.frames[*frame as usize];
                    String::from_utf8(samples.strings[frame.name as usize].clone()).unwrap()
                };
                (stack.ticks, stack.calls.iter().map(name).collect::<Vec<_>>().join(";"))
            })
            .collect();
        assert_eq!(names, [(5, "main;inner".to_owned()), (1, "main".to_owned())]);
        assert_eq!(recorder.take(1000), None, "they are sent once");
        for cut in 0..piece.len() {
            assert_eq!(Samples::decode(&piece[..cut]), Err(Malformed), "{cut}");
        }
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let mut recorder = Recorder::default();
        let names: Vec<_> = (0..100_000).map(|number| format!("f{number}")).collect();
        for name in &names {
            recorder.add([call(name), call("main")].into_iter(), 1);
        }
        assert!(recorder.is_half_full(1 << 20));
        let samples = Samples::decode(&recorder.take(1 << 30).unwrap()).unwrap();
        assert_eq!((samples.stacks.len(), samples.lost), (MAX_STACKS, 100_000 - 1024));
        recorder.add(names.iter().map(|name| call(name)), 7);
        let samples = Samples::decode(&recorder.take(100).unwrap()).unwrap();
        assert_eq!((samples.stacks.len(), samples.lost), (0, 7));
        recorder.add(names.iter().map(|name| call(name)), 7);
        let samples = Samples::decode(&recorder.take(1 << 20).unwrap()).unwrap();
        assert_eq!(samples.stacks[0].calls.len(), MAX_DEPTH, "the innermost calls");
    }

    #[test]
    fn numbers_that_lead_nowhere_are_refused() {
        let valid = Samples {
            lost: 0,
            strings: vec![b"f".to_vec(), b"/a.php".to_vec()],
            frames: vec![Frame { name: 0, file: 1, line: 1 }],
            stacks: vec![Stack { ticks: 1, calls: vec![0] }],
        };
        let decoded = |samples: &Samples| {
            let mut bytes = Vec::new();
            samples.put(&mut bytes);
            Samples::decode(&bytes)
        };
        assert_eq!(decoded(&valid), Ok(valid.clone()));
        let mut broken = valid.clone();
        broken.frames[0].file = 2;
        assert_eq!(decoded(&broken), Err(Malformed));
        let mut broken = valid.clone();
        broken.stacks[0].calls[0] = 1;
        assert_eq!(decoded(&broken), Err(Malformed));
        for calls in [vec![], vec![0; MAX_DEPTH + 1]] {
            let broken = Samples { stacks: vec![Stack { ticks: 1, calls }], ..valid.clone() };
            assert_eq!(decoded(&broken), Err(Malformed));
        }
        let many = vec![Stack { ticks: 1, calls: vec![0; 200] }; 100];
        assert_eq!(decoded(&Samples { stacks: many, ..valid.clone() }), Err(Malformed));
        let mut huge = 0u32.to_le_bytes().to_vec();
        huge.extend(u32::MAX.to_le_bytes());
        assert_eq!(Samples::decode(&huge), Err(Malformed), "nothing is allocated for it");
    }
}
