//! Buckets of native histograms of Prometheus: exponential, and only those that have a time.

use std::f64::consts::SQRT_2;

use howdah_wire::prometheus::BucketSpan;

/// Number of buckets for each doubling of a time, as a power of two. With 8 buckets, a quantile is
/// off by at most 9%.
pub(crate) const SCHEMA: i32 = 3;

/// Number of buckets for each doubling of a time.
const BUCKETS: i16 = 1 << SCHEMA;

/// Maximum of the times that count as 0, in seconds. It is that of Prometheus' own clients, 2^-128:
/// sums of histograms with the same threshold are exact.
pub(crate) const ZERO_THRESHOLD: f64 = 2.938735877055719e-39;

/// The limits of buckets from 1 to 2: 2^(n/8).
const LIMITS: [f64; BUCKETS as usize] = [
    1.0,
    1.0905077326652577,
    1.189207115002721,
    1.2968395546510096,
    SQRT_2,
    1.5422108254079407,
    1.681792830507429,
    1.8340080864093424,
];

/// Maximum number of empty buckets between two others that are written, with a count of 0: they are
/// shorter than the beginning of another span.
const MAX_GAP: i16 = 2;

/// Width of the fraction of a float in bits.
const FRACTION_WIDTH: u32 = f64::MANTISSA_DIGITS - 1;

/// Bits of the fraction of a float.
const FRACTION_BITS: u64 = (1 << FRACTION_WIDTH) - 1;

/// Number of buckets for which there is room after the memory was full. A site has many histograms,
/// and they seldom get another bucket.
const GROWTH: usize = 8;

/// Numbers of times by their length. Times are whole microseconds of 64 bits, so there are at most
/// 513 buckets of 10 bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NativeBuckets {
    /// Number of times of 0.
    zeros: u64,
    /// The buckets that have a time, in the order of their indexes.
    buckets: Vec<Bucket>,
}

/// A bucket that has a time. It is packed, as hundreds of sites have hundreds of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(Rust, packed(2))]
struct Bucket {
    /// Bucket `i` has the times above 2^((i-1)/8) seconds, up to and including 2^(i/8).
    index: i16,
    /// Number of these times.
    count: u64,
}

impl NativeBuckets {
    /// Counts a time in microseconds.
    pub(crate) fn add(&mut self, time: u64) {
        match time {
            0 => self.zeros += 1,
            time => self.count(Bucket { index: index(time), count: 1 }),
        }
    }

    /// Adds the times of other buckets.
    pub(crate) fn merge(&mut self, other: &NativeBuckets) {
        self.zeros += other.zeros;
        other.buckets.iter().for_each(|bucket| self.count(*bucket));
    }

    /// Adds the times of a bucket.
    fn count(&mut self, more: Bucket) {
        let buckets = &mut self.buckets;
        match buckets.binary_search_by_key(&{ more.index }, |bucket| bucket.index) {
            Ok(place) => {
                if let Some(bucket) = buckets.get_mut(place) {
                    bucket.count += more.count;
                }
            }
            Err(place) => {
                if buckets.len() == buckets.capacity() {
                    buckets.reserve_exact(GROWTH);
                }
                buckets.insert(place, more);
            }
        }
    }

    /// Returns the number of times of 0.
    pub(crate) fn zeros(&self) -> u64 {
        self.zeros
    }

    /// Returns the buckets as the protobuf format has them: the spans of indexes, and the number of
    /// times in each bucket of these spans, less that in the bucket before.
    pub(crate) fn spans(&self) -> (Vec<BucketSpan>, Vec<i64>) {
        let (mut spans, mut deltas) = (Vec::<BucketSpan>::new(), Vec::new());
        let (mut next, mut last) = (0, 0);
        let mut push = |count: i64| {
            deltas.push(count - last);
            last = count;
        };
        for &Bucket { index, count } in &self.buckets {
            let gap = index - next;
            match spans.last_mut() {
                Some(span) if gap <= MAX_GAP => {
                    (0..gap).for_each(|_| push(0));
                    span.length += u32::from(gap.unsigned_abs()) + 1;
                }
                _ => spans.push(BucketSpan { offset: gap.into(), length: 1 }),
            }
            push(i64::try_from(count).unwrap_or(i64::MAX));
            next = index + 1;
        }
        (spans, deltas)
    }
}

