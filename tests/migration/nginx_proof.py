"""Proves the rows of docs/coming-from-nginx.md, one by one.

Each case has a snippet of nginx and the replacement in the row of a directive, both with a host of its own in few
processes. Both servers get the same requests; statuses, fields, bodies and lines of logs must be the same, and the
statuses those that the case names. The body of an upstream or script has the request that it got.
"""

import json
import os
import re
import socket
import ssl
import subprocess
import time
from pathlib import Path

from backend import Backend
from directives import read_all
from directives.all import CASES
from peers import Programs, fpm, free_port, nginx
from peers.processes import PATIENCE
from sites import TELL

NGINX = """
    server_names_hash_bucket_size 128;
    access_log off;
"""

# Fields that are always compared.
FIELDS = ["content-type", "location", "cache-control", "www-authenticate", "x-powered-by", "expires", "content-range", "set-cookie",
          "content-encoding", "refresh"]

# A page that a server writes itself.
OWN_PAGE = re.compile(rb"<hr><center>nginx|^<!doctype html><title>\d\d\d</title>")

# The files of all cases, below /srv/.
FILES = {
    "www/index.html": "start\n", "www/a.txt": "text a\n", "www/b.txt": "text b\n", "www/a.css": "a { }\n",
    "www/a.unknown": "unknown\n", "www/none": "no ending\n", "www/sub/index.html": "sub\n", "www/sub/c.txt": "text c\n",
    "www/large.txt": "0123456789abcde\n" * 4096, "www/50x.html": "our page\n", "www/dir/d.txt": "text d\n",
    "other/a.txt": "other a\n", "other/sub/e.txt": "text e\n", "php/index.php": TELL, "php/a.php": TELL,
    "php/sub/index.php": TELL, "php/a.txt": "text\n",
}


class Side:
    """A running server, as a case sees it."""

    # The requests that the backends got, and the lines of requests that have begun.
    recorders, heads = [], []

    def __init__(self, name, tmp, port, host, backends, tls=False):
        self.name, self.tmp, self.port, self.host, self.backends, self.tls = name, tmp, port, host, backends, tls

    def connect(self, timeout=PATIENCE):
        client = socket.create_connection(("127.0.0.1", self.port), timeout)
        if self.tls:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            client = context.wrap_socket(client, server_hostname=self.host)
        return client

    def send(self, data):
        """The response to these bytes, read until the server closes the connection."""
        with self.connect() as client:
            client.sendall(data)
            return parse(read_all(client))

    def ask(self, request):
        return self.send(self.bytes_of(request))

    def bytes_of(self, request):
        line, *more = [part.strip() for part in request.split(" | ")]
        method, target = line.split(" ", 1)
        body = next((part[5:] for part in more if part.startswith("body=")), "")
        fields = [part for part in more if not part.startswith("body=")]
        if not any(part.lower().startswith("host:") for part in fields):
            fields.insert(0, f"Host: {self.host}")
        if body or method == "POST":
            fields.append(f"Content-Length: {len(body)}")
        head = "\r\n".join([f"{method} {target} HTTP/1.1", *fields, "Connection: close", "", ""])
        return (head + body).encode()

    def read(self, path):
        """The text of a file of this server, such as /var/log/x; empty without it."""
        file = Path(place(path, self))
        return file.read_text(errors="replace") if file.exists() else ""


def parse(data):
    """Status, fields and body of the first response; chunks are joined."""
    if not data:
        return 0, {}, b""
    head, _, body = data.partition(b"\r\n\r\n")
    line, *rows = head.decode("latin-1").split("\r\n")
    fields = {}
    for row in rows:
        name, _, value = row.partition(":")
        name, value = name.lower(), value.strip()
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    if fields.get("transfer-encoding") == "chunked":
        joined = b""
        while body:
            size, _, body = body.partition(b"\r\n")
            length = int(size.split(b";")[0] or b"0", 16)
            joined, body = joined + body[:length], body[length + 2:]
            if not length:
                break
        body = joined
    return int(line.split(" ")[1]), fields, body


def place(text, side):
    """A text of a case with the places of this comparison."""
    for number, port in enumerate(side.backends, 1):
        text = text.replace(f"10.0.0.{number}:8080", f"127.0.0.1:{port}")
    return (text.replace("@TMP@", str(side.tmp)).replace("127.0.0.1:PORT", f"127.0.0.1:{side.port}").replace("/var/log/", f"{side.tmp}/log-{side.name}/").replace("/srv/", f"{side.tmp}/srv/").replace("/run/php.sock", f"{side.tmp}/php.sock")
            .replace("include fastcgi_params", "include /etc/nginx/fastcgi_params"))


