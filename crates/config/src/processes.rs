//! `processes`: the number of processes that run an application.

use std::time::Duration;

use crate::error::Error;
use crate::key::{COUNT, Key, Kind, Shape};
use crate::node::{Node, default_of_reader};

/// `processes` of an application.
pub(crate) static PROCESSES: Shape = Shape {
    name: "processes",
    parts: &[&[
        Key::new("max", Kind::Integer(1, COUNT), "Maximum number of processes")
            .default("1")
            .details("PHP-FPM's `pm.max_children`")
            .unit(),
        Key::new(
            "start",
            Kind::Integer(0, COUNT),
            "Number of processes started before the first request",
        )
        .default("0")
        .details("PHP-FPM's `pm.start_servers`"),
        Key::new("spare", Kind::Integer(0, COUNT), "Number of idle processes that are kept ready")
            .default("0")
            .details("PHP-FPM's `pm.min_spare_servers`")
            .unit(),
        Key::new("max_spare", Kind::Integer(0, COUNT), "Maximum number of idle processes")
            .default("none")
            .details(
                "Further idle processes end within a second (PHP-FPM's `pm.max_spare_servers`)",
            ),
        Key::new(
            "idle_timeout",
            Kind::Seconds(0),
            "Seconds after which an idle process beyond `spare` ends",
        )
        .default("15, or none with `max_spare`")
        .details(
            "At once if memory is [short](../tuning.md#memory-pressure) (PHP-FPM's \
             `pm.process_idle_timeout`)",
        )
        .unit(),
        Key::new(
            "spawn_rate",
            Kind::Integer(1, COUNT),
            "Maximum number of processes that are started together",
        )
        .default("32")
        .details("First one, then twice as many each time (PHP-FPM's `pm.max_spawn_rate`)"),
        Key::new(
            "prototype_timeout",
            Kind::Seconds(0),
            "Seconds without any process after which PHP is unloaded",
        )
        .default("600 for one of several applications with `spare` 0, otherwise never")
        .details(
            "Earlier if memory is [short](../tuning.md#memory-pressure): the prototype ends, with \
             OPcache's contents. Programs that scripts have left running keep it until they end. \
             The next request loads PHP again",
        ),
    ]],
};

/// Idle timeout without `max_spare`.
const USUAL_IDLE_TIMEOUT: Duration = Duration::from_secs(15);

/// Number of processes that run an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processes {
    /// `"auto"`, the default: determined by memory and processors.
    Automatic,
    /// A fixed number.
    Static(u32),
    /// A number that follows the load.
    Dynamic(DynamicProcesses),
}

/// Bounds of a number of processes that follows the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DynamicProcesses {
    /// Maximum number of processes.
    pub max: u32,
    /// Number of processes started before the first request, even if `spare` is less.
    pub start: u32,
    /// Number of idle processes that are kept ready.
    pub spare: u32,
    /// Maximum number of idle processes.
    pub max_spare: Option<u32>,
    /// Time after which an idle process above `spare` ends.
    pub idle_timeout: Option<Duration>,
    /// Maximum number of processes that are started together.
    pub spawn_rate: u32,
    /// Time without processes after which the application's prototype ends, with OPcache's contents
    /// and the programs that scripts have left running; `None`: never.
    pub prototype_timeout: Option<Duration>,
}

default_of_reader!(DynamicProcesses, DynamicProcesses::read);

impl Processes {
    /// Returns the configured maximum; `None` if it is automatic.
    pub fn max(&self) -> Option<u32> {
        match self {
            Processes::Automatic => None,
            Processes::Static(count) => Some(*count),
            Processes::Dynamic(dynamic) => Some(dynamic.max),
        }
    }

    pub(crate) fn read(node: &Node<'_>) -> Result<Processes, Error> {
        if node.value.as_str() == Some("auto") {
            return Ok(Processes::Automatic);
        }
        if node.value.is_number() {
            return node.count(1).map(Processes::Static);
        }
        if !node.value.is_object() {
            return Err(node.wrong_type("an integer, an object or \"auto\""));
        }
        DynamicProcesses::read(node).map(Processes::Dynamic)
    }
}

impl DynamicProcesses {
    fn read(node: &Node<'_>) -> Result<DynamicProcesses, Error> {
        let object = node.object(&PROCESSES)?;
        let max: u32 = object.integer_or_default("max")?;
        let spare = object.integer_or_default("spare")?;
        let start = object.integer_or_default("start")?;
        let max_spare = object.integer("max_spare")?;
        // As for PHP-FPM, a maximum number of idle processes replaces the timeout.
        let usual_timeout = max_spare.is_none().then_some(USUAL_IDLE_TIMEOUT);
        let idle_timeout = object.seconds("idle_timeout")?.or(usual_timeout);
        let spawn_rate = object.integer_or_default("spawn_rate")?;
        let prototype_timeout = object.seconds("prototype_timeout")?;
        object.end()?;
        let max_or_none = max_spare.unwrap_or(0);
        for (name, value) in [("spare", spare), ("start", start), ("max_spare", max_or_none)] {
            if value > max {
                let message =
                    format!("has a \"{name}\" of {value}, which is more than its \"max\" of {max}");
                return Err(node.invalid(message));
            }
        }
        if let Some(most) = max_spare.filter(|most| *most < spare) {
            let message = format!(
                "has a \"max_spare\" of {most}, which is less than its \"spare\" of {spare}"
            );
            return Err(node.invalid(message));
        }
        Ok(DynamicProcesses {
            max,
            start,
            spare,
            max_spare,
            idle_timeout,
            spawn_rate,
            prototype_timeout,
        })
    }
}
