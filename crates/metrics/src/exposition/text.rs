//! The two text formats.

use std::fmt::{Display, Write};

use super::{Family, Kind, Labels, Value, seconds};
use crate::histogram::{Histogram, SHOWN_LIMITS};

/// Writes metrics as text.
pub(crate) struct TextWriter {
    text: String,
    /// The format is OpenMetrics.
    is_open: bool,
    family: Option<Family>,
    /// The description of the family is written.
    is_begun: bool,
}

impl TextWriter {
    /// Starts a text: OpenMetrics, or the format of Prometheus.
    pub(super) fn new(is_open: bool) -> Self {
        TextWriter { text: String::new(), is_open, family: None, is_begun: false }
    }

    /// Begins a family, which is described before its first line.
    pub(super) fn begin(&mut self, family: Family) {
        (self.family, self.is_begun) = (Some(family), false);
    }

    /// Writes a line; its name gets the suffix that both formats demand of the kind.
    pub(super) fn sample(&mut self, labels: Labels<'_>, value: Value) {
        let suffix = match self.family.map(|family| family.kind) {
            Some(Kind::Counter) => "_total",
            Some(Kind::Info) => "_info",
            _ => "",
        };
        let labels = formatted(labels);
        self.line(suffix, &labels, None, value);
    }

    /// Writes the samples of a histogram.
    pub(super) fn histogram(&mut self, labels: Labels<'_>, histogram: &Histogram) {
        let (is_open, labels) = (self.is_open, formatted(labels));
        let limits = SHOWN_LIMITS.into_iter().map(|limit| match limit.strip_suffix(".0") {
            Some(whole) if !is_open => whole,
            _ => limit,
        });
        for (limit, count) in limits.chain(["+Inf"]).zip(histogram.cumulative()) {
            self.line("_bucket", &labels, Some(limit), count);
        }
        self.line("_count", &labels, None, histogram.count());
        self.line("_sum", &labels, None, seconds(histogram.sum()));
    }

    /// Writes a line with labels that are [`formatted`].
    fn line(&mut self, suffix: &str, labels: &str, limit: Option<&str>, value: impl Display) {
        let Some(family) = self.family else { return };
        if !std::mem::replace(&mut self.is_begun, true) {
            self.describe(family);
        }
        let text = &mut self.text;
        text.push_str(family.name);
        text.push_str(suffix);
        if !labels.is_empty() || limit.is_some() {
            text.push('{');
            text.push_str(labels);
            if let Some(limit) = limit {
                text.push_str(if labels.is_empty() { "le=\"" } else { ",le=\"" });
                text.push_str(limit);
                text.push('"');
            }
            text.push('}');
        }
        let _ = writeln!(text, " {value}");
    }

    fn describe(&mut self, family: Family) {
        let Family { name, kind, help } = family;
        let (suffix, kind) = match (kind, self.is_open) {
            (Kind::Counter, true) => ("", "counter"),
            (Kind::Counter, false) => ("_total", "counter"),
            (Kind::Info, true) => ("", "info"),
            (Kind::Info, false) => ("_info", "gauge"),
            (Kind::Gauge, _) => ("", "gauge"),
            (Kind::Histogram, _) => ("", "histogram"),
        };
        let _ = writeln!(self.text, "# HELP {name}{suffix} {help}.");
        let _ = writeln!(self.text, "# TYPE {name}{suffix} {kind}");
        if let (Some(unit), true) = (family.unit(), self.is_open) {
            let _ = writeln!(self.text, "# UNIT {name} {unit}");
        }
    }

    /// Returns the text; that of OpenMetrics ends with its mark.
    pub(super) fn finish(mut self) -> String {
        if self.is_open {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

/// Returns labels in the text format: `name="value",…`. A histogram formats them once for all of its
/// lines.
fn formatted(labels: Labels<'_>) -> String {
    let mut text = String::with_capacity(64);
    for (name, value) in labels {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(name);
        text.push_str("=\"");
        escape(value, &mut text);
        text.push('"');
    }
    text
}

/// Appends the value of a label.
fn escape(value: &str, text: &mut String) {
    if !value.contains(['\\', '"', '\n']) {
        return text.push_str(value);
    }
    for char in value.chars() {
        match char {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            char => text.push(char),
        }
    }
}
