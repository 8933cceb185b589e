//! Processors and memory of the machine at this moment, within the limits of the server's control
//! groups.
//!
//! Available memory is free memory and memory that can be freed without harm: half of the recently
//! used files count as needed. Swap does not count, as the server must not cause swapping.

use std::fs;
use std::path::{Path, PathBuf};

use howdah_config::MemoryBudget;
use howdah_php_pool::automatic_sizing::meter::MachineState;
use howdah_wire::messages::SERVER_GROUP;

/// Reads the state of the machine.
#[derive(Debug)]
pub(super) struct Machine {
    /// Configured maximum memory of all PHP processes.
    pub(super) budget: Option<MemoryBudget>,
    /// Root directory of the files that are read: `/` except in tests.
    root: PathBuf,
    /// Idle and total processor time in ticks at the last reading that counted.
    last_ticks: Option<(u64, u64)>,
    /// Share of the processor time that was idle before that reading, from 0 to 1.
    idle: Option<f64>,
}

/// Memory of the machine or of a control group, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Memory {
    total: u64,
    available: u64,
}

/// Memory of a machine that does not report it.
const UNKNOWN_MEMORY: Memory = Memory { total: 1 << 30, available: 512 << 20 };

/// Value in bytes from which on a limit counts as no limit.
const NO_LIMIT: u64 = 1 << 60;

/// Minimum number of ticks between two readings of the idle time. A hundred are a second of one
/// processor.
const MIN_TICKS: u64 = 20;

/// Maximum depth of nested control groups.
const MAX_DEPTH: usize = 64;

impl Default for Machine {
    fn default() -> Self {
        Machine { budget: None, root: "/".into(), last_ticks: None, idle: None }
    }
}

impl Machine {
    /// Returns the state of the machine for processes, in the control group `group` if they have
    /// one of their own. A value that cannot be read is unknown, or [`UNKNOWN_MEMORY`].
    pub(super) fn state(&mut self, group: Option<&Path>) -> MachineState {
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        let groups = self.groups(group);
        let limited = groups.iter().filter_map(|group| Some((of_group(group)?, Some(group))));
        let all: Vec<_> = limited.chain(self.whole().map(|memory| (memory, None))).collect();
        let size = all.iter().map(|(memory, _)| memory.total).min().unwrap_or(UNKNOWN_MEMORY.total);
        let binding = all.into_iter().min_by_key(|(memory, _)| memory.available);
        let (memory, group) = binding.unwrap_or((UNKNOWN_MEMORY, None));
        // Pressure outside of the group does not matter here.
        let pressure = match group {
            Some(group) => fs::read_to_string(group.join("memory.pressure")).ok(),
            None => self.read("proc/pressure/memory"),
        };
        MachineState {
            processors,
            total: memory.total,
            available: memory.available,
            reserved_bytes: 0,
            pressure: pressure.and_then(|text| pressure_of(&text)),
            idle: self.idle(),
            budget: self.budget.map(|budget| budget.bytes(size)),
            own_group: None,
        }
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root.join(path)).ok()
    }

    fn whole(&self) -> Option<Memory> {
        let text = self.read("proc/meminfo")?;
        let field = |name: &str| -> Option<u64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
        };
        Some(Memory { total: field("MemTotal:")?, available: field("MemAvailable:")? })
    }

    /// Returns the share of the processors' time that was idle lately, from 0 to 1.
    fn idle(&mut self) -> Option<f64> {
        let text = self.read("proc/stat")?;
        let times = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
        // Guests' time, from the ninth field on, is in the user's already.
        let times: Vec<u64> = times.take(8).map_while(|time| time.parse().ok()).collect();
        let all = times.iter().fold(0u64, |sum, time| sum.saturating_add(*time));
        let idle = times.get(3)?.saturating_add(*times.get(4)?);
        let (before_idle, before) = *self.last_ticks.get_or_insert((idle, all));
        let passed = all.saturating_sub(before);
        if passed >= MIN_TICKS {
            self.last_ticks = Some((idle, all));
            self.idle = Some(idle.saturating_sub(before_idle) as f64 / passed as f64);
        }
        self.idle
    }

    /// Returns the directories of the memory control groups of this process, or of its child
    /// processes in `group`; the innermost first.
    fn groups(&self, group: Option<&Path>) -> Vec<PathBuf> {
        let (Some(of_process), Some(mounts)) =
            (self.read("proc/self/cgroup"), self.read("proc/self/mountinfo"))
        else {
            return Vec::new();
        };
        for line in of_process.lines() {
            let mut fields = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            let is_memory = controllers.split(',').any(|controller| controller == "memory");
            if !is_memory && !controllers.is_empty() {
                continue;
            }
            let Some((within, mounted)) =
                mounts.lines().find_map(|mount| hierarchy(mount, is_memory))
            else {
                continue;
            };
            // In a container the path is often not below the mounted part: then that is the group.
            let below = path.strip_prefix(within.trim_end_matches('/')).unwrap_or("");
            let mounted = self.root.join(mounted.trim_start_matches('/'));
            let own = mounted.join(below.trim_start_matches('/'));
            // `group` is of version 2: below this one, or with a path from the root.
            let innermost = match group.filter(|_| !is_memory) {
                Some(group) => match group.strip_prefix("/") {
                    Ok(path) => mounted.join(path),
                    Err(_) if own.ends_with(SERVER_GROUP) => own.with_file_name(group),
                    Err(_) => own.join(group),
                },
                None => own,
            };
            let innermost = if innermost.is_dir() { innermost.as_path() } else { &mounted };
            let groups: Vec<_> = innermost
                .ancestors()
                .take_while(|group| group.starts_with(&mounted))
                .take(MAX_DEPTH)
                .filter(|group| group.join("memory.stat").exists())
                .map(Path::to_owned)
                .collect();
            if !groups.is_empty() {
                return groups;
            }
        }
        Vec::new()
    }
}

