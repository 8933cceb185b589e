//! OpenMetrics with the names and types of PHP-FPM, although OpenMetrics requires other names for
//! counters.

use std::fmt::Write;

use howdah_wire::frame::OpcacheUsage;

use super::View;
use super::fields::{Metric, PHP_FPM_METRICS, rows_of_pool};
use super::pool::Pool;

/// Writes the metrics of an application.
pub(super) fn write(pool: &Pool, view: View) -> String {
    let mut out = String::new();
    let mut put = |prefix: &str, Metric { name, kind, help }: Metric, value: &str| {
        let name = format!("phpfpm_{prefix}{name}");
        let (help, kind) = (format!("# HELP {name} {help}\n"), format!("# TYPE {name} {kind}\n"));
        // As PHP-FPM writes them.
        let is_reversed = name == "phpfpm_listen_queue_length";
        let (first, second) = if is_reversed { (kind, help) } else { (help, kind) };
        let _ = writeln!(out, "{first}{second}{name} {value}");
    };
    let rows = rows_of_pool(pool).into_iter().filter_map(|row| Some((row.metric?, row.value)));
    let limit = if view == View::Howdah { usize::MAX } else { PHP_FPM_METRICS };
    for (metric, value) in rows.take(limit) {
        put("", metric, &value.for_metrics());
    }
    let opcaches = pool.status.opcache.iter().filter(|_| view == View::Howdah);
    for (metric, value) in opcaches.flat_map(opcache) {
        put("opcache_", metric, &value.to_string());
    }
    out.push_str("# EOF\n");
    out
}

/// Returns the metrics of OPcache.
fn opcache(state: &OpcacheUsage) -> [(Metric, u64); 8] {
    let metric = |name, kind, help: &'static str, value| {
        let help = format!("{help}.").into();
        (Metric { name, kind, help }, value)
    };
    let gauge = |name, help, value| metric(name, "gauge", help, value);
    let counter = |name, help, value| metric(name, "counter", help, value);
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
