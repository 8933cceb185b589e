//! The metrics of the server: the totals of requests, and its status.
//!
//! Each family of metrics is one call here; the status has each fact once ([`Status`]).

mod applications;
mod parts;
mod requests;
#[cfg(test)]
mod tests;

use howdah_questions::Status;

use crate::exposition::{Format, Kind, Writer};
use crate::totals::Totals;

/// Facts about the router process.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessFacts {
    /// Number of descriptors that are open at least; `None` if it is not known.
    pub descriptors: Option<u64>,
    /// The limit of open descriptors; `None` without one.
    pub max_descriptors: Option<u64>,
    /// Time since 1970 in seconds, since which the document at its source is refused; `None` if it
    /// is not.
    pub refused_since: Option<u64>,
}

/// Returns all metrics in a format.
pub fn page(status: &Status, totals: &Totals, process: &ProcessFacts, format: Format) -> Vec<u8> {
    let mut writer = Writer::new(format);
    let out = &mut writer;
    server(status, process, out);
    requests::write(totals, out);
    applications::write(status, totals, out);
    parts::write(status, out);
    lag(totals, out);
    writer.finish()
}

fn server(status: &Status, process: &ProcessFacts, out: &mut Writer) {
    let server = status.server.as_ref();
    out.begin(Kind::Info, "howdah_build", "The program that serves");
    let version = server.map_or("", |server| server.version.as_str());
    out.number(&[("version", version)], 1);
    out.begin(Kind::Gauge, "howdah_start_timestamp_seconds", "Start of the counters");
    let started = server.and_then(|server| server.started.as_deref());
    put_date(started, &[], out);

    let document = status.configuration.as_ref();
    out.begin(
        Kind::Gauge,
        "howdah_document_generation",
        "Number of the document in use; higher after each change",
    );
    document.into_iter().for_each(|document| out.number(&[], document.generation.into()));
    out.begin(
        Kind::Gauge,
        "howdah_document_applied_timestamp_seconds",
        "Time at which the document came into use",
    );
    put_date(document.and_then(|document| document.applied.as_deref()), &[], out);
    out.begin(
        Kind::Gauge,
        "howdah_document_refused",
        "1 if the document at its source is refused, and a former one is in use",
    );
    out.number(&[], process.refused_since.is_some().into());
    out.begin(
        Kind::Gauge,
        "howdah_document_refused_timestamp_seconds",
        "Time since which the document at its source is refused",
    );
    process.refused_since.into_iter().for_each(|since| out.number(&[], since));

    let connections = &status.connections;
    out.begin(Kind::Counter, "howdah_connections_accepted", "Connections accepted");
    out.number(&[], connections.accepted);
    out.begin(Kind::Gauge, "howdah_connections", "Open connections");
    out.number(&[("state", "active")], connections.active);
    out.number(&[("state", "idle")], connections.idle);

    out.begin(
        Kind::Gauge,
        "howdah_open_descriptors",
        "Number of descriptors that the router process has open at least",
    );
    process.descriptors.into_iter().for_each(|count| out.number(&[], count));
    out.begin(Kind::Gauge, "howdah_max_descriptors", "Limit of open descriptors of the process");
    process.max_descriptors.into_iter().for_each(|count| out.number(&[], count));

    out.begin(Kind::Gauge, "howdah_php_memory_used_bytes", "Memory of all PHP processes");
    out.number(&[], status.memory.used);
    out.begin(Kind::Gauge, "howdah_php_memory_budget_bytes", "Maximum of this memory, if set");
    status.memory.budget.into_iter().for_each(|budget| out.number(&[], budget));
}

fn lag(totals: &Totals, out: &mut Writer) {
    out.begin(
        Kind::Histogram,
        "howdah_event_loop_lag_seconds",
        "Delay after which a thread of the router has taken a command, as other work was first",
    );
    for (thread, lag) in totals.lag.iter().enumerate() {
        out.histogram(&[("thread", &thread.to_string())], lag);
    }
}

/// Writes a sample with the time of an HTTP date, if there is one.
fn put_date(date: Option<&str>, labels: &[(&str, &str)], out: &mut Writer) {
    let time = date.and_then(|date| howdah_text::date::parse_http(date.as_bytes()));
    time.into_iter().for_each(|time| out.number(labels, time));
}
