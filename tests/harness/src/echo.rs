//! A server that leaves HTTP on request, and then returns all bytes.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::{eventually, free_address};

/// Agrees to any protocol, with the proof that WebSocket requires, except for requests for
/// `/plain`, which it answers as HTTP. Sends `bye` when the client has shut down its sending
/// direction.
const PYTHON: &str = r#"
import base64, hashlib, socketserver, sys

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        line = self.rfile.readline()
        fields = {}
        while (field := self.rfile.readline().strip()):
            name, _, value = field.partition(b":")
            fields[name.strip().lower()] = value.strip()
        protocol = fields.get(b"upgrade")
        if protocol is None or line.split()[1] == b"/plain":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain")
            return
        proof = base64.b64encode(hashlib.sha1(fields.get(b"sec-websocket-key", b"") + GUID).digest())
        self.wfile.write(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n"
            b"Sec-WebSocket-Accept: %s\r\n\r\n" % (protocol, proof)
        )
        while (piece := self.request.recv(65536)):
            self.request.sendall(piece)
        self.request.sendall(b"bye")

class Server(socketserver.ThreadingTCPServer):
    daemon_threads = allow_reuse_address = True
    request_queue_size = 1000

Server((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()
"#;

/// An echo server; stopped on drop.
pub struct Echo {
    child: Child,
    /// Address on which it listens.
    pub address: SocketAddr,
    _directory: TempDir,
}

impl Echo {
    /// Starts a server.
    pub fn start() -> Echo {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("echo.py");
        fs::write(&program, PYTHON).unwrap();
        let address = free_address();
        let mut command = Command::new("python3");
        command.arg("-I").arg(program).arg(address.ip().to_string());
        let child = command.arg(address.port().to_string()).stdin(Stdio::null()).spawn().unwrap();
        let echo = Echo { child, address, _directory: directory };
        eventually("the server listens", || TcpStream::connect(address).ok());
        echo
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
