"""The command itself: exit statuses, files that it writes, `--root`, and the comparison with a server."""

import http.server
import json
import os
import ssl
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import imported

POOL = "[www]\nuser = www-data\nlisten = /run/php/a.sock\npm = static\npm.max_children = 1\n"
CASES = {}


@dataclass
class Case:
    name: str


def case(function):
    CASES[function.__name__.replace("_", "-")] = function
    return function


def cases():
    return [Case(name) for name in CASES]


def needs():
    return None


def run(arguments):
    if arguments.importer:
        print("skipped: import-of-command: the command is not the one of --importer")
        return 0
    return imported.compare("command", sys.modules[__name__], arguments)


class Comparison:
    def __init__(self, tmp, arguments, cases):
        self.tmp, self.howdah = tmp, arguments.howdah

    def start(self):
        pass

    def compare(self, case):
        directory = self.tmp / case.name
        directory.mkdir()
        yield from CASES[case.name](self, directory)

    def command(self, *options, cwd="/"):
        command = [str(option) for option in (self.howdah, "import", *options)]
        return subprocess.run(command, capture_output=True, text=True, timeout=imported.PATIENCE * 3, cwd=cwd)

    def stop(self):
        pass


def unexpected(done, status, *texts):
    """In what a command differs from its expected status and output."""
    said = done.stdout + done.stderr
    if done.returncode != status:
        yield f"exit status {done.returncode}, expected: {status}\n{said}"
    yield from (f"{text!r} is not in: {said}" for text in texts if text not in said)


@case
def statuses(self, tmp):
    pool, output = tmp / "a.conf", tmp / "a.json"
    pool.write_text(POOL)
    yield from unexpected(self.command("php-fpm", pool, "--output", output), 0,
                          f"{pool}:3: listen: changed: ",
                          "4 directives: 3 converted, 0 not needed, 1 changed, 0 not converted")
    pool.write_text(f"{POOL}brotli = on\n")
    yield from unexpected(self.command("php-fpm", pool, "--output", output), 3, f"{pool}:6: brotli: ", "1 not converted")
    document = output.read_text()
    for text, line in (("[www", 1), (f"{POOL}\nx = \"y\n", 7), (f"{POOL}include = {pool}\n", 6), (f"{POOL}\0", 6)):
        pool.write_text(text)
        yield from unexpected(self.command("php-fpm", pool, "--output", output), 2, f"howdah: {pool}:{line}: ")
    yield from unexpected(self.command("php-fpm", tmp / "none", "--output", output), 2, f"howdah: {tmp}/none: ")
    yield from unexpected(self.command("unit", pool, "--output", output), 2, f"howdah: {pool}:")
    if output.read_text() != document:
        yield "a document was written over by an import that failed"
    yield from unexpected(self.command("php-fpm", pool), 2, "--output")


@case
def standard_output(self, tmp):
    (tmp / "a.conf").write_text(POOL)
    done = self.command("php-fpm", "a.conf", "--output", "-", cwd=tmp)
    yield from unexpected(done, 0)
    if "www" not in json.loads(done.stdout)["applications"]:
        yield f"not the document: {done.stdout}"
    done = self.command("php-fpm", "a.conf", "--output", "a.json", "--report", "-", cwd=tmp)
    if [entry["line"] for entry in json.loads(done.stdout)] != [2, 3, 4, 5]:
        yield f"not the report: {done.stdout}"


@case
def root_directory(self, tmp):
    (tmp / "etc/php/8.2/fpm/pool.d").mkdir(parents=True)
    (tmp / "etc/php/8.2/fpm/php.ini").touch()
    main = tmp / "etc/php/8.2/fpm/php-fpm.conf"
    main.write_text("[global]\ninclude=/etc/php/8.2/fpm/pool.d/*.conf\n")
    (tmp / "etc/php/8.2/fpm/pool.d/www.conf").write_text(POOL)
    yield from unexpected(self.command("php-fpm", main, "--root", tmp, "--output", tmp / "a.json"), 0)
    found = json.loads((tmp / "a.json").read_text())["applications"]["www"]
    if (found["type"], found["options"]) != ("php 8.2", {"file": "/etc/php/8.2/fpm/php.ini"}):
        yield f"the application is {found}"


