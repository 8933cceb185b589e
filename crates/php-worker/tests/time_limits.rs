//! PHP's time limits: processor time of a script, counted from its own start, although the worker
//! continues.

mod harness;

use harness::{Application, Request};
use howdah_wire::messages::Exit;
use howdah_wire::queue::WorkerId;

const FIRST: WorkerId = WorkerId { index: 0, incarnation: 0 };

/// Code that defines `burn()`, which uses processor time in milliseconds.
const BURN: &str = "function used() { $r = getrusage();
        return ($r['ru_utime.tv_sec'] + $r['ru_stime.tv_sec']) * 1000
            + ($r['ru_utime.tv_usec'] + $r['ru_stime.tv_usec']) / 1000; }
    function burn($ms) { $end = used() + $ms; while (used() < $end); }";

/// Starts an application with one worker and a time limit in seconds.
fn limited(seconds: &str) -> Application {
    Application::start_with(1, &|spec| {
        spec.ini_user = vec![("max_execution_time".into(), seconds.into())];
    })
}

fn burning(application: &Application, code: &str) -> Request {
    application.script(&format!("{BURN} {code}"))
}

#[test]
fn a_limit_counts_from_the_start_of_each_request() {
    let mut application = limited("1");
    let short = burning(&application, "burn(400); echo 'done';");
    let endless = burning(&application, "while (true);");
    for _ in 0..2 {
        for _ in 0..3 {
            assert_eq!(application.send(&short).wait(&mut application).text(), "done");
        }
        let answer = application.send(&endless).wait(&mut application);
        assert_eq!(answer.status, 500);
        assert!(answer.logged("Maximum execution time of 1 second exceeded"), "{:?}", answer.log);
        assert!(answer.done.unwrap().cpu_us > 300_000);
    }
}

#[test]
fn time_in_which_a_script_sleeps_does_not_count() {
    let mut application = limited("1");
    assert_eq!(application.run("sleep(1); usleep(500000); echo 'done';").text(), "done");
}

#[test]
fn a_body_takes_nothing_from_the_limit_of_the_script() {
    let mut application = limited("1");
    let body = format!("a={}", "x".repeat(20 << 20));
    let request = burning(&application, "burn(700); echo strlen($_POST['a'] ?? '');")
        .post("application/x-www-form-urlencoded", body)
        .body_in_file();
    for _ in 0..2 {
        let answer = application.send(&request).wait(&mut application);
        assert_eq!(answer.status, 200, "{:?}", answer.log);
    }
}

#[test]
fn set_time_limit_begins_anew_and_is_over_with_its_request() {
    let mut application = limited("1");
    let again = burning(&application, "burn(700); set_time_limit(1); burn(700); echo 'done';");
    assert_eq!(application.send(&again).wait(&mut application).text(), "done");
    let longer = burning(&application, "set_time_limit(30); burn(1500); echo 'done';");
    assert_eq!(application.send(&longer).wait(&mut application).text(), "done");
    let none = burning(&application, "set_time_limit(0); burn(1500); echo 'done';");
    assert_eq!(application.send(&none).wait(&mut application).text(), "done");
    let answer = application.run("while (true);");
    assert!(answer.logged("Maximum execution time of 1 second exceeded"), "{:?}", answer.log);
    let shorter = application.script("set_time_limit(30); set_time_limit(1); while (true);");
    let answer = application.send(&shorter).wait(&mut application);
    assert!(answer.logged("Maximum execution time of 1 second exceeded"), "{:?}", answer.log);
}

#[test]
fn shutdown_functions_run_after_the_limit_and_may_have_one_of_their_own() {
    let mut application = limited("1");
    let code = "register_shutdown_function(function () {
            echo connection_status(), error_get_last()['type'];
            set_time_limit(1); burn(500); echo 'half'; while (true); });
        while (true);";
    for _ in 0..2 {
        let request = burning(&application, code);
        let answer = application.send(&request).wait(&mut application);
        assert_eq!(answer.text(), "21half", "{:?}", answer.log);
        let limits = answer.log.iter().filter(|(_, line)| line.contains("Maximum execution time"));
        assert_eq!(limits.count(), 2, "{:?}", answer.log);
    }
    assert_eq!(application.run("echo 'alive';").text(), "alive");
}

#[test]
fn a_function_of_php_that_goes_on_after_the_limit_ends_the_process() {
    let mut application = limited("1");
    let request = application.script("hash_pbkdf2('sha512', 'a', 'b', 1 << 30);");
    let _pending = application.send(&request);
    let (worker, _, exit) = application.death();
    assert_eq!((worker, exit), (FIRST, Exit::Status(124)));
}

#[test]
fn a_script_that_ignores_or_blocks_the_signal_leaves_the_limit_to_the_next() {
    let mut application = limited("1");
    let has_pcntl = application.run("echo (int) function_exists('pcntl_signal');").text() == "1";
    if !has_pcntl {
        return;
    }
    for code in [
        "pcntl_signal(SIGPROF, SIG_IGN); burn(1500); echo 'done';",
        "pcntl_sigprocmask(SIG_BLOCK, [SIGPROF]); burn(1500); echo 'done';",
    ] {
        let request = burning(&application, code);
        assert_eq!(application.send(&request).wait(&mut application).text(), "done");
        let answer = application.run("while (true);");
        assert!(answer.logged("Maximum execution time of 1 second exceeded"), "{:?}", answer.log);
    }
    let code =
        "pcntl_async_signals(true); $n = 0; pcntl_signal(SIGPROF, function () use (&$n) { $n++; });
        echo $n; while ($n == 0); burn(1200); echo $n;";
    let request = burning(&application, code);
    assert_eq!(application.send(&request).wait(&mut application).text(), "01", "as in any PHP");
    assert_eq!(application.run("echo 'alive';").text(), "alive");
}

#[test]
fn a_script_that_has_forked_has_its_limit_and_its_child_has_none() {
    let mut application = limited("1");
    let has_pcntl = application.run("echo (int) function_exists('pcntl_fork');").text() == "1";
    if !has_pcntl {
        return;
    }
    let code = "$pid = pcntl_fork(); if ($pid == 0) { burn(1500); posix_kill(getmypid(), 9); }
        pcntl_waitpid($pid, $status); echo pcntl_wtermsig($status); burn(600); echo ' done';";
    let request = burning(&application, code);
    assert_eq!(application.send(&request).wait(&mut application).text(), "9 done");
}
