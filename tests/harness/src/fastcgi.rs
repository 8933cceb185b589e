//! Real FastCGI servers: PHP-FPM, and php-cgi under spawn-fcgi.

use std::fs;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::programs::php_version;
use super::{eventually, free_address, open_to_all};

/// A FastCGI server; stopped on drop.
pub struct FastCgi {
    child: Child,
    directory: TempDir,
    /// Address on which it listens, in the notation of a configuration.
    pub address: String,
}

/// Kind of listening socket.
pub enum Socket {
    /// A unix socket with a backlog of this length.
    Unix(u32),
    /// A TCP port.
    Tcp,
}

/// Starts PHP-FPM with a fixed number of processes. `settings` are more lines of its pool.
pub fn fpm(socket: &Socket, processes: u32, settings: &str) -> FastCgi {
    let directory = directory();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (address, listen) = addresses(socket, &path("socket"));
    let backlog = match socket {
        Socket::Unix(backlog) => *backlog,
        Socket::Tcp => 511,
    };
    let config = format!(
        "[global]\nerror_log = {log}\ndaemonize = no\n[www]\nuser = www-data\n\
         listen = {listen}\nlisten.backlog = {backlog}\nlisten.mode = 0666\npm = static\n\
         pm.max_children = {processes}\n{settings}\n",
        log = path("log"),
    );
    fs::write(path("fpm.conf"), config).unwrap();
    let mut command = Command::new(program("php-fpm"));
    command.args(["--nodaemonize", "--allow-to-run-as-root", "--fpm-config", &path("fpm.conf")]);
    start(command, directory, address)
}

/// Starts php-cgi with a number of processes, on a TCP port that spawn-fcgi opens.
pub fn cgi(processes: u32) -> FastCgi {
    cgi_at(&Socket::Tcp, processes, 0)
}

/// Like [`cgi`], on a socket of any kind; each process ends after `requests` requests, if not 0.
pub fn cgi_at(socket: &Socket, processes: u32, requests: u32) -> FastCgi {
    let directory = directory();
    let (address, _) = addresses(socket, &directory.path().join("socket").display().to_string());
    let mut command = Command::new("spawn-fcgi");
    command.arg("-n");
    match (socket, address.strip_prefix("unix:"), address.rsplit_once(':')) {
        (Socket::Unix(backlog), Some(path), _) => {
            command.args(["-s", path, "-M", "0666", "-b", &backlog.to_string()])
        }
        (_, _, Some((host, port))) => command.args(["-a", host, "-p", port]),
        _ => unreachable!("an address has a port"),
    };
    command.arg("--").arg(program("php-cgi"));
    command.env("PHP_FCGI_CHILDREN", processes.to_string());
    if requests > 0 {
        command.env("PHP_FCGI_MAX_REQUESTS", requests.to_string());
    }
    start(command, directory, address)
}

fn directory() -> TempDir {
    let directory = tempfile::Builder::new().prefix("howdah-fastcgi-").tempdir().unwrap();
    open_to_all(directory.path(), 0o755);
    directory
}

/// Returns the address in the notation of Howdah and in that of PHP-FPM.
fn addresses(socket: &Socket, path: &str) -> (String, String) {
    match socket {
        Socket::Unix(_) => (format!("unix:{path}"), path.to_owned()),
        Socket::Tcp => {
            let address = free_address().to_string();
            (address.clone(), address)
        }
    }
}

/// Returns the path of a program of the PHP that is tested with: `php-fpm8.4`, or without the
/// version.
fn program(name: &str) -> PathBuf {
    let names = [format!("{name}{}", php_version()), name.to_owned()];
    let places = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];
    let all = names.iter().flat_map(|name| places.map(|place| Path::new(place).join(name)));
    all.into_iter().find(|path| path.exists()).unwrap_or_else(|| panic!("install one of {names:?}"))
}

fn start(mut command: Command, directory: TempDir, address: String) -> FastCgi {
    let output = fs::File::create(directory.path().join("output")).unwrap();
    command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
    let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let server = FastCgi { child, directory, address };
    eventually("the FastCGI server listens", || server.listens().then_some(()));
    server
}

impl FastCgi {
    fn listens(&self) -> bool {
        match self.address.strip_prefix("unix:") {
            Some(path) => UnixStream::connect(path).is_ok(),
            None => TcpStream::connect(&self.address).is_ok(),
        }
    }

    /// Returns the log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }
}

impl Drop for FastCgi {
    fn drop(&mut self) {
        // Both programs end their children when they are terminated.
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}
