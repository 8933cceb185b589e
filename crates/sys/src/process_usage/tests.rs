use std::process::{Command, Stdio};

use super::*;

const REST: &str = "S 3 7 7 0 -1 4194560 1 2 3 4 100 20 5 1 -51 0 2 0 4711 9 9";

#[test]
fn a_line_of_the_kernel_is_understood_whatever_the_program_is_called() {
    let expected = ProcessUsage {
        pid: 7,
        parent: 3,
        state: b'S',
        threads: 2,
        own_ticks: 120,
        ticks: 126,
        started: 4711,
    };
    for name in ["php", "a) R 1 (b", "b)", ""] {
        let parsed = ProcessUsage::parse(7, &format!("7 ({name}) {REST}"));
        assert_eq!(parsed, Some(expected));
    }
    let dead = |threads: &str| {
        let stat = format!("7 (php) Z{}", REST[1..].replace(" 0 2 0 ", threads));
        ProcessUsage::parse(7, &stat).unwrap().has_ended()
    };
    assert!(dead(" 0 1 0 ") && !dead(" 0 2 0 "), "others go on");
    for stat in ["", "7", "7 (php", "7 (php) ", "7 (php) S 3 7", "7 (php) S x 7"] {
        assert_eq!(ProcessUsage::parse(7, stat), None, "{stat}");
    }
    let status = "VmRSS:\t  300 kB\nRssAnon:\t 100 kB\nRssShmem:\t 50 kB\nVmSwap:\t 7 kB\n";
    let memory = ProcessMemory { anonymous: 102_400, shared: 51_200, swapped: 7168 };
    assert_eq!(ProcessMemory::parse(status), Some(memory));
    assert_eq!(ProcessMemory::parse("RssAnon:\t 18446744073709551615 kB\n"), None);
}

#[test]
fn the_kernel_tells_how_much_memory_and_time_a_process_has() {
    let own = std::process::id();
    let found = ProcessUsage::of(own).unwrap();
    assert!(found.threads > 0 && found.started > 0, "{found:?}");
    assert!(ProcessMemory::of(own).unwrap().anonymous > 0);
    assert_eq!((ProcessMemory::of(u32::MAX), ProcessUsage::of(u32::MAX)), (None, None));
    assert!(private_memory(own) > 0);
    assert_eq!((private_memory(0), cpu_time(0)), (0, 0));
    while cpu_time(own) == 0 {}
}

#[test]
fn another_process_gets_a_limit_and_a_priority() {
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    limit(child.id(), Resource::Data, 1 << 30).unwrap();
    set_priority(child.id(), 19).unwrap();
    let limits = read_proc_file(child.id(), "limits").unwrap();
    let stat = read_proc_file(child.id(), "stat").unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let data = limits.lines().find(|line| line.starts_with("Max data size")).unwrap();
    assert_eq!(data.matches("1073741824").count(), 2, "{data}");
    let (_, rest) = stat.rsplit_once(')').unwrap();
    assert_eq!(rest.split_ascii_whitespace().nth(16), Some("19"));
    assert!(limit(u32::MAX, Resource::Data, 1).is_err() && set_priority(0, 19).is_err());
}

#[test]
fn a_program_counts_for_the_process_that_has_started_it() {
    let mut outer = Command::new("sh")
        .args(["-c", "sh -c 'sleep 600 & sleep 600 & wait'; true"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let used = loop {
        let uses = ProcessUses::below(outer.id());
        assert!(uses.of_tree(outer.id()).is_none(), "only what is below it");
        let shell = uses.children.get(&outer.id()).and_then(|pids| pids.first()).copied();
        match shell.and_then(|shell| Some((shell, uses.of_tree(shell)?))) {
            Some((shell, used)) if used.processes == 3 => {
                assert_eq!(uses.parent(shell), Some(outer.id()));
                break used;
            }
            _ => std::thread::sleep(std::time::Duration::from_millis(5)),
        }
    };
    assert!(used.private > 0);
    crate::process_tree::kill(outer.id());
    outer.wait().unwrap();
    assert!(ProcessUses::below(outer.id()).all.is_empty());
}

#[test]
fn children_of_each_thread_are_found() {
    let child = std::thread::spawn(|| Command::new("sleep").arg("600").spawn().unwrap());
    let mut child = child.join().unwrap();
    // This thread starts one while it lives, too.
    let mut other = Command::new("sleep").arg("600").spawn().unwrap();
    let ids = [child.id(), other.id()];
    let own = std::process::id();
    let all: Vec<u32> = tree(own).unwrap().iter().map(|process| process.pid).collect();
    let spared = descendants(own, &[ids[0]], |_| {}).unwrap();
    child.kill().unwrap();
    other.kill().unwrap();
    assert!(all[0] == own && ids.iter().all(|id| all.contains(id)), "{ids:?} {all:?}");
    let is_found = |id: u32| spared.iter().any(|process| process.pid == id);
    assert!(!is_found(ids[0]) && is_found(ids[1]));
    // One that has ended is found until it is reaped.
    let is_left = || tree(own).unwrap().iter().any(|one| one.pid == ids[0] && one.has_ended());
    while !is_left() {}
    child.wait().unwrap();
    other.wait().unwrap();
    assert_eq!(tree(u32::MAX).unwrap(), []);
}
