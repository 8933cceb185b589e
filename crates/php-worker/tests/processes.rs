//! The life of prototype and workers, and the traces that a request leaves for the next one.

mod harness;

use std::collections::HashSet;
use std::fs;
use std::time::Duration;

use harness::{Application, start_failing};
use howdah_harness::time::Stopwatch;
use howdah_sys::futex;
use howdah_wire::messages::Exit;
use howdah_wire::queue::WorkerId;

const FIRST: WorkerId = WorkerId { index: 0, incarnation: 0 };

fn command_line(pid: u32) -> String {
    let raw = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&raw).trim_end_matches('\0').trim_end().to_owned()
}

fn exists(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    !stat.contains(") Z ")
}

/// Longer than scripts sleep here, and longer than a busy machine needs.
const TEST_TIMEOUT: Duration = Duration::from_secs(40);

fn soon(condition: impl Fn() -> bool) -> bool {
    let start = Stopwatch::start();
    while start.elapsed() < TEST_TIMEOUT {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

fn is_soon_gone(pid: u32) -> bool {
    soon(|| !exists(pid))
}

#[test]
fn titles_tell_what_a_process_is() {
    let application = Application::start(1);
    assert_eq!(command_line(application.prototype()), "howdah: \"test\" prototype");
    // A worker is reported before it has run any code.
    let worker = application.workers[&FIRST].pid;
    let title = "howdah: \"test\" application";
    assert!(soon(|| command_line(worker) == title), "{}", command_line(worker));
}

#[test]
fn version_is_one_line() {
    let output =
        std::process::Command::new(env!("CARGO_BIN_EXE_howdah-php")).arg("--version").output();
    let output = output.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.starts_with("PHP 8.") && text.lines().count() == 1);
    assert!(text.contains("OPcache 8."), "{text}");
}

#[test]
fn a_person_is_told_what_this_program_is() {
    let run = |arguments: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_howdah-php"))
            .args(arguments)
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for arguments in [&[][..], &["-v"], &["--version", "x"]] {
        let (status, said) = run(arguments);
        assert_eq!(status, Some(2));
        assert!(said.contains("is started by howdah"), "{said}");
    }
}

#[test]
fn workers_share_what_opcache_has_compiled() {
    let mut application = Application::start(4);
    let path = application.file("included.php", "<?php return 1;");
    let old = std::time::SystemTime::now() - Duration::from_secs(60);
    fs::File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
    let code = |round: u32, workers: u32| {
        // No worker finishes before all of them have started work.
        format!(
            "include '{0}'; touch('{1}/{round}-' . getmypid());
             for ($i = 0; count(glob('{1}/{round}-*')) < {workers} && $i < 3000; $i++) \
             usleep(10000);
             $s = opcache_get_status();
             echo json_encode([getmypid(), $s['opcache_enabled'],
                 isset($s['scripts']['{0}']) ? $s['scripts']['{0}']['hits'] : -1]);",
            path.display(),
            path.parent().unwrap().display()
        )
    };
    application.run(&code(0, 1));
    let mut pids = HashSet::new();
    let mut hits = 0;
    for round in 1..=5 {
        let requests: Vec<_> = (0..4).map(|_| application.script(&code(round, 4))).collect();
        let pending: Vec<_> = requests.iter().map(|r| application.send(r)).collect();
        for pending in pending {
            let text = pending.wait(&mut application).text();
            let parts: Vec<&str> = text.trim_matches(['[', ']']).split(',').collect();
            pids.insert(parts[0].to_owned());
            assert_eq!(parts[1], "true");
            hits = hits.max(parts[2].parse::<i64>().unwrap());
        }
    }
    assert_eq!(pids.len(), 4, "all workers work");
    assert!(hits >= 15, "{hits} hits");
}

#[test]
fn preloaded_classes_are_there_from_the_first_request() {
    let directory = tempfile::tempdir().unwrap();
    let preload = directory.path().join("preload.php");
    fs::write(&preload, "<?php class Preloaded { const HERE = 'here'; }").unwrap();
    let preload = preload.to_str().unwrap().to_owned();
    let user = if rustix::process::geteuid().is_root() { "root" } else { "" };
    let mut application = Application::start_with(1, &|spec| {
        spec.ini_admin = vec![
            ("opcache.preload".into(), preload.clone()),
            ("opcache.preload_user".into(), user.into()),
        ];
    });
    assert_eq!(application.run("echo Preloaded::HERE;").text(), "here");
}

#[test]
fn a_worker_leaves_after_its_last_request() {
    let mut application = Application::start_with(1, &|spec| spec.requests = 3);
    for n in 1..=3 {
        let answer = application.run("echo 1;");
        assert_eq!(answer.done.unwrap().retirement.is_some(), n == 3);
    }
    assert_eq!(application.death().2, Exit::Status(0));
}

#[test]
fn idle_workers_leave_when_asked() {
    let mut application = Application::start(3);
    application.run("echo 1;");
    application.region.retire(1);
    futex::wake(application.region.wake_word(), 3);
    assert_eq!(application.death().2, Exit::Status(0));
    assert_eq!(application.run("echo 'still here';").text(), "still here");
    application.region.close();
    futex::wake(application.region.wake_word(), 3);
    for _ in 0..2 {
        assert_eq!(application.death().2, Exit::Status(0));
    }
}

#[test]
fn workers_end_when_the_router_has_gone() {
    let mut application = Application::start(1);
    let worker = application.workers.remove(&FIRST).unwrap();
    drop(worker.socket);
    assert!(is_soon_gone(worker.pid));
}

#[test]
fn nobody_outlives_the_supervisor() {
    let mut application = Application::start(1);
    let pids = [application.prototype(), application.workers[&FIRST].pid];
    let request = application.script("sleep(60);");
    let _pending = application.send(&request);
    std::thread::sleep(Duration::from_millis(100));
    application.hang_up();
    for pid in pids {
        assert!(is_soon_gone(pid), "{}", command_line(pid));
    }
}

#[test]
fn workers_die_with_their_prototype() {
    let application = Application::start(2);
    let pids: Vec<u32> = application.workers.values().map(|worker| worker.pid).collect();
    drop(application);
    for pid in pids {
        assert!(is_soon_gone(pid));
    }
}

#[test]
fn programs_started_by_scripts_inherit_nothing_of_ours() {
    let mut application = Application::start(1);
    let answer =
        application.run("echo shell_exec('ls -l /proc/self/fd; grep Sig /proc/self/status');");
    let text = answer.text();
    let descriptors: Vec<&str> = text.lines().filter(|line| line.contains(" -> ")).collect();
    // 0, 1, 2 and the directory that ls reads.
    assert_eq!(descriptors.len(), 4, "{text}");
    for set in ["SigBlk", "SigIgn"] {
        let line = text.lines().find(|line| line.starts_with(set)).unwrap();
        let set = u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap();
        // Signals 32 and 33 belong to the C library, and may be ignored in the environment of the
        // tests.
        assert_eq!(set & !(3 << 31), 0, "{line}");
    }
}

#[test]
fn random_numbers_differ_between_workers() {
    let mut application = Application::start(4);
    let requests: Vec<_> = (0..4)
        .map(|_| {
            application.script(
                "usleep(100000); echo getmypid(), ' ', mt_rand(), lcg_value(), uniqid('', true);",
            )
        })
        .collect();
    let pending: Vec<_> = requests.iter().map(|r| application.send(r)).collect();
    let mut seen = HashSet::new();
    for pending in pending {
        let text = pending.wait(&mut application).text();
        seen.insert(text.split_once(' ').unwrap().1.to_owned());
    }
    assert_eq!(seen.len(), 4);
}

#[test]
fn nothing_of_a_request_is_left_for_the_next() {
    let mut application = Application::start(1);
    let show = "echo json_encode([getcwd(), umask(), getenv('LEFT'), ini_get('precision'),
        setlocale(LC_ALL, 0), $_GET, $_POST, $_COOKIE, isset($GLOBALS['left']),
        error_reporting(), function_exists('left'), ob_get_level(), http_response_code(),
        mb_internal_encoding(), date_default_timezone_get(), ignore_user_abort(),
        stream_get_wrappers()]);";
    let before = application.run(show).text();
    application.run(
        "chdir('/'); umask(0); putenv('LEFT=1'); ini_set('precision', 3);
         setlocale(LC_ALL, 'C.UTF-8'); $left = 1; error_reporting(0); function left() {}
         ob_start(); http_response_code(404); mb_internal_encoding('ISO-8859-1');
         date_default_timezone_set('Asia/Tokyo'); ignore_user_abort(true);
         stream_wrapper_unregister('http'); set_error_handler(fn() => true);",
    );
    application.run("chdir('/'); umask(0); putenv('LEFT=1'); no_such_function();");
    let after = application.run(show).text();
    let directory = application.root.path().to_str().unwrap();
    assert_eq!(after, before);
    assert!(before.contains(&directory.replace('/', "\\/")), "{before}");
}

