//! Figures of sites over a day: each second for an hour, each minute for a day.
//!
//! A figure takes two bytes, so that a site takes 62 KB at most, and all of them 62 MB.

use std::collections::{HashMap, VecDeque};

use crate::rows::Row;

/// Maximum number of sites that have a history. Further ones count in that of the server.
pub const MAX_SITES: usize = 1_000;

/// Seconds that are kept, one by one.
const SECONDS: usize = 3_600;

/// Minutes that are kept.
const MINUTES: usize = 1_440;

/// Number of figures of a site.
const FIGURES: usize = 5;

/// Seconds without a sample that take the figures of the next one: the server was slow to answer.
const MAX_GAP: u64 = 5;

/// Index of the time of a request in [`Figures`].
const TIME: usize = 2;

/// Figures of a site: requests and errors per second, seconds of a request, processors, and bytes
/// of memory. `NaN` for unknown ones.
#[derive(Debug, Clone, Copy)]
pub struct Figures(pub [f32; FIGURES]);

/// A part of the time that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Range {
    /// Five minutes, each second.
    Minutes5,
    /// An hour, in steps of 15 seconds.
    Hour,
    /// A day, in steps of six minutes.
    Day,
}

/// Histories of sites, and that of the whole server.
#[derive(Debug, Default)]
pub struct Histories {
    sites: HashMap<String, Series>,
    server: Series,
}

impl Figures {
    const UNKNOWN: Figures = Figures([f32::NAN; FIGURES]);

    fn of(row: &Row) -> Figures {
        let or_unknown = |number: Option<f64>| number.map_or(f32::NAN, |number| number as f32);
        Figures([
            or_unknown(row.requests),
            or_unknown(row.error_rate),
            or_unknown(row.seconds),
            or_unknown(row.processors),
            row.memory as f32,
        ])
    }

    /// Returns the figures of the whole server: sums, and the highest time of a request.
    pub fn of_server(rows: &[Row]) -> Figures {
        let mut all = Figures::UNKNOWN;
        for row in rows {
            for (at, (sum, figure)) in all.0.iter_mut().zip(Figures::of(row).0).enumerate() {
                *sum = match (sum.is_nan(), figure.is_nan()) {
                    (true, _) => figure,
                    (_, true) => *sum,
                    _ if at == TIME => sum.max(figure),
                    _ => *sum + figure,
                };
            }
        }
        all
    }
}

impl Range {
    /// Returns the range that is called `5m`, `1h` or `1d`.
    pub fn named(name: &str) -> Option<Range> {
        match name {
            "5m" => Some(Range::Minutes5),
            "1h" => Some(Range::Hour),
            "1d" => Some(Range::Day),
            _ => None,
        }
    }

    /// Returns the number of points.
    pub fn points(self) -> usize {
        match self {
            Range::Minutes5 => 300,
            Range::Hour | Range::Day => 240,
        }
    }

    /// Returns the seconds, or for a day the minutes, of a point.
    fn step(self) -> usize {
        match self {
            Range::Minutes5 => 1,
            Range::Hour => SECONDS / 240,
            Range::Day => MINUTES / 240,
        }
    }
}

impl Histories {
    /// Adds the rows of a second, which count on from a time of the caller's choice. A second that
    /// was there before is ignored.
    pub fn add(&mut self, rows: &[Row], second: u64) {
        self.server.add(Figures::of_server(rows), second);
        if self.sites.len() + rows.len() > MAX_SITES {
            // Sites that are no more make room for new ones.
            self.sites.retain(|_, series| series.end + SECONDS as u64 > second);
        }
        for row in rows {
            if let Some(series) = self.sites.get_mut(&row.site) {
                series.add(Figures::of(row), second);
            } else if self.sites.len() < MAX_SITES {
                let series = self.sites.entry(row.site.clone()).or_default();
                series.add(Figures::of(row), second);
            }
        }
    }

