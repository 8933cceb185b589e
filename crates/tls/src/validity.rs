//! Validity periods of certificates, and their problems at a given time.

use std::time::Duration;

use x509_parser::certificate::X509Certificate;

/// The validity period of a certificate, in seconds since 1970.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Validity {
    /// Not valid before this time.
    pub since: u64,
    /// Not valid after this time.
    pub until: u64,
}

/// Reason why a certificate must be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Untimely {
    /// The certificate is not valid yet.
    NotYet,
    /// The certificate expires soon, and its renewal is overdue.
    Soon,
    /// The certificate has expired.
    Expired,
}

/// Time before the end of the validity in which a certificate expires soon. Of one with a short
/// life, the last quarter: certificates of a week are renewed when half of it is left.
const SOON: Duration = Duration::from_secs(7 * 86_400);

impl Validity {
    /// Returns the problem of the validity at a time, in seconds since 1970.
    pub fn problem(self, now: u64) -> Option<Untimely> {
        let life = self.until.saturating_sub(self.since);
        match () {
            () if now > self.until => Some(Untimely::Expired),
            () if now < self.since => Some(Untimely::NotYet),
            () if self.until - now <= SOON.as_secs().min(life / 4) => Some(Untimely::Soon),
            () => None,
        }
    }
}

impl From<&X509Certificate<'_>> for Validity {
    fn from(certificate: &X509Certificate<'_>) -> Self {
        let validity = certificate.validity();
        let seconds = |timestamp: i64| u64::try_from(timestamp).unwrap_or(0);
        let (since, until) = (validity.not_before.timestamp(), validity.not_after.timestamp());
        Validity { since: seconds(since), until: seconds(until) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;

    #[test]
    fn a_certificate_expires_soon_in_its_last_week_or_quarter() {
        let long = Validity { since: 100 * DAY, until: 190 * DAY };
        assert_eq!(long.problem(99 * DAY), Some(Untimely::NotYet));
        assert_eq!(long.problem(100 * DAY), None);
        assert_eq!(long.problem(183 * DAY - 1), None);
        assert_eq!(long.problem(183 * DAY), Some(Untimely::Soon));
        assert_eq!(long.problem(190 * DAY), Some(Untimely::Soon));
        assert_eq!(long.problem(190 * DAY + 1), Some(Untimely::Expired));
        let short = Validity { since: 100 * DAY, until: 108 * DAY };
        assert_eq!(short.problem(105 * DAY), None);
        assert_eq!(short.problem(106 * DAY), Some(Untimely::Soon));
        let strange = Validity { since: 8, until: 4 };
        assert_eq!(strange.problem(3), Some(Untimely::NotYet));
        assert_eq!(strange.problem(6), Some(Untimely::Expired));
        assert_eq!(Validity { since: 0, until: u64::MAX }.problem(u64::MAX), Some(Untimely::Soon));
    }
}
