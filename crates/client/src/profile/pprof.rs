//! The file format of pprof: the message `perftools.profiles.Profile` of `profile.proto`, as gzip.
//!
//! The few fields are written here: a library for Protocol Buffers would generate code for all
//! messages of the format.

use std::collections::HashMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use howdah_questions::Profile;

use super::tree::Tree;

/// Numbers of the fields of `Profile`.
const SAMPLE_TYPE: u64 = 1;
const SAMPLE: u64 = 2;
const LOCATION: u64 = 4;
const FUNCTION: u64 = 5;
const STRING_TABLE: u64 = 6;
const TIME_NANOS: u64 = 9;
const DURATION_NANOS: u64 = 10;
const PERIOD_TYPE: u64 = 11;
const PERIOD: u64 = 12;

/// A message of Protocol Buffers.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    fn bytes(&mut self, field: u64, value: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    fn packed(&mut self, field: u64, values: impl Iterator<Item = u64>) {
        let mut all = Message::default();
        values.for_each(|value| all.varint(value));
        self.bytes(field, &all.0);
    }

    fn of(numbers: &[(u64, u64)]) -> Self {
        let mut message = Message::default();
        numbers.iter().for_each(|(field, value)| message.number(*field, *value));
        message
    }
}

/// Texts, each once; the first one is empty.
#[derive(Debug)]
struct Strings<'a> {
    list: Vec<&'a str>,
    numbers: HashMap<&'a str, u64>,
}

impl<'a> Strings<'a> {
    fn number(&mut self, text: &'a str) -> u64 {
        let Strings { list, numbers } = self;
        *numbers.entry(text).or_insert_with(|| {
            list.push(text);
            list.len() as u64 - 1
        })
    }
}

pub(super) fn write(profile: &Profile, tree: &Tree<'_>) -> io::Result<Vec<u8>> {
    let mut strings = Strings { list: vec![""], numbers: HashMap::from([("", 0)]) };
    let clock = if profile.clock == "processor" { "cpu" } else { "wall" };
    let (samples, count) = (strings.number("samples"), strings.number("count"));
    let (time, nanoseconds) = (strings.number(clock), strings.number("nanoseconds"));
    let mut message = Message::default();
    message.bytes(SAMPLE_TYPE, &Message::of(&[(1, samples), (2, count)]).0);
    let of_time = Message::of(&[(1, time), (2, nanoseconds)]).0;
    message.bytes(SAMPLE_TYPE, &of_time);
    let period = u64::from(profile.period_us).saturating_mul(1000);
    let mut functions: HashMap<(&str, &str), u64> = HashMap::new();
    let mut locations: HashMap<(u64, u32), u64> = HashMap::new();
    let mut places = Vec::with_capacity(tree.0.len());
    for node in &tree.0 {
        let next = functions.len() as u64 + 1;
        let function = *functions.entry((node.name, node.file)).or_insert_with(|| {
            let (name, file) = (strings.number(node.name), strings.number(node.file));
            let function = Message::of(&[(1, next), (2, name), (3, name), (4, file)]);
            message.bytes(FUNCTION, &function.0);
            next
        });
        let next = locations.len() as u64 + 1;
        let location = *locations.entry((function, node.line)).or_insert_with(|| {
            let mut location = Message::of(&[(1, next)]);
            location.bytes(4, &Message::of(&[(1, function), (2, node.line.into())]).0);
            message.bytes(LOCATION, &location.0);
            next
        });
        places.push(location);
    }
    for (at, node) in tree.0.iter().enumerate().filter(|(_, node)| node.own > 0) {
        let mut sample = Message::default();
        sample.packed(1, tree.stack(at).filter_map(|at| places.get(at).copied()));
        sample.packed(2, [node.own, node.own.saturating_mul(period)].into_iter());
        message.bytes(SAMPLE, &sample.0);
    }
    strings.list.iter().for_each(|text| message.bytes(STRING_TABLE, text.as_bytes()));
    message.number(TIME_NANOS, profile.began.saturating_mul(1_000_000_000));
    message.number(DURATION_NANOS, profile.milliseconds.saturating_mul(1_000_000));
    message.bytes(PERIOD_TYPE, &of_time);
    message.number(PERIOD, period);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&message.0)?;
    gzip.finish()
}