    /// Returns the points of a site up to this second, the oldest first; those of the server
    /// without a name. Points that are not known are left out at the beginning.
    pub fn points(&self, site: Option<&str>, range: Range, second: u64) -> Vec<Figures> {
        let series = match site {
            Some(site) => self.sites.get(site),
            None => Some(&self.server),
        };
        series.map_or_else(Vec::new, |series| series.points(range, second))
    }
}

/// The upper half of a `NaN`.
const UNKNOWN: u16 = 0x7fc0;

/// Figures as they are kept.
#[derive(Debug, Clone, Copy)]
struct Kept([u16; FIGURES]);

impl Kept {
    /// Keeps the upper half of each number: its magnitude and two to three digits.
    fn new(figures: Figures) -> Kept {
        Kept(figures.0.map(|figure| {
            let half = ((u64::from(figure.to_bits()) + 0x8000) >> 16) as u16;
            if figure.is_nan() { UNKNOWN } else { half }
        }))
    }

    fn figures(self) -> Figures {
        Figures(self.0.map(|half| f32::from_bits(u32::from(half) << 16)))
    }
}

/// The history of a site.
#[derive(Debug, Default)]
struct Series {
    /// The last seconds, the newest last.
    seconds: VecDeque<Kept>,
    /// The last whole minutes, the newest last.
    minutes: VecDeque<Kept>,
    /// The second after the last one.
    end: u64,
    /// The minute that is not over.
    minute: Mean,
}

impl Series {
    fn add(&mut self, figures: Figures, second: u64) {
        if self.seconds.is_empty() {
            self.end = second;
        }
        if second < self.end {
            return;
        }
        let is_short = second - self.end <= MAX_GAP;
        let day = 60 * MINUTES as u64;
        let from = self.end.max(second.saturating_sub(day));
        for missed in from..second {
            self.push(if is_short { figures } else { Figures::UNKNOWN }, missed);
        }
        self.push(figures, second);
        self.end = second + 1;
    }

    fn push(&mut self, figures: Figures, second: u64) {
        if self.seconds.len() == SECONDS {
            self.seconds.pop_front();
        }
        self.seconds.push_back(Kept::new(figures));
        self.minute.add(figures);
        if second % 60 == 59 {
            if self.minutes.len() == MINUTES {
                self.minutes.pop_front();
            }
            self.minutes.push_back(Kept::new(std::mem::take(&mut self.minute).figures()));
        }
    }

    fn points(&self, range: Range, second: u64) -> Vec<Figures> {
        let (kept, end, now) = match range {
            Range::Minutes5 | Range::Hour => (&self.seconds, self.end, second + 1),
            Range::Day => (&self.minutes, self.end / 60, (second + 1) / 60),
        };
        let step = range.step() as u64;
        // Steps begin at multiples of their length, so that a point does not change with time.
        let last = now.div_ceil(step);
        let first = last.saturating_sub(range.points() as u64);
        let begin = end.saturating_sub(kept.len() as u64);
        let at = |time: u64| {
            let index = time.checked_sub(begin).filter(|_| time < end)?;
            kept.get(usize::try_from(index).ok()?).map(|kept| kept.figures())
        };
        let points = (first.max(begin / step)..last).map(|point| {
            let mut mean = Mean::default();
            (point * step..(point + 1) * step).filter_map(at).for_each(|point| mean.add(point));
            mean.figures()
        });
        points.collect()
    }
}

/// The mean of several figures; of times of requests the highest.
#[derive(Debug, Default)]
struct Mean {
    sums: [f32; FIGURES],
    counts: [u16; FIGURES],
}

impl Mean {
    fn add(&mut self, figures: Figures) {
        for (at, figure) in figures.0.into_iter().enumerate() {
            if let (Some(sum), Some(count), false) =
                (self.sums.get_mut(at), self.counts.get_mut(at), figure.is_nan())
            {
                *sum = if at == TIME { sum.max(figure) } else { *sum + figure };
                *count = if at == TIME { 1 } else { *count + 1 };
            }
        }
    }

