//! Metrics as scrapers read them: OpenMetrics 1.0, the text format 0.0.4 of Prometheus, and its
//! protobuf format, the only one with native histograms.

mod format;
mod protobuf;
mod text;

use std::fmt::{self, Display};

pub use self::format::Format;
use self::protobuf::ProtobufWriter;
use self::text::TextWriter;
use crate::histogram::Histogram;

/// Kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
    /// Texts as labels of a sample that is always 1.
    Info,
}

/// A metric: its name without the suffixes of samples, its kind and its description.
#[derive(Debug, Clone, Copy)]
struct Family {
    name: &'static str,
    kind: Kind,
    help: &'static str,
}

impl Family {
    /// Returns the unit, with which the name ends.
    fn unit(self) -> Option<&'static str> {
        let mut units = ["seconds", "bytes"].into_iter();
        units.find(|unit| self.name.strip_suffix(unit).is_some_and(|rest| rest.ends_with('_')))
    }
}

/// Labels with their values.
pub(crate) type Labels<'a> = &'a [(&'a str, &'a str)];

/// Value of a sample.
#[derive(Debug, Clone, Copy)]
enum Value {
    Whole(u64),
    Float(f64),
}

impl From<Value> for f64 {
    fn from(value: Value) -> f64 {
        match value {
            Value::Whole(value) => value as f64,
            Value::Float(value) => value,
        }
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Whole(value) => value.fmt(f),
            Value::Float(value) => value.fmt(f),
        }
    }
}

/// Writes metrics. The samples of a family follow each other.
pub(crate) enum Writer {
    Text(TextWriter),
    Protobuf(ProtobufWriter),
}

impl Writer {
    /// Starts an answer.
    pub(crate) fn new(format: Format) -> Self {
        match format {
            Format::OpenMetrics => Writer::Text(TextWriter::new(true)),
            Format::Prometheus => Writer::Text(TextWriter::new(false)),
            Format::Protobuf => Writer::Protobuf(ProtobufWriter::default()),
        }
    }

    /// Begins a family. One without samples leaves nothing.
    pub(crate) fn begin(&mut self, kind: Kind, name: &'static str, help: &'static str) {
        let family = Family { name, kind, help };
        match self {
            Writer::Text(writer) => writer.begin(family),
            Writer::Protobuf(writer) => writer.begin(family),
        }
    }

    /// Writes a sample with a whole number.
    pub(crate) fn number(&mut self, labels: Labels<'_>, value: u64) {
        self.sample(labels, Value::Whole(value));
    }

    /// Writes a sample with microseconds, in seconds.
    pub(crate) fn micros(&mut self, labels: Labels<'_>, value: u64) {
        self.sample(labels, Value::Float(seconds(value)));
    }

    fn sample(&mut self, labels: Labels<'_>, value: Value) {
        match self {
            Writer::Text(writer) => writer.sample(labels, value),
            Writer::Protobuf(writer) => writer.sample(labels, value),
        }
    }

    /// Writes a histogram.
    pub(crate) fn histogram(&mut self, labels: Labels<'_>, histogram: &Histogram) {
        match self {
            Writer::Text(writer) => writer.histogram(labels, histogram),
            Writer::Protobuf(writer) => writer.histogram(labels, histogram),
        }
    }

    /// Returns the complete answer.
    pub(crate) fn finish(self) -> Vec<u8> {
        match self {
            Writer::Text(writer) => writer.finish().into_bytes(),
            Writer::Protobuf(writer) => writer.finish(),
        }
    }
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

#[cfg(test)]
mod tests;
