#!/usr/bin/env python3
"""Compares the examples in docs/examples/ with the configurations that they replace.

    examples.py --howdah PROGRAM [NAME...]

Each example has a document for Howdah and the configuration of nginx or Apache that it replaces. Both serve the same tree with the
same PHP, and get the same requests: status, content, and the header fields that matter are the same. Needs root,
nginx, PHP-FPM, and for one example Apache with mod_php; without them it says so and ends with status 0.
"""

import argparse
import http.client
import http.server
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(1, str(Path(__file__).resolve().parents[2] / "tools"))

from ports import free_port  # noqa: E402
from sites import CONTENTS, SITES, TELL  # noqa: E402

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "docs" / "examples"
PATIENCE = 60
APACHE_DIRECTORY = Path("/usr/lib/apache2/modules")

# Fields that are compared: not `Retry-After`, which nginx lacks. `Content-Type` is not compared for kinds that the two servers name differently.
FIELDS = ["content-type", "location", "cache-control", "x-frame-options", "x-content-type-options",
          "referrer-policy", "strict-transport-security", "www-authenticate", "x-powered-by", "expires", "x-cache"]

NGINX = """
daemon off; error_log {tmp}/nginx.log; pid {tmp}/nginx.pid; user www-data; worker_processes 1;
events {{ }}
http {{
    include /etc/nginx/mime.types;
    access_log off;
    client_body_temp_path {tmp}/body; fastcgi_temp_path {tmp}/fastcgi; proxy_temp_path {tmp}/proxy;
    uwsgi_temp_path {tmp}/uwsgi; scgi_temp_path {tmp}/scgi;
    include {tmp}/site.conf;
}}
"""

APACHE = """
ServerRoot {tmp}
DefaultRuntimeDir {tmp}
PidFile {tmp}/apache.pid
ErrorLog {tmp}/apache.log
ServerName a
User www-data
Group www-data
Listen 127.0.0.1:{port}
TypesConfig /etc/mime.types
{modules}
<Directory />
    Require all denied
</Directory>
<FilesMatch "^\\.ht">
    Require all denied
</FilesMatch>
Include {tmp}/site.conf
"""

APACHE_MODULES = "mpm_prefork authz_core authn_core authz_host dir mime alias rewrite env setenvif headers php"

GLOBAL = """
[global]
error_log = {tmp}/fpm.log
daemonize = no
"""

POOL = """
[www]
user = www-data
group = www-data
listen = {tmp}/fpm.sock
listen.owner = www-data
pm = static
pm.max_children = 2
"""


def wait_for(what, condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.05)


def accepts(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


class Servers:
    """The processes of one comparison."""

    def __init__(self, tmp):
        self.tmp, self.running = tmp, []

    def start(self, *command):
        log = open(self.tmp / f"{len(self.running)}.log", "wb")
        # In a process group of its own: Apache ends with a signal to all processes of its group.
        self.running.append(subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                             start_new_session=True))

    def has_ended(self):
        return any(process.poll() is not None for process in self.running)

    def ended(self):
        """What the processes that have ended were, and what they have said."""
        parts = []
        for number, process in enumerate(self.running):
            if process.poll() is not None:
                said = (self.tmp / f"{number}.log").read_text(errors="replace")[-1500:]
                parts.append(f"{' '.join(process.args)}: status {process.returncode}\n{said}")
        return "\n".join(parts)

    def stop(self):
        for process in reversed(self.running):
            process.send_signal(signal.SIGTERM)
        for process in self.running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


class Backend(http.server.BaseHTTPRequestHandler):
    """A server behind a balancer, which tells what it was sent."""

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
    """What must be the same."""
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
    return text.replace("/srv/", f"{tmp}/srv/").replace("/run/php/php8.2-fpm.sock", f"{tmp}/fpm.sock").replace(
        "/run/php/", f"{tmp}/")


def make_certificate(directory):
    directory.mkdir()
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=www.example.org", "-days",
                    "2", "-keyout", directory / "key.pem", "-out", directory / "chain.pem"], check=True,
                   capture_output=True)