/// Parses a line of `mountinfo`. Returns the mounted part of the hierarchy and its mount point, if
/// it is the hierarchy of the memory controller (`is_memory`, version 1) or the unified one
/// (version 2).
fn hierarchy(mount: &str, is_memory: bool) -> Option<(&str, &str)> {
    let (fields, kind) = mount.split_once(" - ")?;
    let mut fields = fields.split(' ').skip(3);
    let (within, mounted) = (fields.next()?, fields.next()?);
    let mut kind = kind.split(' ');
    let (name, options) = (kind.next()?, kind.nth(1)?);
    let fits = match name {
        "cgroup" => is_memory && options.split(',').any(|option| option == "memory"),
        "cgroup2" => !is_memory,
        _ => false,
    };
    fits.then_some((within, mounted))
}

/// Returns the memory of a control group; `None` if it has no limit of its own.
fn of_group(group: &Path) -> Option<Memory> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
    // Beyond `memory.high` processes are slowed down, so it is a limit as well. Version 1 has
    // another name, and counts nested groups in fields with the prefix `total_`.
    let limits = ["memory.max", "memory.high", "memory.limit_in_bytes"].map(number);
    let total = limits.into_iter().flatten().min().filter(|limit| *limit < NO_LIMIT)?;
    let used = number("memory.current").or_else(|| number("memory.usage_in_bytes"))?;
    let stat = read("memory.stat")?;
    let field = |name: &str| {
        let of_line = |line: &str| -> Option<(bool, u64)> {
            let (field, value) = line.split_once(' ')?;
            let whole = field.strip_prefix("total_");
            (whole.unwrap_or(field) == name).then_some((whole.is_some(), value.parse().ok()?))
        };
        stat.lines().filter_map(of_line).max().map_or(0, |(_, value)| value)
    };
    let half_needed = field("active_file").saturating_add(field("slab_reclaimable")) / 2;
    let freed = field("inactive_file").saturating_add(half_needed).min(used);
    Some(Memory { total, available: total.saturating_sub(used - freed) })
}

