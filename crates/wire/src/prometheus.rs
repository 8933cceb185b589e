//! Metrics in the protobuf format of Prometheus, from the router to scrapers and to the telemetry
//! process: each [`MetricFamily`] after its length.
//!
//! The messages are those of
//! [`io.prometheus.client`](https://github.com/prometheus/client_model/blob/master/io/prometheus/client/metrics.proto),
//! with the parts that metrics of this server have. Decoders skip all others, such as exemplars.
//! A missing number is 0, and a missing text is empty.

mod families;

pub use families::{Families, Family, MAX_METRIC_BYTES};

/// Media type of families that follow each other, each after its length.
pub const MEDIA_TYPE: &str = "application/vnd.google.protobuf; \
     proto=io.prometheus.client.MetricFamily; encoding=delimited";

/// Metrics with the same name.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MetricFamily {
    /// The name, of counters with the suffix `_total`.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Description for people, a sentence.
    #[prost(string, tag = "2")]
    pub help: String,
    /// Which message of each [`Metric`] is set.
    #[prost(enumeration = "MetricType", tag = "3")]
    pub kind: i32,
    /// The metrics, each with other labels.
    #[prost(message, repeated, tag = "4")]
    pub metrics: Vec<Metric>,
    /// Unit, with which the name ends; empty if there is none.
    #[prost(string, tag = "5")]
    pub unit: String,
}

/// Kind of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum MetricType {
    /// A number that only grows.
    Counter = 0,
    /// A number that grows and shrinks.
    Gauge = 1,
    /// Quantiles. This server has none.
    Summary = 2,
    /// A number of an unknown kind. This server has none.
    Untyped = 3,
    /// Numbers of observations by their size.
    Histogram = 4,
    /// A histogram whose counts shrink too. This server has none.
    GaugeHistogram = 5,
}

/// A value with its labels.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Metric {
    /// The labels, each name once.
    #[prost(message, repeated, tag = "1")]
    pub labels: Vec<LabelPair>,
    /// Value of a [`MetricType::Gauge`].
    #[prost(message, optional, tag = "2")]
    pub gauge: Option<Gauge>,
    /// Value of a [`MetricType::Counter`].
    #[prost(message, optional, tag = "3")]
    pub counter: Option<Counter>,
    /// Value of a [`MetricType::Histogram`].
    #[prost(message, optional, tag = "7")]
    pub histogram: Option<Histogram>,
}

/// A label.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LabelPair {
    /// The name: ASCII letters, digits and `_`.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The value: any text, such as the name of a site.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// A number that grows and shrinks.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Gauge {
    /// The number at the time of the message, in the unit of the family.
    #[prost(double, tag = "1")]
    pub value: f64,
}

/// A number that only grows until the server starts anew.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Counter {
    /// The sum since the start, in the unit of the family.
    #[prost(double, tag = "1")]
    pub value: f64,
}

/// Numbers of observations by their size: in classic buckets, in native ones, or in both.
///
/// A native bucket with index `i` has the observations above `2^((i - 1) / 2^schema)`, up to and
/// including `2^(i / 2^schema)`. A histogram has native buckets if the threshold is above 0, or if
/// it has a span.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Histogram {
    /// Number of observations.
    #[prost(uint64, tag = "1")]
    pub sample_count: u64,
    /// Sum of the observations.
    #[prost(double, tag = "2")]
    pub sample_sum: f64,
    /// Classic buckets in the order of their limits.
    #[prost(message, repeated, tag = "3")]
    pub buckets: Vec<Bucket>,
    /// Number of native buckets for each doubling of an observation, as a power of two: -4 to 8.
    #[prost(sint32, tag = "5")]
    pub schema: i32,
    /// Maximum of the observations that count as 0 among the native buckets.
    #[prost(double, tag = "6")]
    pub zero_threshold: f64,
    /// Number of these observations.
    #[prost(uint64, tag = "7")]
    pub zero_count: u64,
    /// Indexes of the native buckets of observations below 0.
    #[prost(message, repeated, tag = "9")]
    pub negative_spans: Vec<BucketSpan>,
    /// Number of observations in each bucket of these spans, less that in the bucket before.
    #[prost(sint64, repeated, tag = "10")]
    pub negative_deltas: Vec<i64>,
    /// Indexes of the native buckets of observations above 0. One of length 0 says that there are
    /// native buckets, but no observations.
    #[prost(message, repeated, tag = "12")]
    pub positive_spans: Vec<BucketSpan>,
    /// Number of observations in each bucket of these spans, less that in the bucket before.
    #[prost(sint64, repeated, tag = "13")]
    pub positive_deltas: Vec<i64>,
}

