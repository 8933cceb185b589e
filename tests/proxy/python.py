"""A server of Python's whose answers end with their connection. Arguments: host, port, version."""

import http.server
import sys

TEXT = b"".join(b"line %010d\n" % n for n in range(200_000))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = sys.argv[3]

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        name = self.path.strip("/")
        if name == "nothing":
            self.send_response(204)
            self.end_headers()
        elif name == "length":
            self.send_response(200)
            self.send_header("Content-Length", "6")
            self.end_headers()
            self.write(b"length")
        elif name == "missing":
            self.send_error(404)
        else:
            # Without a length only the end of the connection ends it.
            self.send_response(200)
            self.send_header("Connection", "close")
            self.end_headers()
            self.write({"text": TEXT, "empty": b""}.get(name, body))

    do_GET = do_HEAD = do_POST = answer

    def write(self, body):
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *arguments):
        pass


http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()
