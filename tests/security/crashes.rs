//! Core files: the remains of a crashed process that has other sites' data or keys in its memory.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::Signal;

use crate::containment::{World, contained};
use crate::setup::Plan;
use harness::{eventually, processes, requirements};

/// Files that a user may read, or whose mode the user may change.
fn readable(directory: &Path, uid: u32) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap().flatten();
    let of_user = entries.filter(|entry| {
        let facts = entry.metadata().unwrap();
        facts.is_file() && (facts.uid() == uid || facts.mode() & 0o004 != 0)
    });
    of_user.map(|entry| entry.path().display().to_string()).collect()
}

/// Crashes the processes that are not the attacker's own, with a directory that all users may write
/// to as the working directory, and no limit on core files.
fn leaves_nothing_readable(name: &str, change: impl FnOnce(Plan<'_>) -> Plan<'_>) {
    contained(name, |world: &World| {
        let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
        if pattern.starts_with(['|', '/']) {
            let reason = format!("core files go elsewhere: {}", pattern.trim());
            return requirements::skipped_test(name, reason);
        }
        let plan = change(Plan::new(world));
        let directory = plan.data();
        let place = directory.to_str().unwrap();
        let server = plan.through(&["env", "-C", place, "prlimit", "--core=unlimited"]).serve();
        let uid = server.circumstances.uid;
        for target in ["other prototype", "control", "router"] {
            let Some((_, pid, _)) = server.targets().into_iter().find(|t| t.0 == target) else {
                continue;
            };
            crash(pid);
            let is_served = || server.recovers("a crash").is_none().then_some(());
            eventually("the sites are served again", is_served);
            let found = readable(&directory, uid);
            assert!(found.is_empty(), "a crash of {target} ({pid}) has left {found:?}");
        }
        crash(server.server.supervisor());
        let found = readable(&directory, uid);
        assert!(found.is_empty(), "a crash of the supervisor has left {found:?}");
    });
}

fn crash(pid: u32) {
    // A first SIGSEGV from another process would be lost on the handler that looks for overflows of
    // the stack.
    processes::signal(pid, Signal::ABORT);
    eventually("the process has ended", || (!processes::is_alive(pid)).then_some(()));
}

#[test]
fn a_crash_of_the_server_leaves_no_core_file_that_a_site_can_read() {
    leaves_nothing_readable(
        "crashes::a_crash_of_the_server_leaves_no_core_file_that_a_site_can_read",
        |plan| plan,
    );
}

#[test]
fn without_root_a_crash_of_the_server_leaves_no_core_file_that_a_site_can_read() {
    leaves_nothing_readable(
        "crashes::without_root_a_crash_of_the_server_leaves_no_core_file_that_a_site_can_read",
        |plan| plan.without_root(),
    );
}