#[test]
fn scripts_run_in_their_directory_and_shutdown_functions_in_the_applications() {
    let mut application = Application::start(1);
    application.file("sub/part.php", "<?php echo 'part ';");
    let path = application.file(
        "sub/a.php",
        "<?php include 'part.php'; echo basename(getcwd()), ' ';
         register_shutdown_function(function () { echo getcwd(); });",
    );
    let request = harness::Request::get(&path, application.root.path());
    let text = application.send(&request).wait(&mut application).text();
    assert_eq!(text, format!("part sub {}", application.root.path().display()));
}

#[test]
fn sessions_persist_and_do_not_mix() {
    let mut application = Application::start(1);
    let directory = application.root.path().to_str().unwrap().to_owned();
    let code = format!(
        "session_save_path('{directory}'); session_start();
         echo $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;"
    );
    let first = application.run(&code);
    let cookie = first.field("Set-Cookie").unwrap().split(';').next().unwrap().to_owned();
    let again = application.script(&code).with("HTTP_COOKIE", cookie);
    assert_eq!(application.send(&again).wait(&mut application).text(), "2");
    assert_eq!(application.run(&code).text(), "1", "another visitor");
}

#[test]
fn workers_do_not_grow() {
    let mut application = Application::start(1);
    let pid = application.workers[&FIRST].pid;
    // Counted page by page: the sum in `status` may be wrong by 128 KiB for each processor.
    let facts = || {
        let memory = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
        let line = memory.lines().find(|line| line.starts_with("Anonymous:")).unwrap();
        let kilobytes: i64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        (kilobytes, fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count())
    };
    let request = application
        .script("echo str_repeat('x', 10000), count($_FILES), getenv('A'); putenv('A=1');")
        .with("HTTP_AUTHORIZATION", "Basic dXNlcjpwYTpzcw==")
        .post(
            "multipart/form-data; boundary=B",
            "--B\r\nContent-Disposition: form-data; name=\"f\"; \
             filename=\"a\"\r\n\r\nx\r\n--B--\r\n",
        )
        .body_in_file();
    for _ in 0..200 {
        application.send(&request).wait(&mut application);
    }
    let before = facts();
    for _ in 0..2000 {
        application.send(&request).wait(&mut application);
    }
    let after = facts();
    assert!(after.0 - before.0 < 300 && after.1 == before.1, "{before:?} {after:?}");
}

