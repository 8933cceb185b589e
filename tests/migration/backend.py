"""A server behind the compared ones. Its response is the request, so that equal bodies mean equal requests."""

import http.server
import itertools
import json
import ssl
import threading
import time


class Handler(http.server.BaseHTTPRequestHandler):
    """The field `Reply` is the status of the response, `Reply-Field` one of its fields, `Reply-After` seconds to wait."""

    protocol_version = "HTTP/1.1"

    def setup(self):
        if self.server.context:
            # In the thread of this connection: a client that is slow or refuses must not block the others.
            self.request = self.server.context.wrap_socket(self.request, server_side=True)
        super().setup()

    def answer(self):
        self.server.heads.append(f"{self.command} {self.path}")
        if self.headers.get("Transfer-Encoding"):
            body, was_chunked = self.read_chunks(), True
        else:
            body, was_chunked = self.rfile.read(int(self.headers.get("Content-Length", 0))), False
        # Fields of the connection and the version of HTTP are not compared.
        apart = {"connection", "content-length", "transfer-encoding", "te"}
        fields = sorted(f"{name.lower()}: {value}" for name, value in self.headers.items() if name.lower() not in apart)
        told = {"line": f"{self.command} {self.path}", "fields": fields, "body": body.decode("latin-1")}
        if self.server.context:
            told["has_certificate"] = bool(self.request.getpeercert(binary_form=True))
        self.server.recorded.append(told | {"chunked": was_chunked, "client": self.client_address[1]})
        time.sleep(float(self.headers.get("Reply-After", 0)))
        if self.headers.get("Reply") == "close":
            self.close_connection = True
            return
        content = json.dumps(told, indent=1).encode()
        status = int(self.headers.get("Reply", 200))
        self.send_response_only(status)
        self.send_header("Content-Type", "application/json")
        for field in self.headers.get_all("Reply-Field", []):
            name, _, value = field.partition("=")
            self.send_header(name, value)
        self.send_header("Backend", str(self.server.number))
        self.send_header("Count", str(next(self.server.count)))
        if status not in (204, 304):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD" and status not in (204, 304):
            self.wfile.write(content)

    def read_chunks(self):
        parts = []
        while length := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(length))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(parts)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = answer

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """A client that ends a connection is no error."""


class Backend:
    count = 0

    def __init__(self, tls=None):
        """`tls` is a directory with a certificate; clients may have the same."""
        Backend.count += 1
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.context = None
        if tls:
            self.server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.server.context.load_cert_chain(tls / "chain.pem", tls / "key.pem")
            self.server.context.load_verify_locations(tls / "chain.pem")
            self.server.context.verify_mode = ssl.CERT_OPTIONAL
        # The lines of requests that have begun, and the bytes received of each.
        self.server.heads, self.server.recorded, self.server.number = [], [], Backend.count
        self.server.count = itertools.count()
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
