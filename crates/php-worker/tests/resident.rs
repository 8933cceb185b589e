//! Resident applications: a worker script that stays in memory. What one request leaves for the next
//! one, how workers end, and what happens if the script does not work.

mod harness;

use harness::resident::{LOOP, PAUSING_LOOP, Resident, Script};
use harness::{Application, start_failing};
use howdah_sys::signals;
use howdah_wire::frame::Retirement;
use howdah_wire::messages::{Exit, FromTemplate};
use howdah_wire::queue::WorkerId;

const FIRST: WorkerId = WorkerId { index: 0, incarnation: 0 };
const SECOND: WorkerId = WorkerId { index: 1, incarnation: 0 };

/// Lets a stopped process go on.
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
fn a_request_has_its_own_input() {
    let script = Script::new(&format!("$_GET['a'] = 'boot'; $_POST['b'] = 'boot'; {LOOP}"));
    let mut resident = script.start(1);
    let show = "echo json_encode([$_GET, $_POST, $_COOKIE, $_FILES, $_REQUEST,
        file_get_contents('php://input'), $_SERVER['REQUEST_METHOD'], $_SERVER['FRANKENPHP_WORKER'],
        $_SERVER['HTTP_X'] ?? null, getenv('HTTP_X'), frankenphp_request_headers()['X'] ?? null]);";
    let request = script
        .request(show)
        .post("application/x-www-form-urlencoded", "b=2")
        .with("QUERY_STRING", "a=1")
        .with("HTTP_COOKIE", "c=3")
        .with("HTTP_X", "yes");
    let expected = r#"[{"a":"1"},{"b":"2"},{"c":"3"},[],{"a":"1","b":"2"},"b=2","POST","1","yes","yes","yes"]"#;
    for _ in 0..2 {
        assert_eq!(resident.send(&request).text(), expected);
        let empty = r#"[[],[],[],[],[],"","GET","1",null,false,null]"#;
        assert_eq!(resident.text(show), empty);
    }
}

#[test]
fn variables_of_the_server_are_those_of_the_request_whenever_a_script_first_uses_them() {
    // Nothing in this script makes PHP fill the superglobal.
    let script = Script::new(
        "while (frankenphp_handle_request(function () { eval(getenv('HTTP_CODE')); }));",
    );
    for show in ["echo $_SERVER['HTTP_X'] ?? '';", "echo filter_input(INPUT_SERVER, 'HTTP_X');"] {
        let mut resident = script.start(1);
        assert_eq!(resident.text("echo getenv('REQUEST_METHOD');"), "GET");
        for value in ["one", "two"] {
            let request = script.request(show).with("HTTP_X", value);
            assert_eq!(resident.send(&request).text(), value);
            assert_eq!(resident.text(show), "");
        }
    }
}

