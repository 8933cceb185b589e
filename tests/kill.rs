//! Any process is killed at any time, two hundred times under load: the service recovers by itself
//! each time. Only the first process is started again by the test, as systemd would do.
//!
//! Alone in its process: it loads the machine with clients for most of a minute and measures how
//! long no client is served.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use harness::{Ends, Server, Site, eventually, processes};
use rustix::process::Signal;
use serde_json::json;

const KILLS: usize = 200;
const WORKERS: usize = 3;

/// The longest that a request may take, through everything that is killed meanwhile.
const STUCK: Duration = Duration::from_secs(60);

/// Maximum time without service after a kill. The test prints the measured time: mostly a few
/// hundredths of a second, but the machine may be busy.
const RECOVERY: Duration = Duration::from_secs(60);

/// The result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Served,
    /// A whole answer that says so.
    Failed(u16),
    /// The connection was refused, or ended before the answer did.
    Cut,
}

/// Asks for the script. Panics if there is no outcome in time, or a wrong one.
fn ask(address: SocketAddr) -> Outcome {
    let begun = Instant::now();
    let Ok(mut stream) = TcpStream::connect_timeout(&address, STUCK) else { return Outcome::Cut };
    stream.set_read_timeout(Some(STUCK)).unwrap();
    let mut answer = Vec::new();
    let sent = stream.write_all(b"GET /a.php HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let read = sent.and_then(|()| stream.read_to_end(&mut answer));
    if let Err(error) = &read {
        let late = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
        assert!(!late, "a request is stuck for {:?}", begun.elapsed());
    }
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    match (status, answer.ends_with("0\r\n\r\n") || answer.contains("Content-Length")) {
        (Some(200), true) => {
            assert!(answer.contains("fine"), "{answer}");
            Outcome::Served
        }
        (Some(status), true) => Outcome::Failed(status),
        _ => Outcome::Cut,
    }
}

/// A sequence of numbers that is the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

/// Waits until exactly the processes run that should: none too few, none twice, none left over.
fn complete(server: &Server) {
    let begun = Instant::now();
    loop {
        let all = server.processes();
        let count = |end: &str| all.iter().filter(|process| process.title.ends_with(end)).count();
        let found = (count(": router"), count("\" prototype"), count("\" application"));
        if found == (1, 1, WORKERS) && all.len() == 2 + WORKERS {
            return;
        }
        assert!(begun.elapsed() < RECOVERY, "{all:?}");
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// Waits until a request is served; how long it took.
fn served(address: SocketAddr) -> Duration {
    let begun = Instant::now();
    while ask(address) != Outcome::Served {
        assert!(begun.elapsed() < RECOVERY, "nobody is served");
        std::thread::sleep(Duration::from_millis(2));
    }
    begun.elapsed()
}

#[test]
fn the_service_recovers_from_the_death_of_any_process_at_any_time() {
    let site = Site::script("a.php", "usleep(3000); echo 'fine';")
        .workers(WORKERS as u32)
        .with(json!({"applications": {"site": {"limits": {"timeout": 10}}}}));
    let data = site.data();
    let site = site
        .argument("--pid")
        .argument(&data.join("pid").display().to_string())
        .argument("--control")
        .argument(&format!("unix:{}", data.join("control").display()));
    let address = harness::free_address();
    let mut server = site.serve_at(&address.to_string());
    complete(&server);
    let ending = AtomicBool::new(false);
    let outcomes = Mutex::new(BTreeMap::<Outcome, usize>::new());
    let mut recoveries: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let ended = Ends(&ending);
        let clients: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    while !ending.load(Ordering::Relaxed) {
                        let outcome = ask(address);
                        *outcomes.lock().unwrap().entry(outcome).or_default() += 1;
                        if outcome == Outcome::Cut {
                            std::thread::sleep(Duration::from_millis(2));
                        }
                    }
                })
            })
            .collect();
        for kill in 0..KILLS {
            assert!(clients.iter().all(|client| !client.is_finished()), "a client has failed");
            let what = match numbers.below(20) {
                0..11 => "worker",
                11..15 => "prototype",
                15..18 => "router",
                _ => "supervisor",
            };
            let all = server.processes();
            let end = match what {
                "worker" => "\" application",
                "prototype" => "\" prototype",
                _ => ": router",
            };
            let victims: Vec<_> = all.iter().filter(|p| p.title.ends_with(end)).collect();
            if what == "supervisor" {
                let (_, site) = server.end(Signal::KILL);
                let killed = Instant::now();
                server = site.serve_at(&address.to_string());
                served(address);
                recoveries.entry(what).or_default().push(killed.elapsed());
                eventually("there are no orphans", || {
                    all.iter().all(|process| !processes::is_alive(process.pid)).then_some(())
                });
            } else if !victims.is_empty() {
                processes::signal(victims[numbers.below(victims.len())].pid, Signal::KILL);
                // Now and then the next one dies before this one is replaced.
                if numbers.below(4) > 0 {
                    recoveries.entry(what).or_default().push(served(address));
                }
            }
            std::thread::sleep(Duration::from_millis(numbers.below(120) as u64));
            if kill % 10 == 9 {
                complete(&server);
            }
        }
        served(address);
        complete(&server);
        drop(ended);
        clients.into_iter().for_each(|client| client.join().expect("no request is stuck"));
    });
    let took = begun.elapsed();
    println!("{KILLS} kills in {took:?}; requests: {:?}", outcomes.lock().unwrap());
    for (what, mut times) in recoveries {
        times.sort();
        let (median, most) = (times[times.len() / 2], times[times.len() - 1]);
        println!("served again after the kill of a {what}: {median:?}, at most {most:?}");
    }
    let outcomes = outcomes.into_inner().unwrap();
    assert!(outcomes[&Outcome::Served] > KILLS, "{outcomes:?}");
}
