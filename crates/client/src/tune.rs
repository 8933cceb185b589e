//! `howdah tune`: explains the number of processes of an application.

use std::fmt::Write;

use serde_json::Value;

use crate::status::size;

/// Returns the text for a response of `/control/applications/NAME/tune`.
pub(super) fn explain(tuning: &Value) -> String {
    let at = |pointer: &str| tuning.pointer(pointer);
    let number = |pointer: &str| at(pointer).and_then(Value::as_u64).unwrap_or(0);
    let word = |pointer: &str| at(pointer).and_then(Value::as_str).unwrap_or_default();
    let bytes = |pointer: &str| at(pointer).and_then(Value::as_u64).map(size);
    let percent = |pointer: &str, factor: f64| {
        at(pointer).and_then(Value::as_f64).map(|share| format!("{:.0} %", share * factor))
    };
    let unknown = || "not measured yet".to_owned();
    let (max, automatic) = (number("/max"), number("/automatic/processes"));

    let name = crate::output::printable(word("/application"));
    let mut text = match word("/configured") {
        "auto" => format!("{name}: at most {}", processes(max)),
        "static" => format!("{name}: always {}, as configured", processes(max)),
        _ => format!("{name}: at most {}, as configured", processes(max)),
    };
    let _ = writeln!(text, "; {} now", number("/running"));
    if let Some(problem) = at("/problem").and_then(Value::as_str) {
        let _ = writeln!(text, "Problem: {}", crate::output::one_line(problem));
    }
    text.push_str("\nMeasured\n");
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<22}{value}");
    };
    let idle = percent("/measured/processors_idle", 100.0);
    let idle = idle.map(|idle| format!(", {idle} idle")).unwrap_or_default();
    row("Processors", format!("{}{idle}", number("/measured/processors")));
    let total = bytes("/measured/memory").unwrap_or_default();
    let room = bytes("/measured/memory_for_processes").unwrap_or_default();
    row("Memory", format!("{total}, of which {room} for processes"));
    if let Some(budget) = bytes("/measured/memory_budget") {
        let used = bytes("/measured/memory_used").unwrap_or_default();
        row("Budget", format!("{budget} for all applications, which have {used}"));
    }
    if let Some(share) = bytes("/measured/memory_share") {
        row("Share", format!("{share} for processes, as other applications have requests"));
    }
    if let Some(pressure) = percent("/measured/memory_pressure", 1.0).filter(|p| p != "0 %") {
        row("Memory pressure", format!("processes wait for memory {pressure} of the time"));
    }
    row("A process, at most", bytes("/measured/process_peak").unwrap_or_else(unknown));
    let share = percent("/measured/process_on_processor", 100.0);
    let share = share.map(|share| format!("{share} of the time, otherwise it waits"));
    row("  on a processor", share.unwrap_or_else(unknown));
    let script = bytes("/measured/script_may_take").unwrap_or_default();
    row("  could take", format!("{script}, from memory_limit"));
    let (prototype, all) = (bytes("/measured/prototype"), bytes("/measured/processes"));
    let (prototype, all) = (prototype.unwrap_or_default(), all.unwrap_or_default());
    row("Prototype, processes", format!("{prototype}, {all} (PSS)"));

    let _ = write!(text, "\nAutomatic sizing\n");
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<22}{value}");
    };
    let kept = bytes("/automatic/kept_free").unwrap_or_default();
    let by_memory = processes(number("/automatic/by_memory"));
    row("Memory is for", format!("{by_memory}; {kept} stay free for a script that takes much"));
    row("Processors are for", processes(number("/automatic/by_processors")));
    let why = match word("/automatic/limit") {
        "memory" => "more would not fit into memory",
        "share" => "more would take the memory that other applications need",
        "pressure" => "memory is under pressure already",
        "measurement" => "more are measured first",
        "processors" => "more would only wait for processors",
        _ => "there are never more",
    };
    row("Chosen", format!("{}: {why}", processes(automatic)));
    let more = match (bytes("/more_memory/bytes"), number("/more_memory/processes")) {
        (Some(bytes), more) => format!("{bytes} more would allow {}", processes(more)),
        (None, _) => "more would change nothing".to_owned(),
    };
    row("More memory", more);

    let _ = write!(text, "\nFor PHP-FPM (www.conf)\n{}", fpm(word("/configured"), max));
    text
}

