//! Text of metrics: OpenMetrics 1.0, and the text format 0.0.4 of Prometheus.

use std::fmt::{self, Write};

use crate::histogram::{Histogram, SHOWN_LIMITS};

/// Format of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format 0.0.4 of Prometheus.
    Prometheus,
}

impl Format {
    /// Returns the format that fits the values of `Accept` best. Clients that accept neither, or
    /// any, get the one of Prometheus, which people can read in a browser.
    pub fn accepted<'a>(fields: impl Iterator<Item = &'a [u8]>) -> Format {
        let mut best = (0, Format::Prometheus);
        for range in fields.flat_map(|field| field.split(|byte| *byte == b',')) {
            let Some((format, quality)) = preference(range) else { continue };
            // OpenMetrics says more if both are as good.
            let is_better = quality > best.0
                || (quality == best.0 && quality > 0 && format == Format::OpenMetrics);
            if is_better {
                best = (quality, format);
            }
        }
        best.1
    }

    /// Returns the value of `Content-Type`.
    pub fn media_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Returns the format that a range of `Accept` names, with its quality in thousandths.
fn preference(range: &[u8]) -> Option<(Format, u32)> {
    let mut parts = range.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let name = parts.next()?;
    let (mut quality, mut version) = (1000, None);
    for parameter in parts {
        let equals = parameter.iter().position(|byte| *byte == b'=')?;
        let (key, value) = parameter.split_at(equals);
        let value = value.get(1..)?.trim_ascii();
        if key.eq_ignore_ascii_case(b"q") {
            let number: f64 = std::str::from_utf8(value).ok()?.parse().ok()?;
            quality = (number.clamp(0.0, 1.0) * 1000.0) as u32;
        } else if key.eq_ignore_ascii_case(b"version") {
            version = Some(value);
        }
    }
    let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    // Version 0.0.1 has the same form.
    let is_known = |known: &[&[u8]]| version.is_none_or(|version| known.contains(&version));
    if is("application/openmetrics-text") && is_known(&[b"1.0.0", b"0.0.1"]) {
        Some((Format::OpenMetrics, quality))
    } else if is("text/plain") && is_known(&[b"0.0.4"]) {
        Some((Format::Prometheus, quality))
    } else {
        None
    }
}

/// Kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
    /// Texts as labels of a sample that is always 1.
    Info,
}

/// A metric: its name without the suffixes of samples, its kind and its description.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) help: &'static str,
}

/// Labels with their values.
pub(crate) type Labels<'a> = &'a [(&'a str, &'a str)];

/// Writes metrics. The samples of a family follow each other.
pub(crate) struct Writer {
    text: String,
    format: Format,
    family: Option<Family>,
    /// The description of the family is written.
    is_begun: bool,
}

impl Writer {
    /// Starts a text.
    pub(crate) fn new(format: Format) -> Self {
        Writer { text: String::new(), format, family: None, is_begun: false }
    }

    /// Begins a family. One without samples leaves nothing.
    pub(crate) fn begin(&mut self, kind: Kind, name: &'static str, help: &'static str) {
        (self.family, self.is_begun) = (Some(Family { name, kind, help }), false);
    }

    /// Writes a sample with a whole number.
    pub(crate) fn number(&mut self, labels: Labels<'_>, value: u64) {
        self.sample(labels, format_args!("{value}"));
    }

    /// Writes a sample with microseconds, in seconds.
    pub(crate) fn micros(&mut self, labels: Labels<'_>, value: u64) {
        self.sample(labels, format_args!("{}", seconds(value)));
    }

    fn sample(&mut self, labels: Labels<'_>, value: fmt::Arguments<'_>) {
        let suffix = match (self.family.map(|family| family.kind), self.format) {
            (Some(Kind::Counter), _) => "_total",
            (Some(Kind::Info), _) => "_info",
            _ => "",
        };
        self.line(suffix, labels, None, value);
    }

    /// Writes the samples of a histogram.
    pub(crate) fn histogram(&mut self, labels: Labels<'_>, histogram: &Histogram) {
        let is_open = self.format == Format::OpenMetrics;
        let limits = SHOWN_LIMITS.into_iter().map(|limit| match limit.strip_suffix(".0") {
            Some(whole) if !is_open => whole,
            _ => limit,
        });
        for (limit, count) in limits.chain(["+Inf"]).zip(histogram.cumulative()) {
            self.line("_bucket", labels, Some(limit), format_args!("{count}"));
        }
        self.line("_count", labels, None, format_args!("{}", histogram.count()));
        self.line("_sum", labels, None, format_args!("{}", seconds(histogram.sum())));
    }

    fn line(
        &mut self,
        suffix: &str,
        labels: Labels<'_>,
        limit: Option<&str>,
        value: fmt::Arguments<'_>,
    ) {
        let Some(family) = self.family else { return };
        if !std::mem::replace(&mut self.is_begun, true) {
            self.describe(family);
        }
        let text = &mut self.text;
        text.push_str(family.name);
        text.push_str(suffix);
        let all = labels.iter().copied().chain(limit.map(|limit| ("le", limit)));
        let mut separator = '{';
        for (name, value) in all {
            text.push(separator);
            text.push_str(name);
            text.push_str("=\"");
            escape(value, text);
            text.push('"');
            separator = ',';
        }
        if separator == ',' {
            text.push('}');
        }
        let _ = writeln!(text, " {value}");
    }

    fn describe(&mut self, family: Family) {
        let Family { name, kind, help } = family;
        let (suffix, kind) = match (kind, self.format) {
            (Kind::Counter, Format::OpenMetrics) => ("", "counter"),
            (Kind::Counter, Format::Prometheus) => ("_total", "counter"),
            (Kind::Info, Format::OpenMetrics) => ("", "info"),
            (Kind::Info, Format::Prometheus) => ("_info", "gauge"),
            (Kind::Gauge, _) => ("", "gauge"),
            (Kind::Histogram, _) => ("", "histogram"),
        };
        let _ = writeln!(self.text, "# HELP {name}{suffix} {help}.");
        let _ = writeln!(self.text, "# TYPE {name}{suffix} {kind}");
        let mut units = ["seconds", "bytes"].into_iter();
        let unit = units.find(|unit| name.ends_with(&format!("_{unit}")));
        if let (Some(unit), Format::OpenMetrics) = (unit, self.format) {
            let _ = writeln!(self.text, "# UNIT {name} {unit}");
        }
    }

    /// Returns the complete text.
    pub(crate) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// Appends the value of a label.
fn escape(value: &str, text: &mut String) {
    for char in value.chars() {
        match char {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            char => text.push(char),
        }
    }
}

#[cfg(test)]
mod tests;
