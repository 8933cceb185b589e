//! A running server, its requests and its processes.

use std::fs;
use std::net::SocketAddr;
use std::process::{Child, ExitStatus};
use std::sync::Mutex;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::Site;
use super::client::{Client, Response};
use super::control::{self, Answer};
use super::processes::{self, Process};
use super::time::{Stopwatch, eventually};

/// Time limit for the end of a server whose test is over; it is killed then.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// A running server; stopped on drop.
pub struct Server {
    child: Child,
    /// Address on which it listens.
    pub address: SocketAddr,
    /// The site that it serves.
    pub site: Site,
    /// Output of the server until it served.
    pub announcement: String,
    ended: Option<ExitStatus>,
    /// Process ids of the servers that have replaced the first one, the last one at the end.
    successors: Mutex<Vec<u32>>,
}

impl Server {
    pub(super) fn new(child: Child, address: SocketAddr, site: Site, announcement: String) -> Self {
        Server { child, address, site, announcement, ended: None, successors: Mutex::default() }
    }

    /// Opens a new connection.
    pub fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// Sends bytes on a new connection and returns the response.
    pub fn send(&self, request: impl AsRef<[u8]>) -> Response {
        self.connect().send(request).response()
    }

    /// Sends a GET request on a new connection and returns the response.
    pub fn get(&self, target: &str) -> Response {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"))
    }

    /// Posts a body on a new connection and returns the response.
    pub fn post(&self, target: &str, content_type: &str, body: impl AsRef<[u8]>) -> Response {
        let body = body.as_ref();
        let mut client = self.connect();
        client.send(format!(
            "POST {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\
             Content-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        ));
        // The server may refuse the body before it has read all of it.
        let _ = client.try_send(body);
        client.response()
    }

    /// Sends a request to the control API of a site that is [`Site::controlled`].
    pub fn control(&self, method: &str, target: &str, body: impl AsRef<[u8]>) -> Answer {
        control::ask(&self.site.control_socket(), method, target, body.as_ref()).unwrap()
    }

    /// Replaces a part of the configuration.
    pub fn put(&self, target: &str, value: &Value) {
        self.control("PUT", target, value.to_string()).succeeded();
    }

    /// Returns the log so far.
    pub fn log(&self) -> String {
        let name = if self.site.logs_to_stderr { "stderr" } else { "log" };
        String::from_utf8_lossy(&fs::read(self.site.path(name)).unwrap_or_default()).into_owned()
    }

    /// Waits until the log contains `needle`. Returns the log.
    pub fn wait_for_log(&self, needle: &str) -> String {
        eventually(&format!("the log contains {needle:?}"), || {
            let log = self.log();
            log.contains(needle).then_some(log)
        })
    }

    /// Waits until the application has this number of unanswered requests. The control API must be
    /// at [`Site::control_socket`].
    pub fn wait_for_requests(&self, requests: usize) {
        eventually(&format!("{requests} requests are in hand"), || {
            let status = self.control("GET", "/status", "").succeeded();
            let active = status.pointer("/applications/site/requests/active")?.as_u64()?;
            (active == requests as u64).then_some(())
        });
    }

    /// Waits until a script has written a file to the data directory. Returns its content.
    pub fn wait_for_data(&self, name: &str) -> String {
        eventually(&format!("there is the file {name}"), || {
            Some(self.data(name)).filter(|contents| !contents.is_empty())
        })
    }

    /// Returns the content of a file in the data directory; empty if there is none.
    pub fn data(&self, name: &str) -> String {
        fs::read_to_string(self.site.data().join(name)).unwrap_or_default()
    }

    // -- processes --

    /// Returns the process id of the supervisor.
    pub fn supervisor(&self) -> u32 {
        self.successors.lock().unwrap().last().copied().unwrap_or_else(|| self.child.id())
    }

    /// Upgrades the server through the control API of a site that is [`Site::controlled`]. Returns
    /// the process id of the supervisor that was replaced.
    pub fn upgrade(&self) -> u32 {
        let answer = self.control("POST", "/control/upgrade", "").succeeded();
        let pid = answer["pid"].as_u64().expect("a process id");
        self.replaced_by(pid as u32)
    }

    /// Records that another process has replaced the server. Returns the process id of the former
    /// supervisor.
    pub fn replaced_by(&self, pid: u32) -> u32 {
        let old = self.supervisor();
        self.successors.lock().unwrap().push(pid);
        old
    }

    /// Waits until a process has ended; one that this test has started may wait to be reaped.
    pub fn wait_for_end_of(&self, pid: u32) {
        eventually(&format!("process {pid} ends"), || (!processes::is_alive(pid)).then_some(()));
    }

    /// Returns all processes below the supervisor.
    pub fn processes(&self) -> Vec<Process> {
        processes::descendants(self.supervisor())
    }

    fn titled(&self, end: &str) -> Vec<u32> {
        let processes = self.processes().into_iter();
        processes.filter(|process| process.title.ends_with(end)).map(|p| p.pid).collect()
    }

    /// Returns the process id of the router.
    pub fn router(&self) -> u32 {
        eventually("there is a router", || self.titled(": router").first().copied())
    }

    /// Returns the process id of the application's prototype.
    pub fn prototype(&self) -> u32 {
        eventually("there is a prototype", || self.titled("\" prototype").first().copied())
    }

    /// Returns the process id of a worker of an application.
    pub fn titled_worker(&self, name: &str) -> u32 {
        let title = format!("\"{name}\" application");
        eventually("there is a worker", || self.titled(&title).first().copied())
    }

    /// Returns the process ids of the workers that run now.
    pub fn running_workers(&self) -> Vec<u32> {
        self.titled("\" application")
    }

    /// Waits until all configured workers run. Returns their process ids.
    pub fn workers(&self) -> Vec<u32> {
        eventually(&format!("there are {} workers", self.site.workers), || {
            let workers = self.running_workers();
            (workers.len() == self.site.workers as usize).then_some(workers)
        })
    }

    /// Sends a signal to the supervisor.
    pub fn signal(&self, signal: Signal) {
        processes::signal(self.supervisor(), signal);
    }

    /// Waits until the server ends by itself or by a signal that was sent.
    pub fn wait(&mut self) -> ExitStatus {
        let child = &mut self.child;
        let status = eventually("the server ends", || child.try_wait().unwrap());
        self.ended = Some(status);
        status
    }

    /// Ends the server with a signal. Returns its status and the site.
    pub fn end(mut self, signal: Signal) -> (ExitStatus, Site) {
        self.signal(signal);
        let status = self.wait();
        (status, std::mem::take(&mut self.site))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.signal(Signal::TERM);
            let stopwatch = Stopwatch::start();
            while stopwatch.elapsed() < STOP_TIMEOUT
                && self.child.try_wait().is_ok_and(|status| status.is_none())
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        let successors =
            std::mem::take(self.successors.get_mut().unwrap_or_else(|e| e.into_inner()));
        for successor in successors.into_iter().filter(|pid| processes::is_alive(*pid)) {
            processes::signal(successor, Signal::KILL);
        }
        let stderr = fs::read_to_string(self.site.path("stderr")).unwrap_or_default();
        let log = self.log() + &stderr;
        if std::thread::panicking() {
            eprintln!("what the server said:\n{log}");
        } else {
            assert!(!log.contains("panicked at"), "the server has panicked:\n{log}");
        }
    }
}
