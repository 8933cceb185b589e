//! Pools of applications as text, for `howdah status NAME` and `howdah top`.

use std::time::Duration;

use serde_json::Value;

use crate::output::printable;
use crate::status::{Use, columns, memory as memory_of_all};

/// Responses of `/pools` and `/status` with their time.
pub(super) struct Sample {
    /// The applications by name.
    pub(super) pools: Value,
    /// The status of the server.
    pub(super) status: Value,
    /// Time of the sample on a monotonic clock.
    pub(super) at: Duration,
}

/// Formats one pool: all fields, then the processes.
pub(super) fn describe(pool: &Value) -> String {
    let mut text = String::new();
    for (name, value) in pool.as_object().into_iter().flatten() {
        let value = match (name.as_str(), value) {
            (_, Value::Array(_) | Value::Object(_)) => continue,
            ("start-time", _) => continue, // "start-since" says the same
            ("start-since", _) => duration(number(pool, name) * 1_000_000),
            ("waiting-time" | "max-waiting-time", _) => duration(number(pool, name)),
            ("memory-peak", _) => bytes(number(pool, name)),
            (_, Value::String(text)) => printable(text),
            (_, value) => value.to_string(),
        };
        text.push_str(&format!("{:<22}{value}\n", name.replace('-', " ") + ":"));
    }
    let rows = processes(&[("", pool)]);
    if !rows.is_empty() {
        let headings = PROCESS_HEADINGS.iter().filter(|heading| **heading != "APPLICATION");
        let mut all = vec![headings.map(|heading| (*heading).to_owned()).collect()];
        all.extend(rows.into_iter().map(|mut row| {
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
    let pools: Vec<_> = { sample.pools.as_object().into_iter().flatten() }
        .map(|(name, pool)| (name.as_str(), pool))
        .collect();
    let sum = |key: &str| pools.iter().map(|(_, pool)| number(pool, key)).sum::<u64>();
    let mut lines = vec![
        format!(
            "howdah top (q quits)  {clock}  {} of {} processes active, {} waiting",
            sum("active-processes"),
            sum("total-processes"),
            sum("listen-queue"),
        ),
        match memory_of_all(&sample.status) {
            memory if memory.is_empty() => memory,
            memory => format!("PHP memory  {memory}"),
        },
    ];
    let mut rows = vec![POOL_HEADINGS.map(str::to_owned).to_vec()];
    rows.extend(pools.iter().map(|(name, pool)| {
        let of = |key: &str| number(pool, key).to_string();
        let php = Use::of(&sample.status, name);
        vec![
            printable(name),
            pool["process-manager"].as_str().map(printable).unwrap_or_default(),
            of("active-processes"),
            of("idle-processes"),
            of("max-processes"),
            of("listen-queue"),
            duration(number(pool, "waiting-time")),
            rate(sample, before, name),
            of("slow-requests"),
            bytes(memory(pool)),
            php.share,
            php.state,
        ]
    }));
    lines.extend(columns(&rows, &[0, 1, 11]).lines().map(str::to_owned));
    let mut rows = vec![PROCESS_HEADINGS.map(str::to_owned).to_vec()];
    rows.extend(processes(&pools));
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
fn processes(pools: &[(&str, &Value)]) -> Vec<Vec<String>> {
    let of_pool = |(name, pool): &(&str, &Value)| {
        let name = printable(name);
        let processes = pool["procs"].as_array().cloned().unwrap_or_default();
        processes.into_iter().map(move |process| (name.clone(), process))
    };
    let mut all: Vec<_> = pools.iter().flat_map(of_pool).collect();
    let is_idle = |process: &Value| process["state"] != "Running";
    all.sort_by_key(|(_, process)| {
        let longest_first = u64::MAX - number(process, "request-duration");
        let order = if is_idle(process) { number(process, "pid") } else { longest_first };
        (is_idle(process), order)
    });
    let row = |(name, process): (String, Value)| {
        let word = |key: &str| process[key].as_str().map(printable).unwrap_or_default();
        let query = word("query-string");
        let question = if query.is_empty() { "" } else { "?" };
        vec![
            number(&process, "pid").to_string(),
            name,
            word("state"),
            duration(number(&process, "request-duration")),
            number(&process, "requests").to_string(),
            bytes(number(&process, "memory")),
            format!("{} {}{question}{query}", word("request-method"), word("request-uri")),
        ]
    };
    all.into_iter().map(row).collect()
}

/// Returns requests per second since the previous sample.
fn rate(sample: &Sample, before: Option<&Sample>, name: &str) -> String {
    let accepted = |sample: &Sample| number(&sample.pools[name], "accepted-conn");
    let Some(before) = before.filter(|before| before.at < sample.at) else { return "-".to_owned() };
    // A lower count: the application was reconfigured meanwhile.
    let requests = accepted(sample).saturating_sub(accepted(before));
    format!("{:.0}", requests as f64 / (sample.at - before.at).as_secs_f64())
}

fn memory(pool: &Value) -> u64 {
    let processes = pool["procs"].as_array().into_iter().flatten();
    processes.map(|process| number(process, "memory")).sum()
}

fn number(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or(0)
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
            "accepted-conn": accepted, "listen-queue": 3, "active-processes": 2, "idle-processes": 1,
            "total-processes": 3, "max-processes": 8, "slow-requests": 1, "waiting-time": 2_500_000,
            "memory-peak": 2_097_152,
            "procs": [process(5, "Idle", 900), process(9, "Running", 4_000), process(7, "Running", 61_000_000)],
        }})
    }

    fn status() -> Value {
        json!({
            "memory": {"budget": 160 << 20, "used": 40 << 20},
            "php": {
                "blog": {"state": "loaded", "memory": {"prototype": 4 << 20, "processes": 36 << 20}},
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
        let text = describe(&pools(10)["blog"]);
        let trimmed: String = text.lines().map(|line| line.trim_end().to_owned() + "\n").collect();
        assert_eq!(trimmed, expected);
    }

    #[test]
    fn a_screen_has_rates_and_fits_its_size() {
        let sample = |accepted, seconds| Sample {
            pools: pools(accepted),
            status: status(),
            at: Duration::from_secs(seconds),
        };
        let lines = screen(&sample(110, 4), Some(&sample(10, 2)), "12:00:00", (100, 40));
        assert_eq!(lines[0], "howdah top (q quits)  12:00:00  2 of 3 processes active, 3 waiting");
        assert_eq!(
            lines[3],
            "blog         auto          2     1    8        3   2.5 s     50     1  36.0 MiB   25 %  loaded"
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
