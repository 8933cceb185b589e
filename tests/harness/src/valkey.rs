//! A real Valkey or Redis.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{eventually, free_address, open_to_all, requirements};

/// A server; stopped on drop.
pub struct Valkey {
    program: &'static str,
    child: Option<Child>,
    /// Address on which it listens.
    pub address: SocketAddr,
    directory: TempDir,
    arguments: Vec<String>,
}

impl Valkey {
    /// Starts a server with these further arguments. Returns `None` and reports that the test is
    /// skipped if the machine has neither Valkey nor Redis.
    #[track_caller]
    pub fn start(arguments: &[&str]) -> Option<Valkey> {
        let has = |program: &&str| Command::new(program).arg("--version").output().is_ok();
        let Some(program) = ["valkey-server", "redis-server"].into_iter().find(has) else {
            requirements::skipped("there is no redis-server");
            return None;
        };
        let directory = tempfile::Builder::new().prefix("howdah-valkey-").tempdir().unwrap();
        open_to_all(directory.path(), 0o755);
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let mut server =
            Valkey { program, child: None, address: free_address(), directory, arguments };
        server.run();
        Some(server)
    }

    /// Starts the server again after [`Valkey::stop`], with the data that it has saved.
    pub fn run(&mut self) {
        let mut command = Command::new(self.program);
        command
            .args(["--bind", &self.address.ip().to_string()])
            .args(["--port", &self.address.port().to_string()])
            .args(["--unixsocket", &self.socket().display().to_string()])
            .args(["--unixsocketperm", "777", "--save", "", "--protected-mode", "no"])
            .args(["--dir", &self.directory.path().display().to_string()])
            .args(&self.arguments)
            .stdout(Stdio::null());
        self.child = Some(command.spawn().unwrap());
        eventually("Valkey listens", || TcpStream::connect(self.address).ok());
        eventually("Valkey has loaded its data", || {
            let answer = self.ask(&["PING"]);
            (!answer.contains("LOADING")).then_some(())
        });
    }

    /// Returns its unix socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("valkey.sock")
    }

    /// Sends a command. Returns the answer as it comes, without its line end; of a string its
    /// content.
    pub fn ask<A: AsRef<[u8]>>(&self, command: &[A]) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let mut request = format!("*{}\r\n", command.len()).into_bytes();
        for argument in command {
            let argument = argument.as_ref();
            request.extend(format!("${}\r\n", argument.len()).into_bytes());
            request.extend(argument);
            request.extend(b"\r\n");
        }
        stream.write_all(&request).unwrap();
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        let line = line.trim_end().to_owned();
        match line.strip_prefix('$').and_then(|length| length.parse::<usize>().ok()) {
            Some(length) => {
                let mut content = vec![0; length];
                stream.read_exact(&mut content).unwrap();
                String::from_utf8_lossy(&content).into_owned()
            }
            None => line,
        }
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child {
            kill_process(Pid::from_child(child), signal).unwrap();
        }
    }

    /// Ends the server at once.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Valkey {
    fn drop(&mut self) {
        self.stop();
    }
}