def comparable(side, answer, case):
    """The parts that must be the same, without the status."""
    status, fields, body = answer
    names = FIELDS + case.fields.lower().split()
    kept = {name: fields[name] for name in names if name in fields}
    if "location" in kept:  # nginx writes the whole URL.
        own = rf"^https?://{re.escape(side.host)}(:{side.port})?(?=/)"
        kept["location"] = re.sub(own, "", kept["location"])
    if "www-authenticate" in kept:  # The row says so.
        kept["www-authenticate"] = kept["www-authenticate"].replace(', charset="UTF-8"', "")
    is_own_page = status >= 300 and OWN_PAGE.search(body)
    if is_own_page or not body:
        # Pages of the servers themselves differ in text.
        kept.pop("content-type", None)
        kept.pop("content-length", None)
    return kept, b"" if is_own_page or not case.body else body


def deeply(value, side):
    return json.loads(place(json.dumps(value), side))


def merged(into, more, where=""):
    """Adds an object to another; two values of one path must be equal."""
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merged(into[key], value, f"{where}/{key}")
        elif key in into and into[key] != value:
            raise ValueError(f"{where}/{key}: two cases differ")
        else:
            into[key] = value


class Comparison:
    # Most of the time is spent in waiting for timeouts.
    threads = 6

    def __init__(self, tmp, howdah, cases):
        self.tmp, self.howdah, self.cases = tmp, howdah, cases
        make_tree(tmp, cases)
        make_certificate(tmp / "srv/tls")
        self.programs = Programs(tmp)
        self.backends = [Backend(), Backend(), Backend(tmp / "srv/tls")]
        Side.recorders = [backend.server.recorded for backend in self.backends]
        Side.heads = [backend.server.heads for backend in self.backends]
        first, second, with_tls = [backend.port for backend in self.backends]
        # No server listens at the third address.
        self.addresses = [first, second, free_port(), with_tls]
        self.nginx_port = free_port()
        self.group_ports = {group: free_port() for group in sorted({case.group for case in cases})}
        self.own_ports = {case.name: (free_port(), free_port())
                          for case in cases if case.listener is not None}

    def side(self, name, case):
        ports = self.own_ports.get(case.name, (self.nginx_port, self.group_ports[case.group]))
        is_tls = "tls" in (case.listener or {})
        return Side(name, self.tmp, ports[name == "howdah"], f"{case.name}.test", self.addresses, is_tls)

    def configuration(self):
        texts = [f"server {{ listen 127.0.0.1:{self.nginx_port} default_server; return 421; }}"]
        for case in self.cases:
            side = self.side("nginx", case)
            texts.append(place(case.http, side))
            listen = f"listen 127.0.0.1:{side.port} {case.listen};"
            texts.append(f"server {{ {listen} server_name {side.host} *.{side.host}; {place(case.nginx, side)} }}")
        return nginx.configuration(self.tmp, NGINX + "\n".join(texts))

    def document(self, group):
        hosts, routes = [], {}
        document = {"listeners": {f"127.0.0.1:{self.group_ports[group]}": {"pass": "routes/hosts"}}}
        for case in self.cases:
            if case.group != group:
                continue
            side = self.side("howdah", case)
            steps = case.routes if case.routes is not None else [{"action": case.action}]
            routes[case.name] = deeply(steps, side)
            merged(document, deeply({key: value for key, value in case.document.items() if key != "routes"}, side))
            merged(routes, deeply(case.document.get("routes", {}), side))
            if case.listener is not None:
                listener = {"pass": f"routes/{case.name}"} | deeply(case.listener, side)
                document["listeners"][f"127.0.0.1:{side.port}"] = listener
            hosts.append({"match": {"host": [side.host, f"*.{side.host}"]}, "action": {"pass": f"routes/{case.name}"}})
        document["routes"] = routes | {"hosts": hosts}
        return document

    def start(self):
        for name in ("log-nginx", "log-howdah"):
            (self.tmp / name).mkdir()
        socket_of_php = self.tmp / "php.sock"
        pool = fpm.pool(socket_of_php, "pm = static\npm.max_children = 12\ncatch_workers_output = yes")
        self.programs.start("php-fpm", fpm.command(self.tmp, pool))
        self.programs.start("nginx", nginx.command(self.tmp, self.configuration()))
        for group in self.group_ports:
            (work := self.tmp / f"work-{group}").mkdir()
            work.chmod(0o777)
            file = self.tmp / f"{group}.json"
            file.write_text(json.dumps(self.document(group), indent=1))
            self.programs.start(f"howdah-{group}", [self.howdah, "serve", "--config", file, "--no-control", "--log",
                                                    self.tmp / f"howdah-{group}.log", "--tmp", work])
        self.programs.wait_for("socket of PHP-FPM", socket_of_php.exists)
        own = [port for two in self.own_ports.values() for port in two]
        self.programs.wait_for_ports([self.nginx_port, *self.group_ports.values(), *own])

    def stop(self):
        self.programs.stop()

    def compare(self, case):
        """The differences of a case."""
        sides = [self.side(name, case) for name in ("nginx", "howdah")]
        for request in case.requests:
            if callable(request):
                values = [request(side) for side in sides]
                if values[0] != values[1]:
                    yield f"{request.__name__}\n      nginx:  {values[0]}\n      Howdah: {values[1]}"
                continue
            statuses, request = request.split(" ", 1)
            shown = request if len(request) < 120 else request[:120] + "…"
            expected = [int(status) for status in statuses.split("/")] * 2
            answers = [side.ask(request) for side in sides]
            for side, status, answer in zip(sides, expected, answers):
                if answer[0] != status:
                    yield f"{shown}\n      {side.name}: {answer[0]} instead of {status}"
            values = [comparable(side, answer, case) for side, answer in zip(sides, answers)]
            if values[0] != values[1]:
                yield f"{shown}\n      nginx:  {values[0]}\n      Howdah: {values[1]}"
        if case.log:
            logs = [lines_of(side, f"/var/log/{case.log}", case.lines) for side in sides]
            if logs[0] != logs[1]:
                yield f"/var/log/{case.log}\n      nginx:  {logs[0]}\n      Howdah: {logs[1]}"


