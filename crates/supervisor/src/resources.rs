//! How the limits of all processes of an application are kept: by its control group where the
//! system has one with the controllers, otherwise by counting.

use howdah_sys::process::Resource;
use howdah_wire::messages::{ApplicationSpec, Problem, ResourceLimits};

use crate::control_groups::{Hierarchy, NONE, SWAP, Settings};

/// How the resources of an application are limited.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Its control group, if it has one.
    pub(crate) group: Option<String>,
    /// The files of the group, and what is written to them.
    pub(crate) settings: Settings,
    /// The limits that are counted.
    pub(crate) counted: ResourceLimits,
}

/// Memory in bytes that a process can have reserved beyond the limit of the application.
const MIN_RESERVE: u64 = 64 << 20;

/// A limit of `isolation/limits` that is kept by counting.
struct Approximate {
    key: &'static str,
    reason: String,
}

impl Plan {
    /// Decides how the limits of an application are kept.
    pub(crate) fn of(spec: &ApplicationSpec) -> Plan {
        Plan::here(spec).0
    }

    /// Decides to count all limits.
    pub(crate) fn counting(spec: &ApplicationSpec) -> Plan {
        Plan::within(spec, None).0
    }

    /// Returns true if no limit is counted.
    pub(crate) fn is_exact(&self) -> bool {
        let ResourceLimits { memory, cpu, processes, .. } = &self.counted;
        memory.is_none() && cpu.is_none() && processes.is_none()
    }

    /// Returns limits of the kernel for each process, which keep it from exceeding those that are
    /// counted by much before they are counted, unless the document has others. `processes` is the
    /// maximum of the user's.
    pub(crate) fn guards(
        &self,
        spec: &ApplicationSpec,
        processes: Option<u64>,
    ) -> Vec<(Resource, u64)> {
        let is_set = |name: &str| spec.rlimits.iter().any(|(set, _)| set == name);
        let memory = self.counted.memory.filter(|_| !is_set("data"));
        let memory = memory.map(|bytes| bytes.saturating_mul(2).max(bytes + MIN_RESERVE));
        let processes = self.counted.processes.filter(|_| !is_set("nproc")).and(processes);
        let guards = [(Resource::Data, memory), (Resource::Nproc, processes)];
        guards.into_iter().filter_map(|(resource, limit)| Some((resource, limit?))).collect()
    }

    /// Returns the specification with which a prototype is started: it sets the
    /// [`guards`](Plan::guards) by itself, as the limits of a process of another user take a
    /// capability that containers do not have.
    pub(crate) fn guarded(
        &self,
        spec: &ApplicationSpec,
        processes: Option<u64>,
    ) -> ApplicationSpec {
        let mut spec = spec.clone();
        for (resource, limit) in self.guards(&spec, processes) {
            let name = if resource == Resource::Data { "data" } else { "nproc" };
            spec.rlimits.push((name.to_owned(), Some(limit)));
        }
        spec
    }

    fn here(spec: &ApplicationSpec) -> (Plan, Vec<Approximate>) {
        // Without limits the hierarchy, which is in files, makes no difference.
        let hierarchy = spec.isolation.limits.as_ref().and_then(|_| Hierarchy::here());
        Plan::within(spec, hierarchy.as_ref())
    }

