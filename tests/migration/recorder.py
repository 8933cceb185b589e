"""A server behind a proxy: its responses have the requests that it got."""

import http.server
import json
import threading

# Fields that are told, if they were sent.
TOLD = ["host", "forwarded", "via", "authorization", "content-length", "cookie", "te"]
# Fields that only one of the two servers adds.
UNTOLD = ["x-forwarded-server", "x-forwarded-proto", "x-real-ip"]


class Handler(http.server.BaseHTTPRequestHandler):
    """`/status/503` is a response with this status, `/redirect` one with a location, `/cookie` one with a cookie, and
    `/silence` none until the client closes the connection. `/switch` fails at one of two servers."""

    protocol_version = "HTTP/1.1"

    def respond(self):
        recorder = self.server.recorder
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode("latin-1")
        told = {name.lower(): value for name, value in self.headers.items()
                if name.lower() in TOLD or name.lower().startswith("x-") and name.lower() not in UNTOLD}
        told |= {"line": f"{self.command} {self.path}", "body": body, "server": recorder.name}
        path = self.path.partition("?")[0]
        if path.endswith("/silence"):
            self.connection.recv(1)
            self.close_connection = True
            return
        status = int(path.rsplit("/", 1)[1]) if "/status/" in path else 302 if path.endswith("/redirect") else 200
        if path.endswith("/switch") and recorder.name == "one":
            status = 503
        content = json.dumps(told, sort_keys=True).encode() + b"\n"
        self.send_response(status)
        if status == 302:
            self.send_header("Location", f"http://{recorder.address}/app/elsewhere?a=b")
        if path.endswith("/cookie"):
            self.send_header("Set-Cookie", "session=1; Domain=backend.test; Path=/app/; HttpOnly")
        self.send_header("Content-Type", "application/json")
        self.send_header("X-Server", recorder.name)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = do_FOO = respond

    def log_message(self, *_):
        pass


class Recorder:
    """A server in threads of this process, at `address`."""

    def __init__(self, name):
        self.name = name
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads, self.server.block_on_close, self.server.recorder = True, False, self
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
