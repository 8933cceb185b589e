//! Resident applications: the state that one request leaves for the next one.

mod harness;

use harness::resident::{LOOP, PAUSING_LOOP, Script};
use howdah_wire::frame::Retirement;

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
    // The script does not name the superglobal, so PHP does not fill it.
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
    // One request holds the lock as long as a file exists; the other one waits for the lock.
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
    let body = "--x\r\nContent-Disposition: form-data; name=\"f\"; \
                filename=\"a.txt\"\r\n\r\ncontent\r\n--x--\r\n";
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
        getenv('LEAK'), getcwd(), decoct(umask()), ini_get('max_execution_time'), \
        setlocale(LC_ALL, 0),
        error_get_last(), http_response_code(), headers_list(), ob_get_level(), \
        connection_status()]);";
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
fn a_message_that_cannot_be_written_ends_no_worker() {
    let script = Script::new(PAUSING_LOOP);
    let application = harness::Application::start_with(1, &|spec| {
        spec.worker = Some(script.spec());
        spec.environment.push(("ERRORS".into(), "/dev/full".into()));
    });
    let mut resident = harness::resident::Resident { application, script: &script };
    let pid = resident.text("echo getmypid();");
    let request = script.request("").with("HTTP_PAUSE", "trigger_error('for standard error');");
    assert_eq!(resident.send(&request).status, 200);
    assert_eq!(resident.text("echo getmypid();"), pid);
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

/// A filter of the output may remove secrets. As in classic PHP, the output that it was to change
/// is not sent if it fails; only the output that a function of the script sends itself.
#[test]
fn what_a_filter_of_the_output_could_not_change_is_not_sent() {
    const THROW: &str = "function () { throw new Exception('lost'); }";
    const EXIT: &str = "function () { exit; }";
    let script = Script::new(PAUSING_LOOP);
    let mut resident = script.start(1);
    let handler = "set_exception_handler(function () { echo 'handled'; });";
    let handled = format!("{handler} ob_start({THROW}); echo 'secret';");
    if resident.text("echo PHP_VERSION_ID >= 80400;") == "1" {
        // The exception handler runs there since 8.4, and PHP sends the text as it was: php-cgi
        // does, too.
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
        "function first() {{ echo 'first'; return true; }} function second() \
         {{ echo 'second'; return true; }}
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
