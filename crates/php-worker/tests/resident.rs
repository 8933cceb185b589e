//! Resident applications: a worker script that stays in memory. The state that one request leaves
//! for the next one, the ends of workers, and scripts that do not work.

use harness::resident::{LOOP, PAUSING_LOOP, Resident, Script};
use harness::{Application, start_failing};
use howdah_sys::signals;
use howdah_wire::frame::Retirement;
use howdah_wire::messages::{Exit, FromTemplate};
use howdah_wire::queue::WorkerId;

mod harness;

const FIRST: WorkerId = WorkerId { index: 0, incarnation: 0 };

const SECOND: WorkerId = WorkerId { index: 1, incarnation: 0 };

/// Lets a stopped process continue.
const SIGCONT: i32 = 18;

#[test]
fn workers_are_forked_from_a_script_that_has_booted() {
    let script = Script::new(&format!(
        "$boot = getmypid(); define('BOOT', $boot); echo 'for the log'; {LOOP}"
    ));
    let mut resident = script.start(2);
    let template = resident.application.templates[0].expect("a template");
    let pids: Vec<_> = (0..20).map(|_| resident.text("echo BOOT, ' ', getmypid();")).collect();
    for text in &pids {
        let (boot, pid) = text.split_once(' ').unwrap();
        assert_eq!(boot, template.to_string());
        assert_ne!(pid, boot);
    }
    // The prototype is the parent of the workers, so the end of the template does not end them.
    signals::send(template, signals::SIGKILL).unwrap();
    assert!(resident.text("echo BOOT;").starts_with(&template.to_string()));
}