    fn within(spec: &ApplicationSpec, hierarchy: Option<&Hierarchy>) -> (Plan, Vec<Approximate>) {
        let isolation = &spec.isolation;
        let (group, settings) = (isolation.cgroup.clone(), isolation.cgroup_settings.clone());
        let mut plan = Plan { group, settings, counted: ResourceLimits::default() };
        let mut approximate = Vec::new();
        let Some(limits) = &isolation.limits else { return (plan, approximate) };
        let group = plan.group.clone().unwrap_or_else(|| limits.group.clone());
        let obstacle = |file: &str| match hierarchy {
            Some(hierarchy) => hierarchy.obstacle(&group, file),
            None => Some(NONE.to_owned()),
        };
        let files = [
            ("memory", "memory.max", limits.memory.map(|bytes| bytes.to_string())),
            ("cpu", "cpu.max", limits.cpu.map(|part| format!("{} 100000", part * 100))),
            ("processes", "pids.max", limits.processes.map(|count| count.to_string())),
        ];
        for (key, file, value) in files {
            // A setting of the group itself counts more.
            let is_set = plan.settings.iter().any(|(other, _)| other == file);
            let Some(value) = value.filter(|_| !is_set) else { continue };
            if let Some(reason) = obstacle(file) {
                match key {
                    "memory" => plan.counted.memory = limits.memory,
                    "cpu" => plan.counted.cpu = limits.cpu,
                    _ => plan.counted.processes = limits.processes,
                }
                approximate.push(Approximate { key, reason });
                continue;
            }
            plan.settings.push((file.to_owned(), value));
            if key == "memory" {
                plan.settings.push((SWAP.to_owned(), "0".to_owned()));
            }
            plan.group.get_or_insert_with(|| group.clone());
        }
        (plan, approximate)
    }
}

/// Checks that the system can hold what an application asks of its control group. Error: the first
/// key that it cannot.
pub(crate) fn check(spec: &ApplicationSpec) -> Result<(), Problem> {
    if spec.isolation.cgroup_settings.is_empty() {
        return Ok(());
    }
    check_within(spec, Hierarchy::here().as_ref())
}

fn check_within(spec: &ApplicationSpec, hierarchy: Option<&Hierarchy>) -> Result<(), Problem> {
    let Some(group) = &spec.isolation.cgroup else { return Ok(()) };
    for (file, _) in &spec.isolation.cgroup_settings {
        let reason = match hierarchy {
            Some(hierarchy) => hierarchy.obstacle(group, file),
            None => Some(NONE.to_owned()),
        };
        let Some(reason) = reason else { continue };
        let key = file.replace('.', "_");
        let counted = match key.as_str() {
            "memory_max" => "memory",
            "cpu_max" => "cpu",
            "pids_max" => "processes",
            _ => "",
        };
        let otherwise = match counted {
            "" => "remove the key".to_owned(),
            counted => format!(
                "write \"limits\": {{\"{counted}\": …}} in place of it, which the server keeps \
                 itself then"
            ),
        };
        let message = format!("cannot be kept: {reason}, or {otherwise}");
        return Err(Problem::at(format!("isolation/cgroup/{key}"), message));
    }
    Ok(())
}

/// Returns true if the maximum number of processes of an application is kept by counting.
pub(crate) fn counts_processes(spec: &ApplicationSpec) -> bool {
    Plan::of(spec).counted.processes.is_some()
}