#[test]
fn workers_exclude_each_other_from_a_file_that_the_boot_has_opened() {
    let script = Script::new(&format!(
        "$log = fopen(sys_get_temp_dir() . '/howdah-' . getmypid() . '.log', 'a'); {LOOP}"
    ));
    let mut resident = script.start(2);
    // One of them holds the lock for as long as there is a file, which the other one waits for.
    let wait = |condition: &str| {
        format!(
            "for ($i = 0; {condition} && $i < 30000; $i++) {{ usleep(1000); clearstatcache(); }}"
        )
    };
    let name = "global $log; $name = stream_get_meta_data($log)['uri'];";
    let lock = format!(
        "{name} flock($log, LOCK_EX) || exit; fwrite($log, 'x'); touch(\"$name.held\"); {}
         flock($log, LOCK_UN); echo getmypid();",
        wait("file_exists(\"$name.held\")")
    );
    let try_lock = format!(
        "{name} {} echo flock($log, LOCK_EX | LOCK_NB) ? 'free' : 'locked';
         unlink($name); unlink(\"$name.held\");",
        wait("!file_exists(\"$name.held\")")
    );
    let holding = resident.application.send(&script.request(&lock));
    assert_eq!(resident.text(&try_lock), "locked");
    holding.wait(&mut resident.application);
}

#[test]
fn urls_are_rewritten_in_each_request() {
    let script = Script::new(LOOP);
    let mut resident = script.start(1);
    let code = "output_add_rewrite_var('v', 'b'); echo '<form method=post></form>';";
    let first = resident.text(code);
    assert!(first.contains("hidden"), "{first}");
    assert_eq!(resident.text(code), first);
    assert_eq!(resident.text("echo '<form method=post></form>';"), "<form method=post></form>");
}

#[test]
fn the_input_of_a_request_ends_with_it() {
    let script = Script::new(&format!("$kept = []; {LOOP}"));
    let mut resident = script.start(1);
    for count in 1..=3 {
        let keep = "$stream = fopen('php://input', 'r'); fread($stream, 2);
            $file = new SplFileObject('php://filter/read=string.toupper/resource=php://input');
            $file->fgets(); $xml = class_exists('XMLReader') ? new XMLReader() : null;
            $xml?->open('php://input');
            $GLOBALS['kept'][] = [$stream, $file, $xml]; echo file_get_contents('php://input');";
        let body = "<body>\nof a visitor\n".repeat(1000);
        let request = script.request(keep).post("text/plain", body.as_str());
        assert_eq!(resident.send(&request).text(), body);
        // Memory that was freed is used again, so that a dangling stream would show it or crash.
        let state = "$a = []; for ($i = 0; $i < 2000; $i++) $a[] = str_repeat('A', 160 + $i % 100);
            echo count($GLOBALS['kept']);
            foreach ($GLOBALS['kept'] as [$stream, $file, $xml]) {
                echo fread($stream, 9), feof($stream), $file->eof();
                try { echo $file->fgets(); } catch (RuntimeException) {}
                try { while (@$xml?->read()); } catch (Error) {}
            }
            echo file_get_contents('php://input');";
        let request = script.request(state).post("text/plain", "of the next");
        assert_eq!(
            resident.send(&request).text(),
            format!("{count}{}of the next", "11".repeat(count))
        );
    }
    resident.text("$GLOBALS['kept'] = []; gc_collect_cycles();");
    assert_eq!(resident.text("echo 'goes on';"), "goes on");
}

#[test]
fn an_uploaded_file_is_removed_after_its_request() {
    let script = Script::new(LOOP);
    let mut resident = script.start(1);
    let body = "--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.txt\"\r\n\r\ncontent\r\n--x--\r\n";
    let code = "$path = $_FILES['f']['tmp_name'];
        echo json_encode([is_uploaded_file($path), file_get_contents($path), $path]);";
    let request = script.request(code).post("multipart/form-data; boundary=x", body);
    let text = resident.send(&request).text();
    assert!(text.starts_with(r#"[true,"content","#), "{text}");
    let path = text.rsplit('"').nth(1).unwrap().replace("\\/", "/");
    assert!(!std::path::Path::new(&path).exists(), "{path}");
    assert_eq!(resident.text("echo count($_FILES);"), "0");
}

#[test]
fn state_of_php_returns_to_that_after_the_boot() {
    let script = Script::new(&format!(
        "set_error_handler(function ($level, $text) {{ echo 'boot:', $text; return true; }});
         date_default_timezone_set('Europe/Berlin'); putenv('BOOT=1'); chdir('/'); umask(0027);
         set_time_limit(77); mt_srand(5); {LOOP}"
    ));
    let mut resident = script.start(1);
    let state = "trigger_error('x'); echo json_encode([date_default_timezone_get(), getenv('BOOT'),
        getenv('LEAK'), getcwd(), decoct(umask()), ini_get('max_execution_time'), setlocale(LC_ALL, 0),
        error_get_last(), http_response_code(), headers_list(), ob_get_level(), connection_status()]);";
    let fresh = resident.text(state);
    assert!(fresh.starts_with(r#"boot:x["Europe\/Berlin","1",false,"\/","27","77","#), "{fresh}");
    for change in [
        "date_default_timezone_set('Asia/Tokyo');",
        "putenv('LEAK=1'); putenv('PATH=/nowhere');",
        "chdir('/tmp');",
        "umask(0);",
        "set_time_limit(0);",
        "setlocale(LC_ALL, 'C'); setlocale(LC_TIME, 'C.UTF-8');",
        "set_error_handler(null); set_exception_handler('var_dump');",
        "set_error_handler('a'); set_error_handler('b'); restore_error_handler();",
        "header('X: 1'); http_response_code(404); header('HTTP/1.1 405 Strange');",
        "ob_start(); echo 'inner'; ob_start();",
        "set_error_handler(null); echo $undefined; @strlen();",
    ] {
        let answer = resident.run(&format!("try {{ {change} }} catch (Error) {{}}"));
        assert_eq!(answer.done.unwrap().retirement, None, "{change}");
        assert_eq!(resident.text(state), fresh, "{change}");
    }
    let numbers: Vec<_> = (0..8).map(|_| resident.text("echo mt_rand();")).collect();
    assert!(numbers.iter().any(|number| *number != numbers[0]), "{numbers:?}");
}

#[test]
fn a_script_may_use_all_of_php_between_two_requests() {
    let script = Script::new(PAUSING_LOOP);
    let mut resident = script.start(1);
    let state = "echo json_encode([getmypid(), getcwd(), umask(), date_default_timezone_get(),
        getenv('A'), setlocale(LC_ALL, 0), session_id(), session_status(), headers_list(),
        ob_get_level(), error_get_last(), is_writable('data:,')]);";
    let fresh = resident.text(state);
    for pause in [
        "ob_start(); echo 'mail'; $text = ob_get_clean(); if ($text !== 'mail') exit;",
        "ob_start(); ob_start(); echo 'left open';",
        "phpinfo(); print_r($_SERVER, true); highlight_string('<?php 1;');",
        "chdir('/'); umask(0); date_default_timezone_set('Asia/Kolkata'); putenv('A=1');",
        "setlocale(LC_ALL, 'C');",
        "session_start(); $_SESSION['a'] = 1;",
        "header('X-Leak: 1'); http_response_code(404); setcookie('a', 'b');",
        "flush(); fastcgi_finish_request(); trigger_error('pause');",
        "register_shutdown_function(function () {}); $_POST['a'] = 1;",
    ] {
        let request = script.request("echo 'answer';").with("HTTP_PAUSE", pause);
        let answer = resident.send(&request);
        assert_eq!((answer.status, answer.text().as_str()), (200, "answer"), "{pause}");
        assert_eq!(resident.text(state), fresh, "{pause}");
    }
    let id = "session_id() ?: session_start(); echo session_id();";
    let request = script.request(id).with("HTTP_PAUSE", "session_start();");
    assert_ne!(resident.send(&request).text(), resident.send(&script.request(id)).text());
}

#[test]
fn a_script_that_computes_for_ever_between_two_requests_is_ended() {
    let script = Script::new(&format!("set_time_limit(1); {PAUSING_LOOP}"));
    let mut resident = script.start(1);
    let request = script.request("echo 'answer';").with("HTTP_PAUSE", "while (true);");
    assert_eq!(resident.send(&request).text(), "answer");
    resident.application.death();
}

#[test]
fn an_exception_at_the_end_of_a_request_is_an_error_of_it() {
    let script = Script::new(&format!(
        "class Broken extends SessionHandler {{
            function write($id, $data): bool {{ throw new Exception('lost'); }}
        }}
        {PAUSING_LOOP}"
    ));
    let mut resident = script.start(1);
    let expected = resident.text("echo getmypid();");
    for (status, code) in [
        (500, "session_set_save_handler(new Broken); session_start(); $_SESSION['a'] = 1;"),
        (500, "session_set_save_handler(new Broken); session_start(); echo 'answer';"),
    ] {
        let answer = resident.run(code);
        let retirement = answer.done.as_ref().unwrap().retirement;
        assert_eq!((answer.status, retirement), (status, None), "{code}");
        assert!(answer.logged("Uncaught Exception: lost"), "{code}: {answer:?}");
        assert_eq!(resident.text("echo getmypid();"), expected, "{code}");
    }
    // In a pause, there is no request that could have the error.
    let pause = "ob_start(function ($text) { throw new Exception('lost'); }); echo 1;";
    let request = script.request("echo 'answer';").with("HTTP_PAUSE", pause);
    assert_eq!(resident.send(&request).text(), "answer");
    assert_eq!(resident.text("echo 'next';"), "next");
}

