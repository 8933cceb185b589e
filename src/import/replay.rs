//! `--replay`, `--urls` and `--crawl`: the proof of an import.
//!
//! The document is served by a process of this program on a port of the loopback interface, without
//! logs of sites and a control API, while both servers are asked the same. Scripts of the document
//! run, with their users, as under the old server.

use std::fs::{self, DirBuilder, File};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use howdah_replay::{Outcome, Plan, Request, Server, moved, requests};
use howdah_sys::plain::Plain;
use serde_json::Value;

/// Time within which the server with the document must accept connections.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Time within which it must end.
const END_TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum size of a log or list, in bytes.
const MAX_LOG_BYTES: u64 = 1 << 30;

/// Options of the proof.
#[derive(Debug, Args, Default)]
pub struct Replay {
    /// Ask the server of --against and the document for the GET and HEAD requests of this access
    /// log, and print in what the responses differ
    #[arg(long, value_name = "ACCESS.log", requires = "against")]
    replay: Option<PathBuf>,
    /// The same for the URLs or paths of a file, one a line
    #[arg(long, value_name = "FILE", requires = "against")]
    urls: Option<PathBuf>,
    /// The same for the pages that the old server's first page leads to
    #[arg(long, requires = "against")]
    crawl: bool,
    /// The old server, such as http://127.0.0.1:80; its host is that of requests whose own host is
    /// not known
    #[arg(long, value_name = "URL")]
    against: Option<String>,
    /// Maximum number of different requests
    #[arg(long, value_name = "N", default_value_t = 2000)]
    max: usize,
}

/// The old server.
struct Against {
    scheme: &'static str,
    host: String,
    address: SocketAddr,
}

impl Replay {
    /// Returns true if there is something to ask.
    pub fn is_wanted(&self) -> bool {
        self.replay.is_some() || self.urls.is_some() || self.crawl
    }

    /// Asks both servers and prints the differences. Returns true if there are none.
    pub fn run(&self, document: &Value) -> Result<bool, String> {
        let against = Against::parse(self.against.as_deref().unwrap_or_default())?;
        let requests = self.requests()?;
        let address = free_address()?;
        let is_tls = against.scheme == "https";
        let document = moved::moved(document, against.address, is_tls, address)?;
        let running = Running::start(&document, address)?;
        let plan = Plan {
            old: Server::new(against.address, is_tls)?,
            new: Server::new(address, is_tls)?,
            scheme: against.scheme,
            host: against.host,
            requests,
            crawl: self.crawl.then_some(self.max),
        };
        let outcome = howdah_replay::run(plan).map_err(|problem| running.explain(&problem))?;
        print_outcome(&outcome);
        Ok(outcome.differences.is_empty())
    }

    fn requests(&self) -> Result<Vec<Request>, String> {
        let mut all = Vec::new();
        for (path, of_text) in [
            (&self.replay, requests::of_log as fn(&str, usize) -> (Vec<Request>, usize)),
            (&self.urls, requests::of_list),
        ] {
            let Some(path) = path else { continue };
            let shown = path.display();
            let failed = |error: std::io::Error| format!("{shown}: {error}");
            if fs::metadata(path).map_err(failed)?.len() > MAX_LOG_BYTES {
                return Err(format!("{shown}: the file is larger than 1 GiB"));
            }
            let text = fs::read(path).map_err(failed)?;
            let (found, others) = of_text(&String::from_utf8_lossy(&text), self.max);
            if others > 0 {
                let problem = format!("{shown}: {others} lines have no GET or HEAD request");
                eprintln!("howdah: {}", Plain(problem));
            }
            all.extend(found);
        }
        if self.crawl {
            all.push(Request::get("/"));
        }
        all.truncate(self.max);
        Ok(all)
    }
}

impl Against {
    fn parse(url: &str) -> Result<Self, String> {
        let problem =
            || format!("--against {url}: write the address of the old server: http://127.0.0.1:80");
        let (scheme, rest, port) = match url.split_once("://") {
            Some(("http", rest)) => ("http", rest, 80),
            Some(("https", rest)) => ("https", rest, 443),
            _ => return Err(problem()),
        };
        let host = rest.trim_end_matches('/').to_owned();
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let address = if has_port { host.clone() } else { format!("{host}:{port}") };
        let mut found =
            address.to_socket_addrs().map_err(|error| format!("{}: {error}", problem()))?;
        let address = found.next().ok_or_else(problem)?;
        Ok(Self { scheme, host, address })
    }
}

/// Returns an address of the loopback interface that no program uses.
fn free_address() -> Result<SocketAddr, String> {
    let listener = TcpListener::bind("127.0.0.1:0");
    listener.and_then(|one| one.local_addr()).map_err(|error| format!("127.0.0.1: {error}"))
}

fn print_outcome(outcome: &Outcome) {
    for difference in &outcome.differences {
        println!("{}", Plain(difference));
    }
    let varying = match outcome.varying {
        0 => String::new(),
        number => format!(" ({number} bodies vary by themselves and were not compared)"),
    };
    println!(
        "{} requests, {} with other responses{varying}",
        outcome.asked,
        outcome.differences.len()
    );
}

/// A server with the document, which ends with this value.
struct Running {
    process: Child,
    directory: PathBuf,
}

impl Running {
    fn start(document: &Value, address: SocketAddr) -> Result<Self, String> {
        let name = format!("howdah-import-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
        // Fails for a directory or link that another user has put there.
        DirBuilder::new().mode(0o700).create(&directory).map_err(failed)?;
        let started = || {
            let file = directory.join("document.json");
            fs::write(&file, document.to_string())?;
            let log = File::create(directory.join("log"))?;
            let program = std::env::current_exe()?;
            Command::new(program)
                .args(["serve", "--no-control", "--config"])
                .arg(&file)
                .stdin(Stdio::null())
                .stdout(log.try_clone()?)
                .stderr(log)
                .spawn()
        };
        match started() {
            Ok(process) => {
                let mut running = Self { process, directory };
                running.wait(address)?;
                Ok(running)
            }
            Err(error) => {
                let _ = fs::remove_dir_all(&directory);
                Err(failed(error))
            }
        }
    }

    /// Waits until the server accepts connections.
    fn wait(&mut self, address: SocketAddr) -> Result<(), String> {
        let start = Instant::now();
        while TcpStream::connect(address).is_err() {
            let has_ended = self.process.try_wait().is_ok_and(|status| status.is_some());
            if has_ended || start.elapsed() > START_TIMEOUT {
                return Err(self.explain("the server with the document does not start"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Adds the last lines of the server's log to a problem.
    fn explain(&self, problem: &str) -> String {
        let log = fs::read_to_string(self.directory.join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(5).collect();
        let lines = lines.into_iter().rev().map(|line| format!("\n  {line}"));
        format!("{problem}{}", lines.collect::<String>())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let pid = i32::try_from(self.process.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let start = Instant::now();
        while matches!(self.process.try_wait(), Ok(None)) {
            if start.elapsed() > END_TIMEOUT {
                let _ = self.process.kill();
                let _ = self.process.wait();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        remove(&self.directory);
    }
}

fn remove(directory: &Path) {
    if let Err(error) = fs::remove_dir_all(directory) {
        eprintln!("howdah: {}: {}", Plain(directory.display()), Plain(error));
    }
}
