//! Starts the server like a user, in a temporary directory, and sends it requests over sockets.
//!
//! As root the server runs as `www-data`, otherwise as the user of the test; tests must pass either
//! way.

#![forbid(unsafe_code)]

pub mod backends;
pub mod client;
pub mod control;
pub mod disk;
pub mod dns;
pub mod echo;
pub mod fastcgi;
pub mod hanging;
pub mod http2;
pub mod http3;
pub mod mail;
pub mod postfix;
pub mod processes;
pub mod programs;
pub mod raw;
pub mod server;
pub mod time;
pub mod tls;
pub mod users;
pub mod valkey;

pub use howdah_requirements as requirements;
pub use server::Server;
pub use time::eventually;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A site to serve, in a directory that all users can read.
pub struct Site {
    directory: TempDir,
    workers: u32,
    changes: Vec<Value>,
    arguments: Vec<String>,
    control: Option<String>,
    own_control: bool,
    launcher: Vec<String>,
    served: Option<PathBuf>,
    stdin: Option<OwnedFd>,
    logs_to_stderr: bool,
    program: Option<PathBuf>,
}

impl Site {
    /// Creates an empty site.
    pub fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("howdah-test-").tempdir().unwrap();
        open_to_all(directory.path(), 0o755);
        let site = Site {
            directory,
            workers: 2,
            changes: Vec::new(),
            arguments: Vec::new(),
            control: None,
            own_control: false,
            launcher: Vec::new(),
            served: None,
            stdin: None,
            logs_to_stderr: false,
            program: None,
        };
        for (name, mode) in [("www", 0o755), ("data", 0o777), ("tmp", 0o777)] {
            fs::create_dir(site.path(name)).unwrap();
            open_to_all(&site.path(name), mode);
        }
        site
    }

    /// Creates a site with one script.
    pub fn script(name: &str, code: &str) -> Self {
        Site::new().file(name, format!("<?php {code}"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the document root.
    pub fn root(&self) -> PathBuf {
        self.path("www")
    }

    /// Serves another directory than the site's own.
    pub fn at(mut self, directory: PathBuf) -> Self {
        self.served = Some(directory);
        self
    }

    /// Returns a directory that scripts can write to.
    pub fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// Adds a file.
    pub fn file(self, name: &str, contents: impl AsRef<[u8]>) -> Self {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, contents).unwrap();
        open_to_all(&path, 0o644);
        self
    }

    /// Sets the number of PHP workers.
    pub fn workers(mut self, workers: u32) -> Self {
        self.workers = workers;
        self
    }

    /// Adds an argument to the command line.
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Limits the number of open files of each of the server's processes.
    pub fn open_files(self, limit: u32) -> Self {
        self.through(&["prlimit", &format!("--nofile={limit}")])
    }

    /// Starts the server through a launcher and its arguments, such as `env`, that executes it.
    pub fn through(mut self, launcher: &[&str]) -> Self {
        self.launcher.extend(launcher.iter().map(|argument| (*argument).to_owned()));
        self
    }

    /// Starts the launcher with a descriptor as its standard input.
    pub fn stdin(mut self, descriptor: impl Into<OwnedFd>) -> Self {
        self.stdin = Some(descriptor.into());
        self
    }

    /// Starts the server without `--log`, as under systemd.
    pub fn logs_to_stderr(mut self) -> Self {
        self.logs_to_stderr = true;
        self
    }

    /// Starts the server from a copy of the program, which the test may replace. Returns its path
    /// too.
    pub fn own_program(mut self) -> (Self, PathBuf) {
        let directory = self.path("bin");
        fs::create_dir(&directory).unwrap();
        open_to_all(&directory, 0o755);
        let built = programs::howdah();
        let program = directory.join("howdah");
        programs::copy(built, &program);
        programs::copy(&built.with_file_name("howdah-php"), &directory.join("howdah-php"));
        self.program = Some(program.clone());
        (self, program)
    }

    /// Serves a document in place of the directory: one share that runs its scripts, merged with
    /// `changes`.
    pub fn with(mut self, changes: Value) -> Self {
        self.changes.push(changes);
        self
    }

    /// Serves the configuration of the control API, which is empty at first.
    pub fn controlled(self) -> Self {
        let address = format!("unix:{}", self.control_socket().display());
        self.controlled_at(&address)
    }

    /// Like [`Site::controlled`], with another address for the API.
    pub fn controlled_at(mut self, address: &str) -> Self {
        self.control = Some(address.to_owned());
        self
    }

    /// Returns the log's file.
    pub fn log_path(&self) -> PathBuf {
        self.path("log")
    }

    /// Lets the server have its default control socket, in a directory of this test.
    pub fn own_control(mut self, directory: &Path) -> Self {
        self.own_control = true;
        let variables = own_control(directory).map(|(name, value)| format!("{name}={value}"));
        let variables: Vec<_> = variables.iter().map(String::as_str).collect();
        self.through(&[&["env"], variables.as_slice()].concat())
    }

    /// Returns the control API's socket.
    pub fn control_socket(&self) -> PathBuf {
        self.path("control.sock")
    }

    /// Returns the directory in which the configuration is stored.
    pub fn state(&self) -> PathBuf {
        self.path("state")
    }

    /// Returns the document that serves the directory on an address.
    pub fn document(&self, address: impl Display) -> Value {
        let root = self.root();
        json!({
            "listeners": {address.to_string(): {"pass": "routes"}},
            "routes": [{"action": {
                "share": format!("{}$uri", root.display()),
                "index": ["index.php", "index.html"],
                "scripts": "applications/site",
            }}],
            "applications": {"site": {
                "type": "php",
                "root": root,
                "processes": self.workers,
                "environment": {"DATA": self.data(), "TMPDIR": self.path("tmp")},
                // Distributions differ in php.ini's value.
                "options": {"user": {"output_buffering": "0"}},
            }},
        })
    }

    /// Returns the command line that serves the site on an address.
    pub fn command(&self, address: &str) -> Command {
        let program = self.program.as_deref().unwrap_or_else(|| programs::howdah());
        let mut command = match self.launcher.split_first() {
            Some((launcher, arguments)) => {
                let mut command = Command::new(launcher);
                command.args(arguments).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.arg("serve").args(["--tmp", &self.path("tmp").display().to_string()]);
        if !self.logs_to_stderr {
            command.args(["--log", &self.path("log").display().to_string()]);
        }
        command.args(&self.arguments);
        if let Some(control) = &self.control {
            command.args(["--control", control]).arg("--state").arg(self.state());
        } else if !self.own_control && !self.arguments.iter().any(|word| word == "--control") {
            command.arg("--no-control");
        }
        if self.changes.is_empty() && self.control.is_none() {
            command.args(["--listen", address, "--workers", &self.workers.to_string()]);
            command.arg(self.served.clone().unwrap_or_else(|| self.root()));
        } else if self.control.is_none() {
            let mut document = self.document(address);
            self.changes.iter().for_each(|changes| merge(&mut document, changes.clone()));
            let path = self.path("config.json");
            fs::write(&path, document.to_string()).unwrap();
            command.arg("--config").arg(path);
        }
        let stdin = self.stdin.as_ref().map(|fd| fd.try_clone().unwrap());
        command.stdin(stdin.map_or_else(Stdio::null, Stdio::from));
        command
    }

    /// Starts the server and waits until it serves.
    pub fn serve(self) -> Server {
        let address = free_address().to_string();
        self.serve_at(&address)
    }

    /// Like [`Site::serve`], on a given address.
    pub fn serve_at(self, address: &str) -> Server {
        let command = self.command(address);
        self.run(command, address)
    }

    /// Like [`Site::serve_at`], with the configuration file as it was left.
    pub fn serve_again(self, address: &str) -> Server {
        let path = self.path("config.json");
        let document = fs::read(&path).unwrap();
        let command = self.command(address);
        fs::write(path, document).unwrap();
        self.run(command, address)
    }

    fn run(self, mut command: Command, address: &str) -> Server {
        let address = address.parse().expect("a socket address");
        // A file: with a pipe, the server could block if the test does not read it.
        let stderr = fs::File::create(self.path("stderr")).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let announcement = announcement(&mut child, &self.path("stderr"));
        Server::new(child, address, self, announcement)
    }
}

impl Default for Site {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the output of the server until it serves.
fn announcement(child: &mut Child, stderr: &Path) -> String {
    let mut lines = String::new();
    let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
    while !lines.contains("Serving ") && !lines.contains("Ready;") {
        if output.read_line(&mut lines).unwrap() == 0 {
            let problem = fs::read_to_string(stderr).unwrap_or_default();
            panic!("the server does not start: {lines}{problem}");
        }
    }
    lines
}

/// Returns an address that is free and stays free for this process: each process has its own hosts
/// of the loopback network, so that no other one takes the port.
pub fn free_address() -> SocketAddr {
    free_listener().local_addr().unwrap()
}

/// Listens on a free address. Unlike a later bind, this cannot meet a socket that has been bound to
/// the port on all addresses meanwhile.
pub fn free_listener() -> TcpListener {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    static GIVEN: Mutex<BTreeSet<SocketAddr>> = Mutex::new(BTreeSet::new());
    let [.., high, low] = std::process::id().to_be_bytes();
    loop {
        let host = Ipv4Addr::new(127, high, low, NEXT.fetch_add(1, Ordering::Relaxed));
        let listener = TcpListener::bind((host, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        // A process has more tests than the loopback network has hosts for them.
        if GIVEN.lock().unwrap().insert(address) {
            return listener;
        }
    }
}

/// Returns environment variables with which servers and commands have their control sockets in a
/// directory.
pub fn own_control(directory: &Path) -> [(&'static str, String); 2] {
    let directory = directory.display();
    [
        ("HOWDAH_RUNTIME_DIR", format!("{directory}/run")),
        ("XDG_STATE_HOME", format!("{directory}/state")),
    ]
}

/// Raises the limit of open files, for tests with thousands of connections and for their servers.
pub fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}

/// Sets the mode of a file or a directory, regardless of the umask.
pub fn open_to_all(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Merges changes into a document.
pub fn merge(target: &mut Value, changes: Value) {
    match (target, changes) {
        (Value::Object(target), Value::Object(changes)) => {
            for (name, change) in changes {
                merge(target.entry(name).or_insert(Value::Null), change);
            }
        }
        (target, changes) => *target = changes,
    }
}

/// Sets a flag on drop, which ends the threads of a test even if the test fails. Otherwise it would
/// wait for them for ever.
pub struct Ends<'a>(pub &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
