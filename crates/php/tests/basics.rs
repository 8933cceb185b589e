//! What a script sees and what becomes of its output.

mod harness;

use harness::Application;

#[test]
fn a_script_says_hello() {
    let mut application = Application::start(1);
    let answer = application.run("echo 'Hello world';");
    assert_eq!((answer.status, answer.text().as_str()), (200, "Hello world"));
    assert_eq!(answer.field("Content-Type"), Some("text/html; charset=UTF-8"));
    assert!(answer.done.unwrap().peak_memory > 0);
}
