//! Output: flushing, large responses, clients that disconnect, responses that end early.

mod harness;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use harness::Application;

/// Returns code that waits until the test has created a file. A script that continues after it has
/// proof that the test received its output so far.
fn wait_for(application: &Application, name: &str) -> (PathBuf, String) {
    let path = application.root.path().join(name);
    let code = format!(
        "for ($i = 0; !file_exists('{}') && $i < 3000; $i++) {{ usleep(10000); }} \
         if ($i == 3000) die('nobody has seen it');",
        path.display()
    );
    (path, code)
}

#[test]
fn flush_sends_what_was_written_so_far() {
    let mut application = Application::start(1);
    let (first, wait_first) = wait_for(&application, "first");
    let (second, wait_second) = wait_for(&application, "second");
    let request = application.script(&format!(
        "header('Content-Type: text/event-stream');
         echo \"data: 0\\n\\n\"; ob_flush(); flush(); {wait_first}
         echo \"data: 1\\n\\n\"; ob_flush(); flush(); {wait_second}
         echo \"data: 2\\n\\n\";"
    ));
    let mut pending = application.send(&request);
    pending.until(&mut application, |answer| answer.body.len() == 9);
    fs::write(first, "").unwrap();
    pending.until(&mut application, |answer| answer.body.len() == 18);
    fs::write(second, "").unwrap();
    assert_eq!(pending.wait(&mut application).text(), "data: 0\n\ndata: 1\n\ndata: 2\n\n");
}

#[test]
fn flush_without_output_sends_the_head() {
    let mut application = Application::start(1);
    let (seen, wait) = wait_for(&application, "seen");
    let request = application.script(&format!("header('X-A: 1'); flush(); {wait} echo 'end';"));
    let mut pending = application.send(&request);
    pending.until(&mut application, |answer| answer.field("X-A").is_some());
    fs::write(seen, "").unwrap();
    assert_eq!(pending.wait(&mut application).text(), "end");
}

#[test]
fn an_answer_larger_than_the_ring_arrives_whole() {
    let mut application = Application::start(1);
    let answer = application.run(
        "while (ob_get_level()) ob_end_clean();
         for ($i = 0; $i < 5000; $i++) echo str_pad((string) $i, 1023, '.'), \"\\n\";
         echo str_repeat('z', 3000000);",
    );
    assert_eq!(answer.body.len(), 5000 * 1024 + 3_000_000);
    for (index, line) in answer.body[..5000 * 1024].chunks(1024).enumerate() {
        assert!(line.starts_with(format!("{index}.").as_bytes()), "line {index}");
    }
    assert!(answer.longest > 16 << 10, "small pieces are collected");
    assert!(answer.body[5000 * 1024..].iter().all(|b| *b == b'z'));
}

#[test]
fn a_reader_that_is_slow_to_start_loses_nothing() {
    let mut application = Application::start(1);
    let request = application.script("echo str_repeat('x', 1 << 20);");
    let pending = application.send(&request);
    // Longer than the interval at which a worker checks that the router runs.
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(pending.wait(&mut application).body.len(), 1 << 20);
}

#[test]
fn a_script_whose_client_has_gone_ends_at_its_next_output() {
    let mut application = Application::start(1);
    let request = application.script(
        "register_shutdown_function(function () {
             error_log('shutdown ' . connection_status() . connection_aborted());
         });
         while (ob_get_level()) ob_end_clean();
         while (true) { echo 'x'; flush(); usleep(10000); }",
    );
    let mut pending = application.send(&request);
    pending.until(&mut application, |answer| !answer.body.is_empty());
    pending.abort(&application);
    let answer = pending.wait(&mut application);
    assert!(answer.logged("shutdown 11"), "{:?}", answer.log);
    assert_eq!(application.run("echo connection_status();").text(), "0");
}

#[test]
fn a_script_whose_client_has_gone_while_the_ring_is_full_ends() {
    let mut application = Application::start(1);
    let request = application.script("while (true) echo str_repeat('x', 100000);");
    let pending = application.send(&request);
    std::thread::sleep(Duration::from_millis(200));
    pending.abort(&application);
    pending.wait(&mut application);
    assert_eq!(application.run("echo 'next';").text(), "next");
}

#[test]
fn ignore_user_abort_lets_a_script_finish() {
    let mut application = Application::start(1);
    let (gone, wait) = wait_for(&application, "gone");
    let request = application.script(&format!(
        "ignore_user_abort(true); while (ob_get_level()) ob_end_clean();
         echo 'x'; flush(); {wait}
         for ($i = 0; $i < 10; $i++) {{ echo 'y'; flush(); }}
         error_log('finished ' . connection_aborted());"
    ));
    let mut pending = application.send(&request);
    pending.until(&mut application, |answer| !answer.body.is_empty());
    pending.abort(&application);
    fs::write(gone, "").unwrap();
    assert!(pending.wait(&mut application).logged("finished 1"));
}

#[test]
fn fastcgi_finish_request_ends_the_answer_and_not_the_script() {
    let mut application = Application::start(1);
    let (seen, wait) = wait_for(&application, "seen");
    let request = application.script(&format!(
        "echo 'answer'; $first = fastcgi_finish_request(); $second = fastcgi_finish_request();
         echo 'lost'; flush(); header('X-Late: 1'); {wait}
         error_log(json_encode([$first, $second, connection_status()]));"
    ));
    let mut pending = application.send(&request);
    pending.until(&mut application, |answer| answer.ended);
    assert_eq!(pending.answer.text(), "answer");
    fs::write(seen, "").unwrap();
    let answer = pending.wait(&mut application);
    assert_eq!(answer.text(), "answer");
    assert!(answer.logged("[true,false,0]"), "{:?}", answer.log);
    assert_eq!(application.run("echo 'next';").text(), "next");
}

#[test]
fn shutdown_functions_and_destructors_write_to_the_answer() {
    let mut application = Application::start(1);
    let answer = application.run(
        "class D { function __destruct() { echo ' destructed'; } } $d = new D;
         register_shutdown_function(function () { echo ' shut down'; }); echo 'ran'; exit(0);",
    );
    assert_eq!(answer.text(), "ran shut down destructed");
}

#[test]
fn output_buffers_of_all_kinds_end_in_the_answer() {
    let mut application = Application::start(1);
    let answer = application.run(
        "ob_start(fn($s) => strtoupper($s)); echo 'a'; ob_start(); echo 'b'; ob_end_flush();
         ob_start(null, 4); echo 'cdefgh'; echo 'i';",
    );
    assert_eq!(answer.text(), "ABCDEFGHI");
}

#[test]
fn compressed_output_is_phps_own_matter() {
    let mut application = Application::start_with(1, &|spec| {
        spec.ini_user = vec![("zlib.output_compression".into(), "1".into())];
    });
    let request =
        application.script("echo str_repeat('x', 100000);").with("HTTP_ACCEPT_ENCODING", "gzip");
    let answer = application.send(&request).wait(&mut application);
    assert_eq!(answer.field("Content-Encoding"), Some("gzip"));
    assert!(answer.body.starts_with(&[0x1f, 0x8b]) && answer.body.len() < 1000);
}
