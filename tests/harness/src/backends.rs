//! Servers behind a proxy: a real nginx, a small Python server that reports the requests that it
//! receives, and programs of tests.

use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::{eventually, free_address};

/// A server; stopped on drop.
pub struct Backend {
    child: Child,
    /// Address on which it listens.
    pub address: SocketAddr,
    directory: TempDir,
}

/// Answers by path, and records each request line as received.
const PYTHON: &str = r#"
import gzip, http.server, json, sys, time, zlib

TEXT = b"".join(b"line %d of a text that is worth compressing\n" % n for n in range(3000))

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with open("seen", "a") as seen:
            seen.write(self.raw_requestline.decode("latin1").rstrip("\r\n") + "\n")
        name = self.path.split("?")[0].strip("/").split("/")[0]
        getattr(self, "answer_" + name, self.answer_echo)(body)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_any

    def head(self, status, fields):
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()

    def whole(self, status, body, **fields):
        fields = {name.replace("_", "-"): value for name, value in fields.items()}
        self.head(status, {**fields, "Content-Length": str(len(body))})
        if self.command != "HEAD":
            self.wfile.write(body)

    def answer_echo(self, body):
        seen = {
            "line": self.requestline,
            "fields": {name.lower(): value for name, value in self.headers.items()},
            "length": len(body),
            "crc": zlib.crc32(body),
        }
        self.whole(200, json.dumps(seen).encode(), Content_Type="application/json")

    def answer_text(self, body):
        self.whole(200, TEXT, Content_Type="text/plain", ETag='"t"', Server="Other/1")

    def answer_chunks(self, body):
        self.head(200, {"Content-Type": "text/plain", "Transfer-Encoding": "chunked", "X-Frame-Options": "DENY"})
        if self.command == "HEAD":
            return
        for at in range(0, len(TEXT), 50000):
            piece = TEXT[at:at + 50000]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            time.sleep(0.02)
        self.wfile.write(b"0\r\n\r\n")

    def answer_encoded(self, body):
        self.whole(200, gzip.compress(TEXT), Content_Type="text/plain", Content_Encoding="gzip")

    def answer_broken(self, body):
        self.whole(500, b"the application's own page", Content_Type="text/html")

    def answer_cut(self, body):
        self.head(200, {"Content-Type": "text/plain", "Content-Length": str(len(TEXT))})
        self.wfile.write(TEXT[:100])
        self.close_connection = True

    def log_message(self, *arguments):
        pass

http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()
"#;

impl Backend {
    /// Starts a Python server that reports requests, or answers `/text`, `/chunks` and so on.
    pub fn python() -> Backend {
        Backend::program(&["python3", "-I"], PYTHON, &[])
    }

    /// Starts an interpreter with a program, which gets host and port as its first arguments.
    pub fn program(interpreter: &[&str], text: &str, arguments: &[&str]) -> Backend {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("program");
        fs::write(&program, text).unwrap();
        let address = free_address();
        let mut command = Command::new(interpreter[0]);
        command.args(&interpreter[1..]).arg(program).arg(address.ip().to_string());
        command.arg(address.port().to_string()).args(arguments);
        Backend::start(&mut command, address, directory)
    }

    /// Starts nginx with a new document root, to which PUT writes.
    pub fn nginx() -> Backend {
        Backend::nginx_with(&[], "", "dav_methods PUT DELETE;")
    }

    /// Starts nginx with files in its directory, options of its socket, and directives of its
    /// server.
    pub fn nginx_with(files: &[(&str, &str)], options: &str, directives: &str) -> Backend {
        Backend::nginx_in(files, "", options, directives)
    }

    /// Starts nginx with a cache `pages` in front of another server, and directives of its server.
    pub fn nginx_cache(origin: &str, directives: &str) -> Backend {
        let cache = "proxy_cache_path cache keys_zone=pages:1m;";
        let directives = format!("location / {{ proxy_pass {origin}; {directives} }}");
        Backend::nginx_in(&[], cache, "", &directives)
    }

    /// Starts nginx likewise, with directives of all its servers.
    fn nginx_in(files: &[(&str, &str)], http: &str, options: &str, directives: &str) -> Backend {
        let directory = tempfile::tempdir().unwrap();
        let address = free_address();
        for (name, contents) in files {
            fs::write(directory.path().join(name), contents).unwrap();
        }
        let path = directory.path().display();
        fs::create_dir(directory.path().join("www")).unwrap();
        let configuration = format!(
            "daemon off;
             master_process off;
             pid {path}/pid;
             events {{ worker_connections 256; }}
             http {{
                 types {{ text/html html; text/plain txt; image/png png; }}
                 log_format own '$connection $connection_requests $request';
                 access_log {path}/seen own;
                 client_body_temp_path {path}/body;
                 proxy_temp_path {path}/proxy;
                 fastcgi_temp_path {path}/fastcgi;
                 uwsgi_temp_path {path}/uwsgi;
                 scgi_temp_path {path}/scgi;
                 client_max_body_size 64m;
                 {http}
                 server {{
                     listen {address} {options};
                     root {path}/www;
                     {directives}
                 }}
             }}"
        );
        let file = directory.path().join("nginx.conf");
        fs::write(&file, configuration).unwrap();
        let log = directory.path().join("error.log");
        let mut command = Command::new(nginx());
        command.arg("-e").arg(log).arg("-p").arg(directory.path()).arg("-c").arg(file);
        Backend::start(&mut command, address, directory)
    }

    fn start(command: &mut Command, address: SocketAddr, directory: TempDir) -> Backend {
        let errors = fs::File::create(directory.path().join("stderr")).unwrap();
        command.current_dir(directory.path()).stdin(Stdio::null()).stderr(errors);
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut backend = Backend { child, address, directory };
        eventually("the backend listens", || {
            if let Some(status) = backend.child.try_wait().unwrap() {
                panic!("{command:?} has ended with {status}: {}", backend.file("stderr"));
            }
            TcpStream::connect(address).ok()
        });
        backend
    }

    /// Returns the URL for a `proxy`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns nginx's document root.
    pub fn root(&self) -> PathBuf {
        self.directory.path().join("www")
    }

    /// Returns the requests that the server has received, a line each.
    pub fn seen(&self) -> Vec<String> {
        self.file("seen").lines().map(str::to_owned).collect()
    }

    /// Stops the server.
    pub fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.directory.path().join(name)).unwrap_or_default()
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.end();
    }
}

/// Reads a head byte by byte, so that the bytes after it stay unread. `None` if the connection ends
/// within it.
pub fn read_head(stream: &mut impl Read) -> Option<Vec<u8>> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    Some(head)
}

/// Debian's directory of nginx is not in every user's PATH.
fn nginx() -> &'static Path {
    let places = ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"].map(Path::new);
    places.into_iter().find(|place| place.exists()).unwrap_or(Path::new("nginx"))
}