#[test]
fn the_prototype_measures_what_workers_cost() {
    const MIB: u64 = 1 << 20;
    let mut application = Application::start_with(2, &|spec| {
        spec.ini_admin = vec![("memory_limit".into(), "100M".into())]
    });
    // The title that a worker sets does not hide its processes.
    application.run(
        "file_put_contents('/proc/self/comm', \"\\xff\"); $x = str_repeat('x', 50 << 20);
         $x = null; for ($i = 0; $i < 1e6; $i++);",
    );
    let (workers, limit) = application.measure();
    assert_eq!((workers.len(), limit), (2, Some(100 * MIB)));
    let busy = workers.iter().max_by_key(|usage| usage.peak).unwrap();
    assert!((50 * MIB..70 * MIB).contains(&busy.peak), "{busy:?}");
    assert!(busy.private < 20 * MIB && busy.cpu_us > 1000, "the memory was given back: {busy:?}");
    let (workers, _) = application.measure();
    let again = workers.iter().find(|usage| usage.worker == busy.worker).unwrap();
    assert!(again.peak < 20 * MIB, "the peak is of the time since then: {again:?}");
}

#[test]
fn what_php_says_when_it_cannot_start_is_passed_on() {
    let message = start_failing(&|spec| spec.ini_file = Some("/proc/self/mem/php.ini".into()));
    assert!(message.contains("/proc/self/mem/php.ini cannot be read"), "{message}");
    let message = start_failing(&|spec| {
        spec.ini_admin = vec![("opcache.preload".into(), "/no/such/preload.php".into())];
    });
    assert!(message.contains("ended while it was being loaded"), "{message}");
    let message = start_failing(&|spec| spec.ini_user = vec![("a=1\nb".into(), "x".into())]);
    assert!(message.contains("not the name of a PHP setting"), "{message}");
}