@case
def files_of_others(self, tmp):
    """A document is not written through a link that another user has made."""
    (tmp / "a.conf").write_text(POOL)
    (tmp / "target").write_text("kept")
    for name, owner, status in (("own", 0, 0), ("foreign", 12345, 1)):
        (tmp / name).symlink_to("target")
        os.chown(tmp / name, owner, owner, follow_symlinks=False)
        yield from unexpected(self.command("php-fpm", tmp / "a.conf", "--output", tmp / name), status)
        if ((tmp / "target").read_text() == "kept") != (status == 1):
            yield f"{name}: the file behind the link is {(tmp / 'target').read_text()[:40]!r}"
        if not (tmp / name).is_symlink():
            yield f"{name} is no link any more"
        (tmp / "target").write_text("kept")
    if left := {path.name for path in tmp.iterdir()} - {"a.conf", "target", "own", "foreign"}:
        yield f"files were left: {left}"


class Old(http.server.BaseHTTPRequestHandler):
    """The server that is replaced: its files, and three responses that Howdah does not have."""

    protocol_version = "HTTP/1.1"
    asked = []

    def do_GET(self):
        self.asked.append((self.command, self.headers["Host"], self.path))
        own = {"/moved": (301, b"", {"Location": f"http://{self.headers['Host']}/elsewhere"}),
               "/text.txt": (200, b"text", {"Content-Type": "text/plain", "X-Old": "yes"}),
               "/other.txt": (200, b"old", {"Content-Type": "text/plain"}),
               "/": (200, b'<a href="/text.txt"> <a href="deep/">', {"Content-Type": "text/html"})}
        status, body, fields = own.get(self.path.partition("?")[0], (404, b"none", {}))
        self.send_response(status)
        for name, value in ({"Content-Length": len(body)} | fields).items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body if self.command == "GET" else b"")

    do_HEAD = do_POST = do_GET

    def log_message(self, *_):
        pass


def old_server():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Old)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Old.asked = []
    return server


def new_document(tmp, port):
    (tmp / "site").mkdir(mode=0o755)
    for name, text in (("text.txt", "text"), ("other.txt", "new"),
                       ("index.html", '<a href="/text.txt"> <a href="deep/">')):
        (tmp / "site" / name).write_text(text)
        (tmp / "site" / name).chmod(0o644)
    document = {
        "listeners": {"*:1": {"pass": "routes/other"}, f"*:{port}": {"pass": "routes/site"}},
        "routes": {"other": [{"action": {"return": 500}}],
                   "site": [{"match": {"uri": "/moved"}, "action": {"return": 301, "location": "/elsewhere"}},
                            {"action": {"share": f"{tmp}/site$uri"}}]},
        "access_log": f"{tmp}/access.log"}
    (tmp / "unit.json").write_text(json.dumps(document))


LOG = """\
shop.example:80 10.0.0.1 - - [01/Jan/2026:00:00:00 +0000] "GET /text.txt?a=1 HTTP/1.1" 200 1
shop.example:80 10.0.0.1 - - [01/Jan/2026:00:00:00 +0000] "GET /text.txt?a=1 HTTP/1.1" 200 1
10.0.0.1 - - [01/Jan/2026:00:00:00 +0000] "HEAD /moved HTTP/1.1" 200 1
10.0.0.1 - - [01/Jan/2026:00:00:00 +0000] "GET /other.txt HTTP/1.1" 200 1
10.0.0.1 - - [01/Jan/2026:00:00:00 +0000] "GET /none HTTP/1.1" 404 1
10.0.0.1 - - [01/Jan/2026:00:00:00 +0000] "POST /form HTTP/1.1" 200 1
10.0.0.1 - - [01/Jan/2026:00:00:00 +0000] "DELETE /text.txt HTTP/1.1" 200 1
"""


@case
def replay(self, tmp):
    server = old_server()
    port = server.server_address[1]
    new_document(tmp, port)
    (tmp / "log").write_text(LOG)
    done = self.command("unit", tmp / "unit.json", "--output", tmp / "a.json", "--replay", tmp / "log",
                        "--against", f"http://127.0.0.1:{port}")
    yield from unexpected(done, 4, "2 lines have no GET or HEAD request", "4 requests, 3 with other responses",
                          "GET shop.example/text.txt?a=1: ", 'x-old absent (old: "yes")',
                          f"GET 127.0.0.1:{port}/other.txt: ", "body of 3 bytes (old: 3)", f"{port}/none: ")
    if any(method not in ("GET", "HEAD") for method, *_ in Old.asked):
        yield f"asked: {Old.asked}"
    if (tmp / "access.log").exists():
        yield "the access log of the document was written"
    if left := list(Path("/tmp").glob("howdah-import-[0-9]*")):
        yield f"left: {left}"
    server.shutdown()