/// Returns the nearest pool settings of PHP-FPM.
fn fpm(configured: &str, max: u64) -> String {
    if configured == "static" {
        return format!("  pm = static\n  pm.max_children = {max}\n");
    }
    if configured == "ondemand" {
        return format!("  pm = ondemand\n  pm.max_children = {max}\n");
    }
    let (least, most) = ((max / 4).max(1), (max / 2).max(1));
    let start = (least + most) / 2;
    format!(
        "  pm = dynamic\n  pm.max_children = {max}\n  pm.start_servers = {start}\n  \
         pm.min_spare_servers = {least}\n  pm.max_spare_servers = {most}\n"
    )
}

fn processes(count: u64) -> String {
    match count {
        1 => "1 process".to_owned(),
        count => format!("{count} processes"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_measured_and_chosen_is_explained() {
        let text = explain(&json!({
            "application": "blog\u{1b}", "configured": "auto", "max": 6, "running": 4,
            "measured": {
                "processors": 4, "processors_idle": 0.31, "memory": 536_870_912,
                "memory_for_processes": 419_430_400, "memory_pressure": 0.0,
                "memory_budget": 536_870_912, "memory_used": 314_572_800,
                "memory_share": 367_001_600,
                "process_peak": 62_914_560, "process_on_processor": 0.62,
                "script_may_take": 146_800_640, "prototype": 20_971_520, "processes": 209_715_200,
            },
            "automatic": {
                "processes": 6, "limit": "memory", "by_memory": 6, "by_processors": 11,
                "kept_free": 83_886_080,
            },
            "more_memory": { "processes": 11, "bytes": 314_572_800 },
        }));
        assert_eq!(
            text,
            "\
blog\u{fffd}: at most 6 processes; 4 now

Measured
  Processors            4, 31 % idle
  Memory                512 MB, of which 400 MB for processes
  Budget                512 MB for all applications, which have 300 MB
  Share                 350 MB for processes, as other applications have requests
  A process, at most    60 MB
    on a processor      62 % of the time, otherwise it waits
    could take          140 MB, from memory_limit
  Prototype, processes  20 MB, 200 MB (PSS)

Automatic sizing
  Memory is for         6 processes; 80 MB stay free for a script that takes much
  Processors are for    11 processes
  Chosen                6 processes: more would not fit into memory
  More memory           300 MB more would allow 11 processes

For PHP-FPM (www.conf)
  pm = dynamic
  pm.max_children = 6
  pm.start_servers = 2
  pm.min_spare_servers = 1
  pm.max_spare_servers = 3
"
        );
    }

    #[test]
    fn what_is_not_known_is_not_invented() {
        let text = explain(&Value::Null);
        assert!(text.contains("A process, at most    not measured yet"), "{text}");
        let fixed = json!({"application": "a", "configured": "static", "max": 1});
        let text = explain(&fixed);
        assert!(text.starts_with("a: always 1 process, as configured; 0 now"), "{text}");
        assert!(text.ends_with("  pm = static\n  pm.max_children = 1\n"), "{text}");
    }

    #[test]
    fn php_fpm_takes_the_settings_for_every_number() {
        for max in 1..200 {
            let text = fpm("auto", max);
            let values: Vec<u64> =
                text.lines().filter_map(|line| line.split(" = ").nth(1)?.parse().ok()).collect();
            let [max, start, least, most] = values[..] else { panic!("{text}") };
            assert!(1 <= least && least <= start && start <= most && most <= max, "{text}");
        }
    }
}
