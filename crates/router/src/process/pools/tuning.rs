//! Explains the number of an application's processes.

use howdah_config::Processes;
use howdah_php_pool::automatic_sizing::LimitingFactor;
use howdah_questions::{Automatic, Measured, MoreMemory, Tuning};

use super::Pools;

impl Pools {
    /// Explains the number of an application's workers; `None` if the application does not exist.
    pub(in crate::process) fn tuning(&mut self, name: &str) -> Option<Tuning> {
        let memory = self.memory_report();
        let app = self.applications.iter().find(|app| app.config.name == name)?;
        let ((measured, decision), (prototype, processes)) =
            (app.sizing.explain(), app.memory_usage());
        let (configured, max) = match app.config.processes {
            Processes::Automatic => ("auto", decision.workers),
            Processes::Static(count) => ("static", count),
            Processes::Dynamic(dynamic) if dynamic.spare == 0 => ("ondemand", dynamic.max),
            Processes::Dynamic(dynamic) => ("dynamic", dynamic.max),
        };
        let short_of_memory = matches!(
            decision.limit,
            LimitingFactor::Memory | LimitingFactor::Share | LimitingFactor::Measurement
        ) && decision.by_memory.min(decision.by_share)
            < decision.by_processors;
        Some(Tuning {
            application: name.to_owned(),
            configured: configured.into(),
            max,
            running: app.workers(),
            problem: app.problem(),
            measured: Measured {
                processors: measured.processors,
                processors_idle: rounded(measured.idle),
                memory: measured.total,
                memory_budget: memory.budget,
                memory_used: memory.used,
                memory_for_processes: measured.room,
                memory_share: measured.share_bytes,
                memory_pressure: rounded(measured.pressure),
                process_peak: measured.cost,
                process_on_processor: rounded(measured.share.map(|share| share.running)),
                script_may_take: measured.max_worker_bytes,
                prototype,
                processes,
            },
            automatic: Automatic {
                processes: decision.workers,
                limit: word(decision.limit).into(),
                by_memory: decision.by_memory,
                by_processors: decision.by_processors,
                kept_free: decision.reserve.saturating_add(decision.script_reserve_bytes),
            },
            more_memory: short_of_memory.then(|| MoreMemory {
                processes: decision.by_processors,
                bytes: decision.missing_for(decision.by_processors, &measured),
            }),
        })
    }
}

fn rounded(share: Option<f64>) -> Option<f64> {
    share.map(|share| (share * 1000.0).round() / 1000.0)
}

fn word(limit: LimitingFactor) -> &'static str {
    match limit {
        LimitingFactor::Memory => "memory",
        LimitingFactor::Share => "share",
        LimitingFactor::Pressure => "pressure",
        LimitingFactor::Measurement => "measurement",
        LimitingFactor::Processors => "processors",
        LimitingFactor::Maximum => "max",
    }
}
