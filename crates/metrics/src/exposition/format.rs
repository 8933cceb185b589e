//! The format that a scraper asks for.

use howdah_wire::prometheus::MEDIA_TYPE;

/// Format of metrics. If a scraper accepts several equally, it gets the last of these, which says
/// most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Format {
    /// The text format 0.0.4 of Prometheus.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The protobuf format of Prometheus: messages with their lengths, with native histograms.
    Protobuf,
}

impl Format {
    /// Returns the format that fits the values of `Accept` best. Clients that accept none, or
    /// any, get the text of Prometheus, which people can read in a browser.
    pub fn accepted<'a>(fields: impl Iterator<Item = &'a [u8]>) -> Format {
        let ranges = fields.flat_map(|field| field.split(|byte| *byte == b','));
        let preferences = ranges.filter_map(preference).filter(|(quality, _)| *quality > 0);
        preferences.max().map_or(Format::Prometheus, |(_, format)| format)
    }

    /// Returns the value of `Content-Type`.
    pub fn media_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::Protobuf => MEDIA_TYPE,
        }
    }
}

/// Returns the format that a range of `Accept` names, behind its quality in thousandths.
fn preference(range: &[u8]) -> Option<(u32, Format)> {
    let mut parts = range.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let name = parts.next()?;
    let (mut quality, mut version, mut message, mut encoding) = (1000, None, None, None);
    for parameter in parts {
        let equals = parameter.iter().position(|byte| *byte == b'=')?;
        let (key, value) = parameter.split_at(equals);
        let value = value.get(1..)?.trim_ascii();
        match &*key.trim_ascii_end().to_ascii_lowercase() {
            b"q" => {
                let number: f64 = std::str::from_utf8(value).ok()?.parse().ok()?;
                quality = (number.clamp(0.0, 1.0) * 1000.0) as u32;
            }
            b"version" => version = Some(value),
            b"proto" => message = Some(value),
            b"encoding" => encoding = Some(value),
            _ => {}
        }
    }
    let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    // Version 0.0.1 has the same form.
    let is_known = |known: &[&[u8]]| version.is_none_or(|version| known.contains(&version));
    if is("application/vnd.google.protobuf") {
        let is_ours = message == Some(b"io.prometheus.client.MetricFamily".as_slice())
            && encoding == Some(b"delimited".as_slice());
        is_ours.then_some((quality, Format::Protobuf))
    } else if is("application/openmetrics-text") && is_known(&[b"1.0.0", b"0.0.1"]) {
        Some((quality, Format::OpenMetrics))
    } else if is("text/plain") && is_known(&[b"0.0.4"]) {
        Some((quality, Format::Prometheus))
    } else {
        None
    }
}
