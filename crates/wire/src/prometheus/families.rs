//! Families, read one metric at a time: however many there are, and whatever a router sends, only
//! one is decoded in memory. Malformed ones are left out.

use prost::Message;

use super::{Metric, MetricType};

/// Maximum length of a name, a description or a unit in bytes.
const MAX_TEXT_BYTES: usize = 1024;

/// Maximum length of a metric in bytes, with its labels and buckets. Longer ones are left out.
pub const MAX_METRIC_BYTES: usize = 64 << 10;

/// Beginning of the names of all metrics.
const PREFIX: &str = "howdah_";

/// Numbers of the fields of `MetricFamily`.
const NAME: u64 = 1;
const HELP: u64 = 2;
const KIND: u64 = 3;
const METRIC: u64 = 4;
const UNIT: u64 = 5;

/// Families, each after its length. They end with the first of which the length is malformed.
#[derive(Debug, Clone, Copy)]
pub struct Families<'a>(pub &'a [u8]);

/// A [`MetricFamily`](super::MetricFamily) whose metrics are read when they are needed.
#[derive(Debug, Clone, PartialEq)]
pub struct Family<'a> {
    /// The name; it begins with `howdah_`.
    pub name: &'a str,
    /// Description for people, a sentence.
    pub help: &'a str,
    /// Unit; empty if there is none.
    pub unit: &'a str,
    /// Which message of each metric is set.
    pub kind: MetricType,
    /// The fields of the family that are not read yet.
    rest: Fields<'a>,
}

impl<'a> Iterator for Families<'a> {
    type Item = Family<'a>;

    fn next(&mut self) -> Option<Family<'a>> {
        loop {
            if self.0.is_empty() {
                return None;
            }
            let family = number(&mut self.0).and_then(|length| take(&mut self.0, length));
            let Some(family) = family else {
                self.0 = &[]; // where the next one begins is not known
                return None;
            };
            if let Some(family) = Family::read(family) {
                return Some(family);
            }
        }
    }
}

impl<'a> Family<'a> {
    fn read(bytes: &'a [u8]) -> Option<Family<'a>> {
        let (mut name, mut help, mut unit) = ("", "", "");
        let mut kind = 0;
        for (field, value) in Fields(bytes) {
            match (field, value) {
                (NAME, Value::Bytes(bytes)) => name = text(bytes)?,
                (HELP, Value::Bytes(bytes)) => help = text(bytes)?,
                (UNIT, Value::Bytes(bytes)) => unit = text(bytes)?,
                (KIND, Value::Number(number)) => kind = number,
                _ => {}
            }
        }
        let kind = MetricType::try_from(i32::try_from(kind).ok()?).ok()?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let is_ours = name.starts_with(PREFIX) && name.bytes().all(is_plain);
        is_ours.then_some(Family { name, help, unit, kind, rest: Fields(bytes) })
    }

    /// Takes the next metric.
    pub fn next_metric(&mut self) -> Option<Metric> {
        self.rest.find_map(|(field, value)| match value {
            Value::Bytes(bytes) if field == METRIC && bytes.len() <= MAX_METRIC_BYTES => {
                Metric::decode(bytes).ok()
            }
            _ => None,
        })
    }
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| text.len() <= MAX_TEXT_BYTES)
}

/// The fields of a message, with their numbers, up to the first that is malformed.
#[derive(Debug, Clone, PartialEq)]
struct Fields<'a>(&'a [u8]);

/// The value of a field.
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// A number of a fixed length.
    Fixed,
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, Value<'a>);

    fn next(&mut self) -> Option<(u64, Value<'a>)> {
        let field = self.read();
        if field.is_none() {
            self.0 = &[];
        }
        field
    }
}

impl<'a> Fields<'a> {
    fn read(&mut self) -> Option<(u64, Value<'a>)> {
        let key = number(&mut self.0)?;
        let value = match key & 7 {
            0 => Value::Number(number(&mut self.0)?),
            1 => take(&mut self.0, 8).map(|_| Value::Fixed)?,
            2 => {
                let length = number(&mut self.0)?;
                Value::Bytes(take(&mut self.0, length)?)
            }
            5 => take(&mut self.0, 4).map(|_| Value::Fixed)?,
            _ => return None,
        };
        Some((key >> 3, value))
    }
}

/// Takes a number of variable length: seven bits a byte, the lowest first.
fn number(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn take<'a>(from: &mut &'a [u8], length: u64) -> Option<&'a [u8]> {
    let (taken, rest) = from.split_at_checked(usize::try_from(length).ok()?)?;
    *from = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Gauge, LabelPair, MetricFamily};
    use super::*;

    fn family(name: &str) -> MetricFamily {
        let metric = |value: f64| Metric {
            labels: vec![LabelPair { name: "site".into(), value: value.to_string() }],
            gauge: Some(Gauge { value }),
            ..Metric::default()
        };
        MetricFamily {
            name: name.into(),
            help: "About it".into(),
            kind: MetricType::Gauge.into(),
            metrics: vec![metric(1.0), metric(2.0)],
            unit: "seconds".into(),
        }
    }

    fn delimited(families: &[MetricFamily]) -> Vec<u8> {
        families.iter().flat_map(MetricFamily::encode_length_delimited_to_vec).collect()
    }

    /// Reads families whole.
    fn read(bytes: &[u8]) -> Vec<MetricFamily> {
        let whole = |mut family: Family<'_>| MetricFamily {
            name: family.name.into(),
            help: family.help.into(),
            kind: family.kind.into(),
            unit: family.unit.into(),
            metrics: std::iter::from_fn(|| family.next_metric()).collect(),
        };
        Families(bytes).map(whole).collect()
    }

    #[test]
    fn families_are_read_as_they_were_written() {
        let families = [family("howdah_a_seconds"), family("howdah_b_seconds")];
        let bytes = delimited(&families);
        assert_eq!(read(&bytes), families);
        for length in 0..bytes.len() {
            let read = read(&bytes[..length]);
            assert!(read.len() < 2 && families.starts_with(&read), "{length}");
        }
    }

    #[test]
    fn what_no_router_writes_is_left_out() {
        let good = family("howdah_good");
        let long = |change: fn(&mut MetricFamily)| {
            let mut family = family("howdah_long");
            change(&mut family);
            family
        };
        let mut one_metric_too_long = good.clone();
        one_metric_too_long.metrics[0].labels[0].value = "x".repeat(MAX_METRIC_BYTES);
        let all = [
            family("other"),
            family("howdah_\u{e9}"),
            long(|family| family.help = "x".repeat(MAX_TEXT_BYTES + 1)),
            long(|family| family.kind = 99),
            long(|family| family.kind = -1),
            one_metric_too_long,
            good.clone(),
        ];
        let found = read(&delimited(&all));
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].metrics, good.metrics[1..]);
        assert_eq!(found[1], good);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_fail(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            at in 0usize..200,
            value: u8,
        ) {
            read(&bytes);
            let mut changed = delimited(&[family("howdah_a"), family("howdah_b")]);
            let at = at % changed.len();
            changed[at] = value;
            read(&changed);
        }
    }
}