@case
def crawl(self, tmp):
    server = old_server()
    port = server.server_address[1]
    new_document(tmp, port)
    done = self.command("unit", tmp / "unit.json", "--output", tmp / "a.json", "--crawl",
                        "--against", f"http://127.0.0.1:{port}")
    yield from unexpected(done, 4, "3 requests, 3 with other responses", "/text.txt: ", "/deep/: ")
    (tmp / "list").write_text("/moved\n")
    done = self.command("unit", tmp / "unit.json", "--output", tmp / "a.json", "--urls", tmp / "list",
                        "--against", f"http://127.0.0.1:{port}")
    yield from unexpected(done, 0, "1 requests, 0 with other responses")
    server.shutdown()
    server.server_close()
    done = self.command("unit", tmp / "unit.json", "--output", tmp / "a.json", "--urls", tmp / "list",
                        "--against", f"http://127.0.0.1:{port}")
    yield from unexpected(done, 1, f"127.0.0.1:{port}: ")


@case
def crawl_over_tls(self, tmp):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=old.example", "-days", "2",
                    "-keyout", tmp / "key.pem", "-out", tmp / "chain.pem"], check=True, capture_output=True)
    server = old_server()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp / "chain.pem", tmp / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    port = server.server_address[1]
    new_document(tmp, port)
    document = json.loads((tmp / "unit.json").read_text())
    certificate = {"chain": f"{tmp}/chain.pem", "key": f"{tmp}/key.pem"}
    document["listeners"][f"*:{port}"]["tls"] = {"certificate": certificate}
    (tmp / "unit.json").write_text(json.dumps(document))
    (tmp / "list").write_text("https://old.example/moved\n/other.txt\n")
    done = self.command("unit", tmp / "unit.json", "--output", tmp / "a.json", "--urls", tmp / "list",
                        "--against", f"https://127.0.0.1:{port}")
    yield from unexpected(done, 4, "2 requests, 2 with other responses", f"GET 127.0.0.1:{port}/other.txt: ",
                          'location "/elsewhere" (old: "http://old.example/elsewhere")')
    if ("GET", "old.example", "/moved") not in Old.asked:
        yield f"asked: {Old.asked}"
    server.shutdown()


@case
def files_of_sites(self, tmp):
    for name in ("shop", "static"):
        (tmp / name).mkdir(mode=0o755)
        (tmp / name / "index.html").write_text(name)
    (tmp / "shop/index.php").write_text("<?php echo 'script';")
    (tmp / "unit.json").write_text(json.dumps({
        "listeners": {"127.0.0.1:80": {"pass": "routes/hosts"}},
        "routes": {
            "hosts": [{"match": {"host": ["shop.example", "www.shop.example"]}, "action": {"pass": "routes/shop"}},
                      {"match": {"host": "static.example"}, "action": {"pass": "routes/static"}},
                      {"match": {"host": "other.example"}, "action": {"pass": "routes/other"}}],
            "shop": [{"match": {"uri": "/private/*"}, "action": {"return": 403}},
                     {"match": {"uri": "*.php"}, "action": {"pass": "applications/shop"}},
                     {"action": {"share": f"{tmp}/shop$uri", "fallback": {"pass": "applications/shop/front"}}}],
            "static": [{"action": {"share": f"{tmp}/static$uri"}}],
            "other": [{"action": {"proxy": "http://127.0.0.1:9"}}]},
        "applications": {"shop": {"type": "php", "user": "www-data", "targets": {
            "direct": {"root": f"{tmp}/shop"}, "front": {"root": f"{tmp}/shop", "script": "index.php"}}}}}))
    sites = tmp / "sites"
    done = self.command("unit", tmp / "unit.json", "--output", tmp / "a.json", "--sites", sites)
    yield from unexpected(done, 0, f"{sites}/shop.example.json: a site", f"{sites}/static.example.json: a site",
                          'no file of a site for other.example: it has "proxy"')
    if sorted(path.name for path in sites.iterdir()) != ["shop.example.json", "static.example.json"]:
        yield f"files: {list(sites.iterdir())}"
    site = json.loads((sites / "shop.example.json").read_text())
    if site.get("routes") != [{"match": {"uri": "/private/*"}, "action": {"return": 403}}]:
        yield f"what is closed is not closed: {site}"
    (tmp / "all.json").write_text(json.dumps({"sites": f"{sites}/*.json"}))
    done = subprocess.run([self.howdah, "check", "--syntax", tmp / "all.json"], capture_output=True, text=True)
    yield from unexpected(done, 0, "the configuration is valid")