def lines_of(side, path, number):
    """The lines of a log without times; waits for as many. nginx writes `\\x5C`, Howdah `\\x5c`."""
    end = time.monotonic() + PATIENCE
    while (text := side.read(path)).count("\n") < number and time.monotonic() < end:
        time.sleep(0.02)
    text = re.sub(r"\d\d/\w\w\w/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}", "TIME", text)
    # Each request has a connection of its own, so threads may write the lines of two in another order.
    return sorted(re.sub(r"\b\d+\.\d{3}\b", "SECONDS", line).replace("\\x5C", "\\x5c") for line in text.splitlines())


def make_tree(tmp, cases):
    files = dict(FILES)
    for case in cases:
        merged(files, case.files)
    for name, content in files.items():
        path = tmp / "srv" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content.startswith("-> "):
            path.symlink_to(place(content[3:], Side("nginx", tmp, 0, "", [])))
            continue
        if content.startswith("zeros "):
            with path.open("wb") as file:
                file.truncate(int(content[6:]))
        else:
            path.write_text(content)
        os.utime(path, (1_700_000_000, 1_700_000_000))
        path.chmod(0o755 if name.endswith(".sh") else 0o644)


def make_certificate(directory):
    """A certificate of a server and a client, signed by itself, an answer of OCSP about it, and lists of revoked certificates
    without and with it."""
    directory.mkdir()
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=www.example.org", "-days", "2",
                    "-addext", "subjectAltName=DNS:www.example.org", "-addext", "basicConstraints=critical,CA:FALSE",
                    "-keyout", directory / "key.pem", "-out", directory / "chain.pem"], check=True, capture_output=True)
    shown = subprocess.run(["openssl", "x509", "-in", directory / "chain.pem", "-noout", "-serial"], check=True, capture_output=True, text=True)
    serial = shown.stdout.strip().partition("=")[2]
    (directory / "index").write_text(f"V\t491231235959Z\t\t{serial}\tunknown\t/CN=www.example.org\n")
    (directory / "index.attr").write_text("unique_subject = no\n")
    own = ["-CA", directory / "chain.pem", "-issuer", directory / "chain.pem", "-rsigner", directory / "chain.pem"]
    subprocess.run(["openssl", "ocsp", "-index", directory / "index", *own, "-rkey", directory / "key.pem", "-cert", directory / "chain.pem",
                    "-ndays", "2", "-noverify", "-respout", directory / "ocsp.der"], check=True, capture_output=True)
    for name, row in (("none", f"V\t491231235959Z\t\t{serial}"), ("own", f"R\t491231235959Z\t200101000000Z\t{serial}")):
        database, settings = directory / f"{name}-index", directory / f"{name}.cnf"
        database.write_text(f"{row}\tunknown\t/CN=www.example.org\n")
        settings.write_text(f"[ca]\ndefault_ca = own\n[own]\ndatabase = {database}\ndefault_md = sha256\ndefault_crl_days = 2\n"
                            "unique_subject = no\ncrl_extensions = extensions\n[extensions]\nauthorityKeyIdentifier = keyid\n")
        subprocess.run(["openssl", "ca", "-gencrl", "-config", settings, "-cert", directory / "chain.pem", "-keyfile", directory / "key.pem",
                        "-out", directory / f"revoked-{name}.pem"], check=True, capture_output=True)


def needs():
    """The missing requirement; None if all are met."""
    return None if Path(nginx.PROGRAM).exists() and fpm.programs() else "nginx and php-fpm"
