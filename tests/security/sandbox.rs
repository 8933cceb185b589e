//! Actions of the server's processes that the kernel refuses: those of the router, and those of
//! applications of one user on each other.
//!
//! Kernels differ: a test that this one cannot run says so and passes.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use harness::programs::{self, howdah};
use harness::{Server, Site, eventually, free_address, open_to_all, processes, requirements};
use howdah_sys::sandbox::landlock;
use serde_json::{Value, json};

/// Says why there is nothing to test, if the kernel is too old.
pub(super) fn has_landlock(version: u32) -> bool {
    let found = landlock::version();
    if found < version {
        requirements::skipped(format!("it takes version {version} of Landlock, not {found}"));
    }
    found >= version
}

/// Returns the answer of a script, as JSON.
fn asked(server: &Server, target: &str) -> Value {
    let response = server.get(target);
    assert_eq!(response.status, 200, "{response:?} {}", server.log());
    serde_json::from_str(&response.text()).unwrap_or_else(|_| panic!("{response:?}"))
}

/// A directory where no temporary files are; `None`, with a word, if there is none that the
/// server's user reaches.
fn place_of_sites() -> Option<tempfile::TempDir> {
    let above = if requirements::is_root() {
        Path::new("/srv")
    } else {
        Path::new(env!("CARGO_TARGET_TMPDIR"))
    };
    if above.starts_with("/tmp") || above.starts_with("/dev") {
        requirements::skipped(format!("{} is a place of temporary files", above.display()));
        return None;
    }
    match tempfile::Builder::new().prefix("howdah-test-").tempdir_in(above) {
        Ok(directory) => {
            open_to_all(directory.path(), 0o755);
            Some(directory)
        }
        Err(error) => {
            requirements::skipped(format!("{} cannot be used: {error}", above.display()));
            None
        }
    }
}

// -- processes of others --

