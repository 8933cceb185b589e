//! Pools of applications as text, for `howdah status NAME` and `howdah top`.

use std::time::Duration;

use howdah_questions::{Named, Status};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::output::printable;
use crate::status::{Use, columns, memory as memory_of_all};

/// Answers of `/pools` and `/status` with their time.
pub(super) struct Sample {
    /// The applications by name.
    pub(super) pools: Named<Pool>,
    /// The status of the server.
    pub(super) status: Status,
    /// Time of the sample on a monotonic clock.
    pub(super) at: Duration,
}

/// The fields of a pool that a screen shows. Times are in microseconds.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(super) struct Pool {
    process_manager: String,
    accepted_conn: u64,
    listen_queue: u64,
    active_processes: u64,
    idle_processes: u64,
    total_processes: u64,
    max_processes: u64,
    slow_requests: u64,
    waiting_time: u64,
    procs: Vec<Process>,
}

/// A process of a pool. The memory is in bytes, the time in microseconds.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Process {
    pid: u64,
    state: String,
    requests: u64,
    request_duration: u64,
    request_method: String,
    request_uri: String,
    query_string: String,
    memory: u64,
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
        let headings = PROCESS_HEADINGS.iter().filter(|heading| **heading != "APPLICATION");
        let mut all = vec![headings.map(|heading| (*heading).to_owned()).collect()];
        all.extend(rows_of(procs.iter().map(|process| ("", process)).collect()).map(|mut row| {
            row.remove(1);
            row
        }));
        text.push('\n');
        text.push_str(&columns(&all, &[1, 5]));
    }
    text
}

/// Returns the lines of a screen of this size, with rates since the previous sample.
pub(super) fn screen(
    sample: &Sample,
    before: Option<&Sample>,
    clock: &str,
    size: (usize, usize),
) -> Vec<String> {
    let (width, height) = size;
    let pools = &sample.pools;
    let sum = |number: fn(&Pool) -> u64| pools.values().map(number).sum::<u64>();
    let mut lines = vec![
        format!(
            "howdah top (q quits)  {clock}  {} of {} processes active, {} waiting",
            sum(|pool| pool.active_processes),
            sum(|pool| pool.total_processes),
            sum(|pool| pool.listen_queue),
        ),
        match memory_of_all(&sample.status) {
            memory if memory.is_empty() => memory,
            memory => format!("PHP memory  {memory}"),
        },
    ];
    let mut rows = vec![POOL_HEADINGS.map(str::to_owned).to_vec()];
    rows.extend(pools.iter().map(|(name, pool)| {
        let php = Use::of(&sample.status, name);
        vec![
            printable(name),
            printable(&pool.process_manager),
            pool.active_processes.to_string(),
            pool.idle_processes.to_string(),
            pool.max_processes.to_string(),
            pool.listen_queue.to_string(),
            duration(pool.waiting_time),
            rate(sample, before, name),
            pool.slow_requests.to_string(),
            bytes(pool.procs.iter().map(|process| process.memory).sum()),
            php.share,
            php.state,
        ]
    }));
    lines.extend(columns(&rows, &[0, 1, 11]).lines().map(str::to_owned));
    let mut rows = vec![PROCESS_HEADINGS.map(str::to_owned).to_vec()];
    let processes = pools
        .iter()
        .flat_map(|(name, pool)| pool.procs.iter().map(move |process| (name.as_str(), process)));
    rows.extend(rows_of(processes.collect()));
    lines.push(String::new());
    lines.extend(columns(&rows, &[1, 2, 6]).lines().map(str::to_owned));
    lines.truncate(height);
    lines.iter().map(|line| line.trim_end().chars().take(width).collect()).collect()
}

const POOL_HEADINGS: [&str; 12] = [
    "APPLICATION",
    "MANAGER",
    "ACTIVE",
    "IDLE",
    "MAX",
    "WAITING",
    "OLDEST",
    "REQ/S",
    "SLOW",
    "MEMORY",
    "SHARE",
    "STATE",
];
const PROCESS_HEADINGS: [&str; 7] =
    ["PID", "APPLICATION", "STATE", "TIME", "REQUESTS", "MEMORY", "REQUEST"];

/// Returns a row for each process: first those with a request, the longest request first.
fn rows_of(mut processes: Vec<(&str, &Process)>) -> impl Iterator<Item = Vec<String>> {
    processes.sort_by_key(|(_, process)| {
        let is_idle = process.state != "Running";
        let longest_first = u64::MAX - process.request_duration;
        (is_idle, if is_idle { process.pid } else { longest_first })
    });
    processes.into_iter().map(|(name, process)| {
        let query = printable(&process.query_string);
        let question = if query.is_empty() { "" } else { "?" };
        let (method, uri) = (printable(&process.request_method), printable(&process.request_uri));
        vec![
            process.pid.to_string(),
            printable(name),
            printable(&process.state),
            duration(process.request_duration),
            process.requests.to_string(),
            bytes(process.memory),
            format!("{method} {uri}{question}{query}"),
        ]
    })
}

/// Returns requests per second since the previous sample.
fn rate(sample: &Sample, before: Option<&Sample>, name: &str) -> String {
    let accepted = |sample: &Sample| sample.pools.get(name).map_or(0, |pool| pool.accepted_conn);
    let Some(before) = before.filter(|before| before.at < sample.at) else { return "-".to_owned() };
    // A lower count: the application was reconfigured meanwhile.
    let requests = accepted(sample).saturating_sub(accepted(before));
    format!("{:.0}", requests as f64 / (sample.at - before.at).as_secs_f64())
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

    fn status() -> Value {
        json!({
            "memory": {"budget": 160 << 20, "used": 40 << 20},
            "php": {
                "blog": {"state": "loaded",
                    "memory": {"prototype": 4 << 20, "processes": 36 << 20}},
            },
        })
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

    #[test]
    fn a_screen_has_rates_and_fits_its_size() {
        let sample = |accepted, seconds| Sample {
            pools: serde_json::from_value(pools(accepted)).unwrap(),
            status: serde_json::from_value(status()).unwrap(),
            at: Duration::from_secs(seconds),
        };
        let lines = screen(&sample(110, 4), Some(&sample(10, 2)), "12:00:00", (100, 40));
        assert_eq!(lines[0], "howdah top (q quits)  12:00:00  2 of 3 processes active, 3 waiting");
        assert_eq!(
            lines[3],
            "blog         auto          2     1    8        3   2.5 s     50     1  36.0 MiB   25 \
             %  loaded"
        );
        assert_eq!(lines[1], "PHP memory  40 MB of a budget of 160 MB");
        let narrow = screen(&sample(110, 4), None, "", (72, 40));
        assert!(narrow.iter().all(|line| line.chars().count() <= 72), "{narrow:?}");
        assert_eq!(lines.len(), 9);
        assert!(lines[6].starts_with("  7  blog"), "{lines:?}");
        assert_eq!(screen(&sample(1, 1), None, "", (40, 4)).len(), 4);
        assert!(lines.iter().all(|line| !line.contains('\u{1b}')));
    }
}
