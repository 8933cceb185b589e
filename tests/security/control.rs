//! Control APIs that a file's mode does not protect.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::attacker::Attempt;
use crate::containment::contained;
use crate::expectations::LANDLOCK_SCOPES;
use crate::setup::{Plan, Setup};
use crate::skipped_without_sandbox;
use harness::{control, free_address, requirements};

/// Looks around as a script, and fails the test if that reached the control API.
fn is_out_of_reach(server: Setup, kinds: &[&str]) {
    let (attempts, ended) = server.attack("look");
    assert!(ended, "the attacker did not come to an end");
    let of_control = |attempt: &Attempt| kinds.contains(&attempt.kind.as_str());
    let attempts: Vec<_> = attempts.into_iter().filter(of_control).collect();
    assert!(!attempts.is_empty(), "nothing was tried");
    let problems = server.judge("look", &attempts);
    assert!(problems.is_empty(), "{problems:#?}");
}

/// Makes requests to the control API carry a token.
fn with_token(plan: Plan<'_>) -> Plan<'_> {
    let token = plan.base().join("token");
    fs::write(&token, "4f1c0e5a9d7b2836".repeat(4) + "\n").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    plan.argument("--control-token-file").argument(token.to_str().unwrap())
}

#[test]
fn a_script_cannot_use_a_control_api_that_listens_on_tcp() {
    contained("control::a_script_cannot_use_a_control_api_that_listens_on_tcp", |world| {
        let address = free_address();
        let plan = with_token(Plan::new(world).control(&address.to_string()));
        is_out_of_reach(plan.serve(), &["tcp"]);
    });
}

#[test]
fn from_a_sandbox_a_script_cannot_use_a_control_api_in_the_abstract_namespace() {
    let name =
        "control::from_a_sandbox_a_script_cannot_use_a_control_api_in_the_abstract_namespace";
    contained(name, |world| {
        let old = format!("Landlock of version {} has no scopes", world.landlock);
        let reason = skipped_without_sandbox(world);
        match reason.or_else(|| (world.landlock < LANDLOCK_SCOPES).then_some(old)) {
            Some(reason) => requirements::skipped_test(name, reason),
            None => {
                let plan = with_token(Plan::new(world).control("unix:@howdah-control")).sandboxed();
                is_out_of_reach(plan.serve(), &["socket"]);
            }
        }
    });
}

#[test]
fn an_administrator_reaches_the_control_api_that_scripts_do_not() {
    let name = "control::an_administrator_reaches_the_control_api_that_scripts_do_not";
    contained(name, |world| {
        let server = Plan::new(world).serve();
        let socket = server.server.site.control_socket();
        let status = control::ask(&socket, "GET", "/status", b"").unwrap().succeeded();
        assert!(status.pointer("/applications/site").is_some(), "{status}");
        is_out_of_reach(server, &["socket"]);
    });
}
