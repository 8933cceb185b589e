//! OpenMetrics with the names and types of PHP-FPM, although OpenMetrics requires other names for
//! counters.

use std::fmt::Write;

use howdah_wire::frame::OpcacheUsage;

use super::fields::{Metric, rows_of_pool};
use super::pool::Pool;

/// Writes the metrics of an application.
pub(super) fn write(pool: &Pool) -> String {
    let mut out = String::new();
    let mut put = |prefix: &str, Metric { name, kind, help }: Metric, value: &str| {
        let name = format!("phpfpm_{prefix}{name}");
        let _ = write!(out, "# HELP {name} {help}.\n# TYPE {name} {kind}\n{name} {value}\n");
    };
    for row in rows_of_pool(pool) {
        if let Some(metric) = row.metric {
            put("", metric, &row.value.for_metrics());
        }
    }
    for (metric, value) in pool.status.opcache.iter().flat_map(opcache) {
        put("opcache_", metric, &value.to_string());
    }
    out.push_str("# EOF\n");
    out
}

/// Returns the metrics of OPcache.
fn opcache(state: &OpcacheUsage) -> [(Metric, u64); 8] {
    let gauge = |name, help, value| (Metric { name, kind: "gauge", help }, value);
    let counter = |name, help, value| (Metric { name, kind: "counter", help }, value);
    [
        gauge("enabled", "1 if OPcache keeps scripts", state.is_enabled.into()),
        gauge("used_bytes", "Memory of OPcache in use", state.used),
        gauge("free_bytes", "Free memory of OPcache", state.free),
        gauge("wasted_bytes", "Memory of scripts that have changed", state.wasted),
        gauge("scripts", "Scripts in OPcache", state.scripts),
        counter("hits", "Scripts that were found in OPcache", state.hits),
        counter("misses", "Scripts that were not found in OPcache", state.misses),
        counter("restarts", "Times that OPcache was emptied", state.restarts),
    ]
}
