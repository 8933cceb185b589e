//! Resources of an application's processes together: `cgroup` and `limits` of the isolation.

use std::path::PathBuf;

use howdah_text::fnv::fnv;

use crate::error::Error;
use crate::key::{Key, Kind, Shape};
use crate::node::Node;

/// The range of weights of the kernel.
const WEIGHT: Kind = Kind::Integer(1, 10_000);

/// The least memory of an application in bytes, as PHP takes about as much.
const MIN_MEMORY: i64 = 16 << 20;

/// Number of processes and threads, up to the maximum of the kernel: at least a prototype, a worker
/// and a program.
const TASKS: Kind = Kind::Integer(3, 4 << 20);

/// Numbers of processors, in thousandths: the kernel counts at least a millisecond in 100 ms.
const PROCESSORS: std::ops::RangeInclusive<f64> = 0.01..=4096.0;

/// Where the controller of a key is not there.
const REFUSED: &str = "Refused where the system cannot keep it";

/// `cgroup` of the isolation.
pub(crate) static CGROUP: Shape = Shape {
    name: "cgroup",
    parts: &[&[
        Key::new(
            "path",
            Kind::Text,
            "Path, below the server's own group unless it begins with a slash",
        )
        .details("A missing group is created, and removed with the application")
        .required()
        .unit(),
        Key::new("cpu_weight", WEIGHT, "Share of processor time beside other groups")
            .default("the system's (100)")
            .details(REFUSED),
        Key::new("io_weight", WEIGHT, "Share of disk operations beside other groups")
            .default("the system's (100)")
            .details(REFUSED),
        Key::new(
            "memory_max",
            Kind::Bytes(MIN_MEMORY),
            "Maximum memory in bytes, above which the kernel kills a process",
        )
        .default("none")
        .details(REFUSED),
        Key::new(
            "memory_high",
            Kind::Bytes(MIN_MEMORY),
            "Memory in bytes above which the kernel slows the processes down and takes memory \
             from them",
        )
        .default("none")
        .details(REFUSED),
        Key::new("cpu_max", Kind::Number, "Maximum number of processors, such as `0.5` or `2`")
            .default("none")
            .details(REFUSED),
        Key::new("pids_max", TASKS, "Maximum number of processes and threads")
            .default("none")
            .details(REFUSED),
    ]],
};

/// `limits` of the isolation.
pub(crate) static RESOURCES: Shape = Shape {
    name: "isolation_limits",
    parts: &[&[
        Key::new("memory", Kind::Bytes(MIN_MEMORY), "Maximum memory of all processes in bytes")
            .default("none")
            .details(
                "Above it the largest process is ended. OPcache and the start of PHP count once",
            ),
        Key::new(
            "cpu",
            Kind::Number,
            "Maximum number of processors that all processes use, such as `0.5` or `2`",
        )
        .default("none")
        .details("Without control groups: beyond it other applications come first"),
        Key::new("processes", TASKS, "Maximum number of processes and threads")
            .default("none")
            .details(
                "The prototype and the workers count, too. Without control groups, programs that \
                 scripts have started are ended beyond it",
            ),
    ]],
};

/// The control group of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlGroup {
    /// Its path, relative to the server's own group unless it starts with a slash.
    pub path: PathBuf,
    /// Its share of processor time beside other groups; the kernel's default is 100.
    pub cpu_weight: Option<u32>,
    /// Its share of disk input and output beside other groups; the kernel's default is 100.
    pub io_weight: Option<u32>,
    /// Bytes of memory above which the kernel kills a process.
    pub memory_max: Option<u64>,
    /// Bytes of memory above which the kernel slows processes down.
    pub memory_high: Option<u64>,
    /// Maximum processor time, in thousandths of a processor.
    pub cpu_max: Option<u32>,
    /// Maximum number of processes and threads.
    pub pids_max: Option<u32>,
}

/// Limits of all processes of an application together. The server keeps them by a control group, or
/// approximately by counting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceLimits {
    /// The control group of an application that names none, below the server's own.
    pub group: PathBuf,
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Processor time, in thousandths of a processor.
    pub cpu: Option<u32>,
    /// Number of processes and threads.
    pub processes: Option<u32>,
}

impl ControlGroup {
    pub(crate) fn read(node: &Node<'_>) -> Result<ControlGroup, Error> {
        let object = node.object(&CGROUP)?;
        let path = object.required("path")?;
        let text = path.text()?;
        if text.len() > 4000 || text.split('/').any(|segment| segment == "..") {
            return Err(path.invalid("must be a short path without \"..\""));
        }
        let group = ControlGroup {
            path: PathBuf::from(text),
            cpu_weight: object.integer("cpu_weight")?,
            io_weight: object.integer("io_weight")?,
            memory_max: object.bytes("memory_max")?,
            memory_high: object.bytes("memory_high")?,
            cpu_max: object.read("cpu_max", read_processors)?,
            pids_max: object.integer("pids_max")?,
        };
        object.end()?;
        Ok(group)
    }
}

impl ResourceLimits {
    /// Reads the limits of the application `name`.
    pub(crate) fn read(name: &str, node: &Node<'_>) -> Result<ResourceLimits, Error> {
        let object = node.object(&RESOURCES)?;
        let limits = ResourceLimits {
            group: group_of(name),
            memory: object.bytes("memory")?,
            cpu: object.read("cpu", read_processors)?,
            processes: object.integer("processes")?,
        };
        object.end()?;
        Ok(limits)
    }

    /// Returns true if there is no limit.
    pub(crate) fn is_empty(&self) -> bool {
        self.memory.is_none() && self.cpu.is_none() && self.processes.is_none()
    }
}

/// Reads a number of processors, as thousandths.
fn read_processors(node: &Node<'_>) -> Result<u32, Error> {
    let number = node.value.as_f64().ok_or_else(|| node.wrong_type("a number of processors"))?;
    if !PROCESSORS.contains(&number) {
        let (low, high) = (PROCESSORS.start(), PROCESSORS.end());
        let message = format!("must be a number of processors between {low} and {high}");
        return Err(node.invalid(message));
    }
    Ok((number * 1000.0).round() as u32)
}

/// Maximum length of a name in a path, in bytes: less than that of the kernel, 255.
const MAX_NAME_BYTES: usize = 180;

/// Returns the path of the control group of an application. No file of the kernel in a group has
/// such a name.
fn group_of(application: &str) -> PathBuf {
    let mut name = String::from("application-");
    for byte in application.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => name.push(byte.into()),
            _ => name.push_str(&format!("%{byte:02X}")),
        }
    }
    if name.len() > MAX_NAME_BYTES {
        // Names that begin alike differ by a checksum.
        let checksum = fnv(application.as_bytes());
        name.truncate(MAX_NAME_BYTES - 17);
        name.push_str(&format!("-{checksum:016x}"));
    }
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_application_has_a_group_of_its_own() {
        let name = |application| group_of(application).display().to_string();
        assert_eq!(name("shop.example"), "application-shop.example");
        assert_eq!(name("../a b/ü\n"), "application-..%2Fa%20b%2F%C3%BC%0A");
        let long = "x".repeat(300);
        let (one, other) = (name(&long), name(&format!("{long}y")));
        assert!(one != other && one.len() <= MAX_NAME_BYTES && one.starts_with("application-xxx"));
    }
}
