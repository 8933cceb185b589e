//! `howdah tune`: explains the number of processes of an application.

use std::fmt::Write;

use howdah_questions::{MoreMemory, Tuning};

use crate::output::{one_line, printable};
use crate::status::size;

/// Returns the text for a response of `/control/applications/NAME/tune`.
pub(super) fn explain(tuning: &Tuning) -> String {
    let Tuning { measured, automatic, .. } = tuning;
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let unknown = || "not measured yet".to_owned();

    let name = printable(&tuning.application);
    let max = processes(tuning.max);
    let mut text = match &*tuning.configured {
        "auto" => format!("{name}: at most {max}"),
        "static" => format!("{name}: always {max}, as configured"),
        _ => format!("{name}: at most {max}, as configured"),
    };
    let _ = writeln!(text, "; {} now", tuning.running);
    if let Some(problem) = &tuning.problem {
        let _ = writeln!(text, "Problem: {}", one_line(problem));
    }
    text.push_str("\nMeasured\n");
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<22}{value}");
    };
    let idle = measured.processors_idle.map(|idle| format!(", {} idle", percent(idle)));
    row("Processors", format!("{}{}", measured.processors, idle.unwrap_or_default()));
    let (total, room) = (size(measured.memory), size(measured.memory_for_processes));
    row("Memory", format!("{total}, of which {room} for processes"));
    if let Some(budget) = measured.memory_budget.map(size) {
        let used = size(measured.memory_used);
        row("Budget", format!("{budget} for all applications, which have {used}"));
    }
    if let Some(share) = measured.memory_share.map(size) {
        row("Share", format!("{share} for processes, as other applications have requests"));
    }
    let pressure = measured.memory_pressure.map(|pressure| format!("{pressure:.0} %"));
    if let Some(pressure) = pressure.filter(|pressure| pressure != "0 %") {
        row("Memory pressure", format!("processes wait for memory {pressure} of the time"));
    }
    row("A process, at most", measured.process_peak.map_or_else(unknown, size));
    let share = measured.process_on_processor.map(percent);
    let share = share.map(|share| format!("{share} of the time, otherwise it waits"));
    row("  on a processor", share.unwrap_or_else(unknown));
    row("  could take", format!("{}, from memory_limit", size(measured.script_may_take)));
    let (prototype, all) = (size(measured.prototype), size(measured.processes));
    row("Prototype, processes", format!("{prototype}, {all} (PSS)"));

    let _ = write!(text, "\nAutomatic sizing\n");
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<22}{value}");
    };
    let (kept, by_memory) = (size(automatic.kept_free), processes(automatic.by_memory));
    row("Memory is for", format!("{by_memory}; {kept} stay free for a script that takes much"));
    row("Processors are for", processes(automatic.by_processors));
    let why = match &*automatic.limit {
        "memory" => "more would not fit into memory",
        "share" => "more would take the memory that other applications need",
        "pressure" => "memory is under pressure already",
        "measurement" => "more are measured first",
        "processors" => "more would only wait for processors",
        _ => "there are never more",
    };
    row("Chosen", format!("{}: {why}", processes(automatic.processes)));
    let more = tuning.more_memory.map(|MoreMemory { processes: more, bytes }| {
        format!("{} more would allow {}", size(bytes), processes(more))
    });
    row("More memory", more.unwrap_or_else(|| "more would have no effect".to_owned()));

    let _ = write!(text, "\nFor PHP-FPM (www.conf)\n{}", fpm(&tuning.configured, tuning.max));
    text
}

/// Returns the nearest pool settings of PHP-FPM.
fn fpm(configured: &str, max: u32) -> String {
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

fn processes(count: u32) -> String {
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
        let tuning = json!({
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
        });
        let text = explain(&serde_json::from_value(tuning).unwrap());
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
        let text = explain(&Tuning::default());
        assert!(text.contains("A process, at most    not measured yet"), "{text}");
        let fixed = json!({"application": "a", "configured": "static", "max": 1});
        let text = explain(&serde_json::from_value(fixed).unwrap());
        assert!(text.starts_with("a: always 1 process, as configured; 0 now"), "{text}");
        assert!(text.ends_with("  pm = static\n  pm.max_children = 1\n"), "{text}");
    }

    #[test]
    fn php_fpm_takes_the_settings_for_every_number() {
        for max in 1..200 {
            let text = fpm("auto", max);
            let values: Vec<u32> =
                text.lines().filter_map(|line| line.split(" = ").nth(1)?.parse().ok()).collect();
            let [max, start, least, most] = values[..] else { panic!("{text}") };
            assert!(1 <= least && least <= start && start <= most && most <= max, "{text}");
        }
    }
}
