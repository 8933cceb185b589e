//! Metrics on their way from the router to the telemetry process: a packet with their times, and with
//! a descriptor of sealed memory that has the families, each after its length.

use crate::bytes::{Decoder, Encode, Malformed};

/// Maximum length of all families in bytes.
pub const MAX_BYTES: u64 = 32 << 20;

/// The times of metrics, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricsTimes {
    /// Start of the counters.
    pub started: u64,
    /// Time at which they had these values.
    pub measured: u64,
}

impl MetricsTimes {
    /// Returns the packet.
    pub fn encode(self) -> Vec<u8> {
        let mut packet = Vec::new();
        packet.put_u64(self.started);
        packet.put_u64(self.measured);
        packet
    }

    /// Reads a packet.
    pub fn decode(packet: &[u8]) -> Result<MetricsTimes, Malformed> {
        let mut from = Decoder(packet);
        let times = MetricsTimes { started: from.u64()?, measured: from.u64()? };
        from.end()?;
        Ok(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_back() {
        let times = MetricsTimes { started: 1, measured: u64::MAX };
        assert_eq!(MetricsTimes::decode(&times.encode()), Ok(times));
        assert!(MetricsTimes::decode(&times.encode()[1..]).is_err());
        assert!(MetricsTimes::decode(&[times.encode(), vec![0]].concat()).is_err());
    }
}
