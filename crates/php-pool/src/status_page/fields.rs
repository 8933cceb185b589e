//! Fields of a status page, in order: those of PHP-FPM, then Howdah's.

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
    Percent(f64),
    /// Seconds since 1970.
    Time(u64),
}

use Value::{Number, Percent, Text, Time};

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
            Number(number) | Time(number) => number.to_string(),
            Percent(percent) => format!("{percent:.2}"),
        }
    }

    pub(super) fn into_json(self) -> Json {
        match self {
            Text(text) => text.into(),
            Number(number) | Time(number) => number.into(),
            Percent(percent) => ((percent * 100.0).round() / 100.0).into(),
        }
    }
}

/// Returns the fields of an application.
pub(super) fn of_pool(pool: &Pool) -> Vec<Field<'_>> {
    let status = &pool.status;
    let count = |number: u32| Number(number.into());
    vec![
        Field("pool", Text(pool.name.as_str().into())),
        Field("process manager", Text(status.manager.into())),
        Field("start time", Time(status.start_time)),
        Field("start since", Number(status.start_since())),
        Field("accepted conn", Number(status.accepted)),
        Field("listen queue", count(status.queued)),
        Field("max listen queue", count(status.max_queued)),
        Field("listen queue len", count(status.queue_limit)),
        Field("idle processes", count(status.idle)),
        Field("active processes", count(status.active)),
        Field("total processes", count(status.idle + status.active)),
        Field("max active processes", count(status.max_active)),
        Field("max children reached", Number(status.max_children_reached)),
        Field("slow requests", Number(status.slow)),
        Field("memory peak", Number(status.memory_peak)),
        Field("max processes", count(status.max_processes)),
        Field("waiting time", Number(status.waiting_time)),
        Field("max waiting time", Number(status.max_waiting_time)),
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
        Field("request id", Text(id.into())),
    ]
}

fn state(process: &ProcessStatus) -> Value<'static> {
    Text(if process.running { "Running" } else { "Idle" }.into())
}

fn or_dash(text: &str) -> Value<'_> {
    Text(if text.is_empty() { "-" } else { text }.into())
}