#[test]
fn a_template_that_has_ended_is_started_again() {
    let script = Script::new(&format!("define('BOOT', getmypid()); {LOOP}"));
    let mut resident = script.start(1);
    let first = resident.application.templates[0].unwrap();
    signals::send(first, signals::SIGKILL).unwrap();
    let mut failures = 0;
    let mut worker = SECOND;
    while let Err(message) = resident.application.try_spawn(worker) {
        assert!(message.contains("template") || message.contains("started again"), "{message}");
        failures += 1;
        assert!(failures < 600, "{message}");
        worker.incarnation += 1;
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let second = *resident.application.templates.last().unwrap();
    assert_ne!(second, Some(first));
    assert!(second.is_some());
}

#[test]
fn a_template_that_is_only_slow_is_no_failure_of_the_application() {
    let script = Script::new(LOOP);
    let mut resident = script.start(1);
    let template = resident.application.templates[0].unwrap();
    signals::send(template, signals::SIGSTOP).unwrap();
    let message = resident.application.try_spawn(SECOND).unwrap_err();
    assert!(message.contains("has not forked it in time"), "{message}");
    assert!(resident.application.is_refusal_temporary);
    signals::send(template, SIGCONT).unwrap();
    let mut worker = WorkerId { incarnation: 1, ..SECOND };
    // Until it has a processor, each attempt is refused at once.
    while let Err(message) = resident.application.try_spawn(worker) {
        worker.incarnation += 1;
        assert!(worker.incarnation < 600, "{message}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn a_process_that_a_script_forks_takes_no_request() {
    let script = Script::new(PAUSING_LOOP);
    let mut resident = script.start(1);
    if resident.text("echo function_exists('pcntl_fork');") != "1" {
        return;
    }
    let worker = resident.text("echo getmypid();");
    let fork = "$child = pcntl_fork(); if ($child === 0) { echo 'child'; } else { echo 'parent'; }";
    for pause in ["", "pcntl_fork();", "if (pcntl_fork() === 0) { usleep(100000); }"] {
        let code = if pause.is_empty() { fork } else { "echo 'parent';" };
        let answer = resident.send(&script.request(code).with("HTTP_PAUSE", pause));
        assert_eq!((answer.text().as_str(), answer.done.unwrap().retirement), ("parent", None));
        for _ in 0..10 {
            assert_eq!(resident.text("usleep(20000); echo getmypid();"), worker, "{pause}");
        }
    }
    let script = Script::new(&format!("pcntl_fork(); {LOOP}"));
    let mut resident = script.start(1);
    let worker = resident.text("echo getmypid();");
    for _ in 0..10 {
        assert_eq!(resident.text("usleep(20000); echo getmypid();"), worker);
    }
}

/// In classic PHP they end with the connection, at the end of the request.
#[test]
fn a_transaction_that_a_request_leaves_open_does_not_reach_the_next() {
    let script = Script::new(&format!(
        "class Own extends PDO {{ public function inTransaction(): bool \
         {{ throw new Exception; }} }}
        class Db {{ public static $all = []; }}
        {LOOP}"
    ));
    let mut resident = script.start(1);
    if resident.text("echo extension_loaded('pdo_sqlite');") != "1" {
        return;
    }
    let file = script.directory.path().join("db");
    let open = |class: &str, options: &str| {
        let file = file.display();
        format!("Db::$all[] = $db = new {class}('sqlite:{file}', null, null, [{options}]);")
    };
    let setup = format!("{} $db->exec('create table t (a)'); echo 'ok';", open("PDO", ""));
    assert_eq!(resident.text(&setup), "ok");
    let worker = resident.text("echo getmypid();");
    for (class, options) in [("PDO", ""), ("Own", ""), ("PDO", "PDO::ATTR_PERSISTENT => true")] {
        let begin = "$db->beginTransaction(); $db->exec('insert into t values (1)'); echo 'begun';";
        assert_eq!(resident.text(&format!("{} {begin}", open(class, options))), "begun");
        let state = "$db = end(Db::$all); echo (new ReflectionMethod('PDO', 'inTransaction'))
            ->invoke($db) ? 'open' : 'closed', $db->query('select count(*) from \
            t')->fetchColumn();";
        assert_eq!(resident.text(state), "closed0", "{class} {options}");
        let commit = "$db = end(Db::$all); $db->beginTransaction(); $db->exec('delete from t');
            $db->commit(); echo getmypid();";
        assert_eq!(resident.text(commit), worker, "{class} {options}");
    }
}

#[test]
fn signals_and_limits_that_a_request_changes_do_not_reach_the_next() {
    let script = Script::new(&format!("set_time_limit(1); {LOOP}"));
    let mut resident = script.start(1);
    if resident.text("echo (int) function_exists('pcntl_signal');") != "1" {
        return;
    }
    for (change, reason) in [
        ("pcntl_signal(SIGPROF, SIG_IGN);", Some(Retirement::Signals)),
        ("pcntl_signal(SIGPROF, function () {});", Some(Retirement::Signals)),
        ("pcntl_async_signals(true);", Some(Retirement::Signals)),
        ("pcntl_sigprocmask(SIG_BLOCK, [SIGPROF, SIGUSR2]);", None),
    ] {
        match reason {
            Some(reason) => assert_eq!(resident.last(change).1, reason, "{change}"),
            None => assert_eq!(resident.text(change), "", "{change}"),
        }
        let (answer, reason) = resident.last("while (true);");
        assert_eq!((answer.status, reason), (500, Retirement::Timeout), "{change}");
    }
    let mask = "pcntl_sigprocmask(SIG_BLOCK, [], $old); echo json_encode($old);";
    let fresh = resident.text(mask);
    resident.text("pcntl_sigprocmask(SIG_BLOCK, [SIGUSR2]); pcntl_async_signals();");
    assert_eq!(resident.text(mask), fresh);
    resident.text("pcntl_alarm(100);");
    assert_eq!(resident.text("echo pcntl_alarm(0);"), "0");
    if resident.text("echo (int) function_exists('posix_setrlimit');") == "1" {
        let limits = "echo json_encode(posix_getrlimit());";
        let fresh = resident.text(limits);
        let change = "$n = posix_getrlimit()['soft openfiles'] - 1;
            posix_setrlimit(POSIX_RLIMIT_NOFILE, $n, $n) || exit;";
        let answer = resident.run(change);
        match answer.done.unwrap().retirement {
            None => assert_eq!(resident.text(limits), fresh),
            reason => assert_eq!(reason, Some(Retirement::Limits)),
        }
    }
}

#[test]
fn what_a_request_registers_for_streams_ends_with_it() {
    streams_are_restored("");
    streams_are_restored("stream_context_set_default(['http' => ['header' => 'X: of the boot']]);");
    streams_are_restored(
        "stream_context_set_params(stream_context_get_default(), ['notification' => 'strlen']);",
    );
}

fn streams_are_restored(boot: &str) {
    let script = Script::new(&format!("{boot} {LOOP}"));
    let mut resident = script.start(1);
    let state = "try { $directory = readdir(); } catch (TypeError $error) \
                 { $directory = $error->getMessage(); }
        echo json_encode([stream_get_wrappers(), stream_get_filters(), $directory,
            @file_get_contents('php://memory'), \
            stream_context_get_params(stream_context_get_default())]);";
    let fresh = resident.text(state);
    for change in [
        "stream_wrapper_unregister('php');",
        "stream_context_set_default(['http' => ['header' => 'Cookie: of one visitor']]);",
        "$GLOBALS['kept'] = fopen('php://memory', 'r', false, stream_context_get_default());",
        "stream_context_set_params(stream_context_get_default(), ['notification' => 'var_dump']);",
        "opendir('/'); readdir();",
        "readdir(dir('/')->handle); rewinddir();",
        "class W {} stream_wrapper_register('own', 'W');",
        "class F extends php_user_filter {} stream_filter_register('own.*', 'F');",
    ] {
        resident.text(change);
        assert_eq!(resident.text(state), fresh, "{change}");
    }
}

#[test]
fn a_directory_of_another_request_is_not_read_if_none_can_be_opened() {
    let script = Script::new(LOOP);
    let mut resident = script.start(1);
    let read =
        "try { var_dump(readdir()); } catch (TypeError $error) { echo $error->getMessage(); }";
    assert!(resident.text(&format!("opendir('/'); {read}")).starts_with("string("));
    for open in ["opendir", "dir"] {
        let text = resident.text(&format!("@{open}('/nonexistent'); {read}"));
        assert_eq!(text, "No resource supplied", "{open}");
    }
}

#[test]
fn a_variable_of_the_boot_that_a_request_changes_ends_its_worker() {
    let script = Script::new(&format!("putenv('BOOT=1'); {LOOP}"));
    let mut resident = script.start(1);
    let (answer, reason) = resident.last("putenv('BOOT=2'); echo getenv('BOOT');");
    assert_eq!((answer.text().as_str(), reason), ("2", Retirement::Environment));
    assert_eq!(resident.text("echo getenv('BOOT');"), "1");
}

#[test]
fn a_session_belongs_to_one_visitor() {
    let script = Script::new(&format!(
        "ini_set('session.save_path', sys_get_temp_dir()); ini_set('session.cache_limiter', ''); \
         {LOOP}"
    ));
    let mut resident = script.start(1);
    let count = "session_start(); $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1; echo \
                 $_SESSION['n'], ' ', session_id();";
    let visit = |resident: &mut Resident<'_>, id: Option<&str>| {
        let request = script.request(count);
        let request = match id {
            Some(id) => request.with("HTTP_COOKIE", format!("PHPSESSID={id}")),
            None => request,
        };
        let text = resident.send(&request).text();
        let (number, id) = text.split_once(' ').unwrap();
        (number.to_owned(), id.to_owned())
    };
    let (number, one) = visit(&mut resident, None);
    assert_eq!(number, "1");
    assert_eq!(resident.text("echo isset($_SESSION) ? 'leak' : 'none', session_id();"), "none");
    let (number, other) = visit(&mut resident, None);
    assert_eq!(number, "1");
    assert_ne!(one, other);
    assert_eq!(visit(&mut resident, Some(&one)), ("2".to_owned(), one.clone()));
    assert_eq!(visit(&mut resident, Some(&other)).0, "2");
    // A session that a fatal error has left open is written as well.
    let (_, reason) = {
        let request = script.request("session_start(); $_SESSION['n'] = 7; nothing();");
        let request = request.with("HTTP_COOKIE", format!("PHPSESSID={one}"));
        let answer = resident.send(&request);
        (answer.text(), answer.done.unwrap().retirement)
    };
    assert_eq!(reason, None, "an uncaught exception does not end the worker");
    assert_eq!(visit(&mut resident, Some(&one)).0, "8");
    for id in [one, other] {
        let request = script.request("session_start(); session_destroy();");
        resident.send(&request.with("HTTP_COOKIE", format!("PHPSESSID={id}")));
    }
}

#[test]
fn each_worker_boots_if_the_script_leaves_a_process() {
    for (start, is_left) in
        [("proc_open('sleep 100', [], $pipes)", true), ("shell_exec('true')", false)]
    {
        let script = Script::new(&format!(
            "$process = {start}; $pipes = null; define('BOOT', getmypid()); {LOOP}"
        ));
        let mut resident = script.start(1);
        assert_eq!(
            resident.text("echo BOOT === getmypid() ? 'own' : 'shared';") == "own",
            is_left,
            "{start}"
        );
        assert_eq!(resident.application.templates[0].is_none(), is_left, "{start}");
    }
}

#[test]
fn exit_completes_the_response_and_ends_the_worker() {
    let script = Script::new(&format!(
        "register_shutdown_function(function () {{ echo ' shutdown'; }}); {LOOP}"
    ));
    let mut resident = script.start(1);
    let (answer, reason) = resident.last("http_response_code(202); echo 'out'; exit(3);");
    assert_eq!((answer.status, answer.text().as_str()), (202, "out shutdown"));
    assert_eq!(reason, Retirement::Exit);
    assert_eq!(resident.text("echo 'next';"), "next");
}

#[test]
fn an_error_that_php_cannot_go_on_after_ends_the_worker_alone() {
    let script = Script::new(&format!("set_time_limit(60); {LOOP}"));
    let mut resident = script.start(1);
    let (answer, reason) = resident.last("str_repeat('x', 1 << 40);");
    assert_eq!((answer.status, reason), (500, Retirement::Fatal));
    assert!(answer.logged("Allowed memory size"), "{answer:?}");
    let (answer, reason) = resident.last("set_time_limit(1); while (true);");
    assert_eq!((answer.status, reason), (500, Retirement::Timeout));
    assert_eq!(resident.text("echo 'next';"), "next");
}

#[test]
fn an_uncaught_exception_is_an_error_of_its_request_alone() {
    let script = Script::new(LOOP);
    let mut resident = script.start(1);
    for _ in 0..3 {
        let answer = resident.run("throw new Exception('boo');");
        assert_eq!((answer.status, answer.done.unwrap().retirement), (500, None));
        assert!(answer.logged("Uncaught Exception: boo"), "{answer:?}");
        assert_eq!(resident.text("echo 'next';"), "next");
    }
    let script = Script::new(&format!(
        "set_exception_handler(function ($e) {{ echo 'caught ', $e->getMessage(); }}); {LOOP}"
    ));
    let mut resident = script.start(1);
    for _ in 0..3 {
        assert_eq!(resident.text("throw new Exception('boo');"), "caught boo");
    }
}

#[test]
fn an_exception_that_the_exception_handler_throws_is_an_error_of_its_request() {
    let script = Script::new(&format!(
        "set_exception_handler(function ($e) {{
            if ($e->getMessage() === 'exit') exit;
            throw $e;
        }});
        {LOOP}"
    ));
    let mut resident = script.start(1);
    for _ in 0..2 {
        let answer = resident.run("throw new Exception('boo');");
        assert_eq!((answer.status, answer.done.as_ref().unwrap().retirement), (500, None));
        assert!(answer.logged("Uncaught Exception: boo"), "{answer:?}");
    }
    assert_eq!(resident.last("throw new Exception('exit');").1, Retirement::Exit);
    assert_eq!(resident.text("echo 'next';"), "next");
}

