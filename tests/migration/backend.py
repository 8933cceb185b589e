"""A server behind the compared ones. Its response tells what it was sent, so that equal bodies mean equal requests."""

import http.server
import json
import threading
import time


class Handler(http.server.BaseHTTPRequestHandler):
    """The field `Reply` is the status of the response, `Reply-Field` one of its fields, `Reply-After` seconds to wait."""

    protocol_version = "HTTP/1.1"

    def answer(self):
        if self.headers.get("Transfer-Encoding"):
            body, was_chunked = self.read_chunks(), True
        else:
            body, was_chunked = self.rfile.read(int(self.headers.get("Content-Length", 0))), False
        # What belongs to a connection, or to the version of HTTP, is not compared.
        apart = {"connection", "content-length", "transfer-encoding", "te"}
        fields = sorted(f"{name.lower()}: {value}" for name, value in self.headers.items() if name.lower() not in apart)
        told = {"line": f"{self.command} {self.path}", "fields": fields, "body": body.decode("latin-1")}
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


class Backend:
    count = 0

    def __init__(self):
        Backend.count += 1
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.recorded, self.server.number = [], Backend.count
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
