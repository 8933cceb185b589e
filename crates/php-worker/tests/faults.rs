//! Errors in scripts, and invalid input to workers.

mod harness;

use std::time::Duration;

use harness::Application;
use howdah_harness::time::Stopwatch;
use howdah_sys::signals;
use howdah_wire::messages::Exit;
use howdah_wire::queue::WorkerId;

#[test]
fn a_fatal_error_is_a_logged_500() {
    let mut application = Application::start(1);
    for code in [
        "no_such_function();",
        "throw new Exception('boom');",
        "this is no PHP",
        "require '/no/such/file.php';",
    ] {
        let answer = application.run(code);
        assert_eq!((answer.status, answer.body.len()), (500, 0), "{code}");
        assert!(answer.logged("PHP Fatal error") || answer.logged("PHP Parse error"), "{code}");
    }
    assert_eq!(application.run("echo 'alive';").text(), "alive");
}

#[test]
fn exit_and_die_are_no_errors() {
    let mut application = Application::start(1);
    let answer = application.run("echo 'a'; exit('b');");
    assert_eq!((answer.status, answer.text().as_str()), (200, "ab"));
    assert_eq!(application.run("echo 'a'; die();").text(), "a");
    assert_eq!(application.run("echo 'a'; exit(255);").status, 200);
}

#[test]
fn the_memory_limit_costs_one_request() {
    let mut application = Application::start(1);
    let answer = application.run("$a = []; while (true) $a[] = str_repeat('x', 1 << 20);");
    assert_eq!(answer.status, 500);
    assert!(answer.logged("Allowed memory size"));
    let next = application.run("echo memory_get_usage() < 4 << 20 ? 'small' : 'big';");
    assert_eq!(next.text(), "small");
}

#[test]
fn the_time_limit_ends_an_endless_loop() {
    let mut application = Application::start(1);
    for _ in 0..2 {
        let start = Stopwatch::start();
        let answer = application.run("set_time_limit(1); while (true);");
        assert_eq!(answer.status, 500);
        assert!(answer.logged("Maximum execution time of 1 second exceeded"), "{:?}", answer.log);
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
        assert!(answer.done.unwrap().cpu_us > 300_000);
    }
    assert_eq!(application.run("echo 'alive';").text(), "alive");
    assert!(application.workers.len() == 1);
}

#[test]
fn deep_recursion_costs_one_request() {
    let mut application = Application::start(1);
    let answer = application.run("function f($n) { return f($n + 1) + 1; } f(0);");
    assert_eq!(answer.status, 500);
    assert_eq!(application.run("echo 'alive';").text(), "alive");
}

#[test]
fn error_log_and_warnings_reach_the_log_with_their_severity() {
    let mut application = Application::start(1);
    let answer = application.run("error_log('by hand'); $x = $undefined; trigger_error('mine');");
    assert_eq!(answer.status, 200);
    assert!(answer.log.contains(&(5, "by hand".to_owned())), "{:?}", answer.log);
    assert!(answer.logged("Undefined variable $undefined") && answer.logged("mine"));
}

#[test]
fn a_long_log_message_is_not_cut() {
    let mut application = Application::start(1);
    let answer = application
        .run("ini_set('log_errors_max_len', 0); error_log(str_repeat('x', 200000) . 'end');");
    let whole: String = answer.log.iter().map(|(_, part)| part.as_str()).collect();
    assert_eq!((whole.len(), &whole[200_000..]), (200_003, "end"));
}

#[test]
fn a_killed_worker_leaves_its_request_marked_and_is_reported() {
    let mut application = Application::start(1);
    let owner = WorkerId { index: 0, incarnation: 0 };
    let request = application.script("echo 'x'; ob_flush(); flush(); sleep(30);");
    let mut pending = application.send(&request);
    pending.until(&mut application, |answer| !answer.body.is_empty());
    let pid = application.workers[&owner].pid;
    application.kill(owner, signals::SIGKILL);
    assert_eq!(application.death(), (owner, pid, Exit::Signal(9)));
    assert!(!application.last_was_idle);
    assert_eq!(application.owner(&pending), Some(owner), "the router can tell whose it was");
    // The worker's successor serves.
    application.spawn(WorkerId { index: 0, incarnation: 1 });
    assert_eq!(application.run("echo 'next';").text(), "next");
}

#[test]
fn a_worker_that_is_killed_while_it_waits_is_reported_as_idle() {
    let mut application = Application::start(1);
    let owner = WorkerId { index: 0, incarnation: 0 };
    let begun = Stopwatch::start();
    while !application.region.is_asleep(owner) {
        assert!(begun.elapsed() < Duration::from_secs(30), "it never waits");
        std::thread::sleep(Duration::from_millis(1));
    }
    application.kill(owner, signals::SIGKILL);
    application.death();
    assert!(application.last_was_idle);
    assert!(!application.region.is_asleep(owner), "its successor begins awake");
}