/// A classic bucket.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Bucket {
    /// Number of observations up to the limit, those of lower buckets included.
    #[prost(uint64, tag = "1")]
    pub cumulative_count: u64,
    /// The limit, which belongs to the bucket.
    #[prost(double, tag = "2")]
    pub upper_bound: f64,
}

/// Native buckets whose indexes follow each other.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct BucketSpan {
    /// Index of the first bucket in the first span; in others the number of empty buckets since the
    /// end of the span before.
    #[prost(sint32, tag = "1")]
    pub offset: i32,
    /// Number of buckets.
    #[prost(uint32, tag = "2")]
    pub length: u32,
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    /// The bytes are written by hand, from the numbers and types of the official file.
    #[test]
    fn messages_have_the_numbers_of_the_official_ones() {
        let family = MetricFamily {
            name: "a_seconds".into(),
            help: "h".into(),
            kind: MetricType::Histogram.into(),
            metrics: vec![Metric {
                labels: vec![LabelPair { name: "n".into(), value: "v".into() }],
                histogram: Some(Histogram {
                    sample_count: 3,
                    sample_sum: 1.0,
                    buckets: vec![Bucket { cumulative_count: 2, upper_bound: 0.5 }],
                    schema: 3,
                    zero_threshold: 0.25,
                    zero_count: 1,
                    positive_spans: vec![BucketSpan { offset: -2, length: 2 }],
                    positive_deltas: vec![2, -1],
                    ..Histogram::default()
                }),
                ..Metric::default()
            }],
            unit: "seconds".into(),
        };
        let mut histogram = vec![0x08, 3, 0x11];
        histogram.extend(1.0_f64.to_le_bytes());
        histogram.extend([0x1a, 11, 0x08, 2, 0x11]);
        histogram.extend(0.5_f64.to_le_bytes());
        histogram.extend([0x28, 6, 0x31]);
        histogram.extend(0.25_f64.to_le_bytes());
        histogram.extend([0x38, 1, 0x62, 4, 0x08, 3, 0x10, 2, 0x6a, 2, 4, 1]);
        let mut metric = b"\x0a\x06\x0a\x01n\x12\x01v\x3a".to_vec();
        metric.push(histogram.len() as u8);
        metric.extend(histogram);
        let mut expected = b"\x0a\x09a_seconds\x12\x01h\x18\x04\x22".to_vec();
        expected.push(metric.len() as u8);
        expected.extend(metric);
        expected.extend(b"\x2a\x07seconds");
        assert_eq!(family.encode_to_vec(), expected);
        let delimited = family.encode_length_delimited_to_vec();
        assert_eq!(MetricFamily::decode_length_delimited(&delimited[..]), Ok(family));
    }

    #[test]
    fn counters_and_gauges_have_the_numbers_of_the_official_ones() {
        let metric = Metric {
            gauge: Some(Gauge { value: 1.0 }),
            counter: Some(Counter { value: 2.0 }),
            ..Metric::default()
        };
        let mut expected = vec![0x12, 9, 0x09];
        expected.extend(1.0_f64.to_le_bytes());
        expected.extend([0x1a, 9, 0x09]);
        expected.extend(2.0_f64.to_le_bytes());
        assert_eq!(metric.encode_to_vec(), expected);
    }
}
