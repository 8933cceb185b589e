use super::hierarchy::own_group;
use super::*;

/// Returns a hierarchy with this mount point, in which the server has this group.
fn hierarchy(root: &Path, own: &str) -> Hierarchy {
    let own = Some(own_group(root, own));
    Hierarchy { root: root.to_owned(), own, is_managed: false, server: std::process::id() }
}

/// Makes a group of a pretended hierarchy with these controllers, of which some are on for groups
/// below it, and with these processes.
fn fake(directory: &Path, [controllers, on, processes]: [&str; 3]) {
    fs::create_dir_all(directory).unwrap();
    for (file, text) in [
        ("cgroup.controllers", controllers),
        ("cgroup.subtree_control", on),
        ("cgroup.procs", processes),
        ("cgroup.type", "domain"),
    ] {
        fs::write(directory.join(file), text).unwrap();
    }
}

#[test]
fn what_a_group_cannot_hold_is_known_before() {
    let directory = tempfile::tempdir().unwrap();
    let (root, own) = (directory.path(), directory.path().join("slice/howdah.service"));
    fake(root, ["cpu memory", "cpu memory", ""]);
    fake(&root.join("slice"), ["cpu memory", "memory", ""]);
    fake(&own, ["memory", "", &std::process::id().to_string()]);
    let server = hierarchy(root, "0::/slice/howdah.service");
    let no = |server: &Hierarchy, group, file| server.obstacle(group, file).unwrap_or_default();
    assert_eq!(no(&server, "shop", "memory.max"), "");
    assert!(no(&server, "shop", "pids.max").contains("no controller \"pids\""));
    assert_eq!(no(&server, "shop", "cpu.max"), "", "it can be turned on in the slice");
    assert_eq!(no(&server, "/slice/shop", "memory.max"), "");
    let managed = Hierarchy { is_managed: true, ..server.clone() };
    let problem = no(&managed, "shop", "memory.max");
    assert!(problem.contains("not delegated") && problem.contains("Delegate=yes"), "{problem}");
    assert!(no(&managed, "shop", "cpu.max").contains("not delegated"));
    // Process 1 is nobody's child.
    fs::write(own.join("cgroup.procs"), format!("{}\n1\n", std::process::id())).unwrap();
    assert!(no(&server, "shop", "memory.max").contains("other processes are in"));
    // A group that an administrator has made has what it has.
    fs::create_dir(own.join("shop")).unwrap();
    fs::write(own.join("shop/memory.max"), "max").unwrap();
    assert_eq!(no(&server, "shop", "memory.max"), "");
    assert!(!own.join("howdah-server").exists(), "nothing is changed");
    let unplaced = Hierarchy { own: None, ..server };
    assert_eq!(no(&unplaced, "shop", "memory.max"), "");
    assert!(no(&unplaced, "shop", "io.max").contains("no controller \"io\""));
}

#[test]
fn a_setting_that_is_gone_gets_the_systems_value() {
    let directory = tempfile::tempdir().unwrap();
    let group = directory.path().join("shop");
    fs::create_dir(&group).unwrap();
    let read = |file: &str| fs::read_to_string(group.join(file)).unwrap();
    for file in ["memory.max", "cpu.weight", "pids.max"] {
        fs::write(group.join(file), "").unwrap();
    }
    let server = hierarchy(directory.path(), "0::/");
    let set = |settings: &[(&str, &str)]| -> Settings {
        let pair = |(file, value): &(&str, &str)| ((*file).to_owned(), (*value).to_owned());
        settings.iter().map(pair).collect()
    };
    let mut groups = ControlGroups::default();
    let all = set(&[("memory.max", "134217728"), (SWAP, "0"), ("cpu.weight", "300")]);
    groups.write(&server, &group, &all).unwrap();
    assert_eq!((read("memory.max").as_str(), read("cpu.weight").as_str()), ("134217728", "300"));
    assert!(!group.join(SWAP).exists(), "the kernel does not have it");
    fs::write(group.join("memory.max"), "").unwrap();
    groups.write(&server, &group, &set(&[("memory.max", "268435456")])).unwrap();
    assert_eq!(read("memory.max"), "268435456");
    assert_eq!((read("cpu.weight").as_str(), read("pids.max").as_str()), ("100", ""));
}