/// From PHP 8.5 on, a fatal error comes with a backtrace, which of an endless recursion has
/// millions of bytes.
#[test]
fn of_an_endless_message_the_beginning_is_logged() {
    let mut application = Application::start(1);
    let answer = application.run("error_log('its beginning ' . str_repeat('x', 3000000));");
    let message: String = answer.log.iter().map(|(_, part)| part.as_str()).collect();
    assert!(message.starts_with("its beginning xxx"), "{}", &message[..80]);
    assert!(message.len() < 1_100_000, "{}", message.len());
    assert!(message.ends_with("x… (1951438 more bytes)"), "{}", &message[message.len() - 80..]);
}

#[test]
fn a_script_that_crashes_takes_only_its_worker() {
    let mut application = Application::start(1);
    let request = application.script("posix_kill(getmypid(), 11); sleep(5);");
    let _pending = application.send(&request);
    let (_, _, exit) = application.death();
    assert_eq!(exit, Exit::Signal(11));
    application.spawn(WorkerId { index: 0, incarnation: 1 });
    assert_eq!(application.run("echo 'next';").text(), "next");
}

#[test]
fn a_script_that_forks_gives_one_answer_and_leaves_one_worker() {
    let mut application = Application::start(1);
    for end in [
        "exit;",
        "exit(3);",
        "echo 'end';",
        "no_such_function();",
        "flush(); while (ob_get_level()) ob_end_flush();",
    ] {
        let code = format!(
            "if (!function_exists('pcntl_fork')) die('parent');
             echo 'pa'; $child = pcntl_fork();
             if ($child === 0) {{ echo str_repeat('child', 9000); flush(); {end} return; }}
             pcntl_waitpid($child, $status); echo 'rent';"
        );
        assert_eq!(application.run(&code).text(), "parent", "{end}");
    }
    let pid = application.run("echo getmypid();").text();
    for _ in 0..5 {
        assert_eq!(application.run("echo getmypid();").text(), pid, "no copy takes requests");
    }
}

#[test]
fn signals_to_the_process_group_do_not_hurt() {
    let mut application = Application::start(1);
    let request = application.script("usleep(500000); echo 'whole';");
    let pid = application.workers[&WorkerId { index: 0, incarnation: 0 }].pid;
    let pending = application.send(&request);
    std::thread::sleep(Duration::from_millis(100));
    for signal in [
        signals::SIGHUP,
        signals::SIGINT,
        signals::SIGQUIT,
        signals::SIGTERM,
        signals::SIGUSR1,
        signals::SIGUSR2,
        signals::SIGPIPE,
    ] {
        signals::send(pid, signal).unwrap();
        signals::send(application.prototype(), signal).unwrap();
    }
    assert_eq!(pending.wait(&mut application).text(), "whole");
    application.spawn(WorkerId { index: 1, incarnation: 0 });
}

#[test]
fn garbage_in_the_slot_is_answered_and_harmless() {
    let mut application = Application::start(1);
    // A fixed sequence, so that a failure can be repeated.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let request = application.script("echo 'ok';").post("text/plain", "body");
    let sound = {
        let pending = application.send(&request);
        pending.wait(&mut application);
        request.encoded()
    };
    for round in 0..400 {
        let mut bytes = sound.clone();
        if round % 4 == 0 {
            bytes = (0..random() % 4000).map(|_| random() as u8).collect();
        } else {
            for _ in 0..=random() % 4 {
                let at =
                    random() as usize % bytes.len().min(if round % 2 == 0 { 60 } else { 9999 });
                bytes[at] ^= 1 << (random() % 8);
            }
            if round % 3 == 0 {
                bytes.truncate(random() as usize % bytes.len());
            }
        }
        // Announced descriptors that never arrive would only make this test slow.
        if let Some(flags) = bytes.first_mut() {
            *flags &= !3;
        }
        let answer = application.publish(&bytes, Vec::new()).wait(&mut application);
        assert!(answer.status >= 200, "{answer:?}");
    }
    assert_eq!(application.run("echo 'alive';").text(), "alive");
    assert!(application.workers.len() == 1);
}

#[test]
fn a_nul_in_a_parameter_is_400() {
    let mut application = Application::start(1);
    for (name, value) in
        [("SCRIPT_FILENAME", "/etc/passwd\0.php"), ("HTTP_X", "a\0b"), ("A\0B", "")]
    {
        let request = application.script("echo 1;").with(name, value);
        assert_eq!(application.send(&request).wait(&mut application).status, 400);
    }
}

#[test]
fn announced_descriptors_that_do_not_come_are_an_error() {
    let mut application = Application::start(1);
    let mut request = application.script("echo 1;").post("text/plain", "x").body_in_file();
    request.withhold = true;
    assert_eq!(application.send(&request).wait(&mut application).status, 500);
    request.params_in_file = true;
    assert_eq!(application.send(&request).wait(&mut application).status, 500);
    assert_eq!(application.run("echo 'alive';").text(), "alive");
}
