//! Fields and metrics of a status page, in order: those of PHP-FPM, then Howdah's.

use std::borrow::Cow;

use howdah_http::message::ShownRequestId;
use howdah_sys::clock;
use serde_json::Value as Json;

use super::pool::Pool;
use crate::status::ProcessStatus;

/// A name and a value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field<'a>(pub(super) &'static str, pub(super) Value<'a>);

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value<'a> {
    /// Text that may come from a client: untrusted.
    Text(Cow<'a, str>),
    Number(u64),
    /// Microseconds; metrics have seconds.
    Micros(u64),
    Percent(f64),
    /// Seconds since 1970.
    Time(u64),
}

use Value::{Micros, Number, Percent, Text, Time};

impl Value<'_> {
    pub(super) fn for_people(&self) -> Cow<'_, str> {
        match self {
            Time(seconds) => {
                let mut date = String::new();
                clock::log_date(*seconds, &mut date);
                date.into()
            }
            value => value.for_programs().into(),
        }
    }

    pub(super) fn for_programs(&self) -> String {
        match self {
            Text(text) => text.to_string(),
            Number(number) | Micros(number) | Time(number) => number.to_string(),
            Percent(percent) => format!("{percent:.2}"),
        }
    }

    pub(super) fn for_metrics(&self) -> String {
        match self {
            Micros(micros) => format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000),
            value => value.for_programs(),
        }
    }

    pub(super) fn into_json(self) -> Json {
        match self {
            Text(text) => text.into(),
            Number(number) | Micros(number) | Time(number) => number.into(),
            Percent(percent) => ((percent * 100.0).round() / 100.0).into(),
        }
    }
}

/// A row of the status of an application: a field of the pages, a metric, or both.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row<'a> {
    /// Name of the field; `None` if the pages do not have it.
    field: Option<&'static str>,
    pub(super) value: Value<'a>,
    pub(super) metric: Option<Metric>,
}

/// A metric of OpenMetrics.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Metric {
    /// The name without the prefix `phpfpm_`.
    pub(super) name: &'static str,
    /// `counter` or `gauge`.
    pub(super) kind: &'static str,
    /// A description.
    pub(super) help: Cow<'static, str>,
}

impl Row<'_> {
    /// Shows the value as a metric that grows only, until the application restarts.
    fn counter(self, name: &'static str, help: &'static str) -> Self {
        Row { metric: Some(Metric { name, kind: "counter", help: help.into() }), ..self }
    }

    /// Shows the value as a metric that grows and shrinks.
    fn gauge(self, name: &'static str, help: impl Into<Cow<'static, str>>) -> Self {
        Row { metric: Some(Metric { name, kind: "gauge", help: help.into() }), ..self }
    }
}

fn row<'a>(field: &'static str, value: Value<'a>) -> Row<'a> {
    Row { field: Some(field), value, metric: None }
}

/// Returns a row that is a metric only.
fn metric(value: u64) -> Row<'static> {
    Row { field: None, value: Number(value), metric: None }
}

/// Number of PHP-FPM's fields: those of an application and, for scripts, those of a worker.
pub(super) const PHP_FPM: usize = 14;

/// Number of PHP-FPM's fields of a worker on its pages.
pub(super) const PHP_FPM_PROCESS: usize = 13;

/// Number of PHP-FPM's metrics.
pub(super) const PHP_FPM_METRICS: usize = 12;

/// Returns the fields of an application.
pub(super) fn of_pool(pool: &Pool) -> Vec<Field<'_>> {
    rows_of_pool(pool).into_iter().filter_map(|row| Some(Field(row.field?, row.value))).collect()
}

