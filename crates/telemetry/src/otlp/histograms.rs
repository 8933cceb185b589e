//! Histograms of Prometheus as those of OpenTelemetry.

use howdah_wire::prometheus::{BucketSpan, Histogram};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;

/// Schemas of native histograms with exponential buckets.
const SCHEMAS: std::ops::RangeInclusive<i32> = -4..=8;

/// Maximum number of exponential buckets, empty ones included. The times of this server need fewer.
const MAX_BUCKETS: usize = 1024;

/// Classic buckets.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Explicit {
    pub(super) bounds: Vec<f64>,
    /// Numbers of observations of each bucket alone; one more than limits.
    pub(super) counts: Vec<u64>,
}

/// Native buckets.
#[derive(Debug, PartialEq)]
pub(super) struct Exponential {
    pub(super) scale: i32,
    pub(super) positive: Buckets,
    pub(super) negative: Buckets,
}

impl Explicit {
    /// Returns the classic buckets of a histogram. Without any, one bucket has all observations.
    pub(super) fn of(histogram: &Histogram) -> Explicit {
        let mut explicit = Explicit::default();
        let mut before = 0;
        for bucket in histogram.buckets.iter().filter(|bucket| bucket.upper_bound.is_finite()) {
            if explicit.bounds.last().is_some_and(|last| *last >= bucket.upper_bound) {
                continue; // no router writes it, and no server takes it
            }
            explicit.bounds.push(bucket.upper_bound);
            explicit.counts.push(bucket.cumulative_count.saturating_sub(before));
            before = bucket.cumulative_count;
        }
        explicit.counts.push(histogram.sample_count.saturating_sub(before));
        explicit
    }
}

impl Exponential {
    /// Returns the native buckets of a histogram; `None` if it has none, or more than is sensible.
    pub(super) fn of(histogram: &Histogram) -> Option<Exponential> {
        let spans = [&histogram.positive_spans, &histogram.negative_spans];
        let has_native = histogram.zero_threshold > 0.0 || spans.iter().any(|one| !one.is_empty());
        if !has_native || !SCHEMAS.contains(&histogram.schema) {
            return None;
        }
        Some(Exponential {
            scale: histogram.schema,
            positive: buckets(&histogram.positive_spans, &histogram.positive_deltas)?,
            negative: buckets(&histogram.negative_spans, &histogram.negative_deltas)?,
        })
    }
}

/// Returns the buckets of spans as one row. Prometheus counts buckets by their upper limits,
/// OpenTelemetry by the lower ones, so the indexes differ by one.
fn buckets(spans: &[BucketSpan], deltas: &[i64]) -> Option<Buckets> {
    let mut deltas = deltas.iter();
    let (mut offset, mut counts, mut count) = (None, Vec::new(), 0_i64);
    for span in spans {
        let gap = match offset {
            None => {
                offset = Some(span.offset.checked_sub(1)?);
                0
            }
            Some(_) => usize::try_from(span.offset).ok()?,
        };
        let length = usize::try_from(span.length).ok()?;
        if gap > MAX_BUCKETS || length > MAX_BUCKETS || counts.len() + gap + length > MAX_BUCKETS {
            return None;
        }
        counts.resize(counts.len() + gap, 0);
        for _ in 0..length {
            count = count.checked_add(*deltas.next()?)?;
            counts.push(u64::try_from(count).ok()?);
        }
    }
    Some(Buckets { offset: offset.unwrap_or_default(), bucket_counts: counts })
}

#[cfg(test)]
mod tests {
    use howdah_wire::prometheus::Bucket;
    use proptest::prelude::*;

    use super::*;

    fn classic(pairs: &[(u64, f64)], sample_count: u64) -> Histogram {
        let bucket = |(cumulative_count, upper_bound): &(u64, f64)| Bucket {
            cumulative_count: *cumulative_count,
            upper_bound: *upper_bound,
        };
        let buckets = pairs.iter().map(bucket).collect();
        Histogram { sample_count, buckets, ..Histogram::default() }
    }