#[test]
fn a_worker_that_is_killed_is_replaced_by_a_fork() {
    let script = Script::new(&format!("define('BOOT', getmypid()); {LOOP}"));
    let mut resident = script.start(1);
    let boot = resident.text("echo BOOT;");
    let killing = resident.application.send(&script.request("posix_kill(getmypid(), 9);"));
    let (worker, _, status) = resident.application.death();
    assert_eq!((worker, status), (FIRST, Exit::Signal(9)));
    drop(killing);
    resident.application.spawn(WorkerId { index: 0, incarnation: 1 });
    assert_eq!(resident.text("echo BOOT;"), boot);
}

#[test]
fn a_worker_ends_its_loop_after_its_last_request() {
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("ended");
    let script = Script::new(&format!(
        "{LOOP} file_put_contents('{}', 'the loop has ended');",
        mark.display()
    ));
    let mut resident = script.start_with(1, 2);
    assert_eq!(resident.run("").done.unwrap().retirement, None);
    assert_eq!(resident.run("").done.unwrap().retirement, Some(Retirement::Requests));
    assert_eq!(resident.application.death().2, Exit::Status(0));
    assert_eq!(std::fs::read_to_string(mark).unwrap(), "the loop has ended");
    let endless = Script::new(&format!("while (true) {{ {LOOP} }}"));
    let mut resident = endless.start_with(1, 1);
    resident.run("");
    assert_eq!(resident.application.death().2, Exit::Status(0));
}

