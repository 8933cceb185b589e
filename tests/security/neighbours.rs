//! Two sites with users and limits of their own, as [docs/hosting.md](../../docs/hosting.md)
//! recommends: one does all that it can against the server, and no request of the other one fails.
//!
//! `tests/tools/neighbours` does the same for a minute, and measures.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bystander::Bystander;
use crate::containment::contained;
use crate::setup::{Plan, Setup};
use harness::{eventually, processes};

/// Duration of the attack.
const ATTACK: Duration = Duration::from_secs(5);

/// Maximum time that a client waits for a response.
const CLIENT: Duration = Duration::from_millis(800);

/// Between two requests of an attacker: processors are for the work of the server, not for
/// refusals.
const PAUSE: Duration = Duration::from_millis(20);

/// The repeated request of each attacker: a script, or a phase of the attacker's program.
const ATTACKERS: [&[&str]; 4] = [
    &["own", "crash.php", "junk", "exhaust", "everybody"],
    &["memory.php", "output.php", "log.php"],
    &["connections.php", "look", "hurt", "nudge"],
    &["own", "look", "fork_bomb.php", "shell_bomb.php"],
];

/// Scripts that run longer, in seconds, are ended, so that all kinds of attack have their turn.
const TIMEOUT: u64 = 2;

/// The application in the example of the documentation, without the parts about its place.
fn recommended() -> Value {
    let page = include_str!("../../docs/hosting.md");
    let examples = page.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut examples = examples.map(|example| serde_json::from_str::<Value>(example).unwrap());
    let has_application = |example: &Value| example.get("applications").is_some();
    let mut document = examples.find(has_application).expect("an example");
    let application = document.pointer_mut("/applications/wiki").expect("an application");
    for name in ["root", "user", "isolation"] {
        application.as_object_mut().unwrap().remove(name).expect(name);
    }
    application["limits"]["timeout"] = json!(TIMEOUT);
    application.take()
}

/// Asks for something and leaves when the client's time is over.
fn ask(server: &Setup, what: &str) {
    let address = server.server.address;
    if what.ends_with(".php") {
        let target = format!("/attack/{what}?address={address}");
        send(address, &format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
    } else {
        let body = json!(server.arguments_of(what)).to_string();
        let length = body.len();
        send(
            address,
            &format!(
                "POST /attack/attack.php HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\
                 Content-Length: {length}\r\n\r\n{body}"
            ),
        );
    }
}

/// Sends a request and reads the response until the client's time is over. The server may close the
/// connection at any time.
fn send(address: SocketAddr, request: &str) {
    let Ok(mut stream) = TcpStream::connect_timeout(&address, CLIENT) else { return };
    let begun = Instant::now();
    let _ = stream.set_read_timeout(Some(CLIENT));
    if stream.write_all(request.as_bytes()).is_err() {
        return;
    }
    let mut buffer = vec![0; 1 << 16];
    while begun.elapsed() < CLIENT {
        match std::io::Read::read(&mut stream, &mut buffer) {
            Ok(1..) => {}
            _ => return,
        }
    }
}

#[test]
fn an_unfriendly_neighbour_costs_another_site_no_request() {
    contained("neighbours::an_unfriendly_neighbour_costs_another_site_no_request", |world| {
        let plan = Plan::new(world).user_for_each();
        let server = plan.with(json!({"applications": {"attacker": recommended()}})).serve();
        let before = server.others();
        let bystander = Bystander::start(server.server.address);
        let over = AtomicBool::new(false);
        let asked = thread::scope(|scope| {
            let attackers: Vec<_> = ATTACKERS
                .into_iter()
                .map(|requests| {
                    let (server, over) = (&server, &over);
                    scope.spawn(move || {
                        let requests = requests.iter().cycle();
                        let left = requests.take_while(|_| !over.load(Ordering::Relaxed));
                        left.map(|what| ask(server, what))
                            .inspect(|()| thread::sleep(PAUSE))
                            .count()
                    })
                })
                .collect();
            thread::sleep(ATTACK);
            over.store(true, Ordering::Relaxed);
            attackers.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
        });
        let observed = bystander.stop();
        println!(
            "\n{asked} requests of the attacker; {} of the other site, slowest {:.1?}",
            observed.requests, observed.slowest
        );
        let failures = observed.failures.len();
        assert_eq!(failures, 0, "of {}: {:#?}", observed.requests, observed.failures);
        assert!(processes::is_alive(server.server.supervisor()), "the server has ended");
        // A process that the zygote has just forked still has its title.
        eventually("the processes of the server and of the other site are those of before", || {
            (server.others() == before).then_some(())
        });
    });
}