/// A filter of the output may remove secrets. As in classic PHP, nothing of what it was to change is sent if
/// it fails; only what a function of the script sends itself.
#[test]
fn what_a_filter_of_the_output_could_not_change_is_not_sent() {
    const THROW: &str = "function () { throw new Exception('lost'); }";
    const EXIT: &str = "function () { exit; }";
    let script = Script::new(PAUSING_LOOP);
    let mut resident = script.start(1);
    let handler = "set_exception_handler(function () { echo 'handled'; });";
    let handled = format!("{handler} ob_start({THROW}); echo 'secret';");
    if resident.text("echo PHP_VERSION_ID >= 80400;") == "1" {
        // The exception handler runs there since 8.4, and PHP sends the text as it was: php-cgi does, too.
        assert_eq!(resident.text(&handled), "secrethandled");
    } else {
        let (answer, reason) = resident.last(&handled);
        assert_eq!((answer.status, answer.text().as_str()), (500, ""));
        assert_eq!(reason, Retirement::Fatal);
    }
    for (status, code) in [
        (500, format!("ob_start({THROW}); echo 'secret';")),
        (500, format!("ob_start({THROW}); ob_start(); echo 'secret';")),
        (500, format!("ob_start(); echo 'outer'; ob_start({THROW}); echo 'secret';")),
        (500, "ob_start(function () { none(); }); echo 'secret';".to_owned()),
        (500, "ob_start(fn () => trigger_error('', E_USER_ERROR)); echo 'secret';".to_owned()),
        (500, format!("header_register_callback({THROW}); ob_start(); echo 'secret';")),
        (500, format!("header_register_callback({THROW});")),
        (200, format!("ob_start({EXIT}); echo 'secret';")),
        (200, format!("header_register_callback({EXIT}); ob_start(); echo 'secret';")),
        (200, format!("header_register_callback({EXIT});")),
    ] {
        let (answer, reason) = resident.last(&code);
        let expected = if code.contains(EXIT) { Retirement::Exit } else { Retirement::Fatal };
        assert_eq!((answer.status, reason), (status, expected), "{code}");
        assert_eq!(answer.text(), "", "{code}");
        assert!(code.contains(EXIT) || answer.logged("PHP Fatal error"), "{code}: {answer:?}");
        assert_eq!(resident.text("echo 'next';"), "next", "{code}");
    }
    // A function of the script runs: it gets the exception, as in classic PHP.
    let flush =
        format!("ob_start({THROW}); echo 'a'; try {{ ob_end_flush(); }} catch (Exception) {{}}");
    let answer = resident.run(&flush);
    assert_eq!((answer.status, answer.text().as_str()), (200, "a"));
    assert_eq!(answer.done.unwrap().retirement, None);
}

