//! Hostile PHP: attacks of a script on the rest of the server, alone and with the help of a program
//! that it starts, and the limits that the kernel enforces.
//!
//! The program ([`attacker`](attacker/main.c)) tries every call of Linux that reaches into other
//! processes, and the files and sockets of the server. Each attempt must be refused, or cost its
//! own application only: meanwhile a client asks another site, whose requests must all be answered
//! by the same workers.
//!
//! Each test with that program runs in namespaces of its own with users of its own
//! ([`containment`]), so that it neither meets nor harms other processes of the machine. That takes
//! root. `ATTACKS=all cargo test --test security -- --nocapture` prints each attempt and its
//! outcome.

mod assault;
mod attacker;
mod bystander;
mod collected;
mod containment;
mod control;
mod crashes;
mod expectations;
mod hostile_prototypes;
mod hostile_workers;
mod htaccess;
mod htaccess_passwords;
mod isolated_roots;
mod isolation;
mod log_floods;
mod memory;
mod memory_files;
mod memory_htaccess;
mod memory_tables;
mod memory_upstreams;
mod memory_waiting;
mod neighbours;
mod resources;
mod router_sandbox;
mod sandbox;
mod setup;
mod site_users;
mod streams;
mod terminals;
mod unread_files;
mod unreceived;
mod unsent;

use std::process::Command;

use containment::{World, contained};
use harness::programs;
use harness::requirements;
use serde_json::json;
use setup::Plan;

#[test]
fn with_one_user_for_all_sites_an_attack_costs_its_own_application_only() {
    contained("with_one_user_for_all_sites_an_attack_costs_its_own_application_only", |world| {
        Plan::new(world).serve().withstands_everything();
    });
}

#[test]
fn with_a_user_for_each_site_an_attack_costs_its_own_application_only() {
    contained("with_a_user_for_each_site_an_attack_costs_its_own_application_only", |world| {
        let plan = Plan::new(world).user_for_each();
        let address = format!("unix:{}", plan.base().join("sites.sock").display());
        let server = plan.argument("--site-users").argument(&address).serve();
        assert!(server.others().contains_key("zygote"));
        server.withstands_everything();
    });
}

#[test]
fn with_starts_of_php_of_their_own_an_attack_costs_its_own_application_only() {
    contained(
        "with_starts_of_php_of_their_own_an_attack_costs_its_own_application_only",
        |world| {
            let own = json!({"isolation": {"own_start": true}});
            let changes = json!({"applications": {"attacker": own, "site": own}});
            let server = Plan::new(world).user_for_each().with(changes).serve();
            assert!(!server.others().contains_key("zygote"));
            server.withstands_everything();
        },
    );
}

#[test]
fn with_one_user_for_everything_an_attack_costs_its_own_application_only() {
    contained("with_one_user_for_everything_an_attack_costs_its_own_application_only", |world| {
        Plan::new(world).without_root().serve().withstands_everything();
    });
}

#[test]
fn from_a_root_directory_of_its_own_an_attack_costs_its_own_application_only() {
    contained(
        "from_a_root_directory_of_its_own_an_attack_costs_its_own_application_only",
        |world| {
            Plan::new(world).root_directory().serve().withstands_everything();
        },
    );
}

#[test]
fn from_a_sandbox_an_attack_opens_no_file_of_its_users_other_applications() {
    let name = "from_a_sandbox_an_attack_opens_no_file_of_its_users_other_applications";
    contained(name, |world| match skipped_without_sandbox(world) {
        Some(reason) => requirements::skipped_test(name, reason),
        None => Plan::new(world).without_root().sandboxed().serve().withstands_everything(),
    });
}

/// Reason why applications cannot be put into a sandbox here.
fn skipped_without_sandbox(world: &World) -> Option<String> {
    // The version that restricts every way to open, make, move and cut a file.
    const FILES: u32 = 3;
    let schema = Command::new(programs::howdah()).arg("schema").output().unwrap();
    if !String::from_utf8_lossy(&schema.stdout).contains("\"sandbox\"") {
        return Some("applications have no sandbox".to_owned());
    }
    (world.landlock < FILES)
        .then(|| format!("the kernel has version {} of Landlock", world.landlock))
}