/// In the kernel's own hierarchy, with a controller that no other hierarchy has.
#[test]
fn the_server_makes_room_for_controllers_below_its_own_group() {
    if !howdah_requirements::root() {
        return;
    }
    let Some(root) = hierarchy::root() else {
        return howdah_requirements::skipped("there are no control groups of version 2");
    };
    let there = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
    let known = [("memory", "memory.max"), ("hugetlb", "hugetlb.2MB.max")];
    let is_there = |name: &str| there.split_whitespace().any(|one| one == name);
    let Some((_, file)) = known.into_iter().find(|(name, _)| is_there(name)) else {
        return howdah_requirements::skipped("there is no controller for memory");
    };
    let own = root.join(format!("howdah-test-room-{}", std::process::id()));
    if let Err(error) = fs::create_dir(&own) {
        return howdah_requirements::skipped(format!("no control group can be made: {error}"));
    }
    let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    hierarchy::write(&own.join("cgroup.procs"), &child.id().to_string()).unwrap();
    let server =
        Hierarchy { root, own: Some(own.clone()), is_managed: false, server: std::process::id() };
    let mut groups = ControlGroups::default();
    let group = own.join("shop");
    let obstacle = server.obstacle("shop", file);
    groups.make(&server.root, &group).unwrap();
    let written = groups.write(&server, &group, &vec![(file.to_owned(), "4194304".to_owned())]);
    let entered = hierarchy::write(&group.join("cgroup.procs"), &child.id().to_string());
    let found = fs::read_to_string(group.join(file));
    let left = fs::read_to_string(own.join("howdah-server/cgroup.procs"));
    child.kill().unwrap();
    child.wait().unwrap();
    for directory in [&group, &own.join("howdah-server"), &own] {
        fs::remove_dir(directory).unwrap();
    }
    assert_eq!(obstacle, None);
    written.unwrap();
    entered.unwrap();
    assert_eq!((found.unwrap().trim(), left.unwrap().as_str()), ("4194304", ""));
}

#[test]
fn a_group_lies_below_ones_own_unless_it_begins_with_a_slash() {
    let own = "4:memory:/other\n0::/system.slice/howdah.service\n";
    let at = |group| hierarchy(Path::new("/sys/fs/cgroup"), own).directory(group);
    let below = "/sys/fs/cgroup/system.slice/howdah.service/sites/blog";
    assert_eq!(at("sites/blog"), Path::new(below));
    assert_eq!(at("/sites/blog/"), Path::new("/sys/fs/cgroup/sites/blog"));
    let at = |own| hierarchy(Path::new("/cg"), own).directory("a");
    assert_eq!((at("0::/\n"), at("")), (PathBuf::from("/cg/a"), PathBuf::from("/cg/a")));
    assert_eq!(at("0::/b/howdah-server\n"), Path::new("/cg/b/a"), "it has made room");
}

#[test]
fn a_group_that_others_use_is_not_killed() {
    let server = hierarchy(Path::new("/cg"), "0::/a\n");
    let made = ["/cg/a", "/cg/a/b"].map(PathBuf::from).into();
    let groups = ControlGroups { made, ..ControlGroups::default() };
    let unused =
        |group, others: &[&str]| groups.unused(&server, group, others.iter().copied()).is_some();
    assert!(unused("b", &[]) && unused("b", &["", "c", "/a", "bc"]));
    assert!(!unused("b", &["b"]) && !unused("b", &["/a/b"]) && !unused("b", &["b/c"]));
    assert!(!unused("/x", &[]) && !unused("b/c", &[]), "they were not made here");
}

#[test]
fn a_group_that_another_server_uses_too_is_neither_killed_nor_removed() {
    let root = tempfile::tempdir().unwrap();
    let mut old = ControlGroups::default();
    old.make(root.path(), &root.path().join("a")).unwrap();
    old.share(true);
    old.tidy();
    assert!(root.path().join("a").exists());
    let server = hierarchy(root.path(), "0::/\n");
    assert_eq!(old.unused(&server, "a", [].into_iter()), None);
    let mut new = ControlGroups::default();
    new.adopt(&old.names());
    assert!(new.unused(&server, "a", [].into_iter()).is_some());
    new.tidy();
    assert!(!root.path().join("a").exists());
}