/// Returns the index of the bucket of a time in microseconds, above 0.
///
/// The logarithm is the exponent of the seconds as a float, and a comparison of their fraction with
/// the limits: in the way of Prometheus' own clients, which gives the same index.
fn index(time: u64) -> i16 {
    let bits = (time as f64 / 1e6).to_bits();
    // Neither the sign nor a special exponent is in use.
    let exponent = (bits >> FRACTION_WIDTH) as i16 - (f64::MAX_EXP - 1) as i16;
    let fraction = f64::from_bits(1.0_f64.to_bits() | (bits & FRACTION_BITS));
    let lower = LIMITS.iter().filter(|limit| fraction > **limit).count();
    exponent * BUCKETS + lower as i16
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Returns the upper limit of a bucket in seconds.
    fn limit(index: i32) -> f64 {
        (f64::from(index) / f64::from(BUCKETS)).exp2()
    }

    fn buckets(times: &[u64]) -> NativeBuckets {
        let mut buckets = NativeBuckets::default();
        times.iter().for_each(|time| buckets.add(*time));
        buckets
    }

    /// Returns the counts by index that a reader of the protobuf format gets.
    fn read(buckets: &NativeBuckets) -> BTreeMap<i32, i64> {
        let (spans, deltas) = buckets.spans();
        let (mut index, mut count, mut all) = (0, 0, BTreeMap::new());
        let mut deltas = deltas.into_iter();
        for span in spans {
            index += span.offset;
            for _ in 0..span.length {
                count += deltas.next().unwrap();
                all.insert(index, count);
                index += 1;
            }
        }
        assert_eq!(deltas.next(), None);
        all
    }

    #[test]
    fn limits_are_powers_of_two_and_belong_to_the_lower_bucket() {
        for (number, limit) in LIMITS.iter().enumerate() {
            let exact = (number as f64 / f64::from(BUCKETS)).exp2();
            assert!((limit - exact).abs() < 1e-15, "{limit} is not {exact}");
        }
        for (micros, expected) in [
            (1_000_000, 0),
            (1_000_001, 1),
            (2_000_000, 8),
            (2_000_001, 9),
            (500_000, -8),
            (250_000, -16),
            (1, -159),
            (u64::MAX, 353),
        ] {
            assert_eq!(index(micros), expected, "{micros}");
        }
        assert_eq!(size_of::<Bucket>(), 10);
        assert_eq!(ZERO_THRESHOLD, (-128_f64).exp2());
    }

    #[test]
    fn spans_skip_empty_buckets() {
        assert_eq!(buckets(&[]).spans(), (vec![], vec![]));
        // Indexes 0, 8, 9 and 12.
        let times = [1_000_000, 2_000_000, 2_000_000, 2_000_001, 2_800_000];
        let (spans, deltas) = buckets(&times).spans();
        let first = BucketSpan { offset: 0, length: 1 };
        assert_eq!(spans, [first, BucketSpan { offset: 7, length: 5 }]);
        assert_eq!(deltas, [1, 1, -1, -1, 0, 1]);
    }

    proptest! {
        #[test]
        fn a_bucket_contains_its_times(time in 1_u64.., shift in 0..64_u32) {
            let time = (time >> shift).max(1);
            let (seconds, index) = (time as f64 / 1e6, i32::from(index(time)));
            let error = 1e-14 * seconds;
            prop_assert!(limit(index - 1) < seconds + error && seconds - error <= limit(index));
        }

        #[test]
        fn a_reader_gets_the_counts(
            times in prop::collection::vec((any::<u64>(), 0..64_u32), 0..200),
        ) {
            let times: Vec<_> = times.iter().map(|(time, shift)| time >> shift).collect();
            let all = buckets(&times);
            let read = read(&all);
            prop_assert!(read.len() <= all.buckets.len() * usize::from(MAX_GAP.unsigned_abs() + 1));
            let found: Vec<_> = read.into_iter().filter(|(_, count)| *count > 0).collect();
            let own = all.buckets.iter().map(|bucket| (i32::from(bucket.index), bucket.count as i64));
            prop_assert_eq!(found, own.collect::<Vec<_>>());
            let counted = all.zeros + all.buckets.iter().map(|bucket| bucket.count).sum::<u64>();
            prop_assert_eq!(counted, times.len() as u64);
        }

        #[test]
        fn merged_buckets_have_the_times_of_both(
            times in prop::collection::vec(0..100_000_000_u64, 0..100), middle in 0..100_usize,
        ) {
            let (first, second) = times.split_at(middle.min(times.len()));
            let mut merged = buckets(first);
            merged.merge(&buckets(second));
            prop_assert!(merged.buckets.capacity() < merged.buckets.len() + GROWTH);
            prop_assert_eq!(merged, buckets(&times));
        }
    }
}
