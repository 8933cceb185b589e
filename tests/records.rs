//! What scripts say in the log: one record for each message, whole, with the request it is about.

mod harness;

use harness::Site;
use serde_json::json;

#[test]
fn a_message_of_a_script_is_one_record_with_request_and_worker_however_long_it_is() {
    let script = "error_log(str_repeat(\"a line of a message\\n\", 20000) . 'its end');
        echo getmypid();";
    let server = Site::script("a.php", script).with(json!({})).serve();
    let pid = server.get("/a.php?x=1").text();
    let log = server.wait_for_log("its end");
    let begin = log.find("[notice]").or_else(|| log.find("[error]")).expect("a record");
    let record = &log[begin..];
    let head = record.lines().next().unwrap();
    assert!(head.contains(&format!(" {pid}#{pid} \"site\" request ")), "{head}");
    assert!(head.contains(": GET /a.php?x=1 (") && head.ends_with("a line of a message"), "{head}");
    assert_eq!(record.matches("\n    a line of a message").count(), 19999);
    assert!(record.contains("\n    its end\n"));
}

#[test]
fn an_uncaught_exception_is_one_record_with_its_trace() {
    let script = "function f() { throw new LogicException(\"two\\nlines\"); } f();";
    let server = Site::script("a.php", script).with(json!({})).serve();
    assert_eq!(server.get("/a.php").status, 500);
    let log = server.wait_for_log("thrown in");
    let record = log.lines().skip_while(|line| !line.contains("LogicException"));
    let lines: Vec<_> = record.collect();
    assert!(lines[0].contains("\"site\" request ") && lines[0].ends_with("two"), "{lines:?}");
    assert!(lines[1..6].iter().all(|line| line.starts_with("    ")), "{lines:?}");
}
