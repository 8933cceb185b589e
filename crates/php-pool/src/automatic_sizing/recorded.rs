//! Recorded days of real sites: the number of requests and their costs. Recorded with `bench/sizing
//! --record`; the files say how and where.

use super::simulation::Script;

/// WordPress with its database on the same machine.
pub const WORDPRESS_SITE: &str = include_str!("recorded/wordpress.csv");
/// A script that allocates 100 MiB.
pub const HUNDRED_MIB: &str = include_str!("recorded/hundred.csv");

/// Recorded load of a site over one day.
#[derive(Debug)]
pub struct LoadRecording {
    /// Start in seconds, number of requests, and kind of script of each period.
    moments: Vec<(f64, u32, Script)>,
}

impl LoadRecording {
    /// Parses a file of `bench/sizing --record`.
    pub fn read(text: &str) -> Self {
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let columns = lines.next().expect("the names of the columns");
        assert_eq!(columns, "seconds,clients,cpu,database,wait,peak,kept,workers");
        LoadRecording { moments: lines.map(moment).collect() }
    }

    /// Returns the length of the recording in seconds.
    pub fn seconds(&self) -> f64 {
        self.moments.last().map_or(0.0, |(at, ..)| *at)
    }

    /// Returns the number of requests that waited or ran at that time, and their kind of script.
    pub fn at(&self, seconds: f64) -> (u32, Script) {
        let later = self.moments.partition_point(|(at, ..)| *at <= seconds);
        let (_, clients, script) = self.moments[later.saturating_sub(1)];
        (clients, script)
    }
}

/// Parses a line. The recorded number of workers is not used.
fn moment(line: &str) -> (f64, u32, Script) {
    let numbers: Vec<f64> = line.split(',').map(|number| number.parse().expect(line)).collect();
    let &[at, clients, cpu, database, wait, peak, kept, _workers] = &numbers[..] else {
        panic!("{line}")
    };
    (at, clients as u32, Script { cpu, database, wait, peak, kept })
}