#[test]
fn shutdown_functions_of_a_request_run_at_its_end() {
    let script = Script::new(&format!(
        "register_shutdown_function(function () {{ echo ' boot'; }}); {PAUSING_LOOP}"
    ));
    let mut resident = script.start(1);
    let register = "register_shutdown_function(function () { echo ' end'; }); echo 'one';";
    assert_eq!(resident.text(register), "one end");
    assert_eq!(resident.text("echo 'two';"), "two");
    let request = script.request("echo 'three';").with("HTTP_PAUSE", register);
    assert_eq!(resident.send(&request).text(), "three");
    assert_eq!(resident.text("echo 'four';"), "four");
    let throws = "register_shutdown_function(function () { throw new Exception('late'); });";
    let answer = resident.run(throws);
    assert_eq!((answer.status, answer.done.unwrap().retirement), (500, None));
    // With the process, those of the boot run too.
    let (answer, reason) = resident.last(&format!("{register} exit;"));
    assert_eq!((answer.text().as_str(), reason), ("one boot end", Retirement::Exit));
    let exits = "register_shutdown_function(function () { echo ' end'; exit; }); echo 'one';";
    let (answer, reason) = resident.last(exits);
    assert_eq!((answer.text().as_str(), reason), ("one end boot", Retirement::Exit));
    let fails = "register_shutdown_function(function () { str_repeat('x', 1 << 40); });";
    assert_eq!(resident.last(fails).1, Retirement::Fatal);
    assert_eq!(resident.text("echo 'next';"), "next");
}

