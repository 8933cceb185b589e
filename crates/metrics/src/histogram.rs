//! Histograms of times.
//!
//! Each time is counted twice: in a classic bucket, for the text formats, and in a native one. The
//! limits of classic buckets are decimal, and most of them lie within native buckets. So neither
//! count follows from the other.

mod native;

use self::native::NativeBuckets;
pub(crate) use self::native::{SCHEMA, ZERO_THRESHOLD};

/// Upper limits of the buckets in microseconds: from a file in the memory to a script that runs for
/// half a minute. The last bucket, for longer times, has no limit.
pub(crate) const LIMITS: [u64; 14] = [
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 10_000_000, 30_000_000,
];

/// The limits in seconds, as OpenMetrics writes numbers.
pub(crate) const SHOWN_LIMITS: [&str; LIMITS.len()] = [
    "0.0005", "0.001", "0.0025", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1.0",
    "2.5", "10.0", "30.0",
];

/// Numbers of times by their length.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Numbers of times in each bucket alone.
    buckets: [u64; LIMITS.len() + 1],
    /// The same times in native buckets.
    native: NativeBuckets,
    /// Sum of the times in microseconds.
    sum: u64,
}

impl Histogram {
    /// Counts a time in microseconds.
    pub fn add(&mut self, time: u64) {
        let bucket = LIMITS.iter().position(|limit| time <= *limit).unwrap_or(LIMITS.len());
        if let Some(count) = self.buckets.get_mut(bucket) {
            *count += 1;
        }
        self.native.add(time);
        self.sum = self.sum.saturating_add(time);
    }

    /// Adds the times of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        self.buckets.iter_mut().zip(other.buckets).for_each(|(count, more)| *count += more);
        self.native.merge(&other.native);
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// Returns the number of times.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the sum of the times in microseconds.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Returns the native buckets.
    pub(crate) fn native(&self) -> &NativeBuckets {
        &self.native
    }

    /// Returns the number of times up to each limit.
    pub(crate) fn cumulative(&self) -> impl Iterator<Item = u64> {
        self.buckets.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_counts_in_its_bucket_and_in_all_higher_ones() {
        let mut histogram = Histogram::default();
        [0, 500, 501, 30_000_000, 30_000_001].into_iter().for_each(|time| histogram.add(time));
        let cumulative: Vec<_> = histogram.cumulative().collect();
        assert_eq!(cumulative[..2], [2, 3]);
        assert_eq!(cumulative[LIMITS.len() - 1..], [4, 5]);
        assert_eq!((histogram.count(), histogram.sum()), (5, 60_001_002));
        let mut twice = histogram.clone();
        twice.merge(&histogram);
        assert_eq!((twice.count(), twice.sum()), (10, 120_002_004));
    }

    #[test]
    fn the_limits_are_shown_in_seconds() {
        for (limit, shown) in LIMITS.iter().zip(SHOWN_LIMITS) {
            assert_eq!(shown.parse::<f64>().unwrap(), *limit as f64 / 1e6);
            assert!(shown.contains('.'), "{shown}");
        }
    }
}