#[test]
fn each_worker_boots_if_workers_would_share_a_connection() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let script = Script::new(&format!(
        "$c = fsockopen('127.0.0.1', {}); define('BOOT', getmypid()); {LOOP}",
        address.port()
    ));
    let mut resident = script.start(2);
    assert_eq!(resident.application.templates, [None]);
    for _ in 0..10 {
        let text = resident.text("echo BOOT, ' ', getmypid();");
        let (boot, pid) = text.split_once(' ').unwrap();
        assert_eq!(boot, pid);
    }
}

#[test]
fn an_open_log_does_not_keep_workers_from_sharing_the_boot() {
    let script = Script::new(&format!("$log = fopen(__DIR__ . '/log', 'a'); {LOOP}"));
    let mut resident = script.start(1);
    resident.text("");
    assert!(matches!(resident.application.templates[..], [Some(_)]));
}

#[test]
fn a_request_can_warm_the_application_up() {
    let mut script = Script::new(
        "$n = 0; while (frankenphp_handle_request(function () use (&$n) {
             $n++; echo $n, ' ', $GLOBALS['warm'] ?? 'none';
             if ($_SERVER['REQUEST_URI'] === '/warm?a=1') {
                 $GLOBALS['warm'] = json_encode([$_GET, $_SERVER['HTTP_HOST'], \
                 $_SERVER['REQUEST_METHOD']]);
             }
         }));",
    );
    script.warm_up = Some("/warm?a=1".to_owned());
    let mut resident = script.start(1);
    assert_eq!(resident.text(""), r#"2 [{"a":"1"},"localhost","GET"]"#);
}

