//! Mail servers that have just not answered. Without this, each of many messages would wait for
//! seconds.

use std::time::{Duration, Instant};

/// Time for which a server that did not answer is not tried again.
const PAUSE: Duration = Duration::from_secs(5);

/// Maximum number of servers.
const MAX_SERVERS: usize = 256;

/// Servers, each with the reason and the time of the next attempt.
#[derive(Debug, Default)]
pub(crate) struct Unreachable(Vec<(String, String, Instant)>);

impl Unreachable {
    /// Remembers that a server did not answer.
    pub(crate) fn add(&mut self, server: &str, reason: &str, now: Instant) {
        self.0.retain(|(known, _, until)| *until > now && known != server);
        if self.0.len() < MAX_SERVERS {
            self.0.push((server.to_owned(), reason.to_owned(), now + PAUSE));
        }
    }

    /// Returns the reason for which a server is not tried now.
    pub(crate) fn reason(&self, server: &str, now: Instant) -> Option<&str> {
        let found = self.0.iter().find(|(known, _, until)| known == server && *until > now)?;
        Some(&found.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_does_not_answer_is_tried_again_after_a_pause() {
        let (mut known, now) = (Unreachable::default(), Instant::now());
        assert_eq!(known.reason("a:25", now), None);
        known.add("a:25", "refused", now);
        assert_eq!(known.reason("a:25", now), Some("refused"));
        assert_eq!(known.reason("b:25", now), None);
        assert_eq!(known.reason("a:25", now + PAUSE), None);
    }
}
