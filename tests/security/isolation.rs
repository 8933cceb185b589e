//! The machine as an application's processes see it, and their rights.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use harness::{Server, Site, eventually, processes, requirements, users};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Most of it takes root. As another user these tests have nothing to test. Reports the view of a
/// script.
pub(super) const SEES: &str = "
    $lines = fn($file) => explode(\"\\n\", trim((string) @file_get_contents($file)));
    preg_match('/^Cap(?:Eff|Prm|Bnd).*/m', (string) @file_get_contents('/proc/self/status'), $caps);
    echo json_encode([
        'pid' => getmypid(), 'uid' => posix_getuid(), 'gid' => posix_getgid(),
        'groups' => posix_getgroups(), 'cwd' => getcwd(), 'root' => @scandir('/'),
        'uid_map' => preg_split('/\\s+/', $lines('/proc/self/uid_map')[0], -1, PREG_SPLIT_NO_EMPTY),
        'net' => count($lines('/proc/net/dev')) - 2,
        'cgroup' => $lines('/proc/self/cgroup'),
        'status' => (string) @file_get_contents('/proc/self/status'),
        'namespaces' => array_map(
            fn($name) => @readlink(\"/proc/self/ns/$name\"),
            array_combine($n = ['user', 'pid', 'net', 'mnt', 'uts', 'cgroup'], $n)),
        'loaded' => get_loaded_extensions(),
    ]);";

fn isolated(isolation: Value) -> Server {
    Site::script("a.php", SEES)
        .with(json!({"applications": {"site": {"isolation": isolation}}}))
        .serve()
}

/// The message of a server that cannot start this application.
pub(super) fn refused(site: Site, application: Value) -> String {
    let site = site.with(json!({"applications": {"site": application}}));
    let output =
        site.command(&harness::free_address().to_string()).arg("--strict").output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

pub(super) fn sees(server: &Server) -> Value {
    let response = server.get("/a.php");
    assert_eq!(response.status, 200, "{response:?} {}", server.log());
    serde_json::from_str(&response.text()).unwrap_or_else(|_| panic!("{response:?}"))
}

fn own_namespace(name: &str) -> Value {
    json!(fs::read_link(format!("/proc/self/ns/{name}")).unwrap())
}

#[test]
fn without_a_word_all_namespaces_are_the_servers() {
    let seen = sees(&isolated(json!({})));
    for name in ["user", "pid", "net", "mnt", "uts", "cgroup"] {
        assert_eq!(seen["namespaces"][name], own_namespace(name), "{name}");
    }
}

#[test]
fn each_namespace_can_be_the_applications_own() {
    if !requirements::root() {
        return;
    }
    let names = [
        ("credential", "user"),
        ("network", "net"),
        ("mount", "mnt"),
        ("uname", "uts"),
        ("cgroup", "cgroup"),
    ];
    for (key, name) in names {
        let server = isolated(json!({"namespaces": {key: true}}));
        let seen = sees(&server);
        for (_, other) in names {
            let differs = seen["namespaces"][other] != own_namespace(other);
            assert_eq!(differs, other == name, "{key}: {other} {seen}");
        }
        let title = format!("/proc/{}/cmdline", server.workers()[0]);
        let title = fs::read(title).unwrap();
        assert!(title.starts_with(b"howdah: \"site\" application"), "the titles remain");
    }
}

#[test]
fn a_network_of_its_own_has_no_way_out_and_a_user_of_its_own_is_mapped() {
    if !requirements::root() {
        return;
    }
    let all = json!({"credential": true, "pid": true, "network": true, "mount": true,
        "uname": true, "cgroup": true});
    let seen = sees(&isolated(json!({"namespaces": all})));
    assert_eq!(seen["net"], json!(1), "the loopback device alone");
    let uid = seen["uid"].to_string();
    assert_eq!(seen["uid_map"], json!([uid, uid, "1"]), "nobody but itself, and not root");
    assert_eq!(seen["cgroup"].as_array().unwrap().last(), Some(&json!("0::/")));
}

#[test]
fn ids_are_mapped_as_the_document_says() {
    if !requirements::root() {
        return;
    }
    let server = isolated(json!({
        "namespaces": {"credential": true},
        "uidmap": [{"container": 0, "host": 100_000, "size": 1000}],
        "gidmap": [{"container": 0, "host": 200_000, "size": 1000}],
    }));
    let seen = sees(&server);
    let (uid, gid) = (seen["uid"].as_u64().unwrap(), seen["gid"].as_u64().unwrap());
    let status = fs::read_to_string(format!("/proc/{}/status", server.workers()[0])).unwrap();
    let outside = |name: &str, first: u64| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        assert_eq!(line.split_whitespace().nth(1), Some(first.to_string().as_str()), "{line}");
    };
    outside("Uid:", 100_000 + uid);
    outside("Gid:", 200_000 + gid);
}

#[test]
fn processes_of_its_own_begin_with_the_prototype_and_end_with_it() {
    if !requirements::root() {
        return;
    }
    let server =
        Site::script("a.php", "echo getmypid(); exec('setsid sleep 300 > /dev/null 2>&1 &');")
            .with(json!({"applications": {"site": {"isolation": {"namespaces": {"pid": true}}}}}))
            .workers(1)
            .serve();
    let inside: u32 = server.get("/a.php").text().parse().unwrap();
    assert!(inside < 100, "{inside}");
    let worker = server.workers()[0];
    assert_ne!(worker, inside);
    // The log names processes as the system does.
    processes::signal(worker, Signal::KILL);
    server.wait_for_log(&format!("worker process {worker} "));
    let prototype = server.prototype();
    let all = processes::descendants(prototype);
    assert!(all.iter().any(|process| process.title.contains("sleep")), "{all:?}");
    processes::signal(prototype, Signal::KILL);
    eventually("all have gone", || {
        all.iter().all(|process| !processes::is_alive(process.pid)).then_some(())
    });
    eventually("it serves again", || (server.get("/a.php").status == 200).then_some(()));
}

#[test]
fn a_process_is_put_into_its_control_group_which_goes_with_it() {
    let Some(base) = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .map(PathBuf::from)
        .into_iter()
        .find(|base| base.join("cgroup.controllers").exists())
    else {
        return requirements::skipped("there is no second version of control groups");
    };
    let name = format!("howdah-test-{}", std::process::id());
    if let Err(error) = fs::create_dir(base.join(&name)) {
        return requirements::skipped(format!("no control group can be made: {error}"));
    }
    fs::remove_dir(base.join(&name)).unwrap();
    let server = isolated(json!({"cgroup": {"path": format!("/{name}/site")}}));
    let seen = sees(&server);
    let expected = json!(format!("0::/{name}/site"));
    assert_eq!(seen["cgroup"].as_array().unwrap().last(), Some(&expected));
    assert!(base.join(&name).exists());
    drop(server);
    assert!(!base.join(&name).exists(), "it was made for the application");
}

#[test]
fn an_applications_share_of_processor_and_disk_is_that_of_its_group() {
    if !requirements::root() {
        return;
    }
    let base = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(PathBuf::from);
    let controllers =
        |base: &PathBuf| fs::read_to_string(base.join("cgroup.controllers")).unwrap_or_default();
    let has =
        |base: &PathBuf, name: &str| controllers(base).split_whitespace().any(|one| one == name);
    let Some(base) = base.iter().find(|base| has(base, "cpu")) else {
        return requirements::skipped("no control groups of version 2 have the controller cpu");
    };
    let name = format!("howdah-test-weights-{}", std::process::id());
    if let Err(error) = fs::create_dir(base.join(&name)) {
        return requirements::skipped(format!("no control group can be made: {error}"));
    }
    fs::remove_dir(base.join(&name)).unwrap();
    let mut group = json!({"path": format!("/{name}/site"), "cpu_weight": 300});
    if has(base, "io") {
        group["io_weight"] = json!(50);
    }
    let server = isolated(json!({"cgroup": group}));
    sees(&server);
    let read = |file: &str| fs::read_to_string(base.join(&name).join("site").join(file)).unwrap();
    assert_eq!(read("cpu.weight").trim(), "300");
    if has(base, "io") {
        assert!(
            read("io.weight").lines().any(|line| line == "default 50"),
            "{}",
            read("io.weight")
        );
    }
    drop(server);
    assert!(!base.join(&name).exists(), "it was made for the application");
}

#[test]
fn limits_of_the_system_hold_for_workers() {
    let code = "echo json_encode(posix_getrlimit());";
    let rlimits = json!({"nofile": 200, "core": 0, "nproc": 300, "as": 4_000_000_000_u64,
        "stack": "unlimited"});
    // The kernel counts all processes of the user.
    let Some((site, _)) = users::site_with_own_user(Site::script("a.php", code)) else { return };
    let application = json!({"user": users::NAME, "limits": {"rlimits": rlimits}});
    let server = site.with(json!({"applications": {"site": application}})).serve();
    let limits: Value = serde_json::from_str(&server.get("/a.php").text()).unwrap();
    for (name, value) in [
        ("openfiles", json!(200)),
        ("core", json!(0)),
        ("maxproc", json!(300)),
        ("totalmem", json!(4_000_000_000_u64)),
        ("stack", json!("unlimited")),
    ] {
        assert_eq!(limits[format!("soft {name}")], value, "{name}: {limits}");
        assert_eq!(limits[format!("hard {name}")], value, "{name}: {limits}");
    }
}

#[test]
fn an_application_that_cannot_be_isolated_says_why() {
    if !requirements::root() {
        return;
    }
    for (isolation, reason) in [
        (json!({"rootfs": "/no/such/root"}), "isolation/rootfs: /no/such/root: cannot be used"),
        (
            json!({"uidmap": [{"container": 0, "host": 1, "size": 1}]}),
            "isolation/uidmap: needs the namespace",
        ),
        (
            json!({"namespaces": {"credential": true},
                "uidmap": [{"container": 0, "host": 1, "size": 1}]}),
            "isolation/uidmap: does not map the id",
        ),
    ] {
        let said = refused(Site::script("a.php", SEES), json!({"isolation": isolation}));
        assert!(said.contains(reason), "{said}");
    }
}

#[test]
fn an_isolated_worker_has_no_capability_in_its_namespace_either() {
    if !requirements::root() {
        return;
    }
    for isolation in [
        json!({"namespaces": {"credential": true, "mount": true, "pid": true, "network": true}}),
        json!({"namespaces": {"credential": true},
            "uidmap": [{"container": 0, "host": 100_000, "size": 1000}],
            "gidmap": [{"container": 0, "host": 100_000, "size": 1000}]}),
    ] {
        let seen = sees(&isolated(isolation));
        let status = seen["status"].as_str().unwrap();
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert!(status.contains(&format!("{set}:\t0000000000000000")), "{status}");
        }
        assert!(status.contains("NoNewPrivs:\t1"), "{status}");
    }
}

#[test]
fn scripts_run_only_where_the_document_lets_them() {
    let code = "<?php echo include 'library/b.php';";
    let site = Site::new()
        .file("a.php", code)
        .file("library/b.php", "<?php return 'ran';")
        .file("uploads/c.php", "<?php echo 'ran';")
        .file("uploads/index.php", "<?php echo 'ran';");
    let root = site.root();
    std::os::unix::fs::symlink("uploads/c.php", root.join("link.php")).unwrap();
    let not = |name: &str| format!("!{}", root.join(name).display());
    let directories = json!([root, not("uploads"), not("library")]);
    let server =
        site.with(json!({"applications": {"site": {"script_directories": directories}}})).serve();
    assert_eq!(server.get("/a.php").text(), "ran", "what it includes is its own business");
    for target in ["/uploads/c.php", "/uploads/", "/link.php", "/library/b.php", "/uploads/c.php/x"]
    {
        let response = server.get(target);
        assert_eq!((response.status, response.text().contains("ran")), (403, false), "{target}");
    }
    assert_eq!(server.get("/uploads/none.php").status, 404);
    let log = server.log();
    let line = log.lines().find(|line| line.contains("GET /link.php")).unwrap();
    assert!(line.contains("not in script_directories"), "{line}");
}

#[test]
fn programs_may_have_more_rights_only_where_the_document_says_so() {
    if !requirements::root() {
        return;
    }
    // The effect of a set-user-ID program, as of the sendmail of Postfix.
    let id = fs::canonicalize("/usr/bin/id").unwrap();
    let site = Site::script("a.php", "echo exec(getenv('DATA') . '/id -u');");
    let copy = site.data().join("id");
    harness::programs::copy(&id, &copy);
    harness::open_to_all(&copy, 0o4755);
    let server = site.with(json!({"applications": {"site": {}}})).serve();
    let without = server.get("/a.php").text();
    assert_ne!(without, "0");
    let (_, site) = server.end(Signal::TERM);
    let server =
        site.with(json!({"applications": {"site": {"isolation": {"new_privs": true}}}})).serve();
    assert_eq!(server.get("/a.php").text(), "0");
}

// -- a server that was not started by root --

/// A command as an ordinary user: `nobody`, or the user that runs this test.
fn as_ordinary_user() -> Vec<&'static str> {
    if requirements::is_root() {
        vec!["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    } else {
        vec!["env"]
    }
}

/// A site whose server an ordinary user can start; `None`, with a word, if that user cannot.
fn of_ordinary_user(namespaces: &Value) -> Option<Site> {
    let can = |command: &[&str]| {
        let mut whole = as_ordinary_user();
        whole.extend(command);
        let ended = Command::new(whole[0]).args(&whole[1..]).output();
        ended.is_ok_and(|output| output.status.success())
    };
    let program = harness::programs::howdah().to_str().unwrap();
    if !can(&["test", "-x", program]) {
        requirements::skipped(format!("an ordinary user cannot run {program}"));
        return None;
    }
    if namespaces["credential"] == json!(true) && !can(&["unshare", "--user", "true"]) {
        requirements::skipped("an ordinary user cannot make a user namespace");
        return None;
    }
    let site = Site::script("a.php", SEES).through(&as_ordinary_user());
    let log = site.data().with_file_name("log");
    fs::write(&log, "").unwrap();
    harness::open_to_all(&log, 0o666);
    Some(site)
}

#[test]
fn without_root_an_application_has_namespaces_of_its_own_and_stays_its_user() {
    let namespaces = json!({"credential": true, "pid": true, "mount": true, "network": true});
    let Some(site) = of_ordinary_user(&namespaces) else { return };
    let isolation = json!({"namespaces": namespaces});
    let server = site.with(json!({"applications": {"site": {"isolation": isolation}}})).serve();
    let seen = sees(&server);
    for name in ["user", "pid", "net", "mnt"] {
        assert_ne!(seen["namespaces"][name], own_namespace(name), "{name}: {seen}");
    }
    let user = if requirements::is_root() { 65534 } else { rustix::process::geteuid().as_raw() };
    assert_eq!(seen["uid"], json!(user), "{seen}");
    let holds = |processes: Vec<processes::Process>| {
        processes.iter().any(|process| process.title == "howdah: namespace")
    };
    assert!(!holds(server.processes()), "nothing is left that held the namespace");
}

/// Stops a child of the supervisor that is still a copy of it, with its title; each has become
/// another program in no time, so there may be none.
fn stopped_copy(supervisor: u32, lists: impl Fn(u32) -> bool) -> Option<u32> {
    let title = |pid: u32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let state = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    };
    let (begun, mut seen) = (Instant::now(), Vec::new());
    while begun.elapsed() < Duration::from_secs(1) {
        let children = fs::read_to_string(format!("/proc/{supervisor}/task/{supervisor}/children"));
        let children = children.unwrap_or_default();
        for pid in children.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()) {
            if seen.contains(&pid) {
                continue;
            }
            processes::signal(pid, Signal::STOP);
            // The process runs on for a moment, and could become another program after its title
            // was read.
            while state(pid).is_some_and(|state| !"TZ".contains(state)) {}
            // First the server examines the machine, PHP for example; it can be traced then, and
            // knows nothing that scripts of its user do not.
            if title(pid).contains("\0serve\0") && !lists(supervisor) {
                return Some(pid);
            }
            processes::signal(pid, Signal::CONT);
            seen.push(pid);
        }
    }
    None
}