#[test]
fn each_death_for_want_of_memory_is_told_once() {
    let directory = tempfile::tempdir().unwrap();
    let counter = directory.path().join("memory.events");
    let set = |count| {
        let text = format!("low 0\noom 9\noom_kill {count}\noom_group_kill 0\n");
        fs::write(&counter, text).unwrap();
    };
    let mut groups = ControlGroups::default();
    set(3);
    assert!(!groups.has_killed(&counter), "nobody watches it");
    groups.caught_up(&counter);
    assert!(!groups.has_killed(&counter));
    set(5);
    assert_eq!([(); 3].map(|()| groups.has_killed(&counter)), [true, true, false]);
    set(6);
    groups.caught_up(&counter);
    assert!(!groups.has_killed(&counter), "that was somebody else");
    fs::remove_file(&counter).unwrap();
    assert!(!groups.has_killed(&counter));
}

#[test]
fn a_weight_is_written_or_the_way_to_turn_it_on_is_told() {
    let root = tempfile::tempdir().unwrap();
    let group = root.path().join("sites/a");
    fs::create_dir_all(&group).unwrap();
    fs::write(group.join("cpu.weight"), "100").unwrap();
    let server = hierarchy(root.path(), "0::/");
    server.set(&group, "cpu.weight", "300").unwrap();
    assert_eq!(fs::read_to_string(group.join("cpu.weight")).unwrap(), "300");
    assert!(!root.path().join("cgroup.subtree_control").exists(), "it was on");
    fs::create_dir(group.join("io.weight")).unwrap();
    let problem = server.set(&group, "io.weight", "50").unwrap_err().to_string();
    let way = format!("echo +io > {}/sites/cgroup.subtree_control", root.path().display());
    assert!(problem.contains(&way), "{problem}");
}

/// In the kernel's own hierarchy, with a controller that is off and that no other hierarchy
/// has.
#[test]
fn a_controller_is_turned_on_in_the_groups_above() {
    if !howdah_requirements::root() {
        return;
    }
    let Some(root) = hierarchy::root() else {
        return howdah_requirements::skipped("there are no control groups of version 2");
    };
    let read = |file: &str| fs::read_to_string(root.join(file)).unwrap_or_default();
    let (there, on) = (read("cgroup.controllers"), read("cgroup.subtree_control"));
    let has = |list: &str, name: &str| list.split_whitespace().any(|one| one == name);
    let known = [
        ("cpu", "cpu.weight", "300"),
        ("io", "io.weight", "300"),
        ("pids", "pids.max", "300"),
        ("hugetlb", "hugetlb.2MB.max", "4194304"),
    ];
    let is_off = |name: &str| has(&there, name) && !has(&on, name);
    let Some((controller, file, value)) = known.into_iter().find(|one| is_off(one.0)) else {
        return howdah_requirements::skipped("there is no controller that is off");
    };
    let top = root.join(format!("howdah-test-controller-{}", std::process::id()));
    let group = top.join("sites/a");
    if let Err(error) = fs::create_dir_all(&group) {
        return howdah_requirements::skipped(format!("no control group can be made: {error}"));
    }
    let result = hierarchy(&root, "0::/").set(&group, file, value);
    let found = fs::read_to_string(group.join(file));
    for directory in [&group, &top.join("sites"), &top] {
        fs::remove_dir(directory).unwrap();
    }
    let off = format!("-{controller}");
    let _ = fs::write(root.join("cgroup.subtree_control"), off);
    result.unwrap();
    let found = found.unwrap();
    assert!(found.split_whitespace().any(|word| word == value), "{file}: {found}");
}

#[test]
fn only_groups_that_were_made_here_are_removed() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("theirs")).unwrap();
    let mut groups = ControlGroups::default();
    groups.make(root.path(), &root.path().join("theirs/ours/inner")).unwrap();
    groups.make(root.path(), &root.path().join("theirs/ours/other")).unwrap();
    fs::create_dir(root.path().join("theirs/ours/other/used")).unwrap();
    groups.tidy();
    assert!(root.path().join("theirs/ours/other").exists(), "it is still used");
    assert!(!root.path().join("theirs/ours/inner").exists());
    fs::remove_dir(root.path().join("theirs/ours/other/used")).unwrap();
    groups.tidy();
    assert!(!root.path().join("theirs/ours").exists() && root.path().join("theirs").exists());
}