#[test]
fn a_shutdown_function_runs_once_although_another_ends_the_script() {
    let script = Script::new(&format!("set_time_limit(60); {LOOP}"));
    let mut resident = script.start(1);
    for (end, expected) in [
        ("exit;", Retirement::Exit),
        ("str_repeat('x', 1 << 40);", Retirement::Fatal),
        ("set_time_limit(1); while (true);", Retirement::Timeout),
    ] {
        let (answer, reason) = resident.last(&format!(
            "ini_set('display_errors', '0');
             while (ob_get_level()) ob_end_clean(); // PHP drops buffers after memory_limit.
             register_shutdown_function(function () {{ echo 'A'; }});
             register_shutdown_function(function () {{ echo 'B'; {end} }});
             register_shutdown_function(function () {{ echo 'C'; }});
             echo 'x';"
        ));
        assert_eq!((answer.text().as_str(), reason), ("xAB", expected), "{end}");
    }
    assert_eq!(resident.text("echo 'next';"), "next");
}

#[test]
fn settings_that_functions_change_return_to_those_after_the_boot() {
    let script = Script::new(&format!("register_tick_function(function () {{}}); {LOOP}"));
    let mut resident = script.start(1);
    let state = "echo json_encode([ignore_user_abort(), gc_enabled()]);";
    let fresh = resident.text(state);
    resident.text("ignore_user_abort(true); gc_disable();");
    assert_eq!(resident.text(state), fresh);
    let ticks = "declare(ticks=1); $a = 1; $b = 2;";
    let register = "register_tick_function(function () { echo 'tick'; });";
    assert!(resident.text(&format!("{register} {ticks}")).contains("tick"));
    assert_eq!(resident.text(ticks), "");
}

#[test]
fn what_a_request_takes_from_the_boot_is_put_back() {
    let script = Script::new(&format!(
        "ini_set('precision', '5'); ini_set('default_charset', 'ISO-8859-1');
         set_error_handler(function () {{ echo 'first'; return true; }});
         set_error_handler(function () {{ echo 'second'; return true; }});
         set_exception_handler('strlen'); set_exception_handler('var_dump'); {LOOP}"
    ));
    let mut resident = script.start(1);
    let state = "echo ini_get('precision'), ini_get('default_charset'), 1 / 3, $undefined;
        restore_error_handler(); echo $undefined; restore_error_handler(); @print($undefined);
        restore_exception_handler(); echo set_exception_handler(null);";
    let fresh = resident.text(state);
    assert_eq!(fresh, "5ISO-8859-10.33333secondfirststrlen");
    for change in [
        "ini_restore('precision');",
        "ini_set('default_charset', 'UTF-8'); ini_restore('default_charset');",
        "restore_error_handler(); restore_error_handler(); restore_error_handler();",
        "restore_error_handler(); set_error_handler('a'); set_error_handler('b');",
        "restore_exception_handler(); restore_exception_handler(); set_exception_handler('a');",
    ] {
        let answer = resident.run(&format!("try {{ {change} }} catch (Error) {{}}"));
        assert_eq!(answer.done.unwrap().retirement, None, "{change}");
        assert_eq!(resident.text(state), fresh, "{change}");
    }
}

#[test]
fn handlers_keep_the_levels_that_the_boot_has_given_them() {
    let script = Script::new(&format!(
        "function first() {{ echo 'first'; return true; }} function second() {{ echo 'second'; return true; }}
         set_error_handler('first'); set_error_handler('second'); {LOOP}"
    ));
    let mut resident = script.start(1);
    let state = "restore_error_handler(); echo @$undefined;";
    assert_eq!(resident.text(state), "first");
    resident.text(
        "restore_error_handler(); restore_error_handler();
         set_error_handler('first', E_USER_NOTICE); set_error_handler('second');",
    );
    assert_eq!(resident.text(state), "first");
}

