//! OpenMetrics with the names and types of PHP-FPM, although OpenMetrics requires other names for
//! counters.

use std::fmt::Write;

use howdah_wire::frame::OpcacheUsage;

use super::pool::Pool;

/// Writes the metrics of an application.
pub(super) fn write(pool: &Pool) -> String {
    let status = &pool.status;
    let seconds = |micros: u64| format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    let number = |number: u32| number.to_string();
    let (idle, active) = (status.idle, status.active);
    let metrics: [(&str, &str, &str, String); 18] = [
        ("up", GAUGE, "1 where the status can be read", number(1)),
        (
            "start_since",
            COUNTER,
            "Seconds since the counting began",
            status.start_since().to_string(),
        ),
        ("accepted_connections", COUNTER, "Requests taken", status.accepted.to_string()),
        ("listen_queue", GAUGE, "Requests that wait for a worker", number(status.queued)),
        ("max_listen_queue", COUNTER, "The most that have waited", number(status.max_queued)),
        ("listen_queue_length", GAUGE, "The most that may wait", number(status.queue_limit)),
        ("idle_processes", GAUGE, "Workers without a request", number(idle)),
        ("active_processes", GAUGE, "Workers with a request", number(active)),
        ("total_processes", GAUGE, "Workers", number(idle + active)),
        ("max_active_processes", COUNTER, "The most with a request", number(status.max_active)),
        (
            "max_children_reached",
            COUNTER,
            "How often requests waited because there were as many workers as there may be",
            status.max_children_reached.to_string(),
        ),
        ("slow_requests", COUNTER, "Requests slower than the limit", status.slow.to_string()),
        (
            "given_up_requests",
            COUNTER,
            "Requests that had waited too long in an overloaded queue",
            status.given_up.to_string(),
        ),
        (
            "memory_peak",
            GAUGE,
            "The most bytes that a script has used",
            status.memory_peak.to_string(),
        ),
        (
            "max_processes",
            GAUGE,
            "The most workers that there may be",
            number(status.max_processes),
        ),
        ("waiting_seconds", GAUGE, "How long the oldest has waited", seconds(status.waiting_time)),
        (
            "max_waiting_seconds",
            GAUGE,
            "The longest that a request has waited",
            seconds(status.max_waiting_time),
        ),
        (
            "workers_memory_bytes",
            GAUGE,
            "Memory that the workers have for themselves; 0 unless asked for with \"full\"",
            status.processes.iter().map(|process| process.memory).sum::<u64>().to_string(),
        ),
    ];
    let mut out = String::new();
    for (name, kind, help, value) in metrics {
        let _ = write!(
            out,
            "# HELP phpfpm_{name} {help}.\n# TYPE phpfpm_{name} {kind}\nphpfpm_{name} {value}\n"
        );
    }
    for (name, kind, help, value) in status.opcache.iter().flat_map(opcache) {
        let _ = write!(
            out,
            "# HELP phpfpm_opcache_{name} {help}.\n# TYPE phpfpm_opcache_{name} {kind}\n\
             phpfpm_opcache_{name} {value}\n"
        );
    }
    out.push_str("# EOF\n");
    out
}

/// Returns the metrics of OPcache.
fn opcache(state: &OpcacheUsage) -> [(&'static str, &'static str, &'static str, u64); 8] {
    [
        ("enabled", GAUGE, "1 where OPcache keeps scripts", state.is_enabled.into()),
        ("used_bytes", GAUGE, "Memory of OPcache in use", state.used),
        ("free_bytes", GAUGE, "Memory of OPcache that is free", state.free),
        ("wasted_bytes", GAUGE, "Memory of scripts that have changed", state.wasted),
        ("scripts", GAUGE, "Scripts in OPcache", state.scripts),
        ("hits", COUNTER, "Scripts that were found in OPcache", state.hits),
        ("misses", COUNTER, "Scripts that were not found in OPcache", state.misses),
        ("restarts", COUNTER, "How often OPcache was emptied", state.restarts),
    ]
}

const GAUGE: &str = "gauge";
const COUNTER: &str = "counter";