#[test]
fn a_php_ini_that_does_not_exist_is_no_reason_not_to_serve() {
    let mut application =
        Application::start_with(1, &|spec| spec.ini_file = Some("/no/such/php.ini".into()));
    let without = Application::start(1).run("echo php_ini_loaded_file();").text();
    assert_eq!(application.run("echo php_ini_loaded_file();").text(), without);
}

#[test]
fn scripts_find_the_extension_of_unit() {
    let mut application = Application::start(1);
    let code = "echo json_encode([extension_loaded('unit'), get_extension_funcs('unit')]);";
    assert_eq!(application.run(code).text(), "[true,false]");
}

#[test]
fn another_php_ini_can_be_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("php.ini");
    fs::write(&file, "precision=11\n").unwrap();
    let file = file.to_str().unwrap().to_owned();
    let mut application = Application::start_with(1, &|spec| spec.ini_file = Some(file.clone()));
    assert_eq!(
        application.run("echo ini_get('precision'), php_ini_loaded_file();").text(),
        format!("11{file}")
    );
}

/// Returns the owner of a process's files in /proc: root, if only root may trace the process.
fn owner(pid: u32) -> u32 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(format!("/proc/{pid}/environ")).unwrap().uid()
}

#[test]
fn nobody_can_trace_a_prototype_and_it_can_trace_its_workers() {
    let own = rustix::process::geteuid();
    let user = if own.is_root() { 65534 } else { own.as_raw() };
    let mut application = Application::start_with(1, &|spec| {
        spec.user = own.is_root().then(|| user.to_string());
    });
    let worker = application.workers[&FIRST].pid;
    assert_eq!(owner(application.prototype()), 0);
    assert!(soon(|| owner(worker) == user));
    harness::open_to_all(application.root.path());
    application.run("$x = str_repeat('x', 20 << 20);");
    let (workers, _) = application.measure();
    assert!(workers.len() == 1 && workers[0].peak > 20 << 20, "{workers:?}");
    let request = application.script("usleep(5000000);");
    let pending = application.send(&request);
    // The script is not there from the first moment on.
    let mut stacks = Vec::new();
    let begun = Stopwatch::start();
    while begun.elapsed() < TEST_TIMEOUT && !stacks.join("\n").contains("usleep(int)") {
        stacks.extend(application.trace(FIRST).unwrap());
    }
    assert!(stacks.join("\n").contains("usleep(int)"), "{:?}", stacks.last());
    pending.wait(&mut application);
}
