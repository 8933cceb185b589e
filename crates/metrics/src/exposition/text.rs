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
        self.line(suffix, labels, None, value);
    }

    /// Writes the samples of a histogram.
    pub(super) fn histogram(&mut self, labels: Labels<'_>, histogram: &Histogram) {
        let is_open = self.is_open;
        let limits = SHOWN_LIMITS.into_iter().map(|limit| match limit.strip_suffix(".0") {
            Some(whole) if !is_open => whole,
            _ => limit,
        });
        for (limit, count) in limits.chain(["+Inf"]).zip(histogram.cumulative()) {
            self.line("_bucket", labels, Some(limit), count);
        }
        self.line("_count", labels, None, histogram.count());
        self.line("_sum", labels, None, seconds(histogram.sum()));
    }

    fn line(&mut self, suffix: &str, labels: Labels<'_>, limit: Option<&str>, value: impl Display) {
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
