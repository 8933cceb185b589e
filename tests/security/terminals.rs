//! A server that was started from a terminal.

use crate::containment::contained;
use crate::setup::Plan;

/// Gives the program in its arguments a terminal of its own.
const ON_A_TERMINAL: &str = "import pty, sys; pty.spawn(sys.argv[1:])";

#[test]
fn a_script_cannot_type_into_the_terminal_that_the_server_was_started_from() {
    let name = "terminals::a_script_cannot_type_into_the_terminal_that_the_server_was_started_from";
    contained(name, |world| {
        let server = Plan::new(world).through(&["python3", "-c", ON_A_TERMINAL]).serve();
        let (attempts, ended) = server.attack("look");
        assert!(ended, "the attacker did not come to an end");
        let terminals: Vec<_> = attempts
            .into_iter()
            .filter(|attempt| {
                attempt.attempt.contains("tty") || attempt.attempt.contains("TIOCSTI")
            })
            .collect();
        println!("{terminals:?}");
        assert_eq!(terminals.len(), 3, "{terminals:?}");
        let problems = server.judge("look", &terminals);
        assert!(problems.is_empty(), "{problems:#?}");
    });
}
