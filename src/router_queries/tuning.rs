//! The content of `/control/applications/NAME/tune`: the explanation of the number of processes.

use howdah_config::Processes;
use howdah_php_pool::sizing::LimitingFactor;
use howdah_router::process::Tuning;
use serde_json::{Value, json};

/// Returns the content for the application `name`. Sizes are in bytes; unknown values are null.
pub fn to_value(name: &str, tuning: &Tuning) -> Value {
    let Tuning { measured, decision, .. } = tuning;
    let round = |share: Option<f64>| share.map(|share| (share * 1000.0).round() / 1000.0);
    let (configured, max) = match tuning.processes {
        Processes::Automatic => ("auto", decision.workers),
        Processes::Static(count) => ("static", count),
        Processes::Dynamic(dynamic) if dynamic.spare == 0 => ("ondemand", dynamic.max),
        Processes::Dynamic(dynamic) => ("dynamic", dynamic.max),
    };
    let short_of_memory = matches!(
        decision.limit,
        LimitingFactor::Memory | LimitingFactor::Share | LimitingFactor::Measurement
    ) && decision.by_memory.min(decision.by_share) < decision.by_processors;
    let more = short_of_memory.then(|| {
        json!({
            "processes": decision.by_processors,
            "bytes": decision.missing_for(decision.by_processors, measured),
        })
    });
    json!({
        "application": name,
        "configured": configured,
        "max": max,
        "running": tuning.running,
        "problem": tuning.problem,
        "measured": {
            "processors": measured.processors,
            "processors_idle": round(measured.idle),
            "memory": measured.total,
            "memory_budget": tuning.memory.budget,
            "memory_used": tuning.memory.used,
            "memory_for_processes": measured.room,
            "memory_share": measured.share_bytes,
            "memory_pressure": round(measured.pressure),
            "process_peak": measured.cost,
            "process_on_processor": round(measured.share.map(|share| share.running)),
            "script_may_take": measured.max_worker_bytes,
            "prototype": tuning.prototype,
            "processes": tuning.workers,
        },
        "automatic": {
            "processes": decision.workers,
            "limit": match decision.limit {
                LimitingFactor::Memory => "memory",
                LimitingFactor::Share => "share",
                LimitingFactor::Pressure => "pressure",
                LimitingFactor::Measurement => "measurement",
                LimitingFactor::Processors => "processors",
                LimitingFactor::Maximum => "max",
            },
            "by_memory": decision.by_memory,
            "by_processors": decision.by_processors,
            "kept_free": decision.reserve.saturating_add(decision.script_reserve_bytes),
        },
        "more_memory": more,
    })
}
