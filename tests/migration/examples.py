"""Compares the examples in docs/examples/ with the configurations that they replace.

Each example has a document for Howdah and the configuration of nginx or Apache that it replaces. Both serve the same tree with the
same PHP, and get the same requests: status, content, and the header fields that matter are the same.
"""

import http.client
import http.server
import json
import os
import re
import ssl
import subprocess
import threading
from pathlib import Path

from peers import Programs, apache, fpm, free_port, nginx
from peers.processes import PATIENCE
from sites import CONTENTS, SITES, TELL

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "docs" / "examples"
# Fields that are compared: not `Retry-After`, which nginx lacks. `Content-Type` is not compared for kinds that the two servers name differently.
FIELDS = ["content-type", "location", "cache-control", "x-frame-options", "x-content-type-options",
          "referrer-policy", "strict-transport-security", "www-authenticate", "x-powered-by", "expires", "x-cache"]

APACHE = """
Listen 127.0.0.1:{port}
<Directory />
    Require all denied
</Directory>
<FilesMatch "^\\.ht">
    Require all denied
</FilesMatch>
"""

APACHE_MODULES = "mpm_prefork authz_core authn_core authz_host dir mime alias rewrite env setenvif headers php".split()


class Backend(http.server.BaseHTTPRequestHandler):
    """A server behind a balancer, which returns the request that it got."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        length = int(self.headers.get("Content-Length", 0))
        names = ["Host", "X-Real-IP", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host"]
        told = {name: self.headers.get(name) for name in names}
        told |= {"line": f"{self.command} {self.path}", "body": self.rfile.read(length).decode()}
        content = json.dumps(told, sort_keys=True).encode()
        self.send_response({"/redirect": 302, "/error": 503}.get(self.path, 200))
        if self.path == "/redirect":
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Type", "application/json")
        self.send_header("X-Powered-By", "Backend")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET

    def log_message(self, *_):
        pass


def start_backend():
    """The port of a backend."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Backend)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def make_tree(srv, files):
    srv.mkdir()
    for name in files:
        path = srv / name
        path.parent.mkdir(parents=True, exist_ok=True)
        usual = TELL if name.endswith(".php") else f"content of {path.name}\n"
        path.write_text(CONTENTS.get(name, usual))
        os.utime(path, (1_700_000_000, 1_700_000_000))
    for path in [srv, *srv.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)


def ask(ports, host, request):
    """The response to a request: status, fields, body."""
    method, target = request.split(" ", 1)
    target, _, extra = target.partition(" {")
    scheme = "http"
    if named := re.match(r"(https:)?//([a-z0-9.]+)(/.*)", target):
        scheme, host, target = "https" if named[1] else "http", named[2], named[3]
    port = ports[scheme == "https"]
    if scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE, context=context)
    else:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    body = "name=value" if method in ("POST", "PUT") else None
    fields = {"Host": host}
    if extra:
        name, _, value = extra.rstrip("}").partition(": ")
        fields[name] = value
    if body:
        fields["Content-Type"] = "application/x-www-form-urlencoded"
    connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
    for name, value in fields.items():
        connection.putheader(name, value)
    if body:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body.encode() if body else None)
    response = connection.getresponse()
    result = (response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
    connection.close()
    return result


def comparable(answer):
    """The parts that must be the same."""
    status, fields, body = answer
    kept = {name: fields[name] for name in FIELDS if name in fields}
    if "location" in kept:  # nginx writes the whole URL
        kept["location"] = re.sub(r"^http://[a-z0-9.]+(:\d+)?", "", kept["location"])
    is_own_page = status >= 300 and "x-powered-by" not in fields and not fields.get("content-type", "").startswith(
        "application/json")
    if is_own_page:
        # Pages of the servers themselves differ in text.
        kept.pop("content-type", None)
        body = b""
    kept["content-type"] = kept.get("content-type", "").replace("; charset=utf-8", "")
    return status, kept, body


def placed(text, tmp, ports, backends):
    """A configuration of an example with the directories and addresses of a comparison."""
    for address, port in (("80", ports[0]), ("443", ports[1])):
        for before in ("listen ", "<VirtualHost *:", '"*:'):
            after = before.replace("*:", "127.0.0.1:") if "*" in before else before + "127.0.0.1:"
            text = re.sub(rf"{re.escape(before)}{address}\b", lambda _: f"{after}{port}", text)
    for number, port in enumerate(backends, 1):
        text = text.replace(f"10.0.0.{number}:8080", f"127.0.0.1:{port}")
    text = re.sub(r"include (fastcgi\w*(\.conf)?);", r"include /etc/nginx/\1;", text)
    return text.replace("/srv/", f"{tmp}/srv/").replace("/var/log/apache2/", f"{tmp}/").replace("/run/php/php8.2-fpm.sock", f"{tmp}/fpm.sock").replace(
        "/run/php/", f"{tmp}/")


def make_certificate(directory):
    directory.mkdir()
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=www.example.org", "-days",
                    "2", "-keyout", directory / "key.pem", "-out", directory / "chain.pem"], check=True,
                   capture_output=True)


