"""What watches a server in operation: Prometheus, a server of OpenTelemetry, and an open page.

    observers.py RECEIVER_PORT METRICS_PORT LOG_OF_THE_DASHBOARD

Takes spans, asks for metrics every five seconds (Prometheus' default is 15 to 60), logs into the page of
`howdah dashboard` by the link in its log, and reads its events.
"""

import http.client
import http.server
import json
import re
import sys
import threading
import time
from pathlib import Path

SCRAPE = 5
OPEN_METRICS = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5"


class Receiver(http.server.BaseHTTPRequestHandler):
    """Takes messages of OTLP and answers that all is well."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):  # noqa: N802 - named by the library
        """Reads a message."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Nothing: one message a second would be told."""


def receive(port):
    """Serves as a server of OpenTelemetry."""
    http.server.ThreadingHTTPServer(("127.0.0.1", port), Receiver).serve_forever()


def scrape(port):
    """Asks for the metrics again and again, on one connection, as Prometheus does."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    while True:
        connection.request("GET", "/metrics", headers={"Accept": OPEN_METRICS, "Accept-Encoding": "gzip"})
        connection.getresponse().read()
        time.sleep(SCRAPE)


def link(log):
    """Host and code of the link that the dashboard prints."""
    while True:
        if found := re.search(r"http://([\d.:]+)/#log-in=(\w+)", log.read_text()):
            return found.groups()
        time.sleep(0.1)


def watch(log):
    """Logs into the page, and reads its events."""
    host, code = link(log)
    connection = http.client.HTTPConnection(host, timeout=30)
    own = {"Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}
    connection.request("POST", "/api/log-in", json.dumps({"code": code}), own)
    response = connection.getresponse()
    key = json.loads(response.read())["key"]
    cookie = response.getheader("Set-Cookie").split(";")[0]
    connection.request("GET", "/api/events", headers={**own, "Cookie": cookie, "X-Howdah-Key": key})
    events = connection.getresponse()
    while events.read1(65536):
        pass
    sys.exit(f"the page ended its events with status {events.status}")


def main():
    receiver, metrics, log = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    for work, argument in ((receive, receiver), (scrape, metrics)):
        threading.Thread(target=work, args=(argument,), daemon=True).start()
    watch(log)


if __name__ == "__main__":
    main()
