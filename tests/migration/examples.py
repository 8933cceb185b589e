#!/usr/bin/env python3
"""Compares the examples in docs/examples/ with the configurations that they replace.

    examples.py --howdah PROGRAM [NAME...]

Each example has a document for Howdah and the nginx configuration that it replaces. Both serve the same tree with the
same PHP, and get the same requests: status, content, and the header fields that matter are the same. Needs root,
nginx and PHP-FPM; without them it says so and ends with status 0.
"""

import argparse
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from sites import SITES, TELL  # noqa: E402

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "docs" / "examples"
PATIENCE = 60

# Fields that are compared. `Content-Type` is not compared for kinds that the two servers name differently.
FIELDS = ["content-type", "location", "cache-control", "x-frame-options", "x-content-type-options",
          "referrer-policy", "strict-transport-security", "www-authenticate", "x-powered-by", "retry-after", "expires"]

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


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


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
        self.running.append(subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL))

    def has_ended(self):
        return any(process.poll() is not None for process in self.running)

    def stop(self):
        for process in reversed(self.running):
            process.send_signal(signal.SIGTERM)
        for process in self.running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def make_tree(srv, files):
    for name in files:
        path = srv / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TELL if name.endswith(".php") else f"content of {path.name}\n")
        os.utime(path, (1_700_000_000, 1_700_000_000))
    for path in [srv, *srv.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)


def ask(port, host, request):
    """The response to a request: status, fields, body."""
    method, target = request.split(" ", 1)
    if named := re.match(r"//([a-z.]+)(/.*)", target):
        host, target = named.groups()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    body = "name=value" if method in ("POST", "PUT") else None
    fields = {"Host": host}
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


def comparable(port, host, answer):
    """What must be the same."""
    status, fields, body = answer
    kept = {name: fields[name] for name in FIELDS if name in fields}
    if "location" in kept:  # nginx writes the whole URL
        kept["location"] = re.sub(rf"^https?://{re.escape(host)}(:\d+)?", "", kept["location"])
    is_own_page = status >= 300 and "x-powered-by" not in fields and not fields.get("content-type", "").startswith(
        "application/json")
    if is_own_page:
        # Pages of the servers themselves differ in text.
        kept.pop("content-type", None)
        body = b""
    kept["content-type"] = kept.get("content-type", "").replace("; charset=utf-8", "")
    return status, kept, body


def compare(name, howdah):
    host, files, requests = SITES[name]
    with tempfile.TemporaryDirectory(prefix="howdah-example-") as directory:
        tmp = Path(directory)
        tmp.chmod(0o755)
        srv = tmp / "srv"
        make_tree(srv, files)
        work = tmp / "work"
        work.mkdir()
        work.chmod(0o777)
        ports = free_port(), free_port()
        conf = (EXAMPLES / name / "nginx.conf").read_text()
        conf = conf.replace("listen 80;", f"listen 127.0.0.1:{ports[0]};").replace("/srv/", f"{srv}/")
        conf = conf.replace("/run/php/php8.2-fpm.sock", f"{tmp}/fpm.sock").replace("/run/php/", f"{tmp}/")
        conf = re.sub(r"include (fastcgi\w*(\.conf)?);", r"include /etc/nginx/\1;", conf)
        (tmp / "site.conf").write_text(conf)
        (tmp / "nginx.conf").write_text(NGINX.format(tmp=tmp))
        pools = EXAMPLES / name / "fpm.conf"
        pools = POOL + (pools.read_text().replace("/run/php/", f"{tmp}/") if pools.exists() else "")
        (tmp / "fpm.conf").write_text(GLOBAL.format(tmp=tmp) + pools.replace("{tmp}", str(tmp)))
        document = (EXAMPLES / name / "howdah.json").read_text()
        document = document.replace('"*:80"', f'"127.0.0.1:{ports[1]}"').replace("/srv/", f"{srv}/")
        (tmp / "howdah.json").write_text(document)
        servers = Servers(tmp)
        try:
            servers.start(php_fpm(), "-F", "-y", str(tmp / "fpm.conf"))
            wait_for("PHP-FPM", lambda: (tmp / "fpm.sock").exists())
            servers.start("nginx", "-c", str(tmp / "nginx.conf"), "-e", str(tmp / "nginx.log"))
            servers.start(str(howdah), "serve", "--config", str(tmp / "howdah.json"), "--no-control", "--log",
                          str(tmp / "howdah.log"), "--tmp", str(work))
            for port in ports:
                wait_for("a server", lambda: accepts(port) or servers.has_ended())
            if servers.has_ended():
                raise TimeoutError("a server")
            differences = []
            for request in requests:
                answers = [comparable(port, host, ask(port, host, request)) for port in ports]
                if answers[0] != answers[1]:
                    differences.append(f"{request}\n    nginx:  {answers[0]}\n    Howdah: {answers[1]}")
            return differences
        except TimeoutError as error:
            logs = "\n".join(path.read_text(errors="replace") for path in tmp.glob("*.log"))
            return [f"{error} did not start:\n{logs}"]
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
        differences = compare(name, arguments.howdah.resolve())
        print(f"{name}: {len(SITES[name][2])} requests, {len(differences)} differences")
        for difference in differences:
            print("  " + difference)
        failed |= bool(differences)
    sys.exit(failed)


if __name__ == "__main__":
    main()