#[test]
fn an_application_starts_without_a_warm_up_that_fails() {
    let mut script = Script::new(
        "while (frankenphp_handle_request(function () {
             if ($_SERVER['REQUEST_URI'] === '/warm') exit(1);
             echo 'fine';
         }));",
    );
    script.warm_up = Some("/warm".to_owned());
    assert_eq!(script.start(1).text(""), "fine");
}

#[test]
fn a_script_that_does_not_work_keeps_the_application_from_running() {
    let fails = |code: &str| {
        let script = Script::new(code);
        start_failing(&|spec| spec.worker = Some(script.spec()))
    };
    let message = fails("echo 'no loop';");
    assert!(message.contains("without calling frankenphp_handle_request()"), "{message}");
    let message = fails("throw new Exception('no database');");
    assert!(message.contains("no database"), "{message}");
    let message = fails("function {");
    assert!(message.contains("syntax error"), "{message}");
    let message = fails("posix_kill(getmypid(), 11);");
    assert!(message.contains("signal 11"), "{message}");
    let missing = start_failing(&|spec| {
        let mut worker = Script::new("").spec();
        worker.script = "/none/worker.php".to_owned();
        spec.worker = Some(worker);
    });
    let expected = "the worker script /none/worker.php cannot be read: No such file";
    assert!(missing.contains(expected), "{missing}");
    let message = fails("exit(3);");
    assert!(message.contains("without calling"), "{message}");
    let message = fails("(new Fiber(fn () => frankenphp_handle_request(fn () => 1)))->start();");
    assert!(message.contains("called in a fiber"), "{message}");
}

/// Writes a message, in octal, to each pipe of its process that a script can open. The shell would
/// wait for ever to open a pipe whose reader has been killed meanwhile.
const WRITE_EVERYWHERE: &str = "for ($n = 3; $n < 64; $n++) {
    if (str_starts_with((string) @readlink('/proc/self/fd/' . $n), 'pipe:')) {
        $command = 'printf ' . escapeshellarg($message) . ' > /proc/' . getmypid() . '/fd/' . $n;
        shell_exec('timeout -s KILL 5 sh -c ' . escapeshellarg($command));
    }
}";