/// Returns all fields of an application: PHP-FPM's fields in its order, then Howdah's.
pub(super) fn rows_of_pool(pool: &Pool) -> Vec<Row<'_>> {
    let status = &pool.status;
    let count = |number: u32| Number(number.into());
    let memory = status.processes.iter().map(|process| process.memory).sum();
    let up =
        format!("Could pool {} using a {} PM on PHP-FPM be reached?", pool.name, status.manager);
    vec![
        // The descriptions are PHP-FPM's, too: collectors refuse a metric that has two.
        metric(1).gauge("up", up),
        row("pool", Text(pool.name.as_str().into())),
        row("process manager", Text(status.manager.into())),
        row("start time", Time(status.start_time)),
        row("start since", Number(status.start_since()))
            .counter("start_since", "The number of seconds since FPM has started."),
        row("accepted conn", Number(status.accepted))
            .counter("accepted_connections", "The number of requests accepted by the pool."),
        row("listen queue", count(status.queued))
            .gauge("listen_queue", "The number of requests in the queue of pending connections."),
        row("max listen queue", count(status.max_queued)).counter(
            "max_listen_queue",
            "The maximum number of requests in the queue of pending connections since FPM has started.",
        ),
        row("listen queue len", count(status.queue_limit))
            .gauge("listen_queue_length", "The size of the socket queue of pending connections."),
        row("idle processes", count(status.idle))
            .gauge("idle_processes", "The number of idle processes."),
        row("active processes", count(status.active))
            .gauge("active_processes", "The number of active processes."),
        row("total processes", count(status.idle + status.active))
            .gauge("total_processes", "The number of idle + active processes."),
        row("max active processes", count(status.max_active)).counter(
            "max_active_processes",
            "The maximum number of active processes since FPM has started.",
        ),
        row("max children reached", Number(status.max_children_reached)).counter(
            "max_children_reached",
            "The number of times, the process limit has been reached, when pm tries to start more \
             children (works only for pm 'dynamic' and 'ondemand').",
        ),
        row("slow requests", Number(status.slow)).counter(
            "slow_requests",
            "The number of requests that exceeded your 'request_slowlog_timeout' value.",
        ),
        metric(status.given_up).counter(
            "given_up_requests",
            "Requests refused because the queue was overloaded for too long.",
        ),
        row("memory peak", Number(status.memory_peak))
            .gauge("memory_peak", "Maximum memory of a script in bytes."),
        row("max processes", count(status.max_processes))
            .gauge("max_processes", "Configured maximum number of workers."),
        row("waiting time", Micros(status.waiting_time))
            .gauge("waiting_seconds", "Waiting time of the oldest request in the queue."),
        row("max waiting time", Micros(status.max_waiting_time))
            .gauge("max_waiting_seconds", "Maximum waiting time of a request since start."),
        metric(memory).gauge(
            "workers_memory_bytes",
            "Private memory of the workers; 0 unless the request has \"full\".",
        ),
    ]
}

/// Returns the fields of a worker.
pub(super) fn of_process(process: &ProcessStatus) -> Vec<Field<'_>> {
    let request = &process.request;
    let mut fields = vec![
        Field("pid", Number(process.pid.into())),
        Field("state", state(process)),
        Field("start time", Time(process.start_time)),
        Field("start since", Number(clock::wall_seconds().saturating_sub(process.start_time))),
        Field("requests", Number(process.requests)),
        Field("request duration", Number(request.duration)),
        Field("request method", or_dash(&request.method)),
        Field("request uri", or_dash(&request.target)),
        Field("content length", Number(request.length)),
    ];
    fields.extend(of_cost(process));
    fields
}

/// Returns the fields of a worker with the names of `fpm_get_status()`.
pub(super) fn for_php(process: &ProcessStatus) -> Vec<Field<'_>> {
    let mut fields = of_process(process);
    fields.truncate(fields.len() - of_cost(process).len() - 2);
    let (path, query) = match process.request.target.split_once('?') {
        Some((path, query)) => (path, query),
        None => (process.request.target.as_str(), ""),
    };
    fields.push(Field("request uri", or_dash(path)));
    fields.push(Field("query string", Text(query.into())));
    fields.push(Field("request length", Number(process.request.length)));
    fields.extend(of_cost(process));
    fields
}

fn of_cost(process: &ProcessStatus) -> Vec<Field<'_>> {
    let request = &process.request;
    let id = request.id.map(|id| ShownRequestId(id).to_string()).unwrap_or("-".to_owned());
    vec![
        Field("user", or_dash(&request.user)),
        Field("script", or_dash(&request.script)),
        Field("last request cpu", Percent(process.cpu_percent())),
        Field("last request memory", Number(request.memory)),
        Field("memory", Number(process.memory)),
        Field("processor time", Micros(process.cpu_time)),
        Field("request id", Text(id.into())),
    ]
}

fn state(process: &ProcessStatus) -> Value<'static> {
    Text(if process.running { "Running" } else { "Idle" }.into())
}

fn or_dash(text: &str) -> Value<'_> {
    Text(if text.is_empty() { "-" } else { text }.into())
}
