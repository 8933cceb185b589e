//! What sites have used in a month: for bills and quotas, and the file that keeps it.

use serde::{Deserialize, Serialize};

use crate::Named;

/// What each site has used in a month.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// The month in UTC, such as `2026-11`.
    pub month: String,
    /// Sites by name. Requests that belong to none count for their application, upstream,
    /// directory or listener.
    pub sites: Named<SiteUsage>,
}

/// What a site has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SiteUsage {
    /// Requests that were answered, or cut short.
    pub requests: u64,
    /// Responses with a status of 500 or above.
    pub errors: u64,
    /// Bytes of requests: heads and bodies.
    pub received: u64,
    /// Bytes of responses: heads and bodies.
    pub sent: u64,
    /// Run time of PHP scripts in microseconds, shown in seconds.
    #[serde(rename = "php_seconds", with = "seconds")]
    pub php_us: u64,
    /// Recipients of mail that a mail server has taken.
    pub mails: u64,
}

/// What clients have asked of a site in the last minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SiteTraffic {
    /// Requests that were answered, or cut short.
    pub requests: u64,
    /// Responses with a status of 500 or above.
    pub errors: u64,
    /// Since the start of the router. Left out for names that are none of the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<SiteTotal>,
}

/// What clients have asked of a site since the start of the router.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SiteTotal {
    /// Requests that were answered, or cut short.
    pub requests: u64,
    /// Responses with a status of 500 or above.
    pub errors: u64,
    /// Sum of their times in microseconds, each from the first byte of the request to the last one
    /// of the response.
    pub time_us: u64,
}

/// The highest number, up to which all programs read JSON exactly.
const MAX: u64 = (1 << 53) - 1;

impl SiteUsage {
    /// Adds what was used besides. Numbers stay at the highest one that all programs read exactly.
    pub fn add(&mut self, other: SiteUsage) {
        let sum = |a: u64, b: u64| a.saturating_add(b).min(MAX);
        self.requests = sum(self.requests, other.requests);
        self.errors = sum(self.errors, other.errors);
        self.received = sum(self.received, other.received);
        self.sent = sum(self.sent, other.sent);
        self.php_us = sum(self.php_us, other.php_us);
        self.mails = sum(self.mails, other.mails);
    }
}

/// Microseconds as seconds.
mod seconds {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(us: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(*us as f64 / 1e6)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        // A number that is too large, or negative, becomes the nearest one.
        Ok(((f64::deserialize(deserializer)? * 1e6).round() as u64).min(super::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_times_are_shown_in_seconds_and_read_back() {
        for us in [0, 1, 1_234_567, 10_000_000_000_001, MAX] {
            let used = SiteUsage { php_us: us, requests: MAX, ..SiteUsage::default() };
            let text = serde_json::to_string(&used).unwrap();
            assert_eq!(serde_json::from_str::<SiteUsage>(&text).unwrap(), used, "{text}");
        }
        let text = serde_json::to_string(&SiteUsage { php_us: 1_500_000, ..Default::default() });
        assert!(text.unwrap().contains("\"php_seconds\":1.5,"));
    }

    #[test]
    fn numbers_only_grow_and_stay_exact() {
        let most = SiteUsage {
            requests: u64::MAX,
            errors: u64::MAX,
            received: u64::MAX,
            sent: u64::MAX,
            php_us: u64::MAX,
            mails: u64::MAX,
        };
        let mut used = SiteUsage { requests: 1, ..SiteUsage::default() };
        used.add(most);
        used.add(most);
        let expected = SiteUsage {
            requests: MAX,
            errors: MAX,
            received: MAX,
            sent: MAX,
            php_us: MAX,
            mails: MAX,
        };
        assert_eq!(used, expected);
    }
}