#[test]
fn a_template_that_forges_messages_is_killed() {
    let worker = WorkerId { index: 3, incarnation: 9 };
    let forged = [
        FromTemplate::Forked { worker, pid: 1 }.encode(),
        FromTemplate::NotForked { worker, message: "no".to_owned() }.encode(),
        vec![0xff; 3],
    ];
    for message in forged {
        let length = u32::try_from(message.len()).unwrap().to_le_bytes();
        let bytes: String =
            length.iter().chain(&message).map(|byte| format!("\\{byte:03o}")).collect();
        let script =
            Script::new(&format!("$message = '{bytes}{bytes}'; {WRITE_EVERYWHERE} {LOOP}"));
        let problem = start_failing(&|spec| spec.worker = Some(script.spec()));
        assert!(problem.contains("its template"), "{problem}");
    }
}

#[test]
fn a_script_that_does_not_work_is_replaced_by_the_classic_way_if_that_is_permitted() {
    let mut script =
        Script::new("echo isset($_SERVER['FRANKENPHP_WORKER']) ? 'worker' : 'classic';");
    script.has_fallback = true;
    assert_eq!(script.start(1).text(""), "classic");
}

#[test]
fn opcache_reset_asks_for_a_restart() {
    let script = Script::new(LOOP);
    let mut resident = script.start(1);
    let (answer, reason) = resident.last("var_dump(opcache_reset());");
    assert_eq!((answer.text().trim(), reason), ("bool(true)", Retirement::Restart));
    // In the boot it has no effect: the boot is a fresh start.
    let script = Script::new(&format!("opcache_reset(); {LOOP}"));
    assert_eq!(script.start(1).text("echo 'goes on';"), "goes on");
}

#[test]
fn functions_of_frankenphp_exist_in_every_application() {
    let mut application = Application::start(1);
    let answer = application.run(
        "try { frankenphp_handle_request(fn () => 1); } catch (RuntimeException $e) \
         { echo $e->getMessage(); }
         frankenphp_log('noted', FRANKENPHP_LOG_LEVEL_WARN, ['a' => 1]);
         echo json_encode([frankenphp_response_headers(), frankenphp_finish_request()]);",
    );
    let expected = "frankenphp_handle_request() called while not in worker mode";
    assert!(answer.text().starts_with(expected), "{answer:?}");
    assert!(answer.log.contains(&(4, r#"noted {"a":1}"#.to_owned())), "{answer:?}");
}

#[test]
fn a_request_cannot_ask_for_another_one() {
    let script = Script::new(LOOP);
    let mut resident = script.start(1);
    let nested = "try { frankenphp_handle_request(fn () => 1); } catch (RuntimeException $e) \
                  { echo $e->getMessage(); }";
    assert!(resident.text(nested).contains("while it handles a request"));
    let fiber = "(new Fiber(function () { frankenphp_finish_request(); }))->start(); echo 'gone';";
    assert_eq!(resident.text(fiber), "");
    assert_eq!(resident.text("echo 'next';"), "next");
}

#[test]
fn opcache_counts_each_worker_as_a_user_of_its_memory() {
    let script = Script::new(&format!("opcache_get_status(); {LOOP}"));
    let resident = script.start(2);
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    for worker in resident.application.workers.values() {
        let held =
            |line: &&str| line.contains("READ") && line.contains(&format!(" {} ", worker.pid));
        assert!(locks.lines().any(|line| held(&line)), "{} in {locks}", worker.pid);
    }
}

#[test]
fn the_state_of_opcache_comes_with_a_request_at_most_once_a_second() {
    let script = Script::new(LOOP);
    let mut resident = script.start(1);
    let mut states = Vec::new();
    let began = std::time::Instant::now();
    while states.len() < 2 {
        states.extend(resident.run("").done.unwrap().opcache);
        assert!(began.elapsed().as_secs() < 30);
    }
    let state = states[1];
    assert!(state.is_enabled && state.misses > 0 && state.used > 0 && state.free > 0, "{state:?}");
    let next = (0..5).filter_map(|_| resident.run("").done.unwrap().opcache).count();
    assert!(next <= 1 + began.elapsed().as_secs() as usize, "{next}");
}