#[test]
fn a_tick_function_of_the_boot_that_a_request_removes_ends_its_worker() {
    let script = Script::new(&format!(
        "function tick() {{ echo 'tick '; }} register_tick_function('tick'); {LOOP}"
    ));
    let mut resident = script.start(1);
    let ticks = "declare(ticks=1); $a = 1;";
    let fresh = resident.text(ticks);
    assert!(fresh.contains("tick"), "{fresh}");
    let (_, reason) =
        resident.last("unregister_tick_function('tick'); register_tick_function('time');");
    assert_eq!(reason, Retirement::Settings);
    assert_eq!(resident.text(ticks), fresh);
}

#[test]
fn memory_beyond_the_limit_ends_its_worker() {
    let script = Script::new(&format!("ini_set('memory_limit', '64M'); {LOOP}"));
    let mut resident = script.start(1);
    let keep = "ini_set('memory_limit', '256M'); $GLOBALS['kept'] = str_repeat('x', 100 << 20);";
    assert_eq!(resident.last(keep).1, Retirement::Settings);
    assert_eq!(
        resident.run("str_repeat('x', 70 << 20);").done.unwrap().retirement,
        Some(Retirement::Fatal)
    );
}

#[test]
fn errors_of_dates_and_of_databases_are_those_of_one_request() {
    let script = Script::new(LOOP);
    let mut resident = script.start(1);
    let date =
        "echo json_encode([date_get_last_errors()['errors'] ?? [], spl_autoload_extensions()]);";
    let fresh = resident.text(date);
    assert!(fresh.contains("[],"), "{fresh}");
    let changes = "date_create('secret'); spl_autoload_extensions('.x'); echo getmypid();";
    let process = resident.text(changes);
    assert_eq!(resident.text(date), fresh);
    assert_eq!(resident.text("echo getmypid();"), process);
    if resident.text("echo extension_loaded('mysqli');") != "1" {
        return;
    }
    for (boot, mode) in [("", "3"), ("mysqli_report(MYSQLI_REPORT_OFF);", "0")] {
        let script = Script::new(&format!("{boot} {LOOP}"));
        let mut resident = script.start(1);
        let state = "echo (new mysqli_driver)->report_mode, mysqli_connect_error();";
        assert_eq!(resident.text(state), mode, "{boot}");
        for change in [
            "mysqli_report(MYSQLI_REPORT_INDEX);",
            "$driver = new mysqli_driver; $driver->report_mode = 5;",
            "try { @mysqli_connect('localhost', 'u', 'p', 'd', 0, '/none'); } catch (Exception) {}
             if (!mysqli_connect_errno()) exit;",
        ] {
            assert_eq!(resident.run(change).done.unwrap().retirement, None, "{change}");
            assert_eq!(resident.text(state), mode, "{boot} {change}");
        }
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
        "class Own extends PDO {{ public function inTransaction(): bool {{ throw new Exception; }} }}
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
            ->invoke($db) ? 'open' : 'closed', $db->query('select count(*) from t')->fetchColumn();";
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
    let state = "try { $directory = readdir(); } catch (TypeError $error) { $directory = $error->getMessage(); }
        echo json_encode([stream_get_wrappers(), stream_get_filters(), $directory,
            @file_get_contents('php://memory'), stream_context_get_params(stream_context_get_default())]);";
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
        "ini_set('session.save_path', sys_get_temp_dir()); ini_set('session.cache_limiter', ''); {LOOP}"
    ));
    let mut resident = script.start(1);
    let count = "session_start(); $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1; echo $_SESSION['n'], ' ', session_id();";
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
                 $GLOBALS['warm'] = json_encode([$_GET, $_SERVER['HTTP_HOST'], $_SERVER['REQUEST_METHOD']]);
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

/// Writes a message, in octal, to each pipe of its process that a script can open. The shell would wait for ever to open
/// a pipe whose reader has been killed meanwhile.
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
    // In the boot it has no effect: what it starts is new.
    let script = Script::new(&format!("opcache_reset(); {LOOP}"));
    assert_eq!(script.start(1).text("echo 'goes on';"), "goes on");
}

#[test]
fn functions_of_frankenphp_exist_in_every_application() {
    let mut application = Application::start(1);
    let answer = application.run(
        "try { frankenphp_handle_request(fn () => 1); } catch (RuntimeException $e) { echo $e->getMessage(); }
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
    let nested = "try { frankenphp_handle_request(fn () => 1); } catch (RuntimeException $e) { echo $e->getMessage(); }";
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