    fn figures(&self) -> Figures {
        let mut figures = Figures::UNKNOWN;
        let all = self.sums.iter().zip(self.counts);
        for (figure, (sum, count)) in figures.0.iter_mut().zip(all) {
            if count > 0 {
                *figure = sum / f32::from(count);
            }
        }
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(site: &str, requests: f64, seconds: Option<f64>) -> Row {
        Row {
            site: site.to_owned(),
            requests: Some(requests),
            seconds,
            memory: 100 << 20,
            ..Row::default()
        }
    }

    fn requests(points: &[Figures]) -> Vec<f32> {
        points.iter().map(|point| point.0[0]).collect()
    }

    #[test]
    fn each_second_is_a_point_of_five_minutes_and_gaps_stay() {
        let mut histories = Histories::default();
        for second in [1_000, 1_001, 1_003, 1_010] {
            histories.add(&[row("a", second as f64 - 1_000.0, None)], second);
        }
        histories.add(&[row("a", 9.0, None)], 1_001);
        let points = histories.points(Some("a"), Range::Minutes5, 1_011);
        let shown = requests(&points);
        assert_eq!(shown.len(), 12);
        assert_eq!(shown[..4], [0.0, 1.0, 3.0, 3.0]);
        assert_eq!(shown[10], 10.0);
        assert!([4, 9, 11].iter().all(|at| shown[*at].is_nan()));
        assert!(points[0].0[TIME].is_nan());
        assert_eq!(points[0].0[4], (100 << 20) as f32);
        assert!(histories.points(Some("b"), Range::Day, 1_005).is_empty());
    }

    #[test]
    fn an_hour_and_a_day_are_means_and_the_highest_times() {
        let mut histories = Histories::default();
        for second in 0..90_000_u64 {
            let slow = if second % 60 == 7 { 4.0 } else { 0.5 };
            histories.add(&[row("a", (second % 60) as f64, Some(slow))], second);
        }
        for (range, expected) in [(Range::Hour, 7.0), (Range::Day, 29.5)] {
            let points = histories.points(Some("a"), range, 89_999);
            assert_eq!(points.len(), 240);
            assert!((points[0].0[0] - expected).abs() < 0.3, "{range:?}: {:?}", points[0]);
            assert_eq!(points[0].0[TIME], 4.0, "{range:?}");
        }
        assert_eq!(histories.points(Some("a"), Range::Minutes5, 89_999).len(), 300);
    }

    #[test]
    fn the_memory_of_histories_is_bounded() {
        let mut histories = Histories::default();
        let rows: Vec<_> =
            (0..MAX_SITES + 500).map(|number| row(&number.to_string(), 1.0, None)).collect();
        histories.add(&rows, 5);
        assert_eq!(histories.sites.len(), MAX_SITES);
        // All sites count for the server, and new ones take the place of old ones.
        let server = histories.points(None, Range::Minutes5, 5);
        assert!((server.last().unwrap().0[0] - 1_500.0).abs() <= 8.0);
        histories.add(&[row("new", 1.0, None)], 4_000);
        assert_eq!(histories.sites.len(), 1);
        // A computer that slept for a year.
        histories.add(&[row("new", 2.0, None)], 31_536_000);
        let series = &histories.sites["new"];
        assert_eq!((series.seconds.len(), series.minutes.len()), (SECONDS, MINUTES));
        assert!(series.seconds.capacity() + series.minutes.capacity() <= 8_192);
    }

    #[test]
    fn numbers_keep_two_digits() {
        for number in [0.0, 0.013, 1.0, 3.27, 99.4, 12_345.0, 1e12] {
            let kept = Kept::new(Figures([number; FIGURES])).figures().0[0];
            assert!((kept - number).abs() <= number * 0.005, "{number} {kept}");
        }
        assert!(Kept::new(Figures::UNKNOWN).figures().0[0].is_nan());
        assert!(Kept::new(Figures([f32::MAX; FIGURES])).figures().0[0] > 1e38);
    }
}
