//! A client of the site that is not attacked: sends requests again and again, and notes failures.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use harness::control;
use harness::time::patience;

/// Pause between two requests.
const PAUSE: Duration = Duration::from_millis(5);

/// Results of the requests.
#[derive(Debug, Default)]
pub struct Observed {
    /// Requests that were made.
    pub requests: usize,
    /// Requests with a wrong response, and their times.
    pub failures: Vec<String>,
    /// Processes that answered.
    pub workers: BTreeSet<u32>,
    /// The longest time that an answer took.
    pub slowest: Duration,
}

/// A client that asks until it is told to stop.
pub struct Bystander {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Observed>,
}

impl Bystander {
    /// Begins to ask for `victim.php` and `small.txt`.
    pub fn start(address: SocketAddr) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let thread = thread::spawn(move || {
            let (mut observed, begun) = (Observed::default(), Instant::now());
            while !is_over.load(Ordering::Relaxed) {
                let asked = Instant::now();
                if let Err(failure) = observed.ask(address) {
                    let at = begun.elapsed().as_secs_f64();
                    observed.failures.push(format!("after {at:.2} s: {failure}"));
                }
                observed.slowest = observed.slowest.max(asked.elapsed());
                thread::sleep(PAUSE);
            }
            observed
        });
        Bystander { over, thread }
    }

    /// Stops, and returns the results.
    pub fn stop(self) -> Observed {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().expect("the client does not panic")
    }
}

impl Observed {
    fn ask(&mut self, address: SocketAddr) -> Result<(), String> {
        self.requests += 1;
        // A body of this size reaches the worker as a descriptor.
        let body = if self.requests.is_multiple_of(8) { 100_000 } else { 0 };
        let (method, target) = match (body, self.requests % 4) {
            (0, 1) => ("GET", "/small.txt"),
            (0, _) => ("GET", "/victim.php"),
            _ => ("POST", "/victim.php"),
        };
        let text = request(address, method, target, &vec![b'x'; body])?;
        if target == "/small.txt" {
            return if text == "small" { Ok(()) } else { Err(format!("{target}: {text:?}")) };
        }
        let mut words = text.split(' ');
        let (fine, pid, length) = (words.next(), words.next(), words.next());
        if fine != Some("fine") || length != Some(body.to_string().as_str()) {
            return Err(format!("{method} {target}: {text:?}"));
        }
        self.workers.extend(pid.and_then(|pid| pid.parse::<u32>().ok()));
        Ok(())
    }
}

/// Makes a request on a connection of its own; the body of a successful answer.
pub fn request(
    address: SocketAddr,
    method: &str,
    target: &str,
    body: &[u8],
) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("{method} {target}: {error}");
    let stream = TcpStream::connect_timeout(&address, patience()).map_err(failed)?;
    stream.set_read_timeout(Some(patience())).map_err(failed)?;
    stream.set_write_timeout(Some(patience())).map_err(failed)?;
    // HTTP/1.0, so that no body comes in chunks.
    let head =
        format!("{method} {target} HTTP/1.0\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
    let answer = control::exchange(stream, &[head.as_bytes(), body].concat()).map_err(failed)?;
    let text = match answer.body {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    };
    match answer.status {
        200 => Ok(text),
        status => Err(format!("{method} {target}: {status} {text:?}")),
    }
}