/// Returns a note about limits of an application that are kept approximately.
pub(crate) fn note(spec: &ApplicationSpec) -> Option<Problem> {
    let (_, approximate) = Plan::here(spec);
    let keys: Vec<_> = approximate.iter().map(|one| one.key).collect();
    let Approximate { reason, .. } = approximate.into_iter().next()?;
    let message = format!(
        "kept approximately, as the server counts by itself: {}; {reason}",
        keys.join(", ")
    );
    Some(Problem::at("isolation/limits", message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> ApplicationSpec {
        let mut spec = ApplicationSpec::new("shop");
        spec.isolation.limits = Some(ResourceLimits {
            group: "application-shop".to_owned(),
            memory: Some(1 << 27),
            cpu: Some(1500),
            processes: Some(20),
        });
        spec
    }

    fn with_memory_and_pids() -> (tempfile::TempDir, Hierarchy) {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| directory.path().join(name);
        for name in ["cgroup.controllers", "cgroup.subtree_control"] {
            std::fs::write(file(name), "memory pids\n").unwrap();
        }
        let hierarchy = Hierarchy::at(directory.path());
        (directory, hierarchy)
    }

    #[test]
    fn the_group_keeps_what_it_can_and_the_rest_is_counted() {
        let (_directory, hierarchy) = with_memory_and_pids();
        let (plan, approximate) = Plan::within(&spec(), Some(&hierarchy));
        let pair = |file: &str, value: &str| (file.to_owned(), value.to_owned());
        let (memory, swap) = (pair("memory.max", "134217728"), pair("memory.swap.max", "0"));
        assert_eq!(plan.settings, [memory, swap, pair("pids.max", "20")]);
        assert_eq!(plan.group.as_deref(), Some("application-shop"));
        assert_eq!(plan.counted, ResourceLimits { cpu: Some(1500), ..ResourceLimits::default() });
        assert!(matches!(approximate.as_slice(), [Approximate { key: "cpu", .. }]));
    }

    #[test]
    fn without_control_groups_all_is_counted() {
        let (plan, approximate) = Plan::within(&spec(), None);
        assert_eq!((plan.group, plan.settings), (None, Vec::new()));
        assert_eq!((plan.counted.memory, plan.counted.processes), (Some(1 << 27), Some(20)));
        assert_eq!(approximate.len(), 3);
        assert_eq!(Plan::within(&ApplicationSpec::new("shop"), None).0, Plan::default());
        assert!(Plan::default().is_exact());
    }

    #[test]
    fn a_prototype_gets_limits_of_the_kernel_unless_the_document_has_others() {
        let rlimits = |spec: &ApplicationSpec, processes| {
            Plan::counting(spec).guarded(spec, processes).rlimits
        };
        let pair = |name: &str, limit| (name.to_owned(), Some(limit));
        let mut spec = spec();
        assert_eq!(rlimits(&spec, Some(72)), [pair("data", 1 << 28), pair("nproc", 72)]);
        spec.rlimits = vec![pair("data", 5)];
        assert_eq!(rlimits(&spec, None), [pair("data", 5)]);
        assert_eq!(Plan::default().guarded(&spec, Some(72)), spec);
    }

    #[test]
    fn the_named_group_is_used_and_its_own_settings_count_more() {
        let (_directory, hierarchy) = with_memory_and_pids();
        let mut spec = spec();
        spec.isolation.cgroup = Some("sites/shop".to_owned());
        spec.isolation.cgroup_settings = vec![("memory.max".to_owned(), "67108864".to_owned())];
        let (plan, _) = Plan::within(&spec, Some(&hierarchy));
        assert_eq!(plan.group.as_deref(), Some("sites/shop"));
        let files: Vec<_> = plan.settings.iter().map(|(file, _)| file.as_str()).collect();
        assert_eq!(files, ["memory.max", "pids.max"]);
        assert_eq!(plan.settings[0].1, "67108864");
    }

    #[test]
    fn a_key_that_cannot_be_kept_is_named_with_the_way_out() {
        let (_directory, hierarchy) = with_memory_and_pids();
        let mut spec = ApplicationSpec::new("shop");
        spec.isolation.cgroup = Some("shop".to_owned());
        assert_eq!(check_within(&spec, None), Ok(()), "it has no settings");
        spec.isolation.cgroup_settings = vec![("pids.max".to_owned(), "20".to_owned())];
        assert_eq!(check_within(&spec, Some(&hierarchy)), Ok(()));
        let problem = check_within(&spec, None).unwrap_err();
        assert_eq!(problem.key, "isolation/cgroup/pids_max");
        assert!(problem.message.contains("write \"limits\": {\"processes\""), "{problem}");
        spec.isolation.cgroup_settings.push(("io.weight".to_owned(), "20".to_owned()));
        let problem = check_within(&spec, Some(&hierarchy)).unwrap_err();
        assert!(problem.to_string().starts_with("isolation/cgroup/io_weight: cannot be kept: "));
        assert!(problem.message.ends_with("or remove the key"), "{problem}");
    }
}