/// Scenario: the process was traceable from the fork on, so that a script of the same user had the
/// supervisor's memory and descriptors, private keys among them.
#[test]
fn a_copy_of_the_supervisor_cannot_be_traced_before_it_is_a_prototype() {
    let lists = |pid: u32| {
        let descriptors = format!("/proc/{pid}/fd");
        let mut whole = as_ordinary_user();
        whole.extend(["ls", &descriptors]);
        Command::new(whole[0]).args(&whole[1..]).output().unwrap().status.success()
    };
    for namespaces in
        [json!({}), json!({"credential": true}), json!({"credential": true, "pid": true})]
    {
        let Some(site) = of_ordinary_user(&namespaces) else { continue };
        let isolation = json!({"namespaces": namespaces, "sandbox": false});
        let site = site.with(json!({"applications": {"site": {"isolation": isolation}}}));
        let traced = eventually("a copy is stopped before its exec", || {
            let mut command = site.command(&harness::free_address().to_string());
            let mut server = command.stdout(std::process::Stdio::null()).spawn().unwrap();
            let copy = stopped_copy(server.id(), lists);
            let traced = copy.map(lists);
            server.kill().unwrap();
            server.wait().unwrap();
            copy.into_iter().for_each(|copy| processes::signal(copy, Signal::KILL));
            traced
        });
        assert!(!traced, "{namespaces}");
    }
    let mut whole = as_ordinary_user();
    whole.extend(["sleep", "600"]);
    let mut other = Command::new(whole[0]).args(&whole[1..]).spawn().unwrap();
    eventually("others of the user's processes can be", || lists(other.id()).then_some(()));
    other.kill().unwrap();
    other.wait().unwrap();
}
