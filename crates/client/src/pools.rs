//! Pools of applications: their fields, and as text for `howdah status NAME`.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::output::printable;
use crate::status::columns;

/// The processes of a pool.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(super) struct Pool {
    /// The processes.
    pub(super) procs: Vec<Process>,
}

/// A process of a pool. The memory is in bytes, times are in microseconds.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(super) struct Process {
    pub(super) pid: u64,
    pub(super) state: String,
    pub(super) requests: u64,
    pub(super) request_duration: u64,
    pub(super) request_method: String,
    pub(super) request_uri: String,
    pub(super) query_string: String,
    pub(super) script: String,
    pub(super) memory: u64,
    pub(super) processor_time: u64,
}

/// Formats one pool: all fields, then the processes.
pub(super) fn describe(pool: &Map<String, Value>) -> String {
    let mut text = String::new();
    for (name, value) in pool {
        let number = value.as_u64().unwrap_or(0);
        let value = match (name.as_str(), value) {
            (_, Value::Array(_) | Value::Object(_)) => continue,
            ("start-time", _) => continue, // "start-since" says the same
            ("start-since", _) => duration(number * 1_000_000),
            ("waiting-time" | "max-waiting-time", _) => duration(number),
            ("memory-peak", _) => bytes(number),
            (_, Value::String(text)) => printable(text),
            (_, value) => value.to_string(),
        };
        text.push_str(&format!("{:<22}{value}\n", name.replace('-', " ") + ":"));
    }
    let procs = pool.get("procs").map(Vec::<Process>::deserialize);
    let procs = procs.and_then(Result::ok).unwrap_or_default();
    if !procs.is_empty() {
        let mut all = vec![PROCESS_HEADINGS.map(str::to_owned).to_vec()];
        all.extend(rows_of(procs));
        text.push('\n');
        text.push_str(&columns(&all, &[1, 5]));
    }
    text
}

const PROCESS_HEADINGS: [&str; 6] = ["PID", "STATE", "TIME", "REQUESTS", "MEMORY", "REQUEST"];

/// Returns a row for each process: first those with a request, the longest request first.
fn rows_of(mut processes: Vec<Process>) -> impl Iterator<Item = Vec<String>> {
    processes.sort_by_key(|process| {
        let is_idle = process.state != "Running";
        let longest_first = u64::MAX - process.request_duration;
        (is_idle, if is_idle { process.pid } else { longest_first })
    });
    processes.into_iter().map(|process| {
        let query = printable(&process.query_string);
        let question = if query.is_empty() { "" } else { "?" };
        let (method, uri) = (printable(&process.request_method), printable(&process.request_uri));
        vec![
            process.pid.to_string(),
            printable(&process.state),
            duration(process.request_duration),
            process.requests.to_string(),
            bytes(process.memory),
            format!("{method} {uri}{question}{query}"),
        ]
    })
}

/// Formats microseconds with two or three significant digits.
fn duration(micros: u64) -> String {
    match micros {
        0 => "0 s".to_owned(),
        1..1_000 => format!("{micros} us"),
        1_000..1_000_000 => format!("{} ms", micros / 1_000),
        1_000_000..60_000_000 => format!("{:.1} s", micros as f64 / 1e6),
        60_000_000..7_200_000_000 => format!("{} min", micros / 60_000_000),
        7_200_000_000..172_800_000_000 => format!("{} h", micros / 3_600_000_000),
        _ => format!("{} d", micros / 86_400_000_000),
    }
}

/// Formats bytes as mebibytes with one decimal.
fn bytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pools(accepted: u64) -> Value {
        let process = |pid: u64, state: &str, duration: u64| {
            json!({
                "pid": pid, "state": state, "requests": 7, "request-duration": duration,
                "request-method": "GET", "request-uri": "/a\u{1b}[2J", "query-string": "b=c",
                "memory": 12_582_912,
            })
        };
        json!({"blog": {
            "pool": "blog", "process-manager": "auto", "start-time": 1, "start-since": 90,
            "accepted-conn": accepted, "listen-queue": 3, "active-processes": 2,
            "idle-processes": 1,
            "total-processes": 3, "max-processes": 8, "slow-requests": 1, "waiting-time": 2_500_000,
            "memory-peak": 2_097_152,
            "procs": [process(5, "Idle", 900), process(9, "Running", 4_000),
                process(7, "Running", 61_000_000)],
        }})
    }

    #[test]
    fn an_application_is_described_with_its_processes() {
        let expected = "\
pool:                 blog
process manager:      auto
start since:          1 min
accepted conn:        10
listen queue:         3
active processes:     2
idle processes:       1
total processes:      3
max processes:        8
slow requests:        1
waiting time:         2.5 s
memory peak:          2.0 MiB

PID  STATE      TIME  REQUESTS    MEMORY  REQUEST
  7  Running   1 min         7  12.0 MiB  GET /a\u{fffd}[2J?b=c
  9  Running    4 ms         7  12.0 MiB  GET /a\u{fffd}[2J?b=c
  5  Idle     900 us         7  12.0 MiB  GET /a\u{fffd}[2J?b=c
";
        let text = describe(pools(10)["blog"].as_object().unwrap());
        let trimmed: String = text.lines().map(|line| line.trim_end().to_owned() + "\n").collect();
        assert_eq!(trimmed, expected);
    }
}