/// Parses the share of the last ten seconds in which a process waited for memory, in percent.
fn pressure_of(text: &str) -> Option<f64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some avg10="))?;
    some.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a machine of 2 GiB with half of it available, and these files.
    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Machine) {
        let directory = tempfile::tempdir().unwrap();
        let meminfo = "MemTotal:  2097152 kB\nMemFree: 1 kB\nMemAvailable:  1048576 kB\n";
        for (name, text) in [("proc/meminfo", meminfo)].iter().chain(files) {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let machine = Machine { root: directory.path().to_owned(), ..Machine::default() };
        (directory, machine)
    }

    const MIB: u64 = 1 << 20;
    const UNIFIED: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";

    #[test]
    fn without_control_groups_it_is_the_whole_machine() {
        let (_directory, mut machine) = machine(&[("proc/stat", "cpu  10 0 10 70 10 0 0 0 0 0\n")]);
        let found = machine.state(None);
        assert_eq!((found.total, found.available), (2048 * MIB, 1024 * MIB));
        assert_eq!((found.pressure, found.idle), (None, None));
        fs::write(machine.root.join("proc/stat"), "cpu  80 0 10 90 20 0 0 0 0 0\n").unwrap();
        assert_eq!(machine.state(None).idle, Some(0.3));
        assert_eq!(machine.state(None).idle, Some(0.3), "no time has passed");
    }

    #[test]
    fn the_tightest_of_all_groups_above_binds() {
        let (_directory, mut machine) = machine(&[
            ("proc/self/cgroup", "0::/site/howdah\n"),
            ("proc/self/mountinfo", UNIFIED),
            ("sys/fs/cgroup/memory.stat", ""),
            ("sys/fs/cgroup/site/memory.max", "536870912\n"),
            ("sys/fs/cgroup/site/memory.high", "max\n"),
            ("sys/fs/cgroup/site/memory.current", "419430400\n"),
            (
                "sys/fs/cgroup/site/memory.stat",
                "anon 1\ninactive_file 52428800\n\
              active_file 20971520\nslab_reclaimable 20971520\n",
            ),
            ("sys/fs/cgroup/site/howdah/memory.max", "max\n"),
            ("sys/fs/cgroup/site/howdah/memory.current", "1\n"),
            ("sys/fs/cgroup/site/howdah/memory.stat", ""),
            ("proc/pressure/memory", "some avg10=99.00 avg60=1.00\nfull"),
            ("sys/fs/cgroup/site/memory.pressure", "some avg10=12.50 avg60=1.00\nfull"),
        ]);
        let found = machine.state(None);
        assert_eq!((found.total, found.available), (512 * MIB, (512 - 400 + 50 + 20) * MIB));
        assert_eq!(found.pressure, Some(12.5));
        machine.budget = Some(MemoryBudget::Percent(50));
        assert_eq!(machine.state(None).budget, Some(256 * MIB), "of the group");
    }

    #[test]
    fn an_application_in_a_group_of_its_own_has_what_that_has() {
        let (_directory, mut machine) = machine(&[
            ("proc/self/cgroup", "0::/howdah\n"),
            ("proc/self/mountinfo", UNIFIED),
            ("sys/fs/cgroup/howdah/blog/memory.max", "104857600\n"),
            ("sys/fs/cgroup/howdah/blog/memory.current", "52428800\n"),
            ("sys/fs/cgroup/howdah/blog/memory.stat", "anon 1\n"),
        ]);
        let mut available = |group| machine.state(Some(Path::new(group))).available;
        assert_eq!(available("blog"), 50 * MIB);
        assert_eq!(available("/howdah/blog"), 50 * MIB);
        assert_eq!(available("none"), 1024 * MIB);
        fs::write(machine.root.join("proc/self/cgroup"), "0::/howdah/howdah-server\n").unwrap();
        fs::create_dir(machine.root.join("sys/fs/cgroup/howdah/howdah-server")).unwrap();
        assert_eq!(machine.state(Some(Path::new("blog"))).available, 50 * MIB);
    }

    #[test]
    fn version_1_is_understood_also_in_a_container() {
        let files = [
            ("proc/self/cgroup", "5:memory:/docker/abc\n4:cpu,cpuacct:/\n0::/\n"),
            (
                "proc/self/mountinfo",
                "31 30 0:27 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
              32 30 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            ),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "104857600\n"),
            ("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 20971520\n"),
        ];
        let (_directory, mut machine) = machine(&files);
        let found = machine.state(None);
        assert_eq!((found.total, found.available), (256 * MIB, (256 - 100 + 20) * MIB));
    }

    #[test]
    fn nonsense_is_as_good_as_nothing() {
        let (_directory, mut machine) = machine(&[
            ("proc/self/cgroup", "::\nx\n0::/../..\n7:memory\n"),
            ("proc/self/mountinfo", "\n - \n1 2 3 - cgroup2\n30 23 0:26 / /c rw - cgroup2 c rw\n"),
            ("c/memory.stat", "inactive_file 18446744073709551615\nactive_file -1\n"),
            ("c/memory.max", "100\n"),
            ("c/memory.current", "7\n"),
            ("proc/stat", "cpu  1 x\n"),
        ]);
        assert_eq!(machine.state(None).available, 100, "no more can be freed than is used");
        let (_directory, mut machine) =
            super::tests::machine(&[("proc/meminfo", "MemTotal: many\n")]);
        assert_eq!(machine.state(None).total, UNKNOWN_MEMORY.total);
    }
}
