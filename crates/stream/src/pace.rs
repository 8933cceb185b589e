//! Limits of the speed of sessions.

use std::time::Duration;

use howdah_config::{LimitBandwidth, SessionBandwidth};
use howdah_http::forward::{Meter, Pace};
use howdah_limits::bandwidth::Bandwidth;
use howdah_sys::clock;

/// All bandwidths of a direction.
struct Bandwidths(Vec<Bandwidth>);

impl Meter for Bandwidths {
    fn piece(&self) -> usize {
        self.0.iter().map(Bandwidth::piece).min().unwrap_or(usize::MAX)
    }

    fn count(&self, bytes: usize) -> Duration {
        let now = clock::monotonic_us() * 1000;
        let longest = self.0.iter().map(|one| one.take(bytes, now)).max();
        Duration::from_nanos(longest.unwrap_or(0))
    }
}

/// Returns the pace of a session: its own speed, and the bandwidths to its client that it shares
/// with others.
pub fn pace(own: &SessionBandwidth, mut to_client: Vec<Bandwidth>) -> Pace {
    let of_session =
        |rate: Option<u64>| Some(Bandwidth::of_response(LimitBandwidth { rate: rate?, after: 0 }));
    to_client.extend(of_session(own.download));
    let meter = |all: Vec<Bandwidth>| {
        (!all.is_empty()).then(|| -> Box<dyn Meter> { Box::new(Bandwidths(all)) })
    };
    let from_client = of_session(own.upload).into_iter().collect();
    Pace { from_client: meter(from_client), to_client: meter(to_client) }
}