def start_peer(servers, tmp, example, port, place):
    """Starts the program that Howdah replaces."""
    if (example / "apache.conf").exists():
        (tmp / "site.conf").write_text(place((example / "apache.conf").read_text()))
        modules = [(name, sorted(APACHE_DIRECTORY.glob("libphp*.so" if name == "php" else f"mod_{name}.so"))[-1])
                   for name in APACHE_MODULES.split()]
        loads = "\n".join(f"LoadModule {name}_module {file}" for name, file in modules)
        (tmp / "apache.conf").write_text(APACHE.format(tmp=tmp, port=port, modules=loads))
        servers.start("apache2", "-f", str(tmp / "apache.conf"), "-D", "FOREGROUND")
        return
    pools = example / "fpm.conf"
    pools = POOL.format(tmp=tmp) + (place(pools.read_text()) if pools.exists() else "")
    (tmp / "fpm.conf").write_text(GLOBAL.format(tmp=tmp) + pools)
    servers.start(php_fpm(), "-F", "-y", str(tmp / "fpm.conf"))
    wait_for("PHP-FPM", lambda: (tmp / "fpm.sock").exists())
    (tmp / "site.conf").write_text(place((example / "nginx.conf").read_text()))
    (tmp / "nginx.conf").write_text(NGINX.format(tmp=tmp))
    servers.start("nginx", "-c", str(tmp / "nginx.conf"), "-e", str(tmp / "nginx.log"))


def document_of(example, tmp):
    """The document of an example: a file, or what its program prints."""
    if (program := example / "document.py").exists():
        printed = subprocess.run([sys.executable, program, tmp / "srv/sites"], capture_output=True, text=True, check=True)
        return printed.stdout.replace(f"{tmp}/srv/", "/srv/")
    return (example / "howdah.json").read_text()


def compare(name, howdah):
    host, files, requests = SITES[name]
    example = EXAMPLES / name
    with tempfile.TemporaryDirectory(prefix="howdah-example-") as directory:
        tmp = Path(directory)
        tmp.chmod(0o755)
        make_tree(tmp / "srv", files)
        make_certificate(tmp / "srv/tls")
        (work := tmp / "work").mkdir()
        work.chmod(0o777)
        peer, own = (free_port(), free_port()), (free_port(), free_port())
        backends = [start_backend(), start_backend()]
        (tmp / "howdah.json").write_text(placed(document_of(example, tmp), tmp, own, backends))
        servers = Servers(tmp)
        try:
            start_peer(servers, tmp, example, peer[0], lambda text: placed(text, tmp, peer, backends))
            servers.start(str(howdah), "serve", "--config", str(tmp / "howdah.json"), "--no-control", "--log",
                          str(tmp / "howdah.log"), "--tmp", str(work))
            for port in (peer[0], own[0]):
                wait_for("a server", lambda: accepts(port) or servers.has_ended())
            if servers.has_ended():
                raise TimeoutError(f"a server has ended: {servers.ended()}")
            differences = []
            for request in requests:
                answers = [comparable(ask(ports, host, request)) for ports in (peer, own)]
                if answers[0] != answers[1]:
                    differences.append(f"{request}\n    peer:   {answers[0]}\n    Howdah: {answers[1]}")
            return differences
        except (OSError, TimeoutError) as error:
            logs = "\n".join(path.read_text(errors="replace") for path in tmp.glob("*.log"))
            return [f"{error}:\n{logs}"]
        finally:
            servers.stop()


def php_fpm():
    found = sorted(Path("/usr/sbin").glob("php-fpm*"))
    return str(found[-1]) if found else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--howdah", type=Path, required=True)
    parser.add_argument("names", nargs="*", default=sorted(SITES))
    arguments = parser.parse_args()
    if os.geteuid() or not shutil.which("nginx") or not php_fpm():
        print("not compared: needs root, nginx and php-fpm")
        return
    failed = False
    for name in arguments.names:
        if (EXAMPLES / name / "apache.conf").exists() and not list(APACHE_DIRECTORY.glob("libphp*.so")):
            print(f"{name}: not compared: needs Apache with mod_php")
            continue
        differences = compare(name, arguments.howdah.resolve())
        print(f"{name}: {len(SITES[name][2])} requests, {len(differences)} differences")
        for difference in differences:
            print(f"FAIL: example-{name} (docs/examples)\n  {difference}")
        failed |= bool(differences)
    sys.exit(failed)


if __name__ == "__main__":
    main()