    fn native(spans: &[(i32, u32)], deltas: &[i64]) -> Histogram {
        let span = |(offset, length): &(i32, u32)| BucketSpan { offset: *offset, length: *length };
        Histogram {
            schema: 3,
            positive_spans: spans.iter().map(span).collect(),
            positive_deltas: deltas.to_vec(),
            ..Histogram::default()
        }
    }

    #[test]
    fn cumulative_counts_become_those_of_each_bucket() {
        let limits = [(1, 0.5), (1, 1.0), (4, 2.5)];
        let expected = Explicit { bounds: vec![0.5, 1.0, 2.5], counts: vec![1, 0, 3, 2] };
        assert_eq!(Explicit::of(&classic(&limits, 6)), expected);
        let with_infinity = [&limits[..], &[(6, f64::INFINITY)]].concat();
        assert_eq!(Explicit::of(&classic(&with_infinity, 6)), expected);
        let none = Explicit { bounds: Vec::new(), counts: vec![7] };
        assert_eq!(Explicit::of(&classic(&[], 7)), none);
    }

    #[test]
    fn spans_become_one_row_of_buckets_with_indexes_of_lower_limits() {
        let found = Exponential::of(&native(&[(-2, 2), (1, 1), (0, 1)], &[3, -1, 4, -6])).unwrap();
        let positive = Buckets { offset: -3, bucket_counts: vec![3, 2, 0, 6, 0] };
        let negative = Buckets::default();
        assert_eq!(found, Exponential { scale: 3, positive, negative });
        // Prometheus: bucket 0 of schema 0 is (0.5, 1]; OpenTelemetry: index -1 of scale 0.
        let one = Histogram { schema: 0, ..native(&[(0, 1)], &[1]) };
        assert_eq!(Exponential::of(&one).unwrap().positive.offset, -1);
        let empty = Exponential::of(&native(&[(0, 0)], &[])).unwrap();
        assert!(empty.positive.bucket_counts.is_empty());
        assert_eq!(Exponential::of(&classic(&[(1, 1.0)], 1)), None);
    }

    #[test]
    fn native_buckets_that_no_router_writes_are_not_used() {
        for (spans, deltas) in [
            (&[(0, 2)][..], &[1][..]),
            (&[(0, 1)], &[-1]),
            (&[(i32::MIN, 1)], &[1]),
            (&[(0, 1), (-1, 1)], &[1, 0]),
            (&[(0, u32::MAX)], &[1]),
            (&[(0, 1), (i32::MAX, 1)], &[1, 0]),
            (&[(0, 2)], &[i64::MAX, 1]),
        ] {
            assert_eq!(Exponential::of(&native(spans, deltas)), None, "{spans:?}");
        }
        let schema = Histogram { schema: 9, ..native(&[(0, 1)], &[1]) };
        assert_eq!(Exponential::of(&schema), None);
    }

    proptest! {
        #[test]
        fn no_histogram_makes_the_conversion_fail(
            spans in prop::collection::vec((any::<i32>(), 0u32..2000), 0..5),
            deltas in prop::collection::vec(any::<i64>(), 0..20),
            limits in prop::collection::vec((any::<u64>(), any::<f64>()), 0..20),
            count: u64,
        ) {
            let _ = Exponential::of(&native(&spans, &deltas));
            let explicit = Explicit::of(&classic(&limits, count));
            prop_assert_eq!(explicit.counts.len(), explicit.bounds.len() + 1);
            prop_assert!(explicit.bounds.is_sorted());
        }

        #[test]
        fn no_observation_gets_lost_between_the_forms(
            offset in -100i32..100,
            counts in prop::collection::vec(0i64..50, 1..50),
        ) {
            let deltas: Vec<i64> =
                [0].iter().chain(&counts).zip(&counts).map(|(before, count)| count - before).collect();
            let histogram = native(&[(offset, counts.len() as u32)], &deltas);
            let found = Exponential::of(&histogram).unwrap().positive;
            prop_assert_eq!(found.offset, offset - 1);
            let found: Vec<i64> = found.bucket_counts.iter().map(|count| *count as i64).collect();
            prop_assert_eq!(found, counts);
        }
    }
}