def start_peer(programs, tmp, example, port, place):
    """Starts the program that Howdah replaces."""
    if (example / "apache.conf").exists():
        text = APACHE.format(port=port) + place((example / "apache.conf").read_text())
        programs.start("apache", apache.command(tmp, apache.configuration(tmp, APACHE_MODULES, text, root=tmp)))
        return
    own = example / "fpm.conf"
    pools = fpm.pool(tmp / "fpm.sock", "pm = static\npm.max_children = 2") + (place(own.read_text()) if own.exists() else "")
    programs.start("php-fpm", fpm.command(tmp, pools))
    programs.wait_for("socket of PHP-FPM", (tmp / "fpm.sock").exists)
    http = "access_log off;\n" + place((example / "nginx.conf").read_text())
    programs.start("nginx", nginx.command(tmp, nginx.configuration(tmp, http)))


class Comparison:
    """Each example has programs of its own."""

    threads = 1

    def __init__(self, tmp, howdah, _):
        self.tmp, self.howdah = tmp, howdah

    def start(self):
        pass

    def compare(self, case):
        """The differences of an example."""
        host, files, requests = SITES[case.name]
        example, tmp = EXAMPLES / case.name, self.tmp / case.name
        tmp.mkdir()
        make_tree(tmp / "srv", files)
        make_certificate(tmp / "srv/tls")
        (work := tmp / "work").mkdir()
        work.chmod(0o777)
        peer, own = (free_port(), free_port()), (free_port(), free_port())
        backends = [start_backend(), start_backend()]
        document = tmp / "howdah.json"
        document.write_text(placed((example / "howdah.json").read_text(), tmp, own, backends))
        programs = Programs(tmp)
        try:
            start_peer(programs, tmp, example, peer[0], lambda text: placed(text, tmp, peer, backends))
            programs.start("howdah", [self.howdah, "serve", "--config", document, "--no-control", "--log", tmp / "howdah.log",
                                      "--tmp", work])
            programs.wait_for_ports([peer[0], own[0]])
            for request in requests:
                answers = [comparable(ask(ports, host, request)) for ports in (peer, own)]
                if answers[0] != answers[1]:
                    yield f"{request}\n    peer:   {answers[0]}\n    Howdah: {answers[1]}"
        finally:
            programs.stop()

    def stop(self):
        pass


class Example:
    rows = "docs/examples"

    def __init__(self, name):
        self.name = name


CASES = [Example(name) for name in sorted(SITES)]


def needs():
    """The missing requirement; None if all are met."""
    return None if Path(nginx.PROGRAM).exists() and fpm.programs() and apache.has_php() else "nginx, php-fpm and Apache with mod_php"