/// Reports the permitted actions on the process `pid`, all of them without harm.
const TRIES: &str = "
    $pid = (int) ($_GET['pid'] ?? 0);
    $cpu = @shell_exec(\"prlimit --pid $pid --cpu=86000:86400 2>&1\");
    echo json_encode([
        'signal' => posix_kill($pid, 0),
        'error' => posix_get_last_error(),
        'environ' => @file_get_contents(\"/proc/$pid/environ\", length: 1) !== false,
        'descriptors' => @readlink(\"/proc/$pid/fd/0\") !== false,
        'memory' => (bool) @fopen(\"/proc/$pid/mem\", 'r'),
        'limit' => $cpu === null || trim($cpu) === '',
    ]);";

/// Starts a program in the background, once, and tells its id.
const STARTS: &str = "
    $file = getenv('DATA') . '/pid';
    if (!file_exists($file)) {
        exec('sleep 300 > /dev/null 2>&1 & echo $!', $lines);
        file_put_contents($file, $lines[0]);
    }
    echo json_encode(['pid' => (int) file_get_contents($file)]);";

/// Two applications of the same user.
fn neighbours(isolation: Value) -> Server {
    let site = Site::script("tries.php", TRIES).file("starts.php", format!("<?php {STARTS}"));
    let mut other = site.document("x")["applications"]["site"].clone();
    other["processes"] = json!(1);
    site.workers(1)
        .with(json!({
            "routes": [
                {"match": {"uri": "/other*"}, "action": {"pass": "applications/other"}},
                {"action": {"pass": "applications/site"}},
            ],
            "applications": {"site": {"isolation": isolation}, "other": other},
        }))
        .serve()
}

/// Processes of the server that are not the application's, and run as the same user.
fn others(server: &Server) -> Vec<(String, u32)> {
    let of_others = |title: &str| title.contains("router") || title.contains("\"other\"");
    // A process has the title of its parent at first.
    let mut others = eventually("router, prototype and worker of the other site", || {
        let all = server.processes().into_iter().filter(|one| of_others(&one.title));
        let others: Vec<_> = all.map(|one| (one.title, one.pid)).collect();
        let is_complete = others.iter().any(|(title, _)| title.contains("application"));
        (others.len() == 3 && is_complete).then_some(others)
    });
    if !requirements::is_root() {
        others.push(("supervisor".to_owned(), server.supervisor()));
    }
    others
}

#[test]
fn no_script_signals_or_traces_what_is_not_its_own_though_the_user_is_the_same() {
    if !has_landlock(landlock::SIGNALS) {
        return;
    }
    let server = neighbours(json!({}));
    for (title, pid) in others(&server) {
        let tried = asked(&server, &format!("/tries.php?pid={pid}"));
        assert_eq!(tried["signal"], false, "{title}: {tried}");
        assert_eq!(tried["error"], 1, "it is not permitted, not missing: {title} {tried}");
        for what in ["environ", "descriptors", "memory", "limit"] {
            assert_eq!(tried[what], false, "{what} of {title}: {tried}");
        }
    }
    // The script can signal and read its own processes: a worker, and a program that an earlier
    // request has started.
    let started = asked(&server, "/starts.php")["pid"].as_u64().unwrap() as u32;
    for pid in [started, server.titled_worker("site")] {
        let tried = asked(&server, &format!("/tries.php?pid={pid}"));
        assert_eq!(tried["signal"], true, "{tried}");
        assert_eq!(tried["environ"], true, "{tried}");
    }
    let worker = server.titled_worker("site");
    processes::signal(worker, rustix::process::Signal::KILL);
    eventually("another worker is there", || {
        (server.get("/starts.php").status == 200).then_some(())
    });
    let tried = asked(&server, &format!("/tries.php?pid={started}"));
    assert_eq!(tried["signal"], true, "in another process of the same application: {tried}");
}

#[test]
fn without_a_domain_only_the_user_counts() {
    let server = neighbours(json!({"sandbox": false}));
    let (title, pid) =
        others(&server).into_iter().find(|(title, _)| title.contains("application")).unwrap();
    let tried = asked(&server, &format!("/tries.php?pid={pid}"));
    assert_eq!(tried["signal"], true, "{title}: {tried}");
}

#[test]
fn a_domain_needs_no_give_up_of_new_privileges_if_root_starts_the_server() {
    if !has_landlock(landlock::SIGNALS) {
        return;
    }
    if !requirements::root() {
        return;
    }
    let server = neighbours(json!({"new_privs": true}));
    let worker = server.titled_worker("site");
    let status = fs::read_to_string(format!("/proc/{worker}/status")).unwrap();
    assert!(
        status.contains("NoNewPrivs:\t0") && status.contains("CapPrm:\t0000000000000000"),
        "{status}"
    );
    for (title, pid) in others(&server) {
        let tried = asked(&server, &format!("/tries.php?pid={pid}"));
        assert_eq!(tried["signal"], false, "{title}: {tried}");
        assert_eq!(tried["limit"], false, "{title}: {tried}");
    }
}

#[test]
fn a_domain_leaves_files_as_they_were() {
    let code = "
        chdir(getenv('DATA'));
        foreach (['a/below', 'b'] as $name) { @mkdir($name, 0777, true); }
        file_put_contents('a/below/file', 'x');
        echo json_encode([
            'directory' => rename('a/below', 'b/moved'),
            'file' => rename('b/moved/file', 'a/file'),
            'link' => link('a/file', 'b/link'),
            'passwd' => is_readable('/etc/passwd'),
            'tmp' => is_writable('/tmp'),
        ]);";
    let server = Site::script("a.php", code).with(json!({})).serve();
    for (what, done) in asked(&server, "/a.php").as_object().unwrap() {
        assert_eq!(done, &json!(true), "{what}");
    }
}

// -- isolation.sandbox --

/// Reports the permitted actions on the directory `DIR`, and access to the files of the system that
/// PHP needs.
const USES: &str = "
    $dir = getenv('DIR');
    $root = __DIR__;
    $run = function ($command) \
    { exec(\"$command 2>/dev/null\", $lines, $status); return $status === 0; };
    // Without a copy: the inode stays.
    $moves = function ($from, $to) {
        $file = tempnam($from, 'x');
        $inode = fileinode($file);
        return @rename($file, $to) && fileinode($to) === $inode;
    };
    $starts = fn() => @session_start() && session_id() !== '';
    echo json_encode([
        'reads' => @file_get_contents(\"$dir/file\") === 'x',
        'lists' => (bool) @scandir($dir),
        'writes' => (bool) @file_put_contents(\"$dir/file\", 'x'),
        'makes' => @file_put_contents(\"$dir/new\", 'x') && @unlink(\"$dir/new\"),
        'executes' => $run(\"$dir/program\"),
        'own' => [
            'reads' => is_string(file_get_contents(__FILE__)),
            'writes' => @file_put_contents(\"$root/made/file\", 'x') === 1,
            'moves' => $moves($root, \"$root/moved\"),
            'moves uploads' => $moves(sys_get_temp_dir(), \"$root/uploaded\"),
        ],
        'needs' => [
            'programs' => $run('true'),
            'shell' => trim((string) @shell_exec('echo $((1 + 1))')) === '2',
            'temporary' => (bool) tempnam(sys_get_temp_dir(), 'x'),
            'users' => posix_getpwuid(posix_geteuid()) !== false,
            'names' => gethostbyname('localhost') !== 'localhost',
            'null' => (bool) @file_put_contents('/dev/null', 'x'),
            'random' => strlen(random_bytes(8)) === 8,
            'self' => (bool) @file_get_contents('/proc/self/status'),
            'sessions' => $starts(),
            'zones' => (new DateTimeZone('Asia/Tokyo'))->getName() === 'Asia/Tokyo',
        ],
    ]);";

/// A directory that has a file and a program.
fn neighbour(place: &Path) -> PathBuf {
    let directory = place.join("beside");
    fs::create_dir(&directory).unwrap();
    open_to_all(&directory, 0o777);
    fs::write(directory.join("file"), "x").unwrap();
    open_to_all(&directory.join("file"), 0o666);
    fs::write(directory.join("program"), "#!/bin/sh\ntrue\n").unwrap();
    open_to_all(&directory.join("program"), 0o755);
    directory
}

/// Permitted actions of a script in this sandbox on a directory of others.
fn uses(place: &Path, sandbox: impl FnOnce(&Path) -> Value) -> Value {
    let place = tempfile::tempdir_in(place).unwrap();
    open_to_all(place.path(), 0o755);
    let directory = neighbour(place.path());
    let site = Site::script("a.php", USES).file("made/file", "");
    open_to_all(&site.root().join("made"), 0o777);
    open_to_all(&site.root().join("made/file"), 0o666);
    open_to_all(&site.root(), 0o777);
    let sandbox = sandbox(&directory);
    let application = json!({
        "isolation": {"sandbox": sandbox}, "environment": {"DIR": directory},
    });
    let server = site.with(json!({"applications": {"site": application}})).serve();
    asked(&server, "/a.php")
}

fn assert_all(found: &Value, expected: bool, what: &[&str]) {
    for what in what {
        assert_eq!(found[what], json!(expected), "{what}: {found}");
    }
}

#[test]
fn a_sandbox_has_the_application_and_the_system_and_no_others() {
    if !has_landlock(landlock::FILES) {
        return;
    }
    let Some(place) = place_of_sites() else { return };
    let found = uses(place.path(), |_| json!(true));
    assert_all(&found, false, &["reads", "lists", "writes", "makes", "executes"]);
    assert_all(&found["own"], true, &["reads", "writes", "moves", "moves uploads"]);
    for (need, met) in found["needs"].as_object().unwrap() {
        assert_eq!(met, &json!(true), "{need}");
    }
}

#[test]
fn a_sandbox_opens_what_it_names_and_as_far_as_it_says() {
    if !has_landlock(landlock::FILES) {
        return;
    }
    let Some(place) = place_of_sites() else { return };
    let uses = |sandbox: fn(&Path) -> Value| uses(place.path(), sandbox);
    let found = uses(|directory| json!({"read": [directory]}));
    assert_all(&found, true, &["reads", "lists"]);
    assert_all(&found, false, &["writes", "makes", "executes"]);
    let found = uses(|directory| json!({"write": directory}));
    assert_all(&found, true, &["reads", "lists", "writes", "makes"]);
    assert_all(&found, false, &["executes"]);
    let found = uses(|directory| json!({"execute": [directory]}));
    assert_all(&found, true, &["reads", "lists", "executes"]);
    assert_all(&found, false, &["writes", "makes"]);
    let found = uses(|directory| json!({"read": directory.join("file")}));
    assert_all(&found, true, &["reads"]);
    assert_all(&found, false, &["lists", "writes", "makes", "executes"]);
    let found = uses(|_| json!(false));
    assert_all(&found, true, &["reads", "lists", "writes", "makes", "executes"]);
}

#[test]
fn a_release_that_replaces_another_is_in_the_sandbox() {
    if !has_landlock(landlock::FILES) {
        return;
    }
    let Some(place) = place_of_sites() else { return };
    let above = place.path().join("releases");
    for release in ["1", "2"] {
        fs::create_dir_all(above.join(release)).unwrap();
        fs::write(above.join(release).join("a.php"), format!("<?php echo {release};")).unwrap();
        open_to_all(&above.join(release), 0o755);
    }
    let current = above.join("current");
    symlink("1", &current).unwrap();
    let server = Site::new()
        .with(json!({
            "routes": [{"action": {
                "share": format!("{}$uri", current.display()), "scripts": "applications/site",
            }}],
            "applications": {"site": {"root": current, "isolation": {"sandbox": true}}},
        }))
        .serve();
    assert_eq!(server.get("/a.php").text(), "1");
    symlink("2", above.join("next")).unwrap();
    fs::rename(above.join("next"), &current).unwrap();
    eventually("the new release is served", || (server.get("/a.php").text() == "2").then_some(()));
}

#[test]
fn a_link_that_a_script_could_have_made_opens_nothing() {
    if !has_landlock(landlock::FILES) {
        return;
    }
    let Some(place) = place_of_sites() else { return };
    let site = Site::script("a.php", USES);
    symlink(neighbour(place.path()), site.root().join("link")).unwrap();
    let link = site.root().join("link");
    let application = json!({"isolation": {"sandbox": {"read": link}}});
    let site = site.with(json!({"applications": {"site": application}}));
    let output = programs::run(site.command(&free_address().to_string()).arg("--strict"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(
        said.contains("isolation/sandbox/read: ") && said.contains("a link leads out of"),
        "{said}"
    );
}

#[test]
fn a_sandbox_that_cannot_be_as_it_is_meant_keeps_the_application_from_running() {
    if !has_landlock(landlock::FILES) {
        return;
    }
    let start = |sandbox: Value| {
        let application = json!({"isolation": {"sandbox": sandbox}});
        let site = Site::script("a.php", "").with(json!({"applications": {"site": application}}));
        let mut command = site.command(&free_address().to_string());
        let started = programs::run(command.arg("--strict"));
        let mut check = std::process::Command::new(howdah());
        let config = site.root().parent().unwrap().join("config.json");
        let checked = programs::run(check.arg("check").arg(config));
        [started, checked].map(|output| {
            assert!(!output.status.success());
            String::from_utf8_lossy(&output.stderr).into_owned()
        })
    };
    for said in start(json!({"write": ["/no/such/directory"]})) {
        assert!(said.contains("isolation/sandbox/write: /no/such/directory: "), "{said}");
    }
    if !requirements::is_root() {
        let application = json!({"isolation": {"sandbox": true, "new_privs": true}});
        let site = Site::script("a.php", "").with(json!({"applications": {"site": application}}));
        let output = programs::run(site.command(&free_address().to_string()).arg("--strict"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("isolation/sandbox: cannot be had together"), "{said}");
    }
}

// -- howdah serve DIR --

#[test]
fn a_directory_is_served_with_its_project_and_without_its_neighbours() {
    if !has_landlock(landlock::FILES) || !requirements::root() {
        return;
    }
    let Some(place) = place_of_sites() else { return };
    let at = |name: &str| place.path().join(name);
    let code = "<?php
        $read = fn($path) => @file_get_contents($path) === 'x';
        $above = dirname(__DIR__);
        echo json_encode([
            'project' => $read(\"$above/config.php\"),
            'database' => (bool) @file_put_contents(\"$above/storage/db\", 'x'),
            'program' => trim((string) @shell_exec(\"$above/bin/tool 2>/dev/null\")) === 'tool',
            'package' => $read(\"$above/vendor/acme/package/file\"),
            'neighbour' => $read(dirname($above) . '/other/config.php'),
        ]);";
    for (name, text, mode) in [
        ("shop/public/index.php", code, 0o644),
        ("shop/composer.json", "{}", 0o644),
        ("shop/config.php", "x", 0o644),
        ("shop/bin/tool", "#!/bin/sh\necho tool\n", 0o755),
        ("packages/package/file", "x", 0o644),
        ("other/config.php", "x", 0o644),
    ] {
        fs::create_dir_all(at(name).parent().unwrap()).unwrap();
        fs::write(at(name), text).unwrap();
        open_to_all(&at(name), mode);
    }
    for directory in ["shop/storage", "shop/vendor/acme"] {
        fs::create_dir_all(at(directory)).unwrap();
    }
    open_to_all(&at("shop/storage"), 0o777);
    symlink(at("packages/package"), at("shop/vendor/acme/package")).unwrap();
    for (served, option, is_closed) in
        [("shop", None, true), ("shop/public", None, true), ("shop", Some("--no-sandbox"), false)]
    {
        let mut site = Site::new();
        if let Some(option) = option {
            site = site.argument(option);
        }
        let server = site.at(at(served)).workers(1).serve();
        let found = asked(&server, "/index.php");
        assert_all(&found, true, &["project", "database", "program", "package"]);
        assert_eq!(found["neighbour"], json!(!is_closed), "{served} {option:?}: {found}");
        assert_eq!(server.announcement.contains("sandbox: "), is_closed, "{}", server.announcement);
    }
}
