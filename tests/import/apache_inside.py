"""Starts a server of a case in the namespaces of this process, and asks it the requests.

apache_inside.py apache|howdah DIRECTORY HOWDAH IMPORTER
"""

import json
import os
import re
import socket
import ssl
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FIELDS = ["location", "content-type", "cache-control", "expires", "www-authenticate", "set-cookie", "vary", "link",
          "content-disposition", "access-control-allow-origin", "strict-transport-security", "content-language"]
PATIENCE = 60  # seconds


def main():
    server, tmp, howdah, importer = sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4]
    case = json.loads((tmp / "case.json").read_text())
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for address in ("10.1.1.1/8", "10.2.2.2/8"):
        subprocess.run(["ip", "address", "add", address, "dev", "lo"], check=True)
    Path("/run/php").mkdir(exist_ok=True)
    for inside, outside in (("etc", "/etc/apache2"), ("srv", "/srv"), ("www", "/var/www"), ("run", "/run/php")):
        Path(outside).mkdir(exist_ok=True)
        subprocess.run(["mount", "--bind", tmp / inside, outside], check=True)
    log = tmp / f"log/{server}"
    log.mkdir()
    log.chmod(0o777)
    Path("/var/log/apache2").mkdir(exist_ok=True)
    subprocess.run(["mount", "--bind", log, "/var/log/apache2"], check=True)
    if case["backend"]:
        threading.Thread(target=ThreadingHTTPServer(("127.0.0.1", 3000), Backend).serve_forever, daemon=True).start()
    children = []
    if case["fpm"]:
        children.append(start_fpm(tmp, case["fpm"]))
    ports = sorted({int(match[1]) for match in (re.search(r" @[\d.]*:(\d+)", request) for request in case["requests"]) if match} | {80})
    if server == "apache":
        children.append(start_apache(tmp))
    else:
        children.append(start_howdah(tmp, case, howdah, importer))
    ports = wait(children[-1], ports, tmp, server)
    answers = [answer(request) for request in case["requests"]]
    time.sleep(0.2)  # for lines that wait to be written
    (tmp / f"{server}.json").write_text(json.dumps(answers))
    for child in children:
        child.terminate()
    for child in children:
        child.wait(30)


def start_fpm(tmp, pools):
    text = f"[global]\ndaemonize = no\nerror_log = {tmp}/fpm.log\n{pools}"
    (tmp / "fpm.conf").write_text(text)
    program = sorted(Path("/usr/sbin").glob("php-fpm*"))[-1]
    child = subprocess.Popen([program, "--nodaemonize", "--fpm-config", tmp / "fpm.conf"], stderr=subprocess.DEVNULL, start_new_session=True)
    time.sleep(0.5)
    return child


def start_apache(tmp):
    variables = {"APACHE_RUN_USER": "www-data", "APACHE_RUN_GROUP": "www-data", "APACHE_PID_FILE": f"{tmp}/apache.pid",
                 "APACHE_RUN_DIR": f"{tmp}/work", "APACHE_LOCK_DIR": f"{tmp}/work", "APACHE_LOG_DIR": "/var/log/apache2",
                 "PATH": os.environ["PATH"]}
    with open(tmp / "apache-out.log", "wb") as output:
        return subprocess.Popen(["/usr/sbin/apache2", "-D", "FOREGROUND"], env=variables, stdout=output, stderr=output, start_new_session=True)


