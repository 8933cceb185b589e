//! The protobuf format.

use howdah_wire::prometheus::{
    Bucket, Counter, Gauge, Histogram as HistogramMessage, LabelPair, Metric, MetricFamily,
    MetricType,
};
use prost::{Message, encode_length_delimiter};

use super::{Family, Kind, Labels, Value, seconds};
use crate::histogram::{Histogram, LIMITS, SCHEMA, ZERO_THRESHOLD};

/// Writes metrics as messages.
///
/// A message may be written in parts, one behind the other. So each metric becomes bytes at once:
/// those of a family of a thousand sites need not be in memory together.
#[derive(Default)]
pub(crate) struct ProtobufWriter {
    out: Vec<u8>,
    family: Option<Family>,
    /// The metrics of the family, as bytes of its message.
    metrics: Vec<u8>,
}

impl ProtobufWriter {
    /// Ends the family before this one, which leaves nothing without metrics.
    pub(super) fn begin(&mut self, family: Family) {
        self.end_family();
        self.family = Some(family);
    }

    /// Adds a counter, or a gauge for all other kinds: the format has none for [`Kind::Info`].
    pub(super) fn sample(&mut self, labels: Labels<'_>, value: Value) {
        let is_counter = self.family.is_some_and(|family| family.kind == Kind::Counter);
        let value = value.into();
        let metric = labelled(labels);
        self.metric(if is_counter {
            Metric { counter: Some(Counter { value }), ..metric }
        } else {
            Metric { gauge: Some(Gauge { value }), ..metric }
        });
    }

    /// Writes a histogram with native buckets, and with classic ones: some scrapers ask for this
    /// format and read no native ones.
    pub(super) fn histogram(&mut self, labels: Labels<'_>, histogram: &Histogram) {
        let limits = LIMITS.into_iter().map(seconds).chain([f64::INFINITY]);
        let buckets = limits.zip(histogram.cumulative());
        let buckets = buckets
            .map(|(upper_bound, cumulative_count)| Bucket { cumulative_count, upper_bound })
            .collect();
        let (positive_spans, positive_deltas) = histogram.native().spans();
        let histogram = HistogramMessage {
            sample_count: histogram.count(),
            sample_sum: seconds(histogram.sum()),
            buckets,
            schema: SCHEMA,
            zero_threshold: ZERO_THRESHOLD,
            zero_count: histogram.native().zeros(),
            positive_spans,
            positive_deltas,
            ..HistogramMessage::default()
        };
        self.metric(Metric { histogram: Some(histogram), ..labelled(labels) });
    }

    fn metric(&mut self, metric: Metric) {
        let part = MetricFamily { metrics: vec![metric], ..MetricFamily::default() };
        append(&part, &mut self.metrics);
    }

    fn end_family(&mut self) {
        let Some(family) = self.family.filter(|_| !self.metrics.is_empty()) else { return };
        let Family { name, kind, help } = family;
        let (suffix, kind) = match kind {
            Kind::Counter => ("_total", MetricType::Counter),
            Kind::Info => ("_info", MetricType::Gauge),
            Kind::Gauge => ("", MetricType::Gauge),
            Kind::Histogram => ("", MetricType::Histogram),
        };
        let head = MetricFamily {
            name: format!("{name}{suffix}"),
            help: format!("{help}."),
            kind: kind.into(),
            unit: family.unit().unwrap_or_default().to_owned(),
            ..MetricFamily::default()
        };
        let length = head.encoded_len() + self.metrics.len();
        let _ = encode_length_delimiter(length, &mut self.out);
        append(&head, &mut self.out);
        self.out.append(&mut self.metrics);
    }

    /// Returns the messages, each after its length.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.end_family();
        self.out
    }
}

/// Appends the bytes of a message. That fails only without room, which a vector makes.
fn append(message: &impl Message, bytes: &mut Vec<u8>) {
    let _ = message.encode(bytes);
}

/// Returns a metric with these labels and no value.
fn labelled(labels: Labels<'_>) -> Metric {
    let labels = labels
        .iter()
        .map(|(name, value)| LabelPair { name: (*name).to_owned(), value: (*value).to_owned() })
        .collect();
    Metric { labels, ..Metric::default() }
}