def start_howdah(tmp, case, howdah, importer):
    command = [*([importer] if importer else [howdah, "import"]), "apache", *case["inputs"], "--output", tmp / "document.json", "--report", tmp / "report.json"]
    pools = ["--fpm", tmp / "fpm.conf"] if case["fpm"] and case["joins"] else []
    done = subprocess.run([*command, *pools], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode not in (0, 3):
        sys.exit(done.stdout)
    checked = subprocess.run([howdah, "check", "--syntax", tmp / "document.json"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if checked.returncode:
        sys.exit(checked.stdout)
    with open(tmp / "howdah-out.log", "wb") as output:
        return subprocess.Popen([howdah, "serve", "--config", tmp / "document.json", "--no-control", "--tmp", tmp / "work"],
                                stdout=output, stderr=output, start_new_session=True)


def wait(child, ports, tmp, server):
    """Waits for the first port; others may never be there."""
    end = time.monotonic() + PATIENCE
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", ports[0])) == 0:
                return ports
        if child.poll() is not None or time.monotonic() > end:
            sys.exit(f"{server} does not listen on {ports[0]}: " + (tmp / f"{server}-out.log").read_text(errors="replace")[-3000:])
        time.sleep(0.05)


def answer(request):
    """Sends `METHOD TARGET HOST [@ADDRESS:PORT] | FIELD: VALUE | … || BODY`; a port that ends with s has TLS."""
    head, _, body = request.partition(" || ")
    line, *fields = head.split(" | ")
    method, target, host, *where = line.split(" ")
    address, port = "127.0.0.1", "80"
    if where:
        found, _, port = where[0].removeprefix("@").rpartition(":")
        address = found or address
    names = {field.split(":")[0].lower() for field in fields}
    if body and not names & {"transfer-encoding", "content-length"}:
        fields.append(f"Content-Length: {len(body)}")
    data = "\r\n".join([f"{method} {target} HTTP/1.1", *([f"Host: {host}"] if host != "-" else []), *fields, "Connection: close", "", body])
    try:
        client = socket.create_connection((address, int(port.rstrip("s"))), timeout=20)
        if port.endswith("s"):
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            client = context.wrap_socket(client, server_hostname=host)
            subject = ssl.DER_cert_to_PEM_cert(client.getpeercert(True))
        else:
            subject = ""
        client.sendall(data.encode("latin-1"))
        whole = b""
        try:
            while part := client.recv(65536):
                whole += part
        except (ConnectionResetError, ssl.SSLEOFError):
            pass
    except (OSError, ssl.SSLError) as problem:
        return [type(problem).__name__, {}, ""]
    return comparable(whole, subject)


def comparable(whole, certificate):
    head, _, body = whole.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ", 2)
    status = int(words[1]) if len(words) > 1 and words[1].isdigit() else None
    fields = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        fields.setdefault(name.lower(), []).append(value.strip())
    if "chunked" in fields.get("transfer-encoding", []):
        body = unchunked(body)
    text = re.sub(r"<address>.*</address>\n?", "", body.decode("utf-8", "replace"))
    kept = {name: values for name, values in fields.items() if name in FIELDS or name.startswith("x-")}
    kept.pop("x-powered-by", None)
    if "expires" in kept:
        kept["expires"] = ["set"]
    if "cache-control" in kept:  # of the time of a file, until a second of now
        kept["cache-control"] = [re.sub(r"(?<=max-age=\d{6})\d{2,}", "", value) for value in kept["cache-control"]]
    if "vary" in kept:
        names = sorted({name.strip().lower() for value in kept["vary"] for name in value.split(",")} - {"accept-encoding"})
        kept["vary"] = names
        if not names:
            kept.pop("vary")
    if status and status >= 300 and re.search(r"(?i)^\s*<!doctype html", text):
        kept.pop("content-type", None)
        kept.pop("content-language", None)
        text = ""
    if not text:
        kept.pop("content-type", None)
    if "content-type" in kept:
        kept["content-type"] = [value.lower().replace("; ", ";") for value in kept["content-type"]]
    if certificate:
        kept["certificate"] = certificate[-200:]
    return [status, kept, text]


def unchunked(body):
    whole = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size.split(b";")[0] or b"0", 16)
        if not length:
            break
        whole, body = whole + body[:length], body[length + 2:]
    return whole


class Backend(BaseHTTPRequestHandler):
    """Returns requests."""

    protocol_version = "HTTP/1.1"

    def answer(self):
        length = int(self.headers.get("Content-Length") or 0)
        told = {"line": f"{self.command} {self.path}", "body": self.rfile.read(length).decode(),
                "fields": {name: self.headers.get(name) for name in ("Host", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host",
                                                                    "X-Own", "Authorization", "X-Real-IP", "Cookie")}}
        path = self.path.split("?")[0]
        status = int(path.rsplit("/", 1)[1]) if "/status/" in path else 302 if path.endswith("/redirect") else 200
        data = (json.dumps(told) + "\n").encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        if status == 302:
            self.send_header("Location", "http://127.0.0.1:3000" + path.replace("/redirect", "/there"))
        if path.endswith("/cookie"):
            self.send_header("Set-Cookie", "a=b; Path=/app/; Domain=backend.test")
        self.send_header("X-Backend", "yes")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = answer

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    main()
